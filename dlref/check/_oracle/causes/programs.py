"""Changed programs: the formula of a map with one change."""

from __future__ import annotations

import ast
import collections
import contextlib
import copy
import functools
import itertools
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...._core.pytree import is_float
from ..calls import separate
from ..formulas import REFUSALS, parts, rewritten
from .changes import (
    ALL_BUT_FIRST,
    AXES,
    applied,
    applied_again,
    as_sentence,
    both_branches,
    both_returned,
    calls_of_formulas,
    counted,
    counters_in,
    definitions_in,
    earlier_sides,
    earlier_values,
    ends,
    expression,
    factors_of,
    forgetful_loops,
    further_changes,
    interpolations,
    joined_rows,
    larger_terms,
    lists_of_statements,
    misread_statistics,
    moved_factors,
    multiplied,
    of_operator,
    other_sizes,
    other_steps,
    others_in_sums,
    regrouped,
    regrouped_lines,
    returned_factors,
    rounded,
    same_shapes,
    selected,
    shifted_ranges,
    statement_changes,
    statistics,
    sums_of_a_block,
    sums_of_padding,
    sums_of_triangles,
    terms_of,
    usual_changes,
    variables_for,
    with_terms,
    without_complements,
    without_integers,
)
from .mutations import (
    OTHER,
    as_read,
    changed_code,
    changed_codes,
    changes,
    described,
    outputs_of,
    places,
    profiled,
    put,
    read,
    source_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ..calls import ReferenceCall


#: Changes of one expression that a formula has at most, if two at once are tried.
MAX_CHANGES = 80
#: And at most, if variables change as well.
MAX_VARIED = 24
#: Sizes of blocks in which kernels read an axis.
BLOCKS = (16, 32, 64, 128, 256)
#: Types of values that no function of mathematics returns.
OTHER_VALUES = int, tuple, str
#: Pairs of the variables that a function returns, at most.
MAX_PAIRS = 8
#: Up to so many expressions of a function, any two or more may change; of more, only all at once.
MAX_PLACES = 4


#: Calls of one function, in which it may be another, and their names.
ORDINALS = ("first", "second", "third", "fourth")
MAX_CALLS = len(ORDINALS)


class Program(NamedTuple):
    """A changed program, and a description of the change."""

    message: str
    run: Any  # from a call to its outputs
    is_term: bool = False  # a term or factor is changed: this may be in one of several outputs
    tells: Any = None  # whether a case tells it from programs with other numbers; all do if None
    edit: Edit | None = None  # of the formula, if it is one that others can be added to


class Edit(NamedTuple):
    """Functions of a formula with other code; if one expression is another one, which and where."""

    formula: Any
    codes: dict[Any, Any]
    place: tuple[Any, int, str] | None = None  # the function, the number of its place, the text


def _changed(
    message: str,
    formula: Any,
    codes: dict[Any, Any],
    *,
    is_term: bool = False,
    place: tuple[Any, int, str] | None = None,
) -> Program:
    """Return the program in which functions of a formula have other code."""
    run = functools.partial(outputs_of, rewritten(formula, codes))
    return Program(message, run, is_term, edit=Edit(formula, codes, place))


def with_both(first: Edit, second: Edit) -> Any:
    """Return the formula with two edits; None if they are not of one formula, or at one place."""
    if first.formula is not second.formula:
        return None
    if not first.codes.keys() & second.codes.keys():
        return rewritten(first.formula, first.codes | second.codes)
    if first.place is None or second.place is None or first.place[:2] == second.place[:2]:
        return None
    f = first.place[0]
    tree, node = source_of(f)
    every = [*places(node)]
    # Outer places come first, and an inner one is changed first, also in the text of the outer.
    (_, outer, text), (_, inner, other) = sorted((first.place, second.place), key=lambda p: p[1])
    new = ast.Expr(expression(text))
    if any(node is every[inner][-1] for node in ast.walk(every[outer][-1])):
        due = ast.unparse(every[inner][-1])
        alike = [p for p in places(ast.Module([new], [])) if ast.unparse(p[-1]) == due]
        if len(alike) != 1:  # it is not there any more, or there are several
            return None
        put(alike[0], expression(other))
    else:
        put(every[inner], expression(other))
    put(every[outer], new.value)
    code = changed_code(f, ast.fix_missing_locations(tree))
    return code and rewritten(first.formula, {f.__code__: code})


def _shapes(formula: Any, call: ReferenceCall) -> dict[Any, dict[str, Any]]:
    """Return the shapes of the arrays in each function of a formula, at its first call."""
    return _variables(formula, call).shapes


class _Variables(NamedTuple):
    """
    The variables of each function of a formula, by its code.

    Of floats, there are the shapes; of masks and arrays of integers, the kinds and shapes; of
    integers, tuples of them, names of kinds, None, and functions that return an index, the names.
    And how often each function is called.
    """

    shapes: dict[Any, dict[str, Any]]
    choices: dict[Any, dict[str, Any]]
    others: dict[Any, set[str]]
    calls: collections.Counter[Any]


def _variables(formula: Any, call: ReferenceCall) -> _Variables:
    """
    Return the variables of each function of a formula.

    They are read when its first call returns, which Python tells its profiler. If another profiler
    is at work, it is left alone: no variables are exchanged then.
    """
    codes = {f.__code__ for f in parts(formula)}
    shapes: dict[Any, dict[str, Any]] = {}
    choices: dict[Any, dict[str, Any]] = {code: {} for code in codes}
    integers: dict[Any, set[str]] = collections.defaultdict(set)
    indices: set[str] = set()  # functions that return one, of slices
    if sys.getprofile() is not None:
        sets: dict[Any, set[str]] = {code: set() for code in codes}
        return _Variables({code: {} for code in codes}, choices, sets, collections.Counter())
    calls: collections.Counter[Any] = collections.Counter()

    def note(frame: Any, event: str, out: Any) -> None:  # pragma: no cover  # it is not traced
        calls[frame.f_code] += event == "call"
        if event == "return" and frame.f_code in codes and frame.f_code not in shapes:
            if isinstance(out, tuple) and any(
                part is ... or isinstance(part, slice) for part in out
            ):
                indices.add(frame.f_code.co_name)
            shapes[frame.f_code] = {
                name: np.shape(value)
                for name, value in frame.f_locals.items()
                if (is_float(value) or isinstance(value, float)) and name != "_"
            }
            values = frame.f_locals.items()
            choices[frame.f_code] = {
                name: (value.dtype.kind, value.shape)
                for name, value in values
                if isinstance(value, np.ndarray) and value.dtype.kind in "biu"
            }
            integers[frame.f_code] = {
                name for name, value in values if value is None or isinstance(value, OTHER_VALUES)
            }

    with profiled(note), contextlib.suppress(*REFUSALS):
        formula(*separate(call.arguments), **call.non_default_options)
    others = {code: integers[code] | indices for code in codes}
    return _Variables(shapes, choices, others, calls)


def within(f: Any, formula: Any) -> str:
    """Return in which function a change is, where that is another one than the formula."""
    return "" if f is formula else f", in {f.__name__}"


def usual_programs(formula: Any, call: ReferenceCall) -> Iterator[Program]:
    """Yield the programs in which one operation, factor or function is another."""
    shapes, _, integers, _ = _variables(formula, call)
    yield from _usual(formula, [f for f in parts(formula) if f.__code__ in shapes], integers)


def _usual(formula: Any, functions: list[Any], integers: dict[Any, set[str]]) -> Iterator[Program]:
    with contextlib.suppress(OSError):
        for f in functions:
            change = functools.partial(usual_changes, integers=integers[f.__code__])
            yield from _with_other_expressions(formula, f, change, is_term=True)


def programs(formula: Any, call: ReferenceCall, *, known: Any = None) -> Iterator[Program]:
    """
    Yield the changed programs of a formula, usual changes first; none without its source.

    Functions that it shares with a `known` spelling of it are changed there.
    """
    shapes, _, integers, _ = _variables(formula, call)
    reached = [f for f in _own_parts(formula, known) if f.__code__ in shapes]
    yield from _with_online_softmax(formula)
    yield from _usual(formula, reached, integers)
    with contextlib.suppress(OSError):
        for f in reached:  # an option may be the factor 2 or a half in all cases
            factors = functools.partial(multiplied, shapes=shapes[f.__code__])
            yield from _with_other_expressions(formula, f, factors)
        for f in reached:
            yield from _with_other_expressions(formula, f, _further(f, shapes))
            yield from _with_other_statements(formula, f)
        for f in reached:
            yield from _with_other_expressions(formula, f, rounded)


def _own_parts(formula: Any, known: Any) -> list[Any]:
    """Return the functions of a formula that another spelling of it does not have."""
    codes = {f.__code__ for f in parts(known)} if known else ()
    return [f for f in parts(formula) if f.__code__ not in codes]


def rarer_programs(formula: Any, call: ReferenceCall, *, known: Any = None) -> Iterator[Program]:
    """Yield programs with rarer changes: several of one kind, sums of a part, another function."""
    variables = _variables(formula, call)
    shapes = variables.shapes
    reached = [f for f in _own_parts(formula, known) if f.__code__ in shapes]
    with contextlib.suppress(OSError):
        yield from _with_other_axes(formula, reached)
        for f in reached:
            definitions = definitions_in(source_of(f)[1])
            earlier, sides, lines = (
                functools.partial(change, definitions=definitions)
                for change in (earlier_values, earlier_sides, regrouped_lines)
            )
            usual = regrouped, moved_factors, interpolations, misread_statistics
            for change in (*usual, earlier, sides, lines):
                yield from _with_other_expressions(formula, f, change)
            yield from _with_other_statements(formula, f, forgetful_loops)
            yield from _with_other_statements(formula, f, other_steps)
            yield from _everywhere(formula, [f], earlier)
            yield from _at_some_places(formula, f, ends)
        for change in (changes, other_sizes):
            yield from _everywhere(formula, reached, change)
        for f in reached:
            yield from _everywhere(formula, [f], _further(f, shapes))
            yield from _with_other_expressions(formula, f, other_sizes)
            padding = functools.partial(sums_of_padding, shapes=shapes[f.__code__])
            for change in (sums_of_a_block, joined_rows, padding):
                yield from _with_other_expressions(formula, f, change, is_term=True)
                yield from _at_some_places(formula, f, change)
        for f in reached:
            of_arrays = functools.partial(applied, shapes=shapes[f.__code__])
            yield from _with_other_expressions(formula, f, of_arrays)
            yield from _everywhere(formula, [f], of_arrays)
        for f in reached:
            yield from _rarest_programs(formula, f, variables)


def _rarest_programs(formula: Any, f: Any, variables: _Variables) -> Iterator[Program]:
    """Yield the programs with the rarest changes of a function."""
    code = f.__code__
    shapes, choices = variables.shapes[code], variables.choices[code]
    yield from _with_other_statements(formula, f, both_returned)
    yield from _with_other_statements(formula, f, returned_factors)
    counters = variables.others[code] | counters_in(source_of(f)[1])
    without = functools.partial(without_integers, integers=counters)
    yield from _everywhere(formula, [f], without)
    own = calls_of_formulas(source_of(f)[1], f.__globals__)
    rest = (
        functools.partial(applied_again, calls=own, shapes=shapes),
        functools.partial(selected, shapes=shapes, choices=choices),
        functools.partial(statistics, shapes=shapes),
        functools.partial(variables_for, shapes=shapes),
        functools.partial(counted, shapes=shapes),
        functools.partial(others_in_sums, shapes=shapes),
    )
    yield from _in_parts(formula, f, functools.partial(same_shapes, shapes=shapes))
    for change in (both_branches, without, sums_of_triangles, shifted_ranges, *rest):
        yield from _with_other_expressions(formula, f, change)
    for operator in OTHER:
        yield from _at_some_places(formula, f, functools.partial(of_operator, operator=operator))
    yield from _at_some_places(formula, f, without_complements)
    yield from _with_two_results(formula, f, shapes)


def _with_two_results(formula: Any, f: Any, shapes: dict[str, Any]) -> Iterator[Program]:
    """Yield the programs that return two other variables than a function does."""
    tree, node = source_of(f)
    last: list[ast.stmt] = [s for s in node.body if isinstance(s, ast.Return)]
    every = [
        (place, others)
        for place in places(ast.Module(last, []))
        if (others := [*same_shapes(place[-1], shapes)])
    ]
    for some in itertools.islice(itertools.combinations(every, 2), MAX_PAIRS):
        (first, ours), (second, theirs) = some
        for entry, other in itertools.product(ours, theirs):
            pairs = [(f, first, entry), (f, second, other)]
            yield from _together(formula, f, tree, pairs, f", in {as_sentence(last[0])}")


def programs_with_terms(formula: Any, call: ReferenceCall) -> Iterator[Program]:
    """Yield programs with a term or factor at one more place, or with the larger of two terms."""
    shapes = _shapes(formula, call)
    reached = [f for f in parts(formula) if f.__code__ in shapes]
    with contextlib.suppress(OSError):
        for operations, f in itertools.product(((ast.Sub, ast.Add), (ast.Mult, ast.Div)), reached):
            tree, node = source_of(f)
            for statement in node.body:
                change = functools.partial(
                    with_terms, terms=terms_of(statement), operations=operations
                )
                for place in [*places(ast.Module([statement], []))]:
                    for message, code, _ in _each_change(f, tree, place, change):
                        yield _changed(message + within(f, formula), formula, {f.__code__: code})
        for f in reached:
            yield from _with_other_expressions(formula, f, larger_terms)


def programs_with_factors(formula: Any, call: ReferenceCall) -> Iterator[Program]:
    """Yield programs in which a factor of another statement is multiplied once more."""
    shapes = _shapes(formula, call)
    with contextlib.suppress(OSError):
        for f in (f for f in parts(formula) if f.__code__ in shapes):
            names = shapes[f.__code__]
            factors = factors_of(source_of(f)[1], names)
            change = functools.partial(
                with_terms, terms=factors, operations=(ast.Mult,), variables=names
            )
            yield from _with_other_expressions(formula, f, change)


def programs_at_one_call(formula: Any, call: ReferenceCall) -> Iterator[Program]:
    """Yield programs with a usual change in one call of a function that is called several times."""
    shapes, _, integers, counts = _variables(formula, call)
    with contextlib.suppress(OSError):
        for f in parts(formula)[1:]:
            if counts[f.__code__] < 2:
                continue
            tree, node = source_of(f)
            own = calls_of_formulas(node, f.__globals__)
            usual = functools.partial(usual_changes, integers=integers[f.__code__])
            again = functools.partial(applied_again, calls=own, shapes=shapes[f.__code__])
            for change, place in itertools.product((usual, again), [*places(node)]):
                for message, code, _ in _each_change(f, tree, place, change):
                    changed = rewritten(f, {f.__code__: code})
                    for n in range(counts[f.__code__])[:MAX_CALLS]:
                        run = functools.partial(_at_one_call, formula, f, changed, n)
                        where = f", in the {ORDINALS[n]} call of {f.__name__} alone"
                        yield Program(message + where, run)


def _at_one_call(
    formula: Any, f: Any, changed: Any, n: int, call: ReferenceCall
) -> list[Any] | None:
    """Return the outputs of a formula one of whose functions is another at one of its calls."""
    count = itertools.count()

    def either(*arguments: Any, **options: Any) -> Any:
        return (changed if next(count) == n else f)(*arguments, **options)

    return outputs_of(rewritten(formula, {f: either}), call)


def _further(f: Any, shapes: dict[Any, dict[str, Any]]) -> Any:
    """Return the further changes of the expressions of a function."""
    return functools.partial(further_changes, shapes=shapes[f.__code__], scope=f.__globals__)


def _with_online_softmax(formula: Any) -> Iterator[Program]:
    """Yield programs whose softmax is over blocks, and is not rescaled to a larger maximum."""
    from .online import not_rescaled  # noqa: PLC0415  # it imports formulas, and these SciPy

    for block in (1, *BLOCKS):
        for what, others in not_rescaled(block):
            if not {*others} & {*parts(formula)}:
                return
            when = f"where a later block of {block} has a larger maximum"
            yield _changed(f"{what} {when}", formula, others)


def _with_other_expressions(
    formula: Any, f: Any, change: Any, *, is_term: bool = False
) -> Iterator[Program]:
    """Yield the programs in which an expression of a function is another."""
    tree, node = source_of(f)
    lines = _lines(node)
    for number, place in enumerate([*places(node)]):
        where = (lines.get(id(place[-1])) or _around_number(place)) + within(f, formula)
        for message, code, stands in _each_change(f, tree, place, change):
            yield _changed(
                message + where,
                formula,
                {f.__code__: code},
                is_term=is_term,
                place=(f, number, stands),
            )


def _around_number(place: Any) -> str:
    """Return the expression that an integer is part of, empty for all else."""
    parent, entry = place[0], place[-1]
    is_integer = isinstance(entry, ast.Constant) and type(entry.value) is int
    if not is_integer or not isinstance(parent, ast.Call | ast.BinOp | ast.Compare):
        return ""
    text = as_read(ast.unparse(parent))
    return f", in {text}" if text else ""


def _lines(node: ast.FunctionDef) -> dict[int, str]:
    """Return the line of each variable that other lines read, too, by the identity of its node."""
    names = (n for n in ast.walk(node) if isinstance(n, ast.Name))
    reads = collections.Counter(n.id for n in names if isinstance(n.ctx, ast.Load))
    innermost = {
        id(inner): statement
        for block in lists_of_statements(node)  # outer ones come first
        for statement in block
        for inner in ast.walk(statement)
        if isinstance(inner, ast.Name) and reads[inner.id] > 1
    }
    statements = {id(statement): statement for statement in innermost.values()}
    texts = {key: f", in {as_sentence(statement)}" for key, statement in statements.items()}
    return {key: texts[id(statement)] for key, statement in innermost.items()}


def _by_text(functions: list[Any], is_wanted: Any) -> tuple[dict[Any, Any], dict[str, list[Any]]]:
    """Return the syntax trees of functions, and their places by what is written there."""
    trees, alike = {}, collections.defaultdict(list)
    for f in functions:
        trees[f], node = source_of(f)
        for place in filter(is_wanted, places(node)):
            alike[ast.unparse(place[-1])].append((f, place))
    return trees, alike


def _code_with(
    trees: dict[Any, Any], entries: Iterable[tuple[Any, Any, ast.expr]]
) -> dict[Any, Any]:
    """Return the code of functions with expressions at some places, which have them meanwhile."""
    entries = [*entries]
    for _, place, entry in entries:
        put(place, ast.copy_location(ast.fix_missing_locations(entry), place[-1]))
    codes = {f: changed_code(f, trees[f]) for f in dict.fromkeys(f for f, *_ in entries)}
    for _, place, _ in entries:
        put(place, place[-1])
    return {f.__code__: code for f, code in codes.items()} if all(codes.values()) else {}


def _everywhere(formula: Any, functions: list[Any], change: Any) -> Iterator[Program]:
    """Yield the programs in which an expression is another wherever the functions have it."""
    trees, alike = _by_text(functions, None)
    for due, some in alike.items():
        for entry in change(some[0][-1][-1]) if len(some) > 1 else ():
            message = described(ast.unparse(entry), due)
            if message and (codes := _code_with(trees, ((f, place, entry) for f, place in some))):
                yield _changed(f"{message}, everywhere", formula, codes)


def _in_parts(formula: Any, f: Any, change: Any) -> Iterator[Program]:
    """Yield the programs in which a part of a line has another expression wherever it has one."""
    tree, node = source_of(f)
    seen = set()
    for part in (p[-1] for p in places(node) if isinstance(p[-1], ast.Compare | ast.BinOp)):
        alike = collections.defaultdict(list)
        for place in places(ast.Module([ast.Expr(part)], [])):
            alike[ast.unparse(place[-1])].append(place)
        where = f", in {as_read(ast.unparse(part))}{within(f, formula)}"
        for some in alike.values():
            key = frozenset(id(place[-1]) for place in some)
            if len(some) == 1 or key in seen:
                continue
            seen.add(key)
            for entry in change(some[0][-1]):
                message = described(ast.unparse(entry), ast.unparse(some[0][-1]))
                if message and (codes := _code_with({f: tree}, ((f, p, entry) for p in some))):
                    yield _changed(message + where, formula, codes)


def _at_some_places(formula: Any, f: Any, change: Any) -> Iterator[Program]:
    """
    Yield the programs in which several expressions of a function change in one way.

    Where there are few, any two or more of them may change; where there are many, all of them do.
    """
    tree, node = source_of(f)
    every = [(place, others) for place in places(node) if (others := [*change(place[-1])])]
    least = 2 if len(every) <= MAX_PLACES else len(every)
    for count in range(len(every), least - 1, -1):
        for some in itertools.combinations(every, count):
            for entries in zip(*(others for _, others in some), strict=False):
                pairs = [(f, place, new) for (place, _), new in zip(some, entries, strict=True)]
                yield from _together(formula, f, tree, pairs)


def _together(
    formula: Any, f: Any, tree: ast.Module, pairs: list[tuple[Any, Any, ast.expr]], where: str = ""
) -> Iterator[Program]:
    """Yield the program in which some expressions of a function are others, if it makes sense."""
    said = [described(ast.unparse(new), ast.unparse(place[-1])) for _, place, new in pairs]
    if all(said) and (codes := _code_with({f: tree}, pairs)):
        yield _changed("; and ".join(said) + where + within(f, formula), formula, codes)


def _with_other_axes(formula: Any, functions: list[Any]) -> Iterator[Program]:
    """Yield the programs in which all functions along an axis are along another."""
    trees, alike = _by_text(functions, _is_axis)
    for (due, some), axis in itertools.product(alike.items(), AXES):
        if len(some) > 1 and axis not in (due, ALL_BUT_FIRST):
            codes = _code_with(trees, ((f, place, expression(axis)) for f, place in some))
            yield _changed(
                f"axis={axis} stands where axis={due} is due, everywhere", formula, codes
            )


def _is_axis(place: Any) -> bool:
    """Return whether a place is an axis that a formula fixes; OF_AXIS has others for an option."""
    keyword = place[0]
    is_axis = isinstance(keyword, ast.keyword) and keyword.arg == "axis"
    return is_axis and not isinstance(place[-1], ast.Name)


def programs_with_two_changes(formula: Any, call: ReferenceCall) -> Iterator[Program]:
    """Yield programs with two changes, in which a variable may be another one as well."""
    shapes = _shapes(formula, call).get(parts(formula)[0].__code__, {})
    varied = functools.partial(_change_or_variable, shapes=shapes)
    yield from pairs_of_changes(formula, {varied: MAX_VARIED, changes: MAX_CHANGES})


def pairs_of_changes(formula: Any, kinds: dict[Any, int] | None = None) -> Iterator[Program]:
    """
    Yield programs with two changes in the expressions of a formula; none of a long one.

    The kind is the first one whose limit the number of the formula's changes does not exceed.
    """
    f = parts(formula)[0]  # a partial has no code of its own
    with contextlib.suppress(OSError):
        tree, node = source_of(f)
        own = [*places(node)]
        allowed = (kinds or {changes: MAX_CHANGES}).items()
        few = (c for c, most in allowed if sum(1 for p in own for _ in c(p[-1])) <= most)
        if (change := next(few, None)) is None:
            return
        for i, place in enumerate(own):
            for message, *_ in _each_change(f, tree, place, change):
                for second in [*places(node)][i + 1 :]:
                    for more, code, _ in _each_change(f, tree, second, change):
                        if second[-1] is not place[-1]:
                            codes = {f.__code__: code}
                            yield _changed(f"{message}; and {more}", formula, codes)


def _change_or_variable(node: ast.AST, shapes: dict[str, Any]) -> Iterator[ast.expr]:
    """Yield usual changes of an expression, and other variables in place of one."""
    yield from changes(node)
    yield from same_shapes(node, shapes)


def _each_change(
    f: Any, tree: ast.Module, place: Any, change: Any = changes
) -> Iterator[tuple[str, Any, str]]:
    """Yield a description, the code and the text of each change at a place, which has it then."""
    due = ast.unparse(place[-1])
    for stands, code in changed_codes(f, tree, place, change(place[-1])):
        if code is not None and (message := described(stands, due)):
            yield message, code, stands


def _with_other_statements(
    formula: Any, f: Any, change: Any = statement_changes
) -> Iterator[Program]:
    """Yield the programs in which statements of a function are left out, or in another order."""
    tree, node = source_of(f)
    every = itertools.chain(
        _statement_changes(f, tree, node, change),
        _decided(f, tree, node) if change is statement_changes else (),
    )
    for message, code in ((message, code) for message, code in every if code is not None):
        codes = {f.__code__: code}
        yield _changed(message + within(f, formula), formula, codes, is_term=True)


def _statement_changes(
    f: Any, tree: ast.Module, node: ast.FunctionDef, change: Any
) -> Iterator[tuple[str, Any]]:
    """Yield the code of a function for each change of its statements."""
    for block in lists_of_statements(node):
        due = block[:]
        for message, other in [*change(block)]:
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
