"""As torch expects of an optimizer: state, schedules, closures, compilation, several processes."""

from __future__ import annotations

import copy
import io
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import fwnet
import scripts
from fwnet.optim import ConditionalGradient, FrankWolfe, constrain, sign, spectral, whole

ROOT = Path(__file__).parents[2]

# A domain of vectors holds the whole weight here, and None means AdamW: test_constrain.py and
# test_layouts.py test the warnings.
pytestmark = pytest.mark.filterwarnings(
    "ignore:.* holds vectors, so all", "ignore:FrankWolfe. no parameter has a domain"
)


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 3, 3), nn.ReLU(), nn.Flatten(), nn.Linear(48, 8), nn.ReLU(), nn.Linear(8, 4)
    )


def data(rows: int = 12) -> tuple[Tensor, Tensor]:
    return torch.randn(rows, 1, 6, 6, generator=seeded(1)), torch.arange(rows) % 4


DOMAINS = {
    "0.weight": fwnet.SpectralBall(2.0),
    "3.weight": fwnet.TraceNormBall("init"),
    "5.weight": whole(fwnet.L1Ball("init")),
    "*.bias": fwnet.LInfBall(1.0),
}


def build(net: nn.Module) -> FrankWolfe:
    return FrankWolfe(constrain(net, DOMAINS), lr=0.02, averaging=8)


def train(net: nn.Module, opt: torch.optim.Optimizer, steps: int) -> None:
    X, y = data()
    for _ in range(steps):
        opt.zero_grad()
        nn.functional.cross_entropy(net(X), y).backward()
        opt.step()


def same(first: nn.Module, second: nn.Module) -> bool:
    pairs = zip(first.parameters(), second.parameters(), strict=True)
    return all(torch.equal(a, b) for a, b in pairs)


def averages(net: nn.Module, opt: FrankWolfe) -> dict[str, Tensor]:
    with opt.averaged():
        return copy.deepcopy(net.state_dict())


def test_a_saved_run_resumes_bit_for_bit_with_its_domains() -> None:
    net = network()
    opt = build(net)
    train(net, opt, 5)
    file = io.BytesIO()
    torch.save({"net": net.state_dict(), "opt": opt.state_dict()}, file)
    file.seek(0)
    saved = torch.load(file, weights_only=True)
    other = network()
    other.load_state_dict(saved["net"])
    again = FrankWolfe([{"params": group["params"]} for group in build(other).param_groups])
    again.load_state_dict(saved["opt"])
    chosen = [group["domain"] for group in again.param_groups]
    assert chosen == [group["domain"] for group in opt.param_groups]
    train(net, opt, 5)
    train(other, again, 5)
    assert same(net, other)
    theirs = averages(other, again)
    assert all(torch.equal(value, theirs[name]) for name, value in averages(net, opt).items())


def test_schedulers_move_the_rate() -> None:
    w = nn.Parameter(torch.zeros(4, 5))
    opt = FrankWolfe([w], lr=1.0, domain=fwnet.SpectralBall(1.0), rescale=None)
    scheduler = torch.optim.lr_scheduler.StepLR(opt, 1, gamma=0.0)
    w.grad = torch.randn(4, 5, generator=seeded(2))
    opt.step()
    scheduler.step()
    moved = w.detach().clone()
    opt.step()  # lr 0
    assert torch.equal(w, moved)


@pytest.mark.parametrize("lr", [-0.1, float("nan")])
def test_an_invalid_scheduled_rate_changes_nothing(lr: float) -> None:
    """A step of negative length would leave the ball."""
    w, free = nn.Parameter(torch.zeros(4, 5)), nn.Parameter(torch.zeros(3))
    opt = FrankWolfe([{"params": [free]}, {"params": [w], "domain": fwnet.SpectralBall(1.0)}])
    w.grad, free.grad = torch.ones(4, 5), torch.ones(3)
    opt.param_groups[1]["lr"] = lr
    with pytest.raises(ValueError, match="lr must be a finite number of at least 0; got"):
        opt.step()
    assert not w.any()
    assert not free.any()


def test_a_tensor_is_a_learning_rate_too() -> None:
    w, other = nn.Parameter(torch.zeros(4, 5)), nn.Parameter(torch.zeros(4, 5))
    w.grad = other.grad = torch.randn(4, 5, generator=seeded(2))
    FrankWolfe([w], lr=torch.tensor(0.125), domain=fwnet.TraceNormBall(1.0)).step()
    FrankWolfe([other], lr=0.125, domain=fwnet.TraceNormBall(1.0)).step()
    assert torch.equal(w, other)


def test_accumulated_gradients_equal_one_large_batch() -> None:
    X, y = data()
    nets = [network().double() for _ in range(2)]
    for net, parts in zip(nets, (1, 3), strict=True):
        opt = build(net)
        for _ in range(3):
            opt.zero_grad()
            for rows in torch.arange(12).chunk(parts):
                loss = nn.functional.cross_entropy(net(X[rows].double()), y[rows])
                (loss / parts).backward()
            opt.step()
    for a, b in zip(nets[0].parameters(), nets[1].parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-9)


def test_a_closure_is_called_and_its_loss_returned() -> None:
    w = nn.Parameter(torch.ones(3))
    opt = FrankWolfe([w], lr=0.1, domain=fwnet.LInfBall(2.0))

    def closure() -> Tensor:
        opt.zero_grad()
        loss = w.square().sum()
        loss.backward()
        return loss

    assert opt.step(closure).item() == 3.0
    assert float(w.detach().sum()) < 3.0


def test_a_compiled_training_step_takes_the_same_steps() -> None:
    X, y = data()
    nets = [network(), network()]
    for net, compiled in zip(nets, (False, True), strict=True):
        opt = build(net)

        def update(net: nn.Module = net, opt: FrankWolfe = opt) -> None:
            opt.zero_grad()
            nn.functional.cross_entropy(net(X), y).backward()
            opt.step()

        run = torch.compile(update, backend="eager") if compiled else update
        for _ in range(3):
            run()
    for a, b in zip(nets[0].parameters(), nets[1].parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-6)


WORKER = """
import sys, torch, torch.distributed as dist
from torch import nn
from optim.test_conventions import averages, build, data, network
place, rank = sys.argv[1], int(sys.argv[2])
dist.init_process_group("gloo", init_method=f"file://{place}", rank=rank, world_size=2)
net = nn.parallel.DistributedDataParallel(network())
opt = build(net.module)
X, y = data()
rows = torch.arange(12)[rank::2]
for _ in range(4):
    opt.zero_grad()
    nn.functional.cross_entropy(net(X[rows]), y[rows]).backward()
    opt.step()
means = {f"mean of {name}": value for name, value in averages(net.module, opt).items()}
torch.save(net.module.state_dict() | means, "state.pt")
dist.destroy_process_group()
"""


@pytest.mark.slow
def test_two_processes_agree_to_the_bit_and_with_one(tmp_path: Path) -> None:
    script, folders = tmp_path / "train.py", [tmp_path / str(rank) for rank in range(2)]
    script.write_text(WORKER)
    workers = [
        scripts.start([str(script), str(tmp_path / "meet"), folder.name], folder)
        for folder in folders
    ]
    for worker, folder in zip(workers, folders, strict=True):
        assert scripts.finish(worker) == 0, scripts.printed(folder)
    first, second = (torch.load(f / "state.pt", weights_only=True) for f in folders)
    single = network()
    opt = build(single)
    train(single, opt, 4)
    means = {f"mean of {name}": value for name, value in averages(single, opt).items()}
    for name, value in (single.state_dict() | means).items():
        assert torch.equal(first[name], second[name])
        torch.testing.assert_close(first[name], value, rtol=0, atol=1e-5)


ERRORS = [
    (lambda w: FrankWolfe([w], lr=-1.0), "lr must be a finite number of at least 0; got -1.0."),
    (lambda w: FrankWolfe([w], lr="0.1"), "lr must be a number; got '0.1'."),
    (lambda w: FrankWolfe([w], lr=None), "lr must be a number; got None."),
    (lambda w: FrankWolfe([w], lr=torch.ones(2)), "lr must be a number; got tensor([1., 1.])."),
    (lambda w: FrankWolfe([w], momentum=1.0), "momentum must lie in [0, 1); got 1.0."),
    (lambda w: FrankWolfe([w], momentum=None), "momentum must be a number; got None."),
    (lambda w: FrankWolfe([w], averaging=-1), "averaging must be a finite number of at least 0; "),
    (lambda w: FrankWolfe([w], averaging="ema"), "averaging must be a number; got 'ema'."),
    (lambda w: FrankWolfe([w], betas=0.9), "betas must be two numbers in [0, 1); got 0.9."),
    (lambda w: FrankWolfe([w], betas=(0.9, 1.0)), "betas[1] must lie in [0, 1); got 1.0."),
    (lambda w: FrankWolfe([w], eps=-1.0), "eps must be a finite number of at least 0; got -1.0."),
    (lambda w: FrankWolfe([w], weight_decay=-1.0), "weight_decay must be a finite number of at"),
    (
        lambda w: FrankWolfe([{"params": [w], "domian": fwnet.L1Ball(9.0)}]),
        "a group has the option 'domian'; did you mean 'domain'?",
    ),
    (
        lambda w: FrankWolfe([{"params": [w], "norm": spectral(9.0)}]),
        'a group of FrankWolfe takes a domain, not a norm: {"domain": ...}.',
    ),
    (
        lambda w: ConditionalGradient([w], lr=2.0),
        "lr must be at most 1, a full step to the vertex; got 2.0.",
    ),
    (
        lambda w: FrankWolfe([nn.Parameter(w / 0)], domain=fwnet.LInfBall(1.0)),
        "parameter 0 of shape (4, 5) must be finite; entry (0, 0) is inf.",
    ),
    (
        lambda w: FrankWolfe(nn.LazyLinear(3).parameters(), domain=fwnet.TraceNormBall()),
        "parameter 0 of unknown shape has no values yet, so it cannot be put into a domain",
    ),
    (
        lambda w: FrankWolfe([nn.Parameter(w.to("meta"))], domain=fwnet.TraceNormBall()),
        "parameter 0 of shape (4, 5) has no values yet, so it cannot be put into a domain",
    ),
    (lambda w: FrankWolfe([w], rescale="norm"), "rescale must be one of (None, 'vertex', 'diam"),
    (lambda w: FrankWolfe([w], domain=3.0), "domain must be a fwnet domain, spectral(...), sign"),
    (lambda w: FrankWolfe([w], oracle=fwnet.Softmin()), "oracle must be PowerIteration(), Soft"),
    (
        lambda w: FrankWolfe([w], domain=fwnet.SpectralBall(), oracle=fwnet.PowerIteration()),
        "PowerIteration supports only TraceNormBall; got SpectralBall(radius=1.0).",
    ),
    (
        lambda w: FrankWolfe([w], domain=fwnet.Birkhoff(3)),
        "parameter 0 of shape (4, 5): Birkhoff(n=3) takes 3 × 3 matrices; got shape (4, 5).",
    ),
    (
        lambda w: FrankWolfe([("fc.weight", w)], domain=fwnet.Box(torch.zeros(3), torch.ones(3))),
        "fc.weight, flattened to a vector: Box(tensor(3,), tensor(3,)) has bounds of shape (3,); "
        "got shape (20,).",
    ),
    (
        lambda w: FrankWolfe([w], domain=fwnet.TraceNormBall("init")),
        "TraceNormBall('init') takes its radius from the initial weights: pass it to fwnet.optim",
    ),
    (
        lambda w: FrankWolfe([w], domain=fwnet.TraceNormBall(0.5)),
        "must start inside TraceNormBall(radius=0.5); it has norm 4.47214. Call fwnet.optim.con",
    ),
    (
        lambda w: FrankWolfe([w], domain=fwnet.Simplex()),
        "must start inside Simplex(radius=1.0); it is outside. Call fwnet.optim.constrain",
    ),
    (
        lambda w: FrankWolfe([nn.Parameter(w.bfloat16())], domain=fwnet.Simplex(20.0)),
        "must be float32 or float64 to stay in Simplex(radius=20.0); got torch.bfloat16, in which",
    ),
    (
        lambda w: FrankWolfe([nn.Parameter(w.to(torch.complex64))], domain=fwnet.LInfBall(5.0)),
        "must be float32, float64, bfloat16 or float16 to stay in LInfBall(radius=5.0); got torch",
    ),
    (
        lambda w: FrankWolfe([nn.Parameter(torch.zeros(0, 3))], domain=fwnet.TraceNormBall()),
        "must not be empty; got shape (0, 3).",
    ),
    (lambda w: fwnet.TraceNormBall(0.0), "TraceNormBall(radius=...) must be a positive finite"),
    (lambda w: spectral(0.0), "spectral(radius=...) must be a positive finite number; got 0.0."),
    (lambda w: sign(float("nan")), "sign(radius=...) must be a positive finite number; got nan."),
]


@pytest.mark.parametrize(("call", "text"), ERRORS, ids=[text[:40] for _, text in ERRORS])
def test_bad_input_raises_a_clear_error(call, text: str) -> None:
    with pytest.raises((TypeError, ValueError)) as error:
        call(nn.Parameter(torch.ones(4, 5)))
    assert text in str(error.value)


def test_a_group_that_does_not_fit_is_not_added() -> None:
    opt = FrankWolfe([nn.Parameter(torch.zeros(3))])
    with pytest.raises(ValueError, match="must start inside"):
        opt.add_param_group({"params": [nn.Parameter(torch.ones(3))], "domain": fwnet.L1Ball(1.0)})
    assert len(opt.param_groups) == 1


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_gradient_that_is_not_finite_changes_nothing(value: float) -> None:
    w, free = nn.Parameter(torch.zeros(2, 3)), nn.Parameter(torch.zeros(4))
    groups = [
        {"params": [("fc.bias", free)]},
        {"params": [("fc.weight", w)], "domain": fwnet.TraceNormBall(1.0)},
    ]
    opt = FrankWolfe(groups)
    w.grad, free.grad = torch.ones(2, 3), torch.ones(4)
    opt.step()
    before, also = w.detach().clone(), free.detach().clone()
    w.grad[1, 2] = value
    with pytest.raises(ValueError, match=r"gradient of fc.weight must be finite; entry \(1, 2\)"):
        opt.step()
    assert torch.equal(w, before)
    assert torch.equal(free, also)
    w.grad[1, 2] = 1.0
    opt.step()  # nothing was spoiled
    assert bool(torch.isfinite(w).all())


def test_a_state_of_adamw_keeps_the_domains() -> None:
    layer = nn.Linear(3, 2)
    adam = torch.optim.Adam(layer.parameters(), lr=0.25)
    layer(torch.ones(1, 3)).sum().backward()
    adam.step()
    opt = FrankWolfe(layer.parameters(), domain=fwnet.TraceNormBall(9.0))
    opt.load_state_dict(adam.state_dict())
    assert opt.param_groups[0]["domain"] == fwnet.TraceNormBall(9.0)
    assert opt.param_groups[0]["lr"] == 0.25
    opt.step()


def test_a_domain_can_be_added_and_removed() -> None:
    w = nn.Parameter(torch.zeros(3, 4))
    opt = FrankWolfe([w], lr=0.1)
    w.grad = torch.ones(3, 4)
    for domain in (None, fwnet.TraceNormBall(0.5), fwnet.SpectralBall(0.5), None):
        opt.param_groups[0]["domain"] = domain
        before = w.detach().clone()
        opt.step()
        assert not torch.equal(w, before)
        if domain is not None:
            assert bool(domain.contains(w.detach()))


def test_options_of_other_names_belong_to_the_user() -> None:
    w = nn.Parameter(torch.zeros(3))
    group = {"params": [w], "name": "head", "lr_scale": 0.5, "layer": 3}
    assert FrankWolfe([group]).param_groups[0]["lr_scale"] == 0.5


def test_a_state_of_another_network_is_refused() -> None:
    net, other = nn.Linear(3, 2), nn.Linear(4, 2)
    opt = FrankWolfe(net.parameters(), domain=fwnet.TraceNormBall(9.0))
    net(torch.ones(1, 3)).sum().backward()
    opt.step()
    again = FrankWolfe(other.named_parameters(), domain=fwnet.TraceNormBall(9.0))
    text = r"another network: weight has shape \(2, 4\), and its momentum \(2, 3\)\."
    with pytest.raises(ValueError, match=text):
        again.load_state_dict(opt.state_dict())


def test_weights_that_do_not_belong_to_a_loaded_state_are_noticed() -> None:
    nets, opts = [nn.Linear(3, 2), nn.Linear(3, 2)], []
    for net, scale in zip(nets, (0.1, 100.0), strict=True):
        nn.init.constant_(net.weight, scale)
        net(torch.ones(1, 3)).sum().backward()
        opts.append(FrankWolfe(net.named_parameters(), domain=fwnet.TraceNormBall(10 * scale)))
    opts[0].step()
    opts[1].load_state_dict(opts[0].state_dict())
    with pytest.raises(ValueError, match=r"weight must start inside TraceNormBall\(radius=1.0\)"):
        opts[1].step()
    nets[1].load_state_dict(nets[0].state_dict())
    opts[1].step()


def test_a_state_of_adamw_loads() -> None:
    ours, theirs = nn.Parameter(torch.ones(3)), nn.Parameter(torch.ones(3))
    adamw = torch.optim.AdamW([theirs], lr=0.1, weight_decay=0.0)
    theirs.grad = torch.tensor([1.0, 2.0, -1.0])
    adamw.step()
    opt = FrankWolfe([ours])
    opt.load_state_dict(copy.deepcopy(adamw.state_dict()))
    ours.data, ours.grad = theirs.detach().clone(), theirs.grad.clone()
    adamw.step()
    opt.step()
    assert torch.equal(ours, theirs)


def test_conditional_gradient_in_closed_form() -> None:
    """Weights outside of the ball: the distance shrinks by 1 − lr; without the pull it stays."""
    G = torch.randn(6, 4, generator=seeded(3), dtype=torch.float64)
    u, _, vh = torch.linalg.svd(G, full_matrices=False)
    vertices = {
        "spectral": -3.0 * (6 / 4) ** 0.5 * (u @ vh),
        "sign": -3.0 / 4 * G.sign(),
        "row": -3.0 / 2 * G / G.norm(dim=1, keepdim=True),
    }
    for name, vertex in vertices.items():
        for constrained in (True, False):
            w = nn.Parameter(torch.full((6, 4), 10.0, dtype=torch.float64))
            norm = getattr(fwnet.optim, name)(3.0)
            options = {"oracle": fwnet.NewtonSchulz(8)} if name == "spectral" else {}
            opt = ConditionalGradient([w], 0.25, norm, constrained=constrained, **options)
            w.grad = G.clone()
            opt.step()
            expected = (7.5 if constrained else 10.0) + 0.25 * vertex
            torch.testing.assert_close(w.detach(), expected, rtol=0, atol=1e-8)


def test_every_group_can_be_constrained_or_not() -> None:
    pulled, free = (nn.Parameter(torch.full((2, 2), 4.0)) for _ in range(2))
    groups = [{"params": [pulled]}, {"params": [free], "constrained": False}]
    opt = ConditionalGradient(groups, 0.5, sign(2.0), momentum=0.0)
    pulled.grad, free.grad = torch.ones(2, 2), torch.ones(2, 2)
    opt.step()
    assert torch.equal(pulled.detach(), torch.full((2, 2), 0.5 * 4.0 - 0.5))
    assert torch.equal(free.detach(), torch.full((2, 2), 4.0 - 0.5))


def test_conditional_gradient_trains_and_saves() -> None:
    net = network()
    groups = [
        {"params": net[:4].parameters(), "norm": spectral(3.0)},
        {"params": net[5].parameters(), "norm": sign(20.0)},
    ]
    opt = ConditionalGradient(groups, lr=0.02)
    X, y = data()
    before = float(nn.functional.cross_entropy(net(X), y).detach())
    train(net, opt, 80)
    assert float(nn.functional.cross_entropy(net(X), y).detach()) < 0.5 * before
    again = ConditionalGradient([{"params": g["params"]} for g in opt.param_groups])
    again.load_state_dict(opt.state_dict())
    assert [g["domain"] for g in again.param_groups] == [spectral(3.0), sign(20.0)]
