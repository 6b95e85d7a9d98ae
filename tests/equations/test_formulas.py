"""Every public map and every derivative displays its formula."""

import importlib
import inspect

import pytest
from equations import ledger

CHAPTERS = [
    "activations",
    "attention",
    "calculus",
    "convolution",
    "losses",
    "neurons",
    "normalization",
    "positions",
    "propagation",
    "recurrent",
    "training",
    "transformer",
]
#: Functions that are no formula of a reader's, and why.
EXCLUDED = {
    "training.tree_map": "handles containers",
    "training.tree_ravel": "handles containers",
    "training.tree_unravel": "handles containers",
    "transformer.addition_task": "draws examples",
    "transformer.associative_recall_task": "draws examples",
    "transformer.copy_task": "draws examples",
    "transformer.reverse_task": "draws examples",
    "transformer.init_encoder_decoder_model": "draws parameters; its schemes have theirs displayed",
    "transformer.init_language_model": "draws parameters; its schemes have theirs displayed",
    "transformer.init_sequence_classifier": "draws parameters; its schemes have theirs displayed",
    "transformer.load_params": "reads a file",
    "transformer.save_params": "writes a file",
}


def functions():
    for chapter in CHAPTERS:
        module = importlib.import_module(f"dlref.{chapter}")
        for name in module.__all__:
            if inspect.isfunction(f := getattr(module, name)):
                yield f"{chapter}.{name}", f


FUNCTIONS = dict(functions())


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_public_map_displays_its_formula(name):
    if name in EXCLUDED:
        pytest.skip(EXCLUDED[name])
    file = FUNCTIONS[name].__module__.replace(".", "/") + ".py"
    shown = ledger.displayed(inspect.getdoc(FUNCTIONS[name]))
    assert shown, f"{file}: display the formula of {name}"


def test_the_exclusions_are_needed():
    assert all(not ledger.displayed(inspect.getdoc(FUNCTIONS[name])) for name in EXCLUDED)
