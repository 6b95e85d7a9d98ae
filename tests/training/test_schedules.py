"""Tests of dlref.training._schedules."""

import math

import numpy as np
import pytest

from dlref.training import (
    cosine_schedule,
    inverse_sqrt_schedule,
    warmup_schedule,
    wsd_schedule,
)

T = np.arange(1, 200)


def test_cosine_is_pytorchs():
    torch = pytest.importorskip("torch", reason="see the dependency group 'peers'")
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.5)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=50, eta_min=0.125)
    for t in range(50):
        rate = optimizer.param_groups[0]["lr"]
        np.testing.assert_allclose(
            cosine_schedule(t, peak=0.5, steps=50, floor=0.125), rate, rtol=1e-13
        )
        optimizer.step()
        schedule.step()


@pytest.mark.parametrize("kind", ["linear", "1-sqrt", "cosine"])
def test_the_lines_of_get_wsd_schedule(kind):
    """Transformers: the three stages, with the floor as a share of the peak."""
    warmup, stable, decay, share = 10, 50, 20, 0.1

    def factor(t):
        if t < warmup:
            return t / warmup
        if t < warmup + stable:
            return 1.0
        if t < warmup + stable + decay:
            progress = (t - warmup - stable) / decay
            curves = {"linear": 1 - progress, "1-sqrt": 1 - math.sqrt(progress)}
            value = curves.get(kind, 0.5 * (1 + math.cos(math.pi * progress)))
            return value * (1 - share) + share
        return share

    t = np.arange(120)
    got = wsd_schedule(t, peak=2.0, steps=80, decay=20, warmup=10, floor=0.2, kind=kind)
    np.testing.assert_allclose(got, [2 * factor(step) for step in t], rtol=1e-14)


def test_linear_decay_of_pytorch():
    torch = pytest.importorskip("torch")
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.5)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.25, total_iters=40)
    for t in range(60):
        got = wsd_schedule(t, peak=0.5, steps=40, decay=40, floor=0.125)
        np.testing.assert_allclose(got, optimizer.param_groups[0]["lr"], rtol=1e-13)
        optimizer.step()
        schedule.step()


def test_without_a_plateau_half_a_cosine_is_the_cosine_schedule():
    options = {"peak": 2.0, "steps": 90, "warmup": 10, "floor": 0.5}
    got = wsd_schedule(np.arange(120), decay=80, kind="cosine", **options)
    np.testing.assert_allclose(got, cosine_schedule(np.arange(120), **options), rtol=1e-15)


def test_the_transformers_schedule():
    d, w = 512, 40
    want = d**-0.5 * np.minimum(T**-0.5, T * w**-1.5)
    np.testing.assert_allclose(inverse_sqrt_schedule(T, peak=(d * w) ** -0.5, warmup=w), want)
    np.testing.assert_allclose((512 * 4000) ** -0.5, 0.0007, atol=5e-6)


def test_all_warm_up_alike():
    rise = warmup_schedule(T[:10], peak=2.0, warmup=10)
    np.testing.assert_allclose(rise, 0.2 * T[:10], rtol=1e-15)
    np.testing.assert_array_equal(inverse_sqrt_schedule(T[:10], peak=2.0, warmup=10), rise)
    np.testing.assert_allclose(
        cosine_schedule(T[:10], peak=2.0, steps=100, warmup=10), rise, rtol=1e-15
    )
    np.testing.assert_array_equal(warmup_schedule([0, 1, 5], peak=2.0, warmup=0), [2, 2, 2])


def test_limits():
    assert cosine_schedule(100, peak=1.0, steps=100, warmup=10, floor=0.25) == 0.25
    assert cosine_schedule(10**9, peak=1.0, steps=100, floor=0.25) == 0.25
    assert cosine_schedule(10, peak=1.0, steps=100, warmup=10) == 1.0
    assert inverse_sqrt_schedule(0, peak=1.0, warmup=4) == 0
    assert np.all(np.diff(cosine_schedule(T, peak=1.0, steps=150)) <= 0)


@pytest.mark.parametrize(
    "schedule",
    [
        lambda t, **k: warmup_schedule(t, **{"peak": 1.0, "warmup": 4} | k),
        lambda t, **k: inverse_sqrt_schedule(t, **{"peak": 1.0, "warmup": 4} | k),
        lambda t, **k: cosine_schedule(t, **{"peak": 1.0, "warmup": 4, "steps": 9} | k),
        lambda t, **k: wsd_schedule(t, **{"peak": 1.0, "warmup": 4, "steps": 9, "decay": 2} | k),
    ],
)
def test_shapes_and_errors(schedule):
    assert schedule(3).shape == ()
    assert schedule(3).dtype == schedule(np.float32(3)).dtype == np.float64
    assert schedule(np.ones((2, 3))).shape == (2, 3)
    for bad in (-1, np.nan, [1, -1]):
        with pytest.raises(ValueError, match="'step' must be at least 0"):
            schedule(bad)
    with pytest.raises(TypeError, match="'step' must be"):
        schedule("first")
    with pytest.raises(ValueError, match="'peak' must be at least 0"):
        schedule(1, peak=-1)
    with pytest.raises(ValueError, match="'warmup' must be at least"):
        schedule(1, warmup=-1)
    with pytest.raises(TypeError, match="'warmup' must be an integer"):
        schedule(1, warmup=1.5)


def test_errors_of_the_cosine():
    with pytest.raises(ValueError, match="'steps' must be at least 5, not 4"):
        cosine_schedule(1, peak=1.0, steps=4, warmup=4)
    with pytest.raises(ValueError, match="'floor' must be at least 0"):
        cosine_schedule(1, peak=1.0, steps=4, floor=-1)
    with pytest.raises(ValueError, match=r"'steps' must be at least 7, not 6"):
        wsd_schedule(1, peak=1.0, steps=6, warmup=4, decay=3)
    with pytest.raises(ValueError, match=r"'decay' must be at least 1, not 0"):
        wsd_schedule(1, peak=1.0, steps=6, decay=0)
    with pytest.raises(ValueError, match=r"'kind' must be 'linear', '1-sqrt' or 'cosine'"):
        wsd_schedule(1, peak=1.0, steps=6, decay=1, kind="sqrt")
