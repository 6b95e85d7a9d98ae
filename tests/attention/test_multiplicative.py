"""Multiplicative attention."""

import numpy as np
import peers
import pytest

from dlref.attention import (
    multiplicative_attention,
    multiplicative_attention_jvp,
    multiplicative_attention_vjp,
    scaled_dot_product_attention,
)

SHAPES = (2, 5, 3), (2, 6, 4), (2, 6, 7), (3, 4)


def by_torch(q, k, v, w):
    return peers.torch.softmax(0.5 * q @ w @ k.transpose(-1, -2), -1) @ v


def test_against_pytorch(rng):
    operands = [rng.normal(size=s) for s in SHAPES]
    peers.assert_same("attention.multiplicative_attention", by_torch, *operands, rng=rng, scale=0.5)


class TestForms:
    def test_identity_is_the_dot_product(self, rng, assert_close):
        q, k, v = (rng.normal(size=(5, 4)) for _ in range(3))
        got = multiplicative_attention(q, k, v, np.eye(4), scale=0.5, is_causal=True)
        assert_close(got, scaled_dot_product_attention(q, k, v, is_causal=True))

    def test_a_head_is_a_form_of_low_rank(self, rng, assert_close):
        x, w_q, w_k = rng.normal(size=(5, 6)), rng.normal(size=(2, 6)), rng.normal(size=(2, 6))
        want = scaled_dot_product_attention(x @ w_q.T, x @ w_k.T, x)
        assert_close(multiplicative_attention(x, x, x, w_q.T @ w_k, scale=2**-0.5), want)

    def test_extra_results_and_gradients(self, rng, assert_close):
        q, k, v, w = (rng.normal(size=s) for s in SHAPES)
        bias = rng.normal(size=(2, 5, 6))
        options = {"bias": bias, "return_lse": True, "return_weights": True}
        out, lse, p = multiplicative_attention(q, k, v, w, **options)
        assert_close(p @ v, out)
        moved = multiplicative_attention_jvp((q, k, v, w), (None, None, v, None), **options)
        assert_close(moved[0], out)
        assert np.all(moved[1] == 0)
        assert lse.shape == (2, 5)
        *_, dbias = multiplicative_attention_vjp(out, q, k, v, w, bias=bias)
        assert dbias.shape == bias.shape


class TestErrors:
    def test_shapes(self):
        q, k, w = np.ones((5, 3)), np.ones((6, 4)), np.ones((4, 3))
        with pytest.raises(ValueError, match=r"'w' must have shape \(3, 4\), not \(4, 3\)"):
            multiplicative_attention(q, k, k, w)
