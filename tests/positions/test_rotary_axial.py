"""Tests of dlref.positions._rotary_axial."""

import numpy as np
import pytest

import dlref.positions as P

F = P.rope_frequencies(8)


@pytest.mark.parametrize("interleaved", [True, False])
def test_the_score_depends_on_both_offsets(interleaved, rng):
    q, k = rng.normal(size=(2, 16))

    def score(place, other):
        tables = P.rope_tables([place, other], F)
        a, b = P.apply_rope_axial([q, k], *tables, interleaved=interleaved)
        return a @ b

    want = P.rope_score(q[:8], k[:8], 3, F, interleaved=interleaved)
    want += P.rope_score(q[8:], k[8:], -5, F, interleaved=interleaved)
    for row, column in ((0, 5), (100, 1000)):
        got = score((row, column), (row + 3, column - 5))
        np.testing.assert_allclose(got, want, rtol=0, atol=1e-12)


def test_one_coordinate_is_apply_rope(rng):
    x, tables = rng.normal(size=(2, 5, 8)), P.rope_tables(np.arange(5)[:, None], F)
    want = P.apply_rope(x, *(table[:, 0] for table in tables))
    np.testing.assert_array_equal(P.apply_rope_axial(x, *tables), want)
    np.testing.assert_allclose(P.apply_rope_axial_vjp(want, x, *tables), x, rtol=0, atol=1e-15)


def test_errors():
    t = np.ones((3, 2, 2))
    with pytest.raises(ValueError, match=r"^Argument 'x' must have shape \(3, 8\), not \(3, 6\)"):
        P.apply_rope_axial(np.ones((3, 6)), t, t)
    with pytest.raises(ValueError, match=r"^Argument 'cos' must have at least 3 axes"):
        P.apply_rope_axial(np.ones((3, 8)), t[0], t[0])
    with pytest.raises(ValueError, match=r"^Argument 'tangents\[1\]' must be None"):
        P.apply_rope_axial_jvp((np.ones((3, 8)), t, t), (None, t, None))
