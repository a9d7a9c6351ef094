"""Modern training loops: half precision, shards, scalers, averages of models, devices."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import fwnet
import scripts
from fwnet.optim import FrankWolfe, constrain, rows, stack, whole

BALLS = [
    fwnet.TraceNormBall(2.0),
    fwnet.SpectralBall(0.3),
    fwnet.RowBall(0.5),
    whole(fwnet.L1Ball(2.0)),
    rows(fwnet.L2Ball(0.5)),
    fwnet.LInfBall(0.1),
    whole(fwnet.LpBall(3.0, 0.5)),
    whole(fwnet.KSparseBall(5, 0.5)),
]


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def norm_over_radius(ball: object, weight: Tensor) -> float:
    """The largest norm of a point over the radius, in float64."""
    x = weight.detach().double()
    if isinstance(ball, fwnet.domains.NormBall):
        points = x.flatten() if ball.event_dim == 1 else x
        return float(ball.norm(points)) / ball.radius
    points = x.flatten() if ball.kind == "whole" else x
    return float(ball.domain.norm(points).max()) / ball.domain.radius


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("ball", BALLS, ids=str)
def test_half_precision_weights_are_rounded_inward(ball, dtype: torch.dtype) -> None:
    """From the sphere, where rounding to nearest would leave the ball."""
    net = nn.Linear(24, 16, bias=False)
    with torch.no_grad():
        net.weight.copy_(10 * torch.randn(16, 24, generator=seeded(1)))
    net.to(dtype)
    opt = FrankWolfe(constrain(net, {"weight": ball}), lr=1e-3, averaging=8)
    assert norm_over_radius(ball, net.weight) <= 1
    steady = -net.weight.detach().clone()
    noise = seeded(2)
    for t in range(60):
        opt.param_groups[0]["lr"] = (1e-1, 1e-3, 1e-5)[t // 10 % 3]
        random = torch.randn(16, 24, generator=noise).to(dtype)
        net.weight.grad = steady if t % 20 < 10 else random
        opt.step()
        assert 0 < norm_over_radius(ball, net.weight) <= 1
        assert norm_over_radius(ball, opt.state[net.weight]["master"]) <= 1 + 1e-6
    with opt.averaged():
        assert 0 < norm_over_radius(ball, net.weight) <= 1
    assert net.weight.dtype == dtype


def test_masters_take_steps_that_half_precision_would_lose() -> None:
    """A step of 1e-4 vanishes beside 1 in bfloat16; the float32 master keeps it."""
    half = nn.Parameter(torch.full((4, 4), 0.5, dtype=torch.bfloat16))
    full = nn.Parameter(torch.full((4, 4), 0.5))
    for w in (half, full):
        opt = FrankWolfe([w], lr=1e-4, domain=fwnet.LInfBall(1.0), rescale=None)
        for _ in range(1000):
            w.grad = -torch.ones_like(w)
            opt.step()
    torch.testing.assert_close(half.float(), full, rtol=2**-7, atol=0)
    assert float(half.detach().float().min()) > 0.53


def test_masters_survive_a_state_dict_bit_for_bit() -> None:
    nets = [nn.Linear(6, 5).bfloat16() for _ in range(2)]
    nets[1].load_state_dict(nets[0].state_dict())
    opts = [FrankWolfe(constrain(net, {"weight": fwnet.SpectralBall(2.0)})) for net in nets]

    def walk(net: nn.Module, opt: FrankWolfe, seed: int) -> None:
        for t in range(3):
            for p in net.parameters():
                p.grad = torch.randn(p.shape, generator=seeded(10 * seed + t)).to(p.dtype)
            opt.step()

    walk(nets[0], opts[0], 0)
    nets[1].load_state_dict(nets[0].state_dict())
    opts[1].load_state_dict(copy.deepcopy(opts[0].state_dict()))
    assert opts[1].state[nets[1].weight]["master"].dtype == torch.float32
    for net, opt in zip(nets, opts, strict=True):
        walk(net, opt, 1)
    assert torch.equal(nets[0].weight, nets[1].weight)
    first, second = (opt.state[net.weight]["master"] for net, opt in zip(nets, opts, strict=True))
    assert torch.equal(first, second)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_a_network_in_half_precision_follows_the_one_in_float32(dtype: torch.dtype) -> None:
    """Its biases too, which AdamW moves: in float16 alone, eps is 0 and they become NaN."""
    nets = [nn.Sequential(nn.Linear(8, 6), nn.ReLU(), nn.Linear(6, 3)).to(dtype) for _ in range(2)]
    nets[1].load_state_dict(nets[0].state_dict())
    nets[1].float()
    X, y = torch.randn(32, 8, generator=seeded(0)), torch.arange(32) % 3
    for net in nets:
        opt = FrankWolfe(constrain(net))
        for _ in range(30):
            opt.zero_grad()
            nn.functional.cross_entropy(net(X.to(net[0].weight.dtype)).float(), y).backward()
            opt.step()
    for name, value in nets[0].state_dict().items():
        other = nets[1].state_dict()[name]
        error = float((value - other).abs().max())  # 30 steps of 5e-3 move an entry by up to .15
        assert error < 0.02, (name, error)


PRECISIONS = [torch.float32, torch.float64, torch.bfloat16, torch.float16]


@pytest.mark.parametrize("how", ["load", "convert"])
@pytest.mark.parametrize("new", PRECISIONS, ids=str)
@pytest.mark.parametrize("old", PRECISIONS, ids=str)
def test_a_run_continues_in_another_precision(old: torch.dtype, new: torch.dtype, how: str) -> None:
    """Whether the network is converted, or a state is loaded into one of another precision."""

    def walk(net: nn.Module, opt: FrankWolfe, seed: int) -> None:
        for t in range(3):
            for p in net.parameters():
                p.grad = torch.randn(p.shape, generator=seeded(10 * seed + t)).to(p.dtype)
            opt.step()

    def build(net: nn.Module) -> FrankWolfe:
        return FrankWolfe(constrain(net, {"weight": fwnet.TraceNormBall(1.0)}), averaging=8)

    net = nn.Linear(6, 5, dtype=old)
    opt, whole_run = build(net), copy.deepcopy(net).double()
    reference = build(whole_run)
    walk(net, opt, 0)
    walk(whole_run, reference, 0)
    if how == "convert":
        net.to(new)
    else:
        state = opt.state_dict()
        net = copy.deepcopy(net).to(new)
        opt = build(net)
        opt.load_state_dict(state)
    walk(net, opt, 1)
    walk(whole_run, reference, 1)
    assert opt.is_feasible()
    kind = torch.float64 if new == torch.float64 else torch.float32
    for own in opt.state.values():
        floats = [x for x in own.values() if isinstance(x, Tensor) and x.is_floating_point()]
        assert {x.dtype for x in floats if x.ndim} == {kind}
        assert ("master" in own) == (new in (torch.bfloat16, torch.float16))
    for mine, theirs in zip(net.parameters(), whole_run.parameters(), strict=True):
        assert float((mine.detach().double() - theirs.detach()).abs().max()) < 0.01


def test_new_half_precision_weights_replace_the_master() -> None:
    net = nn.Linear(4, 4).bfloat16()
    opt = FrankWolfe(constrain(net, {"weight": fwnet.SpectralBall(9.0)}), lr=1e-3)
    for p in net.parameters():
        p.grad = torch.ones_like(p)
    opt.step()
    with torch.no_grad():
        net.weight.fill_(1.5)
        net.bias.fill_(2.5)
    opt.step()
    assert float(net.weight.detach().float().min()) > 1.4
    assert float(net.bias.detach().float().min()) > 2.4


def test_a_scaler_skips_what_overflows() -> None:
    net = nn.Linear(5, 3)
    opt = FrankWolfe(constrain(net, {"weight": fwnet.SpectralBall(2.0)}))
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10)
    before = net.weight.detach().clone()
    for factor, moves in ((float("inf"), False), (1.0, True)):
        opt.zero_grad()
        scaler.scale(factor * net(torch.ones(2, 5)).square().sum()).backward()
        scaler.step(opt)
        scaler.update()
        assert torch.equal(net.weight, before) != moves


@pytest.mark.parametrize("kind", ["swa", "ema"])
def test_averaged_models_of_torch_stay_in_the_domains(kind: str) -> None:
    net = nn.Sequential(nn.Linear(12, 10), nn.ReLU(), nn.Linear(10, 4))
    ball = fwnet.SpectralBall(0.5)
    opt = FrankWolfe(constrain(net, {"*.weight": ball}), lr=1e-2)
    ema = torch.optim.swa_utils.get_ema_multi_avg_fn(0.9) if kind == "ema" else None
    model = torch.optim.swa_utils.AveragedModel(net, multi_avg_fn=ema)
    schedule = torch.optim.swa_utils.SWALR(opt, swa_lr=5e-3, anneal_epochs=5)
    noise = seeded(4)
    for _ in range(60):
        for p in net.parameters():
            p.grad = torch.randn(p.shape, generator=noise)
        opt.step()
        schedule.step()
        model.update_parameters(net)
    for p in model.parameters():
        if p.ndim > 1:
            assert 0.1 < norm_over_radius(ball, p) <= 1 + 1e-6


@pytest.mark.parametrize("rescale", ["vertex", "diameter", "gradient", None])
@pytest.mark.parametrize(
    ("domain", "oracle"),
    [
        (fwnet.SpectralBall(9.0), None),
        (fwnet.TraceNormBall(9.0), None),
        (fwnet.TraceNormBall(9.0), fwnet.PowerIteration(1)),
        (rows(fwnet.L2Ball(9.0)), None),
        (rows(fwnet.L1Ball(9.0)), None),
        (fwnet.LInfBall(9.0), None),
    ],
    ids=str,
)
def test_a_step_on_a_device_never_waits_for_it(domain, oracle, rescale) -> None:
    """Meta tensors have no values: whoever reads one raises, as it would wait for a device."""
    weights = [nn.Parameter(torch.zeros(6, 5, device="meta")) for _ in range(2)]
    bias = nn.Parameter(torch.zeros(5, device="meta"))
    opt = FrankWolfe([{"params": [bias], "domain": None}], lr=0.1)
    group = {"params": weights, "domain": domain, "oracle": oracle, "rescale": rescale}
    torch.optim.Optimizer.add_param_group(opt, group)  # the checks at the start read values
    for _ in range(3):
        for w in weights:
            w.grad = torch.ones_like(w)
            if oracle is not None:  # meta tensors have no generator
                opt.state[w].setdefault("oracle", torch.ones(5, device="meta"))
        opt.step()


@pytest.mark.filterwarnings("ignore:torch.distributed is disabled")
def test_checkpoints_of_torch_distributed_resume_to_the_bit(tmp_path: Path) -> None:
    """Their loader makes the state by a step with gradients of 0 before it fills it."""
    import torch.distributed.checkpoint as files
    from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict

    sets = {"0.weight": rows(fwnet.Simplex()), "1.weight": fwnet.SpectralBall("0.5x init")}
    X, y = torch.arange(12) % 6, torch.arange(12) % 4

    def build(seed: int) -> tuple[nn.Module, FrankWolfe]:
        torch.manual_seed(seed)
        net = nn.Sequential(nn.Embedding(6, 5), nn.Linear(5, 4))
        return net, FrankWolfe(constrain(net, sets), averaging=8)

    def train(net: nn.Module, opt: FrankWolfe) -> None:
        for _ in range(5):
            opt.zero_grad()
            nn.functional.cross_entropy(net(X), y).backward()
            opt.step()

    first, second = build(0), build(1)
    train(*first)
    net, opt = get_state_dict(*first)
    files.save({"net": net, "opt": opt}, checkpoint_id=tmp_path)
    net, opt = get_state_dict(*second)
    files.load({"net": net, "opt": opt}, checkpoint_id=tmp_path)
    set_state_dict(*second, model_state_dict=net, optim_state_dict=opt)
    train(*first)
    train(*second)
    for a, b in zip(first[0].parameters(), second[0].parameters(), strict=True):
        assert torch.equal(a, b)


WORKER = """
import sys, torch, torch.distributed as dist
from optim.test_loops import shards
place, rank = sys.argv[1], int(sys.argv[2])
dist.init_process_group("gloo", init_method=f"file://{place}", rank=rank, world_size=2)
torch.save(shards(sharded=True), "state.pt")
dist.destroy_process_group()
"""


def shards(sharded: bool) -> dict[str, Tensor]:
    """The weights after some steps on the same data, of one process or of sharded workers."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(9, 7), nn.ReLU(), nn.Linear(7, 5, bias=False), nn.Linear(5, 4))
    net.experts = nn.Parameter(torch.randn(3, 5, 4) / 3)
    if sharded:
        from torch.distributed.fsdp import fully_shard

        fully_shard(net)
    domains = {
        "0.weight": fwnet.SpectralBall("0.5x init"),
        "2.weight": fwnet.TraceNormBall("2x init"),
        "3.weight": rows(fwnet.Simplex()),
        "experts": stack(fwnet.SpectralBall("1x init")),
    }
    opt = FrankWolfe(constrain(net, domains), lr=0.01, averaging=8)
    X, y = torch.randn(12, 9, generator=seeded(1)), torch.arange(12) % 4
    for _ in range(5):
        opt.zero_grad()
        loss = nn.functional.cross_entropy(net(X), y)
        loss.backward()
        grads = torch.randn(3, 5, 4, generator=seeded(3))
        if sharded:
            from torch.distributed.tensor import distribute_tensor

            experts = net.experts
            parts = distribute_tensor(grads, experts.device_mesh, experts.placements)
            experts.grad = parts
        else:
            net.experts.grad = grads
        opt.step()

    def now() -> dict[str, Tensor]:
        values = {name: p.detach() for name, p in net.named_parameters()}
        return {n: (p.full_tensor() if sharded else p).clone() for n, p in values.items()}

    weights = now()
    with opt.averaged():
        means = {f"mean of {name}": value for name, value in now().items()}
    return weights | means


@pytest.mark.slow
def test_sharded_weights_take_the_steps_of_one_process_to_the_bit(tmp_path: Path) -> None:
    """FSDP2 on two workers: the same data on both, so that their gradients are those of one."""
    script, folders = tmp_path / "train.py", [tmp_path / str(rank) for rank in range(2)]
    script.write_text(WORKER)
    workers = [
        scripts.start([str(script), str(tmp_path / "meet"), folder.name], folder)
        for folder in folders
    ]
    for worker, folder in zip(workers, folders, strict=True):
        assert scripts.finish(worker) == 0, scripts.printed(folder)
    first, second = (torch.load(f / "state.pt", weights_only=True) for f in folders)
    for name, value in shards(sharded=False).items():
        assert torch.equal(first[name], second[name]), name
        assert torch.equal(first[name], value), name
