"""Tests of dlref.losses._hinge."""

import numpy as np
import pytest

from dlref.losses import hinge, hinge_grad


@pytest.mark.parametrize("squared", [False, True])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_pytorch(reduction, squared, rng):
    import peers  # noqa: PLC0415  # only where PyTorch is

    def f(p, t):
        terms = peers.torch.relu(1 - t * p) ** (1 + squared)
        return terms if reduction == "none" else getattr(terms, reduction)()

    inputs = rng.normal(size=(6, 5)), rng.choice([-1.0, 1.0], size=(6, 5))
    options = {"squared": squared, "reduction": reduction}
    peers.assert_same("losses.hinge", f, *inputs, rng=rng, **options)


def test_the_slope_at_the_kink_is_that_of_relu():
    import peers  # noqa: PLC0415  # only where PyTorch is

    assert hinge_grad(1.0, 1.0) == 0
    for f, slope in (
        (lambda p: peers.torch.relu(1 - p), 0),
        (lambda p: (1 - p).clamp(min=0), -1),
    ):
        assert peers.value_and_vjp(f, 1.0)[1][0] == slope


def test_the_squared_loss_has_no_kink():
    """Its slope is twice the shortfall; beyond the margin it is a zero without a sign."""
    slopes = hinge_grad([1.0 - 1e-9, 1.0, 3.0], [1.0, 1.0, 1.0], squared=True, reduction="sum")
    np.testing.assert_allclose(slopes, [-2e-9, 0, 0], rtol=1e-6)
    assert not np.signbit(slopes[1:]).any()
    assert np.isnan(hinge([np.nan], [1.0], squared=True))
    with pytest.raises(TypeError, match="'squared'"):
        hinge([1.0], [1.0], squared=2)


def test_it_bounds_the_number_of_errors(rng):
    p, t = rng.normal(size=100), rng.choice([-1, 1], size=100)
    assert np.all(hinge(p, t, reduction="none") >= (np.sign(p) != t))
