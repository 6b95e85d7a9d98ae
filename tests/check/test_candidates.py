"""Tests of dlref.check._candidates."""

import functools

import ml_dtypes
import numpy as np
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
    transformer,
)
from dlref._core.pytree import map_floats
from dlref.check._candidates import _entered, _names_of_outputs
from dlref.check._oracle.calls import ReferenceCall, form


def naive_softmax(x, axis=-1):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32, np.float64])
def test_a_good_kernel_passes_in_its_dtype(dtype, rng):
    (x,) = check.random_inputs(activations.softmax, [(4, 30)], dtype, rng)
    assert x.dtype == dtype
    candidate = lambda x: naive_softmax(x.astype(np.float32)).astype(dtype)  # noqa: E731
    if dtype == np.float64:
        candidate = naive_softmax
    verdict = check.check_forward(candidate, activations.softmax, x)
    assert verdict
    assert verdict.error > 0
    assert "is right" in str(verdict)


def test_a_small_mistake_is_found_and_placed(rng):
    (x,) = check.random_inputs(activations.softmax, [(4, 30)], np.float64, rng)

    def wrong(x):
        out = naive_softmax(x)
        out[2, 7] += 1e-12
        return out

    verdict = check.check_forward(wrong, activations.softmax, x)
    assert not verdict
    assert verdict.at == (2, 7)
    assert verdict.ulp > 100
    assert "output 0 is off" in verdict.message


def test_options_reach_both(rng):
    x = rng.normal(size=(3, 4))
    assert check.check_forward(naive_softmax, activations.softmax, x, axis=0)
    assert not check.check_forward(lambda x, axis: naive_softmax(x), activations.softmax, x, axis=0)


def test_shape_dtype_and_count():
    x = np.ones((2, 3), np.float32)
    relu = activations.relu
    assert "has shape (3,), where dlref's has (2, 3)" in str(
        check.check_forward(lambda x: x[0], relu, x)
    )
    assert "has dtype float64" in str(check.check_forward(lambda x: x.astype(float), relu, x))
    assert "has 2 outputs, where dlref has 1" in str(check.check_forward(lambda x: (x, x), relu, x))


def test_infinite_and_missing_values_must_agree():
    x = np.array([np.inf, np.nan, -np.inf, 1.0])
    assert check.check_forward(lambda x: np.where(x < 0, 0, x), activations.relu, x)
    verdict = check.check_forward(lambda x: np.nan_to_num(np.maximum(x, 0)), activations.relu, x)
    assert verdict.error == np.inf
    assert not verdict


def test_empty_outputs_pass():
    assert check.check_forward(lambda x: x, activations.relu, np.ones((0, 3)))


def test_vjp_of_several_inputs(rng):
    x, w, b, dout = (rng.normal(size=s) for s in ((5, 3), (2, 3), (2,), (5, 2)))
    good = lambda u, x, w, b: (u @ w, u.T @ x, u.sum(0))  # noqa: E731
    assert check.check_vjp(good, neurons.linear, dout, x, w, b)
    wrong = lambda u, x, w, b: (u @ w, u.T @ x, u.mean(0))  # noqa: E731
    verdict = check.check_vjp(wrong, neurons.linear, dout, x, w, b)
    assert (verdict.ok, verdict.output) == (False, 2)


def test_jvp(rng):
    x, dx = rng.normal(size=(2, 4, 6))

    def jvp(x, dx):
        s = 1 / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6)
        return s * (dx - x * s * s * (x * dx).mean(-1, keepdims=True))

    assert check.check_jvp(
        lambda p, t: jvp(p[0], t[0]), normalization.rms_norm, (x, None), (dx, None)
    )
    assert not check.check_jvp(lambda p, t: t[0], normalization.rms_norm, (x, None), (dx, None))


def test_errors(rng):
    for bad in (np.tanh, check.ulp_error, "softmax"):
        with pytest.raises(
            TypeError, match=r"^Argument 'op' must be a function of dlref that has a"
        ):
            check.check_vjp(np.cosh, bad, np.ones(2), np.ones(2))
    with pytest.raises(TypeError, match=r"^Argument 'op' must be a function .* has a jvp"):
        check.check_jvp(np.cosh, check.ulp_error, np.ones(2), np.ones(2))
    with pytest.raises(TypeError, match=r"^Argument 'candidate' must be a function"):
        check.check_forward(None, activations.relu, np.ones(2))
    with pytest.raises(TypeError, match=r"^Argument 'op' must be a function, not 'relu'"):
        check.check_forward(np.abs, "relu", np.ones(2))
    with pytest.raises(ValueError, match=r"^Argument 'factor' must be at least 0"):
        check.check_forward(np.abs, activations.relu, np.ones(2), factor=-1.0)
    with pytest.raises(ValueError, match=r"^Argument 'framework' must be 'numpy', 'torch' or"):
        check.check_forward(np.abs, activations.relu, np.ones(2), framework="tf")


class TestEveryElementHasItsBound:
    def test_a_zeroed_row_of_a_gradient(self, rng):
        x, dout = rng.normal(size=(2, 4, 16)).astype(np.float32)
        x[1] *= 1e6

        def wrong(dout, x):
            dx = normalization.layer_norm_vjp(dout, x).copy()
            dx[1] = 0
            return dx

        right = normalization.layer_norm_vjp
        op = normalization.layer_norm
        assert check.check_vjp(right, op, dout, x)
        verdict = check.check_vjp(wrong, op, dout, x)
        assert not verdict
        assert verdict.worst.num_wrong == 16
        assert verdict.worst.places == "all of 1 along axis 0"
        assert "not written" in verdict.cause

    def test_a_zeroed_row_of_a_product_in_bfloat16(self, rng):
        x, w = rng.normal(size=(4, 64)), rng.normal(size=(3, 64))
        x[2] *= 1e-3
        x, w = (a.astype(ml_dtypes.bfloat16) for a in (x, w))
        right = neurons.linear
        wrong = lambda x, w: right(x, w) * (np.arange(4) != 2)[:, None].astype(x.dtype)  # noqa: E731
        assert check.check_forward(right, neurons.linear, x, w)
        assert check.check_forward(wrong, neurons.linear, x, w).worst.num_wrong == 3

    def test_half_a_softmax_in_bfloat16(self, rng):
        x = rng.normal(size=(2, 1024)).astype(ml_dtypes.bfloat16)

        def wrong(x):
            out = activations.softmax(x)
            out[:, 512:] = 0
            return out

        verdict = check.check_forward(wrong, activations.softmax, x)
        assert verdict.worst.num_wrong == 1024
        assert verdict.worst.places == "all of 512 to 1023 along axis 1"

    def test_a_wrong_epsilon(self, rng):
        x = rng.normal(size=(8, 64)).astype(np.float32)
        wrong = lambda x: normalization.layer_norm(x, eps=1e-6)  # noqa: E731
        verdict = check.check_forward(wrong, normalization.layer_norm, x)
        assert not verdict
        assert verdict.cause == "eps is 1e-06, not 1e-05"


def test_the_bound_is_that_of_the_check(rng):
    x = rng.normal(size=(8, 64))
    wrong = lambda x: activations.tanh(x) * (1 + 1e-10)  # noqa: E731
    assert not check.check_forward(wrong, activations.tanh, x)
    assert check.check_forward(wrong, activations.tanh, x, rtol=1e-9)
    assert check.check_forward(wrong, activations.tanh, x, atol=1e-9)
    assert check.check_forward(wrong, activations.tanh, x, factor=1e7)


def test_the_plain_formula_is_allowed_and_no_worse():
    x = np.float32([-6.0, -5.0, 0.5])
    plain = lambda u, x: u * (s := 1 / (1 + np.exp(-x))) * (1 - s)  # noqa: E731
    far = np.float32([12.0, 14.0])
    assert check.check_vjp(plain, activations.sigmoid, np.ones_like(x), x)
    assert check.check_vjp(plain, activations.sigmoid, np.ones_like(far), far)
    tighter = check.check_vjp(plain, activations.sigmoid, np.ones_like(far), far, factor=0.1)
    assert not tighter


def test_a_jump_is_no_bad_condition():
    x = np.array([1.0, 2.0, 3.0])
    op = losses.absolute_error
    wrong = lambda u, p, t: (u * np.ones(3) / 3, -u * np.ones(3) / 3)  # noqa: E731
    assert not check.check_vjp(wrong, op, 1.0, x, x)
    right = losses.absolute_error_vjp
    assert check.check_vjp(right, op, 1.0, x, x)


def test_nan_in_the_reference_is_an_error_of_the_inputs():
    with pytest.raises(ValueError, match=r"^Argument 'inputs' must be valid for 'op'"):
        check.check_forward(
            lambda p, q: np.full(3, np.nan), losses.kl_divergence, np.ones(3), -np.ones(3)
        )


def test_a_candidate_that_writes_to_its_input(rng):
    x = rng.normal(size=5)
    before = x.copy()

    def wrong(x):
        np.maximum(x, 0, out=x)
        return x.copy()

    verdict = check.check_forward(wrong, activations.relu, x)
    assert not verdict
    assert str(verdict) == "the candidate wrote to argument 0"
    assert (verdict.output, verdict.at, verdict.error, verdict.allowed) == (0, (), np.inf, 0)
    assert verdict.ulp == np.inf
    np.testing.assert_array_equal(x, before)


def test_lists_of_gradients(rng):
    x, w, dout = (rng.normal(size=s) for s in ((5, 3), (2, 3), (5, 2)))
    good = lambda u, x, w: [u @ w, u.T @ x]  # noqa: E731
    assert check.check_vjp(good, neurons.linear, dout, x, w)
    assert check.check_forward(lambda x: [np.abs(x)], np.abs, x)
    assert check.check_forward(lambda x: np.maximum(x, 0).tolist(), activations.relu, x)


def names_of_gradients(op, dout, *inputs, **options):
    """Return the names of outputs that are off where all gradients are doubled."""
    vjp, _ = form(op, "vjp")
    double = functools.partial(map_floats, lambda a: 2 * a)
    wrong = lambda *args, **options: double(vjp(*args, **options))  # noqa: E731
    outputs = check.check_vjp(wrong, op, dout, *inputs, **options).outputs
    assert outputs
    return [output.name.partition(" (gradient of ")[2].rstrip(")") for output in outputs]


def test_gradients_of_options_have_their_names(rng):
    q, k, v, dout = rng.normal(size=(4, 2, 5, 8))
    bias, sink = rng.normal(size=(5, 5)), rng.normal(size=2)
    attend = attention.scaled_dot_product_attention
    heads = [a[None] for a in (dout, q, k, v)]
    assert names_of_gradients(attend, *heads) == ["q", "k", "v"]
    assert names_of_gradients(attend, *heads, bias=bias) == ["q", "k", "v", "bias"]
    both = names_of_gradients(attend, *heads, sink=sink, bias=bias)
    assert both == ["q", "k", "v", "bias", "sink"]
    biased = functools.partial(attend, bias=bias)
    assert names_of_gradients(biased, *heads) == ["q", "k", "v", "bias"]


def test_gradients_next_to_parameters_that_are_none_have_their_names(rng):
    params = attention.AttentionParams(*rng.normal(size=(4, 8, 8)), b_o=np.ones(8))
    x, dout = rng.normal(size=(2, 5, 8))
    options = {"num_heads": 2, "bias": np.zeros((5, 5))}
    names = names_of_gradients(attention.multi_head_attention, dout, x, x, params, **options)
    of_params = ["params.w_q", "params.w_k", "params.w_v", "params.w_o", "params.b_o"]
    assert names == ["x_q", "x_kv", *of_params, "bias"]


def test_gradients_next_to_constants_have_their_names(rng):
    x, dout = rng.normal(size=(2, 5, 8))
    angle = rng.normal(size=(5, 4))
    turned = names_of_gradients(positions.apply_rope, dout, x, np.cos(angle), np.sin(angle))
    assert turned == ["x"]


def test_gradients_that_are_no_inputs_have_numbers(rng):
    x, dout = rng.normal(size=(2, 3))
    call = ReferenceCall(activations.relu, "vjp", (dout, x), {})
    assert _names_of_outputs(call, [x]) == ["output 0 (gradient of x)"]
    assert _names_of_outputs(call, [x, x]) == ["output 0", "output 1"]


def test_every_failing_output_is_listed(rng):
    x, w, b, dout = (rng.normal(size=s) for s in ((5, 3), (2, 3), (2,), (5, 2)))
    wrong = lambda u, x, w, b: (u @ w, 2 * u.T @ x, u.mean(0))  # noqa: E731
    verdict = check.check_vjp(wrong, neurons.linear, dout, x, w, b)
    assert [output.ok for output in verdict.outputs] == [True, False, False]
    assert "2 of 3 outputs are off: output 1 (gradient of weight)" in str(verdict)
    assert "doubled" in verdict.outputs[1].cause
    assert "a mean stands where a sum is due" in verdict.outputs[2].cause
    html = verdict._repr_html_()
    assert html.count("<tr><t") == 1 + 3 + html.count("<tr><td style")
    assert "right" in html


def test_none_for_a_gradient(rng):
    x, w, dout = (rng.normal(size=s) for s in ((5, 3), (2, 3), (5, 2)))
    verdict = check.check_vjp(lambda u, x, w: (u @ w, None), neurons.linear, dout, x, w)
    assert "is None, where dlref has an array" in str(verdict)
    assert "missing" in verdict.cause


class TestWrappedFunctions:
    def test_a_partial_hands_its_options_on(self, rng):
        x, dout = rng.normal(size=(2, 3, 4))
        op = functools.partial(activations.softmax, axis=0)
        right = lambda u, x: activations.softmax_vjp(u, x, axis=0)  # noqa: E731
        wrong = activations.softmax_vjp
        assert check.check_vjp(right, op, dout, x)
        assert not check.check_vjp(wrong, op, dout, x)
        jvp = lambda x, dx: activations.softmax_jvp(x, dx, axis=0)  # noqa: E731
        assert check.check_jvp(jvp, op, x, dout)

    def test_a_lambda(self, rng):
        x, h, c, w, u, b = (
            rng.normal(size=s) for s in ((2, 3, 2), (2, 1), (2, 1), (4, 2), (4, 1), (4,))
        )
        point = x, h, c, w, u, b
        op = lambda *a: recurrent.lstm(*a)[1][:, -1]  # noqa: E731
        zero = np.zeros((2, 3, 1))
        dout = rng.normal(size=(2, 1))
        last = np.array([0.0, 0.0, 1.0])[:, None]
        right = lambda u, *a: recurrent.lstm_vjp((zero, last * u[:, None]), *a)  # noqa: E731
        assert check.check_vjp(right, op, dout, *point)
        wrong = lambda u, *a: (2 * right(u, *a)[0], *right(u, *a)[1:])  # noqa: E731
        assert not check.check_vjp(wrong, op, dout, *point)

    def test_a_lambda_forward(self, rng):
        x, dx = rng.normal(size=(2, 5))
        op = lambda x: (activations.tanh(x), x * x)  # noqa: E731
        right = lambda x, dx: (dx / np.cosh(x) ** 2, 2 * x * dx)  # noqa: E731
        assert check.check_jvp(right, op, x, dx)
        assert not check.check_jvp(lambda x, dx: (dx, 2 * x * dx), op, x, dx)
        product = lambda x, k: x * x * k  # noqa: E731
        got = check.check_jvp(lambda p, t: 4 * p[0] * t[0], product, (x, 2), (dx, None))
        assert got
        pair = lambda x, n: x[0] * x[1] * n  # noqa: E731
        back = lambda u, x, n: ((u * x[1] * n, u * x[0] * n),)  # noqa: E731
        assert check.check_vjp(back, pair, dx, (x, x + 1), 3)


def test_a_bad_condition_is_told(rng):
    x = np.array([[1e8, -1e8, 1.0]])
    verdict = check.check_forward(lambda x, w: x @ w.T + 1.0, neurons.linear, x, np.ones((1, 3)))
    assert verdict.worst.condition_number > 1e7
    assert "one rounding of the inputs moves it" in str(verdict)


def test_places(rng):
    x = rng.normal(size=(6, 8)) + 5
    tanh = lambda *at: lambda x: _broken(activations.relu(x), *at)  # noqa: E731
    for at, message in (
        ((slice(None), slice(None)), "everywhere"),
        ((slice(None), slice(1, 8, 2)), "all of 1, 3, ... 7 along axis 1"),
        (([1, 4], slice(None)), "all of 1, 4 along axis 0"),
        (([0, 2, 5], [0, 1, 2]), "in 0, 1, 2"),
        ((np.arange(6), np.arange(6)), "at (0, 0), (1, 1)"),
    ):
        verdict = check.check_forward(tanh(*at), activations.relu, x)
        assert message.split()[0] in verdict.worst.places


def _broken(out, *at):
    out = out.copy()
    out[at] += 1 + np.arange(out[at].size).reshape(out[at].shape) % 3
    return out


def test_nested_lists_and_integers(rng):
    assert check.check_forward(lambda x: np.maximum(x, 0), activations.relu, [[1.0, -2.0], [3, 4]])
    total = calculus.total_derivative
    assert check.check_forward(total, total, [np.ones(2), np.ones(3)], [np.ones(2), np.ones(3)])
    mask = lambda t, s: np.tri(t, s, dtype=bool)  # noqa: E731
    assert check.check_forward(mask, attention.causal_mask, 3, 4)
    verdict = check.check_forward(lambda t, s: ~mask(t, s), attention.causal_mask, 3, 4)
    assert verdict.worst.num_wrong == 12


def test_nested_parameters(rng):
    params = transformer.FeedForwardParams(
        rng.normal(size=(5, 3)), rng.normal(size=5), rng.normal(size=(3, 5)), rng.normal(size=3)
    )
    x, dout = rng.normal(size=(2, 4, 3))
    f, vjp = transformer.feed_forward, transformer.feed_forward_vjp
    assert check.check_forward(f, f, x, params)
    assert check.check_vjp(vjp, f, dout, x, params)
    wrong = lambda dout, x, params: (vjp(dout, x, params)[0], vjp(2 * dout, x, params)[1])  # noqa: E731
    verdict = check.check_vjp(wrong, f, dout, x, params)
    assert [output.ok for output in verdict.outputs] == [True, False, False, False, False]


def test_a_wrong_dtype_of_objects(rng):
    x = rng.normal(size=3)
    verdict = check.check_forward(lambda x: np.array(["a", "b", "c"]), activations.relu, x)
    assert "has dtype <U1" in str(verdict)
    assert "output 0 is empty" not in str(verdict)
    empty = check.check_forward(lambda x: x, activations.relu, np.ones((0, 3)))
    assert "it is empty" in str(empty)


def test_outputs_that_are_none_or_integers(rng):
    op = lambda x: (x * x, None, np.argsort(x), x)  # noqa: E731
    x = rng.normal(size=4)
    assert check.check_forward(op, op, x)
    verdict = check.check_forward(lambda x: (x, None, np.argsort(-x), x), op, x)
    assert [output.ok for output in verdict.outputs] == [False, False, True]


def test_inputs_at_the_edge_of_what_is_valid():
    def op(p):
        if np.max(p) > 1:
            msg = "no probability"
            raise ValueError(msg)
        return p * p

    assert check.check_forward(op, op, np.ones(3))


class Unsigned:
    """A function whose signature is not known."""

    __signature__ = "none"

    def __call__(self, x):
        return 3 * x


def test_functions_without_a_signature(rng):
    x, dout = rng.normal(size=(2, 3))
    assert check.check_vjp(lambda u, x: 3 * u, Unsigned(), dout, x)
    verdict = check.check_vjp(lambda u, x: 6 * u, Unsigned(), dout, x)
    assert "doubled" in verdict.cause
    sums = lambda x: x.sum()  # noqa: E731
    verdict = check.check_vjp(lambda u, x: -u * np.ones(3), sums, 1.0, x)
    assert verdict.cause == "the sign is reversed"


def half_the_digits(q, k, **options):
    narrow = (a.astype(np.float32) for a in (q, k))
    return attention.attention_scores(*narrow, **options).astype(np.float64)


def without_a_tile(q, k, **options):
    scores = attention.attention_scores(q, k, **options)
    scores[:, 4:][np.isfinite(scores[:, 4:])] = 0.0
    return scores


@pytest.mark.parametrize(
    ("candidate", "cause"),
    [(without_a_tile, "not written"), (half_the_digits, "in float32 leave")],
)
def test_the_same_infinity_is_no_error(candidate, cause, rng):
    q, k = rng.normal(size=(2, 2, 6, 8))
    verdict = check.check_forward(candidate, attention.attention_scores, q, k, is_causal=True)
    assert cause in verdict.cause
    assert verdict.outputs[0].num_wrong <= 42


def test_float16_below_its_normal_numbers_has_no_error_of_its_own_size(rng):
    """A small gradient may be flushed to zero, as processors do, but not be twice as large."""
    x = rng.normal(size=(64, 1000)).astype(np.float16)
    classes = rng.integers(0, 1000, 64)

    def gradient(u, x, c, factor=1.0, least=0.0):
        p = activations.softmax(x.astype(np.float32)) / np.float32(64)
        g = p * np.float32(factor)
        g[np.arange(64), c] = p[np.arange(64), c] - np.float32(1 / 64)
        return np.where(np.abs(g) < least, 0, g).astype(np.float16)

    given = losses.cross_entropy, np.float16(1), x, classes
    assert check.check_vjp(gradient, *given)
    assert check.check_vjp(lambda *a: gradient(*a, least=2.0**-14), *given)
    verdict = check.check_vjp(lambda *a: gradient(*a, factor=1.9), *given)
    assert verdict.outputs[0].num_wrong > 60_000


def test_what_is_no_array_is_a_verdict(rng):
    x = rng.normal(size=(2, 3))

    class Sparse:
        def __array__(self, *_, **__):
            msg = "it is sparse"
            raise RuntimeError(msg)

    verdict = check.check_forward(lambda x: Sparse(), activations.relu, x)
    assert not verdict
    assert str(verdict) == "what the candidate returned is no array: it is sparse"
    ragged = lambda x: [[1.0, 2.0], [3.0]]  # noqa: E731
    verdict = check.check_forward(ragged, activations.relu, x)
    assert str(verdict) == "output 0 is a ragged list, where dlref has an array"
    assert verdict.cause == ""
    verdict = check.check_vjp(lambda u, x: ragged(x), activations.relu, x, x)
    assert verdict.cause == ""
    assert not check.check_all(lambda x: Sparse(), activations.relu)
    assert not check.check_all(ragged, activations.relu, dtype="float16")


def test_features_that_underflow(rng):
    def of_features(q, k, v):
        a, b = (np.where(x > 0, x + 1, np.exp(np.minimum(x, 0))) for x in (q, k))
        weights = a @ b.T
        with np.errstate(all="ignore"):
            return weights @ v / weights.sum(-1, keepdims=True)

    q, k, v = rng.normal(size=(3, 5, 4))
    assert check.check_forward(of_features, attention.linear_attention, q, k, v)
    verdict = check.check_forward(of_features, attention.linear_attention, q - 800, k, v)
    assert verdict.cause == "the weights of a query add up to 0 or to infinity"


def test_the_cause_of_a_verdict_is_the_worst_outputs(rng):
    x, w, dout = (rng.normal(size=shape) for shape in ((5, 3), (2, 3), (5, 2)))
    wrong = lambda u, x, w: (2 * (u @ w), 1000 * u.T @ x)  # noqa: E731
    verdict = check.check_vjp(wrong, neurons.linear, dout, x, w)
    doubled, multiplied = verdict.outputs
    assert doubled.cause.startswith("it is doubled")
    assert verdict.cause == multiplied.cause == "it is the exact result times 1000"
    assert verdict.worst is multiplied


def test_an_output_that_is_empty_or_not_judged_has_numbers(rng):
    empty = check.OutputCheck("output 0", ok=True)
    assert (empty.size, empty.error, empty.allowed, empty.places) == (0, 0.0, 0.0, "")
    assert str(check.Verdict(ok=True, outputs=(empty,), message="right")) == "right"
    with pytest.raises(AttributeError):
        empty.ok = False


def test_lists_of_numbers_are_arrays_if_they_are_nested_so_often():
    nested = [[1.0, 2.0], [3.0, 4.0]]
    np.testing.assert_array_equal(_entered(nested, least=2), nested)
    for other in ([1.0, 2.0], ["a"], [np.ones(2), np.ones(3)]):
        assert _entered(other, least=2) is other
