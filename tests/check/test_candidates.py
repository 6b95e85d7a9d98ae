"""Tests of dlref.check._candidates."""

import ml_dtypes
import numpy as np
import pytest

from dlref import activations, check, neurons, normalization


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


def test_named_tuples_stay_named():
    from dlref.check._scales import widened  # noqa: PLC0415
    from dlref.training import FitResult  # noqa: PLC0415

    wide = widened(FitResult(np.float32(1), np.float32(2), np.arange(3)))
    assert isinstance(wide, FitResult)
    assert (wide.w.dtype, wide.loss.dtype) == (np.float64, np.int64)


def test_errors(rng):
    for bad in (np.tanh, lambda x: x, "softmax"):
        with pytest.raises(
            TypeError, match=r"^Argument 'op' must be a function of dlref that has a"
        ):
            check.check_vjp(np.cosh, bad, np.ones(2), np.ones(2))
    with pytest.raises(TypeError, match=r"^Argument 'op' must be a function .* has a jvp"):
        check.check_jvp(np.cosh, check.ulp_error, np.ones(2), np.ones(2))
    with pytest.raises(TypeError, match=r"^Argument 'dtype' must be"):
        check.random_inputs(activations.relu, [(2,)], "U1", rng)
    with pytest.raises(TypeError, match=r"^Argument 'rng'"):
        check.random_inputs(activations.relu, [(2,)], np.float32, None)
    with pytest.raises(ValueError, match=r"^Argument"):
        check.random_inputs(neurons.linear, [(4, 3), (2, 5)], np.float32, rng)
