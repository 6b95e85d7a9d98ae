"""Public reports of wrong kernels, each written in NumPy as its text describes the mistake."""

import functools

import ml_dtypes
import numpy as np
import pytest

from dlref import activations as act
from dlref import attention as att
from dlref import check, losses, neurons, positions, recurrent, training, transformer
from dlref import normalization as norm
from dlref.formulas.activations import softmax

SDPA, SDPA_VJP = att.scaled_dot_product_attention, att.scaled_dot_product_attention_vjp
R = np.random.default_rng(38)
Q, K, V = (R.normal(size=s) for s in ((2, 4, 70, 8), (2, 2, 70, 8), (2, 2, 70, 8)))
TREE, GRADS = (tuple(R.normal(size=s) for s in ((3, 4), (3,))) for _ in "pg")
LSTM = [R.normal(size=s) / 2 for s in ((2, 5, 3), (2, 4), (2, 4), (16, 3), (16, 4), (16,), (16,))]
LOGITS, CLASSES = R.normal(size=(6, 11)), np.array([0, -100, 2, 3, -100, 1])


def case(*inputs, dtype="float64", **options):
    """Return the case that a report is about."""
    return {"cases": [check.TestCase("the report's", inputs, options)], "dtype": dtype}


def contiguous(a):
    """Read memory as a kernel does that is given a pointer and a shape."""
    strides = tuple(a.itemsize * int(np.prod(a.shape[i + 1 :])) for i in range(a.ndim))
    low, high = np.lib.array_utils.byte_bounds(a)
    whole = low == a.__array_interface__["data"][0] and high - low >= a.nbytes
    return np.lib.stride_tricks.as_strided(a, a.shape, strides) if whole else a


def eps_outside(x, weight=None, bias=None, eps=1e-5):
    y = (x - x.mean(-1, keepdims=True)) / (x.std(-1, keepdims=True) + x.dtype.type(eps))
    y = y if weight is None else y * weight
    return y if bias is None else y + bias


def smoothing_of_ignored(x, c, label_smoothing):
    logs = np.log(softmax(x))
    hard = -logs[np.arange(len(c)), np.maximum(c, 0)][c >= 0].mean()
    return (1 - label_smoothing) * hard - label_smoothing * logs.mean(-1).sum() / (c >= 0).sum()


def no_weight_gradient(dout, x, weight=None, **options):
    grads = norm.rms_norm_vjp(dout, x, weight, **options)
    return grads if weight is None else (grads[0], None)


def two_axes_backward(dout, x, weight=None, bias=None, eps=1e-5):
    """M = x.shape[0], N = x.numel() / M: rows are joined where there are three axes."""
    rows, n = x.reshape(len(x), -1), x.size // len(x)
    u = (dout if weight is None else dout * weight).reshape(rows.shape)
    c = rows - rows.mean(-1, keepdims=True)
    s = 1 / np.sqrt((c * c).mean(-1, keepdims=True) + rows.dtype.type(eps))
    y = c * s
    dx = s * (u - u.sum(-1, keepdims=True) / n - y * (u * y).sum(-1, keepdims=True) / n)
    rest = norm.layer_norm_vjp(dout, x, weight, bias, eps=eps)
    rest = rest[1:] if isinstance(rest, tuple) else ()
    return (dx.reshape(x.shape).astype(x.dtype), *rest) if rest else dx.reshape(x.shape)


def first_row_of_a_batch(x, cos, sin, **options):
    """Rotate batch row 0 alone where there is one token."""
    out = positions.apply_rope(x, cos, sin, **options)
    if x.ndim > 2 and x.shape[-2] == 1:
        out.reshape(-1, x.shape[-1])[1:] = 0
    return out


def biased(x, mean, var, weight=None, bias=None, *, momentum=0.1):
    y, new, _ = norm.batch_norm_train(x, mean, var, weight, bias, momentum=momentum)
    return y, new, (1 - momentum) * var + momentum * x.reshape(-1, x.shape[-1]).var(0)


def zero_by_zero(dout, x):
    """Form the slope from the output y, as y / x + s (1 - s) x."""
    with np.errstate(all="ignore"):
        s = 1 / (1 + np.exp(-x))
        return dout * (x * s / x + s * (1 - s) * x)


def slope_zero_at_zero(vjp, dout, x, **options):
    return np.where(x == 0, 0, vjp(dout, x, **options))


def in_the_root(p, g, state, *, learning_rate, eps):
    _, new = training.rmsprop_step(p, g, state, learning_rate=learning_rate, eps=eps)
    step = (learning_rate * a / np.sqrt(v + eps) for a, v in zip(g, new.square, strict=True))
    return tuple(a - b for a, b in zip(p, step, strict=True)), new


def last_row_stays(dout, table, ids, **_):
    out = np.zeros_like(table)
    out[ids.ravel()] = dout.reshape(-1, table.shape[-1])
    return out


def tiled(q, k, v):
    n = q.shape[1] // k.shape[1]
    return SDPA(q, np.tile(k, (1, n, 1, 1)), np.tile(v, (1, n, 1, 1)))


def within(x, top_p=None):
    p = softmax(x)
    order = np.argsort(-p, -1)
    rows = np.take_along_axis(p, order, -1)
    kept = np.cumsum(rows, -1) <= top_p
    kept[:, 0] = True
    out = np.zeros_like(p)
    np.put_along_axis(out, order, rows * kept, -1)
    return out / out.sum(-1, keepdims=True)


def one_more(x, top_k):
    return transformer.next_token_probabilities(x, top_k=top_k + 1)


def decayed_alone(p, g, state, *, learning_rate, weight_decay):
    moved, new = training.adamw_step(p, g, state, learning_rate=learning_rate, weight_decay=0.0)
    return tuple(a - weight_decay * b for a, b in zip(moved, p, strict=True)), new


def a_step_later(p, g, state, *, learning_rate, betas=(0.9, 0.999), eps=1e-8):
    _, new = training.adam_step(p, g, state, learning_rate=learning_rate, betas=betas, eps=eps)
    b, c = (1 - beta ** (new.step + 1) for beta in betas)
    moments = zip(p, new.mean, new.square, strict=True)
    return tuple(a - learning_rate * m / b / ((v / c) ** 0.5 + eps) for a, m, v in moments), new


def capped_late(q, k, v, softcap, is_causal):
    s = q @ np.swapaxes(k, -1, -2) * q.shape[-1] ** -0.5
    s = np.where(np.tri(*s.shape[-2:], dtype=bool), s, -1e9)
    return softmax(softcap * np.tanh(s / softcap)) @ v


def without_slope_of_the_cap(dout, q, k, v, softcap):
    s = q @ np.swapaxes(k, -1, -2) * q.shape[-1] ** -0.5
    p = softmax(softcap * np.tanh(s / softcap))
    dp = dout @ np.swapaxes(v, -1, -2)
    ds = p * (dp - (p * dp).sum(-1, keepdims=True)) * q.shape[-1] ** -0.5
    return ds @ k, np.swapaxes(ds, -1, -2) @ q, np.swapaxes(p, -1, -2) @ dout


def last_keys_left_out(dout, q, k, v):
    dq, dk, dv = SDPA_VJP(dout, q, k, v)
    dv[..., k.shape[-2] // 64 * 64 :, :] = 0
    return dq, dk, dv


def exchanged(dout, q, k, v):
    dq, dk, dv = SDPA_VJP(dout, q, k, v)
    return dk, dq, dv


def of_one_head(dout, q, k, v):
    """Write dk and dv of each query head to the same place, without a sum."""
    n = q.shape[1] // k.shape[1]
    dq, dk, dv = SDPA_VJP(dout, q, np.repeat(k, n, 1), np.repeat(v, n, 1))
    return dq, dk[:, n - 1 :: n], dv[:, n - 1 :: n]


def in_16_bits(dout, x):
    """Compute 1 - t² in the dtype, where it cancels."""
    t = np.tanh(x)
    return dout * (1 - t * t)


def one_dout(dout, x, c, reduction="mean", **options):
    scalar = dout.flat[0] if reduction == "none" else dout
    mean = losses.cross_entropy_vjp(
        np.full_like(dout, scalar), x, c, reduction=reduction, **options
    )
    return mean.astype(x.dtype)


def gates_in_another_order(x, h, c, *arrays):
    """Read the rows of weights as i, f, o, g."""
    return recurrent.lstm(x, h, c, *(np.concatenate([np.split(a, 4)[i] for i in (0, 1, 3, 2)])
                                     for a in arrays))  # fmt: skip


def strided(op, places):
    def kernel(*inputs, **options):
        read = [contiguous(a) if i in places and a is not None else a for i, a in enumerate(inputs)]
        return op(*read, **options)

    return kernel


STEPS = {"learning_rate": 0.1}
P = transformer.next_token_probabilities
HEADS = Q[:, :2], K, V
WINDOW = functools.partial(SDPA, window=(4, 0))
#: What each report is about: function, form, kernel, how it is put to check_all, what is said.
REPORTS = {
    "tracel-ai/burn#2185": (
        norm.layer_norm, "forward", eps_outside, {}, "sqrt(var) + eps stands"),
    "pytorch/pytorch#73205": (
        losses.cross_entropy, "forward", smoothing_of_ignored,
        case(LOGITS, CLASSES, label_smoothing=0.2), "smoothed labels of rows that are ignored"),
    "unslothai/unsloth#4533": (
        norm.rms_norm, "vjp", no_weight_gradient, {}, "gradient of one operand is missing"),
    "flagos-ai/FlagGems#5392": (
        norm.layer_norm, "vjp", two_axes_backward, case(
            R.normal(size=(3, 5, 8)), np.ones(8), np.zeros(8)), "rows are joined"),
    "flagos-ai/FlagGems#1084": (
        norm.rms_norm, "vjp", strided(norm.rms_norm_vjp, (0,)), {}, "strides of dout are ignored"),
    "huggingface/transformers#39408": (
        SDPA, "forward", lambda q, k, v, window: SDPA(q, k, v, window=(window[0] + 1, 0)),
        case(*HEADS, window=(4, 0)), "one key too long"),
    "NVIDIA/TransformerEngine#3528": (
        SDPA, "forward", lambda q, k, v, is_causal: np.zeros_like(q), case(*HEADS, is_causal=True),
        "it is zero"),
    "ml-explore/mlx#3494": (positions.apply_rope, "forward", first_row_of_a_batch, {}, "all zero"),
    "ml-explore/mlx#343": (
        positions.alibi_slopes, "forward", lambda n: 2.0 ** (-8 * np.arange(1, n + 1) / n),
        case(12), "rule is paper"),
    "ml-explore/mlx#3817": (
        norm.batch_norm_train, "forward", biased,
        case(R.normal(size=(6, 3)), np.zeros(3), np.ones(3)), "M stands where M - 1 is due"),
    "huggingface/candle#3569": (
        act.softmax, "vjp", lambda dout, x, axis=-1: None, {},
        "gradient of one operand is missing"),
    "huggingface/candle#2083": (act.silu, "vjp", zero_by_zero, {}, "a division by zero"),
    "jax-ml/jax#2140": (
        act.log_sigmoid, "vjp", functools.partial(slope_zero_at_zero, act.log_sigmoid_vjp),
        {}, "only where x is 0"),
    "jax-ml/jax#2107": (
        act.softplus, "vjp", functools.partial(slope_zero_at_zero, act.softplus_vjp), {},
        "only where x is 0"),
    "jax-ml/jax#1427": (
        training.rmsprop_step, "forward", in_the_root, case(TREE, GRADS, None, eps=0.1, **STEPS),
        "sqrt(s + eps) stands where sqrt(s) + eps is due"),
    "tenstorrent/tt-metal#6232": (
        neurons.embedding, "vjp", last_row_stays, {}, "rows of repeated ids are overwritten"),
    "tenstorrent/tt-metal#35885": (
        act.tanh, "vjp", in_16_bits, {"dtype": "bfloat16", "strict": True}, "bfloat16"),
    "ekzhang/jax-js#180": (SDPA, "forward", tiled, case(Q, K, V), "the key heads are tiled"),
    "rasbt/reasoning-from-scratch#164": (
        P, "forward", within, case(LOGITS, top_p=0.6),
        "cumsum(falling, axis=-1) stands where cumsum(falling, axis=-1) - falling is due"),
    "kingoflolz/mesh-transformer-jax#164": (
        P, "forward", one_more, case(LOGITS, top_k=3), "one token more than top_k"),
    "tensorflow/addons#2282": (
        training.adamw_step, "forward", decayed_alone,
        case(TREE, GRADS, None, weight_decay=0.05, **STEPS), "weight_decay stands where"),
    "tracel-ai/burn#630": (
        training.adam_step, "forward", a_step_later, case(TREE, GRADS, None, **STEPS),
        "corrected as if a step later"),
    "Dao-AILab/flash-attention#1025": (
        SDPA, "forward", capped_late, case(*HEADS, softcap=2.0, is_causal=True), "after the mask"),
    "Dao-AILab/flash-attention#1033": (
        SDPA, "vjp", without_slope_of_the_cap, case(*HEADS, softcap=2.0), "lacks the slope of the"),
    "flagos-ai/FlagGems#898": (
        SDPA, "vjp", last_keys_left_out, case(*HEADS), "the wrong elements are all zero"),
    "ooples/AiDotNet.Tensors#49": (SDPA, "vjp", exchanged, case(*HEADS), "it equals output 1"),
    "marin-community/levanter#449": (
        SDPA, "vjp", of_one_head, case(Q, K, V), "of the last query head of each group alone"),
    "linkedin/Liger-Kernel#968": (
        losses.cross_entropy, "vjp", one_dout, {}, "the first number of dout stands for all"),
    "linkedin/Liger-Kernel#507": (
        losses.cross_entropy, "forward", lambda x, c, **_: np.zeros((), x.dtype),
        case(LOGITS, CLASSES), "it is zero"),
    "pytorch/pytorch#124834": (
        act.elu, "forward", strided(act.elu, (0,)), {}, "the strides of x are ignored"),
    "pytorch/pytorch#162779": (
        neurons.linear, "forward", strided(neurons.linear, (1,)), {}, "strides of weight are"),
    "apple/coremltools#93": (
        recurrent.lstm, "forward", gates_in_another_order, case(*LSTM), "the order ifog"),
}  # fmt: skip


def report_on(row):
    op, form, kernel, options, _ = row
    if form == "forward":
        return check.check_all(kernel, op, **options)
    return check.check_all(None, op, vjp=kernel, **options)


@pytest.mark.parametrize("name", REPORTS)
def test_a_public_report(name):
    with np.errstate(all="ignore"):
        report = report_on(REPORTS[name])
    assert not report
    assert report.failed
    message = REPORTS[name][-1]
    causes = [*report.causes]
    assert causes == [] if not message else message in causes[0], causes


def test_a_gradient_that_is_lost_is_found_if_each_element_counts():
    """jax-ml/jax#40384, here in float32: log-softmax has the slope 1 - p, 0 where p is rounded."""
    x, u = np.float32([20.0, 0.0]), np.float32([1.0, 0.0])
    lost = lambda u, x: u - softmax(x) * u.sum()  # noqa: E731
    assert lost(u, x)[0] == 0
    assert not check.check_vjp(lost, act.log_softmax, u, x, strict=True)


def test_16_bits_are_no_excuse_if_each_element_counts():
    """tenstorrent/tt-metal#35885: by default, a formula that most kernels have is granted."""
    options = {"vjp": in_16_bits, "dtype": ml_dtypes.bfloat16}
    assert check.check_all(None, act.tanh, **options)
    assert not check.check_all(None, act.tanh, strict=True, **options)
