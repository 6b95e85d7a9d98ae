"""What is special about the gated recurrent unit."""

import numpy as np
import pytest

import dlref.recurrent
from dlref._core.jit import COMPILED
from dlref.recurrent import gru, gru_cell, gru_vjp

WIDE = (20, (9,), 5, 70) if COMPILED else (2, (5,), 2, 34)


@pytest.mark.parametrize(
    ("T", "batch", "D", "H"),
    [(1, (), 2, 3), (2, (1,), 1, 4), (50, (3,), 4, 5), (3, (2, 2), 2, 2), WIDE],
)
def test_against_pytorch(rng, assert_close, draw, oracle, T, batch, D, H):
    values = draw(rng, "gru", T, batch, D, H)
    u = rng.normal(size=(*batch, T, H))
    [want], grads = oracle("gru", values, [u])
    assert_close(gru(*values), want)
    assert_close(gru_vjp(u, *values), grads)


@pytest.mark.parametrize("reset_after", [False, True])
def test_float32_is_near_the_exact_result(rng, draw, reset_after):
    T, H = (100, 128) if COMPILED else (3, 18)
    values = draw(rng, "gru", T, (2,), 64, H, np.float32)
    u = rng.normal(size=(2, T, H)).astype(np.float32)
    exact = [v.astype(np.float64) for v in values]
    options = {"reset_after": reset_after}
    got = gru(*values, **options), *gru_vjp(u, *values, **options)
    want = gru(*exact, **options), *gru_vjp(u, *exact, **options)
    for g, w in zip(got, want, strict=True):
        assert g.dtype == np.float32
        assert np.max(abs(g - w)) < 64 * 2.0**-23 * np.max(abs(w))


class TestReset:
    def test_conventions_agree_where_the_gate_is_open(self, rng, assert_close, draw):
        values = draw(rng, "gru", 4, (2,), 3, 2)
        values[4][:2] = 60.0
        assert_close(gru(*values, reset_after=False), gru(*values), tolerance=1e-13)

    def test_conventions_differ_else(self, rng, draw):
        values = draw(rng, "gru", 4, (2,), 3, 2)
        assert np.max(abs(gru(*values, reset_after=False) - gru(*values))) > 1e-3

    def test_only_after_the_product_do_the_biases_differ(self, rng, draw):
        values = draw(rng, "gru", 4, (2,), 3, 2)
        u = rng.normal(size=(2, 4, 2))
        *_, of_input, of_state = gru_vjp(u, *values, reset_after=False)
        np.testing.assert_array_equal(of_input, of_state)
        *_, of_input, of_state = gru_vjp(u, *values)
        np.testing.assert_array_equal(of_input[:4], of_state[:4])
        assert np.all(of_input[4:] != of_state[4:])


class TestMean:
    def test_stays_within_its_bounds(self, rng, draw):
        x, h0, *weights = draw(rng, "gru", 30, (4,), 3, 5)
        assert abs(gru(9 * x, np.sign(h0), *weights)).max() <= 1

    def test_weights_add_up_to_1(self, draw, rng):
        """With candidates of 1 and a state of 1 there is nothing else to come to."""
        x, h0, *weights = draw(rng, "gru", 5, (2,), 3, 2)
        weights[2][4:] = 99.0
        np.testing.assert_allclose(gru(x, np.ones_like(h0), *weights), 1, rtol=1e-15)


GOOD = {
    "x": np.ones((2, 5, 3)),
    "h0": np.ones((2, 4)),
    "w_ih": np.ones((12, 3)),
    "w_hh": np.ones((12, 4)),
    "b_ih": np.ones(12),
    "b_hh": np.ones(12),
}


class TestErrors:
    @pytest.mark.parametrize(
        ("name", "shape", "message"),
        [
            ("x", (3,), r"'x' must have shape \(..., T, D\), not \(3,\)"),
            ("h0", (2, 3), r"'h0' must have shape \(..., H\) = \(2, 4\), not \(2, 3\)"),
            ("w_ih", (16, 3), r"'w_ih' must have shape \(3 H, D\) = \(12, 3\), with D of 'x'"),
            ("w_hh", (16, 4), r"'w_hh' must have shape \(3 H, H\), not \(16, 4\)"),
            ("b_ih", (4,), r"'b_ih' must have shape \(3 H,\) = \(12,\), not \(4,\)"),
            ("b_hh", (4,), r"'b_hh' must have shape \(3 H,\) = \(12,\), not \(4,\)"),
        ],
    )
    def test_shapes(self, name, shape, message):
        with pytest.raises(ValueError, match=message):
            gru(**(GOOD | {name: np.ones(shape)}))

    def test_dout(self):
        message = r"'dout' must have shape \(..., T, H\) = \(2, 5, 4\), not \(4,\)"
        with pytest.raises(ValueError, match=message):
            gru_vjp(np.ones(4), **GOOD)

    def test_cell(self):
        with pytest.raises(
            ValueError, match=r"'h' must have shape \(..., H\) = \(1,\), not \(2,\)"
        ):
            gru_cell([1.0], [1.0, 2.0], np.ones((3, 1)), np.ones((3, 1)))

    @pytest.mark.parametrize("value", [1, "after", None, [True]])
    @pytest.mark.parametrize("name", ["gru", "gru_vjp", "gru_jvp", "gru_cell"])
    def test_reset_after(self, name, value):
        before = {"gru_vjp": (np.ones((2, 5, 4)),)}.get(name, ())
        arguments = (
            tuple(GOOD.values()) if name != "gru_cell" else ([1.0], None, [[1]] * 3, [[1]] * 3)
        )
        if name == "gru_jvp":
            before, arguments = (arguments,), (arguments,)
        with pytest.raises(TypeError, match="'reset_after' must be True or False, not"):
            getattr(dlref.recurrent, name)(*before, *arguments, reset_after=value)


@pytest.mark.parametrize("case", ["equal r", "r varies", "bias"])
def test_where_the_conventions_of_the_reset_gate_differ(rng, case):
    H = 3
    x, h, w_ih, w_hh = (rng.normal(size=size) for size in (2, H, (3 * H, 2), (3 * H, H)))
    b_hh = np.zeros(3 * H)
    w_ih[:H] = w_hh[:H] = 0  # r = sigmoid(b), half-open everywhere
    if case == "r varies":
        b_hh[:H] = -1, 0, 1
    if case == "bias":
        b_hh[2 * H :] = 1
    after, before = (
        gru_cell(x, h, w_ih, w_hh, b_hh=b_hh, reset_after=where) for where in (True, False)
    )
    gap = abs(after - before).max()
    assert (gap < 1e-15) if case == "equal r" else (gap > 1e-2)
