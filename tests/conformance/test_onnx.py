"""
The test cases that ONNX publishes for its operators, run through dlref.

An adapter translates an operator's conventions (names, axes, defaults) and nothing more.  Each
case with a single node of a listed operator must pass; the cases that spell an operator out
as others ("expanded") test those.  What cannot pass is listed with the reason.
"""

import csv
import functools
import warnings
from pathlib import Path

import numpy as np
import pytest

import dlref
from dlref import (
    activations,
    attention,
    interop,
    losses,
    neurons,
    normalization,
    positions,
    recurrent,
    training,
)
from dlref.training import AdagradState, AdamState, MomentumState

RTOL, ATOL = 2e-6, 1e-6  # the cases are in float32, dlref computes them in float64

#: Where the expected values were rounded to fewer digits than that.
HALF_AN_ULP = {"float16": 2.0**-11, "bfloat16": 2.0**-8}

#: Operators whose narrow cases were rounded at every step, and how many such errors to allow.
ROUNDED_OFTEN = {"Attention": 8, "FlexAttention": 8}

#: Cases that are not expected to pass, and why.
REASONS = {
    f"test_flexattention_{name}": "scores changed by a graph of the node's own"
    for name in ("score_mod", "prob_mod", "causal_mask", "soft_cap", "relative_positional")
}
#: Operators whose cases are not run, by the reason.
LEFT_OUT = {
    "NumPy has the map; dlref has its Jacobian, vjp and jvp": (
        "Add Div MatMul Max Mean Min Mul Pow ReduceL2 ReduceMax ReduceMean ReduceMin "
        "ReduceProd ReduceSum Sub Sum"
    ),
    "elementary functions and sums of NumPy": (
        "Abs Acos Acosh Asin Asinh Atan Atanh Ceil Cos Cosh CumProd CumSum Det Einsum Erf Exp "
        "Floor Log Mod Neg Reciprocal ReduceL1 ReduceLogSum ReduceSumSquare Round Sign Sin "
        "Sinh Sqrt Tan"
    ),
    "comparisons, logic, bits": (
        "And ArgMax ArgMin BitCast BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor Equal "
        "Greater GreaterOrEqual IsInf IsNaN Less LessOrEqual NonZero Not Or Where Xor"
    ),
    "numbers moved, not computed": (
        "CenterCropPad Clip Compress Concat Constant ConstantOfShape DepthToSpace Expand "
        "EyeLike Flatten Gather GatherElements GatherND Identity OneHot Pad Range Reshape "
        "ReverseSequence Scatter ScatterElements ScatterND Shape Size Slice SpaceToDepth "
        "Split Squeeze TensorScatter Tile TopK Transpose Trilu Unique Unsqueeze"
    ),
    "dlref has the map, and no adapter translates it yet": (
        "AveragePool Conv ConvTranspose GlobalAveragePool MaxPool"
    ),
    "dlref quantizes, but returns other parts": (
        "DequantizeLinear DynamicQuantizeLinear QuantizeLinear"
    ),
    "images, other convolutions and pooling": (
        "AffineGrid CausalConvWithState Col2Im ConvInteger DeformConv GlobalMaxPool GridSample "
        "ImageDecoder LRN LpPool MaxUnpool NonMaxSuppression QLinearConv Resize RoiAlign Upsample"
    ),
    "integers in place of reals": "Cast CastLike MatMulInteger QLinearMatMul",
    "signals": "BlackmanWindow DFT HammingWindow HannWindow MelWeightMatrix STFT",
    "texts, trees, sequences, control flow": (
        "ArrayFeatureExtractor Binarizer If LabelEncoder Loop OptionalGetElement "
        "OptionalHasElement RegexFullMatch Scan SequenceInsert SequenceMap SplitToSequence "
        "StringConcat StringNormalizer StringSplit TfIdfVectorizer TreeEnsemble"
    ),
    "random numbers; dlref takes masks of dropout as inputs": "Bernoulli Dropout",
    "not used in the networks of dlref": "LpNormalization MeanVarianceNormalization Shrink",
}
RESULTS = Path(dlref.__file__).parents[1] / "docs" / "results"

RECURRENT = {"RNN": recurrent.rnn, "LSTM": recurrent.lstm, "GRU": recurrent.gru}


@functools.cache
def cases():
    """Return the published cases by operator."""
    onnx = pytest.importorskip("onnx", reason="see the dependency group 'test'")
    from onnx.backend.test.case.node import collect_testcases  # noqa: PLC0415

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it computes what it expects, with overflows
        found = collect_testcases(None)
    by_operator: dict = {}
    for case in found:
        if case.model is None or len(case.model.graph.node) != 1:
            continue
        (node,) = case.model.graph.node
        values = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
        values = {k: v.decode() if isinstance(v, bytes) else v for k, v in values.items()}
        if node.op_type in RECURRENT:
            values["outputs"] = list(node.output)  # of which the first is often left out
        if node.op_type in ("Attention", "LinearAttention"):
            values |= {"given": [bool(n) for n in node.input], "outputs": list(node.output)}
        by_operator.setdefault(node.op_type, []).append((case.name, values, case.data_sets))
    return by_operator


def elementwise(f, **names):
    """Adapt a function of x; `names` says what ONNX calls an option, and its default."""

    def adapter(x, **attributes):
        options = {
            ours: attributes.pop(theirs, default) for ours, (theirs, default) in names.items()
        }
        assert not attributes
        return f(x, **options)

    return adapter


def rows(f):
    return lambda x, axis=-1: f(x, axis=axis)


def reduce_log_sum_exp(data, axes=None, keepdims=1, noop_with_empty_axes=0):
    assert not noop_with_empty_axes
    axes = tuple(range(data.ndim)) if axes is None or not axes.size else tuple(axes.tolist())
    out = activations.logsumexp(data, axis=axes)
    return np.expand_dims(out, tuple(a % data.ndim for a in axes)) if keepdims else out


def prelu(x, slope):
    return activations.prelu(x, np.broadcast_to(slope, x.shape))


def gemm(a, b, c=None, alpha=1.0, beta=1.0, transA=0, transB=0):
    out = alpha * neurons.linear(a.T if transA else a, b if transB else b.T)
    return out if c is None else out + beta * c


def classes_last(x):
    return np.moveaxis(x, 1, -1)


def softmax_cross_entropy(x, y, w=None, reduction="mean", ignore_index=None):
    options = {} if ignore_index is None else {"ignore_index": ignore_index}
    loss = losses.cross_entropy(classes_last(x), y, weight=w, reduction=reduction, **options)
    return loss, activations.log_softmax(x, axis=1)


def negative_log_likelihood(x, y, w=None, reduction="mean", ignore_index=None):
    options = {} if ignore_index is None else {"ignore_index": ignore_index}
    return losses.nll(classes_last(x), y, weight=w, reduction=reduction, **options)


def groups(tensors, count):
    """Cut a flat list (all X, all G, ...) into `count` tuples."""
    size = len(tensors) // count
    return [tuple(tensors[k * size : (k + 1) * size]) for k in range(count)]


def adagrad(rate, step, *tensors, decay_factor=0.0, epsilon=1e-6, norm_coefficient=0.0):
    x, g, h = groups(tensors, 3)
    x, state = training.adagrad_step(
        x,
        g,
        AdagradState(int(step), h),
        learning_rate=rate,
        lr_decay=decay_factor,
        weight_decay=norm_coefficient,
        eps=epsilon,
    )
    return *x, *state.total


def adam(
    rate,
    step,
    *tensors,
    alpha=0.9,
    beta=0.999,
    epsilon=1e-6,
    norm_coefficient=0.0,
    norm_coefficient_post=0.0,
):
    x, g, m, v = groups(tensors, 4)
    # epsilon is added before the correction there, after it here; at T = 0 there is none
    taken = max(int(step), 1)
    bias1, bias2 = 1 - alpha**taken, np.sqrt(1 - beta**taken)
    x, state = training.adam_step(
        x,
        g,
        AdamState(taken - 1, m, v, tuple(np.zeros_like(each) for each in v)),
        learning_rate=rate if step > 0 else rate * bias1 / bias2,
        betas=(alpha, beta),
        eps=epsilon / bias2,
        weight_decay=norm_coefficient,
    )
    return *((1 - norm_coefficient_post) * each for each in x), *state.mean, *state.square


def momentum(rate, step, *tensors, alpha, beta, mode, norm_coefficient):
    x, g, v = groups(tensors, 3)
    options = {"learning_rate": rate, "momentum": alpha, "weight_decay": norm_coefficient}
    fresh = beta if step > 0 else 1.0
    if mode == "nesterov":
        assert fresh == 1.0  # dlref does not dampen Nesterov's momentum
        x, state = training.nesterov_step(x, g, MomentumState(int(step), v), **options)
    else:
        x, state = training.momentum_step(
            x, g, MomentumState(int(step), v), dampening=1 - fresh, **options
        )
    return *x, *state.velocity


def channels_last(f):
    return lambda x, *rest, **options: np.moveaxis(
        f(np.moveaxis(x, 1, -1), *rest, **options), -1, 1
    )


def batch_normalization(x, scale, b, mean, var, epsilon=1e-5, momentum=0.9, training_mode=0):
    if not training_mode:
        f = channels_last(normalization.batch_norm_inference)
        return f(x, mean, var, scale, b, eps=epsilon)
    y = channels_last(normalization.batch_norm)(x, scale, b, eps=epsilon)
    axes = (0, *range(2, x.ndim))  # ONNX: the weight of the old value, and the biased variance
    update = functools.partial(normalization.batch_norm_update, momentum=1 - momentum)
    return y, update(mean, x.mean(axes)), update(var, x.var(axes))


def flattened(x, axis, *parameters):
    """Merge the axes from `axis` on, of x and of what belongs to them."""
    outer = x.shape[: axis % x.ndim]
    return [x.reshape(*outer, -1), *(None if p is None else p.ravel() for p in parameters)]


def layer_normalization(x, scale, b=None, axis=-1, epsilon=1e-5):
    rows, w, b = flattened(x, axis, scale, b)
    kept = x.shape[: axis % x.ndim] + (1,) * (x.ndim - axis % x.ndim)
    mean, std = rows.mean(-1), np.sqrt(rows.var(-1) + epsilon)
    y = normalization.layer_norm(rows, w, b, eps=epsilon)
    return y.reshape(x.shape), mean.reshape(kept), 1 / std.reshape(kept)


def rms_normalization(x, scale, axis=-1, epsilon=1e-5):
    rows, w = flattened(x, axis, scale)
    return normalization.rms_norm(rows, w, eps=epsilon).reshape(x.shape)


def group_normalization(x, scale, b, num_groups, epsilon=1e-5):
    return channels_last(normalization.group_norm)(x, num_groups, scale, b, eps=epsilon)


def instance_normalization(x, scale, b, epsilon=1e-5):
    return channels_last(normalization.instance_norm)(x, scale, b, eps=epsilon)


def rotary_embedding(
    x, cos, sin, position_ids=None, interleaved=0, num_heads=0, rotary_embedding_dim=0
):
    packed = x.ndim == 3  # (B, T, heads * width) instead of (B, heads, T, width)
    heads = np.swapaxes(x.reshape(*x.shape[:2], num_heads, -1), 1, 2) if packed else x
    if position_ids is not None:
        cos, sin = cos[position_ids], sin[position_ids]
    out = positions.apply_rope(
        heads,
        cos[:, None],
        sin[:, None],
        interleaved=bool(interleaved),
        rotary_dim=rotary_embedding_dim or None,
    )
    return np.swapaxes(out, 1, 2).reshape(x.shape) if packed else out


def recurrent_network(
    operator,
    x,
    w,
    r,
    b=None,
    lengths=None,
    h0=None,
    c0=None,
    p=None,
    *,
    outputs,
    hidden_size,
    direction="forward",
    layout=0,
    linear_before_reset=0,
):
    f, cell = RECURRENT[operator], operator.lower()
    ours = (
        (lambda a: a)
        if cell == "rnn"
        else functools.partial(interop.convert_gates, source="onnx", target="torch", cell=cell)
    )
    options = {"reset_after": bool(linear_before_reset)} if cell == "gru" else {}
    x = x if layout else np.swapaxes(x, 0, 1)  # (B, T, D)
    reverses = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}[direction]
    steps, last = [], [[], []]
    for k, reverse in enumerate(reverses):
        per = [None if a is None else (a[:, k] if layout else a[k]) for a in (h0, c0)]
        biases = (None, None) if b is None else map(ours, np.split(b[k], 2))
        if p is not None:  # i, o, f there
            options["w_p"] = np.concatenate([np.split(p[k], 3)[i] for i in (0, 2, 1)])
        per = per if cell == "lstm" else per[:1]
        out = f(
            x, *per, ours(w[k]), ours(r[k]), *biases, lengths=lengths, reverse=reverse, **options
        )
        outs = out if cell == "lstm" else (out,)
        steps.append(outs[0])
        ends = np.full(len(x), x.shape[1]) if lengths is None else lengths
        at = np.zeros_like(ends) if reverse else ends - 1
        for states, of in zip(last, outs, strict=False):
            states.append(of[np.arange(len(x)), at])
    y = np.stack(steps, axis=2 if layout else 0)  # (B, T, directions, H)
    y = y if layout else y.transpose(2, 0, 1, 3)  # (T, directions, B, H)
    found = [y, *(np.stack(states, axis=1 if layout else 0) for states in last if states)]
    assert found[1].shape[-1] == hidden_size
    return tuple(a for a, name in zip(found, outputs, strict=False) if name)


def split_heads(x, heads):
    """Cut (B, T, heads * width) into (B, heads, T, width)."""
    return np.swapaxes(x.reshape(*x.shape[:2], heads, -1), 1, 2)


def masks(mask, keys):
    """Return (boolean mask, bias), each padded up to all keys."""
    if mask is None:
        return None, None
    hidden = False if mask.dtype == bool else -np.inf
    pad = [(0, 0)] * (mask.ndim - 1) + [(0, keys - mask.shape[-1])]
    mask = np.pad(mask, pad, constant_values=hidden)
    return (mask, None) if mask.dtype == bool else (None, mask)


def onnx_attention(
    q,
    k,
    v,
    attn_mask=None,
    past_key=None,
    past_value=None,
    lengths=None,
    q_num_heads=None,
    kv_num_heads=None,
    is_causal=0,
    left_window_size=-1,
    right_window_size=-1,
    qk_matmul_output_mode=0,
    scale=None,
    softcap=0.0,
    softmax_precision=None,  # dlref computes them all in float64 here
):
    packed = q.ndim == 3
    if packed:
        q, k, v = split_heads(q, q_num_heads), *(split_heads(x, kv_num_heads) for x in (k, v))
    if past_key is not None:
        k, v = np.concatenate([past_key, k], 2), np.concatenate([past_value, v], 2)
    offset = 0 if past_key is None else past_key.shape[2]
    T, S = q.shape[2], k.shape[2]
    mask, bias = masks(attn_mask, S)
    window = left_window_size, right_window_size
    options = {"scale": scale, "softcap": softcap or None, "bias": bias}
    if lengths is None:
        options |= {"is_causal": bool(is_causal), "window": window, "q_offset": offset}
    else:  # an offset of its own for each sequence: as masks
        left, right = window[0], 0 if is_causal else window[1]
        seen = attention.window_mask(T, S, left=left, right=right, q_offset=lengths - T)
        seen = seen[:, None] & attention.padding_mask(lengths, S)
        mask = seen if mask is None else seen & mask
    out, p = attention.scaled_dot_product_attention(
        q, k, v, mask=mask, **options, return_weights=True
    )
    scores = attention.attention_scores
    inner = (
        lambda: scores(q, k, scale=scale),
        lambda: scores(q, k, scale=scale, softcap=softcap or None),
        lambda: scores(q, k, mask=mask, **options),
        lambda: p,
    )[qk_matmul_output_mode]()
    out = np.swapaxes(out, 1, 2).reshape(*out.shape[::2], -1) if packed else out
    return out, k, v, inner


def flex_attention(q, k, v, scale=None):
    return attention.scaled_dot_product_attention(q, k, v, scale=scale)


def onnx_linear_attention(
    q,
    k,
    v,
    past_state=None,
    decay=None,
    beta=None,
    q_num_heads=None,
    kv_num_heads=None,
    scale=0.0,
    update_rule="gated_delta",
    chunk_size=64,  # says how, not what
):
    batch, steps = q.shape[:2]
    q, k, v = split_heads(q, q_num_heads), *(split_heads(x, kv_num_heads) for x in (k, v))
    decay = None if "gated" not in update_rule else split_heads(decay, kv_num_heads)
    beta = None if "delta" not in update_rule else np.swapaxes(beta, 1, 2)
    if beta is not None:
        beta = np.broadcast_to(beta, (batch, kv_num_heads, steps))
    shared = q_num_heads // kv_num_heads
    k, v, decay, beta, past_state = (
        x if x is None else np.repeat(x, shared, axis=1) for x in (k, v, decay, beta, past_state)
    )
    out, state = attention.recurrent_linear_attention(
        q, k, v, decay, beta, past_state, scale=scale or q.shape[-1] ** -0.5
    )
    return np.swapaxes(out, 1, 2).reshape(batch, steps, -1), state[:, ::shared]


def placed(f):
    """Adapt a function of all inputs of a node: those left out are None."""

    def adapter(*inputs, given, outputs, **attributes):
        rest = iter(inputs)
        found = f(*(next(rest) if there else None for there in given), **attributes)
        return tuple(a for a, name in zip(found, outputs, strict=False) if name)

    return adapter


ADAPTERS = {
    **{name: functools.partial(recurrent_network, name) for name in RECURRENT},
    "Adagrad": adagrad,
    "Adam": adam,
    "Attention": placed(onnx_attention),
    "BatchNormalization": batch_normalization,
    "Celu": elementwise(activations.celu, alpha=("alpha", 1.0)),
    "Elu": elementwise(activations.elu, alpha=("alpha", 1.0)),
    "Gelu": elementwise(activations.gelu, approximate=("approximate", "none")),
    "Gemm": gemm,
    "FlexAttention": flex_attention,
    "GroupNormalization": group_normalization,
    "HardSigmoid": elementwise(activations.hard_sigmoid, alpha=("alpha", 0.2), beta=("beta", 0.5)),
    "HardSwish": elementwise(activations.hard_swish),
    "Hardmax": rows(activations.hardmax),
    "InstanceNormalization": instance_normalization,
    "LayerNormalization": layer_normalization,
    "LinearAttention": placed(onnx_linear_attention),
    "LeakyRelu": elementwise(activations.leaky_relu, negative_slope=("alpha", 0.01)),
    "LogSoftmax": rows(activations.log_softmax),
    "Mish": elementwise(activations.mish),
    "Momentum": momentum,
    "NegativeLogLikelihoodLoss": negative_log_likelihood,
    "PRelu": prelu,
    "RMSNormalization": rms_normalization,
    "ReduceLogSumExp": reduce_log_sum_exp,
    "Relu": elementwise(activations.relu),
    "RotaryEmbedding": rotary_embedding,
    "Selu": lambda x, alpha=None, gamma=None: selu(x, alpha, gamma),
    "Sigmoid": elementwise(activations.sigmoid),
    "Softmax": rows(activations.softmax),
    "SoftmaxCrossEntropyLoss": softmax_cross_entropy,
    "Softplus": elementwise(activations.softplus),
    "Softsign": elementwise(activations.softsign),
    "SwiGLU": lambda gate, x, alpha=1.0: activations.swiglu(x, gate, beta=alpha),
    "Swish": elementwise(activations.silu, beta=("alpha", 1.0)),
    "Tanh": elementwise(activations.tanh),
    "ThresholdedRelu": elementwise(activations.thresholded_relu, alpha=("alpha", 1.0)),
}


def selu(x, alpha, gamma):
    """SELU with constants of one's own is a scaled ELU."""
    if alpha is None and gamma is None:
        return activations.selu(x)
    return gamma * activations.elu(x, alpha=alpha)


def wide(array):
    array = np.asarray(array)
    return array if array.dtype.kind in "iub" else array.astype(np.float64)


@pytest.mark.parametrize("operator", ADAPTERS)
def test_every_case_of_the_operator(operator):
    mine = [case for case in cases()[operator] if case[0] not in REASONS]
    assert mine
    for name, attributes, data_sets in mine:
        for inputs, outputs in data_sets:
            got = ADAPTERS[operator](*map(wide, inputs), **attributes)
            got = got if isinstance(got, tuple) else (got,)
            assert len(got) >= len(outputs)
            for g, want in zip(got, outputs, strict=False):  # optional outputs come last
                assert np.shape(g) == np.shape(want), name
                rtol = HALF_AN_ULP.get(np.asarray(want).dtype.name, RTOL)
                if rtol > RTOL:
                    rtol *= ROUNDED_OFTEN.get(operator, 1)
                np.testing.assert_allclose(g, want, rtol=rtol, atol=ATOL, err_msg=name)


def tables():
    """Return the rows of the tables of the page: operators tested, and those left out."""
    tested = []
    for operator in sorted(ADAPTERS):
        names = [name for name, *_ in cases()[operator]]
        reasons = sorted({REASONS[name] for name in names if name in REASONS})
        passed = sum(name not in REASONS for name in names)
        tested.append([operator, str(len(names)), str(passed), "; ".join(reasons)])
    left = [
        [reason, str(sum(len(cases()[name]) for name in names.split())), names.replace(" ", ", ")]
        for reason, names in LEFT_OUT.items()
    ]
    return {
        "onnx.csv": [["operator", "cases", "passed", "not passed, since"], *tested],
        "onnx_left_out.csv": [["why", "cases", "operators"], *left],
        "conventions.csv": [
            ["topic", "library", "what it does", "with dlref"],
            *([*row[:3], f"``{row.code}``" if row.code else ""] for row in interop.conventions()),
        ],
    }


def test_every_operator_is_tested_or_left_out_for_a_reason():
    left = " ".join(LEFT_OUT.values()).split()
    assert sorted([*ADAPTERS, *left]) == sorted(cases())


@pytest.mark.parametrize("name", ["onnx.csv", "onnx_left_out.csv", "conventions.csv"])
def test_the_page_has_these_tables(name):
    with (RESULTS / name).open(newline="") as file:
        assert list(csv.reader(file)) == tables()[name]


def test_exceptions_are_of_cases_that_exist():
    known = {name for operator in ADAPTERS for name, *_ in cases()[operator]}
    assert set(REASONS) <= known


if __name__ == "__main__":  # tox run -e conformance
    for name, rows in tables().items():
        with (RESULTS / name).open("w", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows(rows)
