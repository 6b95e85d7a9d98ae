"""
Changed programs of a backward pass: the gradient of another forward pass, or with a constant in it.

Gradients are compared along a few random directions: a difference of two forward passes tells what
each is there, for any change of the forward pass.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import itertools
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ...._core.pytree import is_float, tree_leaves
from ..formulas import parts, spellings
from ..helpers import CONSTANT
from .mutations import as_read, formula_of, mutants, outputs_of
from .programs import Program, programs, within
from .readings import readings, with_leaf

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..calls import ReferenceCall
    from .evidence import Evidence

#: Directions for each gradient, and the step of a difference.
DIRECTIONS, STEP = 6, 1e-5
#: Error of a difference, as a share of the sizes of its terms.
ERROR = 1e-7
#: Changed forward passes that are tried, at most.
MAX_PROGRAMS = 1500


def leaf_numbers(call: ReferenceCall, want: list[Any]) -> dict[int, int] | None:
    """Return which array of floats each gradient is of, by number; None if the two do not match."""
    every = tree_leaves(call.inputs)
    floats = [i for i, a in enumerate(every) if is_float(a)]
    for order in (range(len(every)), floats):
        if len(want) == len(order):
            pairs = {i: k for i, k in enumerate(order) if want[i] is not None}
            if all(np.shape(want[i]) == np.shape(every[k]) for i, k in pairs.items()):
                return {i: floats.index(k) for i, k in pairs.items() if k in floats}
    return None


def _directions(number: int, a: Any) -> Any:
    rng = np.random.default_rng((number, np.size(a)))
    return rng.standard_normal((DIRECTIONS, *np.shape(a)))


def along_directions(e: Evidence) -> Evidence | None:
    """Return a case with slopes in place of its gradients; None if they cannot be compared."""
    known = leaf_numbers(e.call, e.want)
    if e.call.form != "vjp" or known is None or not known.keys() >= e.bounds.keys():
        return None
    got: list[Any] = [None] * len(e.want)
    want, dtypes, bounds = got[:], [np.dtype(np.float64)] * len(got), {}
    for i, bound in e.bounds.items():
        ways, exact = _directions(i, e.want[i]), np.asarray(e.want[i], np.float64)
        along = tuple(range(1, ways.ndim))
        values = np.asarray(e.got[i], np.float64)
        if values.shape != exact.shape:
            return None
        got[i], want[i] = (ways * values).sum(along), (ways * exact).sum(along)
        bounds[i] = (np.abs(ways) * (bound + ERROR * np.abs(exact))).sum(along)
    return replace(e, got=got, want=want, dtypes=dtypes, bounds=bounds)


def _along(run: Any, call: ReferenceCall, i: int, number: int) -> Iterator[float]:
    """Yield the slopes of a forward pass along the directions of one gradient."""
    forward = _forward(call)
    CONSTANT.values, CONSTANT.place = [], None
    if run(forward) is None:
        return
    floats = [a for a in tree_leaves(forward.arguments) if is_float(a)]
    for way in _directions(i, floats[number]):
        ends = []
        for step in (STEP, -STEP):
            CONSTANT.place = 0
            moved = with_leaf(forward, number=number, f=lambda a, by=step * way: a + by)
            ends.append(_product(tree_leaves(call.arguments[0]), run(moved)))
        yield (ends[0] - ends[1]) / (2 * STEP)


def _forward(call: ReferenceCall) -> ReferenceCall:
    """Return the call of the forward pass whose gradients a call returns."""
    return replace(call, form="forward", arguments=call.arguments[1:])


def _product(douts: list[Any], outputs: list[Any] | None) -> float:
    if outputs is None or [*map(np.shape, outputs)] != [*map(np.shape, douts)]:
        return np.nan
    pairs = zip(douts, outputs, strict=True)
    return float(sum(np.sum(u * a) for u, a in pairs if u is not None and a is not None))


def _slopes(
    run: Any, first: Evidence, wanted: dict[int, int], call: ReferenceCall
) -> list[Any] | None:
    """
    Return the gradients of a forward pass along their directions.

    In the first case, a gradient is None once a slope of it is not the candidate's: most are not.
    The gradients that are right there are only computed for programs that explain all others.
    """
    out: list[Any] = [None] * len(first.want)
    off = {i: number for i, number in wanted.items() if i in first.off}
    for i, number in off.items():
        out[i] = _slopes_of(run, call, i, number, first if call is first.call else None)
    if any(out[i] is None for i in off):
        return out if any(out[i] is not None for i in off) else None
    for i, number in wanted.items():
        if i not in off:
            out[i] = _slopes_of(run, call, i, number, None)
    return out


def _slopes_of(
    run: Any, call: ReferenceCall, i: int, number: int, first: Evidence | None
) -> Any | None:
    values: list[float] = []
    for value in _along(run, call, i, number):
        values.append(value)
        if first is not None and not _is_near(value, first, i, len(values)):
            return None
    return np.array(values) if values else None


def _is_near(value: float, first: Evidence, i: int, count: int) -> bool:
    due, bound = first.got[i][count - 1], first.bounds[i][count - 1]
    return bool(abs(value - due) <= 10 * bound + 1e-3 * np.abs(first.got[i]).max())


def _constants(node: ast.AST) -> Iterator[ast.expr]:
    """Yield an intermediate that counts as constant."""
    if isinstance(node, ast.BinOp | ast.Call) or (
        isinstance(node, ast.Name | ast.Subscript) and isinstance(node.ctx, ast.Load)
    ):
        yield ast.Call(ast.Name("constant", ast.Load()), [node], [])


def _with_constants(formula: Any) -> Iterator[Program]:
    """Yield the programs in which an intermediate counts as constant; none without the source."""
    for f in parts(formula):
        with contextlib.suppress(OSError):
            for _, due, other in mutants(formula, _constants, (f,)):
                if text := as_read(due):
                    message = f"no gradient passes through {text}: it counts as constant"
                    run = functools.partial(outputs_of, other)
                    yield Program(message + within(f, formula), run, is_term=True)


def slope_searches(case: Evidence, first: Evidence) -> Iterator[tuple[Any, Any]]:
    """
    Yield the programs of gradients, and a function that returns the right slopes of a case.

    Programs are tried on one case first: `case` has its gradients, and `first` its slopes.
    """
    call = first.call
    forward = _forward(call)
    known = leaf_numbers(call, case.want)
    formula = formula_of(forward)
    if formula is None or not known:
        return
    wanted = {i: known[i] for i in sorted(first.bounds, key=lambda i: i not in first.off)}
    own = functools.cache(lambda e: _unchanged_slopes(formula, first, wanted, e))
    if own(first) is None:
        return
    for f in dict.fromkeys((formula, *spellings(forward))):
        others = itertools.chain(readings(forward), programs(f, forward))
        changed = itertools.chain(_with_constants(f), itertools.islice(others, MAX_PROGRAMS))
        yield (
            (
                program._replace(run=functools.partial(_slopes, program.run, first, wanted))
                for program in changed
            ),
            own,
        )


def _unchanged_slopes(formula: Any, first: Evidence, wanted: dict[int, int], e: Evidence) -> Any:
    """Return the slopes of the unchanged forward pass; None if they are not the right ones."""
    run = functools.partial(outputs_of, formula)
    out: list[Any] = [None] * len(first.want)
    for i, number in wanted.items():
        out[i] = _slopes_of(run, e.call, i, number, None)
    for i in e.bounds.keys() & wanted.keys():
        if out[i] is None:
            return None
        limit = 10 * e.bounds[i] + 100 * ERROR * np.abs(e.want[i]).max()
        if not (np.abs(out[i] - e.want[i]) <= limit).all():  # as where the map has a kink
            return None
    return out
