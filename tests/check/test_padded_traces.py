"""Traces of padded texts: each text as if it were alone, and ports whose padding is anything."""

import numpy as np
import pytest
import trees

from dlref.check import first_difference, trace
from dlref.transformer import (
    GatedDeltaParams,
    LanguageModelConfig,
    init_language_model,
    language_model,
)

LENGTHS, T, V = [3, 6, 1, 5], 6, 11


def model(positions="rope", **fields):
    rng = np.random.default_rng(0)
    config = LanguageModelConfig(V, 12, 3, positions=positions, length=8, **fields)
    params = trees.drawn(rng, init_language_model(rng, config), 0.3)
    return params, config, rng.integers(0, V, (len(LENGTHS), T))


def texts(padding):
    return [slice(0, n) if padding == "right" else slice(T - n, T) for n in LENGTHS]


def junk(steps, padding):
    """Return arrays as a port has them, which computes something at every place."""
    rng, arrays = np.random.default_rng(1), {}
    for name, array in steps.items():
        arrays[name] = array.copy()
        for row, here in zip(arrays[name], texts(padding), strict=True):
            spare = np.ones(T, bool)
            spare[here] = False
            row[..., spare, :] = rng.normal(size=row[..., spare, :].shape)
    return arrays


@pytest.mark.parametrize("padding", ["right", "left"])
@pytest.mark.parametrize("positions", ["rope", "learned", "alibi", "t5"])
class TestPaddedTraces:
    def test_each_text_is_as_if_alone(self, positions, padding):
        params, config, ids = model(positions)
        options = {"lengths": LENGTHS, "padding": padding}
        steps = trace(language_model, ids, params, config, **options)
        np.testing.assert_allclose(
            steps["logits"], language_model(ids, params, config, **options), rtol=0, atol=1e-13
        )
        for i, here in enumerate(texts(padding)):
            alone = trace(language_model, ids[i, here], params, config)
            assert [*alone] == [*steps]
            for name, want in alone.items():
                got = steps[name][i]
                spare = np.ones(T, bool)
                spare[here] = False
                assert not got[..., spare, :].any()
                if name.endswith(("attention.scores", "attention.weights")):
                    np.testing.assert_array_equal(
                        got[..., here, spare], -np.inf if "scores" in name else 0
                    )
                    got = got[..., here]
                np.testing.assert_allclose(got[..., here, :], want, rtol=0, atol=1e-13)

    def test_a_right_port_leaves_no_path(self, positions, padding):
        params, config, ids = model(positions)
        steps = trace(language_model, ids, params, config, lengths=LENGTHS, padding=padding)
        port = junk(steps, padding)
        assert first_difference(steps, port) is None
        for name in port:
            if ".attention." in name and port[name].ndim == 4:
                port[name] = np.swapaxes(port[name], 1, 2)  # heads after the time axis
        assert first_difference(steps, port) is None

    def test_a_mistake_is_named(self, positions, padding):
        params, config, ids = model(positions, activation="gelu")
        wrong = model(positions, activation="relu")[1]
        options = {"lengths": LENGTHS, "padding": padding}
        steps = trace(language_model, ids, params, config, **options)
        port = junk(trace(language_model, ids, params, wrong, **options), padding)
        difference = first_difference(steps, port)
        assert (difference.name, difference.cause) == (
            "blocks.0.feed_forward.hidden",
            "the activation is relu",
        )
        last = {name: port[name] for name in ("blocks.0.sum1", "blocks.0.out")}
        assert first_difference(steps, last).cause == "the activation is relu"


def test_tokens_that_attend_to_the_padding():
    params, config, ids = model()
    steps = trace(language_model, ids, params, config, lengths=LENGTHS, padding="left")
    port = junk(steps, "left")
    plain = trace(language_model, ids, params, config)["blocks.0.attention.weights"]
    port["blocks.0.attention.weights"] = plain
    del port["blocks.0.attention.scores"]
    difference = first_difference(steps, port)
    assert difference.name == "blocks.0.attention.weights"
    assert difference.cause == "tokens attend to the padding"
    port["blocks.0.attention.weights"] = steps["blocks.0.attention.weights"] ** 2
    assert first_difference(steps, port).cause == ""
    port["blocks.0.attention.weights"] = plain[:, :1]
    assert "it has shape" in first_difference(steps, port).cause


@pytest.mark.parametrize("padding", ["right", "left"])
def test_a_block_with_a_gated_delta_rule(padding):
    rng = np.random.default_rng(2)
    params, config, ids = model(norm="rms", biases=False, blocks={"delta_heads": 2})
    shapes = [
        (6, 12),
        (6, 12),
        (8, 12),
        (8, 12),
        (4, 12),
        (4, 12),
        (20, 3),
        (4,),
        (4,),
        (2,),
        (12, 8),
    ]
    delta = GatedDeltaParams(*(rng.normal(size=shape) / 2 for shape in shapes))
    blocks = tuple(block._replace(attention=delta) for block in params.blocks)
    params = params._replace(blocks=blocks)
    options = {"lengths": LENGTHS, "padding": padding}
    steps = trace(language_model, ids, params, config, **options)
    want = language_model(ids, params, config, **options)
    np.testing.assert_allclose(steps["logits"], want, rtol=0, atol=1e-12)
    for i, here in enumerate(texts(padding)):
        alone = trace(language_model, ids[i, here], params, config)
        name = "blocks.0.attention.decay"
        np.testing.assert_allclose(steps[name][i][..., here], alone[name], rtol=0, atol=1e-13)
    assert first_difference(steps, dict(steps)) is None


def test_one_text_and_errors():
    params, config, ids = model()
    steps = trace(language_model, ids[0], params, config, lengths=3, padding="left")
    assert not steps["logits"][:3].any()
    with pytest.raises(ValueError, match="'lengths' must"):
        trace(language_model, ids, params, config, lengths=[1])
    with pytest.raises(ValueError, match="a trace is of a model at inference"):
        trace(language_model, ids, params, config, embedding_dropout=np.ones((4, 6, 12)))


def test_texts_of_one_length_hide_nothing():
    params, config, ids = model()
    assert trace(language_model, ids, params, config).hidden("logits") is None
