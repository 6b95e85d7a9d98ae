"""
Changed programs: the formula of a map with one change, tried on all cases of a report.

A program is a cause if it leads to every output of the candidate in every case in which that is
off, and to the right ones where it is right. No draw of numbers agrees with a wrong program by
chance twice.
"""

from __future__ import annotations

import ast
import contextlib
import copy
import functools
import inspect
import itertools
import sys
import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...._core.pytree import is_float, map_floats, tree_leaves
from ..formulas import FORMATS, REFUSALS, is_formula, parts, rewritten
from ..stochastic_rounding import EPS
from .heuristics import MIN_SAMPLES, Pair, agrees
from .mutations import (
    as_read,
    changed_code,
    changes,
    formula_of,
    mutants,
    outputs_of,
    places,
    put,
    read,
    source_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ..calls import ReferenceCall

#: Programs that are tried, at most, and numbers of the case that they are tried on first.
MAX_PROGRAMS, MAX_NUMBERS = 4000, 2**13
#: Numbers of a case that a program is confirmed on, at most.
MAX_CONFIRMED = 2**18
#: Programs of which one is the cause, if no case tells them apart; more of them say nothing.
MAX_TIES = 3
#: Sizes of blocks in which kernels read an axis.
BLOCKS = (16, 32, 64, 128, 256)
#: Functions of NumPy that are taken for each other.
ALIKE = (
    ("mean", "sum", "max"), ("max", "min"), ("maximum", "minimum"), ("sin", "cos"),
    ("exp", "expm1", "exp2"), ("log", "log1p", "log2", "log10"), ("sqrt", "square"),
    ("floor", "rint", "round", "ceil", "trunc"), ("cumsum", "cumprod"), ("abs", "square"),
    ("var", "std"),
)  # fmt: skip
COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Gt: (ast.GtE,), ast.GtE: (ast.Gt, ast.Lt), ast.Lt: (ast.LtE,), ast.LtE: (ast.Lt, ast.Gt),
    ast.Eq: (ast.NotEq,), ast.NotEq: (ast.Eq,),
}  # fmt: skip
#: Axes that are taken for each other.
AXES = (-1, -2, 0)
#: Parameters of functions that are no part of the mathematics.
SILENT = {"axis", "keepdims", "dtype", "strict"}


@dataclass(frozen=True, eq=False)
class Evidence:
    """A case of a candidate: the call, its outputs, and which of them are off."""

    call: ReferenceCall
    got: list[Any]
    want: list[Any]
    dtypes: list[Any]
    bounds: dict[int, Any]  # of the outputs that were compared
    off: frozenset[int]

    @property
    def size(self) -> int:
        """Return how many numbers go in and out."""
        return sum(np.size(a) for a in tree_leaves((self.call.arguments, tuple(self.want))))

    @functools.cached_property
    def wrong(self) -> int:
        """Return how many numbers are off."""
        return int(sum((~(pair.gaps <= pair.bound)).sum() for pair in self.pairs))

    @functools.cached_property
    def pairs(self) -> list[Pair]:
        """Return the outputs that are off beside the exact ones."""
        return [
            Pair(
                self.call, i, np.asarray(self.got[i], np.float64),
                np.asarray(self.want[i], np.float64), self.bounds[i], np.dtype(self.dtypes[i]),
            )
            for i in sorted(self.off)
        ]  # fmt: skip

    def agrees(self, outputs: list[Any]) -> bool:
        """Return whether outputs are the candidate's, up to a few times their bounds."""
        if any(i >= len(outputs) or outputs[i] is None for i in self.bounds):
            return False
        return all(
            agrees(pair.got, np.asarray(outputs[pair.number], np.float64), pair)
            for pair in self.pairs
        ) and all(
            _is_near(outputs[i], self.want[i], 4 * np.asarray(bound))
            for i, bound in self.bounds.items()
            if i not in self.off
        )

    @property
    def is_clear(self) -> bool:
        """Return whether a cause can be tried on it: it is right, or its numbers speak."""
        wide = all(np.dtype(d).itemsize > 2 for d in self.dtypes if d is not None)
        return not self.call.numeric and (not self.off or (self.speaks and wide))

    @functools.cached_property
    def speaks(self) -> bool:
        """Return whether its outputs can be those of a program: arrays of finite numbers."""
        if self.call.numeric or not self.off <= self.bounds.keys():
            return False
        for i in self.off:
            a, w = self.got[i], self.want[i]
            if a is None or not (is_float(a) or a.dtype.kind in "biu"):
                return False
            if np.shape(a) != np.shape(w) or not np.any(a):  # many programs lead to zeros
                return False
            if not np.isfinite(np.asarray(a, np.float64)[np.isfinite(np.asarray(w, float))]).all():
                return False
        return True


class Program(NamedTuple):
    """A changed program, and what is changed."""

    message: str
    run: Any  # from a call to its outputs


# What is changed.


def _constants(value: Any) -> Iterator[Any]:
    """Yield numbers that are written in place of one."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return
    if isinstance(value, int):
        yield from (value + 1, value - 1)
        return
    others = [2 * value, value / 2, -value, 1 - value, 1.0, *(round(value, n) for n in (4, 3, 2))]
    yield from (other for other in dict.fromkeys(others) if other != value)


def _indices(index: ast.expr) -> Iterator[ast.expr]:
    """Yield indices that are off by one, also where one stands among others."""
    if isinstance(index, ast.Tuple):
        for i, part in enumerate(index.elts):
            for other in _indices(part):
                yield ast.Tuple([*index.elts[:i], other, *index.elts[i + 1 :]], ast.Load())
    elif isinstance(index, ast.Name | ast.BinOp):
        yield from (ast.BinOp(index, op, ast.Constant(1)) for op in (ast.Sub(), ast.Add()))
    elif isinstance(index, ast.Slice) and index.step is None:
        lower, upper = index.lower, index.upper
        if upper is None and lower is not None:
            yield ast.Slice(None, ast.UnaryOp(ast.USub(), lower), None)
        if lower is None and isinstance(upper, ast.UnaryOp):
            yield ast.Slice(upper.operand, None, None)


def _is_index(node: ast.Tuple | ast.List) -> bool:
    """Return whether a tuple is an index, of places and slices."""
    return any(
        isinstance(part, ast.Slice) or (isinstance(part, ast.Constant) and part.value is ...)
        for part in node.elts
    )


def _orders(items: list[ast.expr]) -> Iterator[list[ast.expr]]:
    """Yield other orders: of four, all; of more, two are exchanged."""
    if len(items) <= 4:
        yield from (list(order) for order in itertools.permutations(items) if [*order] != items)
        return
    for i, j in itertools.combinations(range(len(items)), 2):
        order = items[:]
        order[i], order[j] = order[j], order[i]
        yield order


def _of_family(call: ast.Call, scope: dict[str, Any]) -> Iterator[ast.expr]:
    """Yield calls of functions that are taken for another: of NumPy, or of a chapter."""
    func = call.func
    if isinstance(func, ast.Attribute):
        for family in ALIKE:
            if func.attr in family:
                for other in family:
                    if other != func.attr:
                        yield ast.Call(
                            ast.Attribute(func.value, other, ast.Load()), call.args, call.keywords
                        )
    elif isinstance(func, ast.Name) and is_formula(scope.get(func.id)):
        own = scope[func.id]
        for name in _like(own):
            yield ast.Call(ast.Name(name, ast.Load()), call.args, call.keywords)


@functools.cache
def _like(f: Any) -> tuple[str, ...]:
    """Return the formulas of a chapter with the parameters of one, if these are few."""
    module = sys.modules[f.__module__]
    wanted = [*inspect.signature(f).parameters]
    others = [
        name
        for name, other in vars(module).items()
        if is_formula(other) and other is not f and other.__module__ == f.__module__
        and [*inspect.signature(other).parameters] == wanted
    ]  # fmt: skip
    return tuple(others)


def further_changes(
    node: ast.AST, shapes: dict[str, Any], scope: dict[str, Any]
) -> Iterator[ast.expr]:
    """Yield other expressions that people write in place of one, of further kinds."""
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in shapes:
        same = (n for n, shape in shapes.items() if shape == shapes[node.id] and n != node.id)
        yield from (ast.Name(name, ast.Load()) for name in same)
    elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
        yield from (ast.Subscript(node.value, index, node.ctx) for index in _indices(node.slice))
    elif isinstance(node, ast.Compare):
        for other in COMPARISONS.get(type(node.ops[0]), ()):
            yield ast.Compare(node.left, [other()], node.comparators)
    elif isinstance(node, ast.Constant):
        yield from map(ast.Constant, _constants(node.value))
    elif isinstance(node, ast.Attribute) and node.attr in ("T", "mT"):
        yield node.value
    elif isinstance(node, ast.Tuple | ast.List) and not _is_index(node):
        yield from (type(node)(order, node.ctx) for order in _orders(node.elts))
    elif isinstance(node, ast.BinOp):
        yield from _of_operation(node)
    elif isinstance(node, ast.Call):
        yield from _of_call(node, scope)


def _of_operation(node: ast.BinOp) -> Iterator[ast.expr]:
    left, right, op = node.left, node.right, node.op
    yield from _without_parentheses(node)
    if isinstance(op, ast.Div) and isinstance(right, ast.Constant) and right.value not in (0, 1):
        for digits in (4, 3, 2):  # a sixth is written as 0.1667
            yield ast.BinOp(ast.Constant(round(1 / right.value, digits)), ast.Mult(), left)
    if isinstance(op, ast.Sub | ast.Div | ast.MatMult):
        yield ast.BinOp(right, op, left)
    if isinstance(op, ast.MatMult):
        yield ast.BinOp(left, op, ast.Attribute(right, "mT", ast.Load()))
        yield ast.BinOp(ast.Attribute(left, "mT", ast.Load()), op, right)
    if isinstance(op, ast.Pow) and isinstance(right, ast.Constant) and isinstance(right.value, int):
        yield from (
            ast.BinOp(left, op, ast.Constant(n)) for n in (right.value - 1, right.value + 1)
        )


def _without_parentheses(node: ast.BinOp) -> Iterator[ast.expr]:
    """Yield a sum of which one term alone is multiplied or divided."""
    left, right, op = node.left, node.right, node.op
    if isinstance(op, ast.Mult | ast.Div) and _is_sum(left):
        yield ast.BinOp(ast.BinOp(left.left, op, right), left.op, left.right)
        yield ast.BinOp(left.left, left.op, ast.BinOp(left.right, op, right))
    if isinstance(op, ast.Mult) and _is_sum(right):
        yield ast.BinOp(ast.BinOp(left, op, right.left), right.op, right.right)
        yield ast.BinOp(right.left, right.op, ast.BinOp(left, op, right.right))


def _is_sum(node: ast.expr) -> Any:
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub)


def _of_call(node: ast.Call, scope: dict[str, Any]) -> Iterator[ast.expr]:
    name = ast.unparse(node.func).rpartition(".")[2]
    for i, keyword in enumerate(node.keywords):
        rest = [*node.keywords[:i], *node.keywords[i + 1 :]]
        if keyword.arg == "axis" and isinstance(keyword.value, ast.UnaryOp | ast.Constant):
            for axis in AXES:
                other = ast.keyword("axis", ast.Constant(axis))
                if ast.unparse(keyword.value) != str(axis):
                    yield ast.Call(node.func, node.args, [*rest, other])
        elif keyword.arg is not None and keyword.arg not in SILENT:
            yield ast.Call(node.func, node.args, rest)  # the option is not handed on
    if name == "sum" and isinstance(node.func, ast.Name):  # of a tuple: one part alone
        yield from (ast.Subscript(node.args[0], ast.Constant(i), ast.Load()) for i in (0, 1))
    elif name == "where" and len(node.args) == 3:
        condition, a, b = node.args
        yield from (a, b, ast.Call(node.func, [condition, b, a], node.keywords))
    elif 2 <= len(node.args) <= 4 and name not in ("range", "split"):
        for i in range(len(node.args) - 1):
            args = node.args[:]
            args[i], args[i + 1] = args[i + 1], args[i]
            yield ast.Call(node.func, args, node.keywords)
    yield from _of_family(node, scope)


def _rounded(node: ast.AST) -> Iterator[ast.expr]:
    """Yield an intermediate that is rounded to a short format."""
    if isinstance(node, ast.BinOp | ast.Call):
        yield from (ast.Call(ast.Name(name, ast.Load()), [node], []) for name in FORMATS)


def _blocks(node: ast.AST) -> Iterator[list[ast.stmt]]:
    """Yield the lists of statements in a function."""
    for inner in ast.walk(node):
        for name in ("body", "orelse"):
            block = getattr(inner, name, None)
            if isinstance(block, list):
                yield block


def _stored(statement: ast.AST) -> set[str]:
    return {
        n.id for n in ast.walk(statement)
        if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
    } | {
        n.target.value.id for n in ast.walk(statement)
        if isinstance(n, ast.AugAssign) and isinstance(n.target, ast.Subscript)
        and isinstance(n.target.value, ast.Name)
    }  # fmt: skip


def _loaded(statement: ast.AST) -> set[str]:
    return {
        n.id for n in ast.walk(statement)
        if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)
    }  # fmt: skip


def _statement_changes(block: list[ast.stmt]) -> Iterator[tuple[str, list[ast.stmt]]]:
    """Yield what is changed in a list of statements, and the list."""
    for i, first in enumerate(block):
        rest = block[i + 1 :]
        text = as_sentence(first)
        if isinstance(first, ast.AugAssign):
            yield f"{text} is left out", [*block[:i], ast.Pass(), *rest]
            alone = ast.Assign([first.target], first.value)
            yield f"{as_sentence(alone)} stands where {text} is due", [*block[:i], alone, *rest]
            if isinstance(first.op, ast.Add):
                less = ast.AugAssign(first.target, ast.Sub(), first.value)
                yield f"{as_sentence(less)} stands where {text} is due", [*block[:i], less, *rest]
        elif isinstance(first, ast.Assign) and _stored(first) & _loaded(first.value):
            yield f"{text} is left out", [*block[:i], ast.Pass(), *rest]
        for j, second in enumerate(rest, i + 1):
            if isinstance(first, ast.Return | ast.Expr) or isinstance(second, ast.Return):
                break
            if _stored(first) & (_loaded(second) | _stored(second)):
                moved = [*block[:i], *block[i + 1 : j + 1], first, *block[j + 1 :]]
                yield f"{text} comes after {as_sentence(second)}, not before", moved


def as_sentence(statement: ast.stmt) -> str:
    """Return a statement as a reader would write it; of several, the first."""
    while isinstance(statement, ast.If | ast.For):
        statement = statement.body[0]
    return ast.unparse(ast.fix_missing_locations(read(copy.deepcopy(statement))))


# The programs of a formula.


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

    def note(frame: Any, event: str, _: Any) -> None:
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


def _message(stands: str, due: str, f: Any, formula: Any) -> str:
    """Return what is changed, in the letters of a formula; empty if it is no mathematics."""
    stands, due = map(as_read, (stands, due))
    if not stands or not due or stands == due:
        return ""
    for name in FORMATS:
        if stands == f"{name}({due})":
            return f"{due} is rounded to {name}{_within(f, formula)}"
    return f"{stands} stands where {due} is due{_within(f, formula)}"


def _within(f: Any, formula: Any) -> str:
    """Return in which function a change is, where that is another one than the formula."""
    return "" if f is formula or f.__name__ == "<lambda>" else f", in {f.__name__}"


def programs(formula: Any, call: ReferenceCall) -> Iterator[Program]:
    """Yield the changed programs of a formula, usual changes first."""
    shapes = _shapes(formula, call)
    reached = [f for f in parts(formula) if f.__code__ in shapes]
    for change in (changes, None, _rounded):
        for f in reached:
            scope = f.__globals__
            own = change or functools.partial(
                further_changes, shapes=shapes[f.__code__], scope=scope
            )
            for stands, due, other in mutants(formula, own, (f,)):
                if message := _message(stands, due, f, formula):
                    yield Program(message, functools.partial(outputs_of, other))
            if change is None:
                yield from _with_other_statements(formula, f)


def _with_other_statements(formula: Any, f: Any) -> Iterator[Program]:
    """Yield the programs in which statements of a function are left out, or in another order."""
    with contextlib.suppress(OSError):
        tree, node = source_of(f)
        if isinstance(node, ast.Lambda):
            return
        for block in _blocks(node):
            due = block[:]
            for message, other in [*_statement_changes(block)]:
                block[:] = [ast.copy_location(ast.fix_missing_locations(s), node) for s in other]
                code = changed_code(f, tree)
                block[:] = due
                if code is not None:
                    run = functools.partial(outputs_of, rewritten(formula, {f.__code__: code}))
                    yield Program(message + _within(f, formula), run)
        for place in [*places(node)]:
            parent, name = place[:2]
            if name == "test" and isinstance(parent, ast.If | ast.IfExp):
                due_text = ast.unparse(read(copy.deepcopy(place[-1])))
                for value in (False, True):
                    put(place, ast.copy_location(ast.Constant(value), place[-1]))
                    code = changed_code(f, tree)
                    put(place, place[-1])
                    if code is not None:
                        run = functools.partial(outputs_of, rewritten(formula, {f.__code__: code}))
                        how = "always" if value else "never"
                        message = f"the branch for '{due_text}' is {how} taken"
                        yield Program(message + _within(f, formula), run)


# Programs that give the map other inputs or options.


def other_calls(call: ReferenceCall) -> Iterator[Program]:
    """Yield programs that read their inputs in another format or in blocks, or round an option."""
    for name, rounded in READ_AS.items():
        for count in (len(call.arguments), 2):  # all, or the operands of a product
            if count <= len(call.arguments):
                change = functools.partial(_with_inputs, f=rounded, count=count)
                which = "all inputs are" if count == len(call.arguments) else "both operands are"
                yield Program(f"{which} {name}", functools.partial(_run, change))
    for key, value in call.settings.items():
        if isinstance(value, float):
            for other in dict.fromkeys(round(value, digits) for digits in (4, 3, 2)):
                if other not in (value, 0.0):
                    change = functools.partial(_with_default, key=key, due=value, value=other)
                    message = f"{key} is {other:g}, not {value:.6g}"
                    yield Program(message, functools.partial(_run, change))
    yield from _block_programs(call)


def _run(change: Any, call: ReferenceCall) -> list[Any] | None:
    """Return the outputs of the map for a changed call."""
    with contextlib.suppress(Exception):  # the map may refuse it
        parts = tree_leaves(change(call).run())
        return [None if part is None else np.asarray(part) for part in parts]
    return None


def _with_inputs(call: ReferenceCall, *, f: Any, count: int) -> ReferenceCall:
    first, rest = call.arguments[:count], call.arguments[count:]
    return replace(call, arguments=(*map_floats(f, first), *rest))


def _with_default(call: ReferenceCall, *, key: str, due: float, value: float) -> ReferenceCall:
    """Return a call with another value of an option, where it has a certain one."""
    return call.with_options(**{key: value}) if call.settings.get(key) == due else call


def _to_ten_bits(a: Any, *, nearest: bool) -> Any:
    """Return numbers whose float32 mantissa has 10 bits, as tensor cores read them."""
    bits = np.asarray(a, np.float32).view(np.uint32)
    bits = (bits + np.uint32(0x1000) if nearest else bits) & np.uint32(0xFFFFE000)
    return bits.view(np.float32).astype(np.float64)


#: How kernels read their inputs.
READ_AS: dict[str, Any] = {
    "rounded to TF32": functools.partial(_to_ten_bits, nearest=True),
    "cut to the 10 bits of TF32": functools.partial(_to_ten_bits, nearest=False),
    **{f"rounded to {name}": f for name, f in FORMATS.items()},
}


class _Block(NamedTuple):
    """How an axis of an input is read: a size that it has, and another one that it is read as."""

    k: int
    axis: int | None  # None is the axis that the option 'axis' says
    size_of: Any  # from the size of the axis to the size that is read

    def of(self, call: ReferenceCall) -> tuple[int, int, int]:
        """Return the axis, its size and the size that is read."""
        a = call.inputs[self.k]
        axis = call.settings["axis"] if self.axis is None else self.axis
        axis = axis if axis < 0 else axis - np.ndim(a)
        n = np.shape(a)[axis]
        return axis, n, self.size_of(n) or n  # where no block is whole, all is read

    def run(self, call: ReferenceCall) -> list[Any] | None:
        """Return the outputs of a call whose arrays have another size in place of one."""
        with contextlib.suppress(Exception):
            axis, n, size = self.of(call)

            def resized(value: Any) -> Any:
                return _resized(value, axis, n, size)

            arguments = tuple(map_arrays(resized, value) for value in call.arguments)
            options = {key: map_arrays(resized, value) for key, value in call.options.items()}
            out = tree_leaves(replace(call, arguments=arguments, options=options).run())
            return [None if part is None else _resized(part, axis, size, n) for part in out]
        return None


def _block_programs(call: ReferenceCall) -> Iterator[Program]:
    """Yield programs that count the padding of a block, or leave the last block out."""
    for k, a in enumerate(call.inputs):
        axes: list[int | None] = [*range(-np.ndim(a) if is_float(a) else 0, 0)]
        if not k and isinstance(call.settings.get("axis"), int):
            axes = [None]
        for axis in axes:
            where = f"axis {axis} of {call.names[k]}" if axis is not None else "the axis"
            for how, size_of in READ_IN_BLOCKS.items():
                yield Program(f"{where} is {how}", _Block(k, axis, size_of).run)


def _sizes(block: int) -> dict[str, Any]:
    size = f"a multiple of {block}"
    return {
        f"padded to {size}, and the padding is counted": lambda n: -(-n // block) * block,
        f"cut to {size}: the last block is left out": lambda n: n // block * block,
        f"read up to {block}, and left out beyond": lambda n: min(n, block),
    }


#: How many numbers of an axis kernels read that have blocks of one size, or a power of two.
READ_IN_BLOCKS: dict[str, Any] = {
    **{how: f for block in BLOCKS for how, f in _sizes(block).items()},
    "padded to a power of two, and the padding is counted": lambda n: 1 << (n - 1).bit_length(),
}


def map_arrays(f: Any, value: Any) -> Any:
    if isinstance(value, tuple | list) and not hasattr(value, "_fields"):
        return type(value)(map_arrays(f, part) for part in value)
    return f(value) if isinstance(value, np.ndarray) else map_floats(f, value)


def _resized(value: Any, place: int, n: int, size: int) -> Any:
    """Return an array whose axes of one size have another: more is 0, or True."""
    a = np.asarray(value)
    for axis, count in enumerate(a.shape):
        if count != n or (n == 1 and axis != a.ndim + place):  # an axis of one is seldom this one
            continue
        if size <= n:
            a = a.take(range(size), axis)
        else:
            more = [(0, size - n if i == axis else 0) for i in range(a.ndim)]
            a = np.pad(a, more, constant_values=a.dtype.kind == "b")
    return a


# Which of them is the cause.


def _leads_to(
    program: Program, evidence: Evidence, own: list[Any], *, is_first: bool = True
) -> list[Any] | None:
    """
    Return the outputs of a program, if they are the candidate's.

    In the first case they have to explain nearly all of a difference, which few programs do by
    chance. What is left of these has to agree in the other cases, up to rounding.
    """
    with np.errstate(all="ignore"), warnings.catch_warnings(action="ignore"):
        outputs = program.run(evidence.call)
    if outputs is None or len(outputs) < len(evidence.want):
        return None
    for pair in evidence.pairs:
        other = outputs[pair.number]
        if other is None:
            return None
        limit = 4 * np.asarray(pair.bound)
        if is_first and not agrees(pair.got, np.asarray(other, np.float64), pair):
            return None
        if not is_first and not _is_near(pair.got, other, limit, EPS.get(pair.dtype.name, 0.0)):
            return None
    for i in evidence.bounds.keys() - evidence.off:
        if outputs[i] is None or not _is_near(outputs[i], own[i], evidence.bounds[i]):
            return None
    return outputs


def _is_near(got: Any, want: Any, bound: Any, eps: float = 0.0) -> bool:
    if want is None or np.shape(got) != np.shape(want):
        return want is None
    with np.errstate(all="ignore"):
        got, want = np.asarray(got, np.float64), np.asarray(want, np.float64)
        size = np.max(np.abs(want), where=np.isfinite(want), initial=0.0)
        same = (got == want) | (np.isnan(got) & np.isnan(want))
        unit = 8 * eps + 64 * EPS["float64"]
        return bool((same | (np.abs(got - want) <= bound + unit * size)).all())


def _own(formula: Any, evidence: Evidence) -> list[Any] | None:
    """Return the outputs of the unchanged formula, if they are the right ones."""
    with np.errstate(all="ignore"):
        outputs = outputs_of(formula, evidence.call)
    if outputs is None or len(outputs) < len(evidence.want):
        return None
    near = all(
        _is_near(outputs[i], evidence.want[i], bound) for i, bound in evidence.bounds.items()
    )
    return outputs if near else None


def common_program(cases: Sequence[Evidence]) -> str:
    """Return the program that a candidate is, from what it returned in all cases; empty if none."""
    off = [e for e in cases if e.off and e.speaks and e.size <= MAX_CONFIRMED]
    first = _first(off)
    if first is None or (formula := formula_of(first.call)) is None:
        return ""
    others = [e for e in off if e is not first]
    if not others and first.wrong < 2 * MIN_SAMPLES:
        return ""
    right = [e for e in cases if not e.off and e.size <= MAX_CONFIRMED]
    own = functools.cache(functools.partial(_own, formula))
    found: list[tuple[str, list[Any]]] = []
    every = itertools.chain(programs(formula, first.call), other_calls(first.call))
    for program in itertools.islice(every, MAX_PROGRAMS):
        outputs: list[Any] = []
        for e in (first, *others, *right):
            if own(e) is None:  # the formula does not take this case
                continue
            outputs.append(_leads_to(program, e, own(e), is_first=e is first))
            if outputs[-1] is None:
                break
        if not outputs or outputs[-1] is None or any(_same(outputs, o) for _, o in found):
            continue
        found.append((program.message, outputs))
        if len(found) > MAX_TIES:
            return ""
    messages = [message for message, _ in found]
    return messages[0] if len(messages) == 1 else " or: ".join(messages)


def _same(left: list[Any], right: list[Any]) -> bool:
    """Return whether two programs are one in all cases, but for the rounding of float64."""
    return all(
        (a is None) == (b is None) and (a is None or _is_near(a, b, 0.0))
        for some, other in zip(left, right, strict=True)
        for a, b in zip(some, other, strict=True)
    )


def _first(off: list[Evidence]) -> Evidence | None:
    """Return the smallest case in which enough numbers are off."""
    small = [e for e in off if e.size <= MAX_NUMBERS]
    telling = [e for e in small if e.wrong >= MIN_SAMPLES] or small
    return min(telling, key=lambda e: (len(e.call.non_default_options), e.size), default=None)
