"""The LSTM of every entry against `nn.LSTM`, by torch and in compiled code."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

from fwnet.learned.controllers import entrywise
from fwnet.learned.controllers.entrywise import EntrywiseLSTM, log_and_sign
from fwnet.learned.training.recurrences import detached
from fwnet.learned.training.tasks import with_seed
from fwnet.numerics.compiled import numba_or_none
from learned_cases import seeded

CASES = [  # entries, dtype, tolerance; Numba compiles for float32
    pytest.param(7, torch.float64, 1e-12, id="torch"),
    pytest.param(7, torch.float32, 1e-5, id="few entries, compiled if Numba is there"),
    pytest.param(600, torch.float32, 1e-5, id="many entries, compiled if Numba is there"),
    pytest.param(1100, torch.float32, 1e-5, id="more than a block of compiled products"),
]
FORMS = pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["torch", "compiled"])


def network(layers: int, preprocess: bool, dtype: torch.dtype) -> EntrywiseLSTM:
    return with_seed(lambda: EntrywiseLSTM(5, layers, preprocess), 0).to(dtype)


def by_torch(net: EntrywiseLSTM, entries: Tensor, state: Any) -> tuple[Tensor, Any]:
    """The same step by `nn.LSTM`, with all gradients from autograd."""
    flat = entries.reshape(-1, 1)
    out, state = net.lstm((log_and_sign(flat, dim=-1) if net.preprocess else flat)[None], state)
    return net.head(out).reshape(entries.shape), state


def losses(answers: list[Tensor]) -> Tensor:
    return torch.stack([(k + 1) * answer.square().mean() for k, answer in enumerate(answers)]).sum()


@pytest.mark.parametrize(("n", "dtype", "tolerance"), CASES)
@pytest.mark.parametrize(("layers", "preprocess"), [(2, False), (3, True)])
def test_answers_and_gradients_are_those_of_torch(
    layers: int, preprocess: bool, n: int, dtype: torch.dtype, tolerance: float
) -> None:
    net = network(layers, preprocess, dtype)
    entries = torch.randn(4, 2, n, generator=seeded(1), dtype=dtype)
    found, known = [], []
    memory, state = None, None
    for seen in entries:
        out, memory = net(seen, memory)
        found.append(out)
        out, state = by_torch(net, seen, state)
        known.append(out)
    options: Any = {"rtol": tolerance, "atol": tolerance}
    torch.testing.assert_close(found, known, **options)
    weights = list(net.parameters())
    ours, theirs = (torch.autograd.grad(losses(answers), weights) for answers in (found, known))
    for one, other in zip(ours, theirs, strict=True):
        size = float(other.abs().max())
        torch.testing.assert_close(one / size, other / size, **options)
    with torch.no_grad():
        plain, _ = net(entries[0], None)
    torch.testing.assert_close(plain, found[0].detach(), **options)


@pytest.mark.parametrize(("n", "dtype", "tolerance"), CASES)
def test_gradients_of_answers_that_are_fed_back(
    n: int, dtype: torch.dtype, tolerance: float
) -> None:
    """z_t = σ(answer before): all paths count, that through the next input too."""
    net = network(2, False, dtype)
    found: list[Tensor] = []
    known: list[Tensor] = []
    memory, state = None, None
    for answers in (found, known):
        last = torch.zeros(n, dtype=dtype)
        for _ in range(4):
            if answers is found:
                out, memory = net(last, memory)
            else:
                out, state = by_torch(net, last, state)
            answers.append(out)
            last = out.sigmoid()
    options: Any = {"rtol": tolerance, "atol": tolerance}
    torch.testing.assert_close(found, known, **options)
    weights = list(net.parameters())
    ours, theirs = (torch.autograd.grad(losses(answers), weights) for answers in (found, known))
    for one, other in zip(ours, theirs, strict=True):
        size = float(other.abs().max())
        torch.testing.assert_close(one / size, other / size, **options)


@FORMS
def test_two_steps_from_one_memory(dtype: torch.dtype) -> None:
    """Gradients of a tree of steps, with one answer that no loss looks at."""
    net = network(2, False, dtype)
    x = torch.randn(3, 6, generator=seeded(2), dtype=dtype)
    gradients = []
    for call in (net, partial(by_torch, net)):
        first, memory = call(x[0], None)
        left, _ = call(x[1], memory)
        right, after = call(x[2], memory)
        call(x[0], after)
        gradients.append(torch.autograd.grad(losses([first, left, right]), list(net.parameters())))
    torch.testing.assert_close(*gradients)


@FORMS
def test_the_graph_ends_where_it_is_cut(dtype: torch.dtype) -> None:
    """A stretch after `detached` has the gradients of one that starts at this memory."""
    net = network(2, True, dtype)
    x = torch.randn(2, 6, generator=seeded(3), dtype=dtype)
    _, memory = net(x[0], None)
    after, _ = net(x[1], detached(memory))
    _, state = by_torch(net, x[0], None)
    known, _ = by_torch(net, x[1], detached(state))
    weights = list(net.parameters())
    torch.testing.assert_close(
        torch.autograd.grad(losses([after]), weights), torch.autograd.grad(losses([known]), weights)
    )


@pytest.mark.skipif(numba_or_none() is None, reason="needs Numba")
def test_many_entries_use_compiled_code() -> None:
    z = torch.empty(1, 600)
    assert entrywise._code(100_000, z, with_gradients=False) is not None
    assert entrywise._code(1000, z, with_gradients=True) is not None
    assert entrywise._code(100_000, z.double(), with_gradients=True) is None
    assert entrywise._code(1000, z, with_gradients=False) is None


def test_log_and_sign_as_printed() -> None:
    """Appendix A of Andrychowicz et al.: (log|g|/p, sign g) where |g| >= e^−p, else (−1, e^p g)."""
    p = 10.0
    small = torch.tensor(-p, dtype=torch.float64).exp()
    g = torch.tensor([0.0, 1.0, -2.5, 1e-3, -1e-3, 1e-6, -1e-6, 40.0], dtype=torch.float64)
    large = g.abs() >= small
    first = torch.where(large, g.abs().clamp_min(1e-30).log() / p, -1.0)
    second = torch.where(large, g.sign(), g / small)
    torch.testing.assert_close(log_and_sign(g.unsqueeze(0), p), torch.stack([first, second]))
