"""Stacks: the formula, the last norm, and the memory that all blocks read."""

import functools

import numpy as np
import pytest
import trees

from dlref.formulas import transformer as formulas
from dlref.transformer import (
    decoder,
    decoder_jvp,
    decoder_vjp,
    encoder,
    encoder_block,
    encoder_jvp,
    encoder_vjp,
)
from dlref.transformer._options import NO_CALL, BlockOptions, set_up_blocks
from dlref.transformer._stacks import Stack, stack_forward


@pytest.fixture(scope="module", autouse=True)
def drawing_here(drawing):
    globals()["Draw"] = drawing


def encoding(count=2, norm=True, options=None, *, memory=False, **kind):
    """Return what draws the arguments of a stack of the encoder, or of the decoder."""

    def problem(rng):
        draw = Draw(rng)  # noqa: F821
        block = draw.decoder_block if memory else draw.encoder_block
        params = tuple(block(**kind) for _ in range(count))
        last = (draw.norm(4),) if norm else ()
        inputs = [rng.normal(size=size) for size in [(2, 3, 4), (2, 5, 3)][: 1 + memory]]
        return (*inputs, params, *last), (), {"num_heads": 2, **(options or {})}

    return problem


decoding = functools.partial(encoding, memory=True)


class TestEncoder(trees.Contract):
    maps = encoder, encoder_vjp, encoder_jvp, formulas.encoder
    problems = [  # noqa: RUF012
        encoding(biases=False, options={"norm_first": True}),
        encoding(norm=False, options={"is_causal": True}),
        encoding(1, options={"bias": np.linspace(-1, 1, 9).reshape(3, 3), "norm_first": True}),
        encoding(3, norm=False, rms=True, gated=True, options={"eps": 0.1}),
        encoding(1, rms=True, options={"norm": "layer"}),
        encoding(2, options={"attention_dropout": (np.array([2.0, 0, 1]), None)}),
    ]


class TestDecoder(trees.Contract):
    maps = decoder, decoder_vjp, decoder_jvp, formulas.decoder
    problems = [  # noqa: RUF012
        decoding(biases=False, options={"norm_first": True}),
        decoding(norm=False, options={"memory_mask": np.arange(5) < 3}),
        decoding(2, options={"attention_dropout": (None, np.array([0.0, 2, 2]))}),
        decoding(1, options={"bias": np.linspace(-1, 1, 9).reshape(3, 3)}),
    ]


def test_dbias_is_the_sum_over_the_blocks(rng):
    (x, params, norm), _, _ = encoding()(rng)
    u, bias = rng.normal(size=x.shape), rng.normal(size=(3, 3))
    *_, dbias = encoder_vjp(u, x, params, norm, num_heads=2, bias=bias)
    h, move = 1e-6, rng.normal(size=(3, 3))
    up, down = (
        np.sum(u * encoder(x, params, norm, num_heads=2, bias=bias + s * h * move)) for s in (1, -1)
    )
    assert np.sum(dbias * move) == pytest.approx((up - down) / (2 * h), rel=1e-7)
    (x, memory, blocks, norm), _, _ = decoding()(rng)
    *_, dbias = decoder_vjp(u, x, memory, blocks, norm, num_heads=2, bias=bias)
    up, down = (
        np.sum(u * decoder(x, memory, blocks, norm, num_heads=2, bias=bias + s * h * move))
        for s in (1, -1)
    )
    assert np.sum(dbias * move) == pytest.approx((up - down) / (2 * h), rel=1e-7)


def test_of_no_blocks_a_bias_has_no_gradient(rng):
    x, bias = rng.normal(size=(3, 4)), np.ones((3, 3))
    dx, dparams, dbias = encoder_vjp(x, x, (), num_heads=2, bias=bias)
    assert dparams == ()
    assert not np.shares_memory(dx, x)
    assert dbias.tolist() == np.zeros((3, 3)).tolist()
    assert decoder_vjp(x, x, x, (), num_heads=2, bias=bias)[3].shape == (3, 3)


def test_dropout_belongs_to_a_block(rng):
    (x, params), _, _ = encoding(norm=False)(rng)
    nothing = np.zeros(4)
    got = encoder(x, params, num_heads=2, norm_first=True, dropout=(None, (nothing, nothing)))
    want = encoder_block(x, params[0], num_heads=2, norm_first=True)
    np.testing.assert_array_equal(got, want)


def test_the_residual_stream_of_pre_norm_grows(rng):
    """Independent terms of equal size: variance proportional to the number of blocks."""
    draw = Draw(rng)  # noqa: F821
    blocks = tuple(draw.encoder_block(32, 4, 64) for _ in range(16))
    x = rng.normal(size=(12, 32))
    sizes = []
    for block in blocks:
        x = encoder_block(x, block, num_heads=4, norm_first=True)
        sizes.append(np.mean(x**2))
    slope = np.polyfit(np.log(np.arange(1, 17)), np.log(sizes), 1)[0]
    assert 0.5 < slope < 1.5


class TestErrors:
    def test_structure(self, rng, draw):
        x, block = rng.normal(size=(3, 4)), draw.encoder_block()
        with pytest.raises(TypeError, match=r"'params' must be a tuple of blocks, not Encoder"):
            encoder(x, block, num_heads=2)
        with pytest.raises(TypeError, match=r"'params\[0\]' must be EncoderBlockParams"):
            encoder(x, (draw.decoder_block(),), num_heads=2)
        with pytest.raises(TypeError, match=r"'final_norm' must be NormParams"):
            encoder(x, (block,), np.ones(4), num_heads=2)

    def test_shapes(self, rng, draw):
        x, block = rng.normal(size=(3, 4)), draw.encoder_block()
        wrong = block._replace(norm1=(np.ones(3), None))
        with pytest.raises(ValueError, match=r"'params\[1\].norm1.weight' must have shape \(4,\)"):
            encoder(x, (block, wrong), num_heads=2)
        with pytest.raises(ValueError, match=r"'final_norm.weight' must have shape \(4,\)"):
            encoder(x, (block,), (np.ones(3),), num_heads=2)

    def test_dropout(self, rng, draw):
        with pytest.raises(
            ValueError, match=r"'dropout' must be a tuple of 1 tuples, one for each"
        ):
            encoder(rng.normal(size=(3, 4)), (draw.encoder_block(),), num_heads=2, dropout=())


class TestPullback:
    def test_can_be_called_twice(self, rng):
        draw = Draw(rng)  # noqa: F821
        params, norm = tuple(draw.encoder_block() for _ in range(2)), draw.norm(4)
        each = [BlockOptions(num_heads=2)] * 2
        stack = Stack(params, norm, set_up_blocks(each, NO_CALL, 2, 2, np.ones((3, 4))), each[-1])
        _, pullback = stack_forward(rng.normal(size=(3, 4)), stack)
        u = rng.normal(size=(3, 4))
        once, twice = pullback(u), pullback(u)
        for a, b in zip(trees.leaves(once), trees.leaves(twice), strict=True):
            np.testing.assert_array_equal(a, b)
        np.testing.assert_allclose(pullback(2 * u)[0], 2 * once[0], rtol=1e-13)
