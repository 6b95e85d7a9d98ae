"""Families of decoders without the package transformers: states made from the layouts."""

import numpy as np
import pytest
from decoders import FAMILIES, V
from interop_states import configured, state_of

from dlref._core.pytree import map_tree, tree_leaves
from dlref.check import first_difference, trace
from dlref.interop import from_state_dict, to_state_dict
from dlref.transformer import generate, language_model, language_model_loss_value_and_grad

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


@pytest.mark.parametrize("kind", FAMILIES)
def test_a_step_against_the_gradient_lowers_the_loss(kind, rng):
    settings = configured(kind, FAMILIES[kind][1][0])
    params, own = from_state_dict(state_of(kind, settings, rng), config=settings)
    ids = rng.integers(3, V, (2, 8))
    loss, grads = language_model_loss_value_and_grad(ids, params, own)
    square = sum(float(np.sum(a * a)) for a in tree_leaves(grads) if a is not None)
    step = 1e-3 * float(loss) / square  # of the loss, if it were linear
    moved = map_tree(lambda p, g: p if g is None else p - step * g, params, grads)
    after = float(language_model_loss_value_and_grad(ids, moved, own)[0])
    assert 0.5e-3 < 1 - after / float(loss) < 1.5e-3


@pytest.mark.parametrize(
    ("kind", "entries", "words"),
    [
        ("internlm3", {"qkv_bias": True}, "'bias' must be as 'qkv_bias'"),
        ("hunyuan_v1_moe", {"moe_topk": [1, 2, 2]}, "'moe_topk' must be the same in all layers"),
        ("hy_v3", {"mlp_layer_types": ["dense"]}, "'mlp_layer_types' must be 3 of 'dense'"),
        ("hyperclovax", {"use_post_norm": False}, "'use_post_norm' must be True"),
        ("qwen3_5_text", {"linear_num_key_heads": 4}, "must fit 4 heads of keys in the layer"),
    ],
)
def test_entries_that_do_not_fit(kind, entries, words, rng):
    settings = configured(kind, FAMILIES[kind][1][0])
    state = state_of(kind, settings, rng)
    with pytest.raises(ValueError, match=words):
        from_state_dict(state, config=settings | entries)


def test_a_tensor_of_the_delta_rule_that_is_missing(rng):
    settings = configured("qwen3_5_text", FAMILIES["qwen3_5_text"][1][0])
    state = state_of("qwen3_5_text", settings, rng)
    del state["model.layers.0.linear_attn.in_proj_z.weight"]
    with pytest.raises(ValueError, match=r"in_proj_z\.weight' is missing"):
        from_state_dict(state, config=settings)
