"""Every displayed equation has a check, and every check its equation."""

import importlib
import itertools
import pkgutil
from pathlib import Path

import numpy as np
import pytest
from equations import ledger

for _, name, _ in pkgutil.iter_modules([str(Path(__file__).parent)]):
    if name != "ledger" and not name.startswith("test_"):
        importlib.import_module(f"equations.{name}")

PLACES = list(ledger.places())


def compare(lines, check):
    """Raise AssertionError unless all values of each line agree."""
    lines = list(lines)
    assert lines
    for values in lines:
        assert len(values) >= 2
        for one, other in itertools.pairwise(values):
            np.testing.assert_allclose(one, other, rtol=check.rtol, atol=check.atol)


def test_every_equation_has_a_check():
    missing = [f"{place}: {text}" for place, text in PLACES if text not in ledger.CHECKS]
    assert not missing, f"{len(missing)} without a check:\n" + "\n".join(missing)


def test_every_check_has_its_equation():
    assert not set(ledger.CHECKS) - {text for _, text in PLACES}


@pytest.mark.parametrize("text", ledger.CHECKS)
def test_equation(text):
    check = ledger.CHECKS[text]
    compare(check.function(), check)
