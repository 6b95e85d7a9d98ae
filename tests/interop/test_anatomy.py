"""The table of families is what `from_state_dict` makes of their configurations."""

import csv

import anatomy
import pytest

from dlref.interop import from_state_dict
from dlref.interop._decoders import KIN
from dlref.interop._families import FAMILIES


def test_the_file_is_up_to_date():
    with anatomy.FILE.open(newline="") as file:
        header, *table = csv.reader(file)
    assert header == anatomy.HEADER
    assert table == anatomy.rows()


def test_the_file_of_choices_is_up_to_date():
    with anatomy.OPTIONS.open(newline="") as file:
        header, *table = csv.reader(file)
    assert header == anatomy.CHOICES
    assert table == anatomy.choices()
    assert {*anatomy.ROUNDED_LAST} < {row[0].strip("`") for row in table}


def test_every_family_has_a_row():
    named = {row[0].split("`")[2] for row in anatomy.rows()}
    assert named | anatomy.ALIASES.keys() == FAMILIES.keys()


def test_how_many_there_are():
    page = (anatomy.FILE.parents[1] / "reference" / "interop.rst").read_text("utf-8")
    assert f"LLaMA and {len(KIN.keys() - {'gemma3'})} of its relatives" in page
    page = (anatomy.FILE.parents[1] / "changelog.rst").read_text("utf-8")
    assert f"{len(FAMILIES.keys() - {'gemma3'})} families of models" in page


def test_the_families_that_are_refused():
    with anatomy.OTHERS.open(newline="") as file:
        _, *table = csv.reader(file)
    assert table == anatomy.others()
    for row in table:
        kind = row[0].strip("`")
        assert kind not in FAMILIES
        with pytest.raises(ValueError, match=f"'{kind}' .*, for which dlref lacks {row[2][:9]}"):
            from_state_dict({"a": [1.0]}, config={"model_type": kind})
        with pytest.raises(ValueError, match=f"not '{kind}', for which dlref lacks {row[2][:9]}"):
            from_state_dict({"a": [1.0]}, "llama", {"model_type": kind})


@pytest.mark.parametrize(
    ("kind", "column", "words"),
    [
        ("gemma2", "attention", "scores capped at 50"),
        ("smollm3", "positions", "none in 9 of 36 blocks"),
        ("olmo2", "norms", "of each sub-layer's output"),
        ("deepseek_v3", "network", "8 of 256 :func:`experts"),
        ("qwen3_next", "attention", "in 36 of 48 blocks"),
        ("gpt_oss", "attention", "sinks, windows of 128 tokens in 18 of 36 blocks"),
    ],
)
def test_facts_of_published_models(kind, column, words):
    """As their papers and configuration files have them."""
    row = dict(zip(anatomy.HEADER, anatomy.Model(kind).row(), strict=True))
    assert words in row[column]


@pytest.mark.parametrize(
    ("kind", "column", "words"),
    [
        ("cohere", "pairs", "neighbors"),
        ("llama", "pairs", "halves"),
        ("gpt_neox", "rotated", "16 of 64"),
        ("minimax_m2", "rotated", "64 of 128"),
        ("deepseek_v3", "scaling", "yarn by 40: DeepSeek-V3; yarn by 32: Kimi-K2-Instruct"),
        ("phi3", "scaling", "longrope: Phi-3-mini-128k-instruct"),
        ("gemma3_text", "window", "512 in 22 of 26 blocks"),
        ("gpt_oss", "sinks", "yes"),
        ("llama", "rounding", "before the weight"),
        ("gemma", "rounding", "after the weight"),
        ("cohere", "rounding", "after the weight"),
    ],
)
def test_choices_of_published_models(kind, column, words):
    """As their configuration files and Hugging Face's code have them."""
    table = {row[0].strip("`"): dict(zip(anatomy.CHOICES, row, strict=True))
             for row in anatomy.choices()}  # fmt: skip
    assert table[kind][column] == words
