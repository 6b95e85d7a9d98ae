r"""
Parameters in any nesting of tuples: to walk through them, and to compute with all at once.

A tree is an array, None (no parameter there), or a tuple or named tuple of trees.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from html import escape
from types import NoneType, UnionType
from typing import (
    Any,
    NamedTuple,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

import numpy as np

from .arguments import (
    FloatArray,
    FloatDType,
    as_array,
    as_floats,
    check_shape,
    entries,
    result,
    shown,
)

T = TypeVar("T")
Tree = TypeVar("Tree")
#: A tree of more numbers than these prints their shapes instead.
PRINTED = 100


def rebuilt(like: tuple[Any, ...], entries: Any) -> Any:
    """Make a tuple, or a named tuple of the same type."""
    return type(like)(*entries) if hasattr(like, "_fields") else tuple(entries)


def is_float(value: Any) -> bool:
    """Return whether something is an array of floats, or a float."""
    if value is None or isinstance(value, tuple | list | str):
        return False
    dtype = np.asarray(value).dtype
    return dtype.kind == "f" or dtype.name == "bfloat16"


def _is_tuple(value: Any) -> bool:
    return isinstance(value, tuple)


def map_tree(
    f: Callable[..., Any],
    tree: Any,
    *others: Any,
    is_node: Callable[[Any], bool] = _is_tuple,
) -> Any:
    """
    Apply f to every entry that is no node, None among them; build the same tree of the results.

    Further trees have at least the structure of the first: f gets the entries of all.
    """
    if not is_node(tree):
        return f(tree, *others)
    rows: Any = zip(tree, *others, strict=True)
    results = [map_tree(f, *row, is_node=is_node) for row in rows]
    return results if isinstance(tree, list) else rebuilt(tree, results)


def map_floats(f: Callable[[Any], Any], value: Any) -> Any:
    """Apply f to every array of floats of a nested tuple, and keep all else."""
    return map_tree(lambda entry: f(entry) if is_float(entry) else entry, value)


def leaves(name: str, tree: Any) -> Iterator[FloatArray]:
    """Yield the arrays of a nested tuple, in float64."""
    for entry in tree_leaves(tree):
        if entry is not None:
            yield as_floats({name: entry})[1][0]


def tree_map(name: str, f: Callable[[FloatArray], FloatArray], tree: Any) -> Any:
    """Apply f to every array of a nested tuple, in float64, and round to the array's dtype."""

    def of_entry(entry: Any) -> Any:
        if entry is None:
            return None
        dtype, (array,) = as_floats({name: entry})
        with np.errstate(all="ignore"):
            return result(f(array), dtype)

    return map_tree(of_entry, tree)


def _describe(tree: Any) -> str:
    return (
        f"a tuple of {len(tree)}"
        if isinstance(tree, tuple)
        else ("None" if tree is None else "an array")
    )


def check_structure(fits: bool, params: Any, grads: Any) -> None:
    """Raise unless gradients fit the parameters."""
    if not fits:
        msg = (
            f"Argument 'grads' must have the structure of 'params', here {_describe(params)}, "
            f"not {_describe(grads)}."
        )
        raise ValueError(msg)


def check_state(fits: bool) -> None:
    """Raise unless the state of an optimizer fits the parameters."""
    if not fits:
        msg = "Argument 'state' must come from a step with these parameters, not from others."
        raise ValueError(msg)


def as_state(kind: type[Any], state: Any) -> Any:
    """Return the state of an optimizer, of no steps if it is None; one of another is an error."""
    fields = kind._fields
    if state is None:
        return kind(0, *[None] * (len(fields) - 1))
    fits = isinstance(state, tuple) and len(state) == len(fields)
    if not fits or getattr(state, "_fields", fields) != fields:
        msg = (
            f"Argument 'state' must be {kind.__name__}({', '.join(fields)}) or None, "
            f"not {type(state).__name__}."
        )
        raise TypeError(msg)
    return kind(*state)


def tree_leaves(tree: Any) -> list[Any]:
    """Return the entries of a nested tuple in order, Nones among them."""
    return (
        [part for entry in tree for part in tree_leaves(entry)]
        if isinstance(tree, tuple)
        else [tree]
    )


def named_leaves(name: str, tree: Any) -> Iterator[tuple[str, Any]]:
    """Yield (path, entry) of a nested tuple in order; Nones are left out."""
    if isinstance(tree, tuple):
        keys = getattr(tree, "_fields", range(len(tree)))
        for key, entry in zip(keys, tree, strict=True):
            yield from named_leaves(f"{name}.{key}" if name else f"{key}", entry)
    elif tree is not None:
        yield name, tree


def as_float_trees(arguments: dict[str, Any]) -> tuple[FloatDType, list[Any]]:
    """
    Return the dtype that all arrays of some trees promote to, and the trees to compute with.

    As `as_floats`, whose work dtype is float32 here: products of matrices in float64 would
    take twice as long.
    """
    trees = {name: _as_entry(name, tree) for name, tree in arguments.items()}
    named = [pair for name, tree in trees.items() for pair in named_leaves(name, tree)]
    dtype, arrays = as_floats(dict(named), work=np.float32)
    rest = iter(arrays)
    return dtype, [tree_unflatten(tree, rest) for tree in trees.values()]


def _as_entry(name: str, value: Any) -> Any:
    """Return a tuple of numbers as an array where an array belongs; trees as they are."""
    is_array = name.rpartition(".")[2] in {"x", "dout", "memory", "bias"}
    return as_array(name, value) if is_array and isinstance(value, tuple) else value


def tree_unflatten(tree: Any, arrays: Iterator[Any]) -> Any:
    """Put the next of `arrays` in the place of each array of a nested tuple."""
    return map_tree(lambda entry: None if entry is None else next(arrays), tree)


def _entries(side: str, value: Any, names: tuple[str, ...]) -> tuple[Any, ...]:
    """Return the primals or the tangents of trees and arrays."""
    values = entries(side, value, len(names), of="entries").values()
    return tuple(_as_entry(f"{side}.{n}", entry) for n, entry in zip(names, values, strict=True))


def as_tree_tangents(
    names: tuple[str, ...], primals: Any, tangents: Any
) -> tuple[FloatDType, list[Any], list[Any]]:
    """Check both arguments of a jvp of trees; a tangent of None, at any level, is zero."""
    count = len(names)
    points = _entries("primals", primals, names)
    directions = _entries("tangents", tangents, names)
    _, arrays = as_float_trees({f"primals.{n}": p for n, p in zip(names, points, strict=True)})
    for name, point, direction in zip(names, arrays, directions, strict=True):
        check_tree(f"tangents.{name}", direction, point)
    both = {f"primals.{n}": p for n, p in zip(names, points, strict=True)}
    both |= {f"tangents.{n}": t for n, t in zip(names, directions, strict=True)}
    dtype, trees = as_float_trees(both)
    fixed, moved = trees[:count], trees[count:]
    return dtype, fixed, [filled(t, p) for t, p in zip(moved, fixed, strict=True)]


def params_tangents(
    constants: tuple[str, ...], primals: Any, tangents: Any
) -> tuple[tuple[Any, ...], Any, Any]:
    """Take apart the arguments of a jvp of constants and parameters; return all three."""
    count = len(constants) + 1
    for name, value, what, last in (
        ("primals", primals, constants, "params"),
        ("tangents", tangents, ("None",) * len(constants), "dparams"),
    ):
        fits = isinstance(value, tuple | list) and len(value) == count
        if not fits or (last == "dparams" and any(entry is not None for entry in value[:-1])):
            words = f"{', '.join(what)} and {last}"
            msg = f"Argument {name!r} must be a tuple of {count} entries, {words}."
            raise TypeError(msg)
    return tuple(primals[:-1]), primals[-1], tangents[-1]


def check_tree(name: str, tree: Any, like: Any) -> None:
    """Raise unless `tree` has the structure and shapes of `like`; None stands for any part."""
    if tree is None:
        return
    if isinstance(like, tuple):
        if not isinstance(tree, tuple) or len(tree) != len(like):
            msg = f"Argument {name!r} must be {_describe(like)}, not {_describe(tree)}."
            raise ValueError(msg)
        for key, entry, part in zip(
            getattr(like, "_fields", range(len(like))), tree, like, strict=True
        ):
            check_tree(f"{name}.{key}", entry, part)
    elif like is None:
        msg = f"Argument {name!r} must be None, as its primal is, not {_describe(tree)}."
        raise ValueError(msg)
    elif isinstance(tree, tuple):
        msg = f"Argument {name!r} must be an array, not {_describe(tree)}."
        raise ValueError(msg)
    else:
        check_shape(name, as_array(name, tree), as_array(name, like).shape)


def filled(tree: Any, like: Any) -> Any:
    """Put zeros where `tree` is None and `like` is not."""
    if isinstance(like, tuple):
        parts = tree if tree is not None else (None,) * len(like)
        return rebuilt(like, [filled(t, p) for t, p in zip(parts, like, strict=True)])
    return np.zeros_like(like) if tree is None and like is not None else tree


def rounded(tree: Tree, dtype: FloatDType) -> Tree:
    """Round every array of a tree once."""
    copy = map_tree(lambda entry: None if entry is None else result(entry, dtype), tree)
    return cast("Tree", copy)  # of the same type, entry by entry


class Declared(NamedTuple):
    """The kinds of values that a field of parameters may have, by its type."""

    kinds: tuple[type[Any], ...]  # named tuples; a plain tuple is taken for the first
    array: bool
    none: bool


_DECLARED: dict[type[Any], dict[str, Declared]] = {}


def declared(kind: type[Any]) -> dict[str, Declared]:
    """Return the kinds of values of each field of parameters."""
    if kind not in _DECLARED:
        fields = {}
        for field, hint in get_type_hints(kind).items():
            types = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
            kinds = tuple(t for t in types if hasattr(t, "_fields"))
            fields[field] = Declared(kinds, FloatArray in types, NoneType in types)
        _DECLARED[kind] = fields
    return _DECLARED[kind]


def shaped_like(kind: type[Tree], name: str, value: Any) -> Tree:
    """Return a tuple as a named tuple of the given kind; another length is an error."""
    fields, defaults = kind._fields, kind._field_defaults  # type: ignore[attr-defined]
    least = len(fields) - len(defaults)
    other = getattr(value, "_fields", fields) != fields  # of another kind
    if not isinstance(value, tuple) or other or not least <= len(value) <= len(fields):
        wanted = f"{kind.__name__}({', '.join(fields)})"
        msg = f"Argument {name!r} must be {wanted}, not {_describe(value)}."
        raise TypeError(msg)
    shaped = value if isinstance(value, kind) else kind(*value)
    for field, options in declared(kind).items():
        entry = getattr(shaped, field)
        missing = entry is None and not options.none
        if options.array and (missing or isinstance(entry, tuple)):
            msg = f"Argument '{name}.{field}' must be an array, not {_describe(entry)}."
            raise TypeError(msg)
    return shaped


def _paths(tree: Any) -> Iterator[tuple[str, Any]]:
    """Yield (path, leaf); of consecutive identical parts, only the first."""
    if not isinstance(tree, tuple):
        yield "", tree
        return
    named = hasattr(tree, "_fields")
    keys = [*getattr(tree, "_fields", range(len(tree)))]
    parts = [list(_paths(entry)) for entry in tree if entry is not None or not named]
    looks = [[(path, _look(entry)) for path, entry in part] for part in parts]
    alike = not named and len(parts) > 2 and all(look == looks[0] for look in looks)
    keys = [key for key, entry in zip(keys, tree, strict=True) if entry is not None or not named]
    for key, part in zip(keys[:1] if alike else keys, parts, strict=False):
        yield from ((f"{key}.{path}" if path else f"{key}", entry) for path, entry in part)
    if alike:
        yield f"1 to {keys[-1]}", Ellipsis


def _look(entry: Any) -> tuple[str, str]:
    """Return shape and dtype of an array, as text, or the kind of another value."""
    if entry is Ellipsis:
        return "as 0", ""
    if hasattr(entry, "shape") and hasattr(entry, "dtype"):
        return str(tuple(entry.shape)), str(entry.dtype)
    return shown(entry), ""


def _sizes(tree: Any) -> list[int]:
    """Return how many numbers the arrays of a tree have."""
    return [math.prod(entry.shape) for entry in tree_leaves(tree) if hasattr(entry, "shape")]


def _summary(tree: Any) -> str:
    sizes = _sizes(tree)
    return f"{type(tree).__name__}: {len(sizes)} arrays, {sum(sizes):,} numbers"


def _as_text(tree: Any) -> str:
    """Write a named tuple out if it is small, else the shapes of its arrays."""
    if sum(_sizes(tree)) <= PRINTED:
        parts = zip(tree._fields, tree, strict=True)
        return f"{type(tree).__name__}({', '.join(f'{key}={entry!r}' for key, entry in parts)})"
    cells = [(path, *_look(entry)) for path, entry in _paths(tree)]
    widths = [max(len(row[i]) for row in cells) for i in range(2)]
    lines = [f"  {p:{widths[0]}}  {s:{widths[1]}}  {d}".rstrip() for p, s, d in cells]
    return "\n".join([_summary(tree), *lines])


def _as_html(tree: Any) -> str:
    """Write the shapes of all arrays as a table, for notebooks."""
    rows = [(path, *_look(entry)) for path, entry in _paths(tree)]
    cells = ("".join(f"<td>{escape(cell)}</td>" for cell in row) for row in rows)
    table = "".join(f"<tr>{row}</tr>" for row in cells)
    return f"<p>{escape(_summary(tree))}</p><table>{table}</table>"


def displayed(kind: type[T]) -> type[T]:
    """Let a named tuple of parameters print in a screen, and as a table in a notebook."""
    kind.__repr__ = _as_text  # type: ignore[method-assign]
    kind._repr_html_ = _as_html  # type: ignore[attr-defined]
    return kind
