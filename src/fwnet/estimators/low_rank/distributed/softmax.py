"""ShardedSoftmax: softmax regression on rows that many workers hold."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import final

import torch
from torch import Tensor

from fwnet.estimators.low_rank.block_gradient import block_gradient
from fwnet.estimators.low_rank.distributed.exact_sums import FixedPoint
from fwnet.estimators.low_rank.distributed.rows import WorkerRows
from fwnet.estimators.low_rank.distributed.team import Team
from fwnet.estimators.low_rank.factors import Factors
from fwnet.estimators.low_rank.rows import Block
from fwnet.iterates import ActiveSet, Iterate, image_of
from fwnet.numerics.tensors import ImplicitMatrix
from fwnet.problems import Problem
from fwnet.problems.base import FirstOrder, Gradient
from fwnet.problems.softmax import exponentials
from fwnet.vertices import Rank1

_LARGEST_LOGIT = 2.0**42


@final
class ShardedSoftmax(Problem):
    """Mean multiclass logistic loss over a trace-norm ball, each worker with its own rows.

        f(W) = 1/n Σ (log Σⱼ exp zᵢⱼ − z_{i,yᵢ}),   Z = XW,   ∇f(W) = Xᵀ(P − Y)/n

    The gradient is known by its products, each one exact sum over the blocks of all workers:

        G v = Σ_b X_bᵀ(E_b v)      d numbers,        Gᵀu = Σ_b E_bᵀ(X_b u)      m numbers

    W itself is never formed: an iterate carries it as rank-1 atoms and weights (`active`), its
    `x` is a tensor without data, its image the logits of this worker's rows. A block is computed
    in the dtype of the data, by the same calls whoever computes it; see `exact_sums` for why the
    sums do not depend on the number of workers.

    Arguments:
        rows: of this worker.
        classes: m.
        radius: of the ball; bounds the logits, and with them every sum.
        team: the workers.
    """

    shape: torch.Size
    dtype: torch.dtype
    device: torch.device

    def __init__(self, rows: WorkerRows, classes: int, radius: float, team: Team) -> None:
        self.rows, self.classes, self.radius, self.team = rows, classes, radius, team
        self.shape = torch.Size((rows.d, classes))
        self.dtype, self.device = rows.dtype, team.device
        self.largest_logit = radius * rows.reach
        self._unit = max(self.largest_logit, torch.finfo(self.dtype).tiny)
        self._last: tuple[Tensor, Tensor] | None = None  # u and X u of the last product Gᵀu
        _check_scale(self.dtype, radius, rows.reach)

    def at_atoms(self, active: ActiveSet) -> Iterate:
        """An iterate at Σ_k weights_k u_k v_kᵀ, its logits computed anew, block by block."""
        assert isinstance(active.atoms, Rank1)
        scaled = (active.weights.unsqueeze(-1) * active.atoms.u).to(self.dtype).mT.contiguous()
        v = active.atoms.v.to(self.dtype)
        logits = self.new_rows(self.classes)
        for (_, X), out in zip(self.rows.blocks(), self._views(logits), strict=True):
            torch.mm(X.times(scaled), v, out=out)
        x = torch.empty(self.shape, dtype=self.dtype, device="meta")
        return Iterate(x, logits, active)

    def refreshed(self, it: Iterate) -> Iterate:
        """The same W by orthonormal atoms, as few as its rank, with its logits computed anew."""
        assert it.active is not None
        return self.at_atoms(Factors.of_atoms(it.active, self.radius).atoms(self.radius))

    def value(self, it: Iterate) -> Tensor:
        return self.first_order(it).value

    def gradient(self, it: Iterate) -> Gradient:
        return self.first_order(it).gradient

    def first_order(self, it: Iterate) -> FirstOrder:
        logits = self._views(image_of(it))
        parts, norms = [], []
        for z, y in zip(logits, self.rows.labels, strict=True):
            powers, total, top = exponentials(z)
            norm, own = total.log().add_(top), z.gather(-1, y.unsqueeze(-1))
            mean = (powers * z).sum(-1, keepdim=True) / total
            pair = torch.cat([norm - own, mean - own], -1)
            parts.append(pair.sum(0, dtype=torch.float64))
            norms.append(norm)
        value, along = self._mean(parts, 2)
        return FirstOrder(value, self._product(logits, norms), along)

    def true_value(self, active: ActiveSet) -> float:
        """f(Σ_k weights_k u_k v_kᵀ) in float64, whatever the dtype of the rows."""
        assert isinstance(active.atoms, Rank1)
        scaled = (active.weights.unsqueeze(-1) * active.atoms.u.double()).mT.contiguous()
        v = active.atoms.v.double()
        parts = []
        for (_, X), y in zip(self.rows.blocks(), self.rows.labels, strict=True):
            block = Block(X.double(), None)
            loss = torch.nn.functional.cross_entropy(block.times(scaled) @ v, y, reduction="sum")
            parts.append(loss.reshape(1))
        return float(self._mean(parts, 1))

    def scores(self, u: Tensor) -> Tensor:
        """X u of this worker's rows; no pass over X for the vertex of a power iteration.

        Its last product was Gᵀu₀ with the u₀ of u = −radius · u₀, and computed X u₀ for it.
        """
        if self._last is not None and torch.equal(u, -self.radius * self._last[0]):
            return -self.radius * self._last[1]
        scores = self.new_rows()
        for (_, X), out in zip(self.rows.blocks(), self._views(scores), strict=True):
            out.copy_(X.times(u.to(self.dtype)[:, None])[:, 0])
        return scores

    def second_order(
        self, it: Iterate, scores: Tensor, v: Tensor, stride: int
    ) -> tuple[Tensor, Tensor]:
        """Slopes `(p + 1,)` and Gram matrix of ∇²f at x, for x, s_1, …, s_p with s_k = u_k v_kᵀ.

            slopes_k = ⟨E, A_k⟩,   gram_kl = 1/n Σ_i (Σ_j p_ij a_kij a_lij − mean_ki mean_li)

        of the images A_0 = Z, A_k = (X u_k) v_kᵀ, from every `stride`-th row of a block.

        Arguments:
            scores: X u_k of this worker's rows, `(blocks, rows, p)`.
            v: `(p, m)`.
        """
        p, unit = len(v), self._unit
        pairs = (v.unsqueeze(1) * v).flatten(0, 1).mT.contiguous()  # (m, p²)
        sums, rows = self._sample(stride)
        upper = torch.triu_indices(p + 1, p + 1, device=self.device)  # the rest is the same
        total = self._zeros(p + 1 + upper.shape[1])
        parts = zip(self._views(image_of(it)), self._views(scores), self.rows.labels, strict=True)
        for z, s, y in parts:
            z, s, y = z[::stride], s[::stride] / unit, y[::stride]
            chance = torch.softmax(z, -1)
            z = z / unit  # so that one bound does for all sums
            leaning = chance * z
            means = torch.cat([leaning.sum(-1, keepdim=True), s * (chance @ v.mT)], -1)
            own = torch.cat([z.gather(-1, y.unsqueeze(-1)), s * v.mT[y]], -1)
            mixed = torch.einsum("ik,il,ikl->kl", s, s, (chance @ pairs).reshape(-1, p, p))
            square = torch.empty(p + 1, p + 1, dtype=z.dtype, device=z.device)
            square[0, 0] = (leaning * z).sum()
            square[0, 1:] = square[1:, 0] = (s * (leaning @ v.mT)).sum(0)
            square[1:, 1:] = mixed
            square -= means.mT @ means
            total += sums.encode(torch.cat([(means - own).sum(0), square[upper[0], upper[1]]]))
        whole = sums.decode(self.team.sum(total)).div(rows)
        gram = whole.new_empty(p + 1, p + 1)
        gram[upper[0], upper[1]] = gram[upper[1], upper[0]] = whole[p + 1 :] * unit * unit
        return whole[: p + 1] * unit, gram

    def derivatives(
        self, it: Iterate, segment: tuple[Tensor, Tensor, float], step_size: float, stride: int
    ) -> tuple[Tensor, Tensor]:
        """Slope and curvature of f at x + γ d, from every `stride`-th row of a block.

        Arguments:
            segment: scores `(blocks, rows, p)`, mix `(p, m)`, scale, with
                A d = scores · mix + scale · Z.
        """
        scores, mix, scale = segment
        unit = self._unit
        sums, rows = self._sample(stride)
        total = self._zeros(2)
        parts = zip(self._views(image_of(it)), self._views(scores), self.rows.labels, strict=True)
        for z, s, y in parts:
            z, s, y = z[::stride], s[::stride], y[::stride]
            ahead = torch.addmm(z, s, mix, beta=scale)
            chance = torch.softmax(torch.add(z, ahead, alpha=step_size), -1)
            ahead.div_(unit)
            weighted = chance.mul_(ahead)
            mean = weighted.sum(-1)
            slope = mean - ahead.gather(-1, y.unsqueeze(-1)).squeeze(-1)
            curvature = weighted.mul_(ahead).sum(-1) - mean.square()
            total += sums.encode(torch.stack([slope, curvature]).sum(-1, dtype=torch.float64))
        slope, curvature = sums.decode(self.team.sum(total)).div(rows)
        return slope * unit, curvature * unit * unit

    def new_rows(self, *columns: int) -> Tensor:
        """Zeros for each of this worker's rows, `(blocks, rows of a block, *columns)`.

        Every block starts at the same alignment, whichever worker holds it: with a block of 16
        rows or a multiple, no vectorised kernel treats the workers differently.
        """
        shape = (len(self.rows.spans), self.rows.block, *columns)
        return torch.zeros(shape, dtype=self.dtype, device=self.device)

    def _sample(self, stride: int) -> tuple[FixedPoint, int]:
        """Sums over every `stride`-th row of a block, in units of the largest logit; how many."""
        rows = sum(-(-b.rows // stride) for b in self.rows.shards.blocks(self.rows.block))
        return FixedPoint(8.0 * rows), rows

    def _views(self, whole: Tensor) -> list[Tensor]:
        return [part[: len(y)] for part, y in zip(whole, self.rows.labels, strict=True)]

    def _zeros(self, size: int) -> Tensor:
        return torch.zeros(size + 1, dtype=torch.int64, device=self.device)

    def _product(self, logits: list[Tensor], norms: list[Tensor]) -> ImplicitMatrix:
        """Xᵀ(P − Y)/n by its products; the errors of a block live while it is computed."""

        def blocks() -> Iterator[tuple[Block, Tensor]]:
            parts = zip(self.rows.blocks(), logits, norms, self.rows.labels, strict=True)
            for (_, X), z, norm, y in parts:
                errors = (z - norm).exp_()
                errors[torch.arange(len(y), device=self.device), y] -= 1.0
                yield X, errors

        def keep(u: Tensor, images: list[Tensor]) -> None:
            scores = self.new_rows()
            for out, image in zip(self._views(scores), images, strict=True):
                out.copy_(image.squeeze(-1))
            self._last = u, scores

        d, m = self.shape
        return block_gradient(self.new_rows(), (d, m), blocks, self._sum, keep)

    def _mean(self, parts: list[Tensor], size: int) -> Tensor:
        """Σ_b parts_b / n over the blocks of all workers, `(size,)`.

        The bound is that of the parts themselves. The one of all iterates, radius · reach, would
        round a loss of ordinary size to 0 where features are huge and W is tiny.
        """
        every = torch.stack([*parts, torch.zeros(size, dtype=torch.float64, device=self.device)])
        largest = float(self.team.max(every.abs().max().reshape(1)))
        return self._total(FixedPoint(self.rows.total_blocks * largest), parts, size)

    def _sum(
        self, parts: Iterator[Tensor], size: tuple[int, int], columns: Tensor | None
    ) -> Tensor:
        """Σ_b parts_b / n over the blocks of all workers.

        No sum exceeds 2 n · reach · |column|: errors of a row have norm at most √2.
        """
        norms = columns.to(torch.float64).square().sum(0) if columns is not None else torch.ones(1)
        sums = FixedPoint(2.0 * self.rows.count * self.rows.reach * float(norms.max().sqrt()))
        whole = self._total(sums, (part.flatten() for part in parts), size[0] * size[1])
        return whole.to(self.dtype).reshape(size)

    def _total(self, sums: FixedPoint, parts: Iterable[Tensor], size: int) -> Tensor:
        """Σ_b parts_b / n over the blocks of all workers, `(size,)`."""
        total = self._zeros(size)
        for part in parts:
            total += sums.encode(part)
        return sums.decode(self.team.sum(total)).div(self.rows.count)


def _check_scale(dtype: torch.dtype, radius: float, reach: float) -> None:
    """Raise a clear error where the products of rows and weights would lose their meaning.

    The weights of the vertices are resolved to 2^-52, so the logits to radius · reach · 2^-52,
    which is 1e-3 at the limit. The other limit keeps the sums over a block finite.
    """
    finite = torch.finfo(dtype).max / 1e6
    for name, size in (("radius", radius), ("the largest norm of a row of X", reach)):
        if size > finite:
            raise ValueError(
                f"{name} must be at most {finite:.0e} in {dtype}; got {size:.1e}. Scale the "
                "features, or write float64 shards."
            )
    if radius * reach > _LARGEST_LOGIT:
        raise ValueError(
            f"radius · (largest norm of a row of X) must be at most {_LARGEST_LOGIT:.1e}, or the "
            f"weights cannot be resolved; got {radius:.1e} · {reach:.1e} = {radius * reach:.1e}. "
            "Scale the features to norms of about 1, or take a smaller radius."
        )
