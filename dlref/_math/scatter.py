"""Sums of rows that belong together: the transposed map of a lookup."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .._core.arguments import FloatArray
from .._core.jit import kernel
from .._core.threads import as_carray, over_rows, with_workspace

#: Rows of fewer numbers than `NARROW` have their updates added one by one if the table has fewer
#: numbers than `SPARSE` times the number of updates.
NARROW, SPARSE = 8, 32


@kernel
def _scatter(
    start: int, stop: int, dout: FloatArray, rows: npt.NDArray[np.int64], out: FloatArray
) -> None:
    for r in range(rows.size):
        row, to = dout[r, start:stop], out[rows[r], start:stop]
        for d in range(to.size):
            to[d] += row[d]


@kernel
def _place(
    start: int,
    stop: int,
    sums: FloatArray,
    factor: float,
    used: npt.NDArray[np.int64],
    out: FloatArray,
) -> None:
    for r in range(start, stop):
        row, to = sums[r], out[used[r]]
        for d in range(to.size):
            to[d] = factor * row[d]


def add_rows(
    dout: FloatArray, rows: npt.NDArray[np.int64], table: FloatArray, factor: float = 1.0
) -> FloatArray:
    """
    Return the sum of the cotangents of each row of a table, times a factor.

    Sums are float64 and rounded once. Rows that were looked up are few where a vocabulary is large:
    only they get a sum; the others are zeros, which cost no time until somebody looks at them.
    """
    flat = np.ascontiguousarray(dout).reshape(rows.size, table.shape[1])
    used, places = np.unique(rows.ravel(), return_inverse=True)
    sums = np.zeros((len(used), table.shape[1]))
    over_rows(_scatter, table.shape[1], rows.size, flat, places, sums)
    out = np.zeros(table.shape, table.dtype)
    over_rows(_place, len(used), table.shape[1], sums, np.float64(factor), used, out)
    return out


@kernel
def _increase(
    start: int,
    stop: int,
    updates: FloatArray,
    order: npt.NDArray[np.int64],
    rows: npt.NDArray[np.int64],
    firsts: npt.NDArray[np.int64],
    tables: FloatArray,
    sums: FloatArray,
) -> None:
    used = firsts.size - 1
    table, group = start // used, start % used
    for _ in range(start, stop):
        first, last = firsts[group], firsts[group + 1] - 1
        row, to = updates[table, order[last]], tables[table, rows[last]]
        if first == last:  # most rows
            for d in range(to.size):
                to[d] += row[d]
        else:
            for d in range(to.size):
                sums[d] = to[d]
            for k in range(first, last):
                earlier = updates[table, order[k]]
                for d in range(to.size):
                    sums[d] += earlier[d]
            for d in range(to.size):
                to[d] = sums[d] + row[d]
        group += 1
        if group == used:
            table, group = table + 1, 0


@kernel
def _increase_numbers(
    start: int,
    stop: int,
    updates: FloatArray,
    rows: npt.NDArray[np.int64],
    width: int,
    tables: FloatArray,
    sums: FloatArray,
) -> None:
    for t in range(start, stop):
        update, to = updates[t], tables[t]
        for i in range(to.size):
            sums[i] = to[i]
        for d in range(width):
            for k in range(rows.size):
                sums[rows[k] * width + d] += update[k * width + d]
        for i in range(to.size):
            to[i] = sums[i]


def increase_rows(tables: FloatArray, rows: npt.NDArray[np.int64], updates: FloatArray) -> None:
    """
    Add updates (L, N, D) to the rows (N,) of each of L tables (L, rows, D), in place.

    Sums are float64 and rounded once. Rows without an update are left alone, unless they are short
    and many others have one.
    """
    count, width = updates.shape[1:]
    if not count:
        return
    size = tables.shape[1] * width
    if width < NARROW and size < SPARSE * count:
        # Sorting would take longer than copying a table to float64 and back.
        flat = as_carray(updates).reshape(len(tables), -1), rows, width
        kernel = with_workspace(_increase_numbers, size)
        over_rows(kernel, len(tables), size + count * width, *flat, tables.reshape(len(tables), -1))
        return
    # The updates of a row follow each other, in the order in which they were given. No two of the
    # sorted numbers are equal, so that any sort keeps that order; a stable one takes longer.
    rows, order = np.divmod(np.sort(rows * count + np.arange(count)), count)
    firsts = np.concatenate([[0], np.flatnonzero(rows[1:] != rows[:-1]) + 1, [count]])
    used = len(firsts) - 1
    # A row takes a few nanoseconds, and several of its numbers together take one.
    cost = (8 + width / 4) * count / used
    kernel = with_workspace(_increase, width)
    over_rows(kernel, len(tables) * used, cost, as_carray(updates), order, rows, firsts, tables)
