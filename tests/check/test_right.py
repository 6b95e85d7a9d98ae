"""Candidates that are right: check_forward and check_vjp raise no false alarm over them."""

import functools
import operator

import ml_dtypes
import numpy as np
import peers
import pytest

from dlref import activations as act
from dlref import attention as att
from dlref import check, losses, neurons
from dlref import normalization as norm

DTYPES = ("float64", "float32", "float16", ml_dtypes.bfloat16)
SDPA = att.scaled_dot_product_attention


def sdpa(q, k, v, mask=None, bias=None, is_causal=False, q_offset=0, scale=None):
    if is_causal and q_offset:
        here = {"device": k.device}
        seen = peers.torch.arange(k.shape[-2], **here) <= (
            peers.torch.arange(q.shape[-2], **here)[:, None] + q_offset
        )
        mask = seen if mask is None else mask & seen
        is_causal = False
    if mask is not None and bias is not None:
        bias = peers.torch.where(mask, bias, -peers.torch.inf)
    return peers.torch.nn.functional.scaled_dot_product_attention(
        q,
        k,
        v,
        mask if bias is None else bias,
        is_causal=is_causal,
        scale=scale,
        enable_gqa=q.shape[-3] != k.shape[-3],
    )


def of_torch(name):
    """Return a function of PyTorch, which is looked up when it is called."""

    def f(*args, **options):
        return getattr(peers.torch.nn.functional, name)(*args, **options)

    return f


def cross_entropy(x, target, reduction="mean", **options):
    """Classes are the second axis in PyTorch: rows are joined."""
    rows = target.reshape(-1) if target.ndim < x.ndim else target.reshape(-1, x.shape[-1])
    out = peers.torch.nn.functional.cross_entropy(
        x.reshape(-1, x.shape[-1]), rows, reduction=reduction, **options
    )
    return out.reshape(x.shape[:-1]) if reduction == "none" else out


def method(name):
    return operator.methodcaller(name)


F = {
    act.softmax: lambda x, axis=-1: x.softmax(axis),
    act.log_softmax: lambda x, axis=-1: x.log_softmax(axis),
    act.logsumexp: lambda x, axis=-1: x.logsumexp(axis),
    act.gelu: lambda x, approximate="none": peers.torch.nn.functional.gelu(
        x, approximate=approximate
    ),
    act.silu: of_torch("silu"),
    act.sigmoid: method("sigmoid"),
    act.tanh: method("tanh"),
    act.relu: method("relu"),
    act.mish: of_torch("mish"),
    act.elu: of_torch("elu"),
    act.softplus: lambda x: peers.torch.nn.functional.softplus(x, threshold=60),
    neurons.linear: lambda x, w, b=None: peers.torch.nn.functional.linear(x, w, b),
    norm.layer_norm: lambda x, w=None, b=None: peers.torch.nn.functional.layer_norm(
        x, x.shape[-1:], w, b
    ),
    norm.rms_norm: lambda x, w=None, weight_offset=0.0: peers.torch.nn.functional.rms_norm(
        x, x.shape[-1:], w if w is None else w + weight_offset, 1e-6
    ),
    losses.squared_error: of_torch("mse_loss"),
    losses.huber: of_torch("huber_loss"),
    losses.binary_cross_entropy: of_torch("binary_cross_entropy_with_logits"),
    losses.cross_entropy: cross_entropy,
    SDPA: sdpa,
}
#: PyTorch's own errors: it keeps the mean of a row in bfloat16, adds the gradients of weight and
#: bias in 16 bits, and has no soft cap.
ROWS = "beyond tiles, shapes (2, 2053, 16) and (16,) and (16,)"
EXCLUDED = {
    ("layer_norm", "a mean of 100", "bfloat16"),
    *(("layer_norm", ROWS, dtype) for dtype in ("float16", "bfloat16")),
}


def backward(f):
    """Return the vjp of a function of tensors."""

    def vjp(dout, *inputs, **options):
        leaf = [
            a.requires_grad_() if peers.torch.is_tensor(a) and a.is_floating_point() else a
            for a in inputs
        ]
        if options.get("bias") is not None:
            leaf.append(options["bias"].requires_grad_())
        out = f(*leaf[: len(inputs)], **options)
        return peers.torch.autograd.grad(
            out, [a for a in leaf if a is not None and a.requires_grad], dout
        )

    return vjp


def cases(op, dtype):
    name = np.dtype(dtype).name
    for case in check.hard_inputs(op, dtype):
        if "softcap" in case.options or (op.__name__, case.name, name) in EXCLUDED:
            continue
        yield case


def judged(op, f, dtype, *, gradients):
    """Yield the verdict on each case."""
    for what, inputs, options in cases(op, dtype):
        yield what, check.check_forward(f, op, *inputs, framework="torch", **options)
        like = np.asarray(op(*inputs, **options))
        finite = [np.isfinite(np.asarray(a, float)).all() for a in (like, *inputs) if a is not None]
        if gradients and like.size and all(finite) and "weight" not in options:
            dout = np.random.default_rng(1).normal(size=like.shape).astype(like.dtype)
            given = (backward(f), op, dout, *inputs)
            yield f"{what} (vjp)", check.check_vjp(*given, framework="torch", **options)


#: Others like them are compiled, or judged, in a tenth of the time.
SLOW = {act.log_softmax, act.logsumexp, norm.layer_norm, att.scaled_dot_product_attention}
#: XLA compiles them for each shape and axis, and others like them too.
SLOW_IN_JAX = SLOW | {act.softmax, act.softplus, act.tanh, act.sigmoid, act.silu, neurons.linear}


def with_slow(ops, slow=SLOW):
    """Return functions as parameters of a test, the slow ones for each night."""
    return [
        pytest.param(op, id=op.__name__, marks=[pytest.mark.broad] * (op in slow)) for op in ops
    ]


@pytest.mark.parametrize("op", with_slow(F))
def test_pytorch_is_right(op):
    peers.torch  # noqa: B018 - skips where it is missing
    count = 0
    for dtype in DTYPES:
        for what, verdict in judged(op, F[op], dtype, gradients=True):
            assert verdict or verdict.inconclusive, (what, dtype, str(verdict))
            count += verdict.ok
    assert count >= 22  # of each of the nineteen: more than 400 together


def of_jax(jax):
    """Return JAX's own functions."""
    nn, np_ = jax.nn, jax.numpy
    return {
        act.softmax: lambda x, axis=-1: nn.softmax(x, axis),
        act.log_softmax: lambda x, axis=-1: nn.log_softmax(x, axis),
        act.logsumexp: lambda x, axis=-1: nn.logsumexp(x, axis),
        act.silu: nn.silu,
        act.sigmoid: nn.sigmoid,
        act.softplus: nn.softplus,
        act.tanh: np_.tanh,
        act.relu: nn.relu,
        act.gelu: lambda x, approximate="none": nn.gelu(x, approximate=approximate == "tanh"),
        neurons.linear: lambda x, w, b=None: x @ w.T + (0 if b is None else b),
    }


JAX_OPS = (
    *(act.softmax, act.log_softmax, act.logsumexp, act.silu, act.sigmoid, act.softplus),
    *(act.tanh, act.relu, act.gelu, neurons.linear),
)


@pytest.mark.parametrize("op", with_slow(JAX_OPS, SLOW_IN_JAX))
def test_jax_is_right(op):
    jax = pytest.importorskip("jax")
    # Eager, each operation would be compiled for each shape.
    jit = functools.partial(jax.jit, static_argnames=("axis", "approximate"))

    @jit
    def f(*inputs, **options):
        return of_jax(jax)[op](*inputs, **options)

    @jit
    def vjp(dout, *inputs, **options):
        leaves = [a for a in inputs if a is not None]
        return jax.vjp(lambda *a: f(*a, **options), *leaves)[1](dout)

    count = 0
    for dtype in DTYPES:
        for what, verdict in judged_in_jax(op, f, vjp, dtype):
            count += verdict.ok
            assert verdict or verdict.inconclusive, (what, dtype, str(verdict))
    assert count >= 28  # of each of the ten


def judged_in_jax(op, f, vjp, dtype):
    for what, inputs, options in check.hard_inputs(op, dtype):
        like = np.asarray(op(*inputs, **options))
        # JAX sums the exponentials of softmax, and its gradient, in the dtype of the input
        narrow = op is act.softmax and like.dtype.itemsize == 2
        kwargs = {"framework": "jax", **({"accum_dtype": like.dtype.name} if narrow else {})}
        yield what, check.check_forward(f, op, *inputs, **kwargs, **options)
        if like.size and all(np.isfinite(np.asarray(a, float)).all() for a in (like, inputs[0])):
            dout = np.random.default_rng(1).normal(size=like.shape).astype(like.dtype)
            given = (vjp, op, dout, *inputs)
            yield f"{what} (vjp)", check.check_vjp(*given, **kwargs, **options)


@pytest.mark.broad
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(
    "op",
    [
        act.softmax,
        act.gelu,
        act.tanhshrink,
        act.softsign,
        act.logsumexp,
        losses.binary_cross_entropy,
    ],
)
def test_dlref_in_its_dtype_is_right(op, dtype):
    vjp = getattr({"losses": losses}.get(op.__module__.split(".")[1], act), f"{op.__name__}_vjp")
    assert check.check_all(op, op, vjp=vjp, dtype=dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_norms_with_weights_are_right(rng, dtype):
    u, x, w = (rng.normal(size=shape).astype(dtype) for shape in ((5, 7), (5, 7), (7,)))
    assert check.check_forward(norm.rms_norm, norm.rms_norm, x, w, weight_offset=1.0)
    assert check.check_vjp(norm.rms_norm_vjp, norm.rms_norm, u, x, w)
    assert check.check_forward(norm.layer_norm, norm.layer_norm, x, w, w)


def naive_gradients(u, x, c):
    e = np.exp(x - x.max(-1, keepdims=True))
    p = e / e.sum(-1, keepdims=True)
    kept = (c != -100)[:, None]
    gap = p - np.eye(x.shape[-1], dtype=x.dtype)[np.maximum(c, 0)]
    return (u * gap * kept / x.dtype.type(kept.sum())).astype(x.dtype)


def test_plain_formulas_that_cancel_are_right():
    """The gradients 1 - t², s (1 - s), p - y in the dtype of their inputs."""
    for dtype in ("float32", "float64"):
        x = np.linspace(-12, 12, 49).astype(dtype)
        u = np.ones_like(x)
        assert check.check_vjp(lambda u, x: u * (1 - np.tanh(x) ** 2), act.tanh, u, x)
        assert check.check_jvp(lambda x, u: u * (1 - np.tanh(x) ** 2), act.tanh, x, u)
        logits = (8 * np.random.default_rng(0).normal(size=(6, 5))).astype(dtype)
        classes = np.array([0, 1, -100, 3, 4, 0])
        assert check.check_vjp(naive_gradients, losses.cross_entropy, 1.0, logits, classes)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize(
    "op",
    [act.log_softmax, act.softmax, act.logsumexp, act.gelu, act.tanh, norm.layer_norm],
    ids=lambda op: op.__name__,
)
def test_sixteen_thousand_elements_of_any_size_are_right(op, dtype):
    """Among so many, some are near the exact result by accident in the plain formula."""
    peers.torch  # noqa: B018 - skips where it is missing
    for seed in range(5):
        rng = np.random.default_rng(seed)
        x = (10.0 ** rng.uniform(-1, 1) * rng.normal(size=(64, 257))).astype(dtype)
        u = rng.normal(size=np.shape(op(x))).astype(dtype)
        forward = check.check_forward(F[op], op, x, framework="torch")
        assert forward, str(forward)
        reverse = check.check_vjp(backward(F[op]), op, u, x, framework="torch")
        assert reverse, str(reverse)
