"""rows, columns, stack, whole: which parts of a weight are points, and batches of weights."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import fwnet
from fwnet.optim import FrankWolfe, columns, constrain, rows, spectral, stack, whole

F64 = torch.float64


def noise(*shape: int, seed: int = 0, dtype: torch.dtype = F64) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def steps(opt: FrankWolfe, count: int = 4, seed: int = 10) -> None:
    for t in range(count):
        for k, group in enumerate(opt.param_groups):
            for j, w in enumerate(group["params"]):
                w.grad = noise(*w.shape, seed=seed + 100 * t + 10 * k + j, dtype=w.dtype)
        opt.step()


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("domain", [fwnet.Simplex(2.0), fwnet.L1Ball(0.3)], ids=str)
def test_every_row_or_column_takes_the_steps_of_a_vector_of_its_own(domain, transposed) -> None:
    begin = domain.project(noise(5, 7).abs())
    w = nn.Parameter(begin.T.clone() if transposed else begin.clone())
    separate = [nn.Parameter(row.clone()) for row in begin]
    layout = columns(domain) if transposed else rows(domain)
    opt = FrankWolfe([w], domain=layout, rescale=None, lr=0.1)
    single = FrankWolfe(separate, domain=domain, rescale=None, lr=0.1)
    for seed in range(4):
        gradient = noise(5, 7, seed=seed)
        w.grad = gradient.T.clone() if transposed else gradient.clone()
        for part, row in zip(separate, gradient, strict=True):
            part.grad = row.clone()
        opt.step()
        single.step()
    moved = w.detach().T if transposed else w.detach()
    torch.testing.assert_close(
        moved, torch.stack([p.detach() for p in separate]), rtol=0, atol=1e-14
    )


def test_rows_of_an_embedding_stay_on_their_simplices() -> None:
    net = nn.Embedding(30, 8)
    opt = FrankWolfe(constrain(net, {"weight": rows(fwnet.Simplex())}), lr=1e-2)
    steps(opt, 200)
    x = net.weight.detach().double()
    assert float((x.sum(1) - 1).abs().max()) <= 1e-6
    assert float(x.min()) >= 0


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_points_that_never_had_a_gradient_stay(momentum: float) -> None:
    """Rows of absent tokens and experts without inputs; the others move as on their own."""
    table, known = nn.Embedding(6, 4, dtype=F64), nn.Embedding(3, 4, dtype=F64)
    known.weight.data.copy_(table.weight[:3].detach())
    start = table.weight.detach().clone()
    for embedding in (table, known):
        domains = {"weight": rows(fwnet.L2Ball(3.0))}
        opt = FrankWolfe(constrain(embedding, domains), momentum=momentum)
        for seed in range(3):
            embedding.weight.grad = torch.zeros_like(embedding.weight)
            embedding.weight.grad[:2] = noise(2, 4, seed=seed)
            embedding.weight.grad[2] = 1e-200  # its square is 0
            opt.step()
    assert torch.equal(table.weight[3:], start[3:])
    assert torch.equal(table.weight[:3], known.weight)
    assert bool((table.weight[:3] != start[:3]).any(1).all())
    experts = nn.Parameter(noise(3, 4, 5))
    start = experts.detach().clone()
    opt = FrankWolfe([experts], domain=stack(fwnet.SpectralBall(9.0)), momentum=momentum)
    experts.grad = noise(3, 4, 5, seed=1) * torch.tensor([1.0, 0.0, 0.0])[:, None, None]
    opt.step()
    assert torch.equal(experts[1:], start[1:])
    assert not torch.equal(experts[0], start[0])


def test_filters_of_a_convolution_are_rows() -> None:
    net = nn.Conv2d(3, 4, 2)
    groups = constrain(net, {"weight": rows(fwnet.L2Ball("0.5x init"))})
    longest = float(net.weight.detach().flatten(1).norm(dim=1).max())
    opt = FrankWolfe(groups, lr=1e-2)
    steps(opt, 20)
    radius = groups[0]["domain"].domain.radius
    assert longest <= radius <= 3 * longest
    assert float(net.weight.detach().double().flatten(1).norm(dim=1).max()) <= radius * (1 + 1e-6)


@pytest.mark.parametrize(
    ("domain", "oracle"),
    [
        (fwnet.SpectralBall(1.5), None),
        (fwnet.TraceNormBall(2.0), None),
        (fwnet.TraceNormBall(2.0), fwnet.PowerIteration(1, warm_start=False)),
        (fwnet.TraceNormBall(2.0), fwnet.SoftTraceNorm(2.0)),
        (fwnet.RowBall(0.7), None),
        (fwnet.L1Ball(2.0), None),
    ],
    ids=str,
)
@pytest.mark.parametrize("rescale", ["vertex", "gradient", None])
def test_a_stack_of_experts_is_a_batch_of_matrices(domain, oracle, rescale) -> None:
    begin = 0.01 * noise(3, 4, 6)
    w = nn.Parameter(begin.clone())
    separate = [nn.Parameter(part.clone()) for part in begin]
    options = {"lr": 0.01, "rescale": rescale, "oracle": oracle}
    opt = FrankWolfe([w], domain=stack(domain), **options)
    plain = whole(domain)
    singles = [FrankWolfe([part], domain=plain, **options) for part in separate]
    if isinstance(oracle, fwnet.PowerIteration):  # the same first v for every expert
        opt.state[w]["oracle"] = oracle.begin(domain, separate[0]).expand(3, 6).clone()
    for seed in range(4):
        w.grad = noise(3, 4, 6, seed=seed)
        opt.step()
        for part, gradient, single in zip(separate, w.grad, singles, strict=True):
            part.grad = gradient.clone()
            single.step()
    torch.testing.assert_close(
        w.detach(), torch.stack([p.detach() for p in separate]), rtol=0, atol=1e-12
    )


class Experts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Parameter(noise(4, 6, 5, dtype=torch.float32))
        self.conv = nn.Conv1d(2, 3, 5)


def test_constrain_knows_experts_from_convolutions() -> None:
    net = Experts()
    groups = {g["param_names"][0]: g["domain"] for g in constrain(net) if g["domain"] is not None}
    assert isinstance(groups["conv.weight"], fwnet.SpectralBall)
    assert groups["up"].kind == "stack"
    largest = torch.linalg.svdvals(net.up.detach().double())[:, 0].max()
    assert groups["up"].domain.radius == pytest.approx(8 * float(largest), rel=1e-9)
    FrankWolfe(constrain(net, {"up": stack(spectral(9.0)), "conv.weight": fwnet.SpectralBall(9.0)}))
    text = r"up of shape \(4, 6, 5\) is taken as one 4 × 30 matrix in SpectralBall\(radius=99.0\)"
    with pytest.warns(UserWarning, match=text):
        constrain(net, {"up": fwnet.SpectralBall(99.0)})


def test_a_vector_domain_on_a_matrix_warns_unless_the_meaning_is_written() -> None:
    w = nn.Parameter(torch.full((4, 5), 1 / 20))
    text = r"all 20 entries of shape \(4, 5\) are one point\. Write rows\(Simplex\(radius=1\.0\)\)"
    with pytest.warns(UserWarning, match=text):
        FrankWolfe([w], domain=fwnet.Simplex())
    FrankWolfe([w], domain=whole(fwnet.Simplex()))
    FrankWolfe([w], domain=fwnet.LInfBall(1.0))  # means the same for rows
    FrankWolfe([w], domain=fwnet.Box(torch.zeros(20), torch.ones(20)))  # does not fit a row
    FrankWolfe([nn.Parameter(torch.full((5,), 0.2))], domain=fwnet.Simplex())


def test_a_vector_domain_on_a_matrix_warns_once_at_the_line_that_chose_it() -> None:
    net = nn.Linear(5, 4)
    rules: dict[str, Any] = {"weight": fwnet.L2Ball("2x init"), "bias": fwnet.L2Ball(3.0)}
    text = r"^weight: L2Ball\('2x init'\) holds vectors.* Write rows\(L2Ball\('2x init'\)\)"
    with pytest.warns(UserWarning, match=text) as caught:
        groups = constrain(net, rules)
    assert [w.filename for w in caught] == [__file__]
    opt = FrankWolfe(groups)  # silent: warnings are errors here
    with pytest.warns(UserWarning, match="are one point") as caught:
        FrankWolfe(net.named_parameters(), domain=fwnet.L2Ball(9.0))
    assert [w.filename for w in caught] == [__file__]
    group = {"params": [("more", nn.Parameter(torch.zeros(2, 3)))], "domain": fwnet.L1Ball(1.0)}
    with pytest.warns(UserWarning, match="are one point") as caught:
        opt.add_param_group(group)
    assert [w.filename for w in caught] == [__file__]


def test_layouts_survive_a_state_dict() -> None:
    for layout in (rows(fwnet.L1Ball(9.0)), stack(spectral(9.0)), None):
        w = nn.Parameter(torch.zeros(2, 3, 4))
        opt = FrankWolfe([{"params": [w], "domain": layout}])
        steps(opt, 1)
        again = FrankWolfe([{"params": [nn.Parameter(torch.zeros(2, 3, 4))], "domain": None}])
        again.load_state_dict(opt.state_dict())
        assert again.param_groups[0]["domain"] == layout


def test_layouts_refuse_what_they_cannot_hold() -> None:
    with pytest.raises(
        TypeError, match=r"rows\(domain\) takes a domain of vectors such as Simplex"
    ):
        rows(fwnet.SpectralBall(1.0))
    with pytest.raises(TypeError, match=r"stack\(domain\) takes a fwnet domain; got 3\.0"):
        stack(3.0)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="'bias' matches only vectors"):
        constrain(nn.Linear(3, 4), {"bias": rows(fwnet.Simplex())})


@pytest.mark.parametrize(
    "domain", [fwnet.SpectralBall, fwnet.TraceNormBall, fwnet.L2Ball, fwnet.LInfBall], ids=str
)
def test_weights_of_one_shape_move_as_they_do_on_their_own(domain) -> None:
    """Different radii and learning rates in one batch."""
    begin = [0.01 * noise(6, 4, seed=k) for k in range(4)]
    together = [nn.Parameter(x.clone()) for x in begin]
    separate = [nn.Parameter(x.clone()) for x in begin]
    radii, rates = (0.5, 0.5, 1.0, 2.0), (0.01, 0.02, 0.01, 0.3)

    def groups(weights: list[nn.Parameter]) -> list[dict[str, object]]:
        return [
            {"params": [w], "domain": whole(domain(r)), "lr": lr}
            for w, r, lr in zip(weights, radii, rates, strict=True)
        ]

    opt = FrankWolfe(groups(together))
    singles = [FrankWolfe([group]) for group in groups(separate)]
    for seed in range(5):
        for k, (a, b) in enumerate(zip(together, separate, strict=True)):
            a.grad = noise(6, 4, seed=10 * seed + k)
            b.grad = a.grad.clone()
        opt.step()
        for single in singles:
            single.step()
    for a, b in zip(together, separate, strict=True):
        torch.testing.assert_close(a.detach(), b.detach(), rtol=0, atol=1e-13)


def test_a_convolution_and_a_matrix_of_its_folded_shape_move_as_on_their_own() -> None:
    begin = 0.01 * noise(4, 6)
    conv, matrix = nn.Parameter(begin.reshape(4, 2, 3, 1).clone()), nn.Parameter(begin.clone())
    opt = FrankWolfe([conv, matrix], domain=fwnet.SpectralBall(1.0))
    for seed in range(3):
        matrix.grad = noise(4, 6, seed=seed)
        conv.grad = matrix.grad.reshape(4, 2, 3, 1).clone()
        opt.step()
    assert not torch.equal(matrix.detach(), begin)
    torch.testing.assert_close(conv.detach().flatten(1), matrix.detach(), rtol=0, atol=1e-14)


def test_a_rate_may_be_a_tensor_of_one_entry() -> None:
    moved = []
    for lr in (0.125, torch.tensor(0.125), torch.tensor([0.125])):
        w, free = nn.Parameter(torch.zeros(4, 5)), nn.Parameter(torch.zeros(3))
        opt = FrankWolfe(
            [{"params": [w], "domain": fwnet.TraceNormBall(1.0)}, {"params": [free]}], lr
        )
        steps(opt, 2)
        moved.append(torch.cat([w.detach().flatten(), free.detach()]))
    assert torch.equal(moved[0], moved[1])
    assert torch.equal(moved[0], moved[2])


def test_weights_changed_by_hand_are_moved_inside_at_the_next_step() -> None:
    w = nn.Parameter(torch.zeros(8, 8))
    opt = FrankWolfe([w], domain=fwnet.SpectralBall(1.0))
    steps(opt, 3)
    with torch.no_grad():
        w.copy_(50 * torch.eye(8))
    steps(opt, 1)
    assert float(torch.linalg.svdvals(w.detach().double())[0]) <= 1
