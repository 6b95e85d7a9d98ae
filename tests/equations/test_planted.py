"""A wrong sign or factor that is planted in a transcription turns its check red."""

import ast
import copy
import inspect
import random
import sys
import textwrap

import numpy as np
import pytest
from equations import ledger, test_ledger

OTHER = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult}
CONSTANT = {"jacobian_of_a_dense_layer"}  # the sign of a bias is not seen by a derivative
CHECKS = {check.function: check for check in ledger.CHECKS.values()}


def operations(tree):
    """List the operations in what a check yields: both sides of its equation."""
    yielded = [node for node in ast.walk(tree) if isinstance(node, ast.Yield)]
    found = [n for y in yielded for n in ast.walk(y) if isinstance(n, ast.BinOp)]
    return [node for node in found if type(node.op) in OTHER]


def parsed(function):
    """Return the syntax tree of a check, also of one that a helper defines."""
    return ast.parse(textwrap.dedent(inspect.getsource(function)))


def planted(function, number):
    """Return a check with one of its operations turned into the opposite one."""
    tree = copy.deepcopy(parsed(function))
    tree.body[0].decorator_list = []
    node = operations(tree)[number]
    node.op = OTHER[type(node.op)]()
    names = dict(vars(sys.modules[function.__module__]))
    names |= inspect.getclosurevars(function).nonlocals
    exec(compile(ast.fix_missing_locations(tree), "planted", "exec"), names)
    return names[tree.body[0].name]


def samples(count=3):
    """Yield some checks of each chapter, and an operation of each."""
    rng = random.Random(0)
    for module in sorted({f.__module__ for f in CHECKS}):
        mutable = [(f, len(operations(parsed(f)))) for f in CHECKS if f.__module__ == module]
        mutable = [(f, n) for f, n in mutable if n and f.__name__ not in CONSTANT]
        for f, n in rng.sample(mutable, min(count, len(mutable))):
            yield pytest.param(f, rng.randrange(n), id=f"{module}-{f.__name__}")


def is_green(function, check):
    with np.errstate(all="ignore"):
        try:
            test_ledger.compare(function(), check)
        except Exception:  # a check may stumble over what was planted
            return False
    return True


@pytest.mark.parametrize(("function", "number"), list(samples()))
def test_wrong_sign_is_seen(function, number):
    assert is_green(function, CHECKS[function])
    assert not is_green(planted(function, number), CHECKS[function])
