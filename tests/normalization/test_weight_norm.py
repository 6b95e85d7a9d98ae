"""Tests of dlref.normalization._weight_norm."""

import numpy as np
import pytest

from dlref.neurons import linear, linear_vjp
from dlref.normalization import weight_norm, weight_norm_jvp, weight_norm_vjp


@pytest.mark.parametrize(
    ("shape", "axis"), [((4, 5), 0), ((4, 5), 1), ((4, 5), None), ((3, 2, 4), 0), ((3, 2, 4), -1)]
)
def test_pytorch(shape, axis, rng):
    peers = pytest.importorskip("peers")
    torch = peers.torch
    v, u = rng.normal(size=(2, *shape))
    g = rng.normal(size=() if axis is None else shape[axis])
    kept = [1] * len(shape)
    if axis is not None:
        kept[axis] = shape[axis]
    dim = -1 if axis is None else axis % len(shape)  # PyTorch's -1 is all axes

    def theirs(v, g):
        return torch._weight_norm(v, g.reshape(kept) if axis is not None else g, dim)

    value, (dv, dg) = peers.value_and_vjp(theirs, v, g, dout=u)
    np.testing.assert_allclose(weight_norm(v, g, axis=axis), value, rtol=0, atol=4e-15)
    ours = weight_norm_vjp(u, v, g, axis=axis)
    np.testing.assert_allclose(ours[0], dv, rtol=0, atol=4e-15)
    np.testing.assert_allclose(ours[1], dg, rtol=0, atol=4e-15)


def test_dora_as_in_the_paper(rng):
    """Its weight as a composition, against PyTorch's autograd through all of it."""
    peers = pytest.importorskip("peers")
    torch = peers.torch
    x, w, u = rng.normal(size=(6, 5)), rng.normal(size=(4, 5)), rng.normal(size=(6, 4))
    a, b, s = rng.normal(size=(2, 5)), rng.normal(size=(4, 2)), 0.5
    m = np.linalg.norm(w, axis=1)

    def theirs(x, a, b, m):
        merged = torch.tensor(w) + s * b @ a
        return x @ (m[:, None] * merged / torch.linalg.norm(merged, dim=1, keepdim=True)).T

    value, grads = peers.value_and_vjp(theirs, x, a, b, m, dout=u)
    merged = w + s * b @ a
    weight = weight_norm(merged, m)
    np.testing.assert_allclose(linear(x, weight), value, rtol=0, atol=1e-14)
    dx, dweight, *_ = linear_vjp(u, x, weight)
    dmerged, dm = weight_norm_vjp(dweight, merged, m)
    ours = dx, s * b.T @ dmerged, s * dmerged @ a.T, dm
    for got, want in zip(ours, grads, strict=True):
        np.testing.assert_allclose(got, want, rtol=0, atol=2e-14)


def test_lengths_and_directions(rng):
    v, g = rng.normal(size=(3, 4)), rng.normal(size=3)
    w = weight_norm(v, g)
    np.testing.assert_allclose(np.linalg.norm(w, axis=1), abs(g), rtol=1e-15)
    scale = rng.uniform(0.5, 2, (3, 1))
    np.testing.assert_allclose(weight_norm(scale * v, g), w, rtol=1e-14)
    dv, _ = weight_norm_vjp(rng.normal(size=(3, 4)), v, g)
    np.testing.assert_allclose(np.sum(dv * v, axis=1), 0, atol=1e-14)
    np.testing.assert_allclose(weight_norm_jvp((v, g), (v, None)), 0, atol=1e-15)


def test_squares_that_overflow_and_rows_of_zeros():
    for size in (1e200, 1e-200):
        v = size * np.array([[3.0, 4.0]])
        np.testing.assert_allclose(weight_norm(v, [5.0]), [[3, 4]], rtol=1e-15)
    assert np.isnan(weight_norm([[0.0, 0.0]], [1.0])).all()


def test_errors():
    with pytest.raises(ValueError, match=r"^Argument 'g' must have shape \(2,\)"):
        weight_norm(np.ones((2, 3)), np.ones(3))
    with pytest.raises(ValueError, match=r"^Argument 'g' must have shape \(\)"):
        weight_norm(np.ones((2, 3)), np.ones(3), axis=None)
    with pytest.raises(ValueError, match=r"axis"):
        weight_norm(np.ones((2, 3)), np.ones(2), axis=2)
    with pytest.raises(ValueError, match=r"^Argument 'v' must have at least 1 ax"):
        weight_norm(1.0, 1.0, axis=None)
