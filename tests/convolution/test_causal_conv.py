"""Causal convolution: against PyTorch, in pieces, and its errors."""

import itertools

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


#: Segment ids of two rows: long and short documents, and a number that comes back.
ROWS = np.array([[0, 0, 0, 0, 0, 5, 5, 1, 0, 0, 0], [2, 3, 3, 3, 3, 3, 3, 3, 3, 4, 4]])


def documents(ids):
    """Return the slices of time of the documents of a row."""
    cuts = [0, *(np.flatnonzero(np.diff(ids)) + 1), len(ids)]
    return [slice(*ends) for ends in itertools.pairwise(cuts)]


def one_by_one(x, w, b, state, ids):
    """Return the outputs and the last state of a row, one call for each of its documents."""
    outs = []
    for i, part in enumerate(documents(ids)):
        out, last = causal_conv(x[part], w, b, None if i else state)
        outs.append(out)
    return np.concatenate(outs), last


@pytest.mark.parametrize("width", [1, 2, 4, 7])
def test_packed_documents_are_the_documents_one_by_one(width):
    x, w, b, state = normal(2, 11, 3), normal(3, width), normal(3), normal(2, width - 1, 3)
    got = causal_conv(x, w, b, state, segment_ids=ROWS)
    for i, ids in enumerate(ROWS):
        for ours, alone in zip(got, one_by_one(x[i], w, b, state[i], ids), strict=True):
            np.testing.assert_array_equal(ours[i], alone)
    shared = causal_conv(x, w, b, state, segment_ids=ROWS[1])
    for ours, want in zip(
        shared, causal_conv(x, w, b, state, segment_ids=ROWS[[1, 1]]), strict=True
    ):
        np.testing.assert_array_equal(ours, want)


@pytest.mark.parametrize("width", [1, 4])
def test_gradients_of_packed_documents_against_pytorch(width):
    peers = pytest.importorskip("peers")
    torch = peers.torch
    arrays = normal(2, 11, 3), normal(3, width), normal(3), normal(2, width - 1, 3)

    def of(x, w, b, state):
        outs, lasts = [], []
        for row, first, ids in zip(x, state, ROWS, strict=True):
            for i, part in enumerate(documents(ids)):
                before = torch.zeros_like(first) if i else first
                whole = torch.cat([before, row[part]])
                outs.append(torch.nn.functional.conv1d(whole.mT, w[:, None], b, groups=3).mT)
            lasts.append(whole[len(whole) - width + 1 :])
        return torch.cat(outs).reshape(x.shape), torch.stack(lasts)

    peers.assert_same("convolution.causal_conv", of, *arrays, rng=RNG, segment_ids=ROWS)


def test_nan_stays_in_its_document():
    x, w, state, u = normal(6, 2), normal(2, 3), normal(2, 2), normal(6, 2)
    broken, ids = x.copy(), [0, 0, 1, 1, 1, 1]
    broken[:2] = np.nan
    out, last = causal_conv(broken, w, None, state * np.inf, segment_ids=ids)
    want, end = causal_conv(x, w, None, state, segment_ids=ids)
    np.testing.assert_array_equal(out[2:], want[2:])
    np.testing.assert_array_equal(last, end)
    upstream = np.where(np.isnan(broken), np.nan, u)
    dx, *_ = causal_conv_vjp((upstream, None), x, w, segment_ids=ids)
    np.testing.assert_array_equal(dx[2:], causal_conv_vjp((u, None), x, w, segment_ids=ids)[0][2:])
    # The cotangent of the last state reaches the last document alone.
    dx, *_ = causal_conv_vjp((None, np.ones((2, 2))), x, w, segment_ids=[0, 0, 0, 0, 0, 1])
    np.testing.assert_array_equal(dx, [[0, 0]] * 5 + [[1, 1]])


def test_the_next_call_continues_the_last_document():
    x, w = normal(9, 3), normal(3, 4)
    ids = np.array([0, 0, 0, 0, 7, 7, 7, 7, 7])
    whole, last = causal_conv(x, w, segment_ids=ids)
    first, state = causal_conv(x[:5], w, segment_ids=ids[:5])
    second, end = causal_conv(x[5:], w, None, state, segment_ids=ids[5:])
    np.testing.assert_array_equal(np.concatenate([first, second]), whole)
    np.testing.assert_array_equal(end, last)


@pytest.mark.parametrize(("steps", "width"), [(11, 4), (2, 4), (5, 1)])
def test_against_pytorch(steps, width):
    peers = pytest.importorskip("peers")
    torch = peers.torch
    arrays = normal(2, steps, 3), normal(3, width), normal(3), normal(2, width - 1, 3)

    def of(x, w, b, state):
        x = torch.cat([state, x], 1)
        y = torch.nn.functional.conv1d(x.mT, w[:, None], b, groups=3).mT
        return y, x[:, steps:]

    peers.assert_same("convolution.causal_conv", of, *arrays, rng=RNG)


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


@pytest.mark.parametrize("options", [{}, {"segment_ids": ROWS[:, :10]}])
def test_blocks_of_steps_fit_together(monkeypatch, options):
    arrays = normal(2, 10, 3), normal(3, 4), normal(3), normal(2, 3, 3)
    whole = causal_conv(*arrays, **options)
    grads = causal_conv_vjp(whole, *arrays, **options)
    monkeypatch.setattr("dlref.convolution._causal_conv.ROOM", 400)
    for got, want in zip(causal_conv(*arrays, **options), whole, strict=True):
        np.testing.assert_array_equal(got, want)
    for got, want in zip(causal_conv_vjp(whole, *arrays, **options), grads, strict=True):
        close(got, want)


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


@pytest.mark.parametrize(
    ("error", "message", "ids"),
    [
        (TypeError, "'segment_ids' must be integer, not float64", np.zeros(4)),
        (ValueError, r"'segment_ids' must broadcast to \(..., T\) = \(4,\)", np.zeros(3, int)),
        (ValueError, r"'segment_ids' must broadcast to", np.zeros((1, 4), int)),
    ],
)
def test_errors_of_segment_ids(error, message, ids):
    x, w = np.ones((4, 3)), np.ones((3, 2))
    calls = (
        lambda: causal_conv(x, w, segment_ids=ids),
        lambda: causal_conv_vjp((x, None), x, w, segment_ids=ids),
        lambda: causal_conv_jvp((x, w, None, None), (x, None, None, None), segment_ids=ids),
    )
    for call in calls:
        with pytest.raises(error, match=message):
            call()


def test_errors_of_the_derivatives():
    x, w = np.ones((4, 3)), np.ones((3, 2))
    with pytest.raises(ValueError, match=r"'tangents\[3\]' must be None"):
        causal_conv_jvp((x, w, None, None), (None, None, None, x))
