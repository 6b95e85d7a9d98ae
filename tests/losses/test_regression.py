"""Tests of the regression losses."""

import numpy as np
import pytest

from dlref import losses

NAMES = ["squared_error", "absolute_error", "huber"]
PYTORCH = {"squared_error": "mse_loss", "absolute_error": "l1_loss", "huber": "huber_loss"}


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("name", NAMES)
def test_pytorch(name, reduction, rng):
    import peers  # noqa: PLC0415  # only where PyTorch is

    def f(p, t):
        return getattr(peers.torch.nn.functional, PYTORCH[name])(p, t, reduction=reduction)

    inputs = rng.normal(scale=2, size=(6, 5)), rng.normal(size=(6, 5))
    peers.assert_same(f"losses.{name}", f, *inputs, rng=rng, reduction=reduction)


def test_huber_lies_between_its_relatives(rng, assert_close):
    p, t = rng.normal(size=9), rng.normal(size=9)
    assert_close(losses.huber(p, t, delta=1e6), 0.5 * losses.squared_error(p, t))
    near = losses.huber(p, t, delta=1e-9) / 1e-9
    np.testing.assert_allclose(near, losses.absolute_error(p, t), rtol=1e-8)


def test_huber_is_smooth_where_its_pieces_meet():
    below, above = np.nextafter(2, 0), np.nextafter(2, 3)
    np.testing.assert_allclose(
        losses.huber([below, 2, above], [0, 0, 0], delta=2, reduction="none"), 2, rtol=1e-15
    )


def test_huber_of_infinite_errors():
    assert losses.huber(np.inf, 0.0) == np.inf
    assert losses.huber_grad(-np.inf, 0.0) == -1


def test_the_slope_at_the_kink_is_zero():
    import peers  # noqa: PLC0415  # only where PyTorch is

    assert losses.absolute_error_grad(1.0, 1.0) == 0
    _, (want,) = peers.value_and_vjp(lambda x: x.abs(), 0.0)
    assert want == 0


@pytest.mark.parametrize("name", NAMES)
def test_the_mean_of_nothing_is_nan(name):
    assert np.isnan(getattr(losses, name)([], []))
    assert getattr(losses, name)([], [], reduction="sum") == 0
    assert getattr(losses, f"{name}_grad")([], []).shape == (0,)


@pytest.mark.parametrize("name", [*NAMES, "hinge"])
class TestErrors:
    def test_shapes_do_not_broadcast(self, name):
        for form, arguments in (("", ()), ("_grad", ()), ("_vjp", (1.0,))):
            with pytest.raises(ValueError, match=r"'target' must have shape \(3,\), not \(1,\)"):
                getattr(losses, name + form)(*arguments, [1, 2, 3], [1])
        with pytest.raises(ValueError, match=r"'primals\[1\]' must have shape \(3,\), not \(\)"):
            getattr(losses, f"{name}_jvp")(([1, 2, 3], 1), (None, None))

    def test_reductions(self, name):
        for form, arguments in (("", ()), ("_grad", ()), ("_vjp", (1.0,))):
            with pytest.raises(ValueError, match=r"'reduction' must be 'mean'.*not 'batchmean'"):
                getattr(losses, name + form)(*arguments, [1.0], [1.0], reduction="batchmean")
        with pytest.raises(ValueError, match="'reduction' must be"):
            getattr(losses, f"{name}_jvp")(([1.0], [1.0]), (None, None), reduction=None)
        with pytest.raises(ValueError, match="'reduction' must be 'mean' or 'sum', not 'none'"):
            getattr(losses, f"{name}_grad")([1.0], [1.0], reduction="none")


@pytest.mark.parametrize("delta", [0, -1.0, np.nan])
def test_delta_is_positive(delta):
    for call in (
        lambda: losses.huber([1.0], [1.0], delta=delta),
        lambda: losses.huber_grad([1.0], [1.0], delta=delta),
        lambda: losses.huber_vjp(1.0, [1.0], [1.0], delta=delta),
        lambda: losses.huber_jvp(([1.0], [1.0]), (None, None), delta=delta),
    ):
        with pytest.raises(ValueError, match="'delta' must be greater than 0, not"):
            call()
