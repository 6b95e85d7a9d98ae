"""Tests of learned relative positions."""

import numpy as np
import pytest

import dlref.positions as P


class TestBias:
    def test_is_toeplitz(self, rng):
        table = rng.normal(size=(2, 3, 12))
        bias = P.relative_bias(table, 5, 8)
        for r in range(-4, 8):
            diagonal = np.diagonal(bias, r, -2, -1)
            np.testing.assert_array_equal(diagonal, table[..., [r + 4] * diagonal.shape[-1]])

    def test_generalizes_alibi_and_t5(self, rng):
        table = rng.normal(size=(32, 2))
        buckets = P.t5_relative_position_bucket(np.arange(-8, 10))
        got = P.relative_bias(table[buckets].T, 9, 10)
        np.testing.assert_array_equal(got, P.t5_bias(table, 9, 10))
        distance = abs(np.arange(-8, 10))
        got = P.relative_bias(-0.25 * distance, 9, 10)
        np.testing.assert_array_equal(got, P.alibi_bias(0.25, 9, 10, symmetric=True))

    def test_pytorch(self, rng):
        peers = pytest.importorskip("peers")
        index = peers.torch.tensor(np.arange(20) - np.arange(10)[:, None] + 9)
        table, sizes = rng.normal(size=(3, 29)), {"T": 10, "S": 20}
        peers.assert_same("positions.relative_bias", lambda t: t[:, index], table, rng=rng, **sizes)

    def test_errors(self):
        with pytest.raises(
            ValueError, match=r"^Argument 'table' must have shape \(5,\), not \(4,\)"
        ):
            P.relative_bias(np.ones(4), 3, 3)
        with pytest.raises(ValueError, match=r"^Argument 'table' must have at least 1 axis"):
            P.relative_bias(1.0, 3, 3)
        with pytest.raises(ValueError, match=r"^Argument 'S' must be at least 1, not 0"):
            P.relative_bias(np.ones(4), 3, 0)


class TestShaw:
    @pytest.mark.parametrize("K", [0, 2, 30])
    def test_pytorch(self, K, rng):
        peers = pytest.importorskip("peers")
        index = peers.torch.tensor(np.clip(np.arange(9) - np.arange(9)[:, None], -K, K) + K)
        f = lambda q, t: peers.torch.einsum("bhie,ije->bhij", q, t[index])  # noqa: E731
        q, table = rng.normal(size=(2, 3, 9, 4)), rng.normal(size=(2 * K + 1, 4))
        peers.assert_same("positions.shaw_scores", f, q, table, rng=rng)

    def test_errors(self):
        with pytest.raises(
            ValueError, match=r"^Argument 'table' must have shape \(5, 3\), not \(4, 3"
        ):
            P.shaw_scores(np.ones((2, 3)), np.ones((4, 3)))
        with pytest.raises(
            ValueError, match=r"^Argument 'table' must have shape \(5, 3\), not \(5, 2"
        ):
            P.shaw_scores(np.ones((2, 3)), np.ones((5, 2)))
        with pytest.raises(ValueError, match=r"^Argument 'q' must have at least 2 axes"):
            P.shaw_scores(np.ones(3), np.ones((5, 3)))


class TestTransformerXL:
    SHAPES = (2, 7, 4), (2, 9, 4), (15, 4), (4,), (2, 1, 4)

    def test_four_terms(self, rng, assert_close):
        """The sum of content and offset terms, pair by pair."""
        q, k, r, u, v = (rng.normal(size=shape) for shape in self.SHAPES)
        got = P.transformer_xl_scores(q, k, r, u, v)
        want = np.empty_like(got)
        for b, i, j in np.ndindex(got.shape):
            offset = r[j - i + 6]
            want[b, i, j] = q[b, i] @ k[b, j] + q[b, i] @ offset + u @ k[b, j] + v[b, 0] @ offset
        assert_close(got, want, scale=abs(want).max() * 3)

    def test_pytorch(self, rng):
        peers = pytest.importorskip("peers")
        index = peers.torch.tensor(np.arange(9) - np.arange(7)[:, None] + 6)

        def scores(q, k, r, u, v):
            by_offset = peers.torch.einsum("bie,ije->bij", q + v, r[index])
            return (q + u) @ k.transpose(-1, -2) + by_offset

        inputs = [rng.normal(size=s) for s in self.SHAPES]
        peers.assert_same("positions.transformer_xl_scores", scores, *inputs, rng=rng)

    def test_without_queries_or_keys(self):
        empty = np.ones((0, 4))
        r, u = np.ones((2, 4)), np.ones(4)
        assert P.transformer_xl_scores(np.ones((3, 4)), empty, r, u, u).shape == (3, 0)
        assert P.transformer_xl_scores(empty, np.ones((3, 4)), r, u, u).shape == (0, 3)

    @pytest.mark.parametrize(
        ("position", "shape", "words"),
        [
            (0, (4,), "'q' must have at least 2 axes"),
            (1, (2, 9, 3), r"'k' must have shape \(2, 9, 4\), not"),
            (2, (14, 4), r"'r' must have shape \(15, 4\), not"),
            (2, (3, 15, 4), "'r' must have batch axes that broadcast to"),
            (3, (3,), "'u' must have batch axes that broadcast to"),
            (4, (3, 1, 4), "'v' must have batch axes that broadcast to"),
        ],
    )
    def test_errors(self, position, shape, words):
        arrays = [np.ones(s) for s in self.SHAPES]
        arrays[position] = np.ones(shape)
        with pytest.raises(ValueError, match=rf"^Argument {words}"):
            P.transformer_xl_scores(*arrays)


def test_scores_of_shaw_that_overflow_do_not_warn():
    large = np.full((3, 2), 1e308)
    dq, dtable = P.shaw_scores_vjp(np.full((3, 3), 1e308), large, large)
    assert np.all(np.isinf(dq))
    assert np.all(np.isinf(dtable))
    moved = P.shaw_scores_jvp((large, large), (large, -large))
    assert moved.shape == (3, 3)
