"""Changed programs: the formula of a map with one change."""

from __future__ import annotations

import ast
import contextlib
import copy
import functools
import itertools
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...._core.pytree import is_float
from ..formulas import REFUSALS, parts, rewritten
from .changes import further_changes, lists_of_statements, rounded, statement_changes
from .mutations import (
    changed_code,
    changed_codes,
    changes,
    described,
    mutants,
    outputs_of,
    places,
    read,
    source_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..calls import ReferenceCall


#: Changes of one expression that a formula has at most, if two at once are tried.
MAX_CHANGES = 80
#: Sizes of blocks in which kernels read an axis.
BLOCKS = (16, 32, 64, 128, 256)


class Program(NamedTuple):
    """A changed program, and a description of the change."""

    message: str
    run: Any  # from a call to its outputs


def _shapes(formula: Any, call: ReferenceCall) -> dict[Any, dict[str, Any]]:
    """
    Return the shapes of the arrays in each function of a formula, at its first call.

    Python tells its profiler when a function returns. If another one is at work, it is left alone:
    no variables are exchanged then.
    """
    codes = {f.__code__ for f in parts(formula)}
    if sys.getprofile() is not None:
        return {code: {} for code in codes}
    shapes: dict[Any, dict[str, Any]] = {}

    def note(frame: Any, event: str, _: Any) -> None:  # pragma: no cover  # which is not traced
        if event == "return" and frame.f_code in codes and frame.f_code not in shapes:
            shapes[frame.f_code] = {
                name: np.shape(value)
                for name, value in frame.f_locals.items()
                if is_float(value) or isinstance(value, float)
            }

    sys.setprofile(note)
    try:
        with contextlib.suppress(*REFUSALS):
            formula(*call.arguments, **call.non_default_options)
    finally:
        sys.setprofile(None)
    return shapes


def _within(f: Any, formula: Any) -> str:
    """Return in which function a change is, where that is another one than the formula."""
    return "" if f is formula else f", in {f.__name__}"


def programs(formula: Any, call: ReferenceCall) -> Iterator[Program]:
    """Yield the changed programs of a formula, usual changes first; none without its source."""
    shapes = _shapes(formula, call)
    reached = [f for f in parts(formula) if f.__code__ in shapes]
    yield from _with_online_softmax(formula)
    with contextlib.suppress(OSError):
        for f in reached:
            yield from _with_other_expressions(formula, f, changes)
        for f in reached:
            further = functools.partial(
                further_changes, shapes=shapes[f.__code__], scope=f.__globals__
            )
            yield from _with_other_expressions(formula, f, further)
            yield from _with_other_statements(formula, f)
        for f in reached:
            yield from _with_other_expressions(formula, f, rounded)


def _with_online_softmax(formula: Any) -> Iterator[Program]:
    """Yield programs whose softmax is over blocks, and is not rescaled to a larger maximum."""
    from .online import not_rescaled  # noqa: PLC0415  # it imports formulas, and these SciPy

    for block in (1, *BLOCKS):
        for what, others in not_rescaled(block):
            if not {*others} & {*parts(formula)}:
                return
            when = f"where a later block of {block} has a larger maximum"
            run = functools.partial(outputs_of, rewritten(formula, others))
            yield Program(f"the {what} so far is not rescaled {when}", run)


def _with_other_expressions(formula: Any, f: Any, change: Any) -> Iterator[Program]:
    """Yield the programs in which an expression of a function is another."""
    for stands, due, other in mutants(formula, change, (f,)):
        if message := described(stands, due):
            yield Program(message + _within(f, formula), functools.partial(outputs_of, other))


def pairs_of_changes(formula: Any) -> Iterator[Program]:
    """Yield programs with two changes in the expressions of a formula; none of a long one."""
    with contextlib.suppress(OSError):
        tree, node = source_of(formula)
        own = places(node)
        if sum(1 for place in own for _ in changes(place[-1])) > MAX_CHANGES:
            return
        for i, place in enumerate([*places(node)]):
            for message, _ in _each_change(formula, tree, place):
                for second in [*places(node)][i + 1 :]:
                    for more, code in _each_change(formula, tree, second):
                        if code is not None and second[-1] is not place[-1]:
                            other = rewritten(formula, {formula.__code__: code})
                            run = functools.partial(outputs_of, other)
                            yield Program(f"{message}; and {more}", run)


def _each_change(formula: Any, tree: ast.Module, place: Any) -> Iterator[tuple[str, Any]]:
    """Yield a description and the code of each change at a place, which has it meanwhile."""
    due = ast.unparse(place[-1])
    for stands, code in changed_codes(formula, tree, place, changes(place[-1])):
        if message := described(stands, due):
            yield message, code


def _with_other_statements(formula: Any, f: Any) -> Iterator[Program]:
    """Yield the programs in which statements of a function are left out, or in another order."""
    tree, node = source_of(f)
    every = itertools.chain(_moved(f, tree, node), _decided(f, tree, node))
    for message, code in ((message, code) for message, code in every if code is not None):
        run = functools.partial(outputs_of, rewritten(formula, {f.__code__: code}))
        yield Program(message + _within(f, formula), run)


def _moved(f: Any, tree: ast.Module, node: ast.FunctionDef) -> Iterator[tuple[str, Any]]:
    """Yield the code of a function for each change of its statements."""
    for block in lists_of_statements(node):
        due = block[:]
        for message, other in [*statement_changes(block)]:
            block[:] = [ast.copy_location(ast.fix_missing_locations(s), node) for s in other]
            code = changed_code(f, tree)
            block[:] = due
            yield message, code


def _decided(f: Any, tree: ast.Module, node: ast.FunctionDef) -> Iterator[tuple[str, Any]]:
    """Yield the code of a function for each branch that is never taken, or always."""
    for place in [*places(node)]:
        parent, name = place[:2]
        if name == "test" and isinstance(parent, ast.If | ast.IfExp):
            due = ast.unparse(read(copy.deepcopy(place[-1])))
            for value, code in changed_codes(f, tree, place, map(ast.Constant, (False, True))):
                how = "always" if value == "True" else "never"
                yield f"the branch for '{due}' is {how} taken", code
