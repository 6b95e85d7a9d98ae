"""Tests of dlref.positions._alibi."""

import math

import numpy as np
import pytest

import dlref.positions as P
from dlref.attention import scaled_dot_product_attention
from dlref.formulas import positions as formulas


def published(n):
    """Return the slopes by the recursion that the authors' code describes."""
    if n & (n - 1) == 0:
        ratio = 2 ** (-(2 ** -(math.log2(n) - 3)))
        return [ratio ** (i + 1) for i in range(n)]
    half = 2 ** math.floor(math.log2(n))
    return published(half) + published(2 * half)[::2][: n - half]


@pytest.mark.parametrize("heads", range(1, 129))
def test_the_official_rule(heads):
    got = P.alibi_slopes(heads)
    assert got.shape == (heads,)
    np.testing.assert_allclose(got, published(heads), rtol=2e-14)
    assert len(set(got)) == heads
    assert np.all(got > 0)


@pytest.mark.parametrize("heads", [3, 6, 12, 24, 100])
def test_the_first_slope_added_is_above_all_and_the_others_are_between(heads):
    slopes = P.alibi_slopes(heads)
    count = 2 ** math.floor(math.log2(heads))
    there, added = slopes[:count], slopes[count:]
    assert added[0] > there.max()
    assert np.all(added[1:] < there.max())
    assert np.all(added > there.min())


@pytest.mark.parametrize("heads", [1, 2, 8, 64, 128])
def test_both_rules_agree_for_powers_of_two(heads):
    np.testing.assert_array_equal(P.alibi_slopes(heads), P.alibi_slopes(heads, rule="paper"))


def test_the_paper_is_a_geometric_sequence():
    got = P.alibi_slopes(12, rule="paper")
    np.testing.assert_allclose(got, 2.0 ** (-8 * np.arange(1, 13) / 12), rtol=1e-15)
    np.testing.assert_array_equal(P.alibi_slopes(8), 2.0 ** -np.arange(1, 9))


@pytest.mark.parametrize("heads", [1, 4, 6, 32, 40])
@pytest.mark.parametrize("exponent", [8, 16, 2.5])
def test_another_least_slope_as_in_mpt(heads, exponent):
    """Slopes for the next power of two, every other one first, as MPT's own code takes them."""
    power = 2 ** math.ceil(math.log2(heads))
    slopes = 1 / 2.0 ** (np.arange(1, power + 1) * exponent / power)
    if power != heads:
        slopes = np.concatenate([slopes[1::2], slopes[::2]])[:heads]
    np.testing.assert_allclose(P.alibi_slopes(heads, exponent=exponent), slopes, rtol=2e-14)


class TestBias:
    def test_a_cache_takes_the_last_rows(self):
        m = P.alibi_slopes(8)
        for symmetric in (False, True):
            whole = P.alibi_bias(m, 10, 10, symmetric=symmetric)
            last = P.alibi_bias(m, 3, 10, q_offset=7, symmetric=symmetric)
            np.testing.assert_array_equal(last, whole[:, 7:])

    @pytest.mark.parametrize("symmetric", [False, True])
    def test_offsets_of_sequences_are_a_loop(self, rng, symmetric):
        m, offsets = P.alibi_slopes(4), np.array([[3, -2, 0], [7, 1, -5]])
        options = {"T": 6, "S": 5, "symmetric": symmetric}
        got = P.alibi_bias(m, q_offset=offsets, **options)
        u, v = rng.normal(size=got.shape), rng.normal(size=4)
        grad, pushed = 0, P.alibi_bias_jvp(m, v, q_offset=offsets, **options)
        for at, offset in np.ndenumerate(offsets):
            i = np.arange(6)[:, None] + offset - np.arange(5)
            d = abs(i) if symmetric else np.maximum(i, 0)
            np.testing.assert_array_equal(got[at], -m[:, None, None] * d)
            np.testing.assert_array_equal(got[at], P.alibi_bias(m, q_offset=int(offset), **options))
            grad = grad - np.sum(u[at] * d, axis=(-2, -1))
        found = P.alibi_bias_vjp(u, m, q_offset=offsets, **options)
        np.testing.assert_allclose(found, grad, rtol=0, atol=4e-15 * abs(grad).max())
        assert np.sum(u * pushed) == pytest.approx(found @ v, rel=1e-13)
        for f, arguments in (
            ("alibi_bias", (m,)),
            ("alibi_bias_vjp", (u, m)),
        ):
            want = getattr(formulas, f)(*arguments, q_offset=offsets, **options)
            got = getattr(P, f)(*arguments, q_offset=offsets, **options)
            np.testing.assert_allclose(got, want, rtol=0, atol=4e-15 * abs(want).max())

    def test_slopes_of_sequences_and_offsets_broadcast(self, rng):
        m, offsets = rng.uniform(size=(1, 2, 4)), np.array([[3], [5], [0]])
        bias = P.alibi_bias(m, 2, 5, q_offset=offsets)
        assert bias.shape == (3, 2, 4, 2, 5)
        grad = P.alibi_bias_vjp(np.ones(bias.shape), m, 2, 5, q_offset=offsets)
        assert grad.shape == m.shape
        np.testing.assert_allclose(np.sum(grad * m), bias.sum(), rtol=1e-13)

    def test_more_queries_than_keys_that_end_together(self):
        bias = P.alibi_bias([1.0], 4, 2, q_offset=-2)[0]
        np.testing.assert_array_equal(bias, [[0, 0], [0, 0], [0, 0], [-1, 0]])

    def test_symmetric(self):
        bias = P.alibi_bias(P.alibi_slopes(4), 6, 6, symmetric=True)
        np.testing.assert_array_equal(bias, np.swapaxes(bias, -1, -2))
        causal = P.alibi_bias(P.alibi_slopes(4), 6, 6)
        np.testing.assert_array_equal(causal, np.tril(bias))

    def test_no_negative_zero(self):
        for symmetric in (False, True):
            bias = P.alibi_bias([0.5], 4, 4, symmetric=symmetric)
            assert not np.signbit(bias[bias == 0]).any()

    def test_weights_at_a_distance(self):
        far = np.exp(P.alibi_bias([1 / 16, 1 / 256], 1, 1, q_offset=1000).ravel())
        np.testing.assert_allclose(far, [7e-28, 0.02], rtol=0.05)

    def test_large_bias_in_two_threads(self):
        m = np.float32(P.alibi_slopes(4))
        bias = P.alibi_bias(m, 300, 400)
        assert bias.dtype == np.float32
        np.testing.assert_array_equal(bias[3, 299], P.alibi_bias(m[3], 1, 400, q_offset=299)[0])


class TestErrors:
    def test_slopes(self):
        with pytest.raises(ValueError, match=r"^Argument 'num_heads' must be at least 1, not 0"):
            P.alibi_slopes(0)
        with pytest.raises(TypeError, match=r"^Argument 'num_heads' must be an integer"):
            P.alibi_slopes(8.0)
        with pytest.raises(ValueError, match=r"^Argument 'rule' must be 'official' or 'paper'"):
            P.alibi_slopes(8, rule="other")
        with pytest.raises(ValueError, match="'exponent' must be greater than 0, not 0"):
            P.alibi_slopes(8, exponent=0)

    def test_offsets(self):
        with pytest.raises(ValueError, match=r"^Argument 'q_offset' must be at most 536870912"):
            P.alibi_bias([0.5], 2, 2, q_offset=[0, 2**40])
        with pytest.raises(ValueError, match=r"^Argument 'q_offset' must have batch axes that"):
            P.alibi_bias(np.ones((3, 2)), 2, 2, q_offset=[1, 2])
        with pytest.raises(ValueError, match=r"^Argument 'slopes' must have at least 1 axis"):
            P.alibi_bias(0.5, 2, 2, q_offset=[1, 2])
        with pytest.raises(TypeError, match=r"^Argument 'q_offset' must be integer"):
            P.alibi_bias([0.5], 2, 2, q_offset=[1.5])

    @pytest.mark.parametrize("name", ["T", "S"])
    def test_bias(self, name):
        sizes = {"T": 2, "S": 2, "q_offset": 0, name: -1}
        with pytest.raises(ValueError, match=rf"^Argument '{name}' must be at least 0, not -1"):
            P.alibi_bias([0.5], **sizes)


def test_the_weight_falls_exponentially_with_distance():
    slope, T = 0.25, 12
    bias = P.alibi_bias([slope], 1, T, q_offset=T - 1)
    weights = scaled_dot_product_attention(
        np.zeros((1, 1, 2)), np.zeros((1, T, 2)), np.eye(T)[None], bias=bias
    )[0, 0, ::-1]  # by distance
    np.testing.assert_allclose(weights[1:] / weights[:-1], np.exp(-slope), rtol=1e-14)
