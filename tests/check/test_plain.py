"""Formulas that kernels compute as they stand: they are dlref's, and their errors no mistakes."""

import ml_dtypes
import numpy as np
import pytest
from chapters import PLAIN
from scipy.special import erf, expit

import dlref
from dlref import activations as act
from dlref import attention, check, losses, positions, recurrent, transformer
from dlref._core.pytree import tree_leaves

SDPA = attention.scaled_dot_product_attention
R = np.random.default_rng(5)
Q, K, V, U = (R.normal(size=s) for s in ((2, 4, 5, 8), (2, 2, 7, 8), (2, 2, 7, 6), (2, 4, 5, 6)))
X, W, G = R.normal(size=(6, 8)), R.uniform(0.5, 2, 8), R.normal(size=(6, 8))
SOFT, CLASSES = R.dirichlet(np.ones(8), 6), np.array([0, 7, -100, 3, 3, 5])
SEEN = R.random((5, 7)) < 0.6
WIDE = attention.repeat_kv(K, 2), attention.repeat_kv(V, 2)

# op, inputs, options
CALLS = [
    (SDPA, (Q, K, V), {}),
    (SDPA, (Q, K, V), {"sink": R.normal(size=4), "is_causal": True, "q_offset": 2}),
    (SDPA, (Q, K, V), {"bias": R.normal(size=(4, 1, 7)), "softcap": 2.0, "scale": 0.3}),
    (SDPA, (Q, K, V), {"dropout": 2.0 * (R.random((2, 4, 5, 7)) < 0.5), "window": (2, 1)}),
    (SDPA, (Q, *WIDE), {"mask": SEEN & (np.arange(5) != 2)[:, None]}),
    (SDPA, (Q[0, 0], K[0, 0], V[0, 0]), {"bias": np.where(SEEN, 0.0, -np.inf)}),
    (SDPA, (Q, K[:, :, :0], V[:, :, :0]), {}),
    (losses.cross_entropy, (X, CLASSES), {"weight": W, "label_smoothing": 0.1}),
    (losses.cross_entropy, (X, CLASSES), {"reduction": "sum"}),
    (losses.cross_entropy, (X, SOFT), {"weight": W, "label_smoothing": 0.1}),
    (losses.cross_entropy, (X, SOFT), {"reduction": "none"}),
    (losses.binary_cross_entropy, (X, SOFT), {"pos_weight": W}),
    (losses.binary_cross_entropy, (X, SOFT), {"weight": W, "pos_weight": W, "reduction": "none"}),
    (attention.linear_attention, (Q, Q, U), {}),
    (attention.linear_attention, (Q, Q, U), {"feature_map": "exp", "is_causal": True}),
    (attention.linear_attention, (Q, Q, U), {"feature_map": "identity", "normalize": False}),
    (act.glu, (X, G), {}),
    (act.swiglu, (X, G), {"beta": 2.0}),
    (act.geglu, (X, G), {}),
]  # fmt: skip


@pytest.mark.parametrize(("op", "inputs", "options"), CALLS)
def test_a_formula_is_that_of_its_map(op, inputs, options):
    name = op.__name__
    want = op(*inputs, **options)
    np.testing.assert_allclose(PLAIN[name, "forward"](*inputs, **options), want, atol=1e-14)
    dout = R.normal(size=np.shape(want))
    vjp = getattr(getattr(dlref, op.__module__.split(".")[1]), f"{name}_vjp")
    grads = tree_leaves(PLAIN[name, "vjp"](dout, *inputs, **options))
    for got, grad in zip(grads, tree_leaves(vjp(dout, *inputs, **options)), strict=True):
        assert got.shape == grad.shape
        np.testing.assert_allclose(got, grad, atol=1e-13)


@pytest.mark.parametrize("options", [options for op, (q, *_), options in CALLS
                                    if op is SDPA and q.ndim == 4])  # fmt: skip
@pytest.mark.parametrize("given", [(True, True, True), (True, False, False), (False, True, True)])
def test_forward_mode_of_attention(options, given):
    primals = (Q, K, V) if "mask" not in options else (Q, *WIDE)
    pairs = zip(primals, given, strict=True)
    tangents = tuple(R.normal(size=a.shape) if has_tangent else None for a, has_tangent in pairs)
    want = attention.scaled_dot_product_attention_jvp(primals, tangents, **options)
    got = PLAIN["scaled_dot_product_attention", "jvp"](primals, tangents, **options)
    np.testing.assert_allclose(got, want, atol=1e-13)


WEIGHTS, ADDITIVE = attention.attention_weights, attention.additive_attention
ADDITIVE_INPUTS = tuple(
    R.normal(size=s) for s in ((2, 5, 7), (2, 6, 3), (2, 6, 4), (5, 7), (5, 3), 5)
)


@pytest.mark.parametrize(("op", "inputs", "options"), [
    (WEIGHTS, (Q, K), {}),
    (WEIGHTS, (Q, K), {"bias": R.normal(size=(4, 1, 7)), "softcap": 2.0, "is_causal": True}),
    (WEIGHTS, (Q, K), {"sink": R.normal(size=4), "window": (2, 1)}),
    (ADDITIVE, ADDITIVE_INPUTS, {}),
])  # fmt: skip
def test_gradients_of_weights_and_of_additive_attention(op, inputs, options):
    dout = R.normal(size=np.shape(op(*inputs, **options)))
    want = getattr(attention, f"{op.__name__}_vjp")(dout, *inputs, **options)
    got = PLAIN[op.__name__, "vjp"](dout, *inputs, **options)
    for g, w in zip(got, want, strict=True):
        np.testing.assert_allclose(g, w, atol=1e-13)


def additive_backward(u, q, k, v, w, r, c):
    t = np.tanh((q @ w.T)[..., :, None, :] + (k @ r.T)[..., None, :, :])
    p, dp = act.softmax(t @ c), u @ np.swapaxes(v, -1, -2)
    ds = p * (dp - (p * dp).sum(-1, keepdims=True))
    inner = ds[..., None] * c * (1 - t * t)
    dq, dk = inner.sum(-2), inner.sum(-3)
    return (
        *(dq @ w, dk @ r, np.swapaxes(p, -1, -2) @ u),
        *(np.einsum("nta,ntb->ab", dq, q), np.einsum("nsa,nsb->ab", dk, k)),
        np.einsum("nts,ntsa->a", ds, t),
    )


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_gradients_of_attention_that_saturates(dtype):
    for seed in range(4):
        rng = np.random.default_rng(seed)
        inputs = [rng.normal(size=a.shape).astype(dtype) for a in ADDITIVE_INPUTS]
        inputs[0] = 5 * inputs[0]
        u = rng.normal(size=(2, 5, 4)).astype(dtype)
        verdict = check.check_vjp(additive_backward, ADDITIVE, u, *inputs)
        assert verdict, verdict
        wrong = lambda *a: tuple(1.001 * g for g in additive_backward(*a))  # noqa: E731
        assert not check.check_vjp(wrong, ADDITIVE, u, *inputs)
    options = {"mask": np.arange(6) != 1}
    backward = lambda *a, mask: attention.additive_attention_vjp(*a, mask=mask)  # noqa: E731
    assert check.check_vjp(backward, ADDITIVE, u, *inputs, **options)


def softmax_jvp(x, dx):
    e = np.exp(x - x.max(-1, keepdims=True))
    p = e / e.sum(-1, keepdims=True)
    return p * (dx - (p * dx).sum(-1, keepdims=True))


def log_softmax_jvp(x, dx):
    y = x - x.max(-1, keepdims=True)
    y = y - np.log(np.exp(y).sum(-1, keepdims=True))
    return dx - (np.exp(y) * dx).sum(-1, keepdims=True)


def attention_jvp(primals, tangents):
    (q, k, v), (dq, dk, dv) = primals, tangents
    t = lambda a: np.swapaxes(a, -1, -2)  # noqa: E731
    scale = q.dtype.type(q.shape[-1] ** -0.5)
    s, ds = q @ t(k) * scale, (dq @ t(k) + q @ t(dk)) * scale
    e = np.exp(s - s.max(-1, keepdims=True))
    return softmax_jvp(s, ds) @ v + e / e.sum(-1, keepdims=True) @ dv


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_forward_mode_where_one_term_is_ahead(dtype):
    """The tangent minus its mean: nothing is left of them where one probability is nearly 1."""
    for seed in range(4):
        rng = np.random.default_rng(seed)
        x, dx = ((8 * rng.normal(size=(64, 17))).astype(dtype) for _ in range(2))
        for f, op in ((softmax_jvp, act.softmax), (log_softmax_jvp, act.log_softmax)):
            verdict = check.check_jvp(f, op, x, dx)
            assert verdict, verdict
            assert not check.check_jvp(lambda x, dx, f=f: f(x, dx) * (1 + 1e-3), op, x, dx)
        shapes = (4, 9, 8), (4, 11, 8), (4, 11, 6)
        primals, tangents = (tuple(rng.normal(size=s).astype(dtype) for s in shapes) for _ in "pt")
        primals = (6 * primals[0], *primals[1:])
        verdict = check.check_jvp(attention_jvp, SDPA, primals, tangents)
        assert verdict, verdict
        wrong = lambda p, t: attention_jvp(p, (t[0], 1.001 * t[1], t[2]))  # noqa: E731
        assert not check.check_jvp(wrong, SDPA, primals, tangents)


UNITS = [(act.elu, {"alpha": 0.7}), (act.celu, {"alpha": 1.7}), (act.selu, {}), (act.mish, {})]


@pytest.mark.parametrize(("op", "options"), UNITS)
def test_a_formula_of_one_input_is_that_of_its_map(op, options):
    name = op.__name__
    np.testing.assert_allclose(PLAIN[name, "forward"](X, **options), op(X, **options), atol=1e-14)
    for form in ("vjp", "jvp") if (name, "vjp") in PLAIN else ():
        got = PLAIN[name, form](*((G, X) if form == "vjp" else (X, G)), **options)
        np.testing.assert_allclose(got, getattr(act, f"{name}_{form}")(
            *((G, X) if form == "vjp" else (X, G)), **options), atol=1e-14)  # fmt: skip


@pytest.mark.parametrize("name", ["glu", "swiglu", "geglu"])
def test_forward_mode_of_gated_units(name):
    jvp = getattr(act, f"{name}_jvp")
    for tangents in ((G, X), (G, None), (None, X)):
        got = PLAIN[name, "jvp"]((X, G), tangents)
        np.testing.assert_allclose(got, jvp((X, G), tangents), atol=1e-14)


def test_an_option_told_with_its_default_is_no_option():
    """A mask of None masked all keys in the plain formula: whatever came back was allowed."""
    q, k, v = Q, *WIDE
    wrong = lambda u, q, k, v, mask: tuple(  # noqa: E731
        1.01 * g for g in attention.scaled_dot_product_attention_vjp(u, q, k, v)
    )
    assert not check.check_vjp(wrong, SDPA, U, q, k, v, mask=None)
    right = lambda q, k, v, mask, is_causal: SDPA(q, k, v, is_causal=is_causal)  # noqa: E731
    assert check.check_forward(right, SDPA, q, k, v, mask=None, is_causal=True)
    x, classes = np.float32(30 * R.normal(size=(64, 50))), R.integers(0, 50, 64)

    def backward(u, x, c, label_smoothing):
        e = np.exp(x - x.max(-1, keepdims=True))
        return u * (e / e.sum(-1, keepdims=True) - np.eye(50, dtype="f4")[c]) / np.float32(64)

    options = {"label_smoothing": 0.0}
    verdict = check.check_vjp(backward, losses.cross_entropy, np.float32(1), x, classes, **options)
    assert verdict, verdict


def gelu(x):
    return x * (1 + erf(x * np.sqrt(x.dtype.type(0.5)))) / 2


def slope(x):
    normal = np.exp(-x * x / 2) * x.dtype.type((2 * np.pi) ** -0.5)
    return (1 + erf(x * np.sqrt(x.dtype.type(0.5)))) / 2 + x * normal


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", ml_dtypes.bfloat16])
def test_gated_units_with_large_gates(dtype):
    """As right as gelu and the sigmoid are alone."""
    work = np.float64 if dtype == "float64" else np.float32
    u, x, g = (np.asarray(10 * R.normal(size=(16, 64))).astype(dtype) for _ in range(3))
    wide = lambda f: lambda *a: tuple(y.astype(dtype) for y in f(*(b.astype(work) for b in a)))  # noqa: E731
    backward = wide(lambda u, x, g: (u * gelu(g), u * x * slope(g)))
    assert check.check_forward(wide(lambda x, g: (x * gelu(g),)), act.geglu, x, g)
    assert check.check_vjp(backward, act.geglu, u, x, g)
    backward = wide(lambda u, x, g: (u * expit(g), u * x * (expit(g) * (1 - expit(g)))))
    assert check.check_vjp(backward, act.glu, u, x, g)


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", ml_dtypes.bfloat16])
def test_exponential_units_whose_gradient_is_by_the_output(dtype):
    """As their papers have it: the slope of alpha (exp(x) - 1) is y + alpha."""
    work = np.float64 if dtype == "float64" else np.float32
    u, x = (np.asarray(8 * R.normal(size=(16, 64))).astype(dtype) for _ in range(2))

    def elu(x, alpha):
        wide = x.astype(work)
        below = work(alpha) * (np.exp(np.minimum(wide, 0)) - 1)
        return np.where(wide > 0, wide, below).astype(x.dtype)

    def backward(u, x, alpha):
        wide = elu(x, alpha).astype(work) + work(alpha)
        return (u.astype(work) * np.where(x > 0, 1, wide)).astype(x.dtype)

    assert check.check_forward(elu, act.elu, x, alpha=0.7)
    assert check.check_vjp(backward, act.elu, u, x, alpha=0.7)
    wrong = lambda u, x, alpha: backward(u, x, 1.0)  # noqa: E731
    assert not check.check_vjp(wrong, act.elu, u, x, alpha=0.7)


def test_a_mish_of_small_numbers():
    """Far to the left softplus is below the normal numbers of float16; it is multiplied by x."""
    x = np.linspace(-17, 8, 401).astype("f2")
    assert check.check_forward(lambda x: x * np.tanh(np.log1p(np.exp(x))), act.mish, x)


def test_the_gradient_of_a_target_with_weighed_positives():
    """By the definition, as PyTorch has it: the difference of two softplus."""
    softplus = lambda x: np.maximum(x, 0) + np.log1p(np.exp(-abs(x)))  # noqa: E731

    def backward(u, x, y, pos_weight):
        slope = (1 + (pos_weight - 1) * y) / (1 + np.exp(-x)) - pos_weight * y
        return u * slope / x.size, u * (pos_weight * softplus(-x) - softplus(x)) / x.size

    x, y = np.float32(R.normal(size=(64, 10)) / 20), np.float32(R.random((64, 10)))
    weights = np.float32(R.uniform(0.9, 1.1, 10))
    op = losses.binary_cross_entropy
    verdict = check.check_vjp(backward, op, np.float32(1), x, y, pos_weight=weights)
    assert verdict, verdict


def test_soft_caps_that_saturate():
    """The tanh of libraries is a few roundings off: 1 - t² is small where t is near 1."""
    off = lambda x: np.tanh(x) * (1 - 3 * np.finfo(x.dtype).eps)  # noqa: E731
    cap = 2.0

    def backward(u, q, k, v, softcap):
        t = off(q @ np.swapaxes(k, -1, -2) * q.shape[-1] ** -0.5 / softcap)
        p = act.softmax(softcap * t)
        dp = u @ np.swapaxes(v, -1, -2)
        ds = p * (dp - (p * dp).sum(-1, keepdims=True)) * (1 - t * t) * q.shape[-1] ** -0.5
        return ds @ k, np.swapaxes(ds, -1, -2) @ q, np.swapaxes(p, -1, -2) @ u

    verdict = check.check_vjp(backward, SDPA, U, 8 * Q, *WIDE, softcap=cap)
    assert verdict, verdict


def test_a_binary_cross_entropy_that_cancels():
    x, y = np.float32(10 * R.normal(size=(64, 10))), np.float32(R.random((64, 10)))
    y[::2] = np.round(y[::2])
    for f in (
        lambda x, y: np.maximum(x, 0) - x * y + np.log1p(np.exp(-abs(x))),
        lambda x, y: (1 - y) * x + np.log1p(np.exp(-abs(x))) + np.maximum(-x, 0),
    ):
        options = {"reduction": "none"}
        wrapped = lambda x, y, reduction, f=f: f(x, y)  # noqa: E731
        verdict = check.check_forward(wrapped, losses.binary_cross_entropy, x, y, **options)
        assert verdict, verdict


def test_targets_that_are_distributions():
    f = lambda x, y: -(y * (x - np.log(np.exp(x).sum(-1, keepdims=True)))).sum(-1).mean()  # noqa: E731
    assert check.check_forward(f, losses.cross_entropy, X, SOFT)
    assert not check.check_forward(lambda x, y: 1.001 * f(x, y), losses.cross_entropy, X, SOFT)


def test_a_multiple_of_a_map_of_nested_parameters():
    w = R.normal(size=(8, 8))
    params = transformer.FeedForwardParams(w, W, w.T, W)
    op = transformer.feed_forward
    verdict = check.check_forward(lambda *a: 1.37 * op(*a), op, X, params)
    assert verdict.cause == "it is the exact result times 1.37"


@pytest.mark.parametrize("dtype", ["float32", "float16", ml_dtypes.bfloat16])
def test_differences_of_two_products(dtype):
    """As rotations have them: each moves with its inputs, whatever the signs of their roundings."""

    def rotated(x, c, s):
        a, b = x[..., ::2], x[..., 1::2]
        return np.stack([a * c - b * s, a * s + b * c], -1).reshape(x.shape)

    shapes = [(2, 4, 64, 32), (64, 16), (64, 16)]
    for seed in range(8):
        rng = np.random.default_rng(seed)
        inputs = check.random_inputs(positions.apply_rope, shapes, dtype, rng)
        verdict = check.check_forward(rotated, positions.apply_rope, *inputs)
        assert verdict, verdict


def test_options_that_no_plain_formula_has():
    """What is measured near the inputs is allowed alone."""
    options = {"z_loss": 0.01}
    for factor, right in ((1.0, True), (1.001, False)):
        f = lambda x, c, z_loss, by=factor: by * losses.cross_entropy(x, c, z_loss=z_loss)  # noqa: E731
        assert bool(check.check_forward(f, losses.cross_entropy, X, CLASSES, **options)) == right
        g = lambda *a, by=factor, **o: tuple(by * y for y in SDPA(*a, **o))  # noqa: E731
        assert bool(check.check_forward(g, SDPA, Q, K, V, return_lse=True)) == right


def gru_backward(u, x, h, w, v, b, c):
    """In float32, the gates rounded to the dtype between the two passes."""
    dtype = x.dtype
    kept = lambda a: a.astype(dtype).astype("f4")  # noqa: E731
    u, x, h, w, v, b, c = (a.astype("f4") for a in (u, x, h, w, v, b, c))
    (ri, zi, ni), (rh, zh, nh) = np.split(x @ w.T + b, 3, -1), np.split(h @ v.T + c, 3, -1)
    r, z = kept(expit(ri + rh)), kept(expit(zi + zh))
    n = kept(np.tanh(ni + r * nh))
    dn = u * (1 - z) * (1 - n * n)
    dr, dz = dn * nh * r * (1 - r), u * (h - n) * z * (1 - z)
    di, dh = np.concatenate([dr, dz, dn], -1), np.concatenate([dr, dz, dn * r], -1)
    grads = di @ w, dh @ v + u * z, di.T @ x, dh.T @ h, di.sum(0), dh.sum(0)
    return tuple(g.astype(dtype) for g in grads)


@pytest.mark.parametrize("dtype", ["float32", "float16", ml_dtypes.bfloat16])
def test_gates_of_a_gru_that_saturate(dtype):
    op, vjp = recurrent.gru_cell, recurrent.gru_cell_vjp
    shapes = (3, 6), (3, 5), (3, 6), (18, 5), (18, 6), (18,), (18,)
    for seed in range(8):
        rng = np.random.default_rng(seed)
        u, x, *rest = (rng.normal(size=s) / 6 ** (len(s) == 2) for s in shapes)
        u, x, *rest = ((a * by).astype(dtype) for a, by in zip(
            (u, x, *rest), (6, 36, 6, 3, 3, 0.4, 0.4), strict=True))  # fmt: skip
        verdict = check.check_vjp(gru_backward, op, u, x, *rest)
        assert verdict, verdict
        wrong = lambda *a: (2 * gru_backward(*a)[0], *gru_backward(*a)[1:])  # noqa: E731
        assert not check.check_vjp(wrong, op, u, x, *rest)
    for without in ({"reset_after": False}, {}):
        given = (*rest[:3], rest[3], None) if not without else rest
        assert check.check_vjp(vjp, op, u, x, *given, **without)


def test_gradients_of_a_gru():
    shapes = (3, 6), (3, 5), (3, 6), (18, 5), (18, 6), (18,), (18,)
    inputs = [R.normal(size=s) for s in shapes]
    pairs = zip(PLAIN["gru_cell", "vjp"](*inputs), recurrent.gru_cell_vjp(*inputs), strict=True)
    for got, want in pairs:
        np.testing.assert_allclose(got, want, atol=1e-13)


def of_features(dout, q, k, v, **_):
    """Return the gradient of causal linear attention from all weights at a time."""

    def map_of(x):
        return np.where(x > 0, x + 1, np.exp(np.minimum(x, 0)))

    a, b = map_of(q), map_of(k)
    weights = np.tril(a @ b.T)
    total = weights.sum(-1, keepdims=True)
    out = weights @ v / total
    ds = np.tril((dout @ v.T - (dout * out).sum(-1, keepdims=True)) / total)
    slopes = (np.where(x > 0, 1, y).astype(x.dtype) for x, y in ((q, a), (k, b)))
    return [f * g for f, g in zip(slopes, (ds @ b, ds.T @ a), strict=True)] + [
        (weights / total).T @ dout
    ]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_linear_attention_whose_first_gradient_cancels(dtype):
    """The first query sees one key: its gradient is 0, and rounding errors in a plain kernel."""
    rng = np.random.default_rng(0)
    for _ in range(20):
        q, k, v, u = (rng.normal(size=(67, n)).astype(dtype) for n in (4, 4, 3, 3))
        assert check.check_vjp(of_features, attention.linear_attention, u, q, k, v, is_causal=True)
    wrong = lambda *a, **_: [1.001 * g for g in of_features(*a)]  # noqa: E731
    verdict = check.check_vjp(wrong, attention.linear_attention, u, q, k, v, is_causal=True)
    assert not any(output.ok for output in verdict.outputs)


def of_another_tanh(dout, q, k, v, w, u, vec):
    """Return the gradients of additive attention, with the tanh as a quotient of exponentials."""
    x = (q @ w.T)[:, None] + (k @ u.T)[None]
    e = np.exp(-2 * abs(x))
    t = np.sign(x) * ((1 - e) / (1 + e))
    s = t @ vec
    p = np.exp(s - s.max(-1, keepdims=True))
    p /= p.sum(-1, keepdims=True)
    dp = dout @ v.T
    ds = p * (dp - (p * dp).sum(-1, keepdims=True))
    inner = ds[..., None] * vec * (1 - t * t)
    dq, dk = inner.sum(1), inner.sum(0)
    return dq @ w, dk @ u, p.T @ dout, dq.T @ q, dk.T @ k, np.einsum("ij,ijc", ds, t)


@pytest.mark.parametrize("scale", [1, 3, 10])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_additive_attention_whose_tanhs_saturate_each_in_its_way(dtype, scale):
    shapes = (5, 7), (6, 3), (6, 4), (5, 7), (5, 3), (5,)
    for seed in range(6):
        rng = np.random.default_rng(seed)
        inputs = [(scale * rng.normal(size=shape)).astype(dtype) for shape in shapes]
        u = rng.normal(size=(5, 4)).astype(dtype)
        verdict = check.check_vjp(of_another_tanh, ADDITIVE, u, *inputs)
        assert verdict, (seed, str(verdict))
        wrong = check.check_vjp(lambda *a: [1.01 * g for g in of_another_tanh(*a)],
                                ADDITIVE, u, *inputs)  # fmt: skip
        assert not wrong


@pytest.mark.parametrize("op", [act.glu, act.swiglu, act.geglu])
def test_a_gate_that_is_shared_by_rows_gets_one_gradient(op):
    vjp = getattr(act, f"{op.__name__}_vjp")
    assert check.check_vjp(vjp, op, X, X, G[0])
    assert not check.check_vjp(lambda *a: (vjp(*a)[0], vjp(*a)[1] / len(X)), op, X, X, G[0])
