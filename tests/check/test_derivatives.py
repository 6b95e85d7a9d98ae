"""Tests of dlref.check._derivatives."""

import numpy as np
import pytest

from dlref import losses, neurons
from dlref.check import adjoint_gap, numerical_jacobian


@pytest.mark.parametrize(
    ("method", "bound"), [("central", 1e-9), ("ridders", 1e-11), ("complex", 1e-15)]
)
def test_a_jacobian_known_in_closed_form(method, bound, rng):
    A, x = rng.normal(size=(3, 2, 4)), rng.normal(size=4)
    f = lambda x: np.tanh(A @ x)  # noqa: E731
    want = (1 - np.tanh(A @ x) ** 2)[..., None] * A
    got = numerical_jacobian(f, x, method=method)
    assert got.shape == (3, 2, 4)
    np.testing.assert_allclose(got, want, rtol=0, atol=bound * 10)


def test_shapes():
    assert numerical_jacobian(np.sum, np.ones((2, 3))).shape == (2, 3)
    assert numerical_jacobian(lambda x: x, np.ones(())).shape == ()
    assert numerical_jacobian(lambda x: x, np.ones((2, 0))).shape == (2, 0, 2, 0)


def test_large_points_have_steps_of_their_size():
    got = numerical_jacobian(np.sqrt, 1e12)
    np.testing.assert_allclose(got, 0.5e-6, rtol=1e-10)


def test_the_complex_step_of_what_is_not_analytic_is_refused():
    for f in (np.abs, lambda x: (x * np.conj(x)).real, lambda x: np.real(x) ** 2):
        with pytest.raises(
            ValueError, match=r"^Argument 'f' must be analytic for the method 'comp"
        ):
            numerical_jacobian(f, np.array([1.0, -2.0]), method="complex")
    assert numerical_jacobian(np.exp, np.zeros(0), method="complex").shape == (0, 0)


def test_adjoint_gap_with_constants_and_several_inputs(rng):
    x, classes = rng.normal(size=(4, 5)), np.array([0, 1, 2, 3])
    assert (
        adjoint_gap(losses.cross_entropy_jvp, losses.cross_entropy_vjp, (x, classes), rng) < 1e-15
    )
    point = rng.normal(size=(4, 3)), rng.normal(size=(2, 3)), None
    assert adjoint_gap(neurons.linear_jvp, neurons.linear_vjp, point, rng) < 1e-15
    wrong = lambda dout, x, w, b: (dout @ w, 2 * dout.T @ x)  # noqa: E731
    assert adjoint_gap(neurons.linear_jvp, wrong, point, rng) > 1e-3


def test_adjoint_gap_of_several_outputs_and_nested_inputs(rng):
    jvp = lambda primals, tangents: (tangents[0] + tangents[1][0], tangents[1][0])  # noqa: E731
    vjp = lambda dout, x, pair: (dout[0], (dout[0] + dout[1],))  # noqa: E731
    assert adjoint_gap(jvp, vjp, (np.ones(3), (np.ones(3),)), rng) < 1e-15
    wrong = lambda dout, x, pair: (dout[0], (dout[1],))  # noqa: E731
    assert adjoint_gap(jvp, wrong, (np.ones(3), (np.ones(3),)), rng) > 1e-3


def test_adjoint_gap_of_nothing_is_zero(rng):
    zero = lambda *_: np.zeros(2)  # noqa: E731
    assert adjoint_gap(zero, zero, np.ones(2), rng) == 0


def test_errors(rng):
    with pytest.raises(ValueError, match=r"^Argument 'method' must be 'ridders', 'complex' or"):
        numerical_jacobian(np.sin, 1.0, method="forward")
    with pytest.raises(TypeError, match=r"^Argument 'rng' must be a numpy.random.Generator"):
        adjoint_gap(None, None, 1.0, 7)
