"""Copies of kernels that compute with other formulas, each compiled by itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any, TypeVar

from .jit import SOURCES, kernel

F = TypeVar("F", bound="Callable[..., Any]")

#: The copies made so far, by function, suffix and the functions that they call instead: two kernels
#: that share a formula share its copy, which is compiled once.
COPIES: dict[tuple[Any, ...], Any] = {}


def instantiate(template: F, **formulas: Callable[..., Any]) -> F:
    """
    Compile a copy of the loop `template` in which the given global names mean `formulas`.

    Globals, not arguments or a closure: only so can numba keep the code on disk.  There it is
    found by its name, which is therefore made of the names of template and formulas.
    """
    parts = [f"{f.__module__.rpartition('.')[2]}_{f.__name__}" for f in formulas.values()]
    copy: F = _renamed(template, "_of_".join([template.__name__, *parts]), formulas)
    return kernel(copy)


def specialize(function: F, replacements: Mapping[Any, Any], suffix: str) -> F:
    """
    Return a copy of a kernel or formula that computes with other formulas.

    Wherever it, or a function that it calls, calls a key of `replacements`, the copy calls the
    value.  Its name ends in `suffix`; a function in which there is nothing to replace is its own
    copy.
    """
    if function in replacements:
        other: F = replacements[function]
        return other
    if function not in SOURCES:
        return function
    source, compiled = SOURCES[function]
    called = {name: source.__globals__.get(name) for name in source.__code__.co_names}
    copies = {n: specialize(f, replacements, suffix) for n, f in called.items() if callable(f)}
    news = {name: copy for name, copy in copies.items() if copy is not called[name]}
    if not news:
        return function
    key = function, suffix, *news.items()
    if key not in COPIES:
        COPIES[key] = compiled(_renamed(source, f"{source.__name__}_{suffix}", news))
    copy: F = COPIES[key]
    return copy


def _renamed(function: Any, name: str, names: dict[str, Any]) -> Any:
    """Copy a function, giving a name to it and a meaning to some of its global names."""
    code = function.__code__.replace(co_name=name, co_qualname=name)
    copy = FunctionType(code, {**function.__globals__, **names}, name)
    copy.__module__ = function.__module__
    return copy
