"""Products in the dtype of their operands: tiles, panels, and the parts that threads take."""

import numpy as np
import pytest

import dlref
import dlref._parallel
from dlref import _microkernel, _product
from dlref._jit import kernel


@kernel
def _add_each(a, w, tile, half, row, short, part):
    _microkernel.add_tile(a, w[:1], tile)
    _microkernel.add_half(a[: _microkernel.HALF], w[:1], half)
    _microkernel.add_row(a[:1], w, row)
    _microkernel.add_short_row(a[:1], w[: _microkernel.FEW_PANELS], short)
    _microkernel.add_part_of_row(a[:1], w[:1], part)


class TestMicrokernel:
    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    @pytest.mark.parametrize("depth", [0, 1, 7])
    def test_adds_products_of_integers_exactly(self, rng, dtype, depth):
        m = _microkernel
        width = m.WIDTH_BYTES // np.dtype(dtype).itemsize
        a = rng.integers(-9, 9, (m.ROWS, 2 * depth)).astype(dtype)[:, ::2]
        w = rng.integers(-9, 9, (m.PANELS, depth, width)).astype(dtype)
        sizes = [(m.ROWS, 1), (m.HALF, 1), (1, m.PANELS), (1, m.FEW_PANELS), (1, 1)]
        outs = [np.ones((rows, count * width), dtype) for rows, count in sizes]
        _add_each(a, w, *outs)
        for out, (rows, count) in zip(outs, sizes, strict=True):
            want = 1 + np.einsum("ik,pkj->ipj", a[:rows], w[:count]).reshape(out.shape)
            np.testing.assert_array_equal(out, want)


@kernel
def _turned(x, out):
    _microkernel.turn(x, out)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_square_is_copied(dtype):
    side = _microkernel.WIDTH_BYTES // _microkernel.VECTORS // np.dtype(dtype).itemsize
    x = np.arange(side * (side + 3), dtype=dtype).reshape(side, side + 3).T[1:-2]
    out = np.zeros((side, 2 * side), dtype)
    _turned(x, out[:, :side])
    np.testing.assert_array_equal(out, np.hstack([x, 0 * x]))


@kernel
def _in_panels(x, one, some):
    _microkernel.copy_to_panel(x, one)
    _microkernel.copy_to_panels(x, some)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_columns_are_copied_to_panels(dtype):
    count, width = _microkernel.PANELS, _microkernel.WIDTH_BYTES // np.dtype(dtype).itemsize
    x = np.arange(3 * (count * width + 5), dtype=dtype).reshape(3, -1)
    one, some = np.zeros((1, 3, width), dtype), np.zeros((count + 1, 3, width), dtype)
    _in_panels(x, one, some[:count])
    np.testing.assert_array_equal(one[0], x[:, :width])
    np.testing.assert_array_equal(np.hstack(some[:count]), x[:, : count * width])
    assert not some[count].any()


@kernel
def _fetched(a, b, out):
    _microkernel.fetch(a)
    _microkernel.fetch(b)  # the second time, the function is known to the module
    _microkernel.fetch_to_write(out)


def test_what_is_asked_for_is_not_touched(rng):
    a, b, out = rng.normal(size=(3, 70))
    before = a.copy(), b.copy(), out.copy()
    _fetched(a, b, out)
    np.testing.assert_array_equal((a, b, out), before)


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
        a, b = rng.normal(size=(n, inner)).astype(dtype), rng.normal(size=(inner, m)).astype(dtype)
        bias = rng.normal(size=m).astype(dtype)
        want = np.einsum("ij,jk->ik", a, b, dtype=np.float64)
        assert_close(_product.product(a, b), want, dtype=dtype)
        turned = np.ascontiguousarray(a.T).T, np.ascontiguousarray(b.T).T
        assert_close(_product.product(*turned), want, dtype=dtype)
        assert_close(_product.product(turned[0], b, bias), want + bias, dtype=dtype)
        out = np.full((n, m), np.nan, dtype)
        _product.dot(a, turned[1], out)
        assert_close(out, want, dtype=dtype)
        c = rng.normal(size=(n, m)).astype(dtype)
        want = np.einsum("ij,ik->jk", a, c, dtype=np.float64)
        assert_close(_product.transposed_product(a, c), want, dtype=dtype)

    @pytest.mark.parametrize("step", [-1, 2])
    def test_of_operands_with_gaps(self, rng, step, assert_close):
        a, b = rng.normal(size=(40, 50)), rng.normal(size=(70, 50))
        apart = [np.repeat(x, abs(step), axis=-1)[:, ::step] for x in (a, b)]
        a, b = (x.copy() for x in apart)
        assert_close(_product.product(apart[0], apart[1].T), a @ b.T)
        assert_close(_product.product(apart[0].T, apart[0]), a.T @ a)
        assert_close(_product.product(apart[0][:2], apart[1].T), a[:2] @ b.T)

    def test_has_the_same_bits_for_any_number_of_threads(self, rng, monkeypatch, set_num_threads):
        monkeypatch.setattr(dlref._parallel, "MIN_WORK", 1)
        a, b = rng.normal(size=(531, 40)), rng.normal(size=(40, 130))
        results = set()
        for threads in (1, 2, 5):
            set_num_threads(threads)
            products = _product.product(a, b), _product.product(a[:2], np.asfortranarray(b))
            results.add(b"".join(p.tobytes() for p in products))
        assert len(results) == 1

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_rows_have_the_same_bits_in_any_company(self, rng, dtype):
        a, b = rng.normal(size=(23, 600)).astype(dtype), rng.normal(size=(600, 150)).astype(dtype)
        w, together = _product.panels(b), np.zeros((23, 150), dtype)
        _product.multiply(a, w, together)
        for some in (1, 2, 5, 9):
            apart = np.zeros_like(together)
            for r in range(0, 23, some):
                _product.multiply(a[r : r + some], w, apart[r : r + some])
            assert apart.tobytes() == together.tobytes()

    def test_carries_what_is_not_finite_where_it_belongs(self):
        a, b = np.ones((9, 3), np.float32), np.ones((3, 40), np.float32)
        a[4, 1], b[2, 35] = np.nan, np.inf
        out = _product.product(a, b)
        assert np.isnan(out[4]).all()
        assert np.isinf(np.delete(out, 4, 0)[:, 35]).all()
        assert np.isfinite(np.delete(np.delete(out, 4, 0), 35, 1)).all()

    def test_of_sums_that_overflow(self):
        many = np.full((5, 600), 3e38, np.float32)
        assert np.isinf(_product.product(many, np.ones((600, 2), np.float32))).all()


class TestAffine:
    @pytest.mark.parametrize("batch", [(), (5,), (2, 3), (0,)])
    @pytest.mark.parametrize("with_bias", [False, True])
    def test_derivatives_are_adjoint(self, rng, batch, with_bias, assert_close):
        x, w = rng.normal(size=(*batch, 4)), rng.normal(size=(3, 4))
        b = rng.normal(size=3) if with_bias else None
        want = x @ w.T if b is None else x @ w.T + b
        assert_close(_product.affine(x, w, b), want)
        dx, dw = rng.normal(size=x.shape), rng.normal(size=w.shape)
        db, u = None if b is None else rng.normal(size=3), rng.normal(size=(*batch, 3))
        moved = _product.affine_jvp((x, w, b), (dx, dw, db))
        gx, gw, gb = _product.affine_vjp(u, x, w, b)
        assert (gb is None) == (b is None)
        pulled = (gx * dx).sum() + (gw * dw).sum() + (0 if b is None else (gb * db).sum())
        assert abs((u * moved).sum() - pulled) < 1e-13

    def test_no_tangent_is_zero(self, rng):
        x, w = rng.normal(size=(5, 4)), rng.normal(size=(3, 4))
        assert np.all(_product.affine_jvp((x, w, None), (None, None, None)) == 0)
