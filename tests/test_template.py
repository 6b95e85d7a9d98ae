"""Backward passes are derived in three steps: differential, inner product, transpose."""

import importlib
import inspect
import re

import pytest

STEPS = ["**The differential.**", "**The inner product.**", "**The transpose.**"]
#: Functions whose derivation takes the three steps of the page docs/adjoints.rst.
DERIVED = {
    "activations": "glu log_softmax logsumexp relu sigmoid softmax swiglu tanh",
    "attention": "attention_scores attention_weights linear_attention multi_head_attention "
    "multiplicative_attention repeat_kv scaled_dot_product_attention",
    "calculus": "cumsum divide dot inverse logdet matmul mean multiply norm quadratic_form sum",
    "convolution": "conv",
    "losses": "squared_error",
    "neurons": "dropout embedding linear lora_linear mlp neuron",
    "normalization": "batch_norm group_norm l2_norm layer_norm rms_norm sinkhorn weight_norm",
    "positions": "apply_rope rope_score",
    "recurrent": "gru gru_cell lstm lstm_cell rnn rnn_cell",
    "transformer": "encoder_block feed_forward gated_feed_forward",
}
FUNCTIONS = {
    f"{chapter}.{name}_vjp": getattr(importlib.import_module(f"dlref.{chapter}"), f"{name}_vjp")
    for chapter, names in DERIVED.items()
    for name in names.split()
}
GRADIENT = re.compile(r"\\d?p?dv\{L\}|\\partial L|\\vec\\delta|\\vec g_i")


def test_forty_nine_backward_passes_follow_the_template():
    assert len(FUNCTIONS) >= 49


@pytest.mark.parametrize("name", FUNCTIONS)
def test_three_steps_in_this_order(name):
    text = inspect.getdoc(FUNCTIONS[name])
    places = [text.find(step) for step in STEPS]
    assert -1 < places[0] < places[1] < places[2], "the headings of the three steps, in order"
    assert all(text.count(step) == 1 for step in STEPS)
    differential, product, transpose = (
        text[a:b] for a, b in zip(places, [*places[1:], len(text)], strict=True)
    )
    assert r"\dd " in differential, "a formula of the differential"
    assert r"\dd L" in product, "the change of the loss"
    assert ".. math::" in transpose, "the gradient, displayed"
    assert GRADIENT.search(transpose)


def test_no_other_backward_pass_has_a_part_of_the_template():
    found = set()
    for chapter in DERIVED:
        module = importlib.import_module(f"dlref.{chapter}")
        for name in module.__all__:
            f = getattr(module, name)
            if inspect.isfunction(f) and any(step in (inspect.getdoc(f) or "") for step in STEPS):
                found.add(f"{chapter}.{name}")
    assert found == set(FUNCTIONS)
