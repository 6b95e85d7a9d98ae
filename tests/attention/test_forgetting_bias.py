"""The bias of forgetting attention."""

import numpy as np
import pytest

from dlref import attention
from dlref.attention import (
    forgetting_bias,
    forgetting_bias_jvp,
    forgetting_bias_vjp,
    scaled_dot_product_attention,
)
from dlref.formulas import attention as formulas
from dlref.positions import alibi_bias, alibi_slopes


@pytest.mark.parametrize("offset", [0, 3, 6])
def test_pytorch(rng, offset):
    peers = pytest.importorskip("peers")

    def cumulative(f):
        c = f.cumsum(-1)
        return (c[..., offset:, None] - c[..., None, :]).tril(offset)

    f = -rng.exponential(size=(2, 3, 6))
    peers.assert_same("attention.forgetting_bias", cumulative, f, rng=rng, q_offset=offset)


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


@pytest.mark.parametrize(("lead", "offsets"), [((2, 3), [4, -1]), ((3,), [[0], [2]])])
def test_offsets_of_sequences_are_a_loop(rng, lead, offsets):
    f, offsets, T = -rng.exponential(size=(*lead, 6)), np.array(offsets), 2
    got = forgetting_bias(f, q_offset=offsets, T=T)
    u, v = rng.normal(size=got.shape), rng.normal(size=f.shape)
    grad, pushed = np.zeros(f.shape), forgetting_bias_jvp(f, v, q_offset=offsets, T=T)
    batch = np.broadcast_shapes(offsets.shape, lead[:-1])
    assert got.shape == (*batch, 3, T, 6)
    every, gathered = (np.broadcast_to(x, (*batch, 3, 6)) for x in (f, v))
    for *at, h, t in np.ndindex(*batch, 3, T):
        i = np.broadcast_to(offsets, batch)[*at] + t
        one = u[*at, h, t]
        place = (*at[len(batch) - len(lead) + 1 :], h)
        for j in range(6):
            between = slice(j + 1, max(i, j) + 1)
            near = pytest.approx(every[*at, h, between].sum(), rel=1e-14, abs=1e-15)
            assert got[*at, h, t, j] == near
            near = pytest.approx(gathered[*at, h, between].sum(), rel=1e-13, abs=1e-14)
            assert pushed[*at, h, t, j] == near
            grad[*place, between] += one[j]
    found = forgetting_bias_vjp(u, f, q_offset=offsets, T=T)
    np.testing.assert_allclose(found, grad, rtol=0, atol=2e-14)
    for name, given in (("forgetting_bias", (f,)), ("forgetting_bias_vjp", (u, f))):
        want = getattr(formulas, name)(*given, q_offset=offsets, T=T)
        same = getattr(attention, name)(*given, q_offset=offsets, T=T)
        np.testing.assert_allclose(same, want, rtol=0, atol=2e-14)


def test_queries_before_all_keys_have_no_bias(rng):
    f = -rng.exponential(size=(2, 3))
    bias = forgetting_bias(f, q_offset=-2)
    assert bias.shape == (2, 5, 3)
    assert not bias[:, :3].any()  # the third sees the first key, and forgets nothing of it
    np.testing.assert_array_equal(bias[:, 2:], forgetting_bias(f))


def test_late_sums_keep_their_digits():
    f = np.full((1, 400), -50.0)
    f[0, -1] = -1e-12
    assert forgetting_bias(f)[0, -1, -2] == -1e-12


def test_the_tangent_is_the_bias_of_the_tangent(rng):
    f, v = rng.normal(size=(2, 3, 5))
    np.testing.assert_array_equal(forgetting_bias_jvp(f, v), forgetting_bias(v))


def test_errors():
    with pytest.raises(ValueError, match=r"^Argument 'T' must be at most 1, not 2"):
        forgetting_bias(np.ones((2, 3)), q_offset=2, T=2)
    with pytest.raises(ValueError, match=r"^Argument 'T' must be given if 'q_offset' is an array"):
        forgetting_bias(np.ones((2, 3)), q_offset=[1, 2])
    with pytest.raises(ValueError, match=r"^Argument 'q_offset' must have batch axes that"):
        forgetting_bias(np.ones((3, 2, 4)), q_offset=[1, 2], T=1)
    with pytest.raises(ValueError, match=r"^Argument 'log_forget' must have at least 2 axes"):
        forgetting_bias(np.ones(4), q_offset=[1, 2], T=1)
    with pytest.raises(ValueError, match=r"^Argument 'q_offset' must be at most 3, not 4"):
        forgetting_bias(np.ones((2, 3)), q_offset=4)
    with pytest.raises(ValueError, match=r"^Argument 'log_forget' must have at least 1 axis"):
        forgetting_bias(1.0)
