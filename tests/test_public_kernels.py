"""Kernels of other people in docs/measure/public: what a row says, and the table of the page."""

import re

import numpy as np
import public
import public_kernels
import pytest
from test_ports_measured import page, table

SETS = {name.upper(): public.collected(name.upper()) for name in (*public_kernels.SETS, "right")}
REPORTED = [one for name in public_kernels.SETS[1:] for one in SETS[name.upper()]]


@pytest.mark.parametrize("one", [*SETS["GIVEN"], *REPORTED], ids=lambda one: one.slip)
def test_a_row(one):
    assert one.truth.endswith(".")
    assert one.named
    for words in one.named:
        assert not re.search(words, "")
    assert (one.source in public_kernels.GROUPS) == (one in SETS["GIVEN"])
    assert one.source in public_kernels.GROUPS or re.fullmatch(r"[\w.-]+/[\w.-]+#\d+", one.source)


def test_sets():
    assert len(SETS["GIVEN"]) >= 50
    assert len(SETS["FRESH"]) >= 60
    assert sum(one.form != "forward" for one in SETS["FRESH"]) >= 20
    assert len(SETS["RIGHT"]) >= 25
    keys = [(one.op, one.form, one.kernel, one.slip) for one in (*SETS["GIVEN"], *REPORTED)]
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize("one", REPORTED[::5], ids=lambda one: one.source)
def test_a_slip_changes_numbers(one):
    with np.errstate(all="ignore"):
        assert public_kernels.differs(one)
        assert not public_kernels.differs(one._replace(slip=""))


def test_table():
    rows = {row["kernels"]: row for row in table("public.csv")}
    assert list(rows) == list(public_kernels.GROUPS.values())
    wrong = [row for row in rows.values() if row["named"] != "–"]
    total = {key: sum(int(row[key]) for row in wrong) for key in ("number", "flagged", "named")}
    text = page("withstands.rst")
    assert f"{total['flagged']} of the {total['number']} kernels" in text
    assert f"the mistake of {total['named']}" in text
    assert total["number"] == len(SETS["GIVEN"]) + len(REPORTED)
