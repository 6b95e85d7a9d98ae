"""What is special about long short-term memory."""

import numpy as np
import pytest
from complex_step import complex_step

from dlref._core.jit import COMPILED
from dlref.formulas import recurrent as formulas
from dlref.recurrent import (
    LSTMGates,
    lstm,
    lstm_cell,
    lstm_gates,
    lstm_gates_jvp,
    lstm_gates_vjp,
    lstm_jvp,
    lstm_vjp,
)


def check_against_pytorch(values, u, u_last, oracle, assert_close):
    """Compare both states and all gradients, of all states h and of the last cell state."""
    (want_h, want_c), grads = oracle("lstm", values, [u, u_last])
    h, c = lstm(*values)
    assert_close(h, want_h)
    assert_close(c[..., -1, :], want_c)
    u_c = np.zeros_like(u)
    u_c[..., -1, :] = u_last
    assert_close(lstm_vjp((u, u_c), *values), grads)


WIDE = (20, (9,), 5, 70) if COMPILED else (2, (5,), 2, 18)


@pytest.mark.parametrize(
    ("T", "batch", "D", "H"),
    [(1, (), 2, 3), (2, (1,), 1, 4), (50, (3,), 4, 5), (3, (2, 2), 2, 2), WIDE],
)
def test_against_pytorch(rng, assert_close, draw, oracle, T, batch, D, H):
    values = draw(rng, "lstm", T, batch, D, H)
    u, u_last = rng.normal(size=(*batch, T, H)), rng.normal(size=(*batch, H))
    check_against_pytorch(values, u, u_last, oracle, assert_close)


def test_float32_is_near_the_exact_result(rng, draw):
    T, H = (100, 128) if COMPILED else (3, 18)
    values = draw(rng, "lstm", T, (2,), 64, H, np.float32)
    u = tuple(rng.normal(size=(2, 2, T, H)).astype(np.float32))
    exact = [v.astype(np.float64) for v in values]
    got = *lstm(*values), *lstm_vjp(u, *values)
    want = *lstm(*exact), *lstm_vjp(u, *exact)
    for g, w in zip(got, want, strict=True):
        assert g.dtype == np.float32
        assert np.max(abs(g - w)) < 64 * 2.0**-23 * np.max(abs(w))


def all_of_lstm(*inputs, **options):
    """Return h, c, i, f, g, o of every step, by the formulas."""
    return *formulas.lstm(*inputs, **options), *formulas.lstm_gates(*inputs, **options)


@pytest.mark.parametrize(
    "options", [{}, {"reverse": True}, {"lengths": [2, 4]}, {"lengths": [4, 0], "reverse": True}]
)
class TestPeepholes:
    """PyTorch has none: the formula, and a complex step on it, is what there is."""

    def arrays(self, rng, draw):
        return draw(rng, "lstm", 4, (2,), 2, 3), rng.normal(size=9)

    def test_value(self, rng, assert_close, draw, options):
        values, w_p = self.arrays(rng, draw)
        want = all_of_lstm(*values, w_p=w_p, **options)
        assert_close(lstm(*values, w_p=w_p, **options), want[:2])
        assert_close(tuple(lstm_gates(*values, w_p=w_p, **options)), want[2:])

    def test_derivatives(self, rng, assert_close, draw, options):
        values, w_p = self.arrays(rng, draw)
        tangents = [rng.normal(size=v.shape) for v in values]
        dp = rng.normal(size=9)
        u = tuple(rng.normal(size=(6, 2, 4, 3)))
        want = complex_step(
            lambda *vs: all_of_lstm(*vs[:-1], w_p=vs[-1], **options),
            [*values, w_p],
            [*tangents, dp],
        )
        keywords = {"w_p": w_p, "w_p_tangent": dp, **options}
        assert_close(lstm_jvp(tuple(values), tuple(tangents), **keywords), want[:2])
        got = lstm_gates_jvp(tuple(values), tuple(tangents), **keywords)
        assert_close(tuple(got), want[2:])
        for f_vjp, douts, moved in (
            (lstm_vjp, u[:2], want[:2]),
            (lstm_gates_vjp, u[2:], want[2:]),
        ):
            grads = f_vjp(douts, *values, w_p=w_p, **options)
            pulled = [(g * v).sum() for g, v in zip(grads, [*tangents, dp], strict=True)]
            pushed = [(d * m).sum() for d, m in zip(douts, moved, strict=True)]
            assert sum(pulled) == pytest.approx(sum(pushed), rel=1e-13)

    def test_gradient_element_by_element(self, rng, assert_close, draw, options):
        values, w_p = self.arrays(rng, draw)
        u = tuple(rng.normal(size=(2, 2, 4, 3)))
        want = np.zeros(9)
        for k in range(9):
            moved = complex_step(
                lambda p: formulas.lstm(*values, w_p=p, **options), [w_p], [np.eye(9)[k]]
            )
            want[k] = sum((d * m).sum() for d, m in zip(u, moved, strict=True))
        assert_close(lstm_vjp(u, *values, w_p=w_p, **options)[-1], want)


class TestMemory:
    def test_cell_state_is_the_sum_of_what_was_written(self, rng, assert_close, draw):
        values = draw(rng, "lstm", 6, (2,), 3, 2)
        gates, c0 = lstm_gates(*values), values[2]
        kept = np.cumprod(gates.f[:, ::-1], axis=1)[:, ::-1]  # from each step to the last
        later = np.concatenate([kept[:, 1:], np.ones((2, 1, 2))], axis=1)
        want = kept[:, 0] * c0 + np.sum(later * gates.i * gates.g, axis=1)
        assert_close(lstm(*values)[1][:, -1], want)

    def test_direct_path_is_the_product_of_forget_gates(self, rng, assert_close, draw):
        """Without weights of the state there is no other path."""
        values = draw(rng, "lstm", 5, (), 3, 2)
        values[4] = np.zeros_like(values[4])
        u = np.zeros((5, 2))
        u[-1] = 1
        assert_close(lstm_vjp((None, u), *values)[2], lstm_gates(*values).f.prod(axis=0))

    def test_source_network_forgets(self):
        """A34 and X21: weights drawn in the order f, i, c, o."""
        state = np.random.RandomState(42)
        drawn = [(state.randn(2, 3).T * 0.1, state.randn(3, 3).T * 0.1) for _ in range(4)]
        w_ih, w_hh = (np.concatenate([drawn[k][n] for k in (1, 0, 2, 3)]) for n in (0, 1))
        t = np.arange(15)
        x = np.stack([np.sin(4 * np.pi * t / 14), np.cos(3 * np.pi * t / 14)], axis=1)
        h, c = lstm(x, None, None, w_ih, w_hh)
        assert h[-1] == pytest.approx([0.04329796, -0.06886619, 0.03533963], abs=5e-9)
        assert c[-1] == pytest.approx([0.08881015, -0.12784447, 0.07157043], abs=5e-9)
        f = lstm_gates(x, None, None, w_ih, w_hh).f
        assert [f.min(), f.max()] == pytest.approx([0.4519, 0.5487], abs=5e-5)
        assert f.prod(axis=0) == pytest.approx(np.full(3, 3e-5), abs=5e-6)


class TestGates:
    def test_are_a_named_tuple_between_their_bounds(self, rng, draw):
        gates = lstm_gates(*draw(rng, "lstm", 3, (2,), 2, 4))
        assert isinstance(gates, LSTMGates)
        for gate in (gates.i, gates.f, gates.o):
            assert np.all((gate > 0) & (gate < 1))
        assert np.all(abs(gates.g) < 1)

    def test_missing_cotangents_are_zero(self, rng, draw):
        values = draw(rng, "lstm", 3, (2,), 2, 4)
        u = rng.normal(size=(2, 3, 4))
        some = lstm_gates_vjp((None, u, None, None), *values)
        full = lstm_gates_vjp((0 * u, u, 0 * u, 0 * u), *values)
        for a, b in zip(some, full, strict=True):
            np.testing.assert_array_equal(a, b)


GOOD = {
    "x": np.ones((2, 5, 3)),
    "h0": np.ones((2, 4)),
    "c0": np.ones((2, 4)),
    "w_ih": np.ones((16, 3)),
    "w_hh": np.ones((16, 4)),
    "b_ih": np.ones(16),
    "b_hh": np.ones(16),
    "w_p": np.ones(12),
}


class TestErrors:
    @pytest.mark.parametrize(
        ("name", "shape", "message"),
        [
            ("x", (3,), r"'x' must have shape \(..., T, D\), not \(3,\)"),
            ("h0", (2, 3), r"'h0' must have shape \(..., H\) = \(2, 4\), not \(2, 3\)"),
            ("c0", (1, 4), r"'c0' must have shape \(..., H\) = \(2, 4\), not \(1, 4\)"),
            ("w_ih", (12, 3), r"'w_ih' must have shape \(4 H, D\) = \(16, 3\), with D of 'x'"),
            ("w_hh", (4, 4), r"'w_hh' must have shape \(4 H, H\), not \(4, 4\)"),
            ("b_ih", (4,), r"'b_ih' must have shape \(4 H,\) = \(16,\), not \(4,\)"),
            ("b_hh", (4,), r"'b_hh' must have shape \(4 H,\) = \(16,\), not \(4,\)"),
            ("w_p", (16,), r"'w_p' must have shape \(3 H,\) = \(12,\), not \(16,\)"),
        ],
    )
    def test_shapes(self, name, shape, message):
        with pytest.raises(ValueError, match=message):
            lstm(**(GOOD | {name: np.ones(shape)}))

    def test_dout(self):
        message = r"'dout\[1\]' must have shape \(..., T, H\) = \(2, 5, 4\), not \(4,\)"
        with pytest.raises(ValueError, match=message):
            lstm_vjp((None, np.ones(4)), **GOOD)

    def test_tangent_of_peepholes_that_are_not_there(self):
        values = tuple(v for name, v in GOOD.items() if name != "w_p")
        with pytest.raises(ValueError, match="'w_p_tangent' must be None"):
            lstm_jvp(values, (None,) * 7, w_p_tangent=np.ones(12))

    def test_cell_batch(self):
        with pytest.raises(
            ValueError, match=r"'c' must have shape \(..., H\) = \(1,\), not \(2,\)"
        ):
            lstm_cell([1.0], None, [1.0, 2.0], np.ones((4, 1)), np.ones((4, 1)))
