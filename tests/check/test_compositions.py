"""Maps put together from elementary operations, as one writes them, are right: no false alarm."""

import functools
import itertools

import ml_dtypes
import numpy as np
import peers
import pytest
from chapters import PLAIN, VARIANTS

import dlref
from dlref import activations as act
from dlref import attention, check, losses, recurrent
from dlref import normalization as norm
from dlref._core.pytree import tree_leaves
from dlref.check._oracle.formulas import computed

SDPA = attention.scaled_dot_product_attention


def test_a_variant_of_cross_entropy_takes_probabilities(rng):
    logits, target = rng.normal(size=(6, 8)), act.softmax(rng.normal(size=(6, 8)))
    given = rng.normal(), logits, target
    for formula in VARIANTS["cross_entropy", "vjp"]:
        got = tree_leaves(formula(*given, label_smoothing=0.1))
        exact = losses.cross_entropy_vjp(*given, label_smoothing=0.1)
        for a, b in zip(got, exact, strict=True):
            np.testing.assert_allclose(a, b, atol=1e-14)


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("op", [act.softmax, act.log_softmax, act.logsumexp])
def test_along_any_axis(rng, op, axis):
    x, dx = rng.normal(size=(2, 4, 5, 3))
    dout, name = rng.normal(size=np.shape(op(x, axis=axis))), op.__name__
    for form, given in (("vjp", (dout, x)), ("jvp", (x, dx))):
        formulas = [*VARIANTS.get((name, form), ()), PLAIN[name, form]]
        for formula in formulas:
            want = form_of(op, form)(*given, axis=axis)
            np.testing.assert_allclose(formula(*given, axis=axis), want, atol=1e-14)


def form_of(op, form):
    chapter = getattr(dlref, op.__module__.split(".")[1])
    return getattr(chapter, f"{op.__name__}_{form}")


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


@pytest.mark.broad
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


@pytest.mark.broad
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


CELLS = {
    recurrent.gru_cell: ((3, 64), (3, 8), (24, 64), (24, 8), (24,), (24,)),
    recurrent.lstm_cell: ((3, 64), (3, 8), (3, 8), (32, 64), (32, 8), (32,), (32,)),
}


def gru_forward_mode(primals, tangents):
    (x, h, w, r, b, d), (dx, dh, dw, dr, db, dd) = primals, tangents
    (ri, zi, ni), (rh, zh, nh) = (np.split(s, 3, -1) for s in (x @ w.T + b, h @ r.T + d))
    reset, z = (1 / (1 + np.exp(-s)) for s in (ri + rh, zi + zh))
    n = np.tanh(ni + reset * nh)
    inputs = np.split(dx @ w.T + x @ dw.T + db, 3, -1)
    states = np.split(dh @ r.T + h @ dr.T + dd, 3, -1)
    dreset, dz = (s * (1 - s) * (inputs[k] + states[k]) for k, s in enumerate((reset, z)))
    dn = (1 - n * n) * (inputs[2] + dreset * nh + reset * states[2])
    return (1 - z) * dn + z * dh + dz * (h - n)


def lstm_forward_mode(primals, tangents):
    (x, h, c, w, r, b, d), (dx, dh, dc, dw, dr, db, dd) = primals, tangents
    i, f, g, o = np.split(x @ w.T + h @ r.T + b + d, 4, -1)
    moved = dx @ w.T + x @ dw.T + db + dh @ r.T + h @ dr.T + dd
    di, df, dg, do = np.split(moved, 4, -1)
    i, f, o = (1 / (1 + np.exp(-a)) for a in (i, f, o))
    g = np.tanh(g)
    t = np.tanh(f * c + i * g)
    dc = f * dc + f * (1 - f) * df * c + i * (1 - i) * di * g + i * (1 - g * g) * dg
    return o * (1 - t * t) * dc + o * (1 - o) * do * t, dc


@pytest.mark.broad
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("f", [gru_forward_mode, lstm_forward_mode])
def test_tangents_of_cells_that_saturate(f, dtype):
    op = recurrent.gru_cell if f is gru_forward_mode else recurrent.lstm_cell
    for seed in range(6):
        rng = np.random.default_rng(seed)
        given = [tuple(rng.normal(size=s).astype(dtype) for s in CELLS[op]) for _ in "pt"]
        verdict = check.check_jvp(f, op, *given)
        assert verdict, str(verdict)
        wrong = lambda p, t: f(p, (1.001 * t[0], *t[1:]))  # noqa: E731
        assert not check.check_jvp(wrong, op, *given)


@pytest.mark.parametrize("name", ["gru_cell", "lstm_cell"])
def test_options_and_parts_left_out_have_no_plain_tangent(rng, name):
    primals = tuple(rng.normal(size=s) for s in CELLS[getattr(recurrent, name)])
    for place in (1, len(primals) - 5):  # the states
        tangents = (*primals[:place], None, *primals[place + 1 :])
        with pytest.raises(NotImplementedError):
            computed(PLAIN[name, "jvp"], primals, tangents)
    with pytest.raises(NotImplementedError):
        computed(PLAIN[name, "jvp"], primals, primals, reset_after=False)


def shifted(x, dx):
    """Return the exponentials of x less its maximum, and the tangents less that at it."""
    place = np.arange(len(x)), x.argmax(-1)
    return np.exp(x - x[place][:, None]), dx - dx[place][:, None]


def softmax_forward_mode(x, dx):
    e, dz = shifted(x, dx)
    s = e.sum(-1, keepdims=True)
    return e * dz / s - e * (e * dz).sum(-1, keepdims=True) / s**2


def log_softmax_forward_mode(x, dx):
    e, dz = shifted(x, dx)
    return dz - (e * dz).sum(-1, keepdims=True) / e.sum(-1, keepdims=True)


def logsumexp_forward_mode(x, dx):
    e, dz = shifted(x, dx)
    return dx[np.arange(len(x)), x.argmax(-1)] + (e * dz).sum(-1) / e.sum(-1)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("op", "f"),
    [
        (act.softmax, softmax_forward_mode),
        (act.log_softmax, log_softmax_forward_mode),
        (act.logsumexp, logsumexp_forward_mode),
    ],
)
def test_tangents_of_rows(op, f, dtype):
    for seed in range(3):
        rng = np.random.default_rng(seed)
        for width, scale in ((5, 20), (64, 20), (300, 0.3), (300, 5)):
            x = (scale * rng.normal(size=(6, width))).astype(dtype)
            dx = rng.normal(size=x.shape).astype(dtype)
            verdict = check.check_jvp(f, op, x, dx)
            assert verdict, (width, scale, str(verdict))
            assert not check.check_jvp(lambda x, dx: f(x, dx) * (1 + 1e-3), op, x, dx)


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


@pytest.mark.parametrize(
    "dtype",
    [
        ml_dtypes.bfloat16,
        *(
            pytest.param(dtype, marks=pytest.mark.broad)
            for dtype in ("float64", "float32", "float16")
        ),
    ],
)
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


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", ml_dtypes.bfloat16])
def test_functions_of_jax_by_its_autograd(dtype):
    """
    In 16 bits it rounds the sum of a softmax, and has (1 + t) (1 - t) for the slope of tanh.

    Whether a gradient's sums of float16 are in float32 depends on the processor.
    """
    jax = pytest.importorskip("jax")
    sums = "float16" if dtype == "float16" else "float32"
    for op in (act.softmax, act.log_softmax, act.mish, act.tanh, act.gelu, act.silu, act.selu):
        name = op.__name__
        f = jax.numpy.tanh if name == "tanh" else getattr(jax.nn, name)
        f = jax.jit(functools.partial(f, approximate=False) if name == "gelu" else f)
        vjp = jax.jit(lambda u, x, f=f: jax.vjp(f, x)[1](u)[0])
        for seed, scale in itertools.product(range(3), (1, 5)):
            rng = np.random.default_rng(seed)
            x, u = (np.asarray(k * rng.normal(size=(6, 300))).astype(dtype) for k in (scale, 1))
            forward = check.check_forward(f, op, x, framework="jax")
            assert forward, (name, scale, str(forward))
            verdict = check.check_vjp(vjp, op, u, x, framework="jax", accum_dtype=sums)
            assert verdict, (name, scale, str(verdict))
