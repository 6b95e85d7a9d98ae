"""What the recurrent cells share: the product of a step, and the gates of float32."""

import tracemalloc

import numpy as np
import pytest

import dlref.recurrent
from dlref._jit import COMPILED, kernel
from dlref._recurrence import (
    Steps,
    multiply,
    outer_products,
    sigmoid_narrow,
    tanh_narrow,
    tiles,
    total,
)


@kernel
def _evaluate(x, t, s):
    for j in range(x.size):
        t[j] = tanh_narrow(np.float64(x[j]))
        s[j] = sigmoid_narrow(np.float64(x[j]))


def narrow_gates(x):
    t, s = np.empty_like(x), np.empty_like(x)
    _evaluate(x, t, s)
    return t, s


class TestGatesOfFloat32:
    def test_errors(self, rng):
        count = 200_000 if COMPILED else 2000
        x = np.concatenate([rng.uniform(-12, 12, count), 10 ** rng.uniform(-30, 1, count)])
        x = x.astype(np.float32)
        t, s = narrow_gates(x)
        exact = np.tanh(x.astype(np.float64))
        assert np.max(abs(t - exact) / np.spacing(abs(exact).astype(np.float32))) < 5
        assert abs(t).max() <= 1
        assert np.max(abs(s - 1 / (1 + np.exp(-x.astype(np.float64))))) < 2e-7
        assert s.min() >= 0
        assert s.max() <= 1

    def test_far_out(self):
        x = np.array([0.0, 9.5, -9.5, np.inf, -np.inf, np.nan], np.float32)
        t, s = narrow_gates(x)
        np.testing.assert_array_equal(t, np.array([0, 1, -1, 1, -1, np.nan], np.float32))
        np.testing.assert_array_equal(s[[0, 3, 4, 5]], [0.5, 1, 0, np.nan])


class TestProducts:
    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    @pytest.mark.parametrize(("rows", "depth", "count"), [(1, 3, 5), (9, 6, 70), (4, 4, 64)])
    def test_of_a_step(self, rng, dtype, rows, depth, count):
        a = rng.normal(size=(rows, 2, depth + 1)).astype(dtype)
        w = rng.normal(size=(depth, count)).astype(dtype)
        start = rng.normal(size=(rows, 3, count + 2)).astype(dtype)
        out = start.copy()
        multiply(0, rows, a, 1, 1, tiles(w), out, 2, 1, count)
        want = start.astype(np.float64)
        want[:, 2, 1 : count + 1] += a[:, 1, 1:].astype(np.float64) @ w
        np.testing.assert_allclose(out, want, rtol=0, atol=16 * np.finfo(dtype).eps)

    def test_rows_have_the_same_bits_in_any_company(self, rng):
        a, w = rng.normal(size=(9, 1, 7)), tiles(rng.normal(size=(7, 130)))
        together, alone = np.zeros((9, 1, 130)), np.zeros((9, 1, 130))
        multiply(0, 9, a, 0, 0, w, together, 0, 0, 130)
        for r in range(9):
            multiply(r, r + 1, a, 0, 0, w, alone, 0, 0, 130)
        assert together.tobytes() == alone.tobytes()

    def test_sums_over_steps(self, rng):
        dz, x = rng.normal(size=(3, 4, 600)), rng.normal(size=(3, 4, 2))
        np.testing.assert_allclose(
            outer_products(dz, x), np.einsum("btn,btk->nk", dz, x), rtol=0, atol=1e-13
        )
        np.testing.assert_allclose(total(dz), dz.sum(axis=(0, 1)), rtol=0, atol=1e-13)


class TestOrderOfSteps:
    @pytest.mark.parametrize("reverse", [False, True])
    @pytest.mark.parametrize("lengths", [None, [3, 0, 5]])
    def test_twice_is_once_without_what_is_beyond(self, rng, reverse, lengths):
        a = rng.normal(size=(3, 5, 2))
        steps = Steps(None if lengths is None else np.array(lengths), reverse)
        back = steps.arranged(steps.arranged(a))
        for b, end in enumerate(lengths or [5, 5, 5]):
            np.testing.assert_array_equal(back[b, :end], a[b, :end])
            assert not back[b, end:].any()


@pytest.mark.skipif(not COMPILED, reason="the arrays are the same, the loops take long")
@pytest.mark.parametrize(("cell", "gates", "held"), [("rnn", 1, 3), ("gru", 3, 8), ("lstm", 4, 7)])
def test_the_vjp_holds_as_many_states_as_it_says(cell, gates, held, rng):
    B, T, D, H = 8, 400, 4, 64
    x, u = rng.normal(size=(B, T, D)), rng.normal(size=(B, T, H))
    weights = [rng.normal(size=(gates * H, n)) / H for n in (D, H)]
    initial, dout = ((None, None), (u, u)) if cell == "lstm" else ((None,), u)
    pull = getattr(dlref.recurrent, f"{cell}_vjp")
    pull(dout, x, *initial, *weights)
    tracemalloc.start()
    pull(dout, x, *initial, *weights)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held < peak / u.nbytes < held + 0.6  # and the weights in tiles, and their gradients
