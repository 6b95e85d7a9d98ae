"""Tests of the gated linear units."""

import numpy as np
import pytest

import dlref.activations as A

GATES = {"glu": "sigmoid", "swiglu": "silu", "geglu": "gelu", "reglu": "relu"}


@pytest.mark.parametrize("name", GATES)
def test_pytorch(name, rng):
    peers = pytest.importorskip("peers")
    gate_of = getattr(peers.torch.nn.functional, GATES[name])
    x, dout = rng.normal(size=(2, 4, 3))
    gate = rng.normal(size=3)
    value, grads = peers.value_and_vjp(lambda a, g: a * gate_of(g), x, gate, dout=dout)
    np.testing.assert_allclose(getattr(A, name)(x, gate), value, rtol=0, atol=4e-15)
    for got, want in zip(getattr(A, f"{name}_vjp")(dout, x, gate), grads, strict=True):
        assert got.shape == want.shape
        np.testing.assert_allclose(got, want, rtol=0, atol=1e-14)


@pytest.mark.parametrize("name", GATES)
def test_a_gate_times_one_is_the_activation(name, rng):
    gate = rng.normal(size=50)
    got = getattr(A, name)(np.ones(50), gate)
    np.testing.assert_array_equal(got, getattr(A, GATES[name])(gate))


@pytest.mark.parametrize("name", GATES)
def test_linear_in_the_values(name, rng):
    x, gate = rng.normal(size=(2, 50))
    np.testing.assert_array_equal(getattr(A, name)(2 * x, gate), 2 * getattr(A, name)(x, gate))


@pytest.mark.parametrize("name", GATES)
def test_float32_is_rounded_once(name, rng):
    x, gate = rng.normal(size=(2, 200)).astype(np.float32)
    wide = getattr(A, name)(x.astype(float), gate.astype(float))
    np.testing.assert_array_equal(getattr(A, name)(x, gate), wide.astype(np.float32))


def test_pytorch_cuts_the_gate_from_the_second_half(rng):
    torch = pytest.importorskip("torch")
    both = rng.normal(size=(3, 8))
    want = torch.nn.functional.glu(torch.tensor(both)).numpy()
    np.testing.assert_allclose(A.glu(both[:, :4], both[:, 4:]), want, rtol=1e-14)


def test_steepness_zero_is_bilinear(rng):
    x, gate = rng.normal(size=(2, 50))
    np.testing.assert_allclose(A.swiglu(x, gate, beta=0), x * gate / 2, rtol=1e-15)


@pytest.mark.parametrize("name", GATES)
def test_shapes_that_do_not_broadcast(name):
    with pytest.raises(ValueError, match=r"^Arguments 'x' and 'gate' must have shapes that broad"):
        getattr(A, name)(np.ones(2), np.ones(3))


@pytest.mark.parametrize("name", ["glu", "reglu", "geglu", "swiglu"])
def test_what_overflows_does_not_warn(name):
    large = np.full((2, 3), 1e308)
    dx, dgate = getattr(A, f"{name}_vjp")(large, large, large[0])
    assert dx.shape == (2, 3)
    assert dgate.shape == (3,)
    out = getattr(A, f"{name}_jvp")((large, large[0]), (large, large[0]))
    assert out.shape == (2, 3)
