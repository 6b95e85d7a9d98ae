"""Differential attention."""

import numpy as np
import pytest

from dlref.attention import (
    differential_attention,
    differential_attention_jvp,
    scaled_dot_product_attention,
)


@pytest.mark.parametrize("lam", ["number", "heads"])
def test_pytorch(rng, lam):
    peers = pytest.importorskip("peers")
    q1, q2, k1, k2 = rng.normal(size=(4, 2, 3, 5, 4))
    v = rng.normal(size=(2, 3, 5, 6))
    factor = np.array(0.4) if lam == "number" else rng.normal(size=(3, 1, 1))

    def f(q1, k1, q2, k2, v, lam):
        hidden = peers.torch.ones(5, 5, dtype=bool).triu(1)
        p1, p2 = (
            (q @ k.transpose(-1, -2) / 2).masked_fill(hidden, -np.inf).softmax(-1)
            for q, k in ((q1, k1), (q2, k2))
        )
        return (p1 - lam * p2) @ v

    operands = q1, k1, q2, k2, v, factor
    peers.assert_same("attention.differential_attention", f, *operands, rng=rng, is_causal=True)


def test_equal_maps_cancel(rng):
    q, k, v = rng.normal(size=(3, 2, 5, 4))
    assert not differential_attention(q, k, q, k, v, 1.0).any()
    half = differential_attention(q, k, q, k, v, 0.5)
    np.testing.assert_allclose(half, scaled_dot_product_attention(q, k, v) / 2, atol=1e-15)


def test_a_factor_of_each_head_with_one_axis_too_many(rng):
    q, k, v = rng.normal(size=(3, 5, 4))
    got = differential_attention(q, k, -q, k, v, [[0.5]])
    np.testing.assert_array_equal(got, differential_attention(q, k, -q, k, v, 0.5))


def test_errors(rng):
    q, k = np.ones((3, 4)), np.ones((5, 4))
    with pytest.raises(ValueError, match=r"^Argument 'q2' must have shape \(3, 4\), not \(5, 4\)"):
        differential_attention(q, k, k, k, k, 0.5)
    with pytest.raises(ValueError, match=r"^Argument 'lam' must broadcast to"):
        differential_attention(q, k, q, k, k, np.ones(3))
    with pytest.raises(TypeError, match="unexpected keyword"):
        differential_attention(q, k, q, k, k, 0.5, heads=3)
    assert differential_attention_jvp((q, k, q, k, k, 0.5), 6 * (None,)).shape == (3, 4)
