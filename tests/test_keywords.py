"""Functions that take any keyword document which ones, and refuse all others."""

import importlib
import inspect
import re

import numpy as np
import pytest
from chapters import CHAPTERS

from dlref import recurrent, transformer
from dlref.recurrent._sequences import CELLS

ANY = inspect.Parameter.VAR_KEYWORD
BASES = (
    "bidirectional",
    "encoder_decoder",
    "sequence_to_sequence",
    "sequence_to_vector",
    "vector_to_sequence",
)
FORMS = ("", "_vjp", "_jvp")
ONE, X, U = (None, [[1.0]], [[1.0]]), np.ones((2, 1)), np.ones((2, 1))


def functions_of_any_keyword():
    """Yield the public functions that have ``**options`` in their signature."""
    for chapter in (*CHAPTERS, "check"):
        module = importlib.import_module(f"dlref.{chapter}")
        for name in module.__all__:
            f = getattr(module, name)
            if inspect.isfunction(f) and ANY in {
                p.kind for p in inspect.signature(f).parameters.values()
            }:
                yield chapter, name


def test_who_takes_any_keyword():
    blocks = ("encoder", "encoder_block", "decoder", "decoder_block")
    assert {*functions_of_any_keyword()} == {
        *(("recurrent", base + form) for base in BASES for form in FORMS),
        *(("transformer", base + form) for base in blocks for form in FORMS),
        *(("check", name) for name in ("check_forward", "check_vjp", "check_jvp", "trace")),
    }


def documented(name):
    """Return the words on ``**options`` in a docstring, and of the map that it refers to."""
    text = inspect.getdoc(getattr(recurrent, name))
    line = re.search(r"^[^\n]*\*\*options([^\n]*)\n((?:    .*\n)+)", text, re.MULTILINE)
    words = {*re.findall(r"\w+", line[2])}
    base = re.search(r"as in `(\w+)`", line[1])
    return words | documented(base[1]) if base else words


def called(name, f, **options):
    """Call a form of a network of two steps of one number."""
    weights = (None, *ONE) if f == "lstm" else ONE
    # four gates and three are as many rows
    gates = {"rnn": 1, "lstm": 4, "gru": 3}[f]
    weights = (*weights[:-2], np.ones((gates, 1)), np.ones((gates, 1)))
    base = re.sub("_[vj][jv]p$", "", name)
    arguments = {
        "bidirectional": (X, weights, weights),
        "encoder_decoder": (X, X, weights, weights[-2:], None, None),
        "vector_to_sequence": (X[0], weights, None, None),
    }.get(base, (X, weights, None, None))
    if base == "vector_to_sequence":
        options["steps"] = 2
    cell, function = getattr(recurrent, f), getattr(recurrent, name)
    if name.endswith("_jvp"):
        return function(cell, arguments, (None,) * len(arguments), **options)
    out = getattr(recurrent, base)(cell, *arguments, **options)
    return function(out, cell, *arguments, **options) if name.endswith("_vjp") else out


VALUES = {
    "activation": "tanh",
    "reset_after": True,
    "reverse": True,
    "lengths": np.array(1),
    "segment_ids": np.array(0),
    "w_p": np.ones(3),
    "w_p_tangent": np.ones(3),
    "truncate": 1,
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("base", BASES)
def test_networks_take_the_keywords_that_they_document(base, form):
    name, taken = base + form, set()
    every = {key for f in CELLS.values() for part in f[:3] for key in part.__kwdefaults__}
    assert every == {*VALUES}
    for f in CELLS:
        called(name, f)
        for key, value in VALUES.items():
            with_it = {"w_p": VALUES["w_p"], key: value} if key == "w_p_tangent" else {key: value}
            try:
                called(name, f, **with_it)
            except TypeError as error:
                if not re.search("unexpected keyword argument|must be left out", str(error)):
                    raise
            else:
                taken.add(key)
    assert taken == documented(name) & {*VALUES}


def test_blocks_take_the_fields_of_their_options():
    fields = {field.name for field in transformer.BlockOptions.__dataclass_fields__.values()}
    parameters = transformer.BlockOptions.__doc__.partition("See Also")[0]
    documented_fields = re.findall(r"^    (\w[\w, ]*) :", parameters, re.MULTILINE)
    assert fields == {name for line in documented_fields for name in line.split(", ")}
