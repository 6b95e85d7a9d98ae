"""Tests of dlref.positions._xpos."""

import numpy as np
import pytest

import dlref.positions as P

F = P.rope_frequencies(8)


@pytest.mark.parametrize("interleaved", [True, False])
def test_the_score_depends_on_the_offset(interleaved, rng):
    q, k = rng.normal(size=(2, 8))
    zeta = (np.array([0, 2, 4, 6]) / 8 + 0.4) / 1.4
    pairs = (lambda v: v[::2] + 1j * v[1::2]) if interleaved else (lambda v: v[:4] + 1j * v[4:])
    r = -100
    want = np.sum(np.conj(pairs(q)) * pairs(k) * np.exp(1j * r * F) * zeta ** (-r / 512)).real
    for m in (100, 3000, -400):
        tables = *P.rope_tables([m, m + r], F), P.xpos_scales([m, m + r], 8)
        a = P.apply_xpos([q, k], *tables, interleaved=interleaved)[0]
        b = P.apply_xpos([q, k], *tables, inverse=True, interleaved=interleaved)[1]
        np.testing.assert_allclose(a @ b, want, rtol=0, atol=1e-12)


def test_without_scales_it_is_apply_rope(rng):
    x, (cos, sin) = rng.normal(size=(2, 5, 8)), P.rope_tables(np.arange(5), F)
    for inverse in (False, True):
        got = P.apply_xpos(x, cos, sin, np.ones_like(cos), inverse=inverse)
        np.testing.assert_array_equal(got, P.apply_rope(x, cos, sin))


def test_every_term_decays_for_earlier_keys():
    scales = P.xpos_scales(np.arange(0, 5000, 100), 64)
    assert np.all(np.diff(scales, axis=0) < 0)  # with the distance
    assert np.all(np.diff(scales[1:], axis=1) > 0)  # fast pairs fade first


def test_smallest_normal_float32_is_where_the_docstring_says():
    tiny = np.finfo(np.float32).tiny
    assert P.xpos_scales(35_500, 64)[0] > tiny > P.xpos_scales(36_000, 64)[0]


def test_float32_is_rounded_once(rng):
    x = np.float32(rng.normal(size=(16, 64)))
    f = P.rope_frequencies(64)
    tables = [
        np.float32(t) for t in (*P.rope_tables(np.arange(16), f), P.xpos_scales(range(16), 64))
    ]
    wide = P.apply_xpos(*(a.astype(float) for a in (x, *tables)))
    got = P.apply_xpos(x, *tables)
    np.testing.assert_array_less(np.abs(got - wide), 0.501 * np.spacing(np.abs(got)) + 1e-45)


def test_errors():
    with pytest.raises(ValueError, match=r"^Argument 'dim' must be even, not 3"):
        P.xpos_scales([0], 3)
    for name in ("gamma", "scale_base"):
        with pytest.raises(ValueError, match=rf"^Argument '{name}' must be greater than 0, not 0"):
            P.xpos_scales([0], 4, **{name: 0.0})
    with pytest.raises(ValueError, match=r"^Argument 'gamma' must be at most .*, not inf"):
        P.xpos_scales([0], 4, gamma=np.inf)
    t = np.ones((3, 2))
    with pytest.raises(TypeError, match=r"^Argument 'inverse' must be True or False, not 2"):
        P.apply_xpos(np.ones((3, 4)), t, t, t, inverse=2)
    with pytest.raises(
        ValueError, match=r"^Argument 'scales' must have shape \(3, 2\), not \(3,\)"
    ):
        P.apply_xpos(np.ones((3, 4)), t, t, np.ones(3))
    with pytest.raises(ValueError, match=r"^Argument 'tangents\[3\]' must be None"):
        P.apply_xpos_jvp((np.ones((3, 4)), t, t, t), (None, None, None, t))
