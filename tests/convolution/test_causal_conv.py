"""Causal convolution: against PyTorch, in pieces, and its errors."""

import numpy as np
import pytest

from dlref.convolution import causal_conv, causal_conv_jvp, causal_conv_vjp, conv

RNG = np.random.default_rng(0)


def normal(*shape):
    return RNG.normal(size=shape)


def close(got, want):
    want = np.asarray(want)
    assert got.shape == want.shape
    np.testing.assert_allclose(got, want, rtol=0, atol=4e-15 * np.abs(want).max(initial=1))


@pytest.mark.parametrize(("steps", "width"), [(11, 4), (2, 4), (5, 1)])
def test_against_pytorch(steps, width):
    torch = pytest.importorskip("torch")
    arrays = normal(2, steps, 3), normal(3, width), normal(3), normal(2, width - 1, 3)
    moves = tuple(normal(*a.shape) for a in arrays)

    def of(x, w, b, state):
        x = torch.cat([state, x], 1)
        y = torch.nn.functional.conv1d(x.mT, w[:, None], b, groups=3).mT
        return y, x[:, steps:]

    tensors, directions = (tuple(map(torch.tensor, some)) for some in (arrays, moves))
    want, tangent = torch.func.jvp(of, tensors, directions)
    got = causal_conv(*arrays)
    u = tuple(normal(*y.shape) for y in got)
    grads = torch.func.vjp(of, *tensors)[1](tuple(map(torch.tensor, u)))
    for ours, theirs in (
        (got, want),
        (causal_conv_jvp(arrays, moves), tangent),
        (causal_conv_vjp(u, *arrays), grads),
    ):
        for a, b in zip(ours, theirs, strict=True):
            close(a, b)


def test_it_is_a_depthwise_convolution():
    x, w = normal(2, 9, 3), normal(3, 4)
    want = conv(x.swapaxes(1, 2), w[:, None], groups=3, padding=3)[..., :9]
    close(causal_conv(x, w)[0], want.swapaxes(1, 2))


@pytest.mark.parametrize("cuts", [(3, 8), (1, 2, 3), (0, 9)])
def test_pieces_give_the_bits_of_the_whole(cuts):
    x, w, b = normal(2, 10, 3), normal(3, 4), normal(3)
    whole, last = causal_conv(x, w, b)
    state, found = None, []
    for piece in np.split(x, cuts, axis=1):
        out, state = causal_conv(piece, w, b, state)
        found.append(out)
    np.testing.assert_array_equal(np.concatenate(found, axis=1), whole)
    np.testing.assert_array_equal(state, last)


def test_no_output_depends_on_the_future():
    x, w = normal(8, 2), normal(2, 3)
    other = x.copy()
    other[5:] = np.nan
    np.testing.assert_array_equal(causal_conv(other, w)[0][:5], causal_conv(x, w)[0][:5])


def test_blocks_of_steps_fit_together(monkeypatch):
    arrays = normal(2, 10, 3), normal(3, 4), normal(3), normal(2, 3, 3)
    whole = causal_conv(*arrays)
    grads = causal_conv_vjp(whole, *arrays)
    monkeypatch.setattr("dlref.convolution._causal_conv.ROOM", 400)
    for got, want in zip(causal_conv(*arrays), whole, strict=True):
        np.testing.assert_array_equal(got, want)
    for got, want in zip(causal_conv_vjp(whole, *arrays), grads, strict=True):
        close(got, want)


def test_the_state_is_a_copy():
    x = normal(4, 2)
    _, state = causal_conv(x, normal(2, 3))
    assert not np.shares_memory(state, x)


@pytest.mark.parametrize(
    ("error", "message", "arguments"),
    [
        (ValueError, "'x' must have at least 2 axes", (np.ones(3), np.ones((3, 2)))),
        (ValueError, r"'weight' must have shape \(3, K\)", (np.ones((4, 3)), np.ones((2, 3)))),
        (ValueError, "K of at least 1", (np.ones((4, 3)), np.ones((3, 0)))),
        (TypeError, "'weight' must be an array, not None", (np.ones((4, 3)), None)),
        (ValueError, "'bias' must have shape", (np.ones((4, 3)), np.ones((3, 2)), np.ones(2))),
        (
            ValueError,
            r"'state' must have shape \(1, 3\)",
            (np.ones((4, 3)), np.ones((3, 2)), None, np.ones((2, 3))),
        ),
    ],
)
def test_errors(error, message, arguments):
    with pytest.raises(error, match=message):
        causal_conv(*arguments)


def test_errors_of_the_derivatives():
    x, w = np.ones((4, 3)), np.ones((3, 2))
    with pytest.raises(ValueError, match=r"'dout\[1\]' must have shape"):
        causal_conv_vjp((x, x), x, w)
    with pytest.raises(ValueError, match=r"'tangents\[3\]' must be None"):
        causal_conv_jvp((x, w, None, None), (None, None, None, x))
