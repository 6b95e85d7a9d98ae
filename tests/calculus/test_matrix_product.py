"""Tests of matrix products and the quadratic form."""

import numpy as np
import pytest

from dlref import calculus

SHAPES = [
    ((2, 3), (3, 4)),
    ((3,), (3, 4)),
    ((2, 3), (3,)),
    ((3,), (3,)),
    ((5, 1, 2, 3), (6, 3, 2)),
    ((3,), (5, 3, 2)),
]


@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_pytorch(shapes, rng):
    import peers  # noqa: PLC0415  # only where PyTorch is

    a, b = (rng.normal(size=shape) for shape in shapes)
    peers.assert_same("calculus.matmul", peers.torch.matmul, a, b, rng=rng)


@pytest.mark.parametrize("shapes", SHAPES[:4], ids=str)
def test_jacobian_of_pytorch(shapes, rng, assert_close):
    import peers  # noqa: PLC0415  # only where PyTorch is

    a, b = (rng.normal(size=shape) for shape in shapes)
    assert_close(calculus.matmul_jacobian(a, b), peers.jacobians(peers.torch.matmul, a, b))


def test_jacobians_are_kronecker_products(rng):
    a, b = rng.normal(size=(2, 3)), rng.normal(size=(3, 4))
    J_a, J_b = calculus.matmul_jacobian(a, b)
    np.testing.assert_array_equal(J_a.reshape(8, 6), np.kron(np.eye(2), b.T))
    np.testing.assert_array_equal(J_b.reshape(8, 12), np.kron(a, np.eye(4)))


def test_products_are_computed_in_the_dtype_of_the_input(rng):
    a, b, dout = (rng.normal(size=(40, 40)).astype(np.float32) for _ in range(3))
    da, db = calculus.matmul_vjp(dout, a, b)
    np.testing.assert_array_equal(da, dout @ b.T)  # NumPy's BLAS
    np.testing.assert_array_equal(db, a.T @ dout)
    exact = dout.astype(float) @ b.T.astype(float)
    assert np.max(abs(da - exact)) <= 64 * 2.0**-23 * np.max(abs(dout) @ abs(b).T)


class TestQuadraticForm:
    def test_pytorch(self, rng):
        import peers  # noqa: PLC0415  # only where PyTorch is

        def form(x, a):
            return peers.torch.einsum("...i,...ij,...j->...", x, a, x)

        x, a = rng.normal(size=(4, 3)), rng.normal(size=(4, 3, 3))
        peers.assert_same("calculus.quadratic_form", form, x, a, rng=rng)

    def test_symmetric_matrix_gives_twice_the_product(self, rng):
        a = rng.normal(size=(3, 3))
        a, x = a + a.T, rng.normal(size=3)
        np.testing.assert_allclose(calculus.quadratic_form_grad(x, a)[0], 2 * a @ x, rtol=1e-14)


class TestErrors:
    @pytest.mark.parametrize(
        "shapes", [((2, 3), (2, 3)), ((3,), (4,)), ((2, 2, 2), (3, 2, 2))], ids=str
    )
    def test_shapes_that_do_not_fit(self, shapes):
        a, b = map(np.ones, shapes)
        words = r"must have shapes \(\.\.\., n, k\) and .* not \(.*\) and \(.*\)\.$"
        with pytest.raises(ValueError, match="^Arguments 'a' and 'b' " + words):
            calculus.matmul_jacobian(a, b)
        with pytest.raises(ValueError, match="^Arguments 'a' and 'b' " + words):
            calculus.matmul_vjp(np.ones(2), a, b)
        with pytest.raises(
            ValueError, match=r"^Arguments 'primals\[0\]' and 'primals\[1\]' " + words
        ):
            calculus.matmul_jvp((a, b), (None, None))

    def test_scalars(self):
        with pytest.raises(ValueError, match="'a' must have at least 1 axis"):
            calculus.matmul_vjp(1.0, 2.0, np.ones(3))
        with pytest.raises(ValueError, match="'b' must have at least 1 axis"):
            calculus.matmul_vjp(1.0, np.ones(3), 2.0)

    def test_quadratic_form(self):
        with pytest.raises(ValueError, match=r"'a' must have shape \(\.\.\., n, n\), not \(2, 3\)"):
            calculus.quadratic_form_grad(np.ones(3), np.ones((2, 3)))
        with pytest.raises(ValueError, match=r"'a' must have shape \(3, 3\), not \(2, 2\)"):
            calculus.quadratic_form_grad(np.ones(3), np.ones((2, 2)))
        with pytest.raises(ValueError, match="'x' must have at least 1 axis"):
            calculus.quadratic_form_grad(1.0, np.ones((2, 2)))
