"""Tests of dlref.calculus._power."""

import mpmath
import numpy as np
import pytest

from dlref.calculus import power_jacobian, power_jvp, power_vjp


@pytest.mark.parametrize("shapes", [((4,), (4,)), ((2, 3), ()), ((3, 1), (2,))], ids=str)
def test_pytorch(shapes, rng, assert_close):
    import peers  # noqa: PLC0415  # only where PyTorch is

    w, x = rng.uniform(0.5, 2, shapes[0]), rng.normal(size=shapes[1])
    peers.assert_same("calculus.power", peers.torch.pow, w, x, rng=rng)
    assert_close(power_jacobian(w, x), peers.jacobians(peers.torch.pow, w, x))


def test_slopes_are_within_4_ulp_over_the_whole_range(rng):
    w = 10.0 ** rng.uniform(-300, 300, 2000)
    x = rng.uniform(-1, 1, 2000) * 300 / abs(np.log10(w))
    got = power_vjp(np.ones(2000), w, x)
    with mpmath.workdps(50):
        for k in range(2000):
            base, exponent = mpmath.mpf(w[k]), mpmath.mpf(x[k])
            y = base**exponent
            for slope, exact in (
                (got[0][k], y * exponent / base),
                (got[1][k], y * mpmath.log(base)),
            ):
                if np.finfo(float).tiny < abs(exact) < np.finfo(float).max:
                    error = abs(mpmath.mpf(slope) - exact) / np.spacing(abs(slope))
                    assert error < 4


class TestSpecialValues:
    def test_negative_base(self):
        J_w, J_x = power_jacobian([-2.0, -2.0], [3.0, 2.0])
        np.testing.assert_array_equal(J_w.diagonal(), [12, -4])
        assert np.isnan(J_x.diagonal()).all()

    def test_zero_base(self):
        J_w, J_x = power_jacobian(np.zeros(4), [2.0, 1.0, 0.5, 0.0])
        np.testing.assert_array_equal(J_w.diagonal(), [0, 1, np.inf, 0])
        np.testing.assert_array_equal(J_x.diagonal(), [0, 0, 0, 0])

    @pytest.mark.parametrize("base", [0.0, -1.0, 2.0, np.inf, np.nan])
    def test_zero_exponent_has_slope_zero_in_the_base(self, base):
        assert power_vjp(1.0, base, 0.0)[0] == 0

    def test_slope_where_the_power_itself_is_out_of_range(self):
        # y = 1e-320 is subnormal, y' = 2e-160 is not
        np.testing.assert_allclose(power_vjp(1.0, 1e-160, 2.0)[0], 2e-160, rtol=1e-15)
        np.testing.assert_allclose(power_vjp(1.0, 1e160, 2.0)[0], 2e160, rtol=1e-15)

    def test_where_the_slopes_are_largest(self):
        base, exponent = np.meshgrid(np.linspace(0.05, 3, 60), np.linspace(-2, 3, 51))
        for slope, corner in zip(
            power_vjp(np.ones(base.shape), base, exponent), (-16000, -1198.3), strict=True
        ):
            assert abs(slope).argmax() == 0  # w = 0.05, x = -2
            assert slope[0, 0] == pytest.approx(corner, rel=1e-4)

    def test_missing_tangent_of_the_exponent_spares_its_nan(self):
        assert power_jvp((-3.0, 2.0), (1.0, None)) == -6
        assert np.isnan(power_jvp((-3.0, 2.0), (1.0, 0.0)))
