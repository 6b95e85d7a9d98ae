"""Tests of dlref.calculus._chain_rule."""

import numpy as np
import pytest
from complex_step import complex_step

from dlref.calculus import chain_rule, total_derivative


class TestPrintedValues:
    """Rows A9 to A11 of the checklist."""

    def test_scalar(self):
        x = 1.5
        np.testing.assert_allclose(chain_rule(np.cos(x**2), 2 * x), -1.8845208681682175, rtol=1e-15)

    def test_total(self):
        assert total_derivative([1, 1], [1, 4]) == 5

    def test_vector(self):
        u = np.array([1.0, np.sin(1.0)])
        got = chain_rule([[1, 1], [u[1], u[0]]], [[2.0], [np.cos(1.0)]])
        np.testing.assert_allclose(got, [[2.54030231], [2.22324428]], atol=5e-9)


class TestChain:
    def test_is_the_derivative_of_the_composition(self, rng):
        w1, w2 = rng.normal(size=(3, 4)), rng.normal(size=(2, 3))
        x, v = rng.normal(size=4), rng.normal(size=4)
        u = np.sin(w1 @ x)
        jac = chain_rule(np.diag(np.exp(w2 @ u)), w2, np.diag(np.cos(w1 @ x)), w1)
        want = complex_step(lambda x: np.exp(w2 @ np.sin(w1 @ x)), [x], [v])
        np.testing.assert_allclose(jac @ v, want, rtol=1e-14)

    def test_batch_axes_broadcast(self, rng):
        a, b = rng.normal(size=(5, 1, 2, 3)), rng.normal(size=(4, 3, 2))
        got = chain_rule(a, b)
        assert got.shape == (5, 4, 2, 2)
        np.testing.assert_allclose(got, a @ b, rtol=1e-14)

    def test_integers_and_dtypes(self):
        assert chain_rule([[1, 2]], [[3], [4]]).dtype == np.float64
        assert chain_rule(np.ones((1, 2), np.float32), np.ones((2, 1), np.float32)).dtype == "f4"


class TestScalarVariables:
    """Shapes are out.shape + in.shape; a side without axis is a scalar."""

    @pytest.mark.parametrize(
        ("shapes", "out"),
        [
            ([()], ()),
            ([(), ()], ()),
            ([(3,)], (3,)),
            ([(3,), (3,)], ()),  # scalar <- vector <- scalar
            ([(3,), (3, 2)], (2,)),  # a row
            ([(2, 3), (3,)], (2,)),  # a column
            ([(), (3,)], (3,)),  # scalar <- scalar <- vector
            ([(3,), ()], (3,)),  # vector <- scalar <- scalar
            ([(3,), (), (4,)], (3, 4)),  # vector <- scalar <- scalar <- vector: outer product
            ([(2, 3), (3,), (4,), (4, 5)], (2, 5)),
            ([(3,), (3,), (4,)], (4,)),  # scalar <- vector <- scalar <- vector
        ],
    )
    def test_shape_of_the_result(self, shapes, out, rng):
        arrays = [rng.normal(size=shape) for shape in shapes]
        got = chain_rule(*arrays)
        assert got.shape == out

    def test_values_of_an_outer_product(self):
        np.testing.assert_array_equal(chain_rule([1, 2], 3, [4, 5]), [[12, 15], [24, 30]])

    def test_values_between_matrices(self):
        got = chain_rule([[1, 0], [0, 2]], [3, 4], [5, 6], [[1, 1], [0, 1]])
        np.testing.assert_array_equal(got, [[15, 33], [40, 88]])


class TestTotalDerivative:
    def test_is_the_derivative(self, rng):
        x = 0.7
        got = total_derivative([np.exp(x), x], [1.0, np.exp(x)])  # of x exp(x), as x times u
        np.testing.assert_allclose(got, (1 + x) * np.exp(x), rtol=1e-15)

    def test_paths_of_matrices_add_up(self, rng):
        partials = [rng.normal(size=(2, n)) for n in (3, 4)]
        inner = [rng.normal(size=(n, 5)) for n in (3, 4)]
        np.testing.assert_allclose(
            total_derivative(partials, inner), np.hstack(partials) @ np.vstack(inner), rtol=1e-13
        )

    def test_arrays_are_sequences_of_paths(self):
        assert total_derivative(np.array([1.0, 2, 3]), np.array([4.0, 5, 6])) == 32


class TestErrors:
    def test_no_jacobian(self):
        with pytest.raises(ValueError, match="'jacobians' must hold at least one Jacobian"):
            chain_rule()

    @pytest.mark.parametrize(
        ("shapes", "words"),
        [
            ([(2, 3), (4, 5)], r"'jacobians\[1\]' must have 3 rows .*, not shape \(4, 5\)"),
            ([(3,), (4, 5)], r"'jacobians\[1\]' must have 3 rows"),
            ([(2, 3), ()], r"'jacobians\[1\]' must have an axis for its output"),
            ([(), (2, 3)], r"'jacobians\[1\]' must have no axis for its output"),
            ([(2, 3), (3,), (3, 3)], r"'jacobians\[2\]' must have no axis for its output"),
        ],
    )
    def test_neighbours_that_do_not_fit(self, shapes, words):
        with pytest.raises(ValueError, match=f"^Argument {words}"):
            chain_rule(*map(np.ones, shapes))

    def test_batch_axes(self):
        words = r"'jacobians\[1\]' must have batch axes that broadcast, not shapes \(2"
        with pytest.raises(ValueError, match=rf"^Arguments 'jacobians\[0\]' to {words}"):
            chain_rule(np.ones((2, 2, 2)), np.ones((3, 2, 2)))

    def test_paths(self):
        with pytest.raises(TypeError, match="'partials' must be a sequence of derivatives, not 3"):
            total_derivative(3, [1])
        with pytest.raises(TypeError, match="'inner' must be a sequence of derivatives, not None"):
            total_derivative([1], None)
        with pytest.raises(ValueError, match=r"'partials' and 'inner' must have .*, not 1 and 2"):
            total_derivative([1], [1, 2])
        with pytest.raises(ValueError, match=r"'partials' and 'inner' must have .*, not 0 and 0"):
            total_derivative([], [])
        with pytest.raises(ValueError, match=r"'inner\[1\]' must have 2 rows"):
            total_derivative([np.ones((1, 2))] * 2, [np.ones((2, 3)), np.ones((3, 3))])
        with pytest.raises(
            ValueError, match=r"'inner\[1\]' must make a path of shape \(\), .*, not \(2,\)"
        ):
            total_derivative([1, 1], [1, np.ones(2)])
