"""Configurations: their defaults and errors, and where the parameters start."""

import copy
import pickle
from dataclasses import asdict, replace

import numpy as np
import pytest
import trees

from dlref.activations import gelu
from dlref.transformer import (
    LanguageModelConfig,
    init_language_model,
    language_model,
    language_model_loss,
    language_model_trace,
)

PLAIN = {"vocab_size": 11, "d_model": 12, "num_heads": 3}


class TestDefaults:
    def test_follow_from_other_fields(self):
        config = LanguageModelConfig(**PLAIN)
        assert (config.num_kv_heads, config.d_ff, config.head_dim) == (3, 48, 4)
        assert LanguageModelConfig(**PLAIN, activation="swiglu").d_ff == 32
        assert LanguageModelConfig(**PLAIN, positions="sinusoidal").scale_embeddings is True
        assert LanguageModelConfig(**PLAIN).embedding_scale == 1.0

    def test_are_filled_in_for_good(self):
        config = LanguageModelConfig(**PLAIN)
        assert replace(config, num_layers=5).d_ff == 48
        with pytest.raises(AttributeError):
            config.d_model = 24

    def test_order_of_the_first_fields(self):
        config = LanguageModelConfig(50, 16, 4, 2, 3, 40, "alibi", "rms", "swiglu")
        assert (config.num_kv_heads, config.num_layers, config.d_ff) == (2, 3, 40)
        assert (config.positions, config.norm, config.activation) == ("alibi", "rms", "swiglu")


class TestErrors:
    @pytest.mark.parametrize(
        ("fields", "message"),
        [
            ({"num_heads": 5}, "'num_heads' must divide d_model = 12, not 5"),
            ({"num_kv_heads": 2}, "'num_kv_heads' must divide num_heads = 3, not 2"),
            ({"positions": "rotary"}, "'positions' must be 'learned', .* not 'rotary'"),
            (
                {"positions": "rope", "num_heads": 4},
                "'positions' must not be 'rope' where .* = 3 is odd",
            ),
            ({"norm": "batch"}, "'norm' must be 'layer' or 'rms', not 'batch'"),
            ({"activation": "swish"}, "'activation' must be .* not 'swish'"),
            ({"d_model": 0}, "'d_model' must be at least 1, not 0"),
            ({"vocab_size": -1}, "'vocab_size' must be at least 1, not -1"),
            ({"num_layers": -1}, "'num_layers' must be at least 0, not -1"),
            ({"embedding_dim": 0}, "'embedding_dim' must be at least 1, not 0"),
            ({"num_decoder_layers": -1}, "'num_decoder_layers' must be at least 0, not -1"),
            ({"num_decoder_layers": 3, "blocks": ({}, {})}, "where both halves differ in depth"),
            ({"num_layers": 10**12}, "'num_layers' must be at most 65536, not 1000000000000"),
            ({"positions": "rope", "head_dim": 2**31}, "'head_dim' must be at most 1048576"),
            ({"d_ff": 0}, "'d_ff' must be at least 1, not 0"),
            ({"length": 0}, "'length' must be at least 1, not 0"),
            ({"eps": -1}, "'eps' must be at least 0, not -1"),
            ({"rope_base": 0}, "'rope_base' must be greater than 0, not 0"),
            ({"alibi_exponent": 0}, "'alibi_exponent' must be greater than 0, not 0"),
        ],
    )
    def test_name_the_field(self, fields, message):
        with pytest.raises(ValueError, match=message):
            LanguageModelConfig(**{**PLAIN, **fields})

    @pytest.mark.parametrize(
        ("fields", "message"),
        [
            ({"num_heads": 2.0}, "'num_heads' must be an integer, not 2.0"),
            ({"tied": None}, "'tied' must be True or False, not None"),
            ({"norm_first": 2}, "'norm_first' must be True or False, not 2"),
            ({"scale_embeddings": "yes"}, "'scale_embeddings' must be True or False, not 'yes'"),
            ({"eps": "small"}, "'eps' must be a number, not 'small'"),
            ({"rope_scaling": "yarn"}, "'rope_scaling' must be a dictionary, not 'yarn'"),
        ],
    )
    def test_of_type(self, fields, message):
        with pytest.raises(TypeError, match=message):
            LanguageModelConfig(**{**PLAIN, **fields})

    def test_of_init(self, rng):
        with pytest.raises(TypeError, match=r"'config' must be a LanguageModelConfig, not 3"):
            init_language_model(rng, 3)
        with pytest.raises(TypeError, match=r"'rng' must be a numpy.random.Generator, not 3"):
            init_language_model(3, LanguageModelConfig(**PLAIN))
        with pytest.raises(TypeError, match=r"'dtype' must be integer, float16"):
            init_language_model(rng, LanguageModelConfig(**PLAIN), dtype=str)


class TestInit:
    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_dtype(self, rng, dtype):
        params = init_language_model(rng, LanguageModelConfig(**PLAIN, tied=False), dtype=dtype)
        assert {a.dtype for a in trees.leaves(params)} == {np.dtype(dtype)}

    def test_equal_seeds_give_equal_parameters(self):
        one, two = (
            init_language_model(np.random.default_rng(3), LanguageModelConfig(**PLAIN))
            for _ in range(2)
        )
        for a, b in zip(trees.leaves(one), trees.leaves(two), strict=True):
            np.testing.assert_array_equal(a, b)

    @pytest.mark.parametrize(
        ("fields", "missing"),
        [
            ({"biases": False}, ("b_q", "b_k", "b_v", "b_o")),
            ({"biases": False, "norm": "layer"}, ("bias",)),
        ],
    )
    def test_without_biases(self, rng, fields, missing):
        block = init_language_model(rng, LanguageModelConfig(**PLAIN, **fields)).blocks[0]
        for name in missing:
            assert getattr(block.attention if name != "bias" else block.norm1, name) is None
        assert block.feed_forward.b1 is None

    @pytest.mark.parametrize("positions", ["sinusoidal", "rope", "alibi", "none"])
    def test_schemes_without_parameters(self, rng, positions):
        fields = {**PLAIN, "positions": positions}
        assert init_language_model(rng, LanguageModelConfig(**fields)).positions is None

    def test_the_stream_does_not_grow_with_depth(self, rng):
        tokens = rng.integers(0, 11, (2, 8))
        sizes = []
        for layers in (1, 12):
            config = LanguageModelConfig(11, 32, 4, num_layers=layers)
            trace = language_model_trace(tokens, init_language_model(rng, config), config)
            sizes.append(np.mean((trace.residual[-1] - trace.residual[0]) ** 2))
        assert 0.5 < sizes[1] / sizes[0] < 2

    @pytest.mark.parametrize("positions", ["learned", "sinusoidal", "rope", "t5"])
    def test_the_first_loss_is_that_of_a_guess(self, rng, positions):
        config = LanguageModelConfig(50, 32, 4, positions=positions, tied=positions != "sinusoidal")
        loss = language_model_loss(
            rng.integers(0, 50, (4, 8)), init_language_model(rng, config), config
        )
        assert abs(loss - np.log(50)) < 0.15

    def test_a_model_without_layers(self, rng):
        config = LanguageModelConfig(**PLAIN, num_layers=0, positions="t5")
        params = init_language_model(rng, config)
        assert language_model([1, 2], params, config).shape == (2, 11)


def test_rope_scaling_is_that_of_positions(rng):
    """Linear scaling by 2: every second position of the scaled model is one of the plain one."""
    plain = LanguageModelConfig(**PLAIN, positions="rope", num_layers=1)
    scaled = replace(plain, rope_scaling={"rope_type": "linear", "factor": 2.0})
    params = init_language_model(rng, plain)
    a = language_model_trace([1, 2, 3], params, plain).weights[0]
    b = language_model_trace([1, 1, 2, 2, 3, 3], params, scaled).weights[0]
    some = b[:, ::2, ::2] / b[:, ::2, ::2].sum(-1, keepdims=True)
    np.testing.assert_allclose(some, a, atol=1e-14)


def test_gelu_is_far_from_linear_at_unit_variance():
    z, weight = np.polynomial.hermite_e.hermegauss(200)
    weight, y = weight / weight.sum(), gelu(z)
    mean = weight @ y
    explained = (weight @ (y * z)) ** 2 / (weight @ (y - mean) ** 2)
    assert round(explained, 2) == 0.72
    assert "explains 72 %" in init_language_model.__doc__


@pytest.mark.parametrize(
    "scaling",
    [
        {"rope_type": "linear", "factor": 2.0},
        {"rope_type": "longrope", "long_factor": [1.0, 2.0], "short_factor": np.ones(2)},
    ],
)
def test_a_configuration_with_a_scaling_can_be_hashed(scaling):
    config = LanguageModelConfig(9, 8, 2, rope_scaling=scaling)
    assert hash(config) == hash(LanguageModelConfig(9, 8, 2, rope_scaling=dict(scaling)))
    assert repr(config.rope_scaling) == repr(scaling)
    for copied in (pickle.loads(pickle.dumps(config)), copy.deepcopy(config)):
        assert hash(copied) == hash(config)
        assert copied.rope_scaling.keys() == scaling.keys()


def test_nor_can_its_scaling_be_changed():
    given = {"rope_type": "linear", "factor": 2.0}
    config = LanguageModelConfig(9, 8, 2, rope_scaling=given)
    given["factor"] = 4.0
    assert config.rope_scaling["factor"] == 2.0
    with pytest.raises(TypeError, match="the configuration is frozen"):
        config.rope_scaling["factor"] = 4.0
    with pytest.raises(TypeError, match="the configuration is frozen"):
        config.rope_scaling.update(factor=4.0)
    assert asdict(config)["rope_scaling"] == {"rope_type": "linear", "factor": 2.0}
