"""Steps of a bucket in machine code (Numba), with the formulas of `Bucket` and of the oracles.

Weights, momenta and gradients are given by their addresses. Products of matrices are computed

    C <- L B,   in blocks of a few rows and one or two vector registers of columns

A block of C stays in registers while k runs over the inner dimension: each step loads a part of row
k of B, and adds a multiple of it to every row of the block. Where one side is symmetric, the blocks
below the diagonal are copied. Arrays have `padded` sides, so that all blocks are whole.

Everything is in one file, because the cache of Numba notices changes of that file only.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

from fwnet.numerics.compiled import compiled

_ir: Any = import_module("llvmlite.ir")
_types: Any = import_module("numba").types
_intrinsic: Any = import_module("numba.extending").intrinsic
_carray: Any = import_module("numba").carray
_compiled = compiled("reassoc", "contract")


def _registers() -> tuple[int, int]:
    """Bytes of a vector register, and the rows of a block whose sums all have one."""
    try:
        features = import_module("llvmlite.binding").get_host_cpu_features()
    except RuntimeError:  # as on some kinds of processor, where Numba takes it for none
        features = {}
    if features.get("avx512f"):
        return 64, 8  # of 32 registers
    return (32, 4) if features.get("avx") else (16, 4)  # of 16


_BYTES, _ROWS = _registers()


def padded(length: int, bytes_of_number: int) -> int:
    """Rows or columns of an array for so many."""
    step = max(_BYTES // bytes_of_number, _ROWS)
    return -(-length // step) * step


def _fused(builder: Any, a: Any, b: Any, c: Any) -> Any:
    """ab + c, in one instruction where there is one."""
    product = builder.fmul(a, b, flags=("contract",))
    return builder.fadd(product, c, flags=("contract",))


def _block(count: int) -> Callable[..., None]:
    """C[i:, j:] <- L[i:] B[:, j:] for _ROWS rows and the columns of `count` registers.

    L[i, k] is at i·across + k·along, so that it may be a transpose.
    """

    def typed(context, L, across, along, B, C, i, j, depth):  # type: ignore[no-untyped-def]
        number = C.dtype
        size = number.bitwidth // 8
        lanes = _BYTES // size

        def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
            kinds, values = signature.args, arguments
            left, right, out = (
                context.make_array(kinds[k])(context, builder, values[k]) for k in (0, 3, 4)
            )
            across, along, i, j, depth = (values[k] for k in (1, 2, 5, 6, 7))
            whole, vector = depth.type, _ir.VectorType(context.get_data_type(number), lanes)
            zero, zeros = _ir.IntType(32)(0), _ir.Constant(vector, [0.0] * lanes)
            lane = _ir.Constant(_ir.VectorType(zero.type, lanes), [0] * lanes)
            times, plus = builder.mul, builder.add

            def vectors(array: Any, row: Any) -> list[Any]:
                """Where those of a row begin."""
                start = plus(times(row, builder.extract_value(array.shape, 1)), j)
                places = [plus(start, whole(v * lanes)) for v in range(count)]
                return [
                    builder.bitcast(builder.gep(array.data, [place]), vector.as_pointer())
                    for place in places
                ]

            def spread(place: Any) -> Any:
                """The number at a place in all lanes."""
                value = builder.load(builder.gep(left.data, [place]))
                first = builder.insert_element(_ir.Constant(vector, _ir.Undefined), value, zero)
                return builder.shuffle_vector(first, first, lane)

            before, loop = builder.block, builder.append_basic_block("products")
            builder.branch(loop)
            builder.position_at_end(loop)
            k = builder.phi(whole)
            sums = [[builder.phi(vector) for _ in range(count)] for _ in range(_ROWS)]
            terms = [builder.load(place, align=size) for place in vectors(right, k)]
            for r, row in enumerate(sums):
                factor = spread(plus(times(plus(i, whole(r)), across), times(k, along)))
                for v, old in enumerate(row):
                    row[v] = _fused(builder, factor, terms[v], old)
                    old.add_incoming(zeros, before)
                    old.add_incoming(row[v], loop)
            following = plus(k, whole(1))
            k.add_incoming(whole(0), before)
            k.add_incoming(following, loop)
            done = builder.append_basic_block("results")
            builder.cbranch(builder.icmp_signed("<", following, depth), loop, done)
            builder.position_at_end(done)
            for r, row in enumerate(sums):
                for place, value in zip(vectors(out, plus(i, whole(r))), row, strict=True):
                    builder.store(value, place, align=size)
            return context.get_dummy_value()

        length = _types.intp
        return _types.void(L, length, length, B, C, length, length, length), generate

    return _intrinsic(typed)


_two, _one = _block(2), _block(1)


@_intrinsic
def _transpose(context, C, i, j):  # type: ignore[no-untyped-def]
    """C[i:, j:] <- C[j:, i:]ᵀ for as many rows and columns as a register has numbers.

    Stage by stage, 2×2 blocks of 1, 2, 4, … numbers in each of two rows exchange their corners.
    """
    size = C.dtype.bitwidth // 8
    lanes = _BYTES // size

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        vector = _ir.VectorType(context.get_data_type(C.dtype), lanes)
        width = builder.extract_value(array.shape, 1)

        def places(top: Any, left: Any) -> list[Any]:
            rows = [builder.add(top, top.type(r)) for r in range(lanes)]
            starts = [builder.add(builder.mul(row, width), left) for row in rows]
            pointers = [builder.gep(array.data, [start]) for start in starts]
            return [builder.bitcast(pointer, vector.as_pointer()) for pointer in pointers]

        def exchange(a: Any, b: Any, first: list[int]) -> Any:
            mask = _ir.Constant(_ir.VectorType(_ir.IntType(32), lanes), first)
            return builder.shuffle_vector(a, b, mask)

        i, j = arguments[1:]
        rows = [builder.load(place, align=size) for place in places(j, i)]
        step = 1
        while step < lanes:
            upper = [v + lanes - step if v & step else v for v in range(lanes)]
            lower = [v + lanes if v & step else v + step for v in range(lanes)]
            for r in range(lanes):
                if not r & step:
                    a, b = rows[r], rows[r + step]
                    rows[r], rows[r + step] = exchange(a, b, upper), exchange(a, b, lower)
            step *= 2
        for place, row in zip(places(i, j), rows, strict=True):
            builder.store(row, place, align=size)
        return context.get_dummy_value()

    return _types.void(C, _types.intp, _types.intp), generate


@_intrinsic
def _pointer(context, like, address):  # type: ignore[no-untyped-def]
    """An address of numbers like those of an array."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        return builder.inttoptr(arguments[1], context.get_value_type(signature.return_type))

    return _types.CPointer(like.dtype)(like, _types.intp), generate


@_compiled
def _multiply(L, transposed, B, C, depth, upper):  # type: ignore[no-untyped-def]
    """C <- L B, or LᵀB, over `depth` terms; if `upper`, blocks below the diagonal are left out."""
    lanes, width = _BYTES // C.itemsize, L.shape[1]
    across, along = (1, width) if transposed else (width, 1)
    for i in range(0, C.shape[0], _ROWS):
        j = i // lanes * lanes if upper else 0
        while j + lanes < C.shape[1]:
            _two(L, across, along, B, C, i, j, depth)
            j += 2 * lanes
        if j < C.shape[1]:
            _one(L, across, along, B, C, i, j, depth)


@_compiled
def _mirror(C):  # type: ignore[no-untyped-def]
    """Copy the blocks above the diagonal to below it."""
    lanes = _BYTES // C.itemsize
    for i in range(lanes, C.shape[0], lanes):
        for j in range(0, i, lanes):
            _transpose(C, i, j)


@_compiled
def _square_norm(values):  # type: ignore[no-untyped-def]
    """Σ v_i² of a vector."""
    total = values[0] * values[0]
    for i in range(1, values.size):
        total += values[i] * values[i]
    return total


@_compiled
def are_usable(places, entries, like):  # type: ignore[no-untyped-def]
    """Whether all gradients are finite and not 0; sums that overflow count as infinite."""
    for k in range(places.shape[1]):
        gradient = _carray(_pointer(like, places[0, k]), entries)
        total = abs(gradient[0])
        for i in range(1, entries):
            total += abs(gradient[i])
        if not 0.0 < total < np.inf:
            return False
    return True


@_compiled
def _average(momentum, gradient, numbers):  # type: ignore[no-untyped-def]
    """m <- β m + (1 − β) g; Σ m². The numbers are 1 − β and ±1."""
    share, sign = numbers[0], numbers[1]
    total = momentum.dtype.type(0.0)
    for i in range(momentum.size):
        value = momentum[i] + share * (sign * gradient[i] - momentum[i])
        momentum[i] = value
        total += value * value
    return total


@_compiled
def _between(old, new, share):  # type: ignore[no-untyped-def]
    """old + share · (new − old), exact at both ends."""
    if share < 0.5:
        return old + share * (new - old)
    return new - (1 - share) * (new - old)


@_compiled
def _polar(x, other, small, rows, columns, table):  # type: ignore[no-untyped-def]
    """`orthogonalize`, not yet divided by the peak: x or `other`; everything is overwritten.

    x, other  (rows, columns), padded, rows >= columns; x has Frobenius norm about 1
    small     (2, columns, columns), padded
    table     (steps, 3) coefficients, and the norm's rounding in one more row
    """
    gram, inner = small[0], small[1]
    for k in range(table.shape[0] - 1):
        a, b, c = table[k, 0], table[k, 1], table[k, 2]
        _multiply(x, True, x, gram, rows, True)
        _mirror(gram)
        _multiply(gram, False, gram, inner, columns, True)
        if k == 0:
            _mirror(inner)
            norm = np.sqrt(_square_norm(inner.reshape(-1)))
            share = table[0, 2] / (table[0, 2] * np.sqrt(table[table.shape[0] - 1, 0] * norm))
            size = np.sqrt(share)
            a, b, c = a * size, b * size * share, c * size * share * share
        for i in range(gram.shape[0]):
            for j in range(gram.shape[1]):
                inner[i, j] = b * gram[i, j] + c * inner[i, j]
            inner[i, i] += a
        _mirror(inner)
        _multiply(x, False, inner, other, columns, False)
        x, other = other, x
    return x


@_compiled
def spectral(places, sizes, shape, work, small, table, numbers, by_length):  # type: ignore[no-untyped-def]
    """Momenta, and steps toward polar factors; False if only the momenta could be updated.

    places   (3 or more, members) addresses of gradients, momenta and weights
    sizes    (members, 4) what polar factors are multiplied by, γ / lr (at least, if it depends on
             their length), lr, and what is computed: γ
    numbers  as for `_average`, and ½√n
    """
    rows, columns = shape
    tall, entries, like = rows >= columns, rows * columns, table
    for k in range(places.shape[1]):
        momentum = _carray(_pointer(like, places[1, k]), entries)
        gradient = _carray(_pointer(like, places[0, k]), entries)
        sizes[k, 3] = _average(momentum, gradient, numbers)
    for k in range(places.shape[1]):
        if not 1e-30 < sizes[k, 3] < 1e30:
            return False
    scalars = np.empty(2, work.dtype)
    for k in range(places.shape[1]):
        momentum = _carray(_pointer(like, places[1, k]), (rows, columns))
        weight = _carray(_pointer(like, places[2, k]), (rows, columns))
        scalars[0] = 1.0 / np.sqrt(sizes[k, 3])
        factor, x = scalars[0], work[0]
        for i in range(rows):
            for j in range(columns):
                if tall:
                    x[i, j] = factor * momentum[i, j]
                else:
                    x[j, i] = factor * momentum[i, j]
        if tall:
            x = _polar(x, work[1], small, rows, columns, table)
        else:
            x = _polar(x, work[1], small, columns, rows, table)
        step_size = sizes[k, 1]
        if by_length:
            length = abs(sizes[k, 0]) * np.sqrt(_square_norm(x.reshape(-1)))
            step_size = max(numbers[2] / length, step_size)
        step_size = sizes[k, 3] = min(1.0, step_size * sizes[k, 2])
        scalars[0], scalars[1] = sizes[k, 0], step_size
        factor, share = scalars[0], scalars[1]
        for i in range(rows):
            for j in range(columns):
                old = weight[i, j]
                new = factor * (x[i, j] if tall else x[j, i])
                weight[i, j] = _between(old, new, share)
    return True


@_compiled
def rank_one(places, sizes, shape, us, images, numbers):  # type: ignore[no-untyped-def]
    """Momenta, and steps toward −radius · u vᵀ of one power iteration from the last v.

    False if only the momenta could be updated. A row of the momentum is updated, and used for both
    products, while it is in the cache: u and Gᵀu need no norm before the end.

    places       (4, members) addresses of gradients, momenta, weights, and v
    sizes        as for `spectral`, with −radius first
    us, images   (members, rows) and (members, columns), overwritten
    """
    rows, columns = shape
    like, share, sign = us, numbers[0], numbers[1]
    good = True
    for k in range(places.shape[1]):
        gradient = _carray(_pointer(like, places[0, k]), (rows, columns))
        momentum = _carray(_pointer(like, places[1, k]), (rows, columns))
        v = _carray(_pointer(like, places[3, k]), columns)
        image, total = images[k], like.dtype.type(0.0)
        for j in range(columns):
            image[j] = 0.0
        for i in range(rows):
            size = like.dtype.type(0.0)
            for j in range(columns):
                value = momentum[i, j] + share * (sign * gradient[i, j] - momentum[i, j])
                momentum[i, j] = value
                size += value * v[j]
            for j in range(columns):
                image[j] += size * momentum[i, j]
            us[k, i] = size
            total += size * size
        sizes[k, 3] = total
        good = good and 1e-18 < total < 1e18
    if not good:
        return False
    for k in range(places.shape[1]):
        weight = _carray(_pointer(like, places[2, k]), (rows, columns))
        v = _carray(_pointer(like, places[3, k]), columns)
        size = np.sqrt(_square_norm(images[k]))
        for j in range(columns):
            v[j] = images[k, j] / size
        along = sizes[k, 0] / np.sqrt(sizes[k, 3])
        step_size = sizes[k, 3] = min(1.0, sizes[k, 1] * sizes[k, 2])
        numbers[3], numbers[4] = 1.0 - step_size, step_size * along
        keep, along = numbers[3], numbers[4]
        for i in range(rows):
            factor = along * us[k, i]
            for j in range(columns):
                weight[i, j] = keep * weight[i, j] + factor * v[j]
    return True
