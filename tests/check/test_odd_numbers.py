"""Whatever numbers a kernel returns or is given, there is a verdict, and no warning of NumPy."""

import functools

import ml_dtypes
import numpy as np
import pytest

from dlref import activations as act
from dlref import check

#: A NaN whose first use is an invalid operation, in the bits of each format.
SIGNALS = {
    "float16": (np.uint16, 0x7C01),
    "bfloat16": (np.uint16, 0x7F81),
    "float32": (np.uint32, 0x7F800001),
    "float64": (np.uint64, 0x7FF0000000000001),
}
DTYPES = {"bfloat16": ml_dtypes.bfloat16} | {
    name: np.dtype(name) for name in ("float16", "float32", "float64")
}
X = np.linspace(-1, 1, 6)


def signaling(array):
    """Return an array whose first number is a signaling NaN."""
    kind, bits = SIGNALS[array.dtype.name]
    out = np.array(array)
    out.view(kind)[..., 0] = bits
    return out


def in_full(value, dtype):
    return lambda *arrays, **_: np.full(np.shape(arrays[-1]), value, dtype)


SIGNAL = signaling(np.zeros(1))[0]
#: Kernels that return odd numbers, or numbers of another format that are too large or too small.
KERNELS = {
    "a signaling NaN": lambda *arrays, **_: signaling(np.maximum(arrays[-1], 0)),
    "a signaling NaN of float64": in_full(SIGNAL, np.float64),
    "1e300": in_full(1e300, np.float64),
    "-1e300": in_full(-1e300, np.float64),
    "1e-300": in_full(1e-300, np.float64),
    "a subnormal number": in_full(5e-324, np.float64),
    "infinity": in_full(-np.inf, np.float64),
    "the largest of float32": in_full(np.finfo(np.float32).max, np.float32),
    "the smallest of float32": in_full(1e-45, np.float32),
    "the largest long double": in_full(np.finfo(np.longdouble).max, np.longdouble),
    "a complex number": in_full(1e300j, complex),
    "a large integer": in_full(2**63 - 1, np.int64),
}


@pytest.mark.parametrize("settings", ["warn", "raise"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", KERNELS)
def test_a_kernel_that_returns_odd_numbers_gets_a_verdict(name, dtype, settings):
    x, kernel = X.astype(DTYPES[dtype]), KERNELS[name]
    with np.errstate(all=settings):
        assert not check.check_forward(kernel, act.relu, x)
        assert not check.check_vjp(kernel, act.relu, x, x)
        assert not check.check_jvp(kernel, act.relu, x, x)


@pytest.mark.parametrize("name", ["a signaling NaN", "1e300", "the largest long double"])
def test_a_report_on_it_is_one_of_failures(name):
    with np.errstate(all="raise"):
        for dtype in ("float32", "float16"):
            report = check.check_all(KERNELS[name], act.softplus, dtype=dtype, options=())
            assert report.failed


@pytest.mark.parametrize("dtype", DTYPES)
def test_inputs_may_hold_a_signaling_nan(dtype):
    x = signaling(X.astype(DTYPES[dtype]))

    @np.errstate(invalid="ignore")
    def right(x):
        return np.where(np.isnan(x), x, np.maximum(x, 0))

    with np.errstate(all="raise"):
        assert check.check_forward(right, act.relu, x)
        case = ("signaling", (x,), {})
        assert check.check_all(right, act.relu, vjp=act.relu_vjp, cases=[case], repeats=2)


def test_the_kernel_itself_runs_with_the_settings_of_the_caller():
    def kernel(x):
        assert np.geterr()["over"] == "raise"
        return np.exp(x) / np.exp(x).sum()

    with np.errstate(over="raise"):
        assert check.check_forward(kernel, act.softmax, X)
        with pytest.raises(FloatingPointError):
            check.check_forward(kernel, act.softmax, 1000 * X)


@pytest.mark.parametrize("dtype", DTYPES)
def test_errors_in_units_of_odd_numbers(dtype):
    x = X.astype(DTYPES[dtype])
    with np.errstate(all="raise"):
        errors = check.ulp_error(signaling(x), x.astype(float))
        assert errors[0] == np.inf
        assert check.ulp_error(x, signaling(x.astype(float)))[0] == np.inf


def test_gradients_that_are_odd_numbers():
    vjp = functools.partial(in_full(SIGNAL, np.float64))
    with np.errstate(all="raise"):
        assert not check.check_gradients(np.tanh, vjp, X)
        assert np.isnan(check.adjoint_gap(act.tanh_jvp, vjp, X, np.random.default_rng(0)))
