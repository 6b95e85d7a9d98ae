"""The bias of forgetting attention."""

import numpy as np
import pytest

from dlref.attention import (
    forgetting_bias,
    forgetting_bias_jvp,
    forgetting_bias_vjp,
    scaled_dot_product_attention,
)
from dlref.positions import alibi_bias, alibi_slopes


@pytest.mark.parametrize("offset", [0, 3, 6])
def test_pytorch(rng, offset):
    peers = pytest.importorskip("peers")
    f, u = -rng.exponential(size=(2, 3, 6)), rng.normal(size=(2, 3, 6 - offset, 6))

    def cumulative(f):
        c = f.cumsum(-1)
        return (c[..., offset:, None] - c[..., None, :]).tril(offset)

    value, (grad,) = peers.value_and_vjp(cumulative, f, dout=u)
    np.testing.assert_allclose(forgetting_bias(f, q_offset=offset), value, rtol=0, atol=4e-15)
    np.testing.assert_allclose(forgetting_bias_vjp(u, f, q_offset=offset), grad, rtol=0, atol=2e-14)


@pytest.mark.parametrize("offset", [0, 2])
def test_a_constant_gate_is_alibi(offset):
    slopes = alibi_slopes(4)
    f = np.repeat(-slopes[:, None], 6, axis=1)
    want = alibi_bias(slopes, 6 - offset, 6, q_offset=offset)
    seen = np.tri(6 - offset, 6, offset, dtype=bool)
    got = forgetting_bias(f, q_offset=offset)
    np.testing.assert_allclose(got[:, seen], want[:, seen], rtol=1e-15)
    assert not got[:, ~seen].any()


def test_a_closed_gate_hides_what_was_before(rng):
    q, k, v = rng.normal(size=(3, 1, 6, 4))
    f = np.zeros((1, 6))
    f[0, 3] = -np.inf
    out = scaled_dot_product_attention(q, k, v, bias=forgetting_bias(f), is_causal=True)
    rest = (x[:, 3:] for x in (q, k, v))
    want = scaled_dot_product_attention(*rest, is_causal=True)
    np.testing.assert_allclose(out[:, 3:], want, atol=1e-15)


def test_late_sums_keep_their_digits():
    f = np.full((1, 400), -50.0)
    f[0, -1] = -1e-12
    assert forgetting_bias(f)[0, -1, -2] == -1e-12


def test_the_tangent_is_the_bias_of_the_tangent(rng):
    f, v = rng.normal(size=(2, 3, 5))
    np.testing.assert_array_equal(forgetting_bias_jvp(f, v), forgetting_bias(v))


def test_errors():
    with pytest.raises(ValueError, match=r"^Argument 'q_offset' must be at most 3, not 4"):
        forgetting_bias(np.ones((2, 3)), q_offset=4)
    with pytest.raises(ValueError, match=r"^Argument 'log_forget' must have at least 1 axis"):
        forgetting_bias(1.0)
    with pytest.raises(ValueError, match=r"^Argument 'dout' must have shape \(2, 3\), not"):
        forgetting_bias_vjp(np.ones((3, 3)), np.ones(3), q_offset=1)
