"""EntrywiseLSTM: one LSTM applied to every entry of a tensor."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple, final

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from fwnet.numerics import checks
from fwnet.numerics.compiled import machine_code


class Memory(NamedTuple):
    """What an LSTM remembers of each entry: h and c, `(layers, hidden, entries)`."""

    h: Tensor
    c: Tensor


@final
class EntrywiseLSTM(nn.Module):
    """One LSTM applied to every entry of a tensor, each entry with a memory of its own.

        i, f, g, o = σ, σ, tanh, σ of W_in z + b_in + W_h h + b_h;   c <- f c + i g,   h <- o tanh c

    layer by layer; the answer is linear in the last h. The weights are those of an `nn.LSTM`.

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

    def forward(self, entries: Tensor, memory: Memory | None) -> tuple[Tensor, Memory]:
        """One step: `(*shape)` -> `(*shape)`.

        Arguments:
            entries: what it sees of each entry.
            memory: of the last step; None before the first.
        """
        z = entries.to(self.head.weight.dtype).reshape(1, -1)
        if self.preprocess:
            z = log_and_sign(z)
        if memory is None:
            zeros = z.new_zeros(self.lstm.num_layers, self.lstm.hidden_size, z.shape[-1])
            memory = Memory(zeros, zeros)
        h, c = memory
        weights = tuple(self.parameters())
        with_gradients = torch.is_grad_enabled() and any(w.requires_grad for w in weights)
        code = _code(4 * c.numel(), z, with_gradients)
        if code is None:
            out, h, c = _step(_Weights(weights), z, h, c)
        else:
            out, h, c = _CompiledStep.apply(code, z, h, c, *weights)  # type: ignore[no-untyped-call]
        return out.reshape(entries.shape).to(entries.dtype), Memory(h, c)


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


def _step(weights: _Weights, z: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The answer `(1, n)` to z `(inputs, n)` and the next h and c, by torch."""
    ones, hs, cs = z.new_ones(1, z.shape[-1]), [], []
    for weight, before, was in zip(weights.layers, h, c, strict=True):
        i, f, g, o = (weight @ torch.cat([z, before, ones])).chunk(4)
        cs.append(torch.addcmul(f.sigmoid() * was, i.sigmoid(), g.tanh()))
        z = o.sigmoid() * cs[-1].tanh()
        hs.append(z)
    out = torch.addmm(weights.bias, weights.head, z)
    return out, torch.stack(hs), torch.stack(cs)


@final
class _CompiledStep(torch.autograd.Function):
    """The same by compiled code, which writes what its backward reads.

    gates   i, f, g, o, (layers, 4 hidden, n)
    curved  tanh c, (layers, hidden, n)
    """

    @staticmethod
    def forward(
        ctx: Any, code: Any, z: Tensor, h: Tensor, c: Tensor, *parameters: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        layers, hidden, n = c.shape
        matrices, vectors = _by_dimension(parameters)
        next_h, next_c, curved = (torch.empty_like(c) for _ in range(3))
        gates, out = z.new_empty(layers, 4 * hidden, n), z.new_empty(1, n)
        given = (matrices, vectors, z, h, c)
        code.step(*map(_array, (*given, gates, curved, next_h, next_c, out)))
        ctx.code = code
        ctx.save_for_backward(z, h, c, next_h, gates, curved, *matrices)
        return out, next_h, next_c

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *found: Tensor) -> Any:
        z, h, c, next_h, gates, curved, *matrices = ctx.saved_tensors
        d_out, d_next_h, d_next_c = (d.contiguous() for d in found)
        d_z, d_h, *d_matrices = map(torch.zeros_like, (z, h, *matrices))
        d_c, d_biases = torch.empty_like(c), c.new_empty(len(c), matrices[0].shape[0])
        d_bias = d_out.new_empty(1)
        d_vectors = (*d_biases, d_bias)
        given = (matrices, z, h, c, next_h, gates, curved, d_out, d_next_h, d_next_c)
        code = ctx.code.step_backward
        code(*map(_array, (*given, d_z, d_h, d_c, d_matrices, d_vectors)))
        parts: list[Tensor] = []
        for k, d in enumerate(d_biases):
            parts += [*d_matrices[2 * k : 2 * k + 2], d, d]
        return None, d_z, d_h, d_c, *parts, d_matrices[-1], d_bias


def _by_dimension(parameters: Sequence[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
    """Matrices and vectors."""
    plain = [parameter.detach() for parameter in parameters]
    return [w for w in plain if w.ndim == 2], [w for w in plain if w.ndim == 1]


def _code(size: int, z: Tensor, with_gradients: bool) -> Any | None:
    """The step in compiled code where that saves more than loading it costs."""
    few = size < 8192 and not with_gradients
    if few or z.dtype != torch.float32 or z.device.type != "cpu":
        return None
    return machine_code("fwnet.learned.controllers.compiled_lstm")


def _array(tensors: Any) -> Any:
    """A tensor as an array, a list of tensors as a tuple of arrays."""
    if isinstance(tensors, Tensor):
        return tensors.numpy()
    return tuple(tensor.numpy() for tensor in tensors)
