"""Parts of an attention, merged."""

import numpy as np
import pytest

from dlref.attention import (
    merge_attention,
    merge_attention_jvp,
    merge_attention_vjp,
    scaled_dot_product_attention,
)


def parts_of(rng, *cuts):
    q, k, v = rng.normal(size=(3, 2, 9, 4))
    ends = [0, *cuts, 9]
    parts = [
        scaled_dot_product_attention(q, k[:, a:b], v[:, a:b], return_lse=True)
        for a, b in zip(ends, ends[1:])  # noqa: B905, RUF007
    ]
    out, lse = (np.stack(arrays) for arrays in zip(*parts, strict=True))
    return out, lse, scaled_dot_product_attention(q, k, v, return_lse=True)


@pytest.mark.parametrize("cuts", [(), (4,), (1, 2, 8), (0, 5, 5)])
def test_is_one_attention_over_all_keys(rng, cuts):
    out, lse, (want, total) = parts_of(rng, *cuts)
    got, merged = merge_attention(out, lse)
    np.testing.assert_allclose(got, want, rtol=0, atol=4e-15)
    np.testing.assert_allclose(merged, total, rtol=0, atol=4e-15)


def test_merged_parts_can_be_merged_again(rng):
    out, lse, _ = parts_of(rng, 2, 5)
    first = merge_attention(out[:2], lse[:2])
    again = (np.stack([a, b[2]]) for a, b in zip(first, (out, lse), strict=True))
    for got, want in zip(merge_attention(*again), merge_attention(out, lse), strict=True):
        np.testing.assert_allclose(got, want, rtol=0, atol=4e-15)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_pytorch(rng, axis):
    peers = pytest.importorskip("peers")
    out, lse = rng.normal(size=(2, 3, 4, 5)), 3 * rng.normal(size=(2, 3, 4))

    def f(out, lse):
        total = lse.logsumexp(axis)
        w = (lse - total.unsqueeze(axis)).exp()
        return (w[..., None] * out).sum(axis), total

    peers.assert_same("attention.merge_attention", f, out, lse, rng=rng, axis=axis)


def test_parts_without_keys_do_not_count(rng):
    out, lse, (want, total) = parts_of(rng, 4)
    out = np.concatenate([out, np.full((1, *want.shape), np.nan)])
    lse = np.concatenate([lse, np.full((1, *total.shape), -np.inf)])
    got, merged = merge_attention(out, lse)
    np.testing.assert_allclose(got, want, rtol=0, atol=4e-15)
    np.testing.assert_allclose(merged, total, rtol=0, atol=4e-15)
    u = np.ones(want.shape), np.ones(total.shape)
    for grad in merge_attention_vjp(u, out, lse):
        assert not grad[2].any()
        assert np.isfinite(grad).all()
    moved = merge_attention_jvp((out, lse), (out, None))
    np.testing.assert_allclose(moved[0], want, rtol=0, atol=4e-15)


def test_without_any_keys():
    out, lse = np.full((2, 3, 4), np.nan), np.full((2, 3), -np.inf)
    got, merged = merge_attention(out, lse)
    np.testing.assert_array_equal(got, np.zeros((3, 4)))
    np.testing.assert_array_equal(merged, np.full(3, -np.inf))
    u = np.ones((3, 4)), np.ones(3)
    assert not any(grad.any() for grad in merge_attention_vjp(u, out, lse))
    assert not any(x.any() for x in merge_attention_jvp((out, lse), (out, np.ones((2, 3)))))


def test_of_no_parts():
    out, lse = np.ones((0, 3, 4)), np.ones((0, 3))
    got, merged = merge_attention(out, lse)
    np.testing.assert_array_equal(got, np.zeros((3, 4)))
    np.testing.assert_array_equal(merged, np.full(3, -np.inf))
    grads = merge_attention_vjp((got, merged), out, lse)
    assert [grad.shape for grad in grads] == [out.shape, lse.shape]
    assert not any(x.any() for x in merge_attention_jvp((out, lse), (out, lse)))


def test_large_scores_do_not_overflow():
    got, lse = merge_attention([[[1.0]], [[3.0]]], [[1e4], [1e4]])
    assert got == 2
    np.testing.assert_allclose(lse, 1e4 + np.log(2))


def test_errors():
    out, lse = np.ones((2, 3, 4)), np.ones((2, 3))
    with pytest.raises(ValueError, match=r"^Argument 'lse' must have shape \(2, 3\), not \(3,\)"):
        merge_attention(out, lse[0])
    with pytest.raises(ValueError, match=r"^Argument 'axis' must be at most 1, not 2"):
        merge_attention(out, lse, axis=2)
    with pytest.raises(ValueError, match=r"^Argument 'axis' must be at least 0, not -1"):
        merge_attention(out, lse, axis=-1)
