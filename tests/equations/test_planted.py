"""A wrong sign, factor or index that is planted in a transcription turns its check red."""

import ast
import collections
import copy
import functools
import inspect
import random
import re
import sys
import textwrap

import numpy as np
import pytest
from equations import ledger, places

places.load_checks()
OTHER = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult}
CHECKS = {
    check.function: check
    for check in ledger.CHECKS.values()
    if not isinstance(check, ledger.Reading)  # see test_reading.py
}


def wrong_sign(node):
    """Exchange plus and minus, or leave out a minus."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
        return ast.BinOp(node.left, OTHER[type(node.op)](), node.right)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return node.operand
    return None


def wrong_operation(node):
    """Exchange a product and a quotient."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult | ast.Div):
        return ast.BinOp(node.left, OTHER[type(node.op)](), node.right)
    return None


def wrong_factor(node):
    """Double a product, or what is subtracted or added."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult | ast.MatMult):
        return ast.BinOp(ast.Constant(2), ast.Mult(), node)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
        twice = ast.BinOp(ast.Constant(2), ast.Mult(), node.right)
        return ast.BinOp(node.left, node.op, twice)
    return None


def wrong_power(node):
    """Take another power."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
        power = ast.BinOp(node.right, ast.Add(), ast.Constant(1))
        return ast.BinOp(node.left, node.op, power)
    return None


def wrong_index(node):
    """Read the entry before."""
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Name | ast.BinOp):
        index = ast.BinOp(node.slice, ast.Sub(), ast.Constant(1))
        return ast.Subscript(node.value, index, node.ctx)
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Tuple):
        first, *rest = node.slice.elts
        if isinstance(first, ast.Name):
            shifted = ast.BinOp(first, ast.Sub(), ast.Constant(1))
            return ast.Subscript(node.value, ast.Tuple([shifted, *rest], ast.Load()), node.ctx)
    return None


def wrong_axes(node):
    """Leave out a transposition, exchange the factors of an outer product, or take another axis."""
    if isinstance(node, ast.Attribute) and node.attr == "T":
        return node.value
    if isinstance(node, ast.Call) and ast.unparse(node.func) == "np.outer":
        return ast.Call(node.func, node.args[::-1], node.keywords)
    if isinstance(node, ast.keyword) and node.arg == "axis":
        return ast.keyword("axis", ast.Constant(-1 if ast.unparse(node.value) == "0" else 0))
    return None


#: Checks in which some mistakes of a kind change nothing, and why.
UNSEEN = {
    "what is added does not change a derivative": "network_gradients_by_complex_step",
    "a term is zero": "factors_of_dropout the_projection_onto_the_simplex",
    "a sum over all entries begins at any of them": """
        gradients_of_the_latents mean_square_of_a_pre_activation means_of_squares
        squares_about_another_mean""",
    "a product of shapes that fit either way": "gradient_of_a_dot_product",
}
KINDS = wrong_sign, wrong_operation, wrong_factor, wrong_power, wrong_index, wrong_axes


def bounds_of(said):
    """Return the names of what is at least as large as something that a check yields or asserts."""
    compared = [node for part in said for node in ast.walk(part) if isinstance(node, ast.Compare)]
    sides = [
        side
        for node in compared
        for sign, side in zip(node.ops, node.comparators, strict=True)
        if isinstance(sign, ast.Lt | ast.LtE)
    ]
    return names_in(sides)


def names_in(nodes):
    return {n.id for node in nodes for n in ast.walk(node) if isinstance(n, ast.Name)}


def transcriptions(tree):
    """Return the nodes of a check that transcribe a text.

    They are what it yields, and what it assigns to a bound; where all that it yields are names,
    what it assigns to them.
    """
    nodes = list(ast.walk(tree))
    yields = [node for node in nodes if isinstance(node, ast.Yield | ast.YieldFrom)]
    names = bounds_of([*yields, *(node for node in nodes if isinstance(node, ast.Assert))])
    if not yields:  # a helper
        return {id(tree)}
    if not any(kind(node) for part in yields for node in planted_nodes(part) for kind in KINDS):
        names |= names_in(yields)
    assigned = [node for node in nodes if isinstance(node, ast.Assign | ast.AugAssign)]
    targets = [getattr(node, "targets", None) or [node.target] for node in assigned]
    pairs = zip(assigned, targets, strict=True)
    chosen = {id(node) for node in yields} | {id(n) for n, to in pairs if names_in(to) & names}
    if any(
        kind(n)
        for part in nodes
        if id(part) in chosen
        for n in planted_nodes(part)
        for kind in KINDS
    ):
        return chosen
    return {id(node) for node in nodes[2:] if isinstance(node, ast.FunctionDef)}  # inner ones


def planted_nodes(part):
    """Yield the nodes of a part of a check, without comparisons and what is below them."""
    if isinstance(part, ast.Compare):  # of a bound, or a condition of the text
        return
    yield part
    for child in ast.iter_child_nodes(part):
        yield from planted_nodes(child)


class Planter(ast.NodeTransformer):
    """Plants one mistake of a kind in what a check yields, one side of its equation, or a bound."""

    def __init__(self, kind, number, transcribed):
        self.kind, self.number, self.found, self.inside = kind, number, 0, 0
        self.transcribed = transcribed

    def generic_visit(self, node):
        """Visit what is below, and replace the node if it is the one."""
        if isinstance(node, ast.Compare):
            return node
        begins = id(node) in self.transcribed
        self.inside += begins
        node = super().generic_visit(node)
        self.inside -= begins
        other = self.kind(node) if self.inside else None
        if other is None:
            return node
        self.found += 1
        return other if self.found == self.number + 1 else node


@functools.cache
def parsed(function):
    return ast.parse(textwrap.dedent(inspect.getsource(function)))


def planted(function, kind, number, owner=None):
    """Return a check with a mistake in it or in a helper, or None if it has no such place."""
    names = dict(vars(sys.modules[function.__module__]))
    names |= inspect.getclosurevars(function).nonlocals  # of a check that a helper defines
    for each in dict.fromkeys([owner or function, function]):
        tree = copy.deepcopy(parsed(each))
        tree.body[0].decorator_list = []
        if each is (owner or function):
            planter = Planter(kind, number, transcriptions(tree))
            tree = planter.visit(tree)
            if planter.found <= number:
                return None
        exec(compile(ast.fix_missing_locations(tree), "planted", "exec"), names)
    return names[tree.body[0].name]


def owners(function):
    """Return the functions that transcribe a text: a check, or the helpers that it calls."""
    if any(count_places(function, kind) for kind in KINDS):
        return [function]
    every = vars(sys.modules[function.__module__])
    called = [every.get(name) for name in sorted(names_in([parsed(function)]))]
    return [f for f in called if inspect.isfunction(f) and f.__module__ == function.__module__]


@functools.cache
def transcribed(function):
    """Return the nodes in which a mistake can be planted."""
    tree = parsed(function)
    chosen = transcriptions(tree)
    parts = [node for node in ast.walk(tree) if id(node) in chosen]
    found = {id(node): node for part in parts for node in planted_nodes(part)}
    return list(found.values())


def count_places(function, kind):
    """Count the places where a mistake of a kind can be planted."""
    return sum(kind(node) is not None for node in transcribed(function))


def is_green(function, check):
    with np.errstate(all="ignore"):
        try:
            ledger.compare(function(), check)
        except Exception:  # a check may stumble over what was planted
            return False
    return True


#: What computes a value otherwise than the ledger does.
OUTSIDE = re.compile(
    r"/dlref/|/docs/measure/|/scipy/|/mpmath/|/numpy/linalg/|/equations/numeric\.py$"
)
#: Checks that call none of these, and what they compare their text with.
ENUMERATED = {
    "the roundings of float32 themselves": """
        rules_of_counting a_sum_of_roundings normalized_about_another_mean""",
    "many inputs, and one that attains each bound": """
        jensen_for_softmax means_of_squares regret_of_adagrad""",
    "the other side, which no definition makes equal": "squares_about_another_mean",
    "a long iteration": "cosines_of_a_deep_network",
    "all outcomes": "accepted_drafts",
}


def calls_outside(function):
    """Whether a check computes something outside of the ledger while it runs."""
    files = set()

    def note(frame, event, _):
        if event == "call":
            files.add(frame.f_code.co_filename)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        list(function())
    finally:
        sys.setprofile(before)
    return any(map(OUTSIDE.search, files))


def test_every_transcription_is_compared_with_something_outside_of_the_ledger():
    """A text and its transcription that are changed alike differ from what stands elsewhere."""
    alone = {function.__name__ for function in CHECKS if not calls_outside(function)}
    assert alone == {name for names in ENUMERATED.values() for name in names.split()}


def samples(count=3):
    """Yield some mistakes of each kind in checks of each chapter."""
    rng, unseen = random.Random(0), " ".join(UNSEEN.values()).split()
    by_chapter = collections.defaultdict(list)
    for f in CHECKS:
        if f.__name__ not in unseen:
            by_chapter[f.__module__].append(f)
    for _, functions in sorted(by_chapter.items()):
        for kind in KINDS:
            found = [(f, kind, n) for f in functions for n in range(count_places(f, kind))]
            yield from rng.sample(found, min(count, len(found)))


SAMPLES = list(samples())


def test_all_chapters_and_kinds_are_sampled():
    open_to_mistakes = (f for f in CHECKS if any(count_places(f, kind) for kind in KINDS))
    assert {f.__module__ for f, _, _ in SAMPLES} == {f.__module__ for f in open_to_mistakes}
    assert {kind for _, kind, _ in SAMPLES} == set(KINDS)


@pytest.mark.parametrize(
    ("function", "kind", "number"),
    [
        pytest.param(
            f, kind, n, id=f"{f.__module__.split('.')[-1]}-{f.__name__}-{kind.__name__}-{n}"
        )
        for f, kind, n in SAMPLES
    ],
)
def test_mistake_is_seen(function, kind, number):
    assert is_green(function, CHECKS[function])
    assert not is_green(planted(function, kind, number), CHECKS[function])


def main():
    """Plant every mistake in every check, and print which are not seen."""
    counts = collections.Counter()
    for f, check in CHECKS.items():
        for kind in KINDS:
            for n in range(count_places(f, kind)):
                green = is_green(planted(f, kind, n), check)
                counts[green] += 1
                if green and f.__name__ not in " ".join(UNSEEN.values()).split():
                    print(f.__module__, f.__name__, kind.__name__, n)
    print(f"{counts.total()} mistakes, {counts[False]} seen")


if __name__ == "__main__":  # cd tests; python -m equations.test_planted
    main()
