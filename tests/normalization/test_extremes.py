"""Answers that are representable are given, though squares overflow or vanish on the way."""

import numpy as np
import pytest

from dlref import normalization

MAPS = {
    "layer_norm": (),
    "rms_norm": (),
    "batch_norm": (),
    "group_norm": (2,),
    "instance_norm": (),
}


@pytest.mark.parametrize("unit", [2.0**532, 2.0**-532, 2.0**1020, 2.0**-1000])
@pytest.mark.parametrize("name", MAPS)
def test_of_any_size(rng, name, unit):
    x, u, v = rng.normal(size=(3, 2, 9, 4))
    x = np.clip(x, -3, 3)
    f, vjp, jvp = (getattr(normalization, name + form) for form in ("", "_vjp", "_jvp"))
    none = (None,) * (1 if name == "rms_norm" else 2)
    groups = MAPS[name]
    np.testing.assert_allclose(f(x * unit, *groups, eps=0), f(x, *groups, eps=0), rtol=1e-13)
    got, want = (vjp(u, x * s, *groups, eps=0) for s in (unit, 1.0))
    np.testing.assert_allclose(np.float64(got) * unit, want, rtol=1e-10, atol=1e-12)
    constant = (None,) * len(groups)
    got, want = (
        jvp((x * s, *groups, *none), (v * s, *constant, *none), eps=0) for s in (unit, 1.0)
    )
    np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", MAPS)
def test_epsilon_counts_where_the_spread_is_tiny(name):
    x = 1e-200 * np.arange(24.0).reshape(2, 3, 4)
    out = getattr(normalization, name)(x, *MAPS[name])
    assert np.max(abs(out)) < 1e-195


@pytest.mark.parametrize("name", MAPS)
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_not_finite_stays_so(name, bad):
    x = np.ones((2, 3, 4))
    x[0, 0, 0] = bad
    assert np.isnan(getattr(normalization, name)(x, *MAPS[name])).any()
