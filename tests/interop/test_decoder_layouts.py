"""Families of decoders without the package transformers: states made from the layouts."""

import numpy as np
import pytest
from decoders import FAMILIES, V
from interop_states import configured, state_of

from dlref.check import first_difference, trace
from dlref.interop import from_state_dict, to_state_dict
from dlref.transformer import generate, language_model

CASES = [
    pytest.param(kind, settings, id=f"{kind}-{i}")
    for kind, (_, every) in FAMILIES.items()
    for i, settings in enumerate(every)
]


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
