"""constrain: by name, feasible, helpful."""

from __future__ import annotations

import pickle

import pytest
import torch
from sklearn.datasets import load_digits
from torch import nn

import fwnet
from fwnet.domains import Unsized
from fwnet.optim import FrankWolfe, constrain, rows, whole


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv = nn.Conv2d(1, 4, 3)
        self.fc = nn.Linear(16, 8)
        self.out = nn.Linear(8, 8)


def trace_norm(weight: torch.Tensor) -> float:
    return float(torch.linalg.svdvals(weight.detach().double().flatten(1)).sum())


def test_the_snippet_of_the_documentation() -> None:
    net = Net()
    before = {name: p.detach().clone() for name, p in net.named_parameters()}
    opt = FrankWolfe(
        [
            {"params": net.fc.parameters(), "domain": fwnet.TraceNormBall(50.0)},
            {"params": net.conv.parameters(), "domain": None},
        ],
        lr=1e-3,
        momentum=0.9,
    )
    assert len(opt.param_groups) == 2
    groups = constrain(
        net, {"fc.weight": fwnet.TraceNormBall("init"), "*.bias": fwnet.LInfBall(1.0)}
    )
    for name, p in net.named_parameters():
        assert torch.equal(p, before[name])  # all lay inside
    assert groups[0]["domain"].radius == pytest.approx(trace_norm(net.fc.weight), rel=1e-9)
    names = [group["param_names"] for group in groups]
    expected = [["fc.weight"], ["conv.bias", "fc.bias", "out.bias"], ["conv.weight", "out.weight"]]
    assert names == expected
    assert groups[-1]["domain"] is None
    FrankWolfe(groups, lr=1e-3)


def test_a_radius_is_a_multiple_of_the_initial_norm() -> None:
    for text, factor in (("init", 1.0), ("2x init", 2.0), ("0.5x init", 0.5), ("2.5x init", 2.5)):
        net = Net()
        norm = trace_norm(net.fc.weight)
        groups = constrain(net, {"fc.weight": fwnet.TraceNormBall(text)})
        assert groups[0]["domain"].radius == pytest.approx(factor * norm, rel=1e-9)
        assert trace_norm(net.fc.weight) == pytest.approx(min(1.0, factor) * norm, rel=1e-6)
        FrankWolfe(groups)


def test_without_domains_matrices_and_convolutions_are_in_spectral_balls() -> None:
    net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(16, 8))
    net[0].bias.requires_grad_(False)
    before = {name: p.detach().clone() for name, p in net.named_parameters()}
    groups = constrain(net)
    balls = {g["param_names"][0]: g["domain"] for g in groups if g["domain"] is not None}
    assert list(balls) == ["0.weight", "3.weight"]
    for name, ball in balls.items():
        assert isinstance(ball, fwnet.SpectralBall)
        largest = torch.linalg.svdvals(before[name].double().flatten(1))[0]
        assert ball.radius == pytest.approx(8 * float(largest), rel=1e-9)
    assert groups[-1]["param_names"] == ["1.weight", "1.bias", "3.bias"]
    assert groups[-1]["domain"] is None
    for name, p in net.named_parameters():
        assert torch.equal(p, before[name])


def test_parameters_without_any_domain_are_said_to_be_adamws() -> None:
    net = Net()
    with pytest.warns(UserWarning, match=r"no parameter has a domain.*constrain\(net\)") as caught:
        opt = FrankWolfe(net.parameters())
    assert [w.filename for w in caught] == [__file__]
    pickle.loads(pickle.dumps(opt)).add_param_group({"params": [nn.Parameter(torch.zeros(2))]})
    FrankWolfe(constrain(net))
    FrankWolfe([{"params": net.parameters(), "domain": None}])  # it was said
    balls = {"params": net.fc.parameters(), "domain": fwnet.SpectralBall(9.0)}
    FrankWolfe([balls, {"params": net.out.parameters()}])


def digits() -> tuple[torch.Tensor, torch.Tensor]:
    X, y = load_digits(return_X_y=True)
    return torch.tensor(X / 16, dtype=torch.float32), torch.tensor(y)


def test_the_defaults_train_a_network_inside_its_balls() -> None:
    """scikit-learn's digits, ten epochs; the weights use a good part of their balls."""
    X, y = digits()
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    opt = FrankWolfe(constrain(net))
    worst = 0.0
    for t in range(10 * 45):
        rows = torch.arange(32 * t, 32 * t + 32) % 1440
        opt.zero_grad()
        nn.functional.cross_entropy(net(X[rows]), y[rows]).backward()
        opt.step()
        for group in opt.param_groups[:2]:
            size = float(group["domain"].norm(group["params"][0].detach().double()))
            worst = max(worst, size / group["domain"].radius)
    assert 0.2 < worst <= 1
    with torch.no_grad():
        right = (net(X[1440:]).argmax(1) == y[1440:]).double().mean()
    assert float(right) >= 0.9


def test_weights_outside_are_scaled_onto_the_sphere() -> None:
    net = Net()
    direction = net.fc.weight.detach() / net.fc.weight.detach().norm()
    constrain(net, {"fc.weight": fwnet.TraceNormBall(0.5), "out.*": whole(fwnet.L2Ball(1e-3))})
    assert trace_norm(net.fc.weight) == pytest.approx(0.5, rel=1e-6)
    torch.testing.assert_close(net.fc.weight.detach() / net.fc.weight.detach().norm(), direction)
    for p in net.out.parameters():
        assert float(p.detach().double().norm()) <= 1e-3


def test_domains_without_a_norm_take_the_nearest_point_or_their_start() -> None:
    net = Net()
    constrain(net, {"fc.bias": fwnet.Simplex(2.0), "out.weight": fwnet.Birkhoff(8)})
    assert float(net.fc.bias.detach().sum()) == pytest.approx(2.0, abs=1e-6)
    assert bool((net.fc.bias >= 0).all())
    torch.testing.assert_close(net.out.weight.detach(), torch.full((8, 8), 1 / 8))


def test_a_bias_under_a_ball_of_matrices_goes_to_adam() -> None:
    groups = constrain(Net(), {"fc.*": fwnet.TraceNormBall("init")})
    domains = {name: group["domain"] for group in groups for name in group["param_names"]}
    assert domains["fc.bias"] is None
    assert domains["fc.weight"] is not None


def test_the_first_pattern_decides() -> None:
    rules = {"fc.weight": fwnet.SpectralBall(9.0), "*.weight": fwnet.TraceNormBall(99.0)}
    groups = constrain(Net(), rules)
    assert [group["param_names"] for group in groups[:2]] == [
        ["fc.weight"],
        ["conv.weight", "out.weight"],
    ]


def test_tied_and_frozen_weights() -> None:
    net = Net()
    net.tied = nn.Linear(16, 8)
    net.tied.weight = net.fc.weight
    net.conv.requires_grad_(False)
    groups = constrain(net, {"tied.weight": fwnet.TraceNormBall("init")})
    assert groups[0]["param_names"] == ["tied.weight"]
    assert groups[0]["params"][0] is net.fc.weight
    rest = groups[1]["param_names"]
    assert rest == ["fc.bias", "out.weight", "out.bias", "tied.bias"]


ERRORS = [
    ({"fc.wieght": fwnet.L1Ball(1.0)}, "'fc.wieght' matches no parameter; did you mean fc.weight"),
    ({"fc": fwnet.L1Ball(1.0)}, "'fc' matches no parameter; it is a module: write 'fc.*'"),
    ({"x?z": fwnet.L1Ball(1.0)}, "'x?z' matches no parameter; the network has "),
    (
        {"*": fwnet.LInfBall(9.0), "fc.bias": fwnet.L1Ball(1.0)},
        "all parameters that 'fc.bias' matches (fc.bias) are taken by earlier patterns",
    ),
    (
        {"*.bias": fwnet.TraceNormBall(1.0)},
        "but TraceNormBall(radius=1.0) holds matrices; name a matrix, or choose a ball of vectors",
    ),
    (
        {"fc.bias": fwnet.TraceNormBall("init")},
        "constrain: 'fc.bias' matches only vectors (fc.bias)",
    ),
    ({0: fwnet.L1Ball(1.0)}, "constrain: a name must be a string; got 0."),
    ({"fc.weight": "init"}, "domain must be a fwnet domain, spectral(...), sign(...), row(...), "),
    ({"fc.weight": 3.0}, "or None for AdamW; got 3.0."),
    ({"fc.weight": fwnet.L1Ball}, "an object, not the class L1Ball: write L1Ball(...)"),
    (
        {"fc.weight": fwnet.Box(torch.zeros(3, 4), torch.ones(3, 4))},
        "fc.weight, flattened to a vector: Box(tensor(3, 4), tensor(3, 4)) has bounds of shape",
    ),
    ([("fc.weight", None)], "takes a dict, name -> domain; got list."),
    ({"conv.weight": fwnet.Birkhoff(3)}, "conv.weight: Birkhoff(n=3) takes 3 × 3 matrices; got"),
]


@pytest.mark.parametrize(("domains", "text"), ERRORS, ids=[text[:30] for _, text in ERRORS])
def test_bad_patterns_raise_a_clear_error(domains, text: str) -> None:
    with pytest.raises((TypeError, ValueError)) as error:
        constrain(Net(), domains)
    assert text in str(error.value)


@pytest.mark.parametrize("text", ["init*8", "8xinit ", "0x init", "-2x init"])
def test_a_misspelt_radius_is_explained(text: str) -> None:
    for ball in (fwnet.SpectralBall, fwnet.L1Ball):
        with pytest.raises(ValueError, match='a radius must be a number, "init", or a positive'):
            ball(text)
    with pytest.raises(TypeError, match=r"LpBall\(p=...\) must not be a string; got"):
        fwnet.LpBall("init")


def test_weights_that_are_tied_are_named_once() -> None:
    net = nn.ModuleDict({"a": nn.Linear(3, 3, bias=False), "b": nn.Linear(3, 3, bias=False)})
    net["b"].weight = net["a"].weight
    ball = fwnet.SpectralBall(9.0)
    with pytest.raises(ValueError, match=r"tied to parameters of earlier patterns: b.weight is a"):
        constrain(net, {"a.weight": ball, "b.weight": ball})


def test_values_that_cannot_be_constrained_are_refused_before_their_norm() -> None:
    with pytest.raises(TypeError, match=r"weight must be float32, .* got torch.complex64"):
        constrain(nn.Linear(3, 4, dtype=torch.complex64))
    net = nn.ParameterDict({"empty": torch.zeros(3, 0), "full": torch.ones(3, 2)})
    assert [group["param_names"] for group in constrain(net)] == [["full"], ["empty"]]


def test_layers_join_later_by_groups_with_names() -> None:
    net, late = nn.Linear(4, 3), nn.Linear(3, 3)
    opt = FrankWolfe(constrain(net))
    with pytest.raises(ValueError, match=r"Beside the groups of constrain\(net\), add"):
        opt.add_param_group({"params": late.parameters(), "domain": fwnet.SpectralBall(9.0)})
    for group in constrain(late):
        opt.add_param_group(group)
    late(net(torch.ones(2, 4))).square().sum().backward()
    before = late.weight.detach().clone()
    opt.step()
    assert opt.is_feasible()
    assert not torch.equal(before, late.weight)


def test_an_error_leaves_the_network_as_it_was() -> None:
    net = Net()
    before = net.fc.weight.detach().clone()
    with pytest.raises(ValueError, match=r"'out.wieght' matches no parameter"):
        constrain(net, {"fc.weight": fwnet.TraceNormBall(0.1), "out.wieght": fwnet.L1Ball(1.0)})
    assert torch.equal(net.fc.weight, before)


def test_other_bad_input() -> None:
    with pytest.raises(TypeError, match=r"constrain\(net, ...\) takes an nn.Module; got list"):
        constrain([], {})
    with pytest.raises(ValueError, match=r"'\*' matches no parameter; the network has none."):
        constrain(nn.ReLU(), {"*": fwnet.L1Ball(1.0)})
    with pytest.raises(ValueError, match="the network has no matrix or convolution to train"):
        constrain(nn.BatchNorm1d(3))
    with pytest.raises(ValueError, match="weight has no values yet, so it cannot be put into"):
        constrain(nn.LazyLinear(3), {"weight": fwnet.TraceNormBall(1.0)})
    net = Net()
    with torch.no_grad():
        net.out.weight[1, 2] = torch.nan
    for radius in (1.0, "init"):
        with pytest.raises(ValueError, match=r"out.weight must be finite; entry \(1, 2\) is nan."):
            constrain(net, {"out.weight": fwnet.TraceNormBall(radius)})
    nn.init.zeros_(net.fc.weight)
    with pytest.raises(
        ValueError, match=r"fc.weight, TraceNormBall\('init'\): the initial weights"
    ):
        constrain(net, {"fc.weight": fwnet.TraceNormBall("init")})


def test_a_radius_init_has_no_number_yet() -> None:
    ball = fwnet.LpBall(3.0, radius="init")
    assert isinstance(ball, Unsized)
    assert repr(ball) == "LpBall(3.0, radius='init')"
    assert ball.of_radius(2.0) == fwnet.LpBall(3.0, 2.0)
    problem = fwnet.LeastSquares(torch.eye(3), torch.ones(3))
    calls = [
        lambda: ball.lmo(torch.ones(3)),
        lambda: ball.start((3,)),
        lambda: ball.contains(torch.ones(3)),
        lambda: ball.diameter((3,)),
        lambda: fwnet.minimize(problem, ball),
    ]
    for call in calls:
        with pytest.raises(ValueError, match=r"has no radius yet: only fwnet.optim.constrain"):
            call()
    with pytest.raises(TypeError, match="must be a number; got 'large'"):
        fwnet.TraceNormBall("large")
    for text in ("2init", "3x", "-1x init", "0x init", "x init", "big init"):
        with pytest.raises(ValueError, match=rf"or a positive multiple of it .* got '{text}'"):
            fwnet.TraceNormBall(text)
    assert repr(fwnet.TraceNormBall("2x init")) == "TraceNormBall('2x init')"


def test_is_feasible_asks_every_parameter_in_its_own_layout() -> None:
    net = Net()
    opt = FrankWolfe(
        constrain(net, {"fc.weight": rows(fwnet.L2Ball(1.0)), "*.bias": fwnet.LInfBall(0.1)})
    )
    assert opt.is_feasible()
    with torch.no_grad():
        net.fc.weight[0] *= 1.1 / net.fc.weight[0].norm()
    assert not opt.is_feasible()


def test_a_network_in_place_of_parameters_is_refused_in_words() -> None:
    with pytest.raises(TypeError, match=r"got a Net. Write FrankWolfe\(constrain\(net\)\)"):
        FrankWolfe(Net())
    with pytest.raises(TypeError, match=r"got a L2Ball. Write FrankWolfe\(constrain\(net\)\)"):
        FrankWolfe(fwnet.L2Ball(1.0), Net().parameters())
