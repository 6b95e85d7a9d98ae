"""Statistics of attention weights."""

import numpy as np
import pytest

from dlref.activations import softmax
from dlref.attention import (
    attention_distance,
    attention_entropy,
    attention_entropy_jvp,
    attention_entropy_vjp,
    attention_rollout,
    attention_rollout_jvp,
    attention_rollout_vjp,
    attention_shares,
    attention_weights,
    attention_weights_vjp,
)


class TestEntropy:
    @pytest.mark.parametrize("count", [1, 3, 10])
    def test_counts_equal_keys(self, count):
        row = np.zeros(10)
        row[:count] = 1 / count
        assert np.exp(attention_entropy(row)) == pytest.approx(count, rel=1e-14)

    def test_of_masked_keys_is_not_nan(self):
        p = [[0.5, 0.0, 0.5], [0.0, 0.0, 0.0]]
        assert attention_entropy(p).tolist() == [np.log(2), 0.0]
        assert np.isfinite(attention_entropy_vjp([1.0, 1.0], p)).all()
        assert attention_entropy_jvp(p, np.ones((2, 3))).shape == (2,)

    def test_gradient_through_the_scores(self, rng):
        """dH/ds_j = -p_j (ln p_j + H), which has no pole at p = 0."""
        scores = rng.normal(size=(1, 6))
        p = attention_weights(scores, np.eye(6), scale=1.0)
        ds, _ = attention_weights_vjp(attention_entropy_vjp([1.0], p), scores, np.eye(6), scale=1.0)
        want = -p * (np.log(p) + attention_entropy(p)[:, None])
        np.testing.assert_allclose(ds, want, rtol=0, atol=1e-15)


class TestWhatTheMeanCannotTell:
    def test_every_row_has_the_same(self, rng):
        """A score made of the mean weight says how many keys there are, and no more."""
        maps = softmax(rng.normal(size=(1000, 8, 8)))
        assert np.ptp(maps.mean(-1)) < 1e-15
        assert np.ptp(attention_entropy(maps)) > 0.5


class TestDistance:
    @pytest.mark.parametrize("length", [1, 4, 9])
    def test_of_uniform_weights(self, length):
        uniform = np.full((length, length), 1 / length)
        want = (length**2 - 1) / (3 * length)
        assert attention_distance(uniform).mean() == pytest.approx(want, rel=1e-14)

    def test_with_a_cache(self):
        assert attention_distance([[1.0, 0, 0, 0]], q_offset=3).tolist() == [3.0]


class TestShares:
    def test_of_special_heads(self):
        eye = np.eye(4)
        assert attention_shares(eye)[1:].tolist() == [[0, 0, 1]] * 3
        assert attention_shares(np.eye(4, k=-1))[2:].tolist() == [[0, 1, 0]] * 2
        assert attention_shares(np.tile(eye[0], (4, 1)))[2:].tolist() == [[1, 0, 0]] * 2

    def test_beyond_the_keys_are_zero(self):
        assert attention_shares(np.ones((1, 2)), q_offset=5).tolist() == [[[1, 0, 0]]][0]


class TestRollout:
    def test_rows_are_shares(self, rng):
        rolled = attention_rollout(softmax(rng.normal(size=(4, 2, 3, 5, 5))))
        np.testing.assert_allclose(rolled.sum(-1), 1, rtol=1e-14)

    def test_is_the_product_in_the_order_of_the_layers(self, rng, assert_close):
        p = softmax(rng.normal(size=(3, 2, 4, 4)))
        a, b, c = 0.7 * np.eye(4) + 0.3 * p.mean(1)
        assert_close(attention_rollout(p, residual=0.7), c @ b @ a)

    def test_without_attention_is_the_identity(self, rng):
        p = softmax(rng.normal(size=(3, 2, 4, 4)))
        np.testing.assert_array_equal(attention_rollout(p, residual=1), np.eye(4))

    def test_a_small_tangent_is_not_lost(self, rng):
        p, v = softmax(rng.normal(size=(3, 2, 4, 4))), rng.normal(size=(3, 2, 4, 4))
        want = 2.0**-99 * attention_rollout_jvp(p, v)
        np.testing.assert_array_equal(attention_rollout_jvp(p, 2.0**-99 * v), want)

    def test_of_no_layers(self):
        assert attention_rollout(np.ones((0, 2, 3, 3))).tolist() == np.eye(3).tolist()
        assert attention_rollout_vjp(np.eye(3), np.ones((0, 2, 3, 3))).shape == (0, 2, 3, 3)
        assert attention_rollout(np.ones((1, 0, 2, 2))).tolist() == (np.eye(2) / 2).tolist()

    def test_errors(self):
        with pytest.raises(ValueError, match="'weights' must have at least 4 axes"):
            attention_rollout(np.ones((3, 2, 2)))
        with pytest.raises(ValueError, match=r"'weights' must have shape \(..., n, n\)"):
            attention_rollout(np.ones((1, 1, 2, 3)))
        with pytest.raises(ValueError, match="'residual' must be from 0 to 1, not 2"):
            attention_rollout(np.ones((1, 1, 2, 2)), residual=2)
