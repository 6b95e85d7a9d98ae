"""What is special about the recurrent network and backpropagation through time."""

import sys

import numpy as np
import pytest

import dlref
import dlref._core.threads
from dlref._core.jit import COMPILED
from dlref.recurrent import rnn, rnn_cell, rnn_jvp, rnn_state_jacobian, rnn_vjp

WIDE = (20, (9,), 5, 70) if COMPILED else (2, (5,), 3, 66)  # more than a tile, and rows left over


@pytest.mark.parametrize("activation", ["tanh", "relu"])
@pytest.mark.parametrize(
    ("T", "batch", "D", "H"),
    [(1, (), 2, 3), (2, (1,), 1, 4), (50, (3,), 4, 5), (3, (2, 2), 2, 2), WIDE],
)
def test_against_pytorch(rng, assert_close, draw, oracle, T, batch, D, H, activation):
    values = draw(rng, "rnn", T, batch, D, H)
    u = rng.normal(size=(*batch, T, H))
    [want], grads = oracle("rnn", values, [u], nonlinearity=activation)
    assert_close(rnn(*values, activation=activation), want)
    assert_close(rnn_vjp(u, *values, activation=activation), grads)


def test_float32_is_near_the_exact_result(rng, draw):
    T, H = (100, 128) if COMPILED else (3, 70)
    values = draw(rng, "rnn", T, (2,), 64, H, np.float32)
    u = rng.normal(size=(2, T, H)).astype(np.float32)
    exact = [v.astype(np.float64) for v in values]
    pairs = [(rnn(*values), rnn(*exact)), *zip(rnn_vjp(u, *values), rnn_vjp(u, *exact))]  # noqa: B905
    for got, want in pairs:
        assert got.dtype == np.float32
        assert np.max(abs(got - want)) < 64 * 2.0**-23 * np.max(abs(want))


def test_a_row_has_the_same_bits_in_any_company(rng, draw, monkeypatch):
    T, batch, D, H = WIDE
    x, h0, *weights = draw(rng, "rnn", T, batch, D, H, np.float32)
    together = rnn(x, h0, *weights)
    monkeypatch.setattr(dlref._core.threads, "MIN_WORK", 1)
    assert rnn(x, h0, *weights).tobytes() == together.tobytes()
    assert rnn(x[2:4], h0[2:4], *weights).tobytes() == together[2:4].tobytes()


def test_products_of_the_inputs_are_formed_for_all_steps_at_once(rng, monkeypatch):
    module = sys.modules[rnn.__module__]
    shapes, project = [], module.project

    def noted(x, w):
        shapes.append(x.shape)
        return project(x, w)

    monkeypatch.setattr(module, "project", noted)
    rnn(rng.normal(size=(2, 50, 3)), None, np.ones((4, 3)), np.ones((4, 4)))
    assert shapes == [(50, 2, 3)]


class TestOrderAndLengths:
    def test_reverse_is_the_reversed_input(self, rng, assert_close, draw):
        x, *rest = draw(rng, "rnn", 4, (2,), 3, 2)
        assert_close(rnn(x, *rest, reverse=True), rnn(x[:, ::-1], *rest)[:, ::-1])

    @pytest.mark.parametrize("reverse", [False, True])
    def test_lengths_are_shorter_sequences(self, rng, assert_close, draw, reverse):
        x, h0, *weights = draw(rng, "rnn", 4, (3,), 3, 2)
        got = rnn(x, h0, *weights, lengths=[4, 1, 0], reverse=reverse)
        for b, end in enumerate([4, 1, 0]):
            want = rnn(x[b, :end], h0[b], *weights, reverse=reverse)
            assert_close(got[b, :end], want)
            assert not got[b, end:].any()

    def test_what_is_beyond_does_not_matter(self, rng, draw):
        x, *rest = draw(rng, "rnn", 3, (2,), 2, 2)
        u = rng.normal(size=(2, 3, 2))
        want = rnn_vjp(u, x, *rest, lengths=[2, 3])
        x[0, 2] = u[0, 2] = np.nan
        got = rnn_vjp(u, x, *rest, lengths=[2, 3])
        for g, w in zip(got, want, strict=True):
            np.testing.assert_array_equal(g, w)

    def test_an_overflow_beyond_does_not_matter(self):
        x = np.ones((1, 1200, 1))
        x[0, 2:] = 0
        grads = rnn_vjp(x, x, None, [[1.0]], [[2.0]], activation="relu", lengths=[2])
        assert [g.sum() for g in grads] == [1 + 2 + 1, 1 + 2 + 1, 1]


class TestTruncation:
    @pytest.mark.parametrize("reach", [1, 2, 4, 9])
    @pytest.mark.parametrize("options", [{}, {"activation": "identity"}, {"reverse": True}])
    def test_is_the_sum_of_cut_gradients(self, rng, assert_close, draw, reach, options):
        """The gradient of output t alone, of a sequence that starts at t - reach + 1."""
        T, H = 4, 3
        x, h0, *weights = draw(rng, "rnn", T, (), 2, H)
        u = rng.normal(size=(T, H))
        if options.get("reverse"):
            x_, u_ = x[::-1], u[::-1]
        else:
            x_, u_ = x, u
        kept = {k: v for k, v in options.items() if k != "reverse"}
        states = rnn(x_, h0, *weights, **kept)
        want = [np.zeros_like(v) for v in (x, h0, *weights)]
        for t in range(T):
            start = max(t - reach + 1, 0)
            before = h0 if start == 0 else states[start - 1]
            only = np.zeros((t + 1 - start, H))
            only[-1] = u_[t]
            part = rnn_vjp(only, x_[start : t + 1], before, *weights, **kept)
            want[0][start : t + 1] += part[0]
            if start == 0:
                want[1] += part[1]
            want[2:] = [sum(pair) for pair in zip(want[2:], part[2:], strict=True)]
        if options.get("reverse"):
            want[0] = want[0][::-1]
        got = rnn_vjp(u, x, h0, *weights, truncate=reach, **options)
        assert_close(got, tuple(want))

    def test_no_steps(self):
        dx, dh0, *_ = rnn_vjp(
            np.ones((0, 2)), np.ones((0, 1)), [1, 2], [[1], [1]], np.eye(2), truncate=3
        )
        assert dx.shape == (0, 1)
        assert dh0.tolist() == [0, 0]

    def test_must_be_positive(self):
        with pytest.raises(ValueError, match="'truncate' must be at least 1, not 0"):
            rnn_vjp([[1.0]], [[1.0]], None, [[1]], [[1]], truncate=0)


class TestStateJacobian:
    @pytest.mark.parametrize("activation", ["tanh", "relu", "sigmoid", "identity"])
    def test_is_a_product_of_steps(self, rng, assert_close, draw, activation):
        values = draw(rng, "rnn", 5, (), 2, 3)
        options = {"activation": activation}
        whole = rnn_state_jacobian(*values, **options)
        parts = [
            rnn_state_jacobian(*values, t=t, s=s, **options) for s, t in ((3, 5), (1, 3), (0, 1))
        ]
        assert_close(np.linalg.multi_dot(parts), whole)
        assert_close(rnn_state_jacobian(*values, t=2, s=2), np.eye(3))

    def test_rows_are_gradients(self, rng, assert_close, draw):
        values = draw(rng, "rnn", 4, (2,), 2, 3)
        jac = rnn_state_jacobian(*values)
        for i in range(3):
            u = np.zeros((2, 4, 3))
            u[:, -1, i] = 1
            assert_close(jac[:, i], rnn_vjp(u, *values)[1])

    @pytest.mark.parametrize("activation", ["tanh", "relu", "sigmoid"])
    def test_norm_is_below_the_bound(self, rng, draw, activation):
        x, h0, w_ih, w_hh, *b = draw(rng, "rnn", 6, (3,), 2, 4)
        jac = rnn_state_jacobian(x, h0, w_ih, 3 * w_hh, *b, activation=activation)
        gamma = 0.25 if activation == "sigmoid" else 1.0
        bound = (gamma * np.linalg.norm(3 * w_hh, 2)) ** 6
        assert np.all(np.linalg.norm(jac, 2, axis=(-2, -1)) <= bound)

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"t": 3}, "'t' must be at most 2, not 3"),
            ({"t": -1}, "'t' must be at least 0, not -1"),
            ({"t": 1, "s": 2}, "'s' must be at most 1, not 2"),
        ],
    )
    def test_steps_must_exist(self, options, message):
        with pytest.raises(ValueError, match=message):
            rnn_state_jacobian(np.ones((2, 1)), None, [[1]], [[1]], **options)


class TestMemory:
    """X16 and X17: what remembers, and what does not."""

    def test_weights_of_a_hundredth_forget_at_once(self):
        state = np.random.RandomState(42)
        w_x, w_h = (state.randn(*s) * 0.01 for s in ((2, 3), (3, 3)))
        x = np.zeros((15, 2))
        x[0, 0] = 3.0
        sizes = abs(rnn(x, None, w_x.T, w_h.T)).max(axis=1)
        assert sizes[[0, 1, 2, 5, 14]] == pytest.approx(
            [1.94e-2, 3.86e-4, 1.05e-5, 8.1e-11, 1.0e-25], rel=0.05
        )
        assert np.linalg.norm(w_h, 2) == pytest.approx(0.027, abs=5e-4)

    def test_single_weights_decide_nothing(self):
        small, large = np.full((16, 16), 0.9), 5 * np.triu(np.ones((4, 4)), 1)
        assert abs(np.linalg.eigvals(small)).max() == pytest.approx(14.4)
        assert abs(np.linalg.eigvals(large)).max() == 0


GOOD = {
    "x": np.ones((2, 5, 3)),
    "h0": np.ones((2, 4)),
    "w_ih": np.ones((4, 3)),
    "w_hh": np.ones((4, 4)),
    "b_ih": np.ones(4),
    "b_hh": np.ones(4),
}


class TestMeanOrSum:
    """A28, X13 and X14: the run as printed, and the one that descends on the printed loss."""

    def train(self, factor, epochs):
        series = np.sin(0.1 * np.linspace(0, 10, 101))
        x, y = series[:-1, None], series[1:, None]
        state = np.random.RandomState(42)
        w_x, w_h, w_out = (state.randn(*s).T * 0.01 for s in ((1, 16), (16, 16), (16, 1)))
        params = [w_x, w_h, np.zeros(16), w_out, np.zeros(1)]
        losses, first = [], None
        for _ in range(epochs):
            w_x, w_h, b, w_out, b_out = params
            h = rnn(x, None, w_x, w_h, b)
            error = h @ w_out.T + b_out - y
            losses.append(np.mean(error**2))
            dy = factor * error
            _, dw_x, dw_h, db = rnn_vjp(dy @ w_out, x, None, w_x, w_h, b)
            grads = [dw_x, dw_h, db, dy.T @ h, dy.sum(axis=0)]
            first = grads[-1][0] if first is None else first
            params = [p - 0.005 * np.clip(g, -5, 5) for p, g in zip(params, grads, strict=True)]
        return np.array(losses), first

    def test_the_bare_difference(self):
        losses, first = self.train(1.0, 300 if COMPILED else 31)
        assert first == pytest.approx(-46.37, abs=5e-3)
        printed = [0.27595975, 0.04888950, 0.01799985, 2.4040e-4, 5.1058e-5, 5.0066e-5, 4.9196e-5]
        printed += [4.8356e-5, 4.7544e-5, 4.6760e-5]
        got = losses[::30]
        assert got == pytest.approx(printed[: len(got)], rel=2e-5)
        if COMPILED:
            assert losses[299] == pytest.approx(4.6025e-5, rel=2e-5)

    def test_the_gradient_of_the_mean(self):
        losses, first = self.train(2 / 100, 271 if COMPILED else 31)
        assert first == pytest.approx(-46.37 / 50, abs=1e-4)
        printed = [0.2760, 0.1784, 0.1250, 0.0959, 0.0800]
        got = losses[::30][:5]
        assert got == pytest.approx(printed[: len(got)], abs=5e-5)
        if COMPILED:
            assert losses[270] == pytest.approx(0.0617, abs=5e-5)


class TestErrors:
    @pytest.mark.parametrize(
        ("name", "shape", "message"),
        [
            ("x", (3,), r"'x' must have shape \(..., T, D\), not \(3,\)"),
            ("x", (2, 5, 2), r"'w_ih' must have shape \(H, D\) = \(4, 2\), with D of 'x', not"),
            ("h0", (4,), r"'h0' must have shape \(..., H\) = \(2, 4\), not \(4,\)"),
            (
                "w_ih",
                (4,),
                r"'w_ih' must have shape \(H, D\) = \(4, 3\), with D of 'x', not \(4,\)",
            ),
            ("w_hh", (4, 3), r"'w_hh' must have shape \(H, H\), not \(4, 3\)"),
            ("b_ih", (3,), r"'b_ih' must have shape \(H,\) = \(4,\), not \(3,\)"),
            ("b_hh", (4, 1), r"'b_hh' must have shape \(H,\) = \(4,\), not \(4, 1\)"),
        ],
    )
    def test_shapes(self, name, shape, message):
        with pytest.raises(ValueError, match=message):
            rnn(**(GOOD | {name: np.ones(shape)}))

    def test_dout(self):
        message = r"'dout' must have shape \(..., T, H\) = \(2, 5, 4\), not \(2, 4\)"
        with pytest.raises(ValueError, match=message):
            rnn_vjp(np.ones((2, 4)), **GOOD)

    def test_cell(self):
        with pytest.raises(ValueError, match=r"'x' must have shape \(..., D\), not \(\)"):
            rnn_cell(1.0, None, [[1]], [[1]])

    @pytest.mark.parametrize(
        ("lengths", "message"),
        [
            ([1], r"'lengths' must have shape \(...\) = \(2,\), not \(1,\)"),
            ([1, 6], "'lengths' must hold integers from 0 to 5, not 6"),
            ([-1, 2], "'lengths' must hold integers from 0 to 5, not -1"),
        ],
    )
    def test_lengths(self, lengths, message):
        with pytest.raises(ValueError, match=message):
            rnn(**GOOD, lengths=lengths)

    def test_lengths_are_whole(self):
        with pytest.raises(TypeError, match="'lengths' must be integer"):
            rnn(**GOOD, lengths=[1.0, 2.0])

    def test_activation(self):
        with pytest.raises(ValueError, match="'activation' must be 'tanh', 'relu', 'sigmoid' or"):
            rnn(**GOOD, activation="gelu")

    def test_tangent_of_what_is_not_there(self):
        w = [[1.0]]
        with pytest.raises(ValueError, match=r"'tangents\[1\]' must be None"):
            rnn_jvp(([w[0]], None, w, w, None, None), (None, [1.0], None, None, None, None))


def test_relu_keeps_nan_and_infinity():
    assert np.isnan(rnn([[np.nan]], None, [[1]], [[0]], activation="relu")).all()
    assert rnn([[-np.inf], [np.inf]], None, [[1]], [[0.5]], activation="relu").T.tolist() == [
        [0, np.inf]
    ]


class TestMemoryWithTanh:
    def test_a_nilpotent_matrix_forgets_without_slopes_and_not_with_them(self):
        w, b = 2 * np.array([[1.0, -1.0], [1.0, -1.0]]), [0.0, 1.5]
        size = {
            activation: np.linalg.norm(
                rnn_state_jacobian(
                    np.zeros((5, 1)), None, np.zeros((2, 1)), w, b, activation=activation
                )
            )
            for activation in ("identity", "tanh")
        }
        assert size["identity"] == 0
        assert size["tanh"] > 10

    def test_a_symmetric_matrix_forgets_no_slower(self, rng):
        w = rng.normal(size=(4, 4))
        w = w + w.T
        radius = abs(np.linalg.eigvalsh(w)).max()
        J = rnn_state_jacobian(rng.normal(size=(6, 4)), None, np.eye(4), w)
        assert np.linalg.norm(J, 2) <= radius**6


def test_memory_depends_on_the_spectral_radius_not_on_the_entries():
    for H, factor in ((10, 0.1), (1000, 10.0)):
        x, w = np.array([[1.0], [0.0], [0.0]]), np.full((H, H), 0.01)
        h = rnn(x, None, np.ones((H, 1)), w, activation="identity")
        np.testing.assert_allclose(h[1:] / h[:-1], factor, rtol=1e-12)
