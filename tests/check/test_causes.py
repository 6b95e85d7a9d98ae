"""Planted mistakes: each is flagged, and most are named; right kernels raise no alarm."""

import functools

import ml_dtypes
import naive
import numpy as np
import peers
import pytest

from dlref import (
    activations,
    attention,
    calculus,
    check,
    losses,
    neurons,
    normalization,
    positions,
    recurrent,
)
from dlref.check._causes import CAUSES, Cause


def softmax(x, axis=-1):
    e = np.exp(x - np.max(x, axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def sdpa(q, k, v, mask=None, is_causal=False, q_offset=0, scale=None, empty=0.0):
    T, S = q.shape[-2], k.shape[-2]
    s = q @ np.swapaxes(k, -1, -2) * (1 / np.sqrt(q.shape[-1]) if scale is None else scale)
    seen = np.ones((T, S), bool) if mask is None else mask
    if is_causal:
        seen = seen & (np.arange(S) <= np.arange(T)[:, None] + q_offset)
    s = np.where(seen, s, -np.inf)
    top = s.max(-1, keepdims=True)
    e = np.where(seen, np.exp(s - np.where(np.isfinite(top), top, 0)), 0.0)
    total = e.sum(-1, keepdims=True)
    out = e @ v / np.where(total == 0, 1, total)
    if isinstance(empty, str):
        empty = np.broadcast_to(v.mean(-2, keepdims=True), out.shape)
    return np.where(total == 0, empty, out)


def layer_norm(x, weight=None, bias=None, eps=1e-5, **_):
    d = x - x.mean(-1, keepdims=True)
    return d / np.sqrt((d * d).mean(-1, keepdims=True) + eps)


def linear_vjp(u, x, w, b):
    return u @ w, u.T @ x, u.sum(0)


def gru(x, h0, w_ih, w_hh, b_ih, b_hh, reset_after=True):
    h, out = h0, []
    H = h0.shape[-1]
    for t in range(x.shape[-2]):
        a, c = x[..., t, :] @ w_ih.T + b_ih, h @ w_hh.T + b_hh
        r, z = (1 / (1 + np.exp(-(a + c)[..., i * H : (i + 1) * H])) for i in (0, 1))
        if reset_after:
            n = np.tanh(a[..., 2 * H :] + r * c[..., 2 * H :])
        else:
            n = np.tanh(a[..., 2 * H :] + (r * h) @ w_hh[2 * H :].T + b_hh[2 * H :])
        h = (1 - z) * n + z * h
        out.append(h)
    return np.stack(out, axis=-2)


def lstm_in_order(order):
    def run(x, h0, c0, w_ih, w_hh, b_ih, b_hh):
        move = lambda a: np.concatenate([np.split(a, 4)[k] for k in order])  # noqa: E731
        return recurrent.lstm(x, h0, c0, *(move(a) for a in (w_ih, w_hh, b_ih, b_hh)))

    return run


rng = np.random.default_rng(0)
X, W, B, U = (rng.normal(size=s) for s in ((6, 4), (4, 4), (4,), (6, 4)))
Q, K, V = (rng.normal(size=(2, 5, 4)) for _ in range(3))
LONG = rng.normal(size=(2, 7, 4))
SEEN = rng.random((5, 5)) < 0.6
SEEN[2] = False
COS, SIN = positions.rope_tables(np.arange(6), [1.0, 0.1])
GRU = (rng.normal(size=(3, 5, 4)), rng.normal(size=(3, 3)), *(
    rng.normal(size=s) for s in ((9, 4), (9, 3), 9, 9)))  # fmt: skip
LSTM = (rng.normal(size=(3, 5, 4)), rng.normal(size=(3, 3)), rng.normal(size=(3, 3)), *(
    rng.normal(size=s) for s in ((12, 4), (12, 3), 12, 12)))  # fmt: skip
CLASSES = rng.integers(0, 4, 6)
attend = attention.scaled_dot_product_attention
fwd, vjp = check.check_forward, check.check_vjp


def log_softmax(x):
    return x - x.max(-1, keepdims=True) - np.log(
        np.exp(x - x.max(-1, keepdims=True)).sum(-1, keepdims=True)
    )  # fmt: skip


def ce(x, t, reduction="mean", label_smoothing=0.0, scale=1.0):
    total = -log_softmax(x)[np.arange(6), t]
    return np.float64({"mean": total.mean(), "sum": total.sum()}[reduction] * scale)


MISTAKES = {
    "another axis": lambda: fwd(lambda x: softmax(x, 0), activations.softmax, X),
    "exponentials overflow": lambda: fwd(
        lambda x: np.exp(x) / np.exp(x).sum(-1, keepdims=True), activations.softmax, 1000 * X
    ),
    "scale 1 / sqrt(E) is missing": lambda: fwd(lambda *a: sdpa(*a, scale=1.0), attend, Q, K, V),
    "applied twice": lambda: fwd(lambda *a: sdpa(*a, scale=0.25), attend, Q, K, V),
    "in place of 1 / sqrt(E)": lambda: fwd(lambda *a: sdpa(*a, scale=2.0), attend, Q, K, V),
    "mask is inverted": lambda: fwd(
        lambda *a, mask: sdpa(*a, mask=~mask), attend, Q, K, V, mask=SEEN
    ),
    "mask is ignored": lambda: fwd(
        lambda q, k, v, mask: sdpa(q, k, v), attend, Q, K, V, mask=SEEN
    ),
    "not causal": lambda: fwd(
        lambda q, k, v, is_causal: sdpa(q, k, v), attend, Q, K, V, is_causal=True
    ),
    "and should not be": lambda: fwd(lambda *a: sdpa(*a, is_causal=True), attend, Q, K, V),
    "hides the diagonal": lambda: fwd(
        lambda *a, is_causal: sdpa(*a, is_causal=True, q_offset=-1),
        attend, Q, K, V, is_causal=True,
    ),
    "one more key through": lambda: fwd(
        lambda *a, is_causal: sdpa(*a, is_causal=True, q_offset=1), attend, Q, K, V, is_causal=True
    ),
    "aligned with the last key": lambda: fwd(
        lambda *a, is_causal: sdpa(*a, is_causal=True, q_offset=2),
        attend, Q, LONG, LONG, is_causal=True,
    ),
    "aligned with the first key": lambda: fwd(
        lambda *a, is_causal, q_offset: sdpa(*a, is_causal=True),
        attend, Q, LONG, LONG, is_causal=True, q_offset=2,
    ),
    "NaN in place of 0": lambda: fwd(
        lambda *a, mask: sdpa(*a, mask=mask, empty=np.nan), attend, Q, K, V, mask=SEEN
    ),
    "mean of the values": lambda: fwd(
        lambda *a, mask: sdpa(*a, mask=mask, empty="mean"), attend, Q, K, V, mask=SEEN
    ),
    "two inputs are exchanged": lambda: fwd(lambda q, k, v: sdpa(k, q, v), attend, Q, K, V),
    "other pairs of channels": lambda: fwd(
        lambda x, c, s: naive.apply_rope(x, c, s, interleaved=False),
        positions.apply_rope, X, COS, SIN,
    ),
    "reset gate": lambda: fwd(functools.partial(gru, reset_after=False), recurrent.gru, *GRU),
    "another order": lambda: fwd(lstm_in_order((0, 1, 3, 2)), recurrent.lstm, *LSTM),
    "other form of GELU": lambda: fwd(
        lambda x: 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))),
        activations.gelu, X,
    ),
    "sum in place of the mean": lambda: fwd(
        lambda x, t: ce(x, t, "sum"), losses.cross_entropy, X, CLASSES
    ),
    "smoothing is left out": lambda: fwd(
        lambda x, t, label_smoothing: ce(x, t), losses.cross_entropy, X, CLASSES,
        label_smoothing=0.1,
    ),
    "eps has another value": lambda: fwd(
        lambda x: layer_norm(x, eps=1e-6), normalization.layer_norm, X
    ),
    "weight is transposed": lambda: fwd(lambda x, w: x @ w, neurons.linear, X, W),
    "cotangent is not multiplied in": lambda: vjp(
        lambda u, x: 1 - np.tanh(x) ** 2, activations.tanh, U, X
    ),
    "second derivative": lambda: vjp(
        lambda u, x: u * -2 * np.tanh(x) * (1 - np.tanh(x) ** 2), activations.tanh, U, X
    ),
    "the second derivative": lambda: fwd(
        lambda x: -2 * np.tanh(x) * (1 - np.tanh(x) ** 2), activations.tanh_deriv, X
    ),
    "a weight is transposed": lambda: check.check_jvp(
        lambda p, t: t[0] @ p[1] + p[0] @ t[1].T, neurons.linear, (X, W), (U, W.T)
    ),
    "sign is wrong": lambda: vjp(
        lambda u, x: -u * (1 - np.tanh(x) ** 2), activations.tanh, U, X
    ),
    "all is 0": lambda: vjp(lambda u, x: 0 * x, activations.tanh, U, X),
    "half of what is right": lambda: fwd(
        lambda x, t: ce(x, t, scale=0.5), losses.cross_entropy, X, CLASSES
    ),
    "twice what is right": lambda: vjp(lambda u, x: 2 * u * (x > 0), activations.relu, U, X),
    "output is transposed": lambda: fwd(lambda x, w: (x @ w.T).T, neurons.linear, X[:4], W),
    "reverse order": lambda: fwd(lambda x: softmax(x)[::-1], activations.softmax, X),
    "gradient is missing": lambda: vjp(
        lambda u, x, w, b: (u @ w, 0 * w, u.sum(0)), neurons.linear, U, X, W, B
    ),
    "sign of one output": lambda: vjp(
        lambda u, x, w, b: (-u @ w, u.T @ x, u.sum(0)), neurons.linear, U, X, W, B
    ),
    "accumulated twice": lambda: vjp(
        lambda u, x, w, b: (u @ w, u.T @ x, 2 * u.sum(0)), neurons.linear, U, X, W, B
    ),
    "mean over the rows": lambda: vjp(
        lambda u, x, w, b: (u @ w, u.T @ x, u.mean(0)), neurons.linear, U, X, W, B
    ),
    "last row of the batch": lambda: vjp(
        lambda u, x, w, b: (u @ w, u[-1:].T @ x[-1:], u.sum(0)), neurons.linear, U, X, W, B
    ),
}  # fmt: skip

#: Mistakes that have no name, but must not pass.
UNNAMED = {
    "biased variance": lambda: fwd(
        lambda x: (x - x.mean(-1, keepdims=True))
        / np.sqrt(x.var(-1, ddof=1, keepdims=True) + 1e-5),
        normalization.layer_norm, X,
    ),
    "eps outside the root": lambda: fwd(
        lambda x: (x - x.mean(-1, keepdims=True)) / (x.std(-1, keepdims=True) + 1e-5),
        normalization.layer_norm, X,
    ),
    "one element": lambda: fwd(
        lambda x: softmax(x) + 1e-9 * (np.arange(24) == 7).reshape(6, 4), activations.softmax, X
    ),
    "last key left out": lambda: fwd(
        lambda q, k, v: sdpa(q, k[:, :-1], v[:, :-1]), attend, Q, K, V
    ),
    "rows of the mask reversed": lambda: fwd(
        lambda q, k, v, mask: sdpa(q, k, v, mask=mask[::-1]),
        attend, Q, K, V, mask=np.tri(5, dtype=bool),
    ),
    "float32 inside": lambda: fwd(
        lambda x: softmax(x.astype(np.float32)).astype(float), activations.softmax, X
    ),
}  # fmt: skip


class TestPlanted:
    @pytest.mark.parametrize("words", MISTAKES)
    def test_is_flagged_and_named(self, words):
        with np.errstate(all="ignore"):
            verdict = MISTAKES[words]()
        assert not verdict
        assert any(words in cause for cause in verdict.causes), verdict.message
        assert f"This is what comes out if {verdict.causes[0]}." in str(verdict)

    @pytest.mark.parametrize("words", UNNAMED)
    def test_without_a_name_is_flagged(self, words):
        verdict = UNNAMED[words]()
        assert not verdict
        assert verdict.causes == ()

    def test_a_cause_can_be_added(self, monkeypatch):
        monkeypatch.setattr(
            "dlref.check._causes.CAUSES",
            [*CAUSES, Cause("one is added", lambda case: iter([[y + 1 for y in case.want]]))],
        )
        assert fwd(lambda x: softmax(x) + 1, activations.softmax, X).causes == ("one is added",)


DTYPES = [np.float64, np.float32, ml_dtypes.bfloat16, np.float16]


class TestEveryElement:
    """What one bound for a whole output let pass."""

    @pytest.mark.parametrize("dtype", DTYPES[:2])
    def test_a_row_of_small_gradients_that_is_zeroed(self, rng, dtype):
        x, u = (rng.normal(size=(4, 32)).astype(dtype) for _ in range(2))
        x[1] *= 1e6

        def zeroed(u, x):
            out = normalization.layer_norm_vjp(u, x)
            out[1] = 0
            return out

        verdict = vjp(zeroed, normalization.layer_norm, u, x)
        assert not verdict
        assert verdict.share == 0.25
        assert vjp(normalization.layer_norm_vjp, normalization.layer_norm, u, x)

    @pytest.mark.parametrize("dtype", DTYPES)
    def test_a_small_row_of_a_layer_that_is_zeroed(self, rng, dtype):
        x, w = check.random_inputs(neurons.linear, [(4, 16), (8, 16)], dtype, rng)
        x[2] = (x[2].astype(float) * 1e-3).astype(dtype)

        def zeroed(x, w):
            out = neurons.linear(x, w)
            out[2] = 0
            return out

        verdict = fwd(zeroed, neurons.linear, x, w)
        assert not verdict
        assert verdict.share == 0.25
        assert "output 0 is off in 8 of 32 elements (25%)" in str(verdict)

    @pytest.mark.parametrize("dtype", DTYPES)
    def test_the_smaller_half_of_a_softmax_that_is_zeroed(self, rng, dtype):
        (x,) = check.random_inputs(activations.softmax, [(2, 1024)], dtype, rng)

        def zeroed(x):
            p = activations.softmax(x)
            return np.where(p < np.median(p.astype(float)), 0, p).astype(dtype)

        assert not fwd(zeroed, activations.softmax, x)

    def test_cancellation_is_nobodys_fault(self, rng):
        # the sum of 1e4 and -1e4 loses digits in any order
        x = np.float32([[1e4, 1.0, -1e4, 0.1]])
        w = rng.permuted(np.ones((1, 4), np.float32))
        plain = lambda x, w: np.float32([[((x[0, 3] + x[0, 0]) + x[0, 2]) + x[0, 1]]])  # noqa: E731
        assert fwd(plain, neurons.linear, x, w)

    def test_a_tie_is_the_same_tie(self):
        x = np.array([[1.0, 2.0, 2.0]])
        first = lambda u, x: np.where(np.arange(3) == x.argmax(), u[..., None], 0.0)  # noqa: E731
        shared = lambda u, x: np.where(x == 2, u[..., None] / 2, 0.0)  # noqa: E731
        told = {"reference": calculus.max_vjp}
        drop = lambda f: lambda u, x, axis: f(u, x)  # noqa: E731
        verdicts = [
            bool(vjp(drop(f), np.max, np.ones(1), x, axis=-1, **told)) for f in (first, shared)
        ]
        assert sorted(verdicts) == [False, True]


class TestOneKey:
    @pytest.mark.parametrize("seed", range(5))
    @pytest.mark.parametrize("dtype", DTYPES[:2])
    def test_gradients_that_are_0_but_for_rounding(self, seed, dtype):
        # the first query of a causal attention sees one key, and a softmax of one is constant
        u, q, k, v = np.random.default_rng(seed).normal(size=(4, 6, 8)).astype(dtype)

        def backward(u, q, k, v, is_causal):
            s = np.where(np.tri(6, dtype=bool), q @ k.T / dtype(np.sqrt(8)), dtype(-np.inf))
            p = softmax(s)
            dp = u @ v.T
            ds = p * (dp - (p * dp).sum(-1, keepdims=True)) / dtype(np.sqrt(8))
            return ds @ k, ds.T @ q, p.T @ u

        verdict = vjp(backward, attend, u, q, k, v, is_causal=True)
        assert verdict, str(verdict)


class TestCandidate:
    def test_that_writes_to_its_input(self):
        x = X.copy()

        def overwriting(x):
            x -= x.max(-1, keepdims=True)
            return softmax(x)

        verdict = fwd(overwriting, activations.softmax, x)
        assert not verdict
        assert "the candidate writes to input 0" in str(verdict)
        np.testing.assert_array_equal(x, X)

    def test_that_returns_a_list(self):
        assert vjp(lambda *a: list(linear_vjp(*a)), neurons.linear, U, X, W, B)

    def test_every_wrong_output_is_listed(self):
        verdict = vjp(lambda u, x, w, b: (u @ w, 3 * w, 5 * b), neurons.linear, U, X, W, B)
        assert len(verdict.failures) == 2
        assert "output 1 is off" in str(verdict)
        assert "output 2 is off" in str(verdict)
        assert "<li>output 1 is off" in verdict._repr_html_()

    def test_nan_reference_is_an_error_of_the_inputs(self):
        p = np.array([[0.5, -0.5]])
        with pytest.raises(ValueError, match="'inputs' must be in the domain of log"):
            fwd(log, log, p)

    def test_tolerances_of_ones_own(self):
        off = lambda x: softmax(x) * (1 + 1e-8)  # noqa: E731
        assert not fwd(off, activations.softmax, X)
        assert fwd(off, activations.softmax, X, rtol=2e-8)
        assert fwd(off, activations.softmax, X, atol=2e-8)
        assert not fwd(off, activations.softmax, X, atol=1e-12)
        assert fwd(off, activations.softmax, X, factor=1e8)
        with pytest.raises(ValueError, match="'factor' must be"):
            fwd(off, activations.softmax, X, factor=0.0)

    def test_partials_and_lambdas(self):
        by_column = functools.partial(activations.softmax, axis=0)
        backward = lambda u, x, axis: (p := softmax(x, 0)) * (u - (p * u).sum(0))  # noqa: E731
        assert vjp(backward, by_column, U, X)
        assert fwd(lambda x, axis: softmax(x, 0), by_column, X)
        last = lambda *a: recurrent.lstm(*a)[1][..., -1, :]  # noqa: E731
        T, H = 5, 3

        def reference(u, *inputs):
            dc = np.zeros((3, T, H))
            dc[:, -1] = u
            return recurrent.lstm_vjp((np.zeros_like(dc), dc), *inputs)

        assert vjp(reference, last, np.ones((3, 3)), *LSTM, reference=reference)
        with pytest.raises(TypeError, match="or come with its reference"):
            vjp(reference, last, np.ones((3, 3)), *LSTM)


def log(x):
    with np.errstate(all="ignore"):
        return np.log(x)


class TestRandomInputs:
    def test_are_in_the_domain(self, rng):
        draw = functools.partial(check.random_inputs, dtype=np.float64, rng=rng)
        _, classes = draw(losses.cross_entropy, [(50, 3), (50,)])
        assert set(classes) == {0, 1, 2}
        _, shares = draw(losses.cross_entropy, [(5, 3), (5, 3)])
        np.testing.assert_allclose(shares.sum(-1), 1)
        log_p, q = draw(losses.kl_divergence, [(5, 3), (5, 3)])
        np.testing.assert_allclose([np.exp(log_p).sum(-1), q.sum(-1)], 1)
        assert q.min() > 0
        assert set(draw(losses.hinge, [(50,), (50,)])[1]) == {-1, 1}
        assert draw(losses.binary_cross_entropy, [(50,), (50,)])[1].min() >= 0
        assert draw(losses.nll, [(5, 3), (5,)])[0].max() < 0

    def test_missing_ones_and_options(self, rng):
        x, weight = check.random_inputs(
            normalization.rms_norm, [(5, 3), None], np.float32, rng, eps=0.1
        )
        assert weight is None
        assert x.dtype == np.float32
        x, *_ = check.random_inputs(normalization.group_norm, [(2, 4)], float, rng, groups=2)
        assert x.shape == (2, 4)


class TestNoFalseAlarm:
    """PyTorch's own kernels, in its dtypes."""

    @pytest.mark.parametrize("dtype", DTYPES[:3])
    @pytest.mark.parametrize("seed", range(3))
    def test_pytorch(self, dtype, seed):
        torch = peers.torch
        functional = torch.nn.functional
        rng = np.random.default_rng(seed)

        def on_tensors(f):
            def run(*arrays, **options):
                tensors = [torch.tensor(np.float64(a)).to(kind) if a.dtype == dtype
                           else torch.tensor(a) for a in arrays]  # fmt: skip
                return f(*tensors, **options).double().numpy().astype(dtype)

            return run

        kind = getattr(torch, np.dtype(dtype).name)
        draw = lambda op, *shapes: check.random_inputs(op, shapes, dtype, rng)  # noqa: E731
        heads = [(2, 3, 9, 16)] * 3
        for f, op, shapes in [
            (lambda x: functional.softmax(x, -1), activations.softmax, [(7, 50)]),
            (lambda x: functional.log_softmax(x, -1), activations.log_softmax, [(7, 50)]),
            (lambda x: torch.logsumexp(x, -1), activations.logsumexp, [(7, 50)]),
            (functional.gelu, activations.gelu, [(7, 50)]),
            (functional.silu, activations.silu, [(7, 50)]),
            (functional.mish, activations.mish, [(7, 50)]),
            (torch.tanh, activations.tanh, [(7, 50)]),
            (functional.linear, neurons.linear, [(7, 300), (20, 300), (20,)]),
            (lambda x, w, b: functional.layer_norm(x, (64,), w, b), normalization.layer_norm,
             [(7, 64), (64,), (64,)]),
            (functional.scaled_dot_product_attention, attend, heads),
            (functional.mse_loss, losses.squared_error, [(7, 50), (7, 50)]),
        ]:  # fmt: skip
            inputs = draw(op, *shapes)
            for scale in (1.0, 30.0) if len(inputs) == 1 else (1.0,):
                given = tuple((scale * x.astype(float)).astype(dtype) for x in inputs)
                verdict = fwd(on_tensors(f), op, *given)
                assert verdict, (op.__name__, scale, str(verdict))

    def test_dlref_itself_in_every_dtype(self):
        rng = np.random.default_rng(0)
        for dtype in DTYPES:
            for op, shapes in [
                (activations.softmax, [(3, 40)]),
                (normalization.layer_norm, [(3, 40), (40,), (40,)]),
                (neurons.linear, [(3, 40), (5, 40), (5,)]),
                (attend, [(2, 6, 8)] * 3),
            ]:
                inputs = check.random_inputs(op, shapes, dtype, rng)
                assert fwd(op, op, *inputs)
