"""What the recurrent cells share: sums over steps, the order of steps, and the gates of float32."""

import re
import tracemalloc

import numpy as np
import pytest
from conftest import FUSED

import dlref.recurrent
from dlref._core.jit import COMPILED, kernel
from dlref._math.gemm import panels
from dlref.recurrent._kernels import recurrence
from dlref.recurrent._kernels.recurrence import (
    Steps,
    sigmoid_float32,
    tanh_float32,
)


@kernel
def _evaluate(x, t, s):
    for j in range(x.size):
        t[j] = tanh_float32(np.float64(x[j]))
        s[j] = sigmoid_float32(np.float64(x[j]))


def float32_gates(x):
    t, s = np.empty_like(x), np.empty_like(x)
    _evaluate(x, t, s)
    return t, s


class TestGatesOfFloat32:
    def test_errors(self, rng):
        count = 200_000 if COMPILED else 2000
        x = np.concatenate([rng.uniform(-12, 12, count), 10 ** rng.uniform(-30, 1, count)])
        x = x.astype(np.float32)
        t, s = float32_gates(x)
        exact = np.tanh(x.astype(np.float64))
        assert np.max(abs(t - exact) / np.spacing(abs(exact).astype(np.float32))) < (
            5 if FUSED else 7
        )
        assert abs(t).max() <= 1
        assert np.max(abs(s - 1 / (1 + np.exp(-x.astype(np.float64))))) < 2e-7
        assert s.min() >= 0
        assert s.max() <= 1

    def test_far_out(self):
        x = np.array([0.0, 9.5, -9.5, np.inf, -np.inf, np.nan], np.float32)
        t, s = float32_gates(x)
        np.testing.assert_array_equal(t, np.array([0, 1, -1, 1, -1, np.nan], np.float32))
        np.testing.assert_array_equal(s[[0, 3, 4, 5]], [0.5, 1, 0, np.nan])


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
@pytest.mark.parametrize("form", ["", "_vjp"])
@pytest.mark.parametrize(("cell", "gates", "held"), [("rnn", 1, 2), ("gru", 3, 5), ("lstm", 4, 6)])
@pytest.mark.parametrize(("D", "H"), [(4, 64), (32, 32), (64, 16)])
def test_a_pass_holds_as_much_as_it_says(cell, gates, held, D, H, form, rng):
    B, T = 8, 1600
    x, u = rng.normal(size=(B, T, D)), rng.normal(size=(B, T, H))
    weights = [rng.normal(size=(gates * H, n)) / H for n in (D, H)]
    initial, dout = ((None, None), (u, u)) if cell == "lstm" else ((None,), u)
    run = getattr(dlref.recurrent, cell + form)
    given = *([dout] if form else []), x, *initial, *weights
    run(*given)
    tracemalloc.start()
    run(*given)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    text = re.sub(r"\s+", " ", run.__doc__)
    if form:
        numbers, more = held * H + 2 * D + D, 1.1  # the last D are a result
        assert f"{held} B T H + 2 B T D numbers in addition to inputs" in text
    else:
        numbers, more = held * H + D, 1.1 if H > D else 1.4
        assert re.search(rf"{held} B T H \+ B T D numbers[^.]*results? included", text)
    # for each entry and step; there are panels of 1024 rows and weights, too
    assert numbers < peak / (8 * B * T) < more * numbers


@pytest.mark.parametrize("rows", [1, 2, 4, 7, 8, 13])
@pytest.mark.parametrize("columns", [16, 300])  # one panel, and more than stand side by side
def test_rows_times_panels(rng, rows, columns):
    a, w = rng.normal(size=(rows, 9)), rng.normal(size=(columns, 9))
    packed = panels(w.T)
    out = np.zeros((rows, packed.shape[0] * packed.shape[2]))
    recurrence.add_product(a, packed, out)
    np.testing.assert_allclose(out[:, :columns], a @ w.T, rtol=0, atol=1e-13)
