"""A wrong sign, factor or index that is planted in a transcription turns its check red."""

import ast
import collections
import copy
import functools
import inspect
import random
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


def bounds_of(tree):
    """Return the names of what is at least as large as something that a check yields or asserts."""
    said = [node for node in ast.walk(tree) if isinstance(node, ast.Yield | ast.Assert)]
    compared = [node for part in said for node in ast.walk(part) if isinstance(node, ast.Compare)]
    sides = [
        side
        for node in compared
        for sign, side in zip(node.ops, node.comparators, strict=True)
        if isinstance(sign, ast.Lt | ast.LtE)
    ]
    return {node.id for side in sides for node in ast.walk(side) if isinstance(node, ast.Name)}


def is_transcription(node, bounds):
    """Whether a node is what a check yields, or where it computes a bound."""
    targets = getattr(node, "targets", ())
    return isinstance(node, ast.Yield) or any(
        isinstance(name, ast.Name) and name.id in bounds
        for target in targets
        for name in ast.walk(target)
    )


class Planter(ast.NodeTransformer):
    """Plants one mistake of a kind in what a check yields, one side of its equation, or a bound."""

    def __init__(self, kind, number, bounds):
        self.kind, self.number, self.found, self.inside = kind, number, 0, 0
        self.bounds = bounds

    def generic_visit(self, node):
        """Visit what is below, and replace the node if it is the one."""
        if isinstance(node, ast.Compare):  # of a bound, or a condition of the text
            return node
        begins = is_transcription(node, self.bounds)
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


def planted(function, kind, number):
    """Return a check with a mistake, or None if it has no place with this number."""
    tree = copy.deepcopy(parsed(function))
    planter = Planter(kind, number, bounds_of(tree))
    tree.body[0].decorator_list = []
    tree = planter.visit(tree)
    if planter.found <= number:
        return None
    names = dict(vars(sys.modules[function.__module__]))
    names |= inspect.getclosurevars(function).nonlocals  # of a check that a helper defines
    exec(compile(ast.fix_missing_locations(tree), "planted", "exec"), names)
    return names[tree.body[0].name]


@functools.cache
def yielded(function):
    """Return the nodes of what a check yields, and of its bounds, without comparisons."""
    found, rest = [], [(parsed(function), False)]
    bounds = bounds_of(parsed(function))
    while rest:
        node, inside = rest.pop()
        if isinstance(node, ast.Compare):
            continue
        if inside:
            found.append(node)
        inside = inside or is_transcription(node, bounds)
        rest += [(child, inside) for child in ast.iter_child_nodes(node)]
    return found


def count_places(function, kind):
    """Count the places where a mistake of a kind can be planted."""
    return sum(kind(node) is not None for node in yielded(function))


def is_green(function, check):
    with np.errstate(all="ignore"):
        try:
            ledger.compare(function(), check)
        except Exception:  # a check may stumble over what was planted
            return False
    return True


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
