"""Mutations of the plain formula of a map: one operation, factor or function is another."""

from __future__ import annotations

import ast
import contextlib
import copy
import functools
import inspect
import sys
import warnings
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

import numpy as np

from ...._core.pytree import tree_leaves
from ..calls import ReferenceCall, separate
from ..formulas import REFUSALS, every_formula, formulas_that_draw, parts, rewritten
from ..helpers import FORMATS
from .common import check_time

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

#: Elements of an array in a changed program, at most: so many, and this multiple of the arguments.
MAX_SIZE, MAX_GROWTH = 2**20, 64
OTHER: dict[type[ast.operator], Any] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult,
}  # fmt: skip
#: Functions that change no number in float64.
DTYPES = {"astype", "type", "asarray", "of_floats"}
#: Functions whose argument is the shape of their result.
OF_SHAPES = {"arange", "zeros", "ones", "eye", "full", "range"}
#: Names that are no part of the mathematics: how options and dtypes are given.
HIDDEN = {"options", "np", "dtype"}


def changes(node: ast.AST) -> Iterator[ast.expr]:
    """Yield other expressions that people write in place of one."""
    if isinstance(node, ast.BinOp):
        left, right, op = node.left, node.right, node.op
        if type(op) in OTHER:
            yield ast.BinOp(left, OTHER[type(op)](), right)
            yield left
        if isinstance(op, ast.Add | ast.Mult):
            yield right
        if isinstance(op, ast.Sub):
            yield ast.UnaryOp(ast.USub(), right)
            if ast.unparse(left) == "1":  # the complement was forgotten
                yield right
        if isinstance(op, ast.Pow):
            yield from (ast.BinOp(node, ast.Mult(), left), left)
        for factor in (2.0, 0.5):
            yield ast.BinOp(ast.Constant(factor), ast.Mult(), node)
            if isinstance(op, ast.Add | ast.Sub):
                for part, other in ((left, right), (right, left)):
                    twice = ast.BinOp(ast.Constant(factor), ast.Mult(), part)
                    yield ast.BinOp(*((twice, op, other) if part is left else (other, op, twice)))
    elif isinstance(node, ast.Compare) and type(node.ops[0]) in (ast.Gt, ast.Lt):
        flipped: ast.cmpop = ast.Lt() if isinstance(node.ops[0], ast.Gt) else ast.Gt()
        yield ast.Compare(node.left, [flipped], node.comparators)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        yield node.operand
    elif isinstance(node, ast.Call) and node.args and not isinstance(node.args[0], ast.Starred):
        yield from _without(node)


def _without(call: ast.Call) -> Iterator[ast.expr]:
    """Yield the argument of a call in place of its result: the function was forgotten."""
    name = name_of(call)
    if name in ("maximum", "minimum"):
        yield from call.args[:2]
    elif not _is_option(call.args[0]):
        yield from call.args[: name not in DTYPES | OF_SHAPES]
    elif isinstance(call.func, ast.Attribute):  # a method: x.max(axis)
        yield call.func.value


def name_of(call: ast.Call) -> str:
    """Return the name of the function that is called, without its module or array."""
    return ast.unparse(call.func).rpartition(".")[2]


def _is_option(node: ast.expr) -> bool:
    """Return whether an argument is an axis or a number, which nobody writes for a result."""
    return isinstance(node, ast.Constant) or ast.unparse(node) in ("-1", "axis")


def places(node: Any) -> Iterator[tuple[ast.AST, str, Any, ast.expr]]:
    """Yield every expression in the body of a function: its parent, field, list and itself."""
    for parent in (inner for statement in node.body for inner in ast.walk(statement)):
        for name, value in ast.iter_fields(parent):
            entries = value if isinstance(value, list) else [value]
            for i, entry in enumerate(entries):
                if isinstance(entry, ast.expr):
                    yield parent, name, (value, i) if isinstance(value, list) else None, entry


def put(place: Any, entry: ast.expr) -> None:
    parent, name, listed, _ = place
    if listed:
        listed[0][listed[1]] = entry
    else:
        setattr(parent, name, entry)


def _code_of(f: FunctionType, code: CodeType) -> CodeType | None:
    """Return the code of a function within the code of its module."""
    own = f.__code__
    if (code.co_name, code.co_firstlineno) == (own.co_name, own.co_firstlineno):
        return code if code.co_freevars == own.co_freevars else None
    inner = (_code_of(f, c) for c in code.co_consts if isinstance(c, CodeType))
    return next(filter(None, inner), None)


def source_of(f: FunctionType) -> tuple[ast.Module, ast.FunctionDef]:
    """Return the statement of a module that a function is in, and the function in that."""
    first = f.__code__.co_firstlineno
    before = [top for top in _module(f.__module__).body if top.lineno <= first]
    statement = copy.deepcopy(before[-1])
    node = next(
        node
        for node in ast.walk(statement)
        if isinstance(node, ast.FunctionDef) and node.lineno == first
    )
    return ast.Module([statement], []), node


@functools.cache
def _module(name: str) -> ast.Module:
    return ast.parse(inspect.getsource(sys.modules[name]))


def changed_code(f: FunctionType, tree: ast.Module) -> CodeType | None:
    """Return the code of a function in a statement that was changed; None if it makes no sense."""
    with contextlib.suppress(SyntaxError, ValueError), warnings.catch_warnings(action="ignore"):
        return _code_of(f, compile(tree, f.__code__.co_filename, "exec"))
    return None


def changed_codes(
    f: FunctionType, tree: ast.Module, place: Any, entries: Iterable[ast.expr]
) -> Iterator[tuple[str, CodeType | None]]:
    """Yield each expression for a place, and the code with it; the place has it meanwhile."""
    for entry in entries:
        put(place, ast.copy_location(ast.fix_missing_locations(entry), place[-1]))
        yield ast.unparse(entry), changed_code(f, tree)
        put(place, place[-1])


def mutants(
    formula: Any,
    change: Callable[[ast.AST], Iterator[ast.expr]] = changes,
    functions: tuple[Any, ...] = (),
) -> Iterator[tuple[str, str, Any]]:
    """
    Yield the changed expression, the right one and the formula, for each change.

    The changes are in all functions that the formula consists of, or in some of them.
    """
    for f in functions or parts(formula):
        tree, node = source_of(f)
        for place in [*places(node)]:
            due = ast.unparse(place[-1])
            for stands, code in changed_codes(f, tree, place, change(place[-1])):
                if code is not None:
                    yield stands, due, rewritten(formula, {f.__code__: code})


class _Read(ast.NodeTransformer):
    """Drops dtypes and shapes, and gives functions their usual names."""

    def visit_Name(self, node: ast.Name) -> Any:
        return ast.Name(node.id.lstrip("_") or "_")

    def visit_Attribute(self, node: ast.Attribute) -> Any:
        value = self.visit(node.value)
        if node.attr == "real":
            return value
        in_numpy = ast.unparse(value) in ("np", "scipy.special")
        return ast.Name(node.attr) if in_numpy else ast.Attribute(value, node.attr)

    def visit_Call(self, node: ast.Call) -> Any:
        name = name_of(node)
        if name == "astype" and isinstance(node.func, ast.Attribute):
            return self.visit(node.func.value)
        if name in DTYPES:
            return self.visit(node.args[0])
        if name == "plus":
            left, right = map(self.visit, node.args)
            return ast.BinOp(left, ast.Add(), right)
        # None is the keyword of **options
        node.keywords = [k for k in node.keywords if k.arg not in ("keepdims", "dtype", None)]
        node.args = [a for a in node.args if not ast.unparse(a).endswith("dtype")]
        return self.generic_visit(node)


def read(node: ast.AST) -> Any:
    """Return a syntax tree as a reader would write it, which may be changed on the way."""
    return _Read().visit(node)


@functools.lru_cache(4096)
def as_read(text: str) -> str:
    """Return an expression as a reader would write it; empty if it is no mathematics."""
    tree = read(ast.parse(text, mode="eval"))
    every = [*ast.walk(tree)]
    names = {node.id for node in every if isinstance(node, ast.Name)}
    names |= {node.attr for node in every if isinstance(node, ast.Attribute)}
    return "" if names & HIDDEN else ast.unparse(tree)


def described(stands: str, due: str) -> str:
    """Return a change in the letters of a formula; empty if it is no mathematics."""
    stands, due = map(as_read, (stands, due))
    if not stands or not due or stands == due:
        return ""
    for name in FORMATS:
        if stands == f"{name}({due})":
            return f"{due} is rounded to {name}"
    trees = [ast.parse(text, mode="eval").body for text in (stands, due)]
    if difference := _exchanged(*trees) or _not_passed(*trees):
        return difference
    return f"{stands} stands where {due} is due"


def _exchanged(a: ast.expr, b: ast.expr) -> str:
    """Return which two entries of a tuple, or arguments of a call, are exchanged, if any are."""
    where = "a tuple"
    if isinstance(a, ast.Call) and isinstance(b, ast.Call):
        where = ast.unparse(b)
        if ast.unparse(a.func) != ast.unparse(b.func):
            return ""
        some, other = a.args, b.args
    elif isinstance(a, ast.Tuple) and isinstance(b, ast.Tuple):
        some, other = a.elts, b.elts
    else:
        return ""
    pairs = zip(map(ast.unparse, some), map(ast.unparse, other), strict=False)
    moved = [(left, right) for left, right in pairs if left != right]
    if len(some) != len(other) or len(moved) != 2 or moved[0] != moved[1][::-1]:
        return ""
    return f"{moved[0][1]} and {moved[0][0]} are exchanged in {where}"


def _not_passed(a: ast.expr, b: ast.expr) -> str:
    """Return which argument of a call is not passed to its function, if that is all."""
    if not isinstance(a, ast.Call) or not isinstance(b, ast.Call):
        return ""
    rest = {ast.unparse(keyword) for keyword in a.keywords}
    more = [keyword for keyword in b.keywords if ast.unparse(keyword) not in rest]
    same = ast.unparse(ast.Call(a.func, a.args, b.keywords)) == ast.unparse(b)
    if not same or len(more) != 1 or len(rest) == len(b.keywords):
        return ""
    return f"{more[0].arg} is not passed to {ast.unparse(b.func)}"


def formula_of(call: ReferenceCall) -> Any:
    """
    Return the first formula that has these inputs, the plain one or a variant.

    A map that draws random numbers has the one of dlref.formulas, and a generator of its own.
    """
    for formula in every_formula(call.explanation, call.form) or formulas_that_draw(call):
        with contextlib.suppress(*REFUSALS):
            formula(*separate(call.arguments), **call.non_default_options)
            return formula
    return None


@contextlib.contextmanager
def profiled(note: Callable[[Any, str, Any], None]) -> Iterator[None]:
    """Let Python tell a function of calls and returns, unless another profiler is at work."""
    if sys.getprofile() is not None:
        yield
        return
    sys.setprofile(note)
    try:
        yield
    finally:
        sys.setprofile(None)


def _refuse_growth(call: ReferenceCall) -> Callable[[Any, str, Any], None]:
    """
    Return a profiler that ends a program whose arrays grow without bounds.

    If a change makes each step of a loop add an axis, a few dozen steps take all memory.
    """
    limit = MAX_SIZE + MAX_GROWTH * sum(np.size(a) for a in tree_leaves(call.arguments))

    def note(frame: Any, event: str, value: Any) -> None:  # pragma: no cover  # which is not traced
        if event == "call":
            values = frame.f_locals.values()
        elif event == "return":
            values = (value,)
        else:  # functions of C, which are many
            return
        if any(isinstance(a, np.ndarray) and a.size > limit for a in values):
            raise MemoryError

    return note


def outputs_of(formula: Any, call: ReferenceCall) -> list[Any] | None:
    """
    Return the outputs of a formula, changed or not; None if it makes no sense.

    It receives copies, because a change may write to its arguments.
    """
    check_time()
    with contextlib.suppress(Exception):
        arguments, options = copy.deepcopy((call.arguments, call.non_default_options))
        with profiled(_refuse_growth(call)):
            results = tree_leaves(formula(*arguments, **options))
        arrays = [None if part is None else np.asarray(part) for part in results]
        if all(a is None or a.dtype.kind in "biuf" for a in arrays):
            return arrays
    return None
