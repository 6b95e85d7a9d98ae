"""Products in the dtype of their operands: tiles, panels, and the dense layer."""

import numpy as np
import pytest

from dlref._core.jit import kernel
from dlref._math import dense, gemm, gemm_tiles


@kernel
def _add_each(a, w, tile, half, row, short, part):
    gemm_tiles.add_tile(a, w[:1], tile)
    gemm_tiles.add_half(a[: gemm_tiles.HALF], w[:1], half)
    gemm_tiles.add_row(a[:1], w, row)
    gemm_tiles.add_short_row(a[:1], w[: gemm_tiles.FEW_PANELS], short)
    gemm_tiles.add_part_of_row(a[:1], w[:1], part)


class TestMicrokernel:
    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    @pytest.mark.parametrize("depth", [0, 1, 7])
    def test_adds_products_of_integers_exactly(self, rng, dtype, depth):
        m = gemm_tiles
        width = m.WIDTH_BYTES // np.dtype(dtype).itemsize
        a = rng.integers(-9, 9, (m.ROWS, 2 * depth)).astype(dtype)[:, ::2]
        w = rng.integers(-9, 9, (m.PANELS, depth, width)).astype(dtype)
        sizes = [(m.ROWS, 1), (m.HALF, 1), (1, m.PANELS), (1, m.FEW_PANELS), (1, 1)]
        outs = [np.ones((rows, count * width), dtype) for rows, count in sizes]
        _add_each(a, w, *outs)
        for out, (rows, count) in zip(outs, sizes, strict=True):
            want = 1 + np.einsum("ik,pkj->ipj", a[:rows], w[:count]).reshape(out.shape)
            np.testing.assert_array_equal(out, want)


#: Rows, terms and columns: none, one, whole tiles and panels, and something left of each.
SHAPES = [
    (1, 3, 2),
    (70, 5, 3),
    (600, 4, 6),
    (0, 3, 2),
    (3, 0, 2),
    (3, 2, 0),
    (9, 513, 65),
    (13, 2050, 9),
    (5, 3, 520),
]


class TestProduct:
    @pytest.mark.parametrize("shape", SHAPES)
    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_is_the_product(self, rng, shape, dtype, assert_close):
        n, inner, m = shape
        a = rng.normal(size=(2, n, inner)).astype(dtype)
        b = rng.normal(size=(2, inner, m)).astype(dtype)
        want = np.einsum("bij,bjk->bik", a, b, dtype=np.float64)
        assert_close(gemm.matmul(a, b), want, dtype=dtype)
        by_column = np.ascontiguousarray(b.swapaxes(1, 2)).swapaxes(1, 2)
        assert_close(gemm.matmul(a, by_column), want, dtype=dtype)
        out = np.ones_like(want, dtype)
        gemm.add_product(a, b, out)
        assert_close(out, 1 + want, dtype=dtype)

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_rows_have_the_same_bits_in_any_company(self, rng, dtype):
        a, b = rng.normal(size=(23, 600)).astype(dtype), rng.normal(size=(600, 150)).astype(dtype)
        w, together = gemm.panels(b), np.zeros((23, 150), dtype)
        last = np.empty((23, 2 * w.shape[2]), dtype)[:, : w.shape[2]]
        gemm.multiply(a, w, together, last)
        for some in (1, 2, 5, 9):
            apart = np.zeros_like(together)
            for r in range(0, 23, some):
                gemm.multiply(a[r : r + some], w, apart[r : r + some], last)
            assert apart.tobytes() == together.tobytes()

    def test_carries_what_is_not_finite_where_it_belongs(self):
        a, b = np.ones((9, 3), np.float32), np.ones((3, 40), np.float32)
        a[4, 1], b[2, 35] = np.nan, np.inf
        out = gemm.matmul(a[None], b[None])[0]
        assert np.isnan(out[4]).all()
        assert np.isinf(np.delete(out, 4, 0)[:, 35]).all()
        assert np.isfinite(np.delete(np.delete(out, 4, 0), 35, 1)).all()

    def test_of_sums_that_overflow(self):
        many = np.full((5, 600), 3e38, np.float32)
        assert np.isinf(gemm.matmul(many[None], np.ones((1, 600, 2), np.float32))).all()
        with np.errstate(all="raise"):
            gemm.matmul(many[None], np.ones((1, 600, 2), np.float32))


class TestAffine:
    @pytest.mark.parametrize("batch", [(), (5,), (2, 3), (0,)])
    @pytest.mark.parametrize("with_bias", [False, True])
    def test_derivatives_are_adjoint(self, rng, batch, with_bias, assert_close):
        x, w = rng.normal(size=(*batch, 4)), rng.normal(size=(3, 4))
        b = rng.normal(size=3) if with_bias else None
        want = x @ w.T if b is None else x @ w.T + b
        assert_close(dense.affine(x, w, b), want)
        dx, dw = rng.normal(size=x.shape), rng.normal(size=w.shape)
        db, u = None if b is None else rng.normal(size=3), rng.normal(size=(*batch, 3))
        moved = dense.affine_jvp((x, w, b), (dx, dw, db))
        gx, gw, gb = dense.affine_vjp(u, x, w, b)
        assert (gb is None) == (b is None)
        pulled = (gx * dx).sum() + (gw * dw).sum() + (0 if b is None else (gb * db).sum())
        assert abs((u * moved).sum() - pulled) < 1e-13

    def test_no_tangent_is_zero(self, rng):
        x, w = rng.normal(size=(5, 4)), rng.normal(size=(3, 4))
        assert np.all(dense.affine_jvp((x, w, None), (None, None, None)) == 0)
