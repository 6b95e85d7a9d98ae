"""Mutations of the plain formula of a map: one operation, factor or function is another."""

from __future__ import annotations

import ast
import contextlib
import functools
import inspect
import sys
from types import CellType, CodeType, FunctionType
from typing import TYPE_CHECKING, Any

import numpy as np

from ...._core.pytree import tree_leaves
from ..calls import ReferenceCall
from .common import Trials

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

#: Where the formulas are; numbers of a call that they are tried on, at most.
PLAIN, MAX_NUMBERS = "dlref.check._oracle.plain.", 2**15
OTHER: dict[type[ast.operator], Any] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult,
}  # fmt: skip
#: Functions that change no number in float64, and those that are no mathematics.
DTYPES = {"widen", "astype", "kind", "type", "asarray"}
MACHINERY = {"widen", "product", "summed", "as_rows"}
#: Names that a reader knows for helpers of the formulas; all other functions keep their own names,
#: without the underscore.
CALLED = {"summed": "sum", "product": "matmul", "as_rows": "rows"}
CALLED |= {"_gate": "sigmoid"}
#: Names that are no part of the mathematics: the error of a library's function, and how options
#: and dtypes are given.
HIDDEN = {"OFF", "finfo", "options", "MASKS", "widen", "zlib"}


def _is_plain(f: Any) -> bool:
    return isinstance(f, FunctionType) and f.__module__.startswith(PLAIN)


def _names(code: CodeType) -> Iterator[str]:
    """Yield the names that a code and those within it look up."""
    yield from code.co_names
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _names(inner)


def parts(formula: Any) -> list[FunctionType]:
    """Return the plain functions that a formula consists of."""
    functions: dict[FunctionType, None] = {}

    def visit(f: Any) -> None:
        if isinstance(f, functools.partial):
            for inner in (f.func, *f.args, *f.keywords.values()):
                visit(inner)
        if not _is_plain(f) or f in functions:
            return
        functions[f] = None
        inside = [f.__globals__.get(name) for name in _names(f.__code__)]
        inside += [cell.cell_contents for cell in f.__closure__ or ()]
        for inner in (*inside, *(f.__defaults__ or ())):
            visit(inner)

    visit(formula)
    return [*functions]


def with_code(formula: Any, old: CodeType, new: CodeType) -> Any:
    """Return a copy of a formula, in which one of its functions has another code."""
    made: dict[Any, Any] = {}

    def again(f: Any) -> Any:
        if isinstance(f, functools.partial):
            kwargs = {key: again(value) for key, value in f.keywords.items()}
            return functools.partial(again(f.func), *map(again, f.args), **kwargs)
        if not _is_plain(f):
            return f
        if f not in made:
            cells = tuple(CellType() for _ in f.__closure__ or ())
            code, scope = new if f.__code__ is old else f.__code__, dict(f.__globals__)
            made[f] = FunctionType(code, scope, f.__name__, closure=cells or None)
            made[f].__defaults__ = tuple(map(again, f.__defaults__ or ())) or None
            made[f].__kwdefaults__ = f.__kwdefaults__
            scope |= {name: again(scope[name]) for name in _names(f.__code__) if name in scope}
            for cell, was in zip(cells, f.__closure__ or (), strict=True):
                cell.cell_contents = again(was.cell_contents)
        return made[f]

    return again(formula)


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
    name = ast.unparse(call.func).rpartition(".")[2]
    if name in ("maximum", "minimum"):
        yield from call.args[:2]
    elif not _is_option(call.args[0]):
        yield from call.args[: name not in DTYPES]
    elif isinstance(call.func, ast.Attribute):  # a method: x.max(axis)
        yield call.func.value


def _is_option(node: ast.expr) -> bool:
    """Return whether an argument is an axis or a number, which nobody writes for a result."""
    return isinstance(node, ast.Constant) or ast.unparse(node) in ("-1", "axis")


def _places(node: Any) -> Iterator[tuple[ast.AST, str, Any, ast.expr]]:
    """Yield every expression in the body of a function: its parent, field, list and itself."""
    body = node.body if isinstance(node.body, list) else [node.body]
    for parent in (inner for statement in body for inner in ast.walk(statement)):
        for name, value in ast.iter_fields(parent):
            entries = value if isinstance(value, list) else [value]
            for i, entry in enumerate(entries):
                if isinstance(entry, ast.expr):
                    yield parent, name, (value, i) if isinstance(value, list) else None, entry
    if isinstance(node, ast.Lambda):
        yield node, "body", None, node.body


def _put(place: Any, entry: ast.expr) -> None:
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


def _source_of(f: FunctionType) -> tuple[ast.Module, ast.FunctionDef | ast.Lambda]:
    """Return the statement of a module that a function is in, and the function in that."""
    tree = ast.parse(inspect.getsource(sys.modules[f.__module__]))
    first, kinds = f.__code__.co_firstlineno, ast.FunctionDef | ast.Lambda
    every = ((top, node) for top in tree.body for node in ast.walk(top))
    statement, node = next(
        (top, node) for top, node in every if isinstance(node, kinds) and node.lineno == first
    )
    return ast.Module([statement], []), node


def mutants(
    formula: Any, change: Callable[[ast.AST], Iterator[ast.expr]] = changes
) -> Iterator[tuple[str, str, Any]]:
    """Yield the changed expression, the right one and the formula, for each change."""
    for f in (f for f in parts(formula) if f.__name__ not in MACHINERY):
        tree, node = _source_of(f)
        for place in [*_places(node)]:
            due = ast.unparse(place[-1])
            for entry in change(place[-1]):
                _put(place, ast.copy_location(ast.fix_missing_locations(entry), place[-1]))
                whole = compile(tree, f.__code__.co_filename, "exec")
                _put(place, place[-1])
                if (code := _code_of(f, whole)) is not None:
                    yield ast.unparse(entry), due, with_code(formula, f.__code__, code)


class _Read(ast.NodeTransformer):
    """Drops dtypes, shapes and error factors, and gives functions their usual names."""

    def visit_Name(self, node: ast.Name) -> Any:
        return ast.Name(CALLED.get(node.id, node.id.lstrip("_")))

    def visit_Attribute(self, node: ast.Attribute) -> Any:
        value = self.visit(node.value)
        in_numpy = isinstance(value, ast.Name) and value.id == "np"
        return ast.Name(node.attr) if in_numpy else ast.Attribute(value, node.attr)

    def visit_Call(self, node: ast.Call) -> Any:
        name = ast.unparse(node.func).rpartition(".")[2]
        if name == "astype" and isinstance(node.func, ast.Attribute):
            return self.visit(node.func.value)
        if name in DTYPES:
            return self.visit(node.args[0])
        if ast.unparse(node.func) == "options.get" and isinstance(node.args[0], ast.Constant):
            return ast.Name(str(node.args[0].value))
        # None is the keyword of **options
        node.keywords = [k for k in node.keywords if k.arg not in ("keepdims", None)]
        node.args = [a for a in node.args if ast.unparse(a) not in ("options", "dtype")]
        return self.generic_visit(node)

    def visit_Subscript(self, node: ast.Subscript) -> Any:
        if isinstance(node.slice, ast.Constant) and ast.unparse(node.value) == "options":
            return ast.Name(str(node.slice.value))
        return self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> Any:
        if isinstance(node.op, ast.Mult) and "OFF" in ast.unparse(node.right):
            return self.visit(node.left)
        return self.generic_visit(node)


def as_read(text: str) -> str:
    """Return an expression as a reader would write it; empty if it is no mathematics."""
    tree = _Read().visit(ast.parse(text, mode="eval"))
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    return "" if names & HIDDEN else ast.unparse(tree)


@functools.cache
def _mutants(formula: Any) -> list[tuple[str, str, Any]]:
    """Return the mutants that differ in their mathematics, as a reader would write them."""
    with contextlib.suppress(OSError):  # the package has no source
        read = ((*map(as_read, mutant[:2]), mutant[2]) for mutant in mutants(formula))
        return [mutant for mutant in read if all(mutant[:2]) and mutant[0] != mutant[1]]
    return []


def _formula(call: ReferenceCall) -> Any:
    """Return the first formula that has these inputs, the plain one or a variant."""
    plain = call.explanation.plain.get(call.form)
    for formula in (*((plain,) if plain else ()), *call.explanation.variants.get(call.form, ())):
        with contextlib.suppress(NotImplementedError):
            formula(*call.arguments, **call.non_default_options)
            return formula
    return None


def mutations(call: ReferenceCall) -> Trials:
    """Yield the plain formula, with an empty message, then each of its mutants."""
    size = sum(np.size(a) for a in tree_leaves(call.arguments))
    formula = None if size > MAX_NUMBERS or call.numeric else _formula(call)
    if formula is None:
        return
    every = [("", formula)]
    every += [(f"{stands} stands where {due} is due", f) for stands, due, f in _mutants(formula)]
    for message, f in every:
        with contextlib.suppress(Exception):  # a change need not make sense
            yield message, tree_leaves(f(*call.arguments, **call.non_default_options))
