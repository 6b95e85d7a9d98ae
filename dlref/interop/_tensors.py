"""
Maps between trees of parameters and state dicts. A layout is a tree with the structure of the
parameters and a `Tensor` in place of each array. Read with a state dict, it gives the parameters;
read with the parameters, it gives the state dict.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from .._core.arguments import as_array, check_mapping, float_dtype, result
from .._core.pytree import map_tree
from ..positions import rope_permutation
from ._safetensors import InFile

Array = np.ndarray[Any, Any]
Sizes = dict[str, int]


class Tensor(NamedTuple):
    """A tensor of a state dict, and how to get dlref's array from it."""

    name: str
    shape: str  # as it is stored: "4 H, D"
    optional: bool = False  # where there is none, the parameter is None
    transposed: bool = False  # stored as (n_in, n_out)
    part: int = 0  # which of
    parts: int = 1  # so many blocks of rows
    heads: int = 0  # whose rotated pairs are halves in so many heads, 0: no rotation
    cut: tuple[int, ...] = ()  # rows at which parts of other sizes begin
    grouped: int = 0  # number of heads, if each head has its rows of all parts together
    form: str = ""  # of experts: see `_of_experts`
    first: int = 0  # rows that come first as stored, and last here

    def parameter_from(self, stored: Array) -> Array:
        """Return dlref's array."""
        if self.form:
            return _of_experts(stored, self)[self.part]
        array = stored.T if self.transposed else stored
        array = np.roll(array, -self.first, axis=0) if self.first else array
        if self.grouped and self.cut:
            rows = array.reshape(self.grouped, -1, *array.shape[1:])
            rows = np.split(rows, self.cut, axis=1)[self.part]
            array = rows.reshape(-1, *array.shape[1:])
        elif self.grouped:
            rows = array.reshape(self.grouped, self.parts, -1, *array.shape[1:])
            array = rows[:, self.part].reshape(len(array) // self.parts, *array.shape[1:])
        else:
            array = np.split(array, self.cut or self.parts)[self.part]
        return _reordered(array, self.heads, np.argsort) if self.heads else array

    def tensor_from(self, arrays: list[Array]) -> Array:
        """Return the stored tensor from all its parts: the inverse of `parameter_from`."""
        if self.form:
            return _stored_experts(arrays, self.form)
        if self.heads:
            arrays = [_reordered(array, self.heads, np.asarray) for array in arrays]
        if self.grouped and self.cut:
            rows = [a.reshape(self.grouped, -1, *a.shape[1:]) for a in arrays]
            array = np.concatenate(rows, axis=1).reshape(-1, *arrays[0].shape[1:])
        elif self.grouped:
            rows = [a.reshape(self.grouped, 1, -1, *a.shape[1:]) for a in arrays]
            whole = np.concatenate(rows, axis=1)
            array = whole.reshape(-1, *whole.shape[3:])
        else:
            array = np.concatenate(arrays) if len(arrays) > 1 else arrays[0]
        array = np.roll(array, self.first, axis=0) if self.first else array
        return array.T if self.transposed else array


def by_other_names(named: Mapping[str, Any], pairs: Mapping[str, str]) -> dict[str, Any]:
    """Return tensors whose names have some parts replaced."""

    def new(name: str) -> str:
        for old, other in pairs.items():
            name = name.replace(old, other)
        return name

    return {new(name): value for name, value in named.items()}


class Zeros(NamedTuple):
    """An array of zeros that no tensor holds, so that the members of a family have one program."""

    shape: str


def _of_experts(stored: Array, tensor: Tensor) -> list[Array]:
    """Return the parts of an array of all experts, (n, rows, D) each, or biases (n, rows)."""
    form = tensor.form
    if form.startswith("in rows"):  # so many of each expert
        array = stored.reshape(-1, *tensor.cut, stored.shape[1])
        return [np.swapaxes(array, 1, 2) if form.endswith("swapped") else array]
    if form == "side by side":  # all rows of one, then all rows of the other
        return np.split(stored, 2, axis=1)
    array = np.swapaxes(stored, -1, -2) if stored.ndim == 3 else stored
    if form == "in halves":
        return np.split(array, 2, axis=1)
    return [array] if form == "swapped" else [array[:, 0::2], array[:, 1::2]]  # "in turn"


def _stored_experts(parts: list[Array], form: str) -> Array:
    """Return the stored array from its parts, the inverse of `_of_experts`."""
    if form.startswith("in rows"):
        array = np.swapaxes(parts[0], 1, 2) if form.endswith("swapped") else parts[0]
        return array.reshape(-1, array.shape[2])
    if form == "side by side":
        return np.concatenate(parts, axis=1)
    array = np.concatenate(parts, axis=1) if form == "in halves" else parts[0]
    if form == "in turn":
        n, rows, *rest = array.shape
        array = np.stack(parts, axis=2).reshape(n, 2 * rows, *rest)
    return np.swapaxes(array, -1, -2) if array.ndim == 3 else array


def _reordered(array: Array, heads: int, order: Callable[[Array], Array]) -> Array:
    """Reorder the rows of each head, as `to_half_split` does; by argsort, as `to_interleaved`."""
    rows = array.reshape(heads, len(array) // heads, -1)
    return np.take(rows, order(rope_permutation(rows.shape[1])), axis=1).reshape(array.shape)


def _axis(term: str, sizes: Sizes) -> tuple[int, str]:
    """Return factor and symbol of "4 H", or of "n F" if the size of F is known."""
    *factors, symbol = term.split(" ")
    if factors and factors[0] == "n":
        return sizes[symbol], factors[0]
    return int(factors[0]) if factors else 1, symbol


def misfit(shape: tuple[int, ...], symbols: str, sizes: Sizes) -> str:
    """Return the expected shape if a shape differs, else nothing; new symbols get their size."""
    axes = [_axis(term, sizes) for term in symbols.split(", ")]
    if len(axes) == len(shape):
        for n, (factor, symbol) in zip(shape, axes, strict=True):
            if n % factor == 0:
                sizes.setdefault(symbol, n // factor)
    want = [f * sizes[s] if s in sizes else None for f, s in axes]
    if list(shape) == want:
        return ""
    known = ", ".join("?" if n is None else str(n) for n in want)
    spelled = f"({symbols},)" if len(axes) == 1 else f"({symbols})"
    return f"{spelled} = ({known},)" if len(axes) == 1 else f"{spelled} = ({known})"


def raise_all(start: str, problems: list[str]) -> None:
    """Raise ValueError with all problems, if there are any."""
    if problems:
        shown, more = problems[:12], len(problems) - 12
        tail = f"; and {more} more" if more > 0 else ""
        msg = f"{start}: {'; '.join(shown)}{tail}."
        raise ValueError(msg)


def _array(name: str, value: Any, *, integers: bool = True) -> Array:
    """Return a tensor in a dtype of dlref's; it may share its memory."""
    array = as_array(name, value)
    return result(array, float_dtype(name, array.dtype, integers=integers))


def _own(value: Any, whole: Array, array: Array) -> Array:
    """Return an array that shares no memory with a tensor; a tensor of a file is new already."""
    if isinstance(value, InFile) and array.size == whole.size and array.flags.c_contiguous:
        return array
    return np.array(array, order="C")


def _described(value: Any) -> str:
    """Describe a value that should have been a tuple, in a word or two."""
    name = type(value).__name__
    return f"{name} of {len(value)}" if type(value) in (tuple, list) else name


def read(
    layout: Any,
    state: Mapping[str, Any],
    what: str,
    *,
    prefix: str = "",
    sizes: Sizes | None = None,
    base: str = "",
    left_out: Callable[[str], bool] = lambda name: False,
    integers: bool = True,
) -> Any:
    """
    Return the parameters that a state dict holds.

    `left_out` matches names that are not parameters, `base` may stand between prefix and names.
    Without `integers`, tensors of integers are refused, which would be quantized weights.
    """
    check_mapping("state", state)
    sizes = {} if sizes is None else sizes
    dtypes: dict[str, Any] = {}  # of the tensors that were read
    problems: dict[str, str] = {}
    last: dict[str, Array] = {}  # parts of a fused matrix follow each other

    def stored(tensor: Tensor) -> Array | None:
        key = prefix + tensor.name
        if key not in state:
            if not tensor.optional:
                problems[key] = f"{key!r} is missing"
            return None
        if key not in last:
            last.clear()
            last[key] = _array(key, state[key], integers=integers)
        array = last[key]
        if key not in dtypes:
            dtypes[key] = array.dtype
            if want := misfit(array.shape, tensor.shape, sizes):
                problems[key] = f"{key!r} must have shape {want}, not {array.shape}"
        return None if key in problems else array

    def read_entry(entry: Any) -> Any:
        if isinstance(entry, Zeros):
            axes = [_axis(term, sizes) for term in entry.shape.split(", ")]
            shape = [factor * sizes.get(symbol, 1) for factor, symbol in axes]
            return np.zeros(shape, next(iter(dtypes.values()), np.float64))
        if entry is None or (array := stored(entry)) is None:
            return None
        own = _own(state.get(prefix + entry.name), array, entry.parameter_from(array))
        if own.size == array.size:  # another entry of this name gets an array of its own
            last.clear()
        return own

    params = without_optional(layout, map_tree(read_entry, layout, is_node=is_node))
    met = dtypes.keys() | problems.keys()
    spare = [key for key in state if key.startswith(prefix) and key not in met]
    unexpected = [
        f"{key!r} is not one of them" for key in spare if not left_out(key[len(prefix) :])
    ]
    start = f"Argument 'state' must hold the tensors of {what}"
    names = [] if dtypes else [key[len(prefix) :] for key in problems]
    if other := _other_prefix(state, names, base):
        start += f" (perhaps with prefix={other!r})"
    wrong = [*problems.values()]
    raise_all(start, [*wrong[:8], *unexpected[:4], *wrong[8:], *unexpected[4:]])
    return params


def _is_optional(entry: Any) -> bool:
    """Return whether an entry of a layout has tensors, and all of them are optional."""
    tensors = [part for part in entry if part is not None] if is_node(entry) else []
    return bool(tensors) and all(isinstance(t, Tensor) and t.optional for t in tensors)


def without_optional(layout: Any, params: Any) -> Any:
    """Return parameters with None where all tensors of a part may be missing, and are."""
    if not is_node(layout):
        return params
    if _is_optional(layout) and all(array is None for array in params):
        return None
    parts = [without_optional(*pair) for pair in zip(layout, params, strict=True)]
    return type(params)(*parts) if hasattr(params, "_fields") else tuple(parts)


def _other_prefix(state: Mapping[str, Any], names: list[str], base: str) -> str:
    """Return the common prefix of most names in a state dict, or nothing."""
    some = names[:16]  # a file may have any number of names
    prefixes = (
        key.removesuffix(name) for name in some for key in state if key.endswith(f".{name}")
    )
    prefix = next(prefixes, "")
    if 2 * sum(prefix + name in state for name in names) < len(names):
        return ""
    return prefix if any(name.startswith(base) for name in names) else prefix.removesuffix(base)


def is_node(entry: Any) -> bool:
    return isinstance(entry, tuple) and not isinstance(entry, Tensor | Zeros)


def write(
    layout: Any, params: Any, what: str, *, prefix: str = "", sizes: Sizes | None = None
) -> dict[str, Array]:
    """Return the state dict that holds the parameters."""
    sizes = {} if sizes is None else sizes
    parts_of: dict[Tensor, list[Array]] = {}
    missing: dict[Tensor, list[str]] = {}
    problems: list[str] = []

    def walk(entry: Any, value: Any, path: str) -> None:
        if isinstance(entry, Tensor):
            whole = entry._replace(part=0)
            if value is None:
                missing.setdefault(whole, []).append(path)
            else:
                parts_of.setdefault(whole, []).append(_array(path, value))
        elif value is None and _is_optional(entry):
            return
        elif entry is not None and not isinstance(entry, Zeros):
            named = hasattr(entry, "_fields")
            kind = type(entry) if named else tuple
            if not isinstance(value, kind) or len(value) != len(entry):
                wanted = kind.__name__ if named else f"a tuple of {len(entry)}"
                problems.append(f"{path!r} must be {wanted}, not {_described(value)}")
                return
            names: Iterable[Any] = getattr(entry, "_fields", range(len(entry)))
            for name, part, array in zip(names, entry, value, strict=True):
                walk(part, array, f"{path}.{name}")
        elif entry is None and value is not None:
            problems.append(f"{path!r} must be None")

    walk(layout, params, "params")
    state = {}
    for tensor, paths in missing.items():
        if tensor in parts_of or not tensor.optional:
            problems += [f"{path!r} must be an array, not None" for path in paths]
    for tensor, parts in parts_of.items():
        if tensor in missing:
            continue
        key = prefix + tensor.name
        shapes = [part.shape for part in parts]
        sizes_differ = len(set(shapes)) > 1
        if tensor.cut and not tensor.form:
            given = np.cumsum([len(part) // (tensor.grouped or 1) for part in parts[:-1]])
            sizes_differ = tuple(given) != tensor.cut
        if sizes_differ or (tensor.heads and len(parts[0]) % tensor.heads):
            heads = f" of {tensor.heads} heads" if tensor.heads else ""
            problems.append(f"the parts of {key!r} must be equal blocks{heads}, not {shapes}")
            continue
        array = tensor.tensor_from(parts)
        if want := misfit(array.shape, tensor.shape, sizes):
            problems.append(f"{key!r} must have shape {want}, not {array.shape}")
        state[key] = np.array(array, order="C")
    raise_all(f"Argument 'params' must be those of {what}", problems)
    return state
