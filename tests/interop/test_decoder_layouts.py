"""Families of decoders without the package transformers: states made from the layouts."""

import numpy as np
import pytest
from decoders import FAMILIES, SIZES, V

from dlref.check import first_difference, trace
from dlref.interop import _families as families
from dlref.interop import from_state_dict, to_state_dict
from dlref.interop._settings import Settings
from dlref.transformer import generate, language_model

CASES = [
    pytest.param(kind, settings, id=f"{kind}-{i}")
    for kind, (_, every) in FAMILIES.items()
    for i, settings in enumerate(every)
]


def configured(kind, settings):
    sizes = {k: v for k, v in SIZES.items() if kind != "gpt_neox" or k != "num_key_value_heads"}
    return {"model_type": kind, **sizes, **settings}


def tensors(layout):
    if isinstance(layout, families.Tensor):
        yield layout
    elif layout is not None:
        for part in layout:
            yield from tensors(part)


def state_of(kind, config, rng):
    """Return a state with a random array for each tensor of the layout."""
    family, settings = families.FAMILIES[kind], Settings(config, kind, families.KNOWN)
    found = family.config(settings)
    sizes = {"n": 4, "M": 12} | families._sizes(found)  # experts, and their width
    state = {}
    for tensor in tensors(family.layout(found, family.base)):
        axes = [families_axis(term) for term in tensor.shape.split(", ")]
        shape = [factor * sizes[symbol] for factor, symbol in axes]
        state.setdefault(tensor.name, rng.normal(size=shape) / 4)
    return state


def families_axis(term):
    *factor, symbol = term.split(" ")
    return int(factor[0]) if factor else 1, symbol


@pytest.mark.parametrize(("kind", "settings"), CASES)
def test_a_state_is_read_run_and_written_back(kind, settings, rng):
    config = configured(kind, settings)
    state = state_of(kind, config, rng)
    params, own = from_state_dict(state, config=config)
    ids = rng.integers(3, V, (1, 8))
    logits = language_model(ids, params, own)
    assert logits.shape == (1, 8, V)
    assert np.isfinite(logits).all()
    steps = trace(language_model, ids, params, own)
    np.testing.assert_allclose(steps["logits"], logits, atol=1e-12 * abs(logits).max())
    assert first_difference(steps, dict(steps)) is None
    text = generate(ids, params, own, steps=2, temperature=0)
    want = language_model(text[:, :-1], params, own)[:, -2:]
    np.testing.assert_array_equal(text[:, -2:], want.argmax(-1))
    back = to_state_dict(params, kind, own)
    assert back.keys() == state.keys()
    for name, array in back.items():
        np.testing.assert_array_equal(array, state[name])
