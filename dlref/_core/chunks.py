"""Formulas of whole arrays, computed piece by piece: their temporary arrays stay in the cache."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from .arguments import FloatArray
from .threads import over_rows

COST = 10  #: nanoseconds, or elementary operations, a number of an input
PIECE = 2**16  #: numbers of an input whose formulas are computed at a time


def map_chunks(
    outs: Sequence[FloatArray],
    formulas: Callable[..., Sequence[FloatArray]],
    arrays: Sequence[FloatArray],
    *,
    convert: bool = True,
) -> None:
    """
    Write the results of formulas of arrays, computed in float64 and rounded once.

    All arrays have one first axis, and a piece is some of its entries; threads share the pieces.
    Formulas that consist of kernels, which convert numbers themselves, do without `convert`.
    """
    count, size = len(outs[0]), max(a.size for a in arrays)
    if not count:
        return
    numbers = max(1, size // count)
    step = max(1, PIECE // numbers)

    def compute(start: int, stop: int) -> None:
        with np.errstate(all="ignore"):
            for begin in range(start, stop, step):
                some = slice(begin, min(begin + step, stop))
                parts = [a[some] for a in arrays]
                if convert:
                    parts = [part.astype(np.float64, copy=False) for part in parts]
                results = formulas(*parts)
                for out, values in zip(outs, results, strict=True):
                    out[some] = values

    over_rows(compute, count, COST * numbers)
