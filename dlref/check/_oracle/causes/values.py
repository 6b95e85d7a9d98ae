"""Changed programs with another number, which is solved for from a result of the candidate."""

from __future__ import annotations

import ast
import contextlib
import functools
import itertools
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from ..formulas import parts
from ..helpers import SOLVED
from ..stochastic_rounding import EPS
from .changes import expression, is_size
from .heuristics import multiple
from .mutations import described, mutants, outputs_of
from .programs import Program, within
from .readings import with_default, with_reading

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ..calls import ReferenceCall
    from .evidence import Evidence
    from .heuristics import Pair

#: Multiples of the right number, and powers of ten, between which the root is bracketed.
MULTIPLES = (1 / 16, 1 / 4, 1 / 2, 0.9, 1.0, 1.1, 2.0, 4.0, 16.0)
SIZES = tuple(10.0**power for power in range(-12, 4))
#: And for sizes of arrays.
COUNTS = (64.0, 256.0, 1024.0, 4096.0)
#: Constants that people write by name rather than in digits.
NAMED = {
    "pi": math.pi, "2 * pi": 2 * math.pi, "sqrt(pi)": math.sqrt(math.pi), "e": math.e,
    "sqrt(2)": math.sqrt(2), "1 / sqrt(2)": math.sqrt(0.5), "sqrt(2 * pi)": math.sqrt(2 * math.pi),
    "log(2)": math.log(2), "1 / log(2)": 1 / math.log(2), "1 / 3": 1 / 3, "1 / 6": 1 / 6,
    "2 / sqrt(pi)": 2 / math.sqrt(math.pi), "sqrt(2 / pi)": math.sqrt(2 / math.pi),
}  # fmt: skip
#: Digits of a number that somebody writes, at most, and places of a formula that get a factor.
MAX_DIGITS, MAX_FACTORS = 4, 80
#: The chance that any number has so few digits within the errors of a result, at most.
MAX_CHANCE = 0.01
#: How far from 1 a number is that is written as 1 and a small one.
NEAR_ONE = 0.01


def other_values(formula: Any, e: Evidence) -> Iterator[Program]:
    """Yield programs in which an option, or a constant of a formula, has another value."""
    for key, due in e.call.settings.items():
        if type(due) is float and math.isfinite(due):
            outputs = functools.partial(_with_option, e.call, key)
            for value, text, unit in _values(outputs, e, (*_multiples(due), *SIZES)):
                default = functools.partial(_with_default, key=key, due=due)
                yield _fitted(f"{key} is {text}, not {due:.6g}", default, value, unit)
                always = functools.partial(_with_option, key=key)
                yield _fitted(f"{key} is {text}, whatever is passed", always, value, unit)
    yield from other_constants(formula, e)


def other_constants(formula: Any, e: Evidence) -> Iterator[Program]:
    """Yield programs in which a constant of a formula has another value."""
    for f in parts(formula):
        constants = functools.partial(_solved_constants, scope=f.__globals__)
        yield from _solved(formula, f, constants, e)


def other_factors(formula: Any, e: Evidence) -> Iterator[Program]:
    """Yield programs in which an intermediate has one more factor, a number; not the result."""
    if all("times" in multiple(pair) for pair in e.pairs):
        return
    for f in parts(formula):
        yield from _solved(formula, f, _solved_factors, e)


def _multiples(due: float) -> tuple[float, ...]:
    return tuple(sign * times * (due or 1.0) for sign in (1, -1) for times in (0, *MULTIPLES))


def _fitted(message: str, run: Any, value: float, unit: float) -> Program:
    """Return the program with a value, which has to tell it from others that people write."""
    tells = functools.partial(_tells, run, value, unit)
    return Program(message, functools.partial(run, value=value), tells=tells)


def _tells(run: Any, value: float, unit: float, e: Evidence) -> bool:
    """
    Return whether results of a case fix a value so well that its few digits are no chance.

    A number within the errors of the results would round to as few digits in `MAX_CHANCE` of all
    cases or fewer.
    """
    step = 1e-3 * (abs(value) or unit)
    ends = run(e.call, value=value), run(e.call, value=value + step)
    for pair in e.pairs:
        if any(a is None or np.shape(a[pair.number]) != pair.got.shape for a in ends):
            return False
        low, high = (np.asarray(a[pair.number], np.float64) for a in ends)
        slopes = np.abs(high - low) / step
        if np.any(slopes * MAX_CHANCE * unit >= 2 * _allowed(pair)):
            return True
    return False


def _allowed(pair: Pair) -> Any:
    """Return how far each number of a result may be off."""
    unit = EPS.get(pair.dtype.name, 0.0)
    return 4 * np.asarray(pair.bound) + 4 * unit * np.abs(pair.got)


def _with_default(call: ReferenceCall, key: str, due: float, value: float) -> list[Any] | None:
    """Return the outputs of the map for another default of an option."""
    return with_reading(functools.partial(with_default, key=key, due=due, value=value), call)


def _with_option(call: ReferenceCall, key: str, value: float) -> list[Any] | None:
    """Return the outputs of the map for another value of an option."""
    return with_reading(lambda own: own.with_options(**{key: value}), call)


def _solved_constants(node: ast.AST, scope: dict[str, Any]) -> Iterator[ast.expr]:
    """
    Yield an unknown in place of a constant, of a variable of the module that is one, or of a count.

    The size of a batch, for example, is written in digits.
    """
    is_constant = isinstance(node, ast.Constant) and type(node.value) is float
    is_named = isinstance(node, ast.Name) and type(scope.get(node.id)) is float
    if is_constant or is_named or (isinstance(node, ast.expr) and is_size(node)):
        yield expression("solved()")
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        yield ast.BinOp(node.left, node.op, expression("solved()"))


def _solved_factors(node: ast.AST) -> Iterator[ast.expr]:
    """Yield an intermediate times an unknown; none of an integer, which may be a size."""
    if isinstance(node, ast.BinOp | ast.Call):
        yield expression(f"solved() * of_floats({ast.unparse(node)})")


def _solved(formula: Any, f: Any, change: Any, e: Evidence) -> Iterator[Program]:
    """Yield the programs in which an unknown of a function has a value that fits."""
    with contextlib.suppress(OSError):  # the package has no source
        for stands, due, other in itertools.islice(mutants(formula, change, (f,)), MAX_FACTORS):
            if not described(stands, due):  # it is no mathematics
                continue
            outputs = functools.partial(_with_unknown, other, e.call)
            for value, text, unit in _values(outputs, e, (*_multiples(1.0), *COUNTS)):
                message = described(stands.replace("solved()", text), due) + within(f, formula)
                yield _fitted(message, functools.partial(_with_unknown, other), value, unit)


def _with_unknown(formula: Any, call: ReferenceCall, value: float) -> list[Any] | None:
    SOLVED.value = value
    return outputs_of(formula, call)


def _values(
    outputs: Callable[[float], list[Any] | None], e: Evidence, tried: tuple[float, ...]
) -> Iterator[tuple[float, str, float]]:
    """Yield the numbers of a few digits, or of a name, that lead to the worst number of a case."""
    pair = e.pairs[0]
    worst = int(np.nanargmax(np.where(np.isfinite(pair.gaps), pair.gaps, np.nan)))
    target = pair.got.flat[worst]
    allowed = np.broadcast_to(_allowed(pair), pair.got.shape).flat[worst]

    def error(value: float) -> float:
        arrays = outputs(value)
        if arrays is None or np.shape(arrays[pair.number]) != pair.got.shape:
            return math.nan
        return float(np.asarray(arrays[pair.number]).flat[worst] - target)

    for root in _roots(error, sorted({*tried})):
        for value, text, unit in _written(root):
            if abs(error(value)) <= allowed:
                yield value, text, unit


def _written(root: float) -> Iterator[tuple[float, str, float]]:
    """Yield numbers near a root as people write them, and how far apart such numbers are."""
    if root == 0:
        yield 0.0, "0", 1.0
        return
    short = dict(_of_few_digits(root, 0.0, MAX_DIGITS))
    if 0 < abs(root - 1) < NEAR_ONE:  # a small number was added to 1
        short = dict(_of_few_digits(root, 1.0, 2)) | short
    for value, spacing in short.items():
        yield value, f"{value:.9g}", spacing
    for text, value in NAMED.items():
        if math.isclose(value, root, rel_tol=1e-4):
            yield value, text, abs(root) / len(NAMED)


def _of_few_digits(root: float, start: float, most: int) -> Iterator[tuple[float, float]]:
    """Yield roundings of a root, beyond a start, and the unit of the last digit of each."""
    seen: set[float] = set()
    size = 10.0 ** math.floor(math.log10(abs(root - start)))
    for digits in range(most):
        value = start + float(f"{root - start:.{digits}e}")
        if value not in seen:
            seen.add(value)
            yield value, size / 10**digits


def _roots(error: Callable[[float], float], tried: list[float]) -> Iterator[float]:
    """Yield where an error is 0, between some numbers."""
    from scipy.optimize import brentq  # noqa: PLC0415  # a search alone needs it

    errors = [error(value) for value in tried]
    for (a, left), (b, right) in itertools.pairwise(zip(tried, errors, strict=True)):
        if left == 0 != right:
            yield a
        elif left * right < 0:
            with contextlib.suppress(ValueError, RuntimeError):
                yield brentq(error, a, b, xtol=1e-12 * max(abs(a), abs(b)), maxiter=60)
