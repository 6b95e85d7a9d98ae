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
         (X, W, B), {"padding": 1}, message)
        for mode, message in (("edge", "repeats"), ("reflect", "mirrors"), ("wrap", "circular"))
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("op", "candidate", "inputs", "options", "message"),
    [row[1:] for row in FORWARD],
    ids=[row[0] for row in FORWARD],
)
def test_forward(op, candidate, inputs, options, message):
    verdict = check.check_forward(candidate, op, *inputs, **options)
    assert not verdict
    assert message in verdict.cause


def at_the_start(x, w, *, stride, output_padding):
    """Put the output padding before the first output."""
    options = {"stride": stride, "output_padding": output_padding}
    y = c.conv_transpose(np.flip(x, (2, 3)), flipped(w), **options)
    return np.flip(y, (2, 3))


UP = R.normal(size=(4, 3, 3, 2))
MORE = {"stride": 2, "output_padding": 1}
POOL = {"size": (3, 3), "stride": 2, "padding": 1}
TIES = R.integers(-2, 3, (2, 3, 7, 8)).astype(float)


@pytest.mark.parametrize(
    ("op", "candidate", "inputs", "options", "message"),
    [
        (c.conv_transpose, lambda x, w: c.conv_transpose(x, flipped(w)), (X, UP), {}, "reversed"),
        (c.conv_transpose, lambda x, w: c.conv_transpose(x, w.swapaxes(0, 1)), (X, SQUARE), {},
         "input and output"),
        (c.conv_transpose, at_the_start, (X, UP), MORE, "at the start"),
        (c.max_pool, lambda x, *, padding, **o: c.max_pool(around(x, "constant"), **o),
         (-np.abs(TIES) - 1,), POOL, "the padding is 0"),
        (c.mean_pool, lambda x, **o: c.mean_pool(x, **o) / c.mean_pool(np.ones_like(x), **o),
         (TIES,), POOL, "does not count the padding"),
        (c.mean_pool, c.max_pool, (TIES,), POOL, ""),
    ],
)  # fmt: skip
def test_others(op, candidate, inputs, options, message):
    verdict = check.check_forward(candidate, op, *inputs, **options)
    assert not verdict
    assert message in verdict.cause


def windows(x):
    """Yield the slice of each place of a window of POOL, and the elements there."""
    whole = np.pad(x, [(0, 0), (0, 0), (1, 1), (1, 1)], constant_values=-np.inf)
    for i, j in np.ndindex(3, 3):
        part = (..., slice(i, i + 7, 2), slice(j, j + 7, 2))
        yield part, whole[part]


def shared(u, x, how, *, size, stride, padding):
    y = c.max_pool(x, size=size, stride=stride, padding=padding)
    dx = np.zeros((2, 3, 9, 10))
    ties = sum((v == y).astype(float) for _, v in windows(x))
    left = np.ones_like(y)
    for part, v in reversed(list(windows(x))):
        equal = (v == y).astype(float)
        dx[part] += u * {"all": equal, "shared": equal / ties, "last": equal * left}[how]
        left *= 1 - equal
    return dx[..., 1:-1, 1:-1]


@pytest.mark.parametrize(
    ("how", "message"), [("all", "all equal"), ("shared", "share"), ("last", "the last one")]
)
def test_ties(how, message):
    u = R.normal(size=(2, 3, 4, 4))
    wrong = lambda u, x, **o: shared(u, x, how, **o)  # noqa: E731
    verdict = check.check_vjp(wrong, c.max_pool, u, TIES, **POOL)
    assert not verdict
    assert message in verdict.cause


def test_pools_backward():
    u = R.normal(size=(2, 3, 4, 4))
    share = c.mean_pool(np.ones_like(TIES), **POOL)
    wrong = lambda u, x, **o: c.mean_pool_vjp(u / share, x, **o)  # noqa: E731
    verdict = check.check_vjp(wrong, c.mean_pool, u, TIES, **POOL)
    assert "does not count" in verdict.cause
    whole = {"size": (3, 3)}
    v = R.normal(size=(2, 3, 2, 2))
    double = lambda u, x, **o: 2 * c.mean_pool_vjp(u, x, **o)  # noqa: E731
    assert not check.check_vjp(double, c.mean_pool, v, TIES, **whole)


X2, W2 = R.normal(size=(2, 9, 4)), R.normal(size=(4, 4))
STATE = R.normal(size=(2, 3, 4))


def centered(x, w):
    y, state = c.causal_conv(np.pad(x, [(0, 0), (0, 2), (0, 0)]), w)
    return y[:, 2:], state


@pytest.mark.parametrize(
    ("candidate", "inputs", "message"),
    [
        (lambda x, w: c.causal_conv(x, w[:, ::-1]), (X2, W2, None, None), "first weight"),
        (centered, (X2, W2, None, None), "sees the future"),
        (lambda x, w, s: c.causal_conv(x, w), (X2, W2, None, STATE), "0 stands where state is due"),
        (lambda x, w, s: c.causal_conv(x, w, None, s[:, ::-1]), (X2, W2, None, STATE), ""),
    ],
)
def test_causal(candidate, inputs, message):
    wrong = lambda *a: candidate(*(b for b in a if b is not None))  # noqa: E731
    verdict = check.check_forward(wrong, c.causal_conv, *inputs)
    assert not verdict
    assert message in str(verdict)


def outputs_alone(x, w, *more, **options):
    return c.causal_conv(x, w, *more, **options)[0], c.causal_conv(x, w, *more)[1]


@pytest.mark.parametrize(
    ("candidate", "message"),
    [
        (outputs_alone, "last state holds inputs of earlier documents"),
        (
            lambda *a, segment_ids=None: c.causal_conv(*a, segment_ids=None),
            "the option 'segment_ids' is ignored",
        ),
    ],
)
def test_causal_of_packed_documents(candidate, message):
    ids = np.array([[0, 0, 0, 0, 1, 1, 1, 2, 2], [3, 3, 3, 3, 3, 3, 3, 3, 4]])
    verdict = check.check_forward(candidate, c.causal_conv, X2, W2, None, STATE, segment_ids=ids)
    assert message in verdict.cause


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


ANY = [
    (c.conv, (X, W, B), {"padding": 1, "stride": (2, 1)}),
    (c.conv, (X, HALVES, B), {"groups": 2}),
    (c.conv_transpose, (X, UP, None), {"stride": 2, "output_padding": 1}),
    (c.conv_transpose, (X, UP, None), {}),
    (c.max_pool, (X,), {"size": (3, 3), "stride": None, "padding": 1}),
    (c.max_pool, (X,), {"size": (2, 2), "stride": (1, 2)}),
    (c.mean_pool, (X,), POOL),
    (c.mean_pool, (X,), {"size": (2, 2)}),
    (c.causal_conv, (X2, W2, None, None), {}),
    (c.causal_conv, (X2, W2[:, :1], None, None), {}),
    (c.causal_conv, (X2, W2, None, STATE), {}),
    (c.causal_conv, (X2, W2, None, STATE), {"segment_ids": np.arange(9) // 4}),
]


def off(f):
    def wrong(*arguments, **options):
        out = f(*arguments, **options)
        return tuple(map(bent, out)) if isinstance(out, tuple) else bent(out)

    return wrong


def bent(a):
    return a + 0.3 * np.sin(7 * a)


@pytest.mark.usefixtures("without_programs")
@pytest.mark.parametrize(("f", "inputs", "options"), ANY)
def test_kernels_with_none_of_the_known_mistakes(f, inputs, options):
    """No cause of the chapter is named, and none fails."""
    vjp, jvp = (getattr(c, f"{f.__name__}_{form}") for form in ("vjp", "jvp"))
    out = f(*inputs, **options)
    dout = tuple(map(np.sin, out)) if isinstance(out, tuple) else np.sin(out)
    moves = tuple(None if a is None else np.cos(a) for a in inputs)
    primals, tangents = (inputs, moves) if len(inputs) > 1 else (inputs[0], moves[0])
    for verdict in (
        check.check_forward(off(f), f, *inputs, **options),
        check.check_vjp(off(vjp), f, dout, *inputs, **options),
        check.check_jvp(off(jvp), f, primals, tangents, **options),
    ):
        assert not verdict
        message = "kernel", "padding", "group", "maxima", "window", "state"
        assert not any(word in verdict.cause for word in message)
