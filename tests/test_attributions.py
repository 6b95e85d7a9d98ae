"""Who is credited for what: the key is in the bibliography and beside the statement."""

import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ENTRIES = re.findall(
    r"@\w+\{(\w+),(.*?)\n\}", (ROOT / "docs/references.bib").read_text(), re.DOTALL
)
BIBLIOGRAPHY = dict(ENTRIES)


@pytest.mark.parametrize(
    ("path", "statement", "key", "entry"),
    [
        (
            "training/_momentum.py",
            r"the form in :math:`\tilde\theta` from",
            "Bengio2012",
            "1212.0901",
        ),
        ("training/_momentum.py", "look-ahead form is from", "Sutskever2013", "Momentum"),
        ("losses/_cross_entropy.py", "the z-loss", "Chowdhery2023", "PaLM"),
        ("losses/_huber.py", "", "Huber1964", "Robust Estimation"),
        ("training/_gradient_descent.py", "noisy gradients:", "RobbinsMonro1951", "Stochastic"),
        ("check/_derivatives.py", "", "Ridders1982", "Accurate Computation"),
        ("_math/elementary.py", "", "Shepherd1981", "Laframboise"),
        ("activations/_glu.py", "", "Dauphin2017", "Gated Convolutional"),
        ("activations/_relu.py", "", "NairHinton2010", "Rectified Linear Units"),
        ("activations/_silu.py", "", "Elfwing2018", "Sigmoid-Weighted"),
        ("activations/_celu.py", "", "Barron2017", "1704.07483"),
        ("calculus/_accumulation.py", "NP-complete", "Naumann2008", "complete"),
        ("propagation/_signal_propagation.py", "larger ones stable", "Roberts2022", "Hanin"),
    ],
)
def test_attribution(path, statement, key, entry):
    text = re.sub(r"\s+", " ", (ROOT / "dlref" / path).read_text(encoding="utf-8"))
    statement = re.sub(r"\s+", " ", statement)
    assert re.search(re.escape(statement) + r"[^:]{,60}:cite:[tp]:`" + key + "`", text)
    assert entry in BIBLIOGRAPHY[key]


def test_nesterov_is_not_credited_for_noise():
    text = (ROOT / "dlref/training/_gradient_descent.py").read_text(encoding="utf-8")
    assert "Sutskever" not in text


FOUND_BY = {
    "recurrent.lstm": ("Gers2000", "Jozefowicz2015", "TallecOllivier2018"),
    "positions.rope_frequencies": ("Chen2023", "bloc97", "Peng2023", "Grattafiori2024"),
    "positions.shaw_scores": ("Shaw2018",),
    "attention.additive_attention": ("Graves2013", "Bahdanau2015"),
    "attention.attention_distance": ("Dosovitskiy2021",),
    "attention.attention_entropy": ("Clark2019",),
    "attention.recurrent_linear_attention": ("Schlag2021",),
    "transformer.dropout_mask": ("Srivastava2014",),
}


@pytest.mark.parametrize("name", FOUND_BY)
def test_the_source_is_named(name):
    chapter, function = name.split(".")
    text = getattr(importlib.import_module(f"dlref.{chapter}"), function).__doc__
    for key in FOUND_BY[name]:
        assert f":cite:t:`{key}`" in text
        assert key in BIBLIOGRAPHY


def test_both_tables_of_shaw_are_described():
    text = importlib.import_module("dlref.positions").shaw_scores.__doc__
    assert r"\vec v_j + \vec a^V_" in text


def test_every_work_has_one_entry():
    titles = [re.sub(r"\W", "", re.search(r"title += \{(.*)\}", e)[1]).lower() for _, e in ENTRIES]
    numbers = [found[1] for _, e in ENTRIES if (found := re.search(r"eprint += \{(.*)\}", e))]
    assert len(set(titles)) == len(titles) == len(BIBLIOGRAPHY)
    assert len(set(numbers)) == len(numbers)
