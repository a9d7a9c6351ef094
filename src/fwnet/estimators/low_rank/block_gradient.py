"""The gradient XᵀE of a loss of logits, by products over blocks of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import torch
from torch import Tensor

from fwnet.estimators.low_rank.rows import Block
from fwnet.numerics.tensors import ImplicitMatrix

Sum = Callable[[Iterator[Tensor], tuple[int, int], Tensor | None], Tensor]


def plain_sum(parts: Iterator[Tensor], _size: tuple[int, int], _columns: Tensor | None) -> Tensor:
    """The parts, added up in order."""
    total = next(parts)
    for part in parts:
        total += part
    return total


def block_gradient(
    like: Tensor,
    shape: tuple[int, int],
    blocks: Callable[[], Iterable[tuple[Block, Tensor]]],
    add_up: Sum = plain_sum,
    keep: Callable[[Tensor, list[Tensor]], None] | None = None,
) -> ImplicitMatrix:
    """G = Σ_b X_bᵀ E_b, of which only thin products are computed.

        G V = Σ_b X_bᵀ(E_b V),   Gᵀ U = Σ_b E_bᵀ(X_b U)

    Arguments:
        like: a tensor of the type and on the device of the products.
        shape: `(d, m)`.
        blocks: () -> blocks of rows with their errors E_b, `(h, m)`, again for each product.
        add_up: (parts, their size, the columns of V or U) -> the sum of the parts; the columns
            are None for G itself, where they would be those of the identity.
        keep: called with u and its images X_b u, `(h, 1)`, after each product Gᵀu.
    """

    def pushed(columns: Tensor | None) -> Iterator[Tensor]:
        for X, errors in blocks():
            E = errors if columns is None else errors @ columns
            part = errors.new_zeros(E.shape[1], shape[0])
            X.add_adjoint(E, part)
            yield part

    def matmul(thin: Tensor) -> Tensor:
        columns = thin.reshape(len(thin), -1)
        size = columns.shape[1], shape[0]
        return add_up(pushed(columns), size, columns).mT.reshape(shape[0], *thin.shape[1:])

    def rmatmul(thin: Tensor) -> Tensor:
        columns = thin.reshape(len(thin), -1)
        images: list[Tensor] = []
        wanted = keep is not None and thin.ndim == 1

        def pulled() -> Iterator[Tensor]:
            for X, errors in blocks():
                image = X.times(columns)
                if wanted:
                    images.append(image)
                # Rows times E: one pass over it, where Eᵀ times a few columns takes many.
                yield image.mT.contiguous() @ errors

        size = columns.shape[1], shape[1]
        whole = add_up(pulled(), size, columns).mT.reshape(shape[1], *thin.shape[1:])
        if keep is not None and wanted:
            keep(thin, images)
        return whole

    return ImplicitMatrix(
        shape=torch.Size(shape),
        matmul=matmul,
        rmatmul=rmatmul,
        materialize=lambda: add_up(pushed(None), (shape[1], shape[0]), None).mT,
        dtype=like.dtype,
        device=like.device,
    )
