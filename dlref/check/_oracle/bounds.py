"""
A bound for every element of a result.

Two things are measured near the inputs, in a few random places a rounding away from them: how far
the exact result moves (the rounding of its terms, whatever their sum), and how far the formula
computed plainly in the dtype lies from the exact one.  One rounding away the plain formula may be
accurate by the same coincidence, so its error is also sampled farther away, and with operations
that are rounded at random.

Where dlref computes float32 in float32, its own error there is a third measure, in roundings of the
format that sums are accumulated in.  Sums that are zero in exact arithmetic, as the gradient of the
keys' bias, do not move with the inputs, and any kernel gets the rounding of the terms for them, in
the dtype of the result.
"""

from __future__ import annotations

import contextlib
import functools
import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

import numpy as np

from ..._core.pytree import is_float, map_floats, tree_leaves
from ..._core.threads import get_num_threads
from .calls import ReferenceCall
from .formulas import computed, kernels_of
from .stochastic_rounding import EPS, stochastically_rounded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from ..._core.arguments import FloatArray


@dataclass(frozen=True)
class Limits:
    """Tolerances of a candidate, in addition to the rounding of inputs and results."""

    factor: float = 2.0
    rtol: float = 0.0
    atol: float = 0.0
    strict: bool = False
    accum_dtype: str = "float32"


#: A term added to each bound; the smallest normal number, below which a kernel may write 0, as
#: processors do that flush subnormal numbers.
TINY = {"float16": 2.0**-24, "bfloat16": 2.0**-126, "float32": 2.0**-126, "float64": 2.0**-1022}
NORMAL = {**TINY, "float16": 2.0**-14}
#: Roundings that a plain computation makes, in units of the effect of one.
ROUNDINGS = {"float16": 1.0, "bfloat16": 1.0, "float32": 4.0, "float64": 8.0}
#: Chapters whose functions compute float32 in float32, and modules.
FLOAT32_MODULES = (
    *("dlref.attention", "dlref.neurons", "dlref.recurrent", "dlref.transformer"),
    *("dlref.training._newton_schulz", "dlref.training._muon"),
)
DRAWS = 6
FAR_DRAWS = 12
AT_RANDOM = 4  #: evaluations with operations that are rounded at random
#: Numbers of a call for which threads are worth it.
FOR_THREADS = 2**17
#: Numbers of a call from which on the draws are a third: one alone takes seconds.
HUGE = 2**24


def _affordable(draws: int, call: ReferenceCall) -> int:
    return draws if numbers_of(call) < HUGE else math.ceil(draws / 3)


def _neighbours(
    call: ReferenceCall, eps: float, draws: int = DRAWS, *, whole: bool = True
) -> Iterator[ReferenceCall]:
    """Yield the call with all arrays moved by a rounding, up or down at random, or a part of it."""
    rng = np.random.default_rng(0)

    def moved(a: Any) -> Any:
        shape = np.shape(a)
        by = 2.0 * rng.integers(0, 2, shape, np.int8) - 1 if whole else rng.uniform(-1, 1, shape)
        return a * (1 + eps * by)

    for _ in range(_affordable(draws, call)):
        yield replace(call, arguments=map_floats(moved, call.arguments))


def _in_threads(
    f: Callable[[ReferenceCall], Any], call: ReferenceCall, neighbors: Iterator[ReferenceCall]
) -> Iterator[Any]:
    """Yield f of each neighbor; of a large call, as many at a time as there are threads."""
    if not FOR_THREADS <= numbers_of(call) < HUGE:  # of a huge one, two would not fit into memory
        yield from map(f, neighbors)
        return
    count = get_num_threads()
    with ThreadPoolExecutor(count) as pool:
        while some := [*islice(neighbors, count)]:  # all of them would not fit into memory
            yield from pool.map(f, some)


def numbers_of(call: ReferenceCall) -> int:
    """Return how many numbers the arrays of a call have."""
    return sum(a.size for a in tree_leaves(call.arguments) if isinstance(a, np.ndarray))


def _moves(call: ReferenceCall, want: list[Any], eps: float) -> list[FloatArray]:
    """
    Return how far each element moves.

    By whole roundings alone, three in eight differences of two products do not move at all.
    """

    @np.errstate(all="ignore")
    def moves_to(neighbor: ReferenceCall) -> list[Any]:
        try:
            there = tree_leaves(neighbor.run())
        except ValueError:  # a probability of more than one, for example
            return []
        pairs = zip(there, want, strict=True)
        return [np.abs(value - w) if _is_compared(w) else None for value, w in pairs]

    neighbors = chain(_neighbours(call, eps), _neighbours(call, eps, whole=False))
    far = [np.zeros(np.shape(w)) for w in want]
    for gaps in _in_threads(moves_to, call, neighbors):
        for k, gap in enumerate(gaps):
            far[k] = far[k] if gap is None else _larger(far[k], gap)
    return far


def _is_compared(want: Any) -> bool:
    return want is not None and np.asarray(want).dtype.kind == "f"


def _larger(most: FloatArray, gap: Any, granted: Any = True) -> FloatArray:
    """
    Return the larger one of each two gaps, in the place of the first ones.

    Infinite gaps count as 0, as do those that are not granted.
    """
    counted = np.isfinite(gap) & granted
    return np.maximum(most, gap if counted.all() else np.where(counted, gap, 0.0), out=most)


def size_of(value: Any) -> float:
    """Return the largest finite number of an array of floats; 0 for other values."""
    wide = np.asarray(value if is_float(value) else 0.0, np.float64)
    return float(np.max(np.abs(wide), where=np.isfinite(wide), initial=0.0))


def _plain_gaps(
    call: ReferenceCall, want: list[Any], dtype: np.dtype[Any], times: int
) -> list[FloatArray]:
    """
    Return how far the formula computed plainly in the dtype lies from the exact one.

    One that overflows on the way to a finite result grants nothing where its first digit is wrong.
    """
    formulas = kernels_of(call.explanation, call.form, dtype)
    gaps = [np.zeros(np.shape(w)) for w in want]
    if not formulas:
        return gaps
    eps = EPS[dtype.name]
    joined = call.spec.family not in ("elements", "pairs")  # one element overflows for others
    count, rng = times * FAR_DRAWS, np.random.default_rng(0)

    def gaps_at(neighbor: ReferenceCall) -> list[Any] | None:
        """Return the largest gap of each output, None if no formula takes the inputs."""
        narrow = map_floats(lambda a: np.asarray(a).astype(dtype), neighbor.arguments)
        noisy = map_floats(functools.partial(stochastically_rounded, rng=rng), narrow)
        draws = _affordable(times * AT_RANDOM, call) if neighbor is call else 0
        rounded = (narrow, *(noisy,) * draws)
        results = chain.from_iterable(
            _results(formulas, given, call.non_default_options, joined=joined) for given in rounded
        )
        wide = replace(neighbor, arguments=map_floats(lambda a: np.asarray(a, np.float64), narrow))
        exact = tree_leaves(wide.run())
        del wide  # as large as the weights of a vocabulary
        largest = [np.zeros(np.shape(w)) for w in exact]
        is_taken = False
        for overflown, values in results:
            is_taken = True
            for k, (value, w) in enumerate(zip(values, exact, strict=True)):
                if w is None:
                    continue
                with np.errstate(all="ignore"):
                    gap = np.abs(np.subtract(np.asarray(value), w, dtype=np.float64))
                    granted = ~(gap > np.abs(w) / 10) if overflown else True
                largest[k] = _larger(largest[k], gap, granted)
        return largest if is_taken else None

    near = _neighbours(call, eps, times * DRAWS)
    far = _neighbours(call, eps**0.5, count, whole=False)
    for found in _in_threads(gaps_at, call, chain((call,), near, far)):
        if found is None:
            return gaps
        gaps = [np.maximum(a, b, out=a) for a, b in zip(gaps, found, strict=True)]
    # the largest of few is less than the largest there is
    return [gap * (1 + 1 / _affordable(count, call)) for gap in gaps]


def _results(
    formulas: Iterable[Any], arguments: Any, options: Any, *, joined: bool
) -> Iterator[tuple[bool, list[Any]]]:
    """Yield the outputs of the formulas that have these options, and whether one overflows."""
    overflows: list[str] = []
    over: Any = "call" if joined else "ignore"
    for formula in formulas:
        overflows.clear()
        noted = np.errstate(all="ignore", over=over, call=lambda kind, _: overflows.append(kind))
        try:
            with noted:
                values = tree_leaves(formula(*arguments, **options))
        except NotImplementedError:
            continue
        yield bool(overflows), values


def in_dtype(dtype: Any, call: ReferenceCall) -> ReferenceCall:
    """Return a call with all arrays in a dtype."""
    arguments, options = map_floats(
        lambda a: np.asarray(a).astype(dtype), (call.arguments, tuple(call.options.values()))
    )
    return replace(call, arguments=arguments, options=dict(zip(call.options, options, strict=True)))


@np.errstate(all="ignore")
def _own_errors(call: ReferenceCall, want: list[Any]) -> list[FloatArray]:
    """Return how far dlref's float32 is from the exact result, in roundings of float32."""
    gaps = [np.zeros(np.shape(w)) for w in want]
    if not call.core.__module__.startswith(FLOAT32_MODULES):
        return gaps

    def results(neighbor: ReferenceCall) -> Iterator[Any]:
        narrow = in_dtype(np.float32, neighbor)
        got, exact = tree_leaves(narrow.run()), tree_leaves(in_dtype(np.float64, narrow).run())
        return zip(got, exact, strict=True)

    near = _neighbours(call, EPS["float32"])
    for pairs in _in_threads(results, call, chain((call,), near)):
        for k, (value, w) in enumerate(pairs):
            if w is not None:
                gaps[k] = _larger(gaps[k], np.abs(np.asarray(value, np.float64) - w))
    return [2 * gap / EPS["float32"] for gap in gaps]


@np.errstate(all="ignore")
def baselines(
    call: ReferenceCall, want: list[Any], own: list[Any], dtypes: list[Any]
) -> list[float]:
    """Return the largest error of the plain formula, else of dlref's own result, by output."""
    formula, coarse = call.explanation.plain.get(call.form), _coarsest(dtypes)
    got = own
    if formula is not None and coarse is not None:
        narrow = map_floats(lambda a: np.asarray(a).astype(coarse), call.arguments)
        with contextlib.suppress(NotImplementedError):
            got = tree_leaves(computed(formula, *narrow, **call.non_default_options))
    pairs = zip(got, want, strict=True)
    return [0.0 if w is None else size_of(np.asarray(value, np.float64) - w) for value, w in pairs]


def _coarsest(dtypes: list[Any]) -> np.dtype[Any] | None:
    """Return the dtype of the fewest digits; None if none is of floats."""
    floats = [np.dtype(d) for d in dtypes if d is not None and np.dtype(d).name in EPS]
    return max(floats, key=lambda d: EPS[d.name], default=None)


def _sums(
    call: ReferenceCall, want: list[Any], moves: list[Any], eps: float, limits: Limits
) -> list[Any]:
    """Return the tolerance of sums, in the format that they are accumulated in, by output."""
    own = _own_errors(call, want)
    # elements that do not move with the inputs are 0 but for the rounding of terms in the dtype
    still = [move <= 2.0**-20 * eps * gap for move, gap in zip(moves, own, strict=True)]
    unit = 0.0 if limits.strict else min(eps, EPS[limits.accum_dtype])
    out = [gap * np.where(s, eps, unit) for gap, s in zip(own, still, strict=True)]
    if unit > EPS["float32"]:  # each of n additions rounds a part of the sum
        terms = max((n for a in tree_leaves(call.inputs) for n in np.shape(a)), default=1)
        out = [
            gap if w is None else np.maximum(gap, (move + unit * np.abs(w)) * terms**0.5)
            for gap, move, w in zip(out, moves, want, strict=True)
        ]
    return out


def _large(moves: list[Any], sizes: list[float], eps: float) -> list[Any]:
    """Return which elements move by more than inputs that move by roundings explain."""
    return [move > np.sqrt(eps) * size for move, size in zip(moves, sizes, strict=True)]


def _sums_up(call: ReferenceCall) -> bool:
    """Return whether a call is a gradient whose elements are sums: exact zeros may be rounded."""
    return call.form == "vjp" and not call.numeric and call.spec.family not in ("elements", "pairs")


@np.errstate(all="ignore")
def _sizes_of_terms(call: ReferenceCall, sizes: list[float]) -> list[float]:
    """
    Return the largest element of each gradient, where its terms do not cancel.

    The gradient is linear in the upstream one: with random signs of that, its terms add up.
    """
    rng = np.random.default_rng(0)
    for _ in range(2):
        dout = map_floats(lambda a: a * rng.choice([-1.0, 1.0], np.shape(a)), call.arguments[0])
        other = tree_leaves(replace(call, arguments=(dout, *call.inputs)).run())
        sizes = [max(size, size_of(value)) for size, value in zip(sizes, other, strict=True)]
    return sizes


@np.errstate(all="ignore")
def bounds(
    call: ReferenceCall, want: list[Any], dtypes: list[Any], limits: Limits, times: int = 1
) -> tuple[list[Any], list[Any]]:
    """
    Return the bound of each element of each output, and how far inputs move it.

    The candidate has to return these dtypes; the plain formula is computed at so many times the
    usual number of places.
    """
    none = [np.zeros(np.shape(w)) for w in want]
    if (coarse := _coarsest(dtypes)) is None:
        return none, [*none]
    eps = EPS[coarse.name]
    sum_eps = min(eps, EPS[limits.accum_dtype])
    # differences have noise of their own, which moved inputs would only repeat
    moves = [*none] if call.numeric else _moves(call, want, eps)
    sizes = [size_of(w) for w in want]
    large = _large(moves, sizes, eps)
    if _sums_up(call) and (0.0 in sizes or any(map(np.any, large))):
        sizes = _sizes_of_terms(call, sizes)
        large = _large(moves, sizes, eps)
    far = _moves(call, want, 8 * eps) if any(map(np.any, large)) else moves
    plain = none if limits.strict else _plain_gaps(call, want, coarse, times)
    own = plain if call.numeric else _sums(call, want, moves, eps, limits)
    out = []
    for k, w in enumerate(want):
        if w is None or dtypes[k] is None or np.dtype(dtypes[k]).name not in EPS:
            out.append(np.zeros(np.shape(w)))
            continue
        name = np.dtype(dtypes[k]).name
        moves[k] = np.where(large[k] & (2 * moves[k] >= far[k]), 0.0, moves[k])
        unit = moves[k] + EPS[name] * np.where(np.isfinite(w), np.abs(w), 0.0)
        granted = np.maximum(ROUNDINGS[name] * unit, np.maximum(plain[k], own[k])) + TINY[name]
        granted = granted + (max(1e-9, eps) * size_of(w) if call.numeric else 0.0)
        if call.draws:  # low + u (high - low) is rounded as the ends are, also near 0
            granted = granted + 2 * EPS[name] * size_of(w)
        if _sums_up(call) and not limits.strict:
            zero = (w == 0) & (moves[k] == 0)
            granted = np.where(zero, granted + ROUNDINGS["float32"] * sum_eps * sizes[k], granted)
        out.append(limits.factor * granted)
    return out, moves
