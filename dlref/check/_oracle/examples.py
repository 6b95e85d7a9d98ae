"""Harder inputs from given ones, and the inputs of each form of a map."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..._core.pytree import is_float, map_floats, map_tree, tree_leaves
from .calls import widened

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..._records import MapSpec
    from ..._records._spec import Case, Cases


def _varied(x: Any, size: float) -> Iterator[tuple[str, Any]]:
    yield "tiny", x * 2.0**-10
    yield "huge", x * size / 64
    yield "an offset of 1e4", x + 1e4
    yield "20 times as large", 20 * x
    yield "zeros of both signs", np.copysign(0.0, x)
    yield "ties", np.repeat(x[..., :1], x.shape[-1], -1)


def _first_replaced(inputs: Any, value: Any) -> Any:
    """Put a value in the place of the first array of floats."""
    rest = iter([value])
    return map_floats(lambda entry: next(rest, entry), inputs)


def varied(case: Case, size: float) -> Cases:
    """Yield a case with another first array: tiny, huge, far from zero, zero, equal."""
    _, inputs, options = case
    first = next((a for a in tree_leaves(inputs) if is_float(a) and np.ndim(a)), None)
    if first is None:
        return
    for what, value in _varied(np.asarray(first, np.float64), size):
        yield what, _first_replaced(inputs, value), options


# Forms of a map.


def drawn_like(value: Any, rng: Any) -> Any:
    """Return random numbers in the shape and dtype of a result; None for other values."""

    def drawn(part: Any) -> Any:
        if not is_float(part):
            return None
        return rng.normal(size=np.shape(part)).astype(np.asarray(part).dtype)

    return map_tree(drawn, value)


def jvp_arguments(known: MapSpec, inputs: tuple[Any, ...], rng: Any) -> tuple[Any, Any]:
    """Return a point and a direction as a jvp takes them."""
    tangents = tuple(
        None if i in known.constant else drawn_like(value, rng) for i, value in enumerate(inputs)
    )
    return (inputs, tangents) if len(inputs) > 1 else (inputs[0], tangents[0])


def in_form(known: MapSpec, form: str, case: Case) -> Case:
    """Return the inputs of a form, given the map's."""
    what, inputs, options = case
    rng = np.random.default_rng(1)
    if form == "_vjp" and known.f is not None:
        with np.errstate(all="ignore"):
            out = known.f(*inputs, **options)
        return what, (drawn_like(out, rng), *inputs), options
    if form == "_jvp":
        before = [a for a in inputs if isinstance(a, str)]
        point = inputs[len(before) :]
        return what, (*before, *jvp_arguments(known, point, rng)), options
    return case


def is_valid(op: Any, case: Case) -> bool:
    """Return whether a function takes a case, and has an exact result there."""
    _, inputs, options = case
    try:
        with np.errstate(all="ignore"):
            out = op(*widened(inputs), **options)
    except (TypeError, ValueError):
        return False
    return not any(np.isnan(part).any() for part in tree_leaves(out) if is_float(part))
