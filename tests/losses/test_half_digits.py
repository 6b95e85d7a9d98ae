"""Losses of float32 are those of the same numbers in float64, rounded once."""

import numpy as np
import pytest

from dlref import losses

SCALES = [1e-4, 1.0, 5.0, 20.0]


def widened(value):
    return tuple(map(widened, value)) if isinstance(value, tuple) else np.float64(value)


def assert_rounded_once(f, *arrays, **options):
    """Compare all results with those in float64."""
    got, exact = f(*arrays, **options), f(*widened(arrays), **options)
    got, exact = (a if isinstance(a, tuple) else (a,) for a in (got, exact))
    for single, double in zip(got, exact, strict=True):
        assert single.dtype == np.float32
        size = np.abs(double).max(axis=-1, keepdims=True) if double.ndim else np.abs(double)
        room = 0.51 * np.spacing(np.abs(double).astype(np.float32)) + 1e-10 * size
        assert (np.abs(single - double) <= room).all()


def numbers(rng, scale, *shape):
    return (scale * rng.normal(size=shape)).astype(np.float32)


@pytest.mark.parametrize("scale", SCALES)
class TestScales:
    @pytest.mark.parametrize("kind", ["kl", "reverse", "jsd"])
    @pytest.mark.parametrize("temperature", [0.3, 1.0])
    def test_distillation_loss(self, kind, temperature, scale, rng):
        """A slope of two probabilities near 1 takes all digits of a float64."""
        z = numbers(rng, scale, 40, 30)
        t = z + numbers(rng, scale, 40, 30)
        options = {"kind": kind, "temperature": temperature, "reduction": "none"}
        assert_rounded_once(losses.distillation_loss, z, t, **options)
        u = np.ones(40, np.float32)
        assert_rounded_once(losses.distillation_loss_vjp, u, z, t, **options)

    def test_gaussian_kl(self, scale, rng):
        arrays = numbers(rng, scale, 40, 3), numbers(rng, scale, 40, 3)
        assert_rounded_once(losses.gaussian_kl, *arrays, reduction="none")
        u = np.ones(40, np.float32)
        assert_rounded_once(losses.gaussian_kl_vjp, u, *arrays, reduction="none")

    @pytest.mark.parametrize("kind", ["k1", "k2", "k3"])
    def test_kl_estimate(self, kind, scale, rng):
        log_p = -np.abs(numbers(rng, 3.0, 200))
        arrays = log_p, log_p + numbers(rng, scale, 200)
        assert_rounded_once(losses.kl_estimate, *arrays, kind=kind, reduction="none")
        assert_rounded_once(losses.kl_estimate, *arrays, kind=kind)
        u = np.ones(200, np.float32)
        assert_rounded_once(losses.kl_estimate_vjp, u, *arrays, kind=kind, reduction="none")

    @pytest.mark.parametrize("kind", ["ppo", "gspo", "cispo"])
    def test_policy_loss(self, kind, scale, rng):
        arrays = -np.abs(numbers(rng, 3.0, 4, 30)), -np.abs(numbers(rng, 3.0, 4, 30))
        advantage = numbers(rng, scale, 4, 1)
        assert_rounded_once(losses.policy_loss, *arrays, advantage, kind=kind)
        u = np.ones((), np.float32)
        assert_rounded_once(losses.policy_loss_vjp, u, *arrays, advantage, kind=kind)

    def test_siglip_loss(self, scale, rng):
        s, bias = numbers(rng, scale, 2, 20, 20), np.float32(-3.0)
        assert_rounded_once(losses.siglip_loss, s, bias, reduction="none")
        u = np.ones((2, 20), np.float32)
        assert_rounded_once(losses.siglip_loss_vjp, u, s, bias, reduction="none")

    @pytest.mark.parametrize("symmetric", [False, True])
    def test_info_nce(self, symmetric, scale, rng):
        s = numbers(rng, scale, 20, 20)
        options = {"symmetric": symmetric, "reduction": "none"}
        assert_rounded_once(losses.info_nce, s, **options)
        assert_rounded_once(losses.info_nce_vjp, np.ones(20, np.float32), s, **options)


@pytest.mark.parametrize("difference", [-np.inf, -1e5, -720.0, 720.0, 1e5, np.inf, np.nan])
def test_exponentials_that_no_float32_holds(difference):
    x, zero, one = np.float32([[difference]]), np.zeros((1, 1), np.float32), np.float32(1.0)
    for f, *arrays in (
        (losses.gaussian_kl, zero, x),
        (losses.kl_estimate, zero, x),
        (losses.policy_loss, zero, x, one.reshape(1, 1)),
        (losses.policy_loss, zero, x, -one.reshape(1, 1)),
        (losses.siglip_loss, x),
    ):
        with np.errstate(over="ignore"):
            np.testing.assert_array_equal(f(*arrays), np.float32(f(*widened(tuple(arrays)))))
            f_vjp = getattr(losses, f"{f.__name__}_vjp")
            got, exact = f_vjp(one, *arrays), f_vjp(*widened((one, *arrays)))
            for single, double in zip(got, exact, strict=True):
                np.testing.assert_array_equal(single, np.float32(double))
