"""Tests of dlref.neurons._linear."""

import numpy as np
import pytest

from dlref.neurons import linear, linear_jacobian, linear_jvp, linear_vjp, neuron


@pytest.mark.parametrize("batch", [(), (5,), (2, 3)])
@pytest.mark.parametrize("with_bias", [True, False])
def test_pytorch(batch, with_bias, rng):
    import peers  # noqa: PLC0415  # only where PyTorch is

    inputs = [rng.normal(size=(*batch, 4)), rng.normal(size=(3, 4))]
    inputs += [rng.normal(size=3)] if with_bias else []
    peers.assert_same("neurons.linear", peers.torch.nn.functional.linear, *inputs, rng=rng)


def test_a_layer_is_its_neurons(rng, assert_close):
    x, weight, bias = rng.normal(size=(5, 4)), rng.normal(size=(3, 4)), rng.normal(size=3)
    columns = [neuron(x, w, b, activation="identity") for w, b in zip(weight, bias, strict=True)]
    assert_close(linear(x, weight, bias), np.stack(columns, axis=-1))


def test_the_jacobian_is_the_weight_and_a_copy(rng):
    weight = rng.normal(size=(3, 4))
    jac = linear_jacobian(np.ones((2, 4)), weight)
    np.testing.assert_array_equal(jac, np.stack([weight, weight]))
    jac[0] = 0
    assert jac[1].any()


def test_products_are_computed_in_the_dtype_of_the_input_and_the_bias_gradient_summed_wide(rng):
    x, weight = (rng.normal(size=(64, 1000)).astype(np.float32) for _ in range(2))
    out = linear(x, weight)
    np.testing.assert_array_equal(out, x @ weight.T)  # NumPy's BLAS
    scale = np.max(abs(x) @ abs(weight).T)
    exact = x.astype(float) @ weight.T.astype(float)
    assert np.max(abs(out - exact)) <= 64 * 2.0**-23 * scale
    dout = np.full((100_001, 1), 0.1, np.float32)
    dout[0] = 1e8
    ones = np.ones((100_001, 1), np.float32)
    *_, db = linear_vjp(dout, ones, ones[:1], ones[0])
    assert db == np.float32(1e8 + 100_000 * np.float64(np.float32(0.1)))


def test_a_bias_of_none_may_be_written_down(rng, assert_close):
    x, weight = rng.normal(size=(2, 3)), rng.normal(size=(4, 3))
    assert_close(linear_jvp((x, weight, None), (x, None, None)), linear(x, weight))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((1.0, np.ones((2, 3))), "'x' must have at least 1 axis"),
        ((np.ones(3), np.ones(3)), "'weight' must have at least 2 axes"),
        ((np.ones(3), np.ones((2, 4))), r"'weight' must have shape \(2, 3\), not \(2, 4\)"),
        ((np.ones(3), np.ones((1, 2, 3))), r"'weight' must have shape \(1, 3\), not \(1, 2, 3\)"),
        ((np.ones(3), np.ones((2, 3)), np.ones(3)), r"'bias' must have shape \(2,\), not \(3,\)"),
    ],
)
def test_shapes_that_do_not_fit(arguments, message):
    for call in (linear, linear_jacobian, lambda *a: linear_vjp(np.ones(2), *a)):
        with pytest.raises(ValueError, match=message):
            call(*arguments)
    with pytest.raises(ValueError, match=r"'primals\[.\]' must have"):
        linear_jvp(arguments, (None,) * len(arguments))


def test_relu_leaves_lines_and_a_point_of_three_quadrants(rng):
    """What becomes of the plane in the figure of a linear layer."""
    y = np.array([[1, 1], [-1, 1], [1, -1], [-1, -1]])[:, None] * rng.uniform(0.1, 1, (4, 50, 2))
    ranks = [np.linalg.matrix_rank(np.maximum(rows, 0)) for rows in y]
    assert ranks == [2, 1, 1, 0]
