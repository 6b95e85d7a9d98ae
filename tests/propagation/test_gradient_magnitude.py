"""What is special about the size of a gradient through depth."""

import numpy as np
import pytest

from dlref.activations import sigmoid_deriv, tanh, tanh_deriv
from dlref.propagation import gradient_magnitude


def test_is_the_derivative_of_a_chain(rng):
    # phi(w h) from h = 0 on: every slope is tanh'(0) = 1
    w, step = 0.8, 1e-100
    h = step * 1j
    for _ in range(7):
        h = np.sinh(w * h) / np.cosh(w * h)
    assert gradient_magnitude(w, 7) == pytest.approx(h.imag / step, rel=1e-14)
    assert tanh(0.0) == 0
    assert tanh_deriv(0.0) == 1


@pytest.mark.parametrize(("z", "preserved"), [(0.0, True), (0.5, False), (-3.0, False)])
def test_sigmoids_with_weights_of_four_preserve_a_gradient_at_zero_only(z, preserved):
    left = gradient_magnitude(4.0, 20, activation_slope=sigmoid_deriv(z))
    assert (left == 1.0) == preserved
    assert left <= 1.0


def test_no_layers_leave_the_gradient():
    assert gradient_magnitude([0.0, 5.0], 0).tolist() == [1.0, 1.0]


def test_arguments_broadcast():
    out = gradient_magnitude(np.ones((3, 1)), np.arange(4), activation_slope=-0.5)
    assert out.tolist() == [[1.0, 0.5, 0.25, 0.125]] * 3


def test_twenty_layers_of_one_half_do_not_hide():
    assert gradient_magnitude(0.5, 20) == 2.0**-20


def test_weights_below_one_explode_and_weights_of_five_vanish():
    W = np.full((16, 16), 0.9)
    assert max(abs(np.linalg.eigvals(W))) == pytest.approx(14.4)
    assert np.linalg.norm(np.linalg.matrix_power(W, 20)) > 1e20
    W = np.triu(np.full((4, 4), 5.0), 1)
    assert not np.linalg.matrix_power(W, 4).any()


def test_errors():
    with pytest.raises(ValueError, match="'depth' must be at least 0, not -2"):
        gradient_magnitude(1.0, [3, -2])
    with pytest.raises(TypeError, match="'depth' must be integer, not float64"):
        gradient_magnitude(1.0, 2.0)
    with pytest.raises(ValueError, match=r"must have shapes that broadcast, not \(2,\), \(3,\)"):
        gradient_magnitude(np.ones(2), np.ones(3, int))
