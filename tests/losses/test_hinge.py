"""Tests of dlref.losses._hinge."""

import numpy as np
import pytest

from dlref.losses import hinge, hinge_grad


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_pytorch(reduction, rng):
    import peers  # noqa: PLC0415  # only where PyTorch is

    def f(p, t):
        terms = peers.torch.relu(1 - t * p)
        return terms if reduction == "none" else getattr(terms, reduction)()

    inputs = rng.normal(size=(6, 5)), rng.choice([-1.0, 1.0], size=(6, 5))
    peers.assert_same("losses.hinge", f, *inputs, rng=rng, reduction=reduction)


def test_the_slope_at_the_kink_is_that_of_relu():
    import peers  # noqa: PLC0415  # only where PyTorch is

    assert hinge_grad(1.0, 1.0) == 0
    for f, slope in (
        (lambda p: peers.torch.relu(1 - p), 0),
        (lambda p: (1 - p).clamp(min=0), -1),
    ):
        assert peers.value_and_vjp(f, 1.0)[1][0] == slope


def test_it_bounds_the_number_of_errors(rng):
    p, t = rng.normal(size=100), rng.choice([-1, 1], size=100)
    assert np.all(hinge(p, t, reduction="none") >= (np.sign(p) != t))
