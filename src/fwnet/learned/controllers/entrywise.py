"""EntrywiseLSTM: one LSTM applied to every entry of a tensor, with cheap gradients."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from typing import Any, NamedTuple, final

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from fwnet.numerics import checks
from fwnet.numerics.compiled import machine_code


class Memory(NamedTuple):
    """What an LSTM remembers of each entry.

    Arguments:
        h, c: `(layers, hidden, entries)`.
        tape: the compiled steps since the graph was cut; None if there are none.
        step: the place of the last answer on the tape; −1 before the first.
    """

    h: Tensor
    c: Tensor
    tape: Tensor | None = None
    step: int = -1


@final
class EntrywiseLSTM(nn.Module):
    """One LSTM applied to every entry of a tensor, each entry with a memory of its own.

        i, f, g, o = σ, σ, tanh, σ of W_in z + b_in + W_h h + b_h;   c <- f c + i g,   h <- o tanh c

    layer by layer; the answer is linear in the last h. The weights are those of an `nn.LSTM`.

    Entries are what an optimizer sees, so nothing flows back into them. With Numba, that makes
    gradients cheap: each step is recorded on a tape, and one pass over the tape from its end finds
    those of the weights. Otherwise torch finds them.

    Arguments:
        hidden: units of a layer.
        layers: how many.
        preprocess: feed log|g| and sign of an entry, as Andrychowicz et al. (2016) do, instead of
            the entry itself.
    """

    def __init__(self, hidden: int, layers: int, preprocess: bool = False) -> None:
        super().__init__()
        checks.at_least("hidden", hidden, 1)
        checks.at_least("layers", layers, 1)
        self.preprocess = preprocess
        self.lstm = nn.LSTM(2 if preprocess else 1, hidden, layers)
        self.head = nn.Linear(hidden, 1)

    def forward(
        self, entries: Tensor, memory: Memory | None, feedback: bool = False
    ) -> tuple[Tensor, Memory]:
        """One step: `(*shape)` -> `(*shape)`.

        Arguments:
            entries: what it sees of each entry.
            memory: of the last step; None before the first.
            feedback: the entries are σ of the last answers, and gradients flow back into those.
        """
        z = entries if feedback else entries.detach()
        z = z.to(self.head.weight.dtype).reshape(1, -1)
        if self.preprocess:
            z = log_and_sign(z)
        if memory is None:
            zeros = z.new_zeros(self.lstm.num_layers, self.lstm.hidden_size, z.shape[-1])
            memory = Memory(zeros, zeros)
        memory = Memory(*memory)  # a layer that saves its states keeps plain tuples
        parameters = list(self.parameters())
        with_gradients = torch.is_grad_enabled() and any(w.requires_grad for w in parameters)
        code = _code(4 * memory.c.numel(), z, with_gradients)
        if code is None:
            out, memory = _step(_Weights(parameters), z, memory)
        elif with_gradients:
            out, memory = _recorded_step(code, parameters, z.detach(), memory, feedback)
        else:
            step = _CompiledStep(code, _Weights(parameters), z, memory, feedback)
            out, memory = step.out, Memory(step.h, step.c)
        return out.reshape(entries.shape).to(entries.dtype), memory


def log_and_sign(g: Tensor, p: float = 10.0, dim: int = 0) -> Tensor:
    """(log|g| / p, sign g) where |g| >= e^−p, else (−1, e^p g), one after the other along `dim`.

    Reference: Andrychowicz et al., Learning to learn by gradient descent by gradient descent
    (2016), appendix A.
    """
    first = g.abs().clamp_min(math.exp(-p)).log() / p
    return torch.cat([first, (g * math.exp(p)).clamp(-1.0, 1.0)], dim)


@final
class _Weights:
    """W_in, W_h and b_in + b_h of each layer side by side, then W and b of the answer.

    Arguments:
        weights: W_in, W_h, b_in and b_h of each layer, then those of the answer.
    """

    def __init__(self, weights: Sequence[Tensor]) -> None:
        layers = [weights[k : k + 4] for k in range(0, len(weights) - 2, 4)]
        self.layers = [torch.cat([w, u, (a + b).unsqueeze(-1)], 1) for w, u, a, b in layers]
        self.head, self.bias = weights[-2], weights[-1].unsqueeze(-1)


def _step(weights: _Weights, z: Tensor, memory: Memory) -> tuple[Tensor, Memory]:
    """The answer `(1, n)` to `(inputs, n)` and the next memory, by torch."""
    ones, hs, cs = z.new_ones(1, z.shape[-1]), [], []
    for weight, h, c in zip(weights.layers, memory.h, memory.c, strict=True):
        i, f, g, o = (weight @ torch.cat([z, h, ones])).chunk(4)
        cs.append(torch.addcmul(f.sigmoid() * c, i.sigmoid(), g.tanh()))
        z = o.sigmoid() * cs[-1].tanh()
        hs.append(z)
    out = torch.addmm(weights.bias, weights.head, z)
    return out, Memory(torch.stack(hs), torch.stack(cs))


def _recorded_step(
    code: Any, parameters: Sequence[Tensor], z: Tensor, memory: Memory, feedback: bool
) -> tuple[Tensor, Memory]:
    """The same by compiled code, recorded on the memory's tape."""
    tape = memory.tape
    if tape is None or not tape.requires_grad:  # the first step since the graph was cut
        tape = _Tape.apply(*parameters)  # type: ignore[no-untyped-call]
        memory = memory._replace(step=-1)
    node: Any = tape.grad_fn
    with torch.no_grad():
        step = _CompiledStep(code, node.weights, z, memory, feedback)
    node.steps.append(step)
    out = _Answer.apply(tape, step)  # type: ignore[no-untyped-call]
    return out, Memory(step.h, step.c, tape, len(node.steps) - 1)


@final
class _CompiledStep:
    """One step of all layers by compiled code.

    Arguments:
        code: `compiled_lstm`.
        weights: with which it is taken.
        z: what it sees, `(inputs, n)`.
        memory: where it starts.
        feedback: z is σ of the answer before.

    Attributes:
        out: the answer, `(1, n)`; d_out its gradient, once that is known.
        seen: the inputs of each layer, its h and a row of ones, `(inputs + hidden + 1, n)`.
        gates: i, f, g, o, `(layers, 4 hidden, n)`.
        curved: tanh c, `(layers, hidden, n)`.
    """

    def __init__(
        self, code: Any, weights: _Weights, z: Tensor, memory: Memory, feedback: bool
    ) -> None:
        layers, hidden, n = memory.c.shape
        self.code, self.before, self.c_before, self.feedback = code, memory.step, memory.c, feedback
        self.h, self.c, self.curved = (torch.empty_like(memory.c) for _ in range(3))
        self.gates, self.out = z.new_empty(layers, 4 * hidden, n), z.new_empty(1, n)
        self.seen = [z.new_empty(w.shape[1], n) for w in weights.layers]
        self.d_out: Tensor | None = None
        found = (self.seen, self.gates, self.curved, self.h, self.c, self.out)
        given = (weights.layers, weights.head, weights.bias, z, memory.h, memory.c)
        code.step(*map(_array, (*given, *found)))

    def back(self, weights: _Weights, found: _Weights, d_h: Tensor, d_c: Tensor) -> Tensor | None:
        """Add to the gradients that are found; d_h and d_c become those of the memory before.

        Returns the gradient of the answer before, if that was fed back.
        """
        d_out, self.d_out = self.d_out, None
        if d_out is None:
            d_out = torch.zeros_like(self.out)
        found.bias.add_(d_out.sum())
        z = self.seen[0][: -d_h.shape[1] - 1]
        d_z = torch.empty_like(z)
        given = (weights.layers, weights.head, self.c_before, self.h, self.seen, self.gates)
        more = (self.curved, d_out.contiguous(), d_h, d_c, d_z, found.layers, found.head)
        self.code.step_backward(*map(_array, (*given, *more)))
        return d_z * z * (1 - z) if self.feedback else None

    def add(self, d_out: Tensor) -> None:
        """Add to the gradient of the answer."""
        self.d_out = d_out if self.d_out is None else self.d_out + d_out


@cache
def _linked() -> bool:
    """Whether Numba finds the products of matrices that it calls."""
    return find_spec("scipy") is not None


def _code(size: int, z: Tensor, recorded: bool) -> Any | None:
    """The step in compiled code where that saves more than loading it costs."""
    few = size < 8192 and not recorded
    if few or z.dtype != torch.float32 or z.device.type != "cpu" or not _linked():
        return None
    return machine_code("fwnet.learned.controllers.compiled_lstm")


def _array(tensors: Any) -> Any:
    """A tensor as an array, a list of tensors as a tuple of arrays."""
    if isinstance(tensors, Tensor):
        return tensors.detach().numpy()
    return tuple(tensor.numpy() for tensor in tensors)


@final
class _Tape(torch.autograd.Function):
    """The weights as a node of the graph, behind all answers: its backward passes over the tape."""

    @staticmethod
    def forward(ctx: Any, *weights: Tensor) -> Tensor:
        ctx.weights, ctx.steps = _Weights(weights), []
        return weights[0].new_zeros(())

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, _: Tensor) -> Any:
        weights, steps = ctx.weights, ctx.steps
        found = _Weights.__new__(_Weights)
        found.layers = [torch.zeros_like(layer) for layer in weights.layers]
        found.head, found.bias = torch.zeros_like(weights.head), torch.zeros_like(weights.bias)
        later: dict[int, tuple[Tensor, Tensor]] = {}  # gradients of h and c, by the step's place
        for place in reversed(range(len(steps))):
            step = steps[place]
            given = later.pop(place, None)
            d_h, d_c = given or (torch.zeros_like(step.h), torch.zeros_like(step.c))
            d_before = step.back(weights, found, d_h, d_c)
            if d_before is not None and step.before >= 0:
                steps[step.before].add(d_before)
            if step.before in later:  # two steps from one memory
                for total, part in zip(later[step.before], (d_h, d_c), strict=True):
                    total.add_(part)
            elif step.before >= 0:
                later[step.before] = d_h, d_c
        hidden, parts = steps[0].h.shape[1], []
        for part in found.layers:
            parts += [part[:, : -hidden - 1], part[:, -hidden - 1 : -1], part[:, -1], part[:, -1]]
        return *parts, found.head, found.bias.squeeze(-1)


@final
class _Answer(torch.autograd.Function):
    """The answer of a step; its backward keeps the gradient for the tape."""

    @staticmethod
    def forward(ctx: Any, tape: Tensor, step: _CompiledStep) -> Tensor:
        ctx.step = step
        return step.out.view_as(step.out)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_out: Tensor) -> Any:
        ctx.step.add(d_out)
        return d_out.new_zeros(()), None
