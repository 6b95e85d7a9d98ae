"""Tests of the gated linear units."""

import numpy as np
import pytest

import dlref.activations as A

GATES = {"glu": "sigmoid", "swiglu": "silu", "geglu": "gelu", "reglu": "relu"}


@pytest.mark.parametrize("name", GATES)
def test_pytorch(name, rng):
    peers = pytest.importorskip("peers")
    gate_of = getattr(peers.torch.nn.functional, GATES[name])
    x, gate = rng.normal(size=(4, 3)), rng.normal(size=3)
    peers.assert_same(f"activations.{name}", lambda a, g: a * gate_of(g), x, gate, rng=rng)


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


BOUNDED = {"beta": 1.702, "limit": 1.0, "shift": 1.0}


class TestBoundedSwiglu:
    def gpt_oss(self, torch, x, gate):
        """Transcribe the experts of transformers' modeling_gpt_oss.py, whose limit is 7."""
        gate, up = gate.clamp(min=None, max=1.0), x.clamp(min=-1.0, max=1.0)
        return (up + 1) * (gate * torch.sigmoid(gate * 1.702))

    def test_gpt_oss(self, rng):
        peers = pytest.importorskip("peers")
        x, gate, dout = 1.5 * rng.normal(size=(3, 6, 50))
        x[0, :3], gate[0, :3] = [1.0, -1.0, 0.5], [1.0, 0.5, 1.0]  # at the bounds themselves
        f = lambda a, g: self.gpt_oss(peers.torch, a, g)  # noqa: E731
        value, grads = peers.value_and_vjp(f, x, gate, dout=dout)
        np.testing.assert_allclose(A.swiglu(x, gate, **BOUNDED), value, rtol=0, atol=4e-15)
        for got, want in zip(A.swiglu_vjp(dout, x, gate, **BOUNDED), grads, strict=True):
            np.testing.assert_allclose(got, want, rtol=0, atol=2e-14)

    def test_a_limit_that_nothing_reaches(self, rng):
        x, gate = rng.normal(size=(2, 50))
        np.testing.assert_array_equal(A.swiglu(x, gate, limit=50), A.swiglu(x, gate))

    def test_float32_is_rounded_once(self, rng):
        x, gate = 2 * rng.normal(size=(2, 200)).astype(np.float32)
        wide = A.swiglu(x.astype(float), gate.astype(float), **BOUNDED)
        got = A.swiglu(x, gate, **BOUNDED)
        np.testing.assert_array_equal(got, wide.astype(np.float32))

    def test_infinite_inputs_are_bounded(self):
        got = A.swiglu([np.inf, -np.inf], [np.inf, np.inf], limit=7, shift=1, beta=50)
        np.testing.assert_array_equal(got, [56, -42])

    @pytest.mark.parametrize("bad", [0.0, -1.0, np.nan])
    def test_limit_must_be_positive(self, bad):
        with pytest.raises(ValueError, match=r"^Argument 'limit' must be greater than 0, not"):
            A.swiglu(1.0, 1.0, limit=bad)
        with pytest.raises(TypeError, match=r"^Argument 'shift' must be a number, not"):
            A.swiglu(1.0, 1.0, shift="1")
