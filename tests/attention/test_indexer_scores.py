"""The indexer of sparse attention, and attention to selected keys."""

import numpy as np
import pytest

from dlref.attention import (
    causal_mask,
    indexer_scores,
    scaled_dot_product_attention,
    scaled_dot_product_attention_jvp,
    scaled_dot_product_attention_vjp,
    select_keys,
)


def test_pytorch(rng):
    peers = pytest.importorskip("peers")
    q, k, w = rng.normal(size=(2, 3, 5, 4)), rng.normal(size=(2, 7, 4)), rng.normal(size=(2, 5, 3))

    def f(q, k, w):
        z = peers.torch.einsum("bhte,bse->bhts", q, k).relu()
        return peers.torch.einsum("bth,bhts->bts", w, z)

    peers.assert_same("attention.indexer_scores", f, q, k, w, rng=rng)


def test_errors():
    q, k, w = np.ones((2, 3, 4)), np.ones((5, 4)), np.ones((3, 2))
    with pytest.raises(ValueError, match=r"^Argument 'k' must have shape \(S, 4\), not \(5, 3\)"):
        indexer_scores(q, k[:, :3], w)
    with pytest.raises(ValueError, match=r"^Argument 'w' must have shape \(3, 2\), not \(2, 3\)"):
        indexer_scores(q, k, w.T)
    with pytest.raises(ValueError, match=r"^Argument 'count' must be at least 1, not 0"):
        select_keys(np.ones((2, 2)), count=0)
    with pytest.raises(ValueError, match=r"^Argument 'scores' must have at least 2 axes"):
        select_keys(np.ones(2), count=1)
    with pytest.raises(TypeError, match=r"^Argument 'is_causal' must be True or False"):
        select_keys(np.ones((2, 2)), count=1, is_causal=1)


class TestSelectedKeys:
    def test_are_the_largest(self, rng):
        scores = rng.normal(size=(2, 5, 9))
        got = select_keys(scores, count=4, is_causal=False)
        want = np.argsort(-scores, axis=-1)[..., :4]
        np.testing.assert_array_equal(got, want)

    def test_are_visible(self, rng):
        got = select_keys(rng.normal(size=(6, 8)), count=3, q_offset=1)
        for i, row in enumerate(got):
            assert (row <= i + 1).all()
            assert np.sum(row >= 0) == min(3, i + 2)

    def test_no_more_than_there_are(self):
        assert select_keys(np.ones((2, 3)), count=9, is_causal=False).tolist() == 2 * [[0, 1, 2]]

    def test_masked_and_undefined_scores(self):
        got = select_keys([[-np.inf, np.nan, 1.0, -np.inf]], count=3, is_causal=False)
        assert got.tolist() == [[1, 2, -1]]

    @pytest.mark.parametrize("shape", [(0, 3), (2, 0)])
    def test_of_nothing(self, shape):
        assert select_keys(np.ones(shape), count=2).shape == (shape[0], min(2, shape[1]))

    @pytest.mark.parametrize("offset", [-100, 100])
    def test_far_offsets(self, offset):
        got = select_keys(np.ones((2, 3)), count=1, q_offset=offset)
        assert got.tolist() == ([[-1], [-1]] if offset < 0 else [[0], [0]])


class TestAttentionToThem:
    @pytest.fixture
    def operands(self, rng):
        q = rng.normal(size=(2, 4, 5, 3))
        k, v = rng.normal(size=(2, 2, 2, 7, 3))
        return q, k, v

    def masked(self, indices, S):
        return (indices[..., None] == np.arange(S)).any(-2)

    def test_is_a_mask(self, operands, rng):
        indices = rng.integers(-1, 7, size=(2, 4, 5, 3))
        options = {"is_causal": True, "q_offset": 2}
        mask = self.masked(indices, 7)
        got = scaled_dot_product_attention(*operands, indices=indices, **options)
        np.testing.assert_array_equal(
            got, scaled_dot_product_attention(*operands, mask=mask, **options)
        )
        u = rng.normal(size=got.shape)
        pairs = zip(
            scaled_dot_product_attention_vjp(u, *operands, indices=indices, **options),
            scaled_dot_product_attention_vjp(u, *operands, mask=mask, **options),
            strict=True,
        )
        for one, want in pairs:
            np.testing.assert_array_equal(one, want)
        np.testing.assert_array_equal(
            scaled_dot_product_attention_jvp(operands, operands, indices=indices, **options),
            scaled_dot_product_attention_jvp(operands, operands, mask=mask, **options),
        )

    def test_broadcasts_and_combines_with_a_mask(self, operands, rng):
        indices = rng.integers(-1, 7, size=(2, 1, 5, 3))
        mask = rng.random((5, 7)) < 0.7
        got = scaled_dot_product_attention(*operands, indices=indices, mask=mask)
        both = self.masked(indices, 7) & mask
        np.testing.assert_array_equal(got, scaled_dot_product_attention(*operands, mask=both))

    def test_repeated_ones_count_once(self, operands):
        got = scaled_dot_product_attention(*operands, indices=[3, 3, 3, 1])
        want = scaled_dot_product_attention(*operands, indices=[1, 3])
        np.testing.assert_array_equal(got, want)

    def test_all_visible_keys_are_causal_attention(self, operands, rng):
        q, k, v = operands
        scores = rng.normal(size=(2, 1, 5, 7))
        indices = select_keys(scores, count=7, q_offset=2)
        got = scaled_dot_product_attention(q, k, v, indices=indices)
        want = scaled_dot_product_attention(q, k, v, mask=causal_mask(5, 7, q_offset=2))
        np.testing.assert_array_equal(got, want)

    def test_nothing_selected_gives_zero(self, operands):
        assert not scaled_dot_product_attention(*operands, indices=[-1]).any()
        assert not scaled_dot_product_attention(
            np.ones((2, 3)), np.ones((0, 3)), np.ones((0, 3)), indices=[-1, -5]
        ).any()

    def test_errors(self, operands):
        f = scaled_dot_product_attention
        words = "integers up to 6, or negative ones for no key, not 7"
        with pytest.raises(ValueError, match=rf"^Argument 'indices' must hold {words}"):
            f(*operands, indices=[7])
        with pytest.raises(TypeError, match=r"^Argument 'indices' must be integer, not float64"):
            f(*operands, indices=[1.0])
        with pytest.raises(ValueError, match=r"^Argument 'indices' must broadcast to"):
            f(*operands, indices=np.zeros((3, 5, 1), int))


class TestFactorOfEachQuery:
    def test_is_a_factor_of_the_queries(self, rng):
        q, k, v, u = rng.normal(size=(4, 2, 4, 6, 3))
        factor = rng.uniform(0.2, 2, size=(4, 6, 1))
        options = {"softcap": 1.5, "is_causal": True}
        got = scaled_dot_product_attention(q, k, v, scale=factor, **options)
        want = scaled_dot_product_attention(factor * q, k, v, scale=1.0, **options)
        np.testing.assert_allclose(got, want, rtol=0, atol=1e-15)
        grads = scaled_dot_product_attention_vjp(u, q, k, v, scale=factor, **options)
        dq, *others = scaled_dot_product_attention_vjp(u, factor * q, k, v, scale=1.0, **options)
        for one, expected in zip(grads, (factor * dq, *others), strict=True):
            np.testing.assert_allclose(one, expected, rtol=0, atol=1e-14)
        got = scaled_dot_product_attention_jvp((q, k, v), (u, u, u), scale=factor, **options)
        moved = scaled_dot_product_attention_jvp(
            (factor * q, k, v), (factor * u, u, u), scale=1.0, **options
        )
        np.testing.assert_allclose(got, moved, rtol=0, atol=1e-14)

    def test_dtype_and_lists(self, rng):
        q, k, v = rng.normal(size=(3, 2, 3)).astype(np.float32)
        got = scaled_dot_product_attention(q, k, v, scale=[[0.5], [0.5]])
        assert got.dtype == np.float32
        np.testing.assert_array_equal(got, scaled_dot_product_attention(q, k, v, scale=0.5))

    def test_a_score_that_keeps_nine_tenths(self):
        """Of the paragraph on dilution."""
        for S, size in ((100, 6.8), (10_000, 11.4)):
            k = np.zeros((S, 1))
            k[0] = np.log(9 * (S - 1))
            assert round(k[0, 0], 1) == size
            weight = scaled_dot_product_attention([[1.0]], k, (np.arange(S) == 0)[:, None] * 1.0)
            np.testing.assert_allclose(weight, 0.9)

    def test_errors(self):
        with pytest.raises(ValueError, match=r"^Argument 'scale' must broadcast to"):
            scaled_dot_product_attention(*3 * [np.ones((2, 3))], scale=[1.0, 2.0])
