"""
Parameters as the named tuples that they are declared to be.

The types of the fields say what a field may hold, and which fields are norms. Plain tuples are
taken for the first kind of a field, and named tuples of the same fields, such as those of the
formulas, for the kind that has these fields.
"""

from __future__ import annotations

from typing import Any, TypeVar

from .._core.pytree import declared, shaped_like
from ._params import (
    ExpertParams,
    FeedForwardParams,
    GatedFeedForwardParams,
    MixtureParams,
    NormParams,
)

Kind = TypeVar("Kind")


def norm_fields(kind: type[Any]) -> tuple[str, ...]:
    """Return the fields of a block's or model's parameters that are norms."""
    return tuple(field for field, options in declared(kind).items() if NormParams in options.kinds)


def sublayer_fields(kind: type[Any]) -> tuple[str, ...]:
    """Return the other fields of a block's parameters, in order."""
    return tuple(
        field for field, options in declared(kind).items() if NormParams not in options.kinds
    )


def as_norm(name: str, value: Any) -> NormParams:
    """Return the parameters of a norm as such."""
    return shaped_like(NormParams, name, value)


def as_network(kind: type[Kind], name: str, value: Any) -> Kind:
    """Return the parameters of a network; of three arrays without a name the kind is not known."""
    if kind is FeedForwardParams and type(value) is tuple and len(value) == 3:
        plain, gated = (
            f"{k.__name__}({', '.join(n for n in k._fields if n not in k._field_defaults)})"
            for k in (FeedForwardParams, GatedFeedForwardParams)
        )
        msg = (
            f"Argument {name!r} must be {plain}, here b2 is missing (None leaves it out); "
            f"a gated network of three matrices is {gated}."
        )
        raise TypeError(msg)
    return shaped_like(kind, name, value)


def as_mixture_params(name: str, value: Any) -> MixtureParams:
    """Return the parameters of a mixture of experts."""
    p = shaped_like(MixtureParams, name, value)
    shared = p.shared
    if shared is not None:
        shared = shaped_like(GatedFeedForwardParams, f"{name}.shared", shared)
    experts = shaped_like(ExpertParams, f"{name}.experts", p.experts)
    return p._replace(experts=experts, shared=shared)


def _as_one_of(kinds: tuple[type[Any], ...], name: str, value: Any) -> Any:
    fields = getattr(value, "_fields", None)
    kind = next((kind for kind in kinds if kind._fields == fields), kinds[0])
    return (
        as_mixture_params(name, value) if kind is MixtureParams else as_network(kind, name, value)
    )


def as_block(kind: type[Kind], name: str, value: Any) -> Kind:
    """Return the parameters of a block."""
    block: Any = shaped_like(kind, name, value)
    entries: dict[str, Any] = {}
    for field, options in declared(kind).items():
        entry = getattr(block, field)
        left_out = entry is None and options.none
        entries[field] = None if left_out else _as_one_of(options.kinds, f"{name}.{field}", entry)
    return kind(**entries)
