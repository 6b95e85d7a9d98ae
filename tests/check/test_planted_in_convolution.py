"""Mistakes planted in convolution and pooling are flagged, and named rightly."""

import numpy as np
import pytest

from dlref import check
from dlref import convolution as c

R = np.random.default_rng(3)
X, W, B = (R.normal(size=s) for s in ((2, 4, 7, 6), (6, 4, 3, 2), (6,)))
SQUARE = R.normal(size=(4, 4, 3, 3))
HALVES = R.normal(size=(6, 2, 3, 2))
GROUPED = {"groups": 2}


def flipped(w):
    return np.flip(w, (2, 3))


def interleaved(x, w, b=None, *, groups):
    """Give output o the group o mod G."""
    order = np.arange(len(w)).reshape(-1, groups).T.ravel()
    y = c.conv(x, w[order], groups=groups)[:, np.argsort(order)]
    return y if b is None else y + b[:, None, None]


def around(x, mode):
    return np.pad(x, [(0, 0), (0, 0), (1, 1), (1, 1)], mode)


FORWARD = [
    ("flipped", c.conv, lambda x, w, b: c.conv(x, flipped(w), b), (X, W, B), {}, "reversed"),
    ("channels", c.conv, lambda x, w: c.conv(x, w.swapaxes(0, 1)), (X, SQUARE), {},
     "input and output"),
    ("axes", c.conv, lambda x, w: c.conv(x, w.swapaxes(2, 3)), (X, SQUARE), {}, "last two axes"),
    ("groups", c.conv, interleaved, (X, HALVES), GROUPED, "interleaved"),
    ("groups, bias", c.conv, interleaved, (X, HALVES, B), GROUPED, "interleaved"),
    *(
        (mode, c.conv, lambda x, w, b, *, padding, mode=mode: c.conv(around(x, mode), w, b),
         (X, W, B), {"padding": 1}, words)
        for mode, words in (("edge", "repeats"), ("reflect", "mirrors"), ("wrap", "other end"))
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("op", "candidate", "inputs", "options", "words"),
    [row[1:] for row in FORWARD],
    ids=[row[0] for row in FORWARD],
)
def test_forward(op, candidate, inputs, options, words):
    verdict = check.check_forward(candidate, op, *inputs, **options)
    assert not verdict
    assert words in verdict.cause


X2, W2 = R.normal(size=(2, 9, 4)), R.normal(size=(4, 4))
STATE = R.normal(size=(2, 3, 4))


def centered(x, w):
    y, state = c.causal_conv(np.pad(x, [(0, 0), (0, 2), (0, 0)]), w)
    return y[:, 2:], state


@pytest.mark.parametrize(
    ("candidate", "inputs", "words"),
    [
        (lambda x, w: c.causal_conv(x, w[:, ::-1]), (X2, W2, None, None), "first weight"),
        (centered, (X2, W2, None, None), "sees the future"),
        (lambda x, w, s: c.causal_conv(x, w), (X2, W2, None, STATE), "state is ignored"),
        (lambda x, w, s: c.causal_conv(x, w, None, s[:, ::-1]), (X2, W2, None, STATE), ""),
    ],
)
def test_causal(candidate, inputs, words):
    wrong = lambda *a: candidate(*(b for b in a if b is not None))  # noqa: E731
    verdict = check.check_forward(wrong, c.causal_conv, *inputs)
    assert not verdict
    assert words in str(verdict)


def test_causal_backward():
    u = R.normal(size=X2.shape), STATE
    dx, dw = c.causal_conv_vjp(u, X2, W2[:, ::-1])
    wrong = lambda *_: (dx, dw[:, ::-1])  # noqa: E731
    assert "first weight" in check.check_vjp(wrong, c.causal_conv, u, X2, W2, None, None).cause


def test_backward():
    u = R.normal(size=c.conv(X, W).shape)
    right = c.conv_vjp(u, X, W)
    turned = c.conv_vjp(u, X, flipped(W))
    for wrong in ((turned[0], flipped(turned[1])), (turned[0], right[1])):
        verdict = check.check_vjp(lambda *_, wrong=wrong: wrong, c.conv, u, X, W)
        assert not verdict
        assert "wrong direction" in verdict.cause
    v = R.normal(size=c.conv(X, SQUARE).shape)
    wrong = c.conv_vjp(v, X, SQUARE.swapaxes(0, 1))
    wrong = wrong[0], wrong[1].swapaxes(0, 1)
    assert "input and output" in check.check_vjp(lambda *_: wrong, c.conv, v, X, SQUARE).cause


def test_forward_mode():
    moves = tuple(R.normal(size=a.shape) for a in (X, W))
    wrong = lambda p, t: c.conv_jvp((p[0], flipped(p[1])), t)  # noqa: E731
    assert not check.check_jvp(wrong, c.conv, (X, W), moves)
