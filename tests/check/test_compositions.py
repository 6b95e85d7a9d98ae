"""Maps put together from elementary operations, as one writes them, are right: no false alarm."""

import ml_dtypes
import numpy as np
import peers
import pytest

from dlref import activations as act
from dlref import attention, check, losses, recurrent
from dlref import normalization as norm
from dlref._core.pytree import flat
from dlref.check._oracle.plain import VARIANTS

SDPA = attention.scaled_dot_product_attention
CALLS = {
    "softmax": (act.softmax, act.softmax_vjp, ((6, 8),)),
    "log_softmax": (act.log_softmax, act.log_softmax_vjp, ((6, 8),)),
    "logsumexp": (act.logsumexp, act.logsumexp_vjp, ((6, 8),)),
    "cross_entropy": (losses.cross_entropy, losses.cross_entropy_vjp, ((6, 8), (6,))),
    "scaled_dot_product_attention": (
        SDPA,
        attention.scaled_dot_product_attention_vjp,
        ((4, 5, 8), (2, 7, 8), (2, 7, 6)),
    ),
}


@pytest.mark.parametrize(("name", "form"), VARIANTS)
def test_a_variant_is_its_map(rng, name, form):
    op, vjp, shapes = CALLS[name]
    inputs = check.random_inputs(op, shapes, "float64", rng)
    want = np.asarray(op(*inputs))
    dout = rng.normal(size=want.shape)
    given = inputs if form == "forward" else (dout, *inputs)
    exact = flat(want if form == "forward" else vjp(*given))
    for formula in VARIANTS[name, form]:
        for got, part in zip(flat(formula(*given)), exact, strict=True):
            np.testing.assert_allclose(got, part, atol=1e-14)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_a_gradient_goes_through_the_maximum_of_any_axis(rng, axis):
    x, dout = rng.normal(size=(2, 4, 5, 3))
    for formula in VARIANTS["softmax", "vjp"]:
        got = formula(dout, x, axis=axis)
        np.testing.assert_allclose(got, act.softmax_vjp(dout, x, axis=axis), atol=1e-15)


def through(grad, x):
    """Subtract what autograd sends through ``x - x.max()``."""
    grad = grad.copy()
    rows = np.arange(len(x))
    grad[rows, x.argmax(-1)] -= grad.sum(-1)
    return grad


def softmax_backward(u, x):
    e = np.exp(x - x.max(-1, keepdims=True))
    s = e.sum(-1, keepdims=True)
    return through(e * (u / s - (u * e / s**2).sum(-1, keepdims=True)), x)


def log_softmax_backward(u, x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return through(u - e * (u.sum(-1, keepdims=True) / e.sum(-1, keepdims=True)), x)


def by_logsumexp(x):
    most = x.max(-1, keepdims=True)
    return np.exp(x - (most + np.log(np.exp(x - most).sum(-1, keepdims=True))))


def flash_softmax_backward(u, x):
    p = by_logsumexp(x)
    return p * (u - (p * u).sum(-1, keepdims=True))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("op", "backward"),
    [
        (act.softmax, softmax_backward),
        (act.softmax, flash_softmax_backward),
        (act.log_softmax, log_softmax_backward),
    ],
)
def test_gradients_of_rows(op, backward, dtype):
    """The place of the maximum gets the rounding of the whole row; weights are 1 but for it."""
    for seed in range(4):
        rng = np.random.default_rng(seed)
        for width in (5, 64, 257):
            for scale in (1, 5, 20):
                x = (scale * rng.normal(size=(6, width))).astype(dtype)
                u = rng.normal(size=x.shape).astype(dtype)
                verdict = check.check_vjp(backward, op, u, x)
                assert verdict, (seed, width, scale, str(verdict))
                wrong = lambda u, x: backward(u, x) * (1 + 1e-3)  # noqa: E731
                assert not check.check_vjp(wrong, op, u, x)


def test_softmax_by_its_logarithm():
    for seed in range(8):
        x = np.float32(20 * np.random.default_rng(seed).normal(size=(6, 64)))
        verdict = check.check_forward(by_logsumexp, act.softmax, x)
        assert verdict, str(verdict)
        assert not check.check_forward(lambda x: by_logsumexp(x) * 1.001, act.softmax, x)


def lstm_backward(u, x, h, c, w, r, b, d):
    i, f, g, o = np.split(x @ w.T + h @ r.T + b + d, 4, -1)
    i, f, o = (1 / (1 + np.exp(-a)) for a in (i, f, o))
    g, (dh, dc) = np.tanh(g), u
    t = np.tanh(f * c + i * g)
    dc = dc + dh * o * (1 - t * t)
    gates = np.concatenate(
        [dc * g * i * (1 - i), dc * c * f * (1 - f), dc * i * (1 - g * g), dh * t * o * (1 - o)], -1
    )
    total = gates.sum(0)
    return gates @ w, gates @ r, dc * f, gates.T @ x, gates.T @ h, total, total


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_gates_of_an_lstm_that_saturate(dtype):
    shapes = (3, 64), (3, 8), (3, 8), (32, 64), (32, 8), (32,), (32,)
    for seed in range(6):
        rng = np.random.default_rng(seed)
        inputs = [rng.normal(size=shape).astype(dtype) for shape in shapes]
        u = tuple(rng.normal(size=(3, 8)).astype(dtype) for _ in range(2))
        verdict = check.check_vjp(lstm_backward, recurrent.lstm_cell, u, *inputs)
        assert verdict, str(verdict)
        wrong = lambda *given: [1.001 * g for g in lstm_backward(*given)]  # noqa: E731
        assert not check.check_vjp(wrong, recurrent.lstm_cell, u, *inputs)
    x, h, c, *weights = inputs
    peepholes = {"w_p": rng.normal(size=24).astype(dtype)}
    own = recurrent.lstm_cell_vjp
    assert check.check_vjp(own, recurrent.lstm_cell, u, x, h, c, *weights, **peepholes)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_elu_by_an_expm1_that_is_a_rounding_off(dtype):
    """As that of PyTorch is: the slope y + 1 is 0 from -16 on, in float32."""
    x = np.linspace(-45, 5, 1001).astype(dtype)

    def backward(u, x):
        y = np.nextafter(np.expm1(np.minimum(x, 0)), -np.inf, dtype=x.dtype)
        return u * np.where(x > 0, 1, y + 1)

    verdict = check.check_vjp(backward, act.elu, np.ones_like(x), x)
    assert verdict, str(verdict)


@pytest.mark.parametrize(
    ("op", "backward"),
    [
        (act.tanhshrink, lambda u, x: u - u * (1 - np.tanh(x) ** 2)),
        (act.softsign, lambda u, x: u / (1 + abs(x)) - u * x / (1 + abs(x)) ** 2 * np.sign(x)),
    ],
)
def test_among_many_elements_none_is_held_to_an_accident(op, backward):
    """A difference of two terms is as exact as they are; a few places do not tell how exact."""
    for scale in (0.3, 5, 20):
        rng = np.random.default_rng(1)
        u, x = np.float32(rng.normal(size=(2, 300, 300))) * np.float32([[[1]], [[scale]]])
        verdict = check.check_vjp(backward, op, u, x)
        assert verdict, str(verdict)
        assert not check.check_vjp(lambda u, x: 1.001 * backward(u, x), op, u, x)


# Written with PyTorch; its autograd goes through the maximum, the root and the mean.


def of_rows():
    """Yield maps of rows, how one writes them, and the shapes of weights and biases."""
    torch = peers.torch
    exp, log = torch.exp, torch.log
    most, mean = (lambda x: x.max(-1, keepdim=True).values), (lambda x: x.mean(-1, keepdim=True))
    total = lambda x: x.sum(-1, keepdim=True)  # noqa: E731
    yield act.softmax, lambda x: exp(x - most(x)) / total(exp(x - most(x)))
    yield act.softmax, lambda x: exp(x - x.amax(-1, True)) / total(exp(x - x.amax(-1, True)))
    yield act.softmax, lambda x: exp(x - most(x).detach()) / total(exp(x - most(x).detach()))
    yield act.softmax, lambda x: exp(x - torch.logsumexp(x, -1, keepdim=True))
    yield act.log_softmax, lambda x: x - most(x) - log(total(exp(x - most(x))))
    yield act.logsumexp, lambda x: (most(x) + log(total(exp(x - most(x)))))[..., 0]
    yield act.silu, lambda x: x * torch.sigmoid(x)
    yield act.gelu, lambda x: 0.5 * x * (1 + torch.erf(x / 2**0.5))
    yield act.tanhshrink, lambda x: x - torch.tanh(x)
    yield act.softsign, lambda x: x / (1 + x.abs())
    yield act.elu, lambda x: torch.where(x > 0, x, torch.expm1(x.clamp(max=0)))
    yield (
        norm.layer_norm,
        lambda x: (x - mean(x)) / torch.sqrt(x.var(-1, keepdim=True, unbiased=False) + 1e-5),
    )
    yield norm.layer_norm, lambda x: (c := x - mean(x)) * torch.rsqrt(mean(c * c) + 1e-5)
    yield norm.rms_norm, lambda x: x * torch.rsqrt(mean(x.pow(2)) + 1e-6)


def wide(f):
    """Return a function that computes 16 bits in float32."""

    def g(x):
        return f(x.float()).to(x.dtype) if x.element_size() == 2 else f(x)

    return g


def reversed_(f):
    def vjp(u, x):
        x = x.detach().requires_grad_()
        return peers.torch.autograd.grad(f(x), x, u)[0]

    return vjp


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", ml_dtypes.bfloat16])
def test_what_one_writes_with_pytorch(dtype):
    for number, (op, f) in enumerate(of_rows()):
        for seed in range(3):
            rng = np.random.default_rng(seed)
            for width, scale in ((5, 1), (64, 20), (257, 1), (300, 5)):
                x = (scale * rng.normal(size=(6, width))).astype(dtype)
                u = rng.normal(size=np.shape(op(x))).astype(dtype)
                forward = check.check_forward(wide(f), op, x, framework="torch")
                assert forward, (number, width, scale, str(forward))
                verdict = check.check_vjp(reversed_(wide(f)), op, u, x, framework="torch")
                assert verdict, (number, width, scale, str(verdict))
