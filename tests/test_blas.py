"""Products in the dtype of their operands, and the threads of BLAS."""

import numpy as np
import pytest

import dlref
import dlref._parallel
from dlref import _blas


class Library:
    """A BLAS with four threads, or as many as it is told."""

    def __init__(self, num_threads):
        self.num_threads = num_threads
        self.calls = []

    def set_num_threads(self, number):
        self.num_threads = number
        self.calls.append(number)


class TestThreads:
    def test_are_given_back_when_the_last_is_done(self, monkeypatch):
        many, one = Library(4), Library(1)
        limit = _blas._Limit()
        limit.libraries = [many, one]
        monkeypatch.setattr(_blas, "_limit", limit)
        with _blas.one_thread():
            assert many.num_threads == 1
            with _blas.one_thread():  # as another thread of Python might
                assert many.num_threads == 1
            assert many.num_threads == 1
        assert many.calls == [1, 4]
        assert one.calls == []  # not asked for what it does anyway

    def test_are_given_back_after_an_error(self, monkeypatch):
        many, limit = Library(4), _blas._Limit()
        limit.libraries = [many]
        monkeypatch.setattr(_blas, "_limit", limit)
        with pytest.raises(ZeroDivisionError), _blas.one_thread():
            _ = 1 / 0
        assert many.num_threads == 4

    def test_of_the_libraries_in_use(self):
        for library in _blas._Limit().find():
            assert library.num_threads >= 1


class TestProduct:
    @pytest.mark.parametrize("shape", [(1, 3, 2), (70, 5, 3), (600, 4, 6), (0, 3, 2), (3, 0, 2)])
    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    @pytest.mark.parametrize("small", [0.0, 1e9])  # in pieces, or in one
    def test_is_the_product(self, rng, monkeypatch, shape, dtype, small, assert_close):
        monkeypatch.setattr(_blas, "SMALL", small)
        n, inner, m = shape
        a, b = rng.normal(size=(n, inner)).astype(dtype), rng.normal(size=(inner, m)).astype(dtype)
        want = np.einsum("ij,jk->ik", a, b, dtype=np.float64)
        assert_close(_blas.product(a, b), want, dtype=dtype)
        turned = np.ascontiguousarray(a.T).T
        assert_close(_blas.product(turned, np.ascontiguousarray(b.T).T), want, dtype=dtype)
        c = rng.normal(size=(n, m)).astype(dtype)
        want = np.einsum("ij,ik->jk", a, c, dtype=np.float64)
        assert_close(_blas.transposed_product(a, c), want, dtype=dtype)

    def test_has_the_same_bits_for_any_number_of_threads(self, rng, monkeypatch):
        monkeypatch.setattr(dlref._parallel, "MIN_WORK", 1)
        monkeypatch.setattr(_blas, "SMALL", 0.0)
        a, b = rng.normal(size=(531, 40)), rng.normal(size=(40, 30))
        c = rng.normal(size=(531, 30))
        before, results = dlref.get_num_threads(), set()
        try:
            for threads in (1, 2, 5):
                dlref.set_num_threads(threads)
                products = _blas.product(a, b), _blas.transposed_product(a, c)
                results.add(b"".join(p.tobytes() for p in products))
        finally:
            dlref.set_num_threads(before)
        assert len(results) == 1


class TestAffine:
    @pytest.mark.parametrize("batch", [(), (5,), (2, 3), (0,)])
    @pytest.mark.parametrize("with_bias", [False, True])
    def test_derivatives_are_adjoint(self, rng, batch, with_bias, assert_close):
        x, w = rng.normal(size=(*batch, 4)), rng.normal(size=(3, 4))
        b = rng.normal(size=3) if with_bias else None
        want = x @ w.T if b is None else x @ w.T + b
        assert_close(_blas.affine(x, w, b), want)
        dx, dw = rng.normal(size=x.shape), rng.normal(size=w.shape)
        db, u = None if b is None else rng.normal(size=3), rng.normal(size=(*batch, 3))
        moved = _blas.affine_jvp((x, w, b), (dx, dw, db))
        gx, gw, gb = _blas.affine_vjp(u, x, w, b)
        assert (gb is None) == (b is None)
        pulled = (gx * dx).sum() + (gw * dw).sum() + (0 if b is None else (gb * db).sum())
        assert abs((u * moved).sum() - pulled) < 1e-13

    def test_no_tangent_is_zero(self, rng):
        x, w = rng.normal(size=(5, 4)), rng.normal(size=(3, 4))
        assert np.all(_blas.affine_jvp((x, w, None), (None, None, None)) == 0)
