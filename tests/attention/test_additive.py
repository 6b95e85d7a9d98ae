"""Additive attention."""

import numpy as np
import peers
import pytest

import dlref.attention._additive
from dlref.attention import (
    additive_attention,
    additive_attention_jvp,
    additive_attention_vjp,
)

SHAPES = (2, 5, 3), (2, 6, 4), (2, 6, 7), (8, 3), (8, 4), (8,)


@pytest.fixture
def operands(rng):
    return [rng.normal(size=shape) for shape in SHAPES]


def by_torch(q, k, v, w, u, vec):
    torch = peers.torch
    hidden = torch.tanh((q @ w.T)[..., :, None, :] + (k @ u.T)[..., None, :, :])
    return torch.softmax(hidden @ vec, -1) @ v


def test_against_pytorch(rng, operands):
    peers.assert_same("attention.additive_attention", by_torch, *operands, rng=rng)


def test_the_example_of_the_docstring_has_the_score_it_says():
    w, u, vec = [[1, -1], [-1, -1]], [[1], [-1]], [8, 8]
    q, k = np.array([2.0, -2.0]), np.array([2.0, -2.0])
    _, weights = additive_attention(
        np.stack([q, [3.0, 3.0]], axis=1), k[:, None], k[:, None], w, u, vec, return_weights=True
    )
    s = q[:, None] + k
    score = 8 * np.tanh(s - 3) + 8 * np.tanh(-s - 3)
    odds = np.log(weights[:, 0] / weights[:, 1])
    np.testing.assert_allclose(odds, score[:, 0] - score[:, 1], rtol=1e-9)


class TestBlocks:
    def test_of_any_size_give_the_same(self, rng, assert_close, operands, monkeypatch):
        dout, tangents = rng.normal(size=(2, 5, 7)), [rng.normal(size=s) for s in SHAPES]
        want = (
            additive_attention(*operands),
            additive_attention_vjp(dout, *operands),
            additive_attention_jvp(operands, tangents),
        )
        monkeypatch.setattr(dlref.attention._additive, "BLOCK", 200)
        assert_close(additive_attention(*operands), want[0])
        assert_close(additive_attention_vjp(dout, *operands), want[1])
        assert_close(additive_attention_jvp(operands, tangents), want[2])


class TestMask:
    def test_a_masked_key_does_not_exist(self, rng, assert_close, operands):
        q, k, v, *rest = operands
        mask = np.arange(6) < 4
        dout, tangents = rng.normal(size=(2, 5, 7)), [rng.normal(size=s) for s in SHAPES]
        want, p = additive_attention(q, k[:, :4], v[:, :4], *rest, return_weights=True)
        grads = additive_attention_vjp(dout, q, k[:, :4], v[:, :4], *rest)
        moved = additive_attention_jvp(
            (q, k[:, :4], v[:, :4], *rest),
            (tangents[0], *(t[:, :4] for t in tangents[1:3]), *tangents[3:]),
        )
        k[:, 4:], v[:, 4:] = np.nan, np.nan
        got, weights = additive_attention(q, k, v, *rest, mask=mask, return_weights=True)
        assert_close(got, want)
        assert_close(weights[..., :4], p)
        assert np.all(weights[..., 4:] == 0)
        dq, dk, dv, *others = additive_attention_vjp(dout, q, k, v, *rest, mask=mask)
        assert_close((dq, dk[:, :4], dv[:, :4], *others), grads)
        assert np.all(dk[:, 4:] == 0)
        assert np.all(dv[:, 4:] == 0)
        assert_close(additive_attention_jvp((q, k, v, *rest), tangents, mask=mask), moved)

    def test_rows_that_see_nothing_are_zero(self, operands):
        mask = np.zeros((1, 1), bool)
        assert np.all(additive_attention(*operands, mask=mask) == 0)
        grads = additive_attention_vjp(np.ones((2, 5, 7)), *operands, mask=mask)
        assert all(np.all(grad == 0) for grad in grads)


class TestErrors:
    @pytest.mark.parametrize(
        ("position", "shape", "words"),
        [
            (0, (3,), "'q' must have at least 2 axes"),
            (1, (1, 6, 4), r"'k' must have shape \(2, S, D_k\), not \(1, 6, 4\)"),
            (2, (2, 5, 7), r"'v' must have shape \(2, 6, V\), not \(2, 5, 7\)"),
            (3, (8, 4), r"'w' must have shape \(A, 3\), not \(8, 4\)"),
            (4, (7, 4), r"'u' must have shape \(8, 4\), not \(7, 4\)"),
            (5, (7,), r"'vec' must have shape \(8,\), not \(7,\)"),
        ],
    )
    def test_shapes(self, operands, position, shape, words):
        operands[position] = np.ones(shape)
        with pytest.raises(ValueError, match=words):
            additive_attention(*operands)

    def test_mask(self, operands):
        with pytest.raises(TypeError, match="'mask' must be boolean"):
            additive_attention(*operands, mask=np.ones(6))
        with pytest.raises(ValueError, match=r"'mask' must broadcast to \(..., T, S\) = \(2, 5, 6"):
            additive_attention(*operands, mask=np.ones(5, bool))
