"""Other expressions and statements that people write in place of the right ones."""

from __future__ import annotations

import ast
import collections
import copy
import functools
import inspect
import itertools
import re
import sys
from typing import TYPE_CHECKING, Any, TypeGuard

from ..formulas import is_formula
from ..helpers import FORMATS
from .mutations import OTHER, changes, name_of, read

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Iterator

#: Functions of NumPy that are taken for each other.
ALIKE = (
    ("mean", "sum", "max"), ("max", "min"), ("maximum", "minimum"), ("sin", "cos"),
    ("exp", "expm1", "exp2"), ("log", "log1p", "log2", "log10"), ("sqrt", "square"),
    ("floor", "rint", "round", "ceil", "trunc"), ("cumsum", "cumprod"), ("abs", "square"),
    ("var", "std"), ("any", "all"), ("argmax", "argmin"), ("zeros", "ones"), ("prod", "sum"),
    ("zeros_like", "ones_like"), ("tril", "triu"), ("repeat", "tile"),
    ("normal", "uniform"),
)  # fmt: skip
COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Gt: (ast.GtE,), ast.GtE: (ast.Gt, ast.Lt), ast.Lt: (ast.LtE,), ast.LtE: (ast.Lt, ast.Gt),
    ast.Eq: (ast.NotEq,), ast.NotEq: (ast.Eq,),
}  # fmt: skip
OPERATIONS: dict[type[ast.operator], tuple[type[ast.operator], ...]] = {
    ast.Mult: (ast.Add, ast.Sub), ast.Div: (ast.Add, ast.Sub),
    ast.Add: (ast.Mult, ast.Div), ast.Sub: (ast.Mult, ast.Div), ast.Pow: (ast.Mult,),
}  # fmt: skip
#: Functions of one number, which may be applied twice.
OF_NUMBERS = {"sqrt", "exp", "log", "tanh", "sigmoid", "softmax", "abs", "square"}
#: Functions that exchange axes, for which a reshape is taken.
EXCHANGES = {"swapaxes", "moveaxis", "transpose"}
#: What people apply to a number where nothing is due.
APPLIED = (
    *("softmax({})", "_sqrt({})", "np.square({})", "1 / ({})", "np.exp({})", "_log({})"),
    *("np.abs({})", "np.tanh({})", "sigmoid({})", "relu({})", "silu({})", "gelu({})"),
    *("-({})", "1 - ({})", "({}) / 2", "2 * ({})", "({}) + 1", "({}) - 1"),
)
#: Sums, and the sizes of blocks that kernels add up.
SUMS, BLOCKS_OF_SUMS = ("sum", "mean"), (1, 2, 4, 8, 16, 32, 64, 128, 256)
#: Losses of a margin z that stand for the logistic one, as functions of -z.
OF_MARGINS = ("np.maximum(0, 1 + ({}))", "np.maximum(0, {})", "(1 + ({})) ** 2", "np.exp({})")
#: Expressions that people write for a function: another loss, its series, another gate.
IN_PLACE = {
    "softplus": OF_MARGINS, "exp": ("1 + ({})",),
    "tanh": ("sigmoid({})", "2 * sigmoid({}) - 1"), "sigmoid": ("np.tanh({})",),
    "expm1": ("np.exp({} - 1)",), "log1p": ("np.log({}) + 1",),
}  # fmt: skip
#: Axes that are taken for each other; None is all of them.
ALL_BUT_FIRST = "tuple(range(1, np.ndim({})))"
AXES = ("-1", "-2", "0", "(-2, -1)", "None", ALL_BUT_FIRST)
#: And in place of the option.
OF_AXIS = ("-1", "-2", "axis - 1", "(axis - 1, axis)", "None", ALL_BUT_FIRST)
#: Which steps of a loop are taken.
STEPS = {
    "leaves its first step out": "1:",
    "leaves its last step out": ":-1",
    "goes the other way": "::-1",
}
#: Parameters of functions that are no part of the mathematics.
SILENT = {"axis", "keepdims", "dtype", "strict"}


def expression(text: str) -> ast.expr:
    """Return the syntax tree of an expression."""
    return ast.parse(text, mode="eval").body


def _constants(value: Any) -> Iterator[Any]:
    """Yield numbers that are written in place of one."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return
    if isinstance(value, int):
        yield from (value + 1, value - 1)
        return
    short = (round(value, n) for n in (4, 3, 2))
    others = [2 * value, value / 2, -value, 1 - value, 1.0, *short, 0.0]
    yield from (other for other in dict.fromkeys(others) if other != value)


def _indices(index: ast.expr) -> Iterator[ast.expr]:
    """Yield indices that are off by one, also where one stands among others."""
    if isinstance(index, ast.Tuple):
        for i, part in enumerate(index.elts):
            for other in _indices(part):
                yield ast.Tuple([*index.elts[:i], other, *index.elts[i + 1 :]], ast.Load())
    elif isinstance(index, ast.Name | ast.BinOp):
        yield from (ast.BinOp(index, op, ast.Constant(1)) for op in (ast.Sub(), ast.Add()))
    elif (place := _number_of(index)) is not None:
        others = dict.fromkeys((-1 if place == 0 else 0, place + 1, place - 1))
        yield from (expression(str(other)) for other in others if other != place)
    elif isinstance(index, ast.Slice) and index.step is None:
        lower, upper = index.lower, index.upper
        if upper is None and lower is not None:
            yield ast.Slice(None, ast.UnaryOp(ast.USub(), lower), None)
        if lower is None and isinstance(upper, ast.UnaryOp):
            yield ast.Slice(upper.operand, None, None)


def _number_of(index: ast.expr) -> int | None:
    """Return the integer that an index is, as 0 or -1; None of others."""
    text = ast.unparse(index)
    return int(text) if re.fullmatch(r"-?\d+", text) else None


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
    others: list[ast.expr] = []
    if isinstance(func, ast.Attribute):
        families = [family for family in ALIKE if func.attr in family]
        names = [name for family in families for name in family if name != func.attr]
        others = [ast.Attribute(func.value, name, ast.Load()) for name in names]
    elif isinstance(func, ast.Name) and is_formula(scope.get(func.id)):
        others = [ast.Name(name, ast.Load()) for name in _with_same_parameters(scope[func.id])]
    yield from (ast.Call(other, call.args, call.keywords) for other in others)


def larger_terms(node: ast.AST) -> Iterator[ast.expr]:
    """Yield the larger of two terms in place of their sum."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        yield ast.Call(expression("np.maximum"), [node.left, node.right], [])


def _other_spread(node: ast.Call) -> Iterator[ast.expr]:
    """Yield spreads about the mean or 0, or by n - 1; and a sum where the larger of two is due."""
    if not isinstance(node.func, ast.Attribute) or not node.args:
        return
    (first, *rest), module = node.args, node.func.value
    if node.func.attr == "mean":
        yield ast.Call(ast.Name("mean_by_less", ast.Load()), node.args, node.keywords)
    if node.func.attr == "maximum":
        yield ast.BinOp(first, ast.Add(), *rest)
    if node.func.attr == "mean" and (base := _squared(first)) is not None:
        variance = ast.Attribute(module, "var", ast.Load())
        yield ast.Call(variance, [base, *rest], node.keywords)
    elif node.func.attr == "var":
        yield ast.Call(node.func, node.args, [*node.keywords, ast.keyword("ddof", ast.Constant(1))])
        square = ast.BinOp(first, ast.Mult(), first)
        yield ast.Call(ast.Attribute(module, "mean", ast.Load()), [square, *rest], node.keywords)


def _squared(node: ast.expr) -> ast.expr | None:
    """Return the base of a square, as x * x, x ** 2 or square(x)."""
    if isinstance(node, ast.Call) and name_of(node) == "square":
        return node.args[0]
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
        return node.left if ast.unparse(node.right) == "2" else None
    if _is_product(node) and ast.unparse(node.left) == ast.unparse(node.right):
        return node.left
    return None


@functools.cache
def _with_same_parameters(f: Any) -> tuple[str, ...]:
    """Return the names of the other formulas of a chapter with the parameters of one."""
    wanted = [*inspect.signature(f).parameters]
    return tuple(
        name
        for name, other in vars(sys.modules[f.__module__]).items()
        if is_formula(other) and other is not f and other.__module__ == f.__module__
        and [*inspect.signature(other).parameters] == wanted
    )  # fmt: skip


def usual_changes(node: ast.AST, integers: set[str]) -> Iterator[ast.expr]:
    """Yield usual changes; for a function no integer, and nothing for one that is an index."""
    is_call = isinstance(node, ast.Call)
    if isinstance(node, ast.Call) and name_of(node) in integers:
        return
    for other in changes(node):
        if not (is_call and isinstance(other, ast.Name) and other.id in integers):
            yield other


def further_changes(
    node: ast.AST, shapes: dict[str, Any], scope: dict[str, Any]
) -> Iterator[ast.expr]:
    """Yield other expressions that people write in place of one, of further kinds."""
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in shapes:
        yield from same_shapes(node, shapes)
        if shapes[node.id] == ():
            yield from (ast.Constant(1), ast.Constant(0))
            yield ast.BinOp(ast.Constant(1), ast.Sub(), node)
            yield from _with_sizes(node, shapes)
    elif isinstance(node, ast.Name) and type(scope.get(node.id)) is float:
        others = (n for n, value in scope.items() if type(value) is float and n != node.id)
        yield from (ast.Name(name, ast.Load()) for name in others if not name.startswith("__"))
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
    elif isinstance(node, ast.UnaryOp):
        yield from _of_sign(node)
    elif isinstance(node, ast.Call):
        yield from _of_call(node, scope)


def _of_sign(node: ast.UnaryOp) -> Iterator[ast.expr]:
    """Yield a mask that is not inverted, and 0 in place of the score of a hidden key."""
    if isinstance(node.op, ast.Invert):
        yield node.operand
    elif ast.unparse(node) == "-np.inf":
        yield ast.Constant(0.0)


def _with_sizes(number: ast.Name, shapes: dict[str, Any]) -> Iterator[ast.expr]:
    """Yield a number times or over the size n of an axis, its root or n / (n - 1)."""
    sizes: dict[int, list[str]] = collections.defaultdict(list)
    for a, shape in shapes.items():
        for i, n in enumerate(shape, -len(shape)):
            sizes[n].append(f"{a}.shape[{i}]")
    # the last array that has a size, and the first, an input that is known in all lines
    for text in (text for some in sizes.values() for text in dict.fromkeys((some[-1], some[0]))):
        for size in (text, f"{text} ** 0.5", f"({text} / ({text} - 1))"):
            yield from (ast.BinOp(number, op, expression(size)) for op in (ast.Mult(), ast.Div()))


def _of_operation(node: ast.BinOp) -> Iterator[ast.expr]:
    left, right, op = node.left, node.right, node.op
    yield from _without_parentheses(node)
    yield from _with_parentheses(node)
    if type(op) in OPERATIONS:
        yield from (ast.BinOp(left, other(), right) for other in OPERATIONS[type(op)])
    value = right.value if isinstance(right, ast.Constant) else None
    if isinstance(op, ast.Div) and isinstance(value, int | float) and value not in (0, 1):
        for digits in (4, 3, 2):  # a sixth is written as 0.1667
            yield ast.BinOp(ast.Constant(round(1 / value, digits)), ast.Mult(), left)
    if isinstance(op, ast.Sub | ast.Div | ast.MatMult | ast.Pow):
        yield ast.BinOp(right, op, left)
    if isinstance(op, ast.Add):
        yield ast.BinOp(right, ast.Sub(), left)
    if isinstance(op, ast.Div):
        yield ast.BinOp(left, ast.FloorDiv(), right)
    if isinstance(op, ast.FloorDiv):
        yield from (ast.BinOp(left, ast.Div(), right), left)
    if isinstance(op, ast.BitAnd | ast.BitOr):  # of masks
        other = ast.BitOr() if isinstance(op, ast.BitAnd) else ast.BitAnd()
        yield from (left, right, ast.BinOp(left, other, right))
    if isinstance(op, ast.MatMult):
        yield ast.BinOp(left, op, ast.Attribute(right, "mT", ast.Load()))
        yield ast.BinOp(ast.Attribute(left, "mT", ast.Load()), op, right)
    if isinstance(op, ast.Pow) and isinstance(right, ast.Constant) and isinstance(right.value, int):
        yield from (
            ast.BinOp(left, op, ast.Constant(n)) for n in (right.value - 1, right.value + 1)
        )


def _without_parentheses(node: ast.BinOp) -> Iterator[ast.expr]:
    """Yield sums in which only the first terms are multiplied or divided, or only the last."""
    left, right, op = node.left, node.right, node.op
    if isinstance(op, ast.Mult | ast.Div):
        yield from _split_sums(left, lambda term: ast.BinOp(term, op, right))
        both = _split_sums(right, lambda term: ast.BinOp(left, op, term))
        # A quotient loses the terms after the first ones, never those before.
        yield from itertools.islice(both, 0, None, 2 if isinstance(op, ast.Div) else 1)
    if isinstance(op, ast.Sub) and _is_sum(right):
        yield ast.BinOp(ast.BinOp(left, op, right.left), right.op, right.right)


def _with_parentheses(node: ast.BinOp) -> Iterator[ast.expr]:
    """Yield products and quotients of a sum, where one of its terms is due."""
    left, right, op = node.left, node.right, node.op
    if _is_sum(node):
        if isinstance(left, ast.BinOp) and isinstance(left.op, ast.Mult | ast.Div):
            yield ast.BinOp(left.left, left.op, ast.BinOp(left.right, op, right))
        if isinstance(right, ast.BinOp) and isinstance(right.op, ast.Mult | ast.Div):
            yield ast.BinOp(ast.BinOp(left, op, right.left), right.op, right.right)


def _split_sums(node: ast.expr, f: Callable[[ast.expr], ast.expr]) -> Iterator[ast.expr]:
    """Yield a sum with a factor for the terms before one of its signs, and for those after it."""
    rest: list[tuple[ast.operator, ast.expr]] = []
    while _is_sum(node):
        rest.insert(0, (node.op, node.right))
        node = node.left
        yield _sum_of(f(node), rest)
        yield _sum_of(node, [(sign, f(term)) for sign, term in rest])


def _sum_of(first: ast.expr, rest: list[tuple[ast.operator, ast.expr]]) -> ast.expr:
    """Return a sum of terms, each with the sign before it."""
    for sign, term in rest:
        first = ast.BinOp(first, sign, term)
    return first


def _is_sum(node: ast.expr) -> TypeGuard[ast.BinOp]:
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub)


def _of_call(node: ast.Call, scope: dict[str, Any]) -> Iterator[ast.expr]:
    name = name_of(node)
    for i, keyword in enumerate(node.keywords):
        rest = [*node.keywords[:i], *node.keywords[i + 1 :]]
        if keyword.arg == "axis":
            array = ast.unparse(node.args[0]) if node.args else "x"
            for axis in AXES if not isinstance(keyword.value, ast.Name) else OF_AXIS:
                other = ast.keyword("axis", expression(axis.format(array)))
                if ast.unparse(keyword.value) != axis:
                    yield ast.Call(node.func, node.args, [*rest, other])
        elif keyword.arg is not None and keyword.arg not in SILENT:
            yield ast.Call(node.func, node.args, rest)  # the option is not handed on
    if name in EXCHANGES and node.args:
        array = ast.unparse(node.args[0])
        yield expression(f"np.reshape({array}, np.shape({ast.unparse(node)}))")
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
    if len(node.args) == 1:
        others = IN_PLACE.get(name, ())
        yield from (expression(text.format(ast.unparse(node.args[0]))) for text in others)
    if len(node.args) == 1 and name in OF_NUMBERS:
        yield ast.Call(node.func, [node], [])
    yield from _jumps(node)
    yield from _other_spread(node)
    yield from _of_family(node, scope)


def _jumps(node: ast.Call) -> Iterator[ast.expr]:
    """Yield a jump at either end of a ramp from one number to another."""
    if name_of(node) == "clip" and len(node.args) == 3:
        x, low, high = map(ast.unparse, node.args)
        for condition in (f"({x}) > {low}", f"({x}) >= {high}"):
            yield expression(f"np.where({condition}, {high}, {low})")


def rounded(node: ast.AST) -> Iterator[ast.expr]:
    """Yield an intermediate that is rounded to a short format."""
    if isinstance(node, ast.BinOp | ast.Call):
        yield from (ast.Call(ast.Name(name, ast.Load()), [node], []) for name in FORMATS)


def applied(node: ast.AST, shapes: dict[str, Any]) -> Iterator[ast.expr]:
    """Yield usual functions of an intermediate, a number added once more, and one less another."""
    if _is_intermediate(node, shapes):
        if isinstance(node, ast.Name):
            alike = (n for n, shape in shapes.items() if n != node.id and shape == shapes[node.id])
            yield from (expression(f"1 - {name}") for name in alike)
        numbers = [name for name, shape in shapes.items() if shape == ()]
        is_number = isinstance(node, ast.Name) and node.id in numbers
        usual = APPLIED[is_number:]  # the softmax of a number is 1, which stands for it elsewhere
        for text in (*usual, *(f"({{}}) + {name}" for name in numbers)):
            yield expression(text.format(ast.unparse(node)))


def applied_again(
    node: ast.AST, calls: list[ast.Call], shapes: dict[str, Any]
) -> Iterator[ast.expr]:
    """Yield calls of the function with a variable in place of another one of its shape."""
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and shapes.get(node.id):
        for call in calls:
            if shapes.get(ast.unparse(call.args[0])) == shapes[node.id]:
                yield _wrapping(call, ast.Name(node.id, ast.Load()))


def calls_of_formulas(function: ast.FunctionDef, scope: dict[str, Any]) -> list[ast.Call]:
    """Return copies of the calls of other formulas in a function."""
    return [
        copy.deepcopy(node)
        for node in ast.walk(function)
        if isinstance(node, ast.Call)
        and node.args
        and isinstance(node.func, ast.Name)
        and is_formula(scope.get(node.func.id))
    ]


def statistics(node: ast.AST, shapes: dict[str, Any]) -> Iterator[ast.expr]:
    """Yield a mean, a sum or the maximum of an intermediate, of all of it or along its rows."""
    if _is_intermediate(node, shapes):
        for name, axis in itertools.product(("mean", "sum", "max"), ("", ", -1, keepdims=True")):
            yield expression(f"np.{name}({ast.unparse(node)}{axis})")


def variables_for(node: ast.AST, shapes: dict[str, Any]) -> Iterator[ast.expr]:
    """Yield a variable of the function in place of an expression."""
    if isinstance(node, ast.BinOp | ast.Call):
        yield from (ast.Name(name, ast.Load()) for name in shapes)


def without_integers(node: ast.AST, integers: set[str]) -> Iterator[ast.expr]:
    """Yield 0, 1 and 2 in place of an integer, such as a padding, a stride or an exponent."""
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in integers:
        yield from map(ast.Constant, (0, 1, 2))


def shifted_ranges(node: ast.AST) -> Iterator[ast.expr]:
    """Yield a range that begins one step earlier or later."""
    if isinstance(node, ast.Call) and name_of(node) == "arange":
        step = node.args[2] if len(node.args) > 2 else ast.Constant(1)
        yield from (ast.BinOp(node, op, step) for op in (ast.Sub(), ast.Add()))


def counted(node: ast.AST, shapes: dict[str, Any]) -> Iterator[ast.expr]:
    """Yield a vector that is added for each tap of a kernel, or divided among them."""
    if not isinstance(node, ast.Name) or not isinstance(node.ctx, ast.Load):
        return
    is_vector = len(shapes.get(node.id, ())) == 1
    for name in (name for name, shape in shapes.items() if is_vector and len(shape) > 2):
        taps = expression(f"{name}[0].size")
        yield from (ast.BinOp(node, op, taps) for op in (ast.Mult(), ast.Div()))


def of_operator(node: ast.AST, operator: type[ast.operator]) -> Iterator[ast.expr]:
    """Yield an operation with the inverse operator, if it has a certain one."""
    if isinstance(node, ast.BinOp) and type(node.op) is operator:
        yield ast.BinOp(node.left, OTHER[operator](), node.right)


def same_shapes(node: ast.AST, shapes: dict[str, Any]) -> Iterator[ast.expr]:
    """Yield the other variables of the shape of one."""
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in shapes:
        same = (n for n, shape in shapes.items() if shape == shapes[node.id] and n != node.id)
        yield from (ast.Name(name, ast.Load()) for name in same)


def others_in_sums(node: ast.AST, shapes: dict[str, Any]) -> Iterator[ast.expr]:
    """Yield sums and means of another variable, whose last axis has another size."""
    if isinstance(node, ast.Call) and _axis_of_sum(node) == "-1" and not _is_method(node):
        own = shapes.get(ast.unparse(node.args[0]), ())
        for name, shape in shapes.items():
            if own and shape and own[:-1] == shape[:-1] and own != shape:
                yield _wrapping(node, ast.Name(name, ast.Load()))


def counters_in(function: ast.FunctionDef) -> set[str]:
    """Return the variables of the comprehensions of a function."""
    every = (n.target for n in ast.walk(function) if isinstance(n, ast.comprehension))
    return {name for target in every for name in _names(target, ast.Store)}


def sums_of_triangles(node: ast.AST) -> Iterator[ast.expr]:
    """Yield sums and products without the diagonal of a square, or of a triangle of it."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
        yield from (ast.BinOp(a, node.op, node.right) for a in _triangles(node.left))
    elif isinstance(node, ast.Call) and _axis_of_sum(node) is not None and not _is_method(node):
        yield from (_wrapping(node, a) for a in _triangles(node.args[0]))


def _triangles(array: ast.expr) -> Iterator[ast.expr]:
    text = ast.unparse(array)
    for how in ("off_diagonal({})", "np.tril({})", "np.triu({})", "np.tril({}, -1)"):
        yield expression(how.format(text))


def both_branches(node: ast.AST) -> Iterator[ast.expr]:
    """Yield the product or the sum of two values where a condition chooses one."""
    if isinstance(node, ast.IfExp):
        yield from (ast.BinOp(node.body, op, node.orelse) for op in (ast.Mult(), ast.Add()))


def returned_factors(block: list[ast.stmt]) -> Iterator[tuple[str, list[ast.stmt]]]:
    """Yield functions in which a branch's result is a factor or a term of the other results."""
    for i, first in enumerate(block):
        if isinstance(first, ast.If) and len(first.body) == 1 and not first.orelse:
            own = first.body[0]
            if isinstance(own, ast.Return) and own.value is not None:
                for op, role in ((ast.Mult(), "a factor of"), (ast.Add(), "added to")):
                    rest = _Returning(first.test, op, own.value).changed(block[i + 1 :])
                    text = ast.unparse(read(copy.deepcopy(own.value)))
                    message = f"{text} is {role} what is due without it"
                    yield message, [*block[:i], *rest]


class _Returning(ast.NodeTransformer):
    """Returns another value times a factor, or plus a term, where a condition holds."""

    def __init__(self, test: ast.expr, op: ast.operator, value: ast.expr) -> None:
        self.test, self.op, self.value = test, op, value

    def changed(self, block: list[ast.stmt]) -> list[ast.stmt]:
        return [self.visit(copy.deepcopy(statement)) for statement in block]

    def visit_Return(self, node: ast.Return) -> ast.Return:
        if node.value is None:
            return node
        both = ast.BinOp(node.value, self.op, self.value)
        return ast.Return(ast.IfExp(self.test, both, node.value))


def both_returned(block: list[ast.stmt]) -> Iterator[tuple[str, list[ast.stmt]]]:
    """Yield functions that return the product or the sum of what two branches return."""
    for i, (first, second) in enumerate(itertools.pairwise(block)):
        if not isinstance(first, ast.If) or len(first.body) != 1:
            continue
        both = [s for s in (first.body[0], second) if isinstance(s, ast.Return)]
        values = [s.value for s in both if s.value is not None]
        if len(values) == 2:
            for op in (ast.Mult(), ast.Add()):
                other = ast.Return(ast.BinOp(values[0], op, values[1]))
                stands, due = as_sentence(other), " or ".join(map(as_sentence, (first, second)))
                yield f"{stands} stands where {due} is due", [*block[:i], other]


def multiplied(node: ast.AST, shapes: dict[str, Any]) -> Iterator[ast.expr]:
    """Yield an intermediate with one more factor, a number that the function has."""
    if _is_intermediate(node, shapes):
        numbers = [name for name, shape in shapes.items() if shape == ()]
        for op, name in itertools.product("*/", numbers):
            yield expression(f"({ast.unparse(node)}) {op} {name}")


def _is_intermediate(node: ast.AST, shapes: dict[str, Any]) -> bool:
    if isinstance(node, ast.Name):
        return isinstance(node.ctx, ast.Load) and node.id in shapes
    return isinstance(node, ast.BinOp | ast.Call)


def earlier_values(node: ast.AST, definitions: dict[str, ast.expr]) -> Iterator[ast.expr]:
    """Yield a variable before the last operations in its definition: the parts of that."""
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in definitions:
        value = definitions[node.id]
        for part in [*ast.walk(value)][1:]:
            if isinstance(part, ast.BinOp | ast.Call) or (
                isinstance(part, ast.Name) and part.id != "np"
            ):
                yield part


def earlier_sides(node: ast.AST, definitions: dict[str, ast.expr]) -> Iterator[ast.expr]:
    """Yield a comparison of two variables before an operation that both have last."""
    if not isinstance(node, ast.Compare):
        return
    sides = [_operation(side, definitions) for side in (node.left, *node.comparators)]
    if len(sides) != 2 or any(side is None for side in sides):
        return
    a, b = (side for side in sides if side is not None)
    if type(a.op) is type(b.op) and ast.unparse(a.right) == ast.unparse(b.right):
        yield ast.Compare(a.left, node.ops, [b.left])


def _operation(node: ast.expr, definitions: dict[str, ast.expr]) -> ast.BinOp | None:
    """Return the last operation that leads to a variable, or to its real part."""
    if isinstance(node, ast.Attribute) and node.attr == "real":
        node = node.value
    value = definitions.get(node.id) if isinstance(node, ast.Name) else None
    return value if isinstance(value, ast.BinOp) else None


def with_terms(
    node: ast.AST,
    terms: list[ast.expr],
    operations: tuple[type[ast.operator], ...],
    variables: Container[str] = (),
) -> Iterator[ast.expr]:
    """
    Yield a sum with another expression of its statement as a term.

    Any operation, and some variables, have it as a factor as well.
    """
    if isinstance(node, ast.Name):
        is_changed = isinstance(node.ctx, ast.Load) and node.id in variables
    elif isinstance(node, ast.BinOp):
        is_changed = ast.Mult in operations or _is_sum(node)
    else:
        return
    if is_changed:
        own = ast.unparse(node)
        for op, term in itertools.product(operations, terms):
            if ast.unparse(term) != own:
                yield ast.BinOp(node, op(), term)


def terms_of(statement: ast.stmt) -> list[ast.expr]:
    """Return the operations and the variables that a statement reads, each once."""
    every = (
        node
        for node in ast.walk(statement)
        if isinstance(node, ast.BinOp)
        or (isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id != "np")
    )
    # Copies, because a term may contain the place at which it is put.
    return copy.deepcopy([*{ast.unparse(node): node for node in every}.values()])


def factors_of(function: ast.FunctionDef, names: Iterable[str]) -> list[ast.expr]:
    """Return the factors in the products of a function that read one of some variables."""
    every = (
        factor
        for node in ast.walk(function)
        if _is_product(node)
        for factor in (node.left, node.right)
        if {*names} & _loaded(factor)
    )
    return copy.deepcopy([*{ast.unparse(factor): factor for factor in every}.values()])


def definitions_in(function: ast.FunctionDef) -> dict[str, ast.expr]:
    """Return copies of the values of the variables that a function assigns once, and alone."""
    every = [
        (statement.targets[0].id, statement.value)
        for statement in ast.walk(function)
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name)
    ]
    counts = collections.Counter(name for name, _ in every)
    return {name: copy.deepcopy(value) for name, value in every if counts[name] == 1}


def other_sizes(node: ast.AST) -> Iterator[ast.expr]:
    """Yield sizes of an axis that are off by one, or that include padding."""
    if is_size(node):
        text = ast.unparse(node)
        yield from map(expression, (f"{text} - 1", f"{text} + 1"))
        yield from (expression(f"padded({text}, {n})") for n in (0, *BLOCKS_OF_SUMS[1:]))


def is_size(node: ast.AST) -> bool:
    """Return whether an expression is the size of an array, or of an axis of one."""
    if not isinstance(node, ast.Subscript | ast.Attribute | ast.Call):
        return False
    text = ast.unparse(node)
    return re.search(r"\.shape\[[^]]+\]$|\.size$|^len\([^()]+\)$", text) is not None


def _axis_of_sum(node: ast.AST) -> str | None:
    """Return the axis of a sum or a mean as it is written, "None" without one; None of others."""
    if not isinstance(node, ast.Call) or name_of(node) not in SUMS:
        return None
    given = {keyword.arg: ast.unparse(keyword.value) for keyword in node.keywords}
    rest = node.args if _is_method(node) else node.args[1:]
    return given.get("axis") or (ast.unparse(rest[0]) if rest else "None")


def _is_method(call: ast.Call) -> bool:
    """Return whether a function is called of an array, as x.sum(), and not of a module."""
    return isinstance(call.func, ast.Attribute) and ast.unparse(call.func.value) != "np"


def sums_of_a_block(node: ast.AST) -> Iterator[ast.expr]:
    """Yield sums of the first or last block alone: a running sum was overwritten or not begun."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
        yield from (ast.BinOp(a, node.op, node.right) for a in _of_a_block(node.left, "-1"))
    if not isinstance(node, ast.Call) or (axis := _axis_of_sum(node)) is None:
        return
    if isinstance(node.func, ast.Attribute) and _is_method(node):
        for a in _of_a_block(node.func.value, axis):
            func = ast.Attribute(a, node.func.attr, ast.Load())
            yield ast.Call(func, node.args, node.keywords)
    elif (array := _inside(node)) is not None:
        yield from (_wrapping(node, a) for a in _of_a_block(array, axis))


def _of_a_block(array: ast.expr, axis: str) -> Iterator[ast.expr]:
    """Yield an array with all but some blocks set to 0, or all but one sample of several axes."""
    for which, block in itertools.product(
        ("last_block", "first_block", "whole_blocks"), BLOCKS_OF_SUMS
    ):
        yield expression(f"{which}({ast.unparse(array)}, {block}, {axis})")
    if axis not in ("-1", "0", "axis"):
        for which in ("last_block", "first_block"):
            yield expression(f"{which}({ast.unparse(array)}, 1, 0)")


def joined_rows(node: ast.AST) -> Iterator[ast.expr]:
    """Yield sums along the last axis that are over a block of rows."""
    if _axis_of_sum(node) in ("-1", "axis"):
        for how, block in itertools.product(SUMS, BLOCKS_OF_SUMS[1:]):
            yield expression(f"{how}_of_rows({ast.unparse(node)}, {block})")


def sums_of_padding(node: ast.AST, shapes: dict[str, Any]) -> Iterator[ast.expr]:
    """Yield sums and means of an expression over zeros beyond the end of a row, too."""
    if not isinstance(node, ast.Call) or _axis_of_sum(node) is None or _inside(node) is None:
        return
    size = max((shape[-1] for shape in shapes.values() if shape), default=1)
    rows = {name for name, shape in shapes.items() if shape and shape[-1] == size > 1}
    used = {n.id for n in ast.walk(node.args[0]) if isinstance(n, ast.Name)} & rows
    for block in (0, *BLOCKS_OF_SUMS[3:]) if used else ():
        other = _WithZeros(used, block).visit(copy.deepcopy(node))
        yield other
        if name_of(node) == "mean":
            n = f"{min(used)}.shape[-1]"
            yield expression(f"{ast.unparse(other)} * padded({n}, {block}) / {n}")


class _WithZeros(ast.NodeTransformer):
    """Writes some names with padding."""

    def __init__(self, names: set[str], block: int) -> None:
        self.names, self.block = names, block

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return expression(f"with_zeros({node.id}, {self.block})") if node.id in self.names else node


def regrouped(node: ast.AST) -> Iterator[ast.expr]:
    """Yield functions and powers of more, or of less, than is due, or in the other order."""
    inner = _inside(node)
    if isinstance(inner, ast.BinOp):
        yield ast.BinOp(_wrapping(node, inner.left), inner.op, inner.right)
        yield ast.BinOp(inner.left, inner.op, _wrapping(node, inner.right))
    if isinstance(node, ast.BinOp) and not isinstance(node.op, ast.Pow):
        if (inner := _inside(node.left)) is not None:
            yield _wrapping(node.left, ast.BinOp(inner, node.op, node.right))
        if (inner := _inside(node.right)) is not None:
            yield _wrapping(node.right, ast.BinOp(node.left, node.op, inner))
    elif inner is not None and (innermost := _inside(inner)) is not None:
        yield _wrapping(inner, _wrapping(node, innermost))


def moved_factors(node: ast.AST) -> Iterator[ast.expr]:
    """Yield matrix products whose factor stands outside where inside is due, or inside."""
    if isinstance(node, ast.Call) and name_of(node) == "linear" and _is_product(x := node.args[0]):
        for factor, other in ((x.left, x.right), (x.right, x.left)):
            product: ast.expr = ast.Call(node.func, [other, node.args[1]], [])
            outside, bias = ast.BinOp(factor, x.op, product), node.args[2:]
            yield ast.Call(ast.Name("plus", ast.Load()), [outside, *bias], []) if bias else outside
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
        left, right = node.left, node.right
        if _is_product(left):
            yield ast.BinOp(left.left, left.op, ast.BinOp(left.right, node.op, right))
            yield ast.BinOp(left.right, left.op, ast.BinOp(left.left, node.op, right))
    elif _is_product(node):
        for factor, product in ((node.left, node.right), (node.right, node.left)):
            if isinstance(product, ast.BinOp) and isinstance(product.op, ast.MatMult):
                inside = ast.BinOp(factor, node.op, product.left)
                yield ast.BinOp(inside, product.op, product.right)


def regrouped_lines(node: ast.AST, definitions: dict[str, ast.expr]) -> Iterator[ast.expr]:
    """Yield functions of more than is due, or of less, where two lines make the whole."""
    if isinstance(node, ast.Call) and isinstance(inner := _inside(node), ast.Name):
        if isinstance(value := definitions.get(inner.id), ast.BinOp):
            yield from regrouped(_wrapping(node, value))
    elif isinstance(node, ast.BinOp):
        sides = [
            definitions.get(side.id, side) if isinstance(side, ast.Name) else side
            for side in (node.left, node.right)
        ]
        if sides != [node.left, node.right]:
            yield from regrouped(ast.BinOp(sides[0], node.op, sides[1]))


def interpolations(node: ast.AST) -> Iterator[ast.expr]:
    """Yield the larger or the smaller of a and b * w for a + (b - a) * w, and b + (a - b) * w."""
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Add):
        return
    for start, rest in ((node.left, node.right), (node.right, node.left)):
        for factor in _factors(rest):
            if (
                isinstance(factor, ast.BinOp)
                and isinstance(factor.op, ast.Sub)
                and ast.unparse(factor.right) == ast.unparse(start)
            ):
                end = _with_factor(rest, factor, factor.left)
                for name in ("np.maximum", "np.minimum"):
                    yield ast.Call(expression(name), [start, end], [])
                yield ast.BinOp(factor.left, ast.Sub(), rest)


def _factors(node: ast.expr) -> Iterator[ast.expr]:
    """Yield the factors of a product, which may be divided by others."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult | ast.Div):
        yield from _factors(node.left)
        yield from _factors(node.right) if isinstance(node.op, ast.Mult) else ()
    else:
        yield node


def _with_factor(node: ast.expr, factor: ast.expr, other: ast.expr) -> ast.expr:
    """Return a product with another factor in place of one."""
    if node is factor:
        return other
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult | ast.Div):
        left, right = (_with_factor(side, factor, other) for side in (node.left, node.right))
        return ast.BinOp(left, node.op, right)
    return node


def misread_statistics(node: ast.AST) -> Iterator[ast.expr]:
    """Yield a root that reads a deviation, or its inverse, in place of the variance; an inverse."""
    if isinstance(node, ast.Call) and name_of(node) == "sqrt" and _is_sum(inner := node.args[0]):
        for taken in (node, ast.BinOp(ast.Constant(1), ast.Div(), node)):
            yield ast.Call(node.func, [ast.BinOp(taken, inner.op, inner.right)], [])
        for other in (node, inner.left):
            yield ast.BinOp(ast.Constant(1), ast.Div(), other)


def without_complements(node: ast.AST) -> Iterator[ast.expr]:
    """Yield a product without its factor 1 - a, or with a in place of that."""
    if _is_product(node) and _is_complement(node.left):
        yield from (node.right, ast.BinOp(node.left.right, node.op, node.right))


def _is_complement(node: ast.expr) -> TypeGuard[ast.BinOp]:
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Sub):
        return False
    return ast.unparse(node.left) == "1"


def selected(node: ast.AST, shapes: dict[str, Any], choices: dict[str, Any]) -> Iterator[ast.expr]:
    """Yield an array that is 0 where a mask or indices do not select it, or where they do."""
    if not isinstance(node, ast.Name) or not isinstance(node.ctx, ast.Load):
        return
    if choices.get(node.id, ("", ()))[0] == "b":
        yield ast.UnaryOp(ast.Invert(), node)
    own = shapes.get(node.id, ())
    for name, (kind, shape) in choices.items() if own else ():
        texts: tuple[str, ...] = ()
        if kind == "b" and shape in (own, own[:-1]):
            mask = name if shape == own else f"{name}[..., None]"
            texts = f"{node.id} * {mask}", f"{node.id} * ~{mask}"
        elif kind != "b" and own[:-1] in (shape, shape[:-1]):
            texts = f"at_indices({node.id}, {name})", f"beyond_indices({node.id}, {name})"
        yield from map(expression, texts)


def _is_product(node: ast.AST) -> TypeGuard[ast.BinOp]:
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult)


def _inside(node: ast.AST) -> ast.expr | None:
    """Return the first argument of a call, or the base of a power."""
    if isinstance(node, ast.Call) and node.args and not isinstance(node.args[0], ast.Starred):
        return node.args[0]
    return node.left if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow) else None


def _wrapping(node: Any, inner: ast.expr) -> ast.expr:
    """Return a call or a power with something else inside."""
    if isinstance(node, ast.Call):
        return ast.Call(node.func, [inner, *node.args[1:]], node.keywords)
    return ast.BinOp(inner, node.op, node.right)


def ends(node: ast.AST) -> Iterator[ast.expr]:
    """Yield a comparison in which the two sides may be equal, or no longer."""
    if isinstance(node, ast.Compare) and isinstance(
        node.ops[0], ast.Gt | ast.GtE | ast.Lt | ast.LtE
    ):
        yield ast.Compare(node.left, [COMPARISONS[type(node.ops[0])][0]()], node.comparators)


def lists_of_statements(node: ast.AST) -> Iterator[list[ast.stmt]]:
    """Yield the lists of statements in a function."""
    for inner in ast.walk(node):
        for name in ("body", "orelse"):
            block = getattr(inner, name, None)
            if isinstance(block, list):
                yield block


def _names(statement: ast.AST, context: type[ast.expr_context]) -> set[str]:
    every = (n for n in ast.walk(statement) if isinstance(n, ast.Name))
    return {n.id for n in every if isinstance(n.ctx, context)}


def _stored(statement: ast.AST) -> set[str]:
    """Return the names that a statement assigns, or adds to at some places."""
    targets = (n.target for n in ast.walk(statement) if isinstance(n, ast.AugAssign))
    arrays = (target.value for target in targets if isinstance(target, ast.Subscript))
    return _names(statement, ast.Store) | {a.id for a in arrays if isinstance(a, ast.Name)}


def _loaded(statement: ast.AST) -> set[str]:
    return _names(statement, ast.Load)


def statement_changes(block: list[ast.stmt]) -> Iterator[tuple[str, list[ast.stmt]]]:
    """Yield a description of each change in a list of statements, and the list."""
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
        elif (last := _assigned(first)) is not None:
            yield f"{as_sentence(last)} stands where {text} is due", [*block[:i], last, *rest]
        elif isinstance(first, ast.Assign) and _stored(first) & _loaded(first.value):
            yield f"{text} is left out", [*block[:i], ast.Pass(), *rest]
        is_repeated = isinstance(first, ast.AugAssign) or _stored(first) & _loaded(first)
        if is_repeated and not isinstance(first, ast.Return | ast.If | ast.For):
            yield f"{text} is done twice", [*block[: i + 1], *block[i:]]
        for j, second in enumerate(rest, i + 1):
            if is_repeated and isinstance(second, ast.Assign | ast.AugAssign):
                again = [*block[: j + 1], first, *block[j + 1 :]]
                yield f"{text} is done again after {as_sentence(second)}", again
            if isinstance(first, ast.Return | ast.Expr) or isinstance(second, ast.Return):
                break
            if _stored(first) & (_loaded(second) | _stored(second)):
                moved = [*block[:i], *block[i + 1 : j + 1], first, *block[j + 1 :]]
                yield f"{text} comes after {as_sentence(second)}, not before", moved


def _assigned(statement: ast.stmt) -> ast.Assign | None:
    """Return the assignment to places that people write for an addition: the last one counts."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    if not isinstance(call, ast.Call) or ast.unparse(call.func) != "np.add.at":
        return None
    array, places, values = call.args
    return ast.Assign([ast.Subscript(array, places, ast.Store())], values)


def other_steps(block: list[ast.stmt]) -> Iterator[tuple[str, list[ast.stmt]]]:
    """Yield loops that leave their first or last step out, or go the other way."""
    for i, loop in enumerate(block):
        if isinstance(loop, ast.For):
            for how, index in STEPS.items():
                steps = expression(f"[*({ast.unparse(loop.iter)})][{index}]")
                other = ast.For(loop.target, steps, loop.body, loop.orelse)
                text = f"for {ast.unparse(loop.target)} in {ast.unparse(loop.iter)}"
                yield f"{text} {how}", [*block[:i], other, *block[i + 1 :]]


def forgetful_loops(block: list[ast.stmt]) -> Iterator[tuple[str, list[ast.stmt]]]:
    """Yield loops in which a variable that is carried begins anew in each chunk of steps."""
    for i, loop in enumerate(block):
        if not isinstance(loop, ast.For):
            continue
        carried = _stored(loop) & _loaded(loop) - _names(loop.target, ast.Store)
        last = {
            ast.unparse(n)
            for n in ast.walk(loop)
            if isinstance(n, ast.Subscript) and ast.unparse(n.slice) == "-1"
        }
        for text, size in itertools.product(sorted(carried | last), BLOCKS_OF_SUMS[1:]):
            body = [_Forgotten(text, size).visit(copy.deepcopy(s)) for s in loop.body]
            if text in carried:
                (first,) = ast.parse(f"{text} = (step % {size} > 0 or step == 0) * {text}").body
                body = [first, *loop.body]
            target = ast.Tuple([ast.Name("step", ast.Store()), loop.target], ast.Store())
            steps = ast.Call(ast.Name("enumerate", ast.Load()), [loop.iter], [])
            other = ast.For(target, steps, body, [])
            yield f"{text} is 0 again after each {size} steps", [*block[:i], other, *block[i + 1 :]]


class _Forgotten(ast.NodeTransformer):
    """Reads the last entry of a list as 0 at the start of each chunk of steps."""

    def __init__(self, text: str, size: int) -> None:
        self.text, self.size = text, size

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        if isinstance(node.ctx, ast.Load) and ast.unparse(node) == self.text:
            return expression(f"(step % {self.size} > 0 or step == 0) * {self.text}")
        self.generic_visit(node)
        return node


def as_sentence(statement: ast.stmt) -> str:
    """Return a statement as a reader would write it; of several, the first."""
    while isinstance(statement, ast.If | ast.For):
        statement = statement.body[0]
    return ast.unparse(ast.fix_missing_locations(read(copy.deepcopy(statement))))
