"""Tests of dlref.positions._sinusoidal."""

import exact
import ml_dtypes
import numpy as np
import pytest
from mpmath import mp, mpf

import dlref.positions as P
from dlref._core.jit import COMPILED

COUNT = 8 if COMPILED else 2


def exact_table(positions, dim, spacing="paper", base=10000.0):
    """Return (sines, cosines) to 60 digits, a list a position."""
    step = mpf(2) / dim if spacing == "paper" else mpf(1) / max(dim // 2 - 1, 1)
    omega = [mpf(base) ** (-i * step) for i in range((dim + 1) // 2)]
    return [([mp.sin(p * w) for w in omega], [mp.cos(p * w) for w in omega]) for p in positions]


def arranged(rows, dim, layout):
    out = []
    for sin, cos in rows:
        if layout == "interleaved":
            both = [x for pair in zip(sin, cos, strict=True) for x in pair][:dim]
        else:
            both = [*sin[: dim // 2], *cos[: dim // 2], *[mpf(0)] * (dim % 2)]
        out.extend(both)
    return out


@pytest.mark.parametrize("offset", [0, 1_000_000 - 3, 2**40, -5, 0.25])
@pytest.mark.parametrize("layout", ["interleaved", "halves"])
@pytest.mark.parametrize("spacing", ["paper", "tensor2tensor"])
@pytest.mark.parametrize("dim", [1, 2, 3, 4, 37, 64])
def test_every_layout_spacing_width_and_offset(dim, spacing, layout, offset):
    with mp.workdps(60):
        positions = [mpf(offset) + r for r in range(COUNT)]
        want = arranged(exact_table(positions, dim, spacing), dim, layout)
    options = {"layout": layout, "spacing": spacing, "offset": offset}
    wide = P.sinusoidal(COUNT, dim, **options)
    assert wide.shape == (COUNT, dim)
    assert exact.ulp_errors(wide.ravel(), want).max() <= (0.9 if abs(offset) < 2**40 else 3)
    narrow = P.sinusoidal(COUNT, dim, dtype=np.float32, **options)
    assert narrow.dtype == np.float32
    assert exact.ulp_errors(narrow.ravel(), want).max() <= 0.501


def test_the_paper_and_tensor2tensor_differ():
    both = [P.sinusoidal(100, 64, spacing=s) for s in ("paper", "tensor2tensor")]
    assert abs(both[0] - both[1]).max().round(2) == 1.07


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, "float32", ">f8"])
def test_dtype(dtype):
    got = P.sinusoidal(5, 6, dtype=dtype)
    assert got.dtype == np.dtype(dtype).newbyteorder("=")
    want = P.sinusoidal(5, 6).astype(np.float32).astype(dtype)
    np.testing.assert_allclose(got.astype(float), want.astype(float), rtol=1e-2)


@pytest.mark.parametrize("layout", ["interleaved", "halves"])
@pytest.mark.parametrize("spacing", ["paper", "tensor2tensor"])
@pytest.mark.parametrize("k", [-40, 0, 1, 0.5, 1000])
def test_the_shift_holds_at_every_position(k, spacing, layout, assert_close):
    options = {"layout": layout, "spacing": spacing}
    M = P.sinusoidal_shift(k, 32, **options)
    table, moved = (P.sinusoidal(60, 32, offset=o, **options) for o in (7, 7 + k))
    np.testing.assert_allclose(table @ M.T, moved, rtol=0, atol=4e-15)
    assert_close(M @ M.T, np.eye(32))
    np.testing.assert_array_equal(M.T, P.sinusoidal_shift(-k, 32, **options))


def test_shifts_are_a_batch_and_rotations_transposed():
    M = P.sinusoidal_shift([[1, 2, 3]], 8)
    assert M.shape == (1, 3, 8, 8)
    np.testing.assert_array_equal(M[0, 1], P.sinusoidal_shift(2, 8))
    want = P.rope_matrix([1, 2, 3], P.rope_frequencies(8)).swapaxes(-1, -2)
    np.testing.assert_allclose(M[0], want, rtol=0, atol=2e-16)
    assert P.sinusoidal_shift(np.float32(1), 4).dtype == np.float32


def test_the_gram_matrix_is_toeplitz():
    table = P.sinusoidal(200, 128)
    gram = table @ table.T
    for k in (0, 1, 50):
        diagonal = np.diagonal(gram, k)
        np.testing.assert_allclose(diagonal, diagonal[0], rtol=0, atol=5e-13)
    np.testing.assert_allclose(np.diagonal(gram), 64)
    assert gram[1, 2].round(1) == 62.1
    far = P.sinusoidal(1001, 128)[[1, 1000]]
    assert (far[0] @ far[1]).round(1) == 11.7


def test_only_rows_far_beyond_the_end_are_far_from_all_before():
    rows = P.sinusoidal(512, 128)

    def nearest(offset):
        late = P.sinusoidal(64, 128, offset=offset)
        return np.linalg.norm(late[:, None] - rows, axis=-1).min(axis=1)

    neighbors = np.linalg.norm(rows[1] - rows[0])
    assert nearest(512)[0] == pytest.approx(neighbors)
    for offset in (4096, 8192, 100_000):
        assert nearest(offset).min() > 5 * neighbors


def test_low_columns_are_fast():
    signs = np.sign(P.sinusoidal(512, 128))
    changes = (signs[1:] * signs[:-1] < 0).sum(0)
    assert changes[[0, 20, 126, 127]].tolist() == pytest.approx([163, 39, 1, 0], abs=1)


@pytest.mark.parametrize(("length", "loss"), [(100, 6e-6), (131_072, 8e-3)])
def test_what_float32_throughout_loses_at_width_128(length, loss):
    p, f = np.arange(max(length - 3000, 0), length), P.rope_frequencies(128).astype(np.float32)
    angle = p[:, None].astype(np.float32) * f
    table = P.sinusoidal(len(p), 128, offset=int(p[0]))
    error = max(abs(np.sin(angle) - table[:, ::2]).max(), abs(np.cos(angle) - table[:, 1::2]).max())
    assert error == pytest.approx(loss, rel=0.1)


@pytest.mark.skipif(not COMPILED, reason="of a million sines")
def test_what_float32_throughout_would_lose():
    p, f = np.arange(5000, dtype=np.float32), P.rope_frequencies(512).astype(np.float32)
    error = abs(np.sin(p[:, None] * f) - P.sinusoidal(5000, 512)[:, ::2]).max()
    assert 2e-4 < error < 6e-4


def test_pytorch(assert_close):
    torch = pytest.importorskip("peers").torch
    p, i = torch.arange(50, dtype=torch.float64), torch.arange(0, 16, 2, dtype=torch.float64)
    angle = p[:, None] * 10000 ** (-i / 16)
    want = torch.stack([angle.sin(), angle.cos()], -1).flatten(-2).numpy()
    np.testing.assert_allclose(P.sinusoidal(50, 16), want, rtol=0, atol=2e-14)


@pytest.mark.parametrize(("length", "dim"), [(0, 4), (0, 1)])
def test_empty(length, dim):
    assert P.sinusoidal(length, dim).shape == (length, dim)


class TestErrors:
    @pytest.mark.parametrize(
        ("arguments", "options", "words"),
        [
            ((-1, 4), {}, "'length' must be at least 0, not -1"),
            ((1, 0), {}, "'dim' must be at least 1, not 0"),
            ((1, 2**40), {}, "'dim' must be at most 1048576, not 1099511627776"),
            ((1, 4), {"base": 1}, "'base' must be greater than 1, not 1"),
            ((1, 4), {"layout": "x"}, "'layout' must be 'interleaved' or 'halves', not 'x'"),
            ((1, 4), {"spacing": "x"}, "'spacing' must be 'paper' or 'tensor2tensor', not 'x'"),
        ],
    )
    def test_values(self, arguments, options, words):
        with pytest.raises(ValueError, match=rf"^Argument {words}\.$"):
            P.sinusoidal(*arguments, **options)

    def test_no_memory_is_large_enough(self):
        with pytest.raises(ValueError, match=r"^Arguments 'length' and 'dim' must make fewer than"):
            P.sinusoidal(2**40, 2**10)

    def test_types(self):
        with pytest.raises(TypeError, match=r"^Argument 'length' must be an integer"):
            P.sinusoidal(1.5, 4)
        with pytest.raises(TypeError, match=r"^Argument 'offset' must be a number, not 'a'"):
            P.sinusoidal(1, 4, offset="a")
        for dtype in (complex, "nonsense"):
            with pytest.raises(TypeError, match=r"^Argument 'dtype' must be integer, float16"):
                P.sinusoidal(1, 4, dtype=dtype)

    def test_an_odd_width_has_no_shift(self):
        with pytest.raises(ValueError, match=r"^Argument 'dim' must be even, not 5\.$"):
            P.sinusoidal_shift(1, 5)
        with pytest.raises(ValueError, match=r"^Argument 'dim' must be at least 2, not 0\.$"):
            P.sinusoidal_shift(1, 0)
