"""Heuristics: causes that two arrays show, the exact output and the candidate's."""

from __future__ import annotations

import contextlib
import itertools
import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...._core.pytree import is_float, map_floats, tree_leaves
from ..bounds import size_of
from ..stochastic_rounding import EPS
from .common import LN2
from .normalization import reduced

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...._core.arguments import FloatArray
    from ..calls import ReferenceCall

#: An explanation must account for at least 90 % of the difference, and for more if fewer than four
#: elements are wrong; otherwise one of dozens would fit by chance.
MAX_RESIDUAL_SHARE, MIN_SAMPLES = 0.1, 4
NOISE = "the errors are noise"
NARROW_SUMS = "these are sums in"
NOT_A_NUMBER = "NaN comes from 0 divided by 0"
NOT_FINITE = "infinities come from a division by zero"
#: Noise is recognized among so many numbers or more. The largest of them, one in 50, must not hold
#: half of its energy: these would be outliers.
MIN_NOISE_SAMPLES, SAMPLES_PER_OUTLIER = 16, 50
#: A residual of lower kurtosis (fourth moment over the square of the second) is no noise: a wave
#: has 1.5, because it stays near its crests, rounding to a grid 1.8, and a sum of many roundings 3.
MIN_KURTOSIS = 1.65
FACTORS_OF_TWO = {
    2.0: "doubled: a factor 2, or accumulated twice",
    0.5: "halved: a factor 1/2, where there is none",
}
#: Options p whose complements 1 - p are factors, too.
COMPLEMENTED_OPTIONS = {"alpha", "betas", "dampening", "label_smoothing", "momentum", "residual"}
#: Largest correlation of a residual with the exact values, or their order, at which it is noise.
MAX_CORRELATION = 0.1


class Pair(NamedTuple):
    """One output of a candidate, and the exact one."""

    call: ReferenceCall
    number: int
    got: Any
    want: Any
    bound: Any
    dtype: np.dtype[Any]

    @property
    def gaps(self) -> FloatArray:
        """Return how far each element is off; 0 where both are the same infinity."""
        with np.errstate(all="ignore"):
            return np.where(self.got == self.want, 0.0, np.abs(self.got - self.want))


def agrees(got: Any, want: Any, pair: Pair) -> bool:
    if np.shape(got) != np.shape(want) or not np.size(want):
        return False
    with np.errstate(all="ignore"):
        both = np.isfinite(got) & np.isfinite(want)
        same = (got == want) | (np.isnan(got) & np.isnan(want))
        gaps = np.where(same, 0.0, np.abs(got - want))
        size = np.max(np.abs(want), where=both, initial=0.0)
        eps = EPS.get(pair.dtype.name, EPS["float64"])
        bound = pair.bound if np.shape(pair.bound) == np.shape(want) else 0.0
        near = gaps <= 4 * np.asarray(bound) + (8 if eps > EPS["float32"] else 64) * eps * size
    if not (near | same).all():
        return False
    if pair.want.shape != pair.got.shape:
        return True
    off = pair.gaps[~np.isnan(pair.gaps)]
    count = max(int((~(pair.gaps <= pair.bound)).sum()), 1)
    left = MAX_RESIDUAL_SHARE ** max(1.0, MIN_SAMPLES / count)
    return not off.size or float(gaps[both].max(initial=0.0)) <= left * float(off.max())


def transposed(pair: Pair) -> str:
    """Find an output with two axes exchanged."""
    got, want = pair.got, pair.want
    for a, b in itertools.combinations(range(got.ndim), 2):
        if agrees(np.swapaxes(got, a, b), want, pair) and not agrees(got, want, pair):
            return f"axes {a} and {b} of the output are exchanged (it is transposed)"
    return ""


def not_summed(pair: Pair) -> str:
    """Find a gradient that was not summed over the axes of a broadcast, or has axes too many."""
    got, want = pair.got, pair.want
    if not got.size or not want.size:
        return ""
    for axis, (many, n) in enumerate(zip(got.shape, want.shape, strict=False)):
        if got.ndim == want.ndim and many > n and many % n == 0:
            parts = got.reshape(*got.shape[:axis], n, -1, *got.shape[axis + 1 :])
            if agrees(parts.sum(axis + 1), want, pair):
                return f"the gradient is not summed over those that share one along axis {axis}"
    axes = tuple(range(got.ndim - want.ndim))
    if axes and agrees(got.sum(axes), want, pair):
        return f"the gradient is not summed over the broadcast axes {axes}"
    return ""


def overflown(pair: Pair) -> str:
    """Find NaN and infinities where an exponential overflows."""
    wrong = ~np.isfinite(pair.got) & np.isfinite(pair.want)
    if not wrong.any():
        return ""
    known = pair.call.spec
    if (pair.got[wrong] == -np.inf).all() and ("log" in known.name or known.is_loss):
        return "the logarithm of a number that is rounded to 0"
    most = _largest_exponent(pair)
    if (exponent := pair.call.explanation.exponent) is not None:
        if exponent(pair.call) > most:
            return "the maximum is not subtracted before exp, which overflows"
    elif known.exponential and max(map(size_of, pair.call.inputs), default=0.0) > most:
        return "an exponential overflows: it needs the other form for one of the signs"
    return ""


def undefined(pair: Pair) -> str:
    """Find NaN and infinities that have no better explanation, and the input that is 0 there."""
    wrong = ~np.isfinite(pair.got) & np.isfinite(pair.want)
    if not wrong.any():
        return ""
    for name, a in zip(pair.call.names, pair.call.inputs, strict=True):
        is_alike = is_float(a) and np.size(a) > 1 and np.shape(a) == wrong.shape
        if is_alike and not wrong.all() and np.array_equal(wrong, np.asarray(a) == 0):
            return f"a division by zero or 0 times infinity inside, wherever {name} is 0"
    if np.isnan(pair.got[wrong]).all():
        return f"{NOT_A_NUMBER}, infinities that cancel, or a root or logarithm of less than 0"
    return f"{NOT_FINITE}, an overflow, a logarithm of 0, or a mask's infinity"


def largest_input(call: ReferenceCall) -> float:
    """Return the largest exponent of a softmax of the first input."""
    return size_of(call.inputs[0])


def largest_score(call: ReferenceCall) -> float:
    """Return about the largest exponent of attention."""
    return size_of(call.inputs[0]) * size_of(call.inputs[1])


def blind_rows(pair: Pair) -> str:
    wrong = ~np.isfinite(pair.got) & np.isfinite(pair.want)
    rows = wrong.any(-1) if wrong.ndim else wrong
    blind = rows.any() and (pair.want[rows] == 0).all()
    return "a query that sees no key gives NaN, not 0" if blind else ""


def divided_by_nothing(pair: Pair) -> str:
    """Find weights of linear attention that add up to nothing."""
    if np.isfinite(pair.got[np.isfinite(pair.want)]).all():
        return ""
    return "the weights of a query add up to 0 or to infinity"


def at_a_kink(pair: Pair) -> str:
    """Find a slope of a map of single elements that is another where two branches meet."""
    names = zip(pair.call.names, pair.call.inputs, strict=True)
    floats = {name: a for name, a in names if is_float(a)}
    wrong = ~(pair.gaps <= pair.bound)
    alike = all(np.shape(a) == wrong.shape for a in floats.values())
    if pair.call.form == "forward" or not alike or wrong.all():
        return ""
    if not np.isfinite(pair.got[wrong]).all() or _is_linear(pair.call):
        return ""
    places = {f"{name} is 0": a == 0 for name, a in floats.items()}
    for (first, a), (second, b) in itertools.combinations(floats.items(), 2):
        places[f"{first} equals {second}"] = a == b
    for where, there in places.items():
        if there[wrong].all() and _is_of_elements(pair, there):
            return f"only where {where}: the slope of abs, clamp or where is another at its kink"
    if len(pair.call.inputs) > 1 or not floats:  # else elements of one array have slopes
        return ""
    values = np.unique(next(iter(floats.values()))[wrong])
    if 0 < values.size <= MIN_SAMPLES and _between_slopes(pair, wrong):
        where = " or ".join(f"{value:g}" for value in values)
        return f"only at {where}, where two branches meet: the slope there is a convention"
    return ""


def _is_linear(call: ReferenceCall) -> bool:
    """Return whether derivatives are the same at other inputs: a linear map has no kinks."""
    rng = np.random.default_rng(0)
    away = map_floats(lambda a: a + rng.normal(0.0, 10.0, np.shape(a)), call.arguments)
    by = away[1:] if call.form == "vjp" else away[0]
    given = (call.arguments[0], *by) if call.form == "vjp" else (by, *call.arguments[1:])
    with contextlib.suppress(ValueError):  # some numbers are refused: it is not linear in these
        here, there = tree_leaves(call.run()), tree_leaves(replace(call, arguments=given).run())
        return all(np.array_equal(a, b) for a, b in zip(here, there, strict=True) if a is not None)
    return False


def _is_of_elements(pair: Pair, there: Any) -> bool:
    """Return whether the derivatives at some places do not depend on the inputs at others."""
    rng = np.random.default_rng(0)

    def away(a: Any) -> Any:
        return np.where(there, a, a + rng.normal(size=there.shape)) if is_float(a) else a

    with contextlib.suppress(ValueError):  # some numbers are refused
        other = tree_leaves(pair.call.with_inputs(*map(away, pair.call.inputs)).run())
        return np.array_equal(other[pair.number][there], pair.want[there])
    return True


def _between_slopes(pair: Pair, wrong: Any) -> bool:
    """Return whether wrong elements lie between the slopes to the left and to the right."""
    step = 1e-6
    if pair.call.form == "vjp":
        (x,) = pair.call.inputs
        ends = [pair.call.with_inputs(x + by).run() for by in (-step, step)]
    else:
        x, dx = pair.call.arguments
        ends = [replace(pair.call, arguments=(x + by, dx)).run() for by in (-step, step)]
    low, high = np.minimum(*ends)[wrong], np.maximum(*ends)[wrong]
    off = 1e-3 * (high - low) + 1e-12
    got = pair.got[wrong]
    return bool(((high - low > 1e-4) & (got >= low - off) & (got <= high + off)).all())


def unshifted(pair: Pair) -> str:
    """Find a log-softmax that subtracts a logarithm from x itself, whose digits cancel."""
    if pair.call.form != "forward":
        return ""
    largest = np.abs(pair.call.inputs[0]).max(pair.call.settings["axis"], keepdims=True)
    if (pair.gaps <= 2 * EPS[pair.dtype.name] * largest).all():
        return "x minus logsumexp(x) loses digits where x is large: subtract the maximum first"
    return ""


def _largest_exponent(pair: Pair) -> float:
    """Return the largest number whose exponential is finite."""
    name = "float32" if pair.dtype.name == "bfloat16" else pair.dtype
    return math.log(float(np.finfo(name).max))


def without_inputs(pair: Pair) -> str:
    """Find an output that is zero, or one number everywhere, where the exact one is not."""
    if not np.any(pair.got) and np.isfinite(pair.want).any():
        return _overflows(pair, pair.want != 0) or (
            "it is zero: not computed, not written, or multiplied by 0"
        )
    if pair.want.size >= MIN_SAMPLES and np.ptp(pair.got) == 0 and np.ptp(pair.want):
        return "it is one number in all places"
    return ""


def unchanged(pair: Pair) -> str:
    given = [*zip(pair.call.names, pair.call.inputs, strict=True)]
    if pair.call.form == "vjp":
        given.append(("dout", pair.call.arguments[0]))
    for name, a in given:
        if is_float(a) and np.size(a) >= MIN_SAMPLES and np.array_equal(a, pair.got):
            return f"it is {name}, unchanged"
    return ""


def missing(pair: Pair) -> str:
    """Find an output whose wrong part is zero: a tile that was not written."""
    wrong = (pair.got != pair.want) & ~(pair.gaps <= pair.bound)
    if np.any(pair.got[wrong]):
        return ""
    if not np.isfinite(pair.want[wrong]).any():
        return "it is 0 where the exact result is infinite or NaN: a special case"
    if overflow := _overflows(pair, wrong):
        return overflow
    if pair.call.form == "forward" and np.array_equal(wrong, (pair.want < 0) & wrong.any()):
        return "all that should be negative is 0, as after a ReLU"
    if pair.dtype == np.float16 and _squares_overflow(pair):
        return "the wrong elements are all zero: not written, or divided by an overflow"
    return "the wrong elements are all zero: not written (a tail, a tile, a row)"


def _squares_overflow(pair: Pair) -> bool:
    """Return whether the largest input has no square in the dtype."""
    return bool(max(map(size_of, pair.call.inputs), default=0.0) ** 2 > np.finfo(pair.dtype).max)


def _overflows(pair: Pair, wrong: Any) -> str:
    """Return which exponential overflows where, and nowhere else, elements are 0 wrongly."""
    most = _largest_exponent(pair)
    for what, limit in (("an exponential", most), ("the square of an exponential", most / 2)):
        if pair.call.spec.family == "elements" and _is_zero_beyond(pair, wrong, limit):
            return f"{what} overflows: the result is 0 beyond {limit:.0f}"
    return ""


def _is_zero_beyond(pair: Pair, wrong: Any, limit: float) -> bool:
    """Return whether elements are wrong where the input is beyond a limit, all and no others."""
    x = pair.call.inputs[0]
    sides = np.isin(np.sign(x), np.unique(np.sign(x[wrong])))
    return bool((wrong == (sides & (np.abs(x) > limit) & (pair.want != 0))).all())


def multiple(pair: Pair) -> str:
    """Find an output that is a multiple of the exact one."""
    got, want = pair.got, pair.want
    finite = np.isfinite(want)
    base = float((want[finite] ** 2).sum())
    ratio = float((got[finite] * want[finite]).sum()) / base if base else 0.0
    if abs(ratio - 1) < 4 * EPS.get(pair.dtype.name, 0.0) or not _is_multiple(pair, ratio):
        return ""
    long = stagnates(pair)
    count = np.count_nonzero(want[finite])
    for message, value in _ratios(pair.call) if not long or count >= MIN_NOISE_SAMPLES else ():
        if _is_multiple(pair, value):
            return message
    if count < MIN_SAMPLES or long or _constant_offset(pair):
        return ""
    return f"it is the exact result times {ratio:.6g}"


def _constant_offset(pair: Pair) -> float:
    """Return the number that is added to all elements, 0 where there is none such."""
    finite = np.isfinite(pair.want)
    if pair.want.size < MIN_SAMPLES or not np.isfinite(pair.got[finite]).all() or not finite.any():
        return 0.0
    by = float((pair.got - pair.want)[finite].mean())
    return by if agrees(pair.got, pair.want + by, pair) else 0.0


def offset(pair: Pair) -> str:
    """Find a number that is added to all elements, unless a factor would do the same."""
    if stagnates(pair) or not (by := _constant_offset(pair)):
        return ""
    for i, a in enumerate(pair.call.inputs):
        for axis, n in enumerate(np.shape(a) if is_float(a) else ()):
            for sign, message in ((-1, "less"), (1, "plus")):
                if n > 1 and agrees(pair.got, pair.want + sign * math.log(n), pair):
                    place = f"axis {axis} of {pair.call.names[i]} ({n})"
                    return f"it is the exact result {message} the logarithm of {place}"
    ratio = (pair.got * pair.want).sum() / max((pair.want**2).sum(), np.finfo(float).tiny)
    if agrees(pair.got, ratio * pair.want, pair):
        return ""
    return f"it is the exact result plus {by:.6g}"


def _is_multiple(pair: Pair, ratio: float) -> bool:
    """
    Return whether an output is so many times the exact one.

    In 16 bits each element has to be, but for its own rounding: others are sums of that format.
    """
    if not np.isfinite(ratio):
        return False
    other = ratio * pair.want
    near = agrees(pair.got, other, pair)
    if pair.dtype.itemsize > 2 or not near:
        return near
    with np.errstate(all="ignore"):
        gaps = np.where(np.isfinite(other), np.abs(pair.got - other), 0.0)
        own = np.where(np.isfinite(other), EPS.get(pair.dtype.name, 0.0) * np.abs(other), 0.0)
    return bool((gaps <= own + 4 * abs(ratio) * np.asarray(pair.bound)).all())


def stagnates(pair: Pair) -> bool:
    """
    Return whether sums as long as these may stop growing in 16 bits, whatever is added.

    They are then about a multiple of the right ones, and nothing can be said of that.
    """
    if pair.dtype.itemsize > 2 or pair.call.spec.family == "elements":
        return False
    shapes = [np.shape(a) for a in tree_leaves(pair.call.arguments) if is_float(a)]
    terms = (max(math.prod(shape[:-1]), shape[-1]) for shape in shapes if shape)
    return max(terms, default=0) * EPS[pair.dtype.name] >= 2


def _ratios(call: ReferenceCall) -> Iterator[tuple[str, float]]:
    yield "the sign is reversed", -1.0
    if call.settings.get("delta") is not None:
        yield "it is divided by delta, as PyTorch's SmoothL1Loss is", 1 / call.settings["delta"]
    loss = call.spec.is_loss
    if (factor := _decay(call)) != 1:
        yield "the weight decay is applied twice", factor
    yield from _of_options(call, is_set=True)
    yield from ((f"it is {message}", size) for size, message in FACTORS_OF_TWO.items())
    if loss:
        yield "logarithms are to base 2, not natural", 1 / LN2
        yield "logarithms are to base 10, not natural", 1 / math.log(10)
    yield from _of_options(call, is_set=False)
    if call.spec.family == "elements":  # they have no sums
        return
    for i, a in enumerate(call.inputs):
        if isinstance(a, tuple | list):  # nested parameters
            continue
        for axis, n in enumerate(max(n, 1) for n in np.shape(a)):
            place = f"axis {axis} of {call.names[i]} ({n})"
            if loss:
                yield f"1/2 and a sum stand for a mean over {place}", n / 2
            yield from _means(place, n, call)
            yield f"divided by the root of {place}: a scale too many", n**-0.5
            yield f"multiplied by the root of {place}: a scale is missing", n**0.5
        yield from _means(f"the size {np.size(a)}", max(np.size(a), 1), call)
    if call.form == "vjp":
        n = max(np.size(tree_leaves(call.arguments[0])[0]), 1)
        yield f"a mean stands where a sum is due: divided by the size {n}", 1 / n


def _means(place: str, n: int, call: ReferenceCall) -> Iterator[tuple[str, float]]:
    yield f"a mean stands where a sum is due: divided by {place}", 1 / n
    yield f"a sum stands where a mean is due: multiplied by {place}", float(n)
    if call.spec.is_loss and n > 1:
        yield f"the mean divides by n - 1, not by n: {place}", n / (n - 1)


def _factors(call: ReferenceCall) -> Iterator[tuple[float, str, bool]]:
    """Yield factors that options make, with a name, and whether the caller gave the option."""
    for key, value in call.settings.items():
        parts = value if isinstance(value, tuple) else (value,)
        if not all(np.ndim(a) == 0 and np.asarray(a).dtype.kind in "if" for a in parts):
            continue
        numbers = [float(a) for a in parts]
        is_set = key in call.non_default_options and type(value) is not int
        name = f"the option {key!r}, {numbers[0]:g}" if len(numbers) == 1 else f"the option {key!r}"
        yield math.prod(numbers), name, is_set
        for i, number in enumerate(numbers if key in COMPLEMENTED_OPTIONS else ()):
            place = f" {i}" if len(numbers) > 1 else ""
            yield 1 - number, f"1 less the option {key!r}{place}, {number:g}", is_set


def _decay(call: ReferenceCall) -> float:
    """Return the factor by which an optimizer decays the parameters; 1 if there is none."""
    rate, decay = (call.settings.get(key) or 0.0 for key in ("learning_rate", "weight_decay"))
    return 1.0 - float(rate * decay)


def _of_options(call: ReferenceCall, *, is_set: bool) -> Iterator[tuple[str, float]]:
    """Yield factors that are the value of an option, or its inverse; of given options or others."""
    descriptions: dict[float, list[str]] = {}
    first: set[float] = set()
    for size, message, option_is_set in _factors(call):
        if not np.isfinite(size) or abs(size) in (0.0, 1.0):
            continue
        for factor, how in ((size, "multiplied"), (1 / size, "divided")):
            by = float(f"{factor:.12g}")  # 1 - 0.9 is 0.1
            descriptions.setdefault(by, []).append(f"{how} by {message}")
            first |= {by} if option_is_set else set()
    for size, ways in descriptions.items():
        if (size in first) == is_set:
            message = f"{' or '.join(ways)}, once too often"
            known = f"{FACTORS_OF_TWO[size]}; or " if size in FACTORS_OF_TWO else ""
            yield f"it is {known}{message}", size


def shifted(pair: Pair) -> str:
    for axis in range(pair.got.ndim):
        for step in (1, -1):
            if agrees(np.roll(pair.got, step, axis), pair.want, pair):
                return f"the output is shifted by one along axis {axis}"
        if agrees(np.flip(pair.got, axis), pair.want, pair):
            return f"the output is reversed along axis {axis}"
    return ""


def of_other_blocks(pair: Pair) -> str:
    """Find an output whose parts along an axis, such as the gates, are in the wrong places."""
    for axis, count in itertools.product(range(pair.got.ndim), (2, 3, 4)):
        if pair.got.shape[axis] % count or pair.got.size < count * MIN_SAMPLES:
            continue
        got, want = (np.split(a, count, axis) for a in (pair.got, pair.want))
        held = [_held(part, i, want, pair) for i, part in enumerate(got)]
        wrong = [i for i, k in enumerate(held) if k != i]
        if wrong and None not in held and not any(agrees(got[i], want[i], pair) for i in wrong):
            parts = ", ".join(f"part {i} of {count} holds part {held[i]}" for i in wrong)
            return f"along axis {axis}, {parts}"
    return ""


def _held(part: Any, own: int, want: list[Any], pair: Pair) -> int | None:
    """Return which part of the exact output a part of the candidate's is, its own one first."""
    order = sorted(range(len(want)), key=lambda k: k != own)
    return next((k for k in order if agrees(part, want[k], pair)), None)


def canceled(pair: Pair) -> str:
    """
    Find a variance of one pass, whose digits cancel at a large mean.

    The rows are then multiples of the exact ones, and the variance that a multiple implies is off
    by roundings of the mean's square.
    """
    names, inputs = pair.call.names, pair.call.inputs
    if pair.call.form != "forward" or (pair.gaps <= pair.bound).all():
        return ""
    x, eps = np.asarray(inputs[0]), pair.call.settings["eps"]
    bias = inputs[names.index("bias")] if "bias" in names else None
    got, want = (a if bias is None else a - bias for a in (pair.got, pair.want))
    axes, count = reduced(pair.call)
    channels = count // math.prod(x.shape[a] for a in axes)
    if channels > 1:  # of a group
        axes = (*axes, x.ndim)
        x, got, want = (a.reshape(*a.shape[:-1], -1, channels) for a in (x, got, want))
    mean, var = x.mean(axes, keepdims=True), x.var(axes, keepdims=True)
    ratio = (got * want).sum(axes, keepdims=True) / (want * want).sum(axes, keepdims=True)
    gaps = pair.gaps.max()
    left = np.abs(got - ratio * want)
    if not np.isfinite(ratio).all() or (left > MAX_RESIDUAL_SHARE * gaps).any():
        return ""
    implied = (var + eps) / ratio**2 - eps
    unit = EPS[pair.dtype.name]
    if (abs(implied - var) <= 64 * unit * (mean**2 + var)).all() and (mean**2 > 64 * var).any():
        return "the variance cancels: mean of the squares minus the square of the mean"
    return ""


def _in_turn(residual: Any) -> float:
    """Return how much each number of a residual resembles the next, from 0 for noise up to 1."""
    size = float((residual**2).sum())
    follows = float((residual[1:] * residual[:-1]).sum()) if residual.ndim == 1 else 0.0
    return abs(follows) / size if size else 1.0


def _is_systematic(pair: Pair, residual: Any) -> bool:
    """
    Return whether a residual follows the exact values, an input, or the place.

    Noise does not: put in the order of any of these, neighbors have nothing in common. Nor is a
    wave noise, however short it is.
    """
    if (residual**4).mean() < MIN_KURTOSIS * (residual**2).mean() ** 2:
        return True
    count = residual.size
    most = MAX_CORRELATION + 3 / count**0.5
    finite = np.where(np.isfinite(pair.want), pair.want, 0.0)
    want, flat_residual = finite.ravel(), residual.ravel()
    alike = [np.asarray(a).ravel() for a in tree_leaves(tuple(pair.call.arguments)) if is_float(a)]
    keys = [want, *(a for a in alike if a.size == count)]
    orders = [(key, flat_residual) for values in keys for key in (values, abs(values))]
    # and in the order of one input, times the sign of another, which may be a factor
    orders += [
        (key, flat_residual * np.sign(other)) for key, other in itertools.permutations(keys[1:], 2)
    ]
    for key, values in orders:
        size = float((key**2).sum() * (values**2).sum()) ** 0.5
        if size and abs(float((key * values).sum())) > most * size:
            return True
        if _in_turn(values[np.argsort(key, kind="stable")]) > most:
            return True
    for axis in range(residual.ndim):
        if _in_turn(np.moveaxis(residual, axis, -1).ravel()) > most:
            return True
    if residual.ndim > 1 and residual.shape[-1] >= MIN_NOISE_SAMPLES / 2:
        # each row may be a multiple of its own
        top = (residual * finite).sum(-1) ** 2
        ends = (residual**2).sum(-1) * (finite**2).sum(-1)
        shares = top[ends > 0] / ends[ends > 0]
        return bool(shares.size) and float(shares.mean()) > 0.5
    return False


def narrow(pair: Pair) -> str:
    """
    Find noise of the size that sums in a narrower format leave.

    It cannot be recognized in a few numbers, nor in a table, which has no random inputs.
    """
    if not any(is_float(a) for a in tree_leaves(pair.call.arguments)):
        return ""
    residual = np.where(pair.got == pair.want, 0.0, pair.got - pair.want)
    want = np.where(np.isfinite(pair.want), pair.want, 0.0)
    is_short = pair.want.size < MIN_NOISE_SAMPLES
    if is_short or pair.dtype.name not in EPS or not np.isfinite(residual).all():
        return ""
    rms, rms_of_gaps = (float(np.sqrt((a**2).mean())) for a in (want, residual))
    energy = np.sort(residual.ravel() ** 2)
    rare = energy[-max(1, energy.size // SAMPLES_PER_OUTLIER) :].sum() > energy.sum() / 2
    if rare or _is_systematic(pair, residual):
        return ""
    noise = rms_of_gaps / rms if rms else 0.0
    unit_of_dtype = EPS[pair.dtype.name] / 2
    limits = [
        *(("float32", 2.0**-24), ("float16 or TF32", 2.0**-11)),
        # tensor cores may cut digits off, where others round
        *(("TF32 or bfloat16", 2.0**-10), ("bfloat16", 2.0**-8)),
    ]
    for name, unit in limits:
        if unit > 2 * unit_of_dtype and unit / 16 < noise < unit:
            return f"{NOISE}, of the size that sums or inputs in {name} leave"
    if pair.dtype.itemsize == 2 and noise < 0.05:
        return f"{NOISE}, of the size that sums in {pair.dtype} leave"
    return ""


GENERAL_HEURISTICS = (
    *(at_a_kink, unchanged, missing, multiple, offset, shifted, of_other_blocks, transposed),
)
