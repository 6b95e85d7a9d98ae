"""
Argument checks shared by the public functions, never by kernels.

The only place that words argument errors: each names the argument, the requirement and the value.
"""

from __future__ import annotations

import contextlib
import importlib
import math
import operator
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt
from numpy.lib.array_utils import normalize_axis_tuple

from .foreign import as_numpy_array, kind_of

FloatArray = npt.NDArray[np.floating[Any]]
FloatDType = np.dtype[np.floating[Any]]
#: Larger than any position; 2 * MAX_OFFSET plus a position still fits into a 32-bit index.
MAX_OFFSET = 2**29
Axis = int | tuple[int, ...] | None

DOUBLE, SINGLE = np.dtype(np.float64), np.dtype(np.float32)
_NATIVE = frozenset(np.dtype(t) for t in (np.float16, np.float32, np.float64))
_WEAK = (bool, int, float)  # Python scalars take the dtype of the arrays (NEP 50)
MAX_AXES = 32  # so that a Jacobian has at most NumPy's 64
MAX_INTEGER = 2**63 - 1


def _words(items: Iterable[Any], link: str = "or") -> str:
    """Join as in a sentence: a, b or c."""
    *most, last = [repr(item) for item in items]
    return f"{', '.join(most)} {link} {last}" if most else last


def printable(text: str) -> str:
    """Return a text whose control characters are escaped: a terminal would obey them."""
    return "".join(
        c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in text
    )


def shown(value: Any) -> str:
    """Return a short repr in one line, for the end of a message."""
    try:
        text = " ".join(repr(value).split())
    except ValueError:  # of integers with thousands of digits
        text = f"a number of {value.bit_length()} bits" if isinstance(value, int) else ""
    except Exception:  # an object's own
        text = ""
    text = printable(text or f"this {type(value).__name__}")
    return text if len(text) <= 100 else f"{text[:97]}..."


def _float_dtype(name: str, dtype: np.dtype[Any], *, integers: bool = True) -> np.dtype[Any]:
    if dtype in _NATIVE:
        return dtype
    if integers and dtype.kind in "biu":
        return np.dtype(np.float64)
    if dtype.kind in "fV" and (dtype.newbyteorder("=") in _NATIVE or dtype.name == "bfloat16"):
        return dtype.newbyteorder("=")
    raise TypeError(_of_wrong_dtype(name, str(dtype), integers))


def _of_wrong_dtype(name: str, dtype: str, integers: bool) -> str:
    """Return the message on a dtype that nothing is computed in."""
    words = f"{'integer, ' * integers}float16, bfloat16, float32 or float64, not {dtype}."
    if "bfloat16" in dtype:
        words += " NumPy has bfloat16 if the package ml_dtypes is installed."
    elif "float8" in dtype:
        words += " In 8 bits numbers are stored only: see dlref.quantization.quantize_blocks."
    return f"Argument {name!r} must be {words}"


def float_dtype(name: str, dtype: npt.DTypeLike, *, integers: bool = True) -> FloatDType:
    """Return the type of a result that has no array among its arguments: float64 for integers."""
    if isinstance(dtype, str) and dtype == "bfloat16":
        with contextlib.suppress(ImportError):
            importlib.import_module("ml_dtypes")  # makes the name known to NumPy
    try:
        kind = np.dtype(dtype)
    except (TypeError, ValueError):
        raise TypeError(_of_wrong_dtype(name, shown(dtype), integers)) from None
    return _float_dtype(name, kind, integers=integers)


def _is_masked(value: Any) -> bool:
    """Return whether a value is a masked array, or a sequence that holds one."""
    if isinstance(value, list | tuple):
        return any(_is_masked(part) for part in value if not isinstance(part, int | float))
    return isinstance(value, np.ma.MaskedArray)


def as_array(name: str, value: npt.ArrayLike) -> npt.NDArray[Any]:
    """Return `value`, which may be of another library, as an array of whatever dtype it has."""
    if type(value) is np.ndarray and value.ndim <= MAX_AXES:  # most calls, and quick
        return value
    if _is_masked(value):
        msg = f"Argument {name!r} must not be a masked array: its mask would be ignored."
        raise TypeError(msg)
    try:
        array = np.asarray(as_numpy_array(value))
    except ValueError:
        msg = f"Argument {name!r} must be an array, not a ragged sequence."
        raise ValueError(msg) from None
    except (OverflowError, RuntimeError, TypeError) as error:  # of numbers, or of a library
        reason = (str(error).splitlines() or [""])[0].rstrip(".")  # the rest is of JAX's traceback
        msg = f"Argument {name!r} must be an array, not {type(value).__name__}: {reason}."
        if kind_of(value) != "numpy":
            msg += " See the page 'Use dlref inside PyTorch and JAX' of the documentation."
        raise TypeError(msg) from None
    if array.ndim > MAX_AXES:
        msg = f"Argument {name!r} must have at most {MAX_AXES} axes, not {array.ndim}."
        raise ValueError(msg)
    return array


def as_floats(
    arguments: dict[str, npt.ArrayLike], *, work: npt.DTypeLike = np.float64
) -> tuple[FloatDType, list[FloatArray]]:
    """
    Return the common dtype of the arguments, and the arguments as arrays to compute with.

    The dtype is the result's: NumPy's promotion, in which integers count as float64 and Python
    scalars follow the arrays.  The arrays have the dtype `work`, or the result's where it is wider;
    they may be the caller's own and must not be written to.
    """
    values: list[Any] = list(arguments.values())
    dtype = getattr(values[0], "dtype", None) if values else None
    if dtype is DOUBLE or (dtype is SINGLE and work is np.float32):
        for a in values:
            if type(a) is not np.ndarray or a.dtype is not dtype or a.ndim > MAX_AXES:
                break
        else:  # nothing to convert: most calls, and quick
            return dtype, values
    arrays = {name: as_array(name, value) for name, value in arguments.items()}
    dtypes = {name: _float_dtype(name, array.dtype) for name, array in arrays.items()}
    strong: list[Any] = [
        dtype for name, dtype in dtypes.items() if type(arguments[name]) not in _WEAK
    ]
    try:
        dtype = np.result_type(*(strong or [DOUBLE]))
    except TypeError:  # float16 with bfloat16: neither holds the other
        msg = f"Arguments {_words(arguments)} must have dtypes that promote, not {_words(strong)}."
        raise TypeError(msg) from None
    wide = np.result_type(dtype, work)
    with np.errstate(invalid="ignore"):  # a signaling NaN is an invalid number when it is widened
        return dtype, [np.asarray(array, wide) for array in arrays.values()]


def in_float64(array: FloatArray) -> FloatArray:
    """Return a copy of an array in float64, without a warning where a NaN is signaling."""
    if array.dtype is DOUBLE:
        return array.copy()
    with np.errstate(invalid="ignore"):
        return array.astype(np.float64)


def as_integers(name: str, value: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """
    Return `value` as a new array of int64.

    It is a copy, since it will index: another thread may change the caller's array after the check.
    """
    array = as_array(name, value)
    if array.dtype.kind not in "biu":
        msg = f"Argument {name!r} must be integer, not {array.dtype}."
        raise TypeError(msg)
    if array.dtype == np.uint64 and array.size and array.max() > MAX_INTEGER:
        msg = f"Argument {name!r} must hold integers of at most {MAX_INTEGER}, not {array.max()}."
        raise ValueError(msg)
    return np.array(array, np.int64, order="C")


def as_rows(
    names: tuple[str, str], table: npt.NDArray[Any], numbers: npt.ArrayLike
) -> npt.NDArray[np.int64]:
    """Check a table, and numbers of its rows; return the latter."""
    check_axes(names[0], table, 2)
    rows = as_integers(names[1], numbers)
    check_range(names[1], rows, len(table))
    return rows


def as_tangents(
    primals: Any, tangents: Any, *, count: int, work: npt.DTypeLike = np.float64
) -> tuple[FloatDType, list[FloatArray], list[FloatArray]]:
    """
    Check both arguments of a jvp; return the common dtype, the primals and the tangents.

    They are tuples of `count` arrays, bare arrays if that is 1.  A tangent of None is zero.  `work`
    is as in `as_floats`.
    """
    points = entries("primals", primals, count)
    directions = entries("tangents", tangents, count)
    moving = {name: tangent for name, tangent in directions.items() if tangent is not None}
    dtype, arrays = as_floats({**points, **moving}, work=work)
    fixed, moved = arrays[:count], dict(zip(moving, arrays[count:], strict=True))
    for name, point in zip(directions, fixed, strict=True):
        check_shape(name, moved.setdefault(name, np.zeros_like(point)), point.shape)
    return dtype, fixed, [moved[name] for name in directions]


def entries(name: str, value: Any, count: int, *, of: str = "arrays") -> dict[str, Any]:
    """Check and name the entries of a tuple argument; convert arrays of other types, once."""
    if count == 1:
        return {name: _once(name, value)}
    if not isinstance(value, tuple | list):
        msg = f"Argument {name!r} must be a tuple of {count} {of}, not {type(value).__name__}."
        raise TypeError(msg)
    if len(value) != count:
        msg = f"Argument {name!r} must be a tuple of {count} {of}, not of {len(value)}."
        raise ValueError(msg)
    return {(key := f"{name}[{i}]"): _once(key, entry) for i, entry in enumerate(value)}


def present(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entries that are not None."""
    return {name: value for name, value in values.items() if value is not None}


def as_cotangents(
    given: dict[str, Any],
    floats: Sequence[FloatArray],
    shapes: Sequence[tuple[int, ...]],
    dtype: np.dtype[Any],
) -> list[FloatArray]:
    """
    Return the cotangents of several outputs, of these shapes; one that is None is zero.

    `found` are the converted ones of `given` that are not None.
    """
    arrays = dict(zip(present(given), floats, strict=True))
    out = []
    for name, shape in zip(given, shapes, strict=True):
        array = arrays[name] if name in arrays else np.zeros(shape, dtype)
        check_shape(name, array, shape)
        out.append(array)
    return out


def _once(name: str, value: Any) -> Any:
    """Return an object that says how it becomes an array as one, all others as they are."""
    return as_array(name, value) if hasattr(value, "__array__") else value


def result(array: FloatArray | np.floating[Any], dtype: FloatDType) -> FloatArray:
    """Round once to `dtype`; no axes left means a NumPy scalar, as NumPy's own functions."""
    rounded: Any = array
    if dtype is SINGLE and not rounded.ndim and 1e-30 < abs(rounded) < 1e30:  # most losses
        rounded = np.float32(rounded)
    elif rounded.dtype != dtype:
        with np.errstate(all="ignore"):  # too large for float32 is inf: IEEE 754, not an accident
            rounded = rounded.astype(dtype)
    out: FloatArray = rounded if rounded.ndim else rounded[()]
    return out


def check_shape(name: str, array: npt.NDArray[Any], shape: tuple[int, ...]) -> None:
    """Raise ValueError unless `array` has exactly this shape."""
    check_given(name, array)
    if array.shape != shape:
        msg = f"Argument {name!r} must have shape {shape}, not {array.shape}."
        raise ValueError(msg)


def check_symbols(name: str, array: npt.NDArray[Any], symbols: str, shape: tuple[int, ...]) -> None:
    """Raise ValueError unless `array` has this shape, which `symbols` spell, as in "(T, D)"."""
    if array.shape != shape:
        wrong_shape(name, array, f"{symbols} = {shape}")


def wrong_shape(name: str, array: npt.NDArray[Any], symbols: str) -> NoReturn:
    """Raise ValueError: the shape is none of those that `symbols` describe."""
    msg = f"Argument {name!r} must have shape {symbols}, not {array.shape}."
    raise ValueError(msg)


def check_pattern(name: str, array: npt.NDArray[Any], pattern: tuple[int | str, ...]) -> None:
    """Raise ValueError unless `array` has this shape, where a name stands for any length."""
    fits = [isinstance(want, str) or n == want for n, want in zip(array.shape, pattern)]  # noqa: B905
    if array.ndim != len(pattern) or not all(fits):
        words = f"({', '.join(map(str, pattern))}{',' if len(pattern) == 1 else ''})"
        msg = f"Argument {name!r} must have shape {words}, not {array.shape}."
        raise ValueError(msg)


def check_fits(name: str, array: npt.NDArray[Any], shape: tuple[int, ...], axes: str) -> None:
    """Raise ValueError unless `array` broadcasts to a shape, whose axes have these names."""
    try:
        fits = np.broadcast_shapes(array.shape, shape) == shape
    except ValueError:
        fits = False
    if not fits:
        to = f"({axes}) = {shape}"
        msg = f"Argument {name!r} must broadcast to {to}, not have shape {array.shape}."
        raise ValueError(msg)


def check_multiple(name: str, what: str, number: int, of: int) -> None:
    """Raise ValueError unless `number`, the `what` of `name`, is a multiple of `of`."""
    if number % of if of else number:
        msg = f"Argument {name!r} must have {what} that is a multiple of {of}, not {number}."
        raise ValueError(msg)


def as_mask(name: str, value: npt.ArrayLike, *, true: str = "attend") -> npt.NDArray[np.bool_]:
    """Return `value` as a boolean array; `true` says what True means."""
    array = as_array(name, value)
    if array.dtype.kind != "b":
        msg = f"Argument {name!r} must be boolean (True = {true}), not {array.dtype}."
        raise TypeError(msg)
    return array


def check_ndim(name: str, array: npt.NDArray[Any], ndim: int) -> None:
    """Raise ValueError unless `array` has at least `ndim` axes."""
    check_given(name, array)
    if array.ndim < ndim:
        axes = "axis" if ndim == 1 else "axes"
        msg = f"Argument {name!r} must have at least {ndim} {axes}, not shape {array.shape}."
        raise ValueError(msg)


def check_axes(name: str, array: npt.NDArray[Any], ndim: int) -> None:
    """Raise ValueError unless `array` has exactly `ndim` axes."""
    if array.ndim != ndim:
        msg = f"Argument {name!r} must have {ndim} axes, not shape {array.shape}."
        raise ValueError(msg)


def check_matrix(name: str, array: FloatArray) -> None:
    """Raise ValueError unless the last two axes form a square matrix."""
    if array.ndim < 2 or array.shape[-1] != array.shape[-2]:
        msg = f"Argument {name!r} must have shape (..., n, n), not {array.shape}."
        raise ValueError(msg)


def check_even(name: str, array: FloatArray) -> None:
    """Raise ValueError unless the last axis can be split into pairs."""
    if array.shape[-1] % 2:
        msg = f"Argument {name!r} must have an even number of channels, not shape {array.shape}."
        raise ValueError(msg)


def check_positive(name: str, array: FloatArray) -> None:
    """Raise ValueError if an entry is zero or negative."""
    if np.any(array <= 0):
        msg = f"Argument {name!r} must be positive, not {array[array <= 0].flat[0]:g}."
        raise ValueError(msg)


def check_range(name: str, array: npt.NDArray[np.int64], count: int, *, least: int = 0) -> None:
    """Raise ValueError unless all entries are indices of `count` things, `least` or larger."""
    if array.size and (array.min() < least or array.max() >= count):
        worst = array.min() if array.min() < least else array.max()
        msg = f"Argument {name!r} must hold integers from {least} to {count - 1}, not {worst}."
        raise ValueError(msg)


def check_mapping(name: str, value: Any) -> None:
    """Raise TypeError unless `value` is a dictionary, or behaves like one."""
    if not isinstance(value, Mapping):
        msg = f"Argument {name!r} must be a dictionary, not {shown(value)}."
        raise TypeError(msg)


def check_keys(
    name: str,
    keys: Collection[str],
    needed: set[str],
    allowed: set[str],
    *,
    what: str = "parameters",
) -> None:
    """Raise ValueError unless `keys` are all of `needed`, and else only some of `allowed`."""
    if missing := sorted(needed - set(keys)):
        given = sorted(keys, key=str)
        msg = f"Argument {name!r} must have {_words(missing, 'and')}, not only {shown(given)}."
        raise ValueError(msg)
    if unknown := sorted(set(keys) - needed - allowed, key=str):
        known = needed | allowed
        most = f"only {_words(sorted(known))}" if known else f"no {what}"
        near = [*get_close_matches(str(unknown[0]), known, 1)]
        hint = f" Did you mean {near[0]!r}?" if near else ""
        msg = f"Argument {name!r} must have {most}, not {_words(unknown)}.{hint}"
        raise ValueError(msg)


def check_broadcast(
    name: str, shape: tuple[int, ...], to: tuple[int, ...], *, both: bool = False
) -> None:
    """Raise ValueError unless `shape` broadcasts to `to`, or, if `both`, either with the other."""
    try:
        joint: tuple[int, ...] | None = np.broadcast_shapes(shape, to)
    except ValueError:
        joint = None
    if joint is None or not (both or joint == to):
        word = "with" if both else "to"
        msg = f"Argument {name!r} must have batch axes that broadcast {word} {to}, not {shape}."
        raise ValueError(msg)


def as_offsets(
    name: str, array: FloatArray, heads: tuple[int, ...], q_offset: npt.ArrayLike
) -> npt.NDArray[np.int64]:
    """
    Return the position of query 0, or one for each sequence, with an axis for the heads.

    The batch axes of both broadcast; `heads` are the axes of the array up to its heads.
    """
    if isinstance(q_offset, int | float) or np.ndim(q_offset) == 0:
        return np.array(as_integer("q_offset", q_offset, least=-MAX_OFFSET, most=MAX_OFFSET))
    firsts = as_integers("q_offset", q_offset)
    for end in (firsts.min(initial=0), firsts.max(initial=0)):
        as_integer("q_offset", int(end), least=-MAX_OFFSET, most=MAX_OFFSET)
    check_ndim(name, array, array.ndim - len(heads) + 1)
    check_broadcast("q_offset", firsts.shape, heads[:-1], both=True)
    return firsts[..., None]


def check_given(name: str, value: Any) -> None:
    """Raise TypeError if an array that must be there is missing."""
    if value is None:
        msg = f"Argument {name!r} must be an array, not None."
        raise TypeError(msg)


def check_constant(name: str, tangent: Any) -> None:
    """Raise ValueError if something that does not vary was given a tangent."""
    if tangent is not None:
        msg = f"Argument {name!r} must be None, as it belongs to a constant, not an array."
        raise ValueError(msg)


def tangents_by_name(
    names: tuple[str, ...],
    primals: Any,
    tangents: Any,
    operands: Callable[..., Any],
    options: tuple[dict[str, Any], dict[str, Any]] = ({}, {}),
) -> tuple[FloatDType, dict[str, FloatArray], dict[str, FloatArray]]:
    """
    Return the dtype, and by name the operands and the tangents; some of both may be None.

    `operands` checks the operands by their labels, and converts them together with more arrays. The
    last ones of `names` may be options and their tangents, by their labels.
    """
    points, moves = (
        {**entries(label, value, len(names) - len(option)), **option}
        for label, value, option in zip(
            ("primals", "tangents"), (primals, tangents), options, strict=True
        )
    )
    for point, (label, move) in zip(points.values(), moves.items(), strict=True):
        if point is None:
            check_constant(label, move)
    given = {label: move for label, move in moves.items() if move is not None}
    dtype, arrays, floats = operands(points, given)
    of_labels = dict(zip(moves, names, strict=True))
    moving = {of_labels[label]: move for label, move in zip(given, floats, strict=True)}
    for label in given:
        name = of_labels[label]
        check_shape(label, moving[name], arrays[name].shape)
    return dtype, arrays, moving


def choice(name: str, value: Any, allowed: Collection[Any]) -> None:
    """Raise ValueError unless `value` is one of the allowed ones."""
    try:
        fits = hash(value) is not None and bool(value in allowed)
    except (RuntimeError, TypeError, ValueError):  # lists, dictionaries, arrays
        fits = False
    if not fits:
        msg = f"Argument {name!r} must be {_words(allowed)}, not {shown(value)}."
        raise ValueError(msg)


def check_flags(**values: Any) -> None:
    """Raise TypeError unless each option is True or False."""
    for name, value in values.items():
        as_bool(name, value)


def check_callable(name: str, value: Any) -> None:
    """Raise TypeError unless `value` is a function, or can be called like one."""
    if not callable(value):
        msg = f"Argument {name!r} must be a function, not {shown(value)}."
        raise TypeError(msg)


def check_size(**sides: int) -> None:
    """Raise ValueError unless an array with these sides could be in memory."""
    if math.prod(max(side, 1) for side in sides.values()) >= 2**48:
        names = f"{'s' if len(sides) > 1 else ''} {_words(sides, 'and')}"
        product = " times ".join(map(str, sides.values()))
        msg = f"Argument{names} must make fewer than 2**48 numbers, not {product}."
        raise ValueError(msg)


def as_bool(name: str, value: Any) -> bool:
    """Return `value` if it is True or False."""
    if not isinstance(value, bool | np.bool_):
        msg = f"Argument {name!r} must be True or False, not {shown(value)}."
        raise TypeError(msg)
    return bool(value)


def as_generator(name: str, value: Any) -> np.random.Generator:
    """Return `value` if it is a random generator."""
    if not isinstance(value, np.random.Generator):
        msg = f"Argument {name!r} must be a numpy.random.Generator, not {shown(value)}."
        raise TypeError(msg)
    return value


def as_integer(name: str, value: Any, *, least: int, most: int = MAX_INTEGER) -> int:
    """Return `value` as an int from `least` to `most`."""
    try:
        number = operator.index(value)
    except TypeError:
        msg = f"Argument {name!r} must be an integer, not {shown(value)}."
        raise TypeError(msg) from None
    if number < least:
        msg = f"Argument {name!r} must be at least {least}, not {shown(number)}."
        raise ValueError(msg)
    if number > most:
        msg = f"Argument {name!r} must be at most {most}, not {shown(number)}."
        raise ValueError(msg)
    return number


def as_even(name: str, value: Any, *, least: int = 0, most: int = MAX_INTEGER) -> int:
    """Return `value` as an even int from `least` to `most`."""
    number = as_integer(name, value, least=least, most=most)
    if number % 2:
        msg = f"Argument {name!r} must be even, not {number}."
        raise ValueError(msg)
    return number


def _as_float(name: str, value: Any) -> float:
    scalar = value[()] if isinstance(value, np.ndarray) and value.ndim == 0 else value
    kinds = (int, float, np.integer, np.floating)
    if isinstance(scalar, bool) or not isinstance(scalar, kinds):
        msg = f"Argument {name!r} must be a number, not {shown(value)}."
        raise TypeError(msg)
    try:
        return float(scalar)
    except OverflowError:
        msg = f"Argument {name!r} must be a float64 number, not {shown(scalar)}."
        raise ValueError(msg) from None


def as_number(
    name: str,
    value: Any,
    *,
    least: float | None = None,
    most: float = math.inf,
    above: float | None = None,
) -> float:
    """Return `value` as a float, from `least` or above `above`, to `most`."""
    number, words = value if type(value) is float else _as_float(name, value), ""
    if above is not None:
        if not number > above:  # NaN is never inside
            words = f"greater than {above:g}"
        elif number > most:
            words = f"at most {most:g}"
    elif least is not None and not least <= number <= most:
        words = f"from {least:g} to {most:g}" if most < math.inf else f"at least {least:g}"
    if words:
        msg = f"Argument {name!r} must be {words}, not {number:g}."
        raise ValueError(msg)
    return number


def axes_last(x: FloatArray, axes: tuple[int, ...]) -> FloatArray:
    """Return `x` with some of its axes, in ascending order, moved to the end."""
    ends = tuple(range(x.ndim - len(axes), x.ndim))
    return x if axes == ends else np.moveaxis(x, axes, ends)


def axes_back(x: FloatArray, axes: tuple[int, ...]) -> FloatArray:
    """Return the last axes of `x` to their places: the inverse of `axes_last`."""
    ends = tuple(range(x.ndim - len(axes), x.ndim))
    return x if axes == ends else np.moveaxis(x, ends, axes)


def reduced_axes(axis: Axis, ndim: int) -> tuple[int, ...]:
    """Return the axes to reduce over, as sorted non-negative integers; None means all."""
    if axis is None:
        return tuple(range(ndim))
    if type(axis) is int and -ndim <= axis < ndim:  # most calls, and quick
        return (axis % ndim,)
    try:
        return tuple(sorted(normalize_axis_tuple(axis, ndim)))
    except TypeError:
        msg = f"Argument 'axis' must be an integer, a tuple of integers or None, not {shown(axis)}."
        raise TypeError(msg) from None
    except (OverflowError, ValueError):  # out of range, or twice the same
        axes = f"distinct axes of an array of {ndim} axes"
        msg = f"Argument 'axis' must hold {axes}, not {shown(axis)}."
        raise ValueError(msg) from None
