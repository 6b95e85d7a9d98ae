"""Tests of the reductions."""

import mpmath
import numpy as np
import pytest

from dlref import calculus

STEMS = ["sum", "mean", "prod", "max", "min", "norm"]
AXES = [None, 0, -1, (0, 2), (1,), ()]


def torch_reduction(torch, stem, axis, ndim):
    axes = tuple(range(ndim)) if axis is None else axis
    if stem == "prod":  # torch.prod takes one axis at a time

        def prod(x):
            for a in sorted(axes if isinstance(axes, tuple) else (axes % ndim,), reverse=True):
                x = torch.prod(x, dim=a)
            return x

        return prod
    if axes == ():
        return torch.abs if stem == "norm" else torch.clone
    name = {"max": torch.amax, "min": torch.amin, "norm": torch.linalg.vector_norm}.get(
        stem
    ) or getattr(torch, stem)
    return lambda x: name(x, dim=axes)


@pytest.mark.parametrize("axis", AXES, ids=str)
@pytest.mark.parametrize("stem", STEMS)
def test_pytorch(stem, axis, rng):
    import peers  # noqa: PLC0415  # only where PyTorch is

    f = torch_reduction(peers.torch, stem, axis, 3)
    peers.assert_same(f"calculus.{stem}", f, rng.normal(size=(3, 4, 2)), rng=rng, axis=axis)


class TestPrintedValues:
    def test_sum(self):
        np.testing.assert_array_equal(calculus.sum_grad([2, 3, 4]), np.ones(3))

    def test_scaled_sum(self):
        gx, gz = calculus.scaled_sum_grad([2, 3, 4], 5)
        np.testing.assert_array_equal(gx, [5, 5, 5])
        assert gz == 9


class TestProduct:
    @pytest.mark.parametrize(
        ("x", "grad"),
        [
            ([2, 0, 4], [0, 8, 0]),
            ([0, 0, 4], [0, 0, 0]),
            ([7], [1]),
            ([], []),
            ([np.inf, 2], [2, np.inf]),
            ([-np.inf, 0], [0, -np.inf]),
            ([np.nan, 2], [2, np.nan]),
            ([-2, -3, -4], [12, 8, 6]),
        ],
    )
    def test_special_values(self, x, grad):
        np.testing.assert_array_equal(calculus.prod_grad(x), np.array(grad, float))

    def test_is_exact_to_n_roundings_over_the_whole_range(self, rng):
        half = 10.0 ** rng.uniform(-300, 300, 20) * rng.choice([-1, 1], 20)
        x = np.concatenate([half, 1 / half])  # a product near one, far off on the way
        got = calculus.prod_grad(x)
        assert np.isfinite(got).all()
        with mpmath.workdps(50):
            for k in range(40):
                exact = mpmath.fprod(mpmath.mpf(v) for v in np.delete(x, k))
                assert abs(mpmath.mpf(got[k]) / exact - 1) <= 40 * 2.0**-53

    def test_out_of_range_gradients_overflow_and_vanish(self):
        assert calculus.prod_grad([1e200, 1e200, 1.0])[2] == np.inf
        assert calculus.prod_grad([1e-200, 1e-200, 1.0])[2] == 0
        assert calculus.prod_grad(np.full(200, 1e300))[0] == np.inf
        assert calculus.prod_grad(np.full(200, 1e-300))[0] == 0

    @pytest.mark.parametrize("size", [1e-160, 1e160])
    def test_many_ones_do_not_hide_that_a_partial_product_leaves_the_range(self, size):
        """1e-320 has three digits, 1e320 none; the third factor brings both back."""
        x = np.concatenate([[size, size, 1 / size], np.ones(5000)])
        exact = [1.0, 1.0, size, size]
        np.testing.assert_allclose(calculus.prod_grad(x)[[0, 1, 3, -1]], exact)


class TestMinimum:
    def test_is_the_maximum_of_the_negated_elements(self, rng):
        x = np.rint(rng.normal(size=(5, 7)))
        np.testing.assert_array_equal(calculus.min_grad(x, axis=1), calculus.max_grad(-x, axis=1))

    def test_ties_nan_and_infinities(self):
        inf, nan = np.inf, np.nan
        rows = [[2, 2, 5], [nan, 0, 0], [0, nan, 1], [1, 0, nan], [-inf, inf, 0], 3 * [inf]]
        want = [[0.5, 0.5, 0], *3 * [3 * [nan]], [1, 0, 0], 3 * [1 / 3]]
        np.testing.assert_array_equal(calculus.min_grad(rows, axis=1), want)

    def test_unsigned_integers(self):
        np.testing.assert_array_equal(calculus.min_grad(np.array([3, 1, 2], np.uint8)), [0, 1, 0])

    def test_an_empty_slice_has_no_minimum(self):
        with pytest.raises(ValueError, match=r"^Argument 'x' must not be empty .*\(2, 0\)"):
            calculus.min_vjp(np.ones(2), np.ones((2, 0)), axis=1)


class TestMaximum:
    def test_ties_are_shared_evenly(self):
        grad = calculus.max_grad([[1.0, 5, 5], [2, 2, 2]], axis=1)
        np.testing.assert_array_equal(grad, [[0, 0.5, 0.5], [1 / 3] * 3])

    @pytest.mark.parametrize("place", [0, 1, 2])
    def test_nan_makes_its_slice_nan(self, place):
        x = np.zeros((2, 3))
        x[0, place] = np.nan
        grad = calculus.max_grad(x, axis=1)
        assert np.isnan(grad[0]).all()
        assert np.isfinite(grad[1]).all()

    def test_infinity_can_be_largest(self):
        np.testing.assert_array_equal(calculus.max_grad([-np.inf, np.inf]), [0, 1])
        np.testing.assert_array_equal(calculus.max_grad([-np.inf, -np.inf]), [0.5, 0.5])

    @pytest.mark.parametrize("axis", [None, 1, (0, 1)])
    def test_an_empty_slice_has_no_maximum(self, axis):
        for f in (calculus.max_grad, lambda x, axis: calculus.max_jvp(x, None, axis=axis)):
            with pytest.raises(ValueError, match=r"^Argument 'x' must not be empty .*\(2, 0\)"):
                f(np.ones((2, 0)), axis=axis)

    def test_no_slices_are_fine(self):
        assert calculus.max_vjp(np.ones(0), np.ones((0, 3)), axis=1).shape == (0, 3)


class TestNorm:
    @pytest.mark.parametrize("size", [5e-324, 1e-200, 1e-160, 1.0, 1e160, 1e308])
    def test_any_magnitude(self, size):
        np.testing.assert_allclose(
            calculus.norm_grad([size, size, 0]), [0.5**0.5, 0.5**0.5, 0], rtol=1e-15
        )

    def test_zero_has_the_shortest_subgradient(self):
        np.testing.assert_array_equal(calculus.norm_grad([0.0, -0.0]), [0, 0])

    def test_infinity_and_nan(self):
        np.testing.assert_array_equal(calculus.norm_grad([1.0, np.inf]), [0, np.nan])
        assert np.isnan(calculus.norm_grad([0.0, np.nan])).all()
        assert np.isnan(calculus.norm_grad([np.nan, 1.0])).all()

    def test_gradient_has_length_one(self, rng):
        x = rng.normal(size=(6, 7))
        lengths = np.linalg.norm(calculus.norm_grad(x, axis=1), axis=1)
        np.testing.assert_allclose(lengths, 1, rtol=1e-15)


@pytest.mark.parametrize("stem", ["sum", "mean", "prod", "norm"])
def test_a_tangent_over_no_elements_is_zero(stem):
    tangent = getattr(calculus, f"{stem}_jvp")(np.ones((2, 0)), np.ones((2, 0)), axis=1)
    np.testing.assert_array_equal(tangent, [0, 0])


class TestDotAndScaledSum:
    def test_pytorch(self, rng, assert_close):
        import peers  # noqa: PLC0415  # only where PyTorch is

        w, x, dout = rng.normal(size=(4, 3)), rng.normal(size=(4, 3)), rng.normal(size=4)
        _, want = peers.value_and_vjp(peers.torch.linalg.vecdot, w, x, dout=dout)
        assert_close(calculus.dot_vjp(dout, w, x), want)
        _, want = peers.value_and_vjp(lambda x, z: (x * z).sum(), x, 1.5)
        assert_close(calculus.scaled_sum_grad(x, 1.5), want)


class TestErrors:
    @pytest.mark.parametrize("stem", STEMS)
    def test_axis(self, stem):
        grad = getattr(calculus, f"{stem}_grad")
        with pytest.raises(ValueError, match=r"^Argument 'axis' must .* of 2 axes, not 2\.$"):
            grad(np.ones((2, 2)), axis=2)
        with pytest.raises(TypeError, match=r"^Argument 'axis' must .*, not 0\.5\.$"):
            grad(np.ones((2, 2)), axis=0.5)

    def test_dot_needs_vectors_of_equal_shape(self):
        with pytest.raises(ValueError, match="'w' must have at least 1 axis"):
            calculus.dot_grad(1.0, 2.0)
        with pytest.raises(ValueError, match=r"'x' must have shape \(3,\), not \(2,\)"):
            calculus.dot_vjp(1.0, np.ones(3), np.ones(2))
        with pytest.raises(ValueError, match=r"'primals\[1\]' must have shape \(3,\)"):
            calculus.dot_jvp((np.ones(3), np.ones(2)), (None, None))

    def test_scale_has_one_element(self):
        with pytest.raises(
            ValueError, match=r"'z' must have exactly one element, not shape \(2,\)"
        ):
            calculus.scaled_sum_grad(np.ones(3), np.ones(2))
