"""Tests of dlref._math.dense: products that are cut into pieces."""

import numpy as np
import pytest

from dlref._math import dense


@pytest.mark.parametrize(
    ("left", "right"),
    [((7, 3), (3, 5)), ((2, 1, 7, 3), (4, 3, 5)), ((0, 3), (3, 5)), ((4, 0), (0, 2))],
)
@pytest.mark.parametrize("most", [1, 40, 10**6])
def test_a_product_in_pieces_is_the_product(monkeypatch, rng, left, right, most):
    monkeypatch.setattr(dense, "AT_ONCE", most)
    a, b = rng.normal(size=left), rng.normal(size=right)
    got = dense.blas_matmul(a, b)
    assert got.shape == (a @ b).shape
    np.testing.assert_allclose(got, a @ b, rtol=1e-13, atol=1e-14)


def test_a_piece_is_no_longer_than_allowed_or_a_row(monkeypatch, rng):
    monkeypatch.setattr(dense, "AT_ONCE", 40)
    sizes, matmul = [], np.matmul
    monkeypatch.setattr(
        np, "matmul", lambda a, b, out: sizes.append(a.size * b.shape[-1]) or matmul(a, b, out=out)
    )
    out = np.empty((7, 9))[:, :5]
    assert dense.blas_matmul(rng.normal(size=(7, 3)), rng.normal(size=(3, 5)), out) is out
    assert sizes == [30, 30, 30, 15]
