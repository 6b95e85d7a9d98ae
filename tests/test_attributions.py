"""Who found what: each of these texts names its source, and the source is in the bibliography."""

import importlib
import re
from pathlib import Path

import pytest

SOURCES = (Path(__file__).parents[1] / "docs" / "references.bib").read_text(encoding="utf-8")
FOUND_BY = {
    "recurrent.lstm": ("Gers2000", "Jozefowicz2015", "TallecOllivier2018"),
    "positions.rope_frequencies": ("Chen2023", "bloc97", "Peng2023", "Grattafiori2024"),
    "positions.shaw_scores": ("Shaw2018",),
    "attention.additive_attention": ("Graves2013", "Bahdanau2015"),
    "attention.recurrent_linear_attention": ("Schlag2021",),
    "transformer.dropout_mask": ("Srivastava2014",),
}


@pytest.mark.parametrize("name", FOUND_BY)
def test_the_source_is_named(name):
    chapter, function = name.split(".")
    text = getattr(importlib.import_module(f"dlref.{chapter}"), function).__doc__
    for key in FOUND_BY[name]:
        assert f":cite:t:`{key}`" in text
        assert re.search(rf"@\w+{{{key},", SOURCES)


def test_both_tables_of_shaw_are_described():
    text = importlib.import_module("dlref.positions").shaw_scores.__doc__
    assert r"\vec v_j + \vec a^V_" in text
