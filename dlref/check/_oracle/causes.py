"""
The known explanations of a difference.

`HYPOTHESES` is the table of those that change the reference: each yields words and another call (or
other outputs), and explains a difference if the candidate agrees with that. `SIGNS` is the table
of those that are read off the two arrays. To add one, write a small function and put it into its
table; the first that fits is named, so that what is special stands before what is general.
"""

from __future__ import annotations

import contextlib
import importlib
import itertools
import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..._core.pytree import flat
from .calls import Call, form, is_float

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ..._core.arguments import FloatArray

    Trial = tuple[str, Any]  # words, and a call or a list of outputs

#: Largest part of the difference that an explanation may leave.
LEFT = 0.1
#: Numbers in which no noise is to be recognized; its mean size over its root mean square, at most.
FEW, EVEN = 4, 0.97
NORMS = ("layer_norm", "rms_norm", "group_norm", "instance_norm", "batch_norm")
ATTENTION = ("scaled_dot_product_attention", "attention_weights", "attention_scores")
GATES = {"lstm": "ifgo", "lstm_cell": "ifgo", "gru": "rzn", "gru_cell": "rzn"}


def _chapter(name: str) -> Any:
    """Return a chapter that only some explanations need: it is loaded where it is asked for."""
    return importlib.import_module(f"dlref.{name}")


# Options ------------------------------------------------------------------------------------------


def other_options(call: Call) -> Iterator[Trial]:
    """Yield the call with options left out, or with another value."""
    settings, defaults = call.settings, call.defaults
    for key in call.told:
        if key in defaults:
            yield f"the option {key!r} is ignored", call.with_options(**{key: defaults[key]})
    for key in ("interleaved", "reset_after", "reverse", "is_causal"):
        if key in settings:
            words = FLIPPED[key, not settings[key]]
            yield words, call.with_options(**{key: not settings[key]})
    for key, values in OTHERS.items():
        for value in values if key in settings else ():
            if value != settings[key]:
                yield f"{key} is {value}, not {settings[key]}", call.with_options(**{key: value})
    if "axis" in settings:
        ndim = np.ndim(call.inputs[0])
        for axis in range(ndim):
            if axis != settings["axis"] % ndim:
                yield f"it is along axis {axis}", call.with_options(axis=axis)


def other_meanings(call: Call) -> Iterator[Trial]:
    """Yield the call with an option that means something else to some libraries."""
    if call.name == "batch_norm_update":
        words = "momentum is the share of the running statistics that is kept, not replaced"
        yield words, call.with_options(momentum=1 - call.settings["momentum"])
    share, n = call.settings.get("label_smoothing", 0.0), np.shape(call.inputs[0])[-1:]
    if share and share * n[0] <= n[0] - 1:
        words = "label smoothing is spread over the other classes only"
        yield words, call.with_options(label_smoothing=share * n[0] / (n[0] - 1))
    if call.name == "kl_divergence":
        log_p, q = call.inputs
        with np.errstate(all="ignore"):
            swapped = call.with_inputs(np.log(q), np.exp(log_p))
        yield "the two distributions are exchanged", swapped


def by_a_sigmoid(call: Call) -> Iterator[Trial]:
    """Yield GELU as CLIP has it."""
    if call.name == "gelu":
        silu = _chapter("activations").silu
        words = "it is x sigmoid(1.702 x), an approximation of GELU"
        yield words, Call(silu, call.form, call.arguments, {"beta": 1.702})


FLIPPED = {
    ("interleaved", True): "the rotation pairs neighbouring channels, not halves",
    ("interleaved", False): "the rotation pairs halves (half-split), not neighbouring channels",
    ("reset_after", True): "the reset gate is applied after the product, not before",
    ("reset_after", False): "the reset gate is applied before the product, not after",
    ("reverse", True): "the sequence is read backwards",
    ("reverse", False): "the sequence is read forwards",
    ("is_causal", True): "a causal mask is applied",
    ("is_causal", False): "the causal mask is missing",
}
OTHERS: dict[str, tuple[Any, ...]] = {
    "eps": (1e-5, 1e-6, 1e-3, 1e-8, 1e-12, 0.0),
    "approximate": ("none", "tanh"),
    "reduction": ("mean", "sum"),
    "weight_offset": (0.0, 1.0),
    "beta": (1.0, 1.702),
    "label_smoothing": (0.0,),
    "delta": (1.0,),
    "activation": ("relu", "gelu", "gelu_tanh", "silu", "tanh", "sigmoid", "identity"),
    "base": (1e4, 5e5, 1e6),
    "weight_decay": (0.0, 0.01),
    "betas": ((0.9, 0.999), (0.9, 0.99), (0.9, 0.95)),
    "momentum": (0.9, 0.0),
    "negative_slope": (0.01, 0.1, 0.2),
    "alpha": (1.0,),
    "layout": ("interleaved", "halves"),
    "spacing": ("paper", "tensor2tensor"),
}


# Inputs -------------------------------------------------------------------------------------------


def _replaced(call: Call, i: int, value: Any) -> Call:
    inputs = list(call.inputs)
    inputs[i] = value
    return call.with_inputs(*inputs)


def other_inputs(call: Call) -> Iterator[Trial]:
    """Yield the call with an input transposed, negated, left out, or two exchanged."""
    names = call.names
    arrays = [(i, a) for i, a in enumerate(call.inputs) if is_float(a)]
    for i, a in arrays:
        if np.ndim(a) == 2 and a.shape[0] == a.shape[1] and i > 0:
            words = f"{names[i]} is transposed"
            trial = _replaced(call, i, a.T)
            yield words, trial
            if call.form == "vjp":
                yield words, _transposed(trial, i)
        if i > 0 and np.ndim(a) and names[i] in ("bias", "b", "weight", "b_ih", "b_hh"):
            neutral = np.ones_like(a) if names[i] == "weight" else np.zeros_like(a)
            yield f"{names[i]} is ignored", _replaced(call, i, neutral)
        if names[i] == "sin":
            yield "the rotation goes the other way", _replaced(call, i, -a)
        if names[i] == "cos":
            j = names.index("sin")
            swapped = _replaced(_replaced(call, i, call.inputs[j]), j, a)
            yield "cosine and sine are exchanged", swapped
    for (i, a), (j, b) in itertools.combinations(arrays, 2):
        if np.shape(a) == np.shape(b):
            swapped = _replaced(_replaced(call, i, b), j, a)
            yield f"{names[i]} and {names[j]} are exchanged", swapped


def _transposed(call: Call, i: int) -> list[Any]:
    out = flat(call.run())
    floats = [j for j, a in enumerate(call.inputs) if is_float(a)]
    place = floats.index(i)
    out[place] = np.swapaxes(out[place], -1, -2)
    return out


def other_positions(call: Call) -> Iterator[Trial]:
    """Yield a rotation whose positions are counted from another number."""
    if {"cos", "sin"} <= set(call.names):
        i, j = call.names.index("cos"), call.names.index("sin")
        turns = call.inputs[i] + 1j * call.inputs[j]
        by = turns[..., 1:2, :] / turns[..., :1, :]  # by one position
        if np.allclose(turns[..., 1:, :], turns[..., :-1, :] * by, rtol=0, atol=1e-5):
            for words, new in (("large", turns * by), ("small", turns / by)):
                moved = _replaced(_replaced(call, i, new.real), j, new.imag)
                yield f"the positions of the rotation are one too {words}", moved


def rotation_signs(call: Call) -> Iterator[Trial]:
    """Yield a rotation of which no half, or both, are negated."""
    if call.name != "apply_rope" or call.form == "jvp":
        return
    i = call.names.index("sin")
    right, back = (
        np.asarray(flat(trial.run())[0]) for trial in (call, _replaced(call, i, -call.inputs[i]))
    )
    place = np.arange(right.shape[-1])
    width = call.settings["rotary_dim"] or len(place)
    first = place % 2 == 0 if call.settings["interleaved"] else place < width // 2
    for a, b in ((back, right), (right, back)):
        words = "both products with the sine have the same sign, where one half is negated"
        yield words, [np.where(first, a, b)]


def base_two(call: Call) -> Iterator[Trial]:
    """Yield a softmax of powers of 2."""
    if call.name in ("softmax", "log_softmax", "logsumexp") and call.form != "jvp":
        words = "the exponential is to base 2, and its argument lacks the factor log2(e)"
        yield words, call.with_inputs(call.inputs[0] * LN2)


def uphill(call: Call) -> Iterator[Trial]:
    """Yield a step of an optimizer that goes up the slope."""
    if call.name.endswith("_step") and is_float(call.inputs[0]):
        new, *state = flat(call.run())
        yield "the step goes up the slope, not down", [2 * call.inputs[0] - new, *state]


def channels_first(call: Call) -> Iterator[Trial]:
    """Yield a normalization whose channels are the second axis, as in images of PyTorch."""
    if call.name in NORMS and call.form == "forward" and np.ndim(call.inputs[0]) > 2:
        moved = _replaced(call, 0, np.moveaxis(call.inputs[0], 1, -1))
        yield "the channels are taken along axis 1, not the last", [np.moveaxis(moved.run(), -1, 1)]


def applied_twice(call: Call) -> Iterator[Trial]:
    """Yield losses of logits that are probabilities already."""
    if call.form == "forward" and call.name in ("cross_entropy", "binary_cross_entropy"):
        name = "softmax" if call.name == "cross_entropy" else "sigmoid"
        f = getattr(_chapter("activations"), name)
        words = f"{name} is applied twice: the logits are probabilities already"
        yield words, _replaced(call, 0, f(call.inputs[0]))


def adam(call: Call) -> Iterator[Trial]:
    """Yield steps of Adam without the correction of its means, or with another divisor."""
    if call.name not in ("adam_step", "adamw_step") or isinstance(call.inputs[0], tuple):
        return
    settings, training = call.settings, _chapter("training")
    other, words = training.adam_step, "the weight decay is added to the gradient"
    if call.name == "adam_step":
        other, words = training.adamw_step, "the weight decay is decoupled from the gradient"
    rate, decay = settings["learning_rate"], settings["weight_decay"]
    yield words, Call(other, call.form, call.arguments, call.options | {"weight_decay": decay})
    if settings["amsgrad"]:
        return
    start = call.inputs[0] * (1 - rate * decay if call.name == "adamw_step" else 1)
    _, (steps, mean, square, *rest) = call.run()
    bias = [1 - beta**steps for beta in settings["betas"]]
    root, m, eps = np.sqrt(square / bias[1]), mean / bias[0], settings["eps"]
    for words, direction in (
        ("the means are not corrected for their start at 0", mean / (np.sqrt(square) + eps)),
        (
            "the mean of the squares is not corrected for its start at 0",
            m / (np.sqrt(square) + eps),
        ),
        ("the mean is not corrected for its start at 0", mean / (root + eps)),
        ("eps is added inside the root", m / np.sqrt(square / bias[1] + eps)),
        (
            "eps is added before the correction of the means",
            m / ((np.sqrt(square) + eps) / bias[1] ** 0.5),
        ),
        ("the root is missing", m / (square / bias[1] + eps)),
    ):
        yield words, flat((start - rate * direction, steps, mean, square, *rest))


def gate_order(call: Call) -> Iterator[Trial]:
    """Yield the call with the gates of a recurrent layer in another order."""
    order = GATES.get(call.name, "")
    blocks = [i for i, name in enumerate(call.names) if name in ("w_ih", "w_hh", "b_ih", "b_hh")]
    for other in itertools.permutations(range(len(order))) if order else ():
        if other == tuple(range(len(order))):
            continue
        words = "".join(order[i] for i in np.argsort(other))
        moved, back = call, np.argsort(other)
        for i in blocks:
            if call.inputs[i] is not None:
                moved = _replaced(moved, i, _regated(call.inputs[i], other))
        if call.form != "vjp":
            yield f"the gates are in the order {words}, not {order}", moved
        else:
            out = flat(moved.run())
            floats = [i for i, a in enumerate(call.inputs) if is_float(a)]
            out = [
                _regated(g, tuple(back)) if floats[k] in blocks else g for k, g in enumerate(out)
            ]
            yield f"the gates are in the order {words}, not {order}", out


def _regated(a: Any, order: tuple[int, ...]) -> Any:
    parts = np.split(np.asarray(a), len(order))
    return np.concatenate([parts[i] for i in order])


def forget_bias(call: Call) -> Iterator[Trial]:
    """Yield an LSTM with 1 added to the forget gate, as Keras initializes it."""
    if call.name in ("lstm", "lstm_cell") and "b_ih" in call.names:
        i = call.names.index("b_ih")
        n = call.inputs[i].size // 4
        yield (
            "1 is added to the forget gate",
            _replaced(call, i, call.inputs[i] + np.repeat([0.0, 1, 0, 0], n)),
        )


def update_gate(call: Call) -> Iterator[Trial]:
    """Yield a GRU whose update gate keeps what it should replace: z becomes 1 - z."""
    if call.name in ("gru", "gru_cell") and call.form == "forward":
        moved = call
        for i, name in enumerate(call.names):
            if name in ("w_ih", "w_hh", "b_ih", "b_hh") and call.inputs[i] is not None:
                r, z, n = np.split(call.inputs[i], 3)
                moved = _replaced(moved, i, np.concatenate([r, -z, n]))
        yield "the update gate is exchanged with one minus itself", moved


# Attention ----------------------------------------------------------------------------------------

WINDOWS = {-1: "too short", 1: "too long"}
LN2 = math.log(2)
UNMASKED = {"mask": None, "is_causal": False, "q_offset": 0, "window": None}


def attention_scale(call: Call) -> Iterator[Trial]:
    """Yield other scales of the scores."""
    if call.name in ATTENTION:
        d = np.shape(call.inputs[0])[-1]
        told = call.settings["scale"]
        scale = d**-0.5 if told is None else told
        values = [
            ("the scale of the scores is missing", 1.0),
            ("the scale of the scores is applied twice", scale * scale),
            ("the scores are multiplied by the root of the width, not divided", 1 / scale),
            ("the exponential is to base 2, and the scores lack the factor log2(e)", scale * LN2),
            ("the scores have the factor log2(e), but the exponential is to base e", scale / LN2),
            (
                "the scale of the scores has the number of heads, not the width of one",
                (d * np.shape(call.inputs[0])[-3]) ** -0.5 if np.ndim(call.inputs[0]) > 2 else 1.0,
            ),
        ]
        for words, value in values:
            if not math.isclose(value, scale):
                yield words, call.with_options(scale=value)


def attention_mask(call: Call) -> Iterator[Trial]:
    """Yield masks inverted, shifted, or anchored at the other end, and windows of another width."""
    settings = call.settings
    if not {"mask", "is_causal", "q_offset", "window"} <= {*settings}:
        return
    if (mask := settings["mask"]) is not None:
        yield "the mask is inverted: True has to mean attend", call.with_options(mask=~mask)
        if mask.ndim > 1 and mask.shape[-1] == mask.shape[-2]:
            yield "the mask is transposed", call.with_options(mask=np.swapaxes(mask, -1, -2))
    s = np.shape(call.inputs[1])[-2]
    for words, left_out in (("the last key is left out", s - 1), ("the first key is left out", 0)):
        kept = np.arange(s) != left_out
        yield words, call.with_options(mask=kept if mask is None else mask & kept)
    if settings["is_causal"]:
        offset, t, s = settings["q_offset"], *(np.shape(a)[-2] for a in call.inputs[:2])
        for words, value in (
            ("the causal mask is anchored at the last key (bottom right)", s - t),
            ("the causal mask is anchored at the first key (top left)", 0),
            ("the causal mask is shifted by one: a query does not see its own key", offset - 1),
            ("the causal mask is shifted by one: a query sees the next key", offset + 1),
        ):
            if np.any(value != offset):
                yield words, call.with_options(q_offset=value)
    if settings["window"] is not None:
        left, right = settings["window"]
        yield (
            "the window has no right end: keys after it are seen",
            call.with_options(window=(left, None)),
        )
        yield (
            "the window has no left end: keys before it are seen",
            call.with_options(window=(None, right)),
        )
        for side, by in itertools.product((0, 1), (-1, 1)):
            window = list(settings["window"])
            if window[side] is not None and window[side] >= max(0, -by):
                window[side] += by
                words = f"the window is one key {WINDOWS[by]} on the {('left', 'right')[side]}"
                yield words, call.with_options(window=tuple(window))


def _seen(call: Call) -> Any:
    """Return which keys a query sees."""
    q, k = (np.zeros(np.shape(a)) for a in call.inputs[:2])
    masks = {key: call.settings[key] for key in UNMASKED}
    return np.isfinite(_chapter("attention").attention_scores(q, k, **masks))


def _with_scores(call: Call, scores: Any, **options: Any) -> Call:
    """Return attention with these scores, in place of those of queries and keys."""
    q, k = (np.zeros((*np.shape(a)[:-1], 1)) for a in call.inputs[:2])
    blind = call.with_inputs(q, k, *call.inputs[2:])
    return blind.with_options(bias=scores, softcap=None, **options)


def soft_caps(call: Call) -> Iterator[Trial]:
    """Yield soft caps of scores before their scale, with their bias, or with their mask."""
    cap, settings = call.settings.get("softcap"), call.settings
    if cap is None or call.name not in ATTENTION:
        return
    q, k = call.inputs[:2]
    scale = np.shape(q)[-1] ** -0.5 if settings["scale"] is None else settings["scale"]
    words = "the soft cap is applied to the scores before their scale"
    yield words, call.with_options(softcap=cap * scale)
    if call.form != "forward":
        return
    bias = 0.0 if settings["bias"] is None else settings["bias"]
    raw = _chapter("attention").attention_scores(q, k, scale=scale)
    scores = cap * np.tanh((raw + bias) / cap)
    if settings["bias"] is not None:
        words = "the soft cap is applied to the scores with their bias"
        yield words, _with_scores(call, scores)
    softened = np.where(_seen(call), scores, -cap)
    words = "the soft cap is applied after the mask: hidden keys keep a weight"
    yield words, _with_scores(call, softened, **UNMASKED)


def soft_masks(call: Call) -> Iterator[Trial]:
    """Yield masks that leave hidden keys a weight, or a place in the sum."""
    if call.name not in ATTENTION or call.form != "forward" or (seen := _seen(call)).all():
        return
    names = ("bias", "scale", "softcap")
    options = {key: call.settings[key] for key in names}
    scores = _chapter("attention").attention_scores(*call.inputs[:2], **options)
    for words, changed in (
        ("the mask multiplies the scores: hidden ones are 0, not -inf", scores * seen),
        ("the mask is added as 0 and 1, where hidden scores have to be -inf", scores + seen),
    ):
        yield words, _with_scores(call, changed, **UNMASKED)
    for value in (-1.0, -10.0, -100.0, -1e3, -1e4):
        words = f"hidden scores are {value:g}, not -inf: they keep a weight"
        yield words, _with_scores(call, np.where(seen, scores, value), **UNMASKED)
    words = "the mask is applied after the softmax, whose sum counts hidden keys"
    whole = call.with_options(**UNMASKED)
    if call.name == "attention_weights":
        yield words, [whole.run() * seen]
    if "dropout" in call.settings:
        kept = 1.0 if call.settings["dropout"] is None else call.settings["dropout"]
        yield words, whole.with_options(dropout=kept * seen)


def scaled_with_scores(call: Call) -> Iterator[Trial]:
    """Yield biases and sinks that are scaled with the scores."""
    if call.name in ATTENTION:
        q, told = call.inputs[0], call.settings["scale"]
        scale = np.shape(q)[-1] ** -0.5 if told is None else told
        for key in ("bias", "sink"):
            if (value := call.settings.get(key)) is not None:
                words = f"the {key} is scaled with the scores, which it has to be added to after"
                yield words, call.with_options(**{key: value * scale})


SPLITS = {
    "heads are split by a reshape without a transposition": ("rows", "heads"),
    "heads are joined by a reshape without a transposition": ("heads", "rows"),
    "heads are split and joined by a reshape without a transposition": ("rows", "rows"),
    "the channels of a head lie apart, a stride of the number of heads": ("inner", "inner"),
    "heads are split with the stride of the number of heads, but not joined so": ("inner", "heads"),
}


def _split(x: Any, heads: int, how: str) -> Any:
    """Return heads before positions; `how` says what is wrong."""
    *batch, length, width = x.shape
    if how == "rows":
        return x.reshape(*batch, heads, length, width // heads)
    if how == "inner":
        return np.moveaxis(x.reshape(*batch, length, width // heads, heads), -1, -3)
    return np.swapaxes(x.reshape(*batch, length, heads, width // heads), -2, -3)


def _joined(x: Any, how: str) -> Any:
    *batch, heads, length, width = x.shape
    if how == "inner":
        x = np.moveaxis(x, -3, -1)
    elif how == "heads":
        x = np.swapaxes(x, -2, -3)
    return x.reshape(*batch, length, heads * width)


def heads_reshaped(call: Call) -> Iterator[Trial]:
    """Yield multi-head attention whose heads are cut out of the wrong places."""
    if call.name != "multi_head_attention" or call.form != "forward":
        return
    settings = call.settings
    if settings["rope"] is not None or settings["cache"] is not None:
        return
    x, y, p = call.inputs
    linear, attention = _chapter("neurons").linear, _chapter("attention")
    heads = settings["num_heads"]
    keys = heads if settings["num_kv_heads"] is None else settings["num_kv_heads"]
    q, k, v = linear(x, p.w_q, p.b_q), linear(y, p.w_k, p.b_k), linear(y, p.w_v, p.b_v)
    names = ("mask", "bias", "is_causal", "window", "scale", "softcap", "sink", "dropout")
    options = {key: settings[key] for key in names} | {"q_offset": settings["q_offset"] or 0}
    for words, (split, join) in SPLITS.items():
        parts = (_split(a, n, split) for a, n in ((q, heads), (k, keys), (v, keys)))
        out = attention.scaled_dot_product_attention(*parts, **options)
        yield words, [linear(_joined(out, join), p.w_o, p.b_o)]


def heads_tiled(call: Call) -> Iterator[Trial]:
    """Yield key heads tiled (0 1 0 1) where each has to serve neighbours (0 0 1 1)."""
    q, k, *_ = call.inputs if call.name in ATTENTION else (np.empty(0), np.empty(0))
    if np.ndim(q) > 2 and np.shape(q)[-3] != np.shape(k)[-3] and call.form != "jvp":
        n = np.shape(q)[-3] // np.shape(k)[-3]
        tiled = call.with_inputs(q, *(np.concatenate([a] * n, -3) for a in call.inputs[1:]))
        words = "the key heads are tiled (0 1 0 1), not repeated (0 0 1 1)"
        if call.form == "forward":
            yield words, tiled
        else:
            dq, dk, dv, *rest = flat(tiled.run())
            yield words, [dq, *(sum(np.split(g, n, -3)) for g in (dk, dv)), *rest]


def over_queries(call: Call) -> Iterator[Trial]:
    """Yield attention whose softmax runs over the queries."""
    if call.name == "scaled_dot_product_attention" and call.form == "forward":
        q, k, v = call.inputs
        scores = Call(_chapter("attention").attention_scores, "forward", (q, k), {})
        e = np.asarray(scores.with_options(scale=call.settings["scale"]).run())
        e = np.exp(e - e.max(-2, keepdims=True))
        yield "softmax runs over the queries, not over the keys", [e / e.sum(-2, keepdims=True) @ v]


def masked_rows(call: Call) -> Iterator[Trial]:
    """Yield the mean of the values for queries that see no key."""
    if call.name == "scaled_dot_product_attention" and call.form == "forward":
        out = np.asarray(flat(call.run())[0])
        v = call.inputs[2]
        heads = out.shape[-3] // v.shape[-3] if out.ndim > 2 else 1
        mean = np.repeat(v, heads, -3) if heads > 1 else v
        empty = (out == 0).all(-1, keepdims=True)
        if empty.any():
            words = "a query that sees no key gets the mean of the values, not 0"
            yield words, [np.where(empty, mean.mean(-2, keepdims=True), out)]


# Normalizations -----------------------------------------------------------------------------------


def _reduced(call: Call) -> tuple[tuple[int, ...], int]:
    """Return the axes of mean and variance, those of a group aside, and of how many numbers."""
    shape = np.shape(call.inputs[0])
    first = {"batch_norm": 0, "instance_norm": 1, "group_norm": 1}.get(call.name)
    axes = (len(shape) - 1,) if first is None else tuple(range(first, len(shape) - 1))
    grouped = shape[-1] // call.inputs[1] if call.name == "group_norm" else 1
    return axes, grouped * math.prod(shape[a] for a in axes)


def _scaled(call: Call, y: FloatArray) -> FloatArray:
    names, inputs = call.names, call.inputs
    for key in ("weight", "bias"):
        if key in names and (a := inputs[names.index(key)]) is not None:
            y = y * (a + call.settings.get("weight_offset", 0)) if key == "weight" else y + a
    return y


def other_variance(call: Call) -> Iterator[Trial]:
    """Yield another epsilon or variance of a normalization."""
    if call.name not in NORMS or call.form == "jvp":
        return
    axes, n = _reduced(call)
    eps, x = call.settings["eps"], np.asarray(call.inputs[0])
    if n > 1 and call.name != "rms_norm":
        c = math.sqrt((n - 1) / n)
        smaller = call.with_options(eps=eps * (n - 1) / n)
        place = call.names.index("weight") if "weight" in call.names else 0
        weight = call.inputs[place] if place else None
        words = "the variance is divided by n - 1, not n"
        if weight is not None:
            trial = _replaced(smaller, place, weight * c)
            if call.form == "vjp":
                dx, dw, *db = flat(trial.run())
                yield words, [dx, dw * c, *db]
            else:
                yield words, trial
        else:
            yield words, [c * part for part in flat(smaller.run())]
    if call.form != "forward" or call.name == "group_norm":
        return
    mean = 0.0 if call.name == "rms_norm" else x.mean(axes, keepdims=True)
    var = ((x - mean) ** 2).mean(axes, keepdims=True)
    with np.errstate(all="ignore"):
        outside = {
            e: (x - mean) / (np.sqrt(var) + e) for e in dict.fromkeys((eps, 1e-5, 1e-6, 1e-8))
        }
        rms = x / np.sqrt((x * x).mean(axes, keepdims=True) + eps)
        squared = (x - mean) / (var + eps)
        norm = (x - mean) / np.sqrt(var * n + eps)
    for e, y in outside.items():
        words = "eps is added outside the root" + ("" if e == eps else f", and is {e}, not {eps}")
        yield words, [_scaled(call, y)]
    yield "the mean is not subtracted", [_scaled(call, rms)]
    yield "only subtracted before the variance", [_scaled(call, x / np.sqrt(var + eps))]
    yield "it divides by the variance, not by its root", [_scaled(call, squared)]
    yield "the squares are summed, where their mean is due", [_scaled(call, norm)]


def other_statistics(call: Call) -> Iterator[Trial]:
    """Yield a batch norm over rows, a layer norm over columns."""
    if call.name not in ("layer_norm", "batch_norm") or call.form != "forward":
        return
    x, eps = np.asarray(call.inputs[0]), call.settings["eps"]
    for axis in range(x.ndim):
        centred = x - x.mean(axis, keepdims=True)
        y = centred / np.sqrt((centred**2).mean(axis, keepdims=True) + eps)
        yield f"mean and variance are taken along axis {axis} alone", [_scaled(call, y)]


def constant_statistics(call: Call) -> Iterator[Trial]:
    """Yield the gradient of a normalization whose mean and variance count as constants."""
    if call.name not in NORMS or call.name == "group_norm" or call.form != "vjp":
        return
    axes, _ = _reduced(call)
    dout, x = (np.asarray(a) for a in call.arguments[:2])
    mean = 0.0 if call.name == "rms_norm" else x.mean(axes, keepdims=True)
    centred = x - mean
    s = 1 / np.sqrt((centred**2).mean(axes, keepdims=True) + call.settings["eps"])
    rest = flat(call.run())[1:]
    g = _scaled(call.with_inputs(x, *call.inputs[1:2]), dout) if len(call.inputs) > 1 else dout
    yield "mean and variance are taken as constants in the gradient", [g * s, *rest]
    if call.name != "rms_norm":
        no_var = s * (g - g.mean(axes, keepdims=True))
        y = centred * s
        no_mean = s * (g - y * (g * y).mean(axes, keepdims=True))
        yield "the gradient through the variance is missing", [no_var, *rest]
        yield "the gradient through the mean is missing", [no_mean, *rest]


# Derivatives --------------------------------------------------------------------------------------


def wrong_derivative(call: Call) -> Iterator[Trial]:
    """Yield the second derivative for the first, and the derivative at the output."""
    if call.form != "vjp" or len(call.inputs) != 1:
        return
    for suffix, words in (("deriv2", "it is the second derivative, where the first is due"),):
        try:
            f, numeric = form(call.op, suffix)
        except TypeError:
            continue
        if not numeric:
            yield words, [call.arguments[0] * np.asarray(f(call.inputs[0], **call.options))]
    y = Call(call.op, "forward", call.inputs, call.options).run()
    if np.shape(y) == np.shape(call.inputs[0]):
        yield "the derivative is taken at the output, where the input is due", call.with_inputs(y)
        yield "dout is multiplied by the output itself", [call.arguments[0] * y]
    yield "dout is ignored", _with_dout(call, np.ones_like(call.arguments[0]))


def _with_dout(call: Call, dout: Any) -> Call:
    return Call(call.op, call.form, (dout, *call.inputs), call.options)


def without_a_term(call: Call) -> Iterator[Trial]:
    """Yield the gradients of softmax and cross-entropy without their second term."""
    if call.form != "vjp":
        return
    if call.name in ("softmax", "log_softmax"):
        axis, dout = call.settings["axis"], call.arguments[0]
        p = np.exp(x := call.inputs[0] - np.max(call.inputs[0], axis, keepdims=True))
        p = p / p.sum(axis, keepdims=True)
        if call.name == "softmax":
            yield "the sum over the row is missing: it is p dout", [p * dout]
            yield "only the diagonal of the Jacobian is there", [p * (1 - p) * dout]
            rest = dout.sum(axis, keepdims=True)
            yield "the sum over the row lacks the probabilities", [p * (dout - rest)]
        else:
            yield "p is not multiplied by the sum of dout", [dout - p]
            yield "the sum over the row is missing: it is dout alone", [dout + 0 * x]
    if call.name == "cross_entropy" and np.ndim(call.arguments[0]) == 0:
        x = call.inputs[0]
        p = np.exp(x - x.max(-1, keepdims=True))
        p = p / p.sum(-1, keepdims=True)
        n = call.inputs[1].size if call.settings["reduction"] == "mean" else 1
        yield "the target is not subtracted: it is p alone", [call.arguments[0] * p / n]


def attention_gradients(call: Call) -> Iterator[Trial]:
    """Yield gradients of attention with the row sums of softmax left out."""
    if call.name != "scaled_dot_product_attention" or call.form != "vjp":
        return
    q, k, v = call.inputs[:3]
    if np.shape(q)[:-2] != np.shape(k)[:-2]:
        return
    keys = ("mask", "bias", "is_causal", "q_offset", "window", "scale")
    options = {key: call.settings[key] for key in keys}
    if any(call.settings[key] is not None for key in ("sink", "softcap", "dropout")):
        return
    p = _chapter("attention").attention_weights(q, k, **options)
    scale = q.shape[-1] ** -0.5 if options["scale"] is None else options["scale"]
    dp = call.arguments[0] @ np.swapaxes(v, -1, -2)
    rows = (p * dp).sum(-1, keepdims=True)
    dv = np.swapaxes(p, -1, -2) @ call.arguments[0]
    for words, ds in (
        ("the row sum of the softmax's gradient is missing", p * dp),
        ("the scores' gradient lacks the factor p", dp - rows),
        ("the row sum of the softmax's gradient is added, not subtracted", p * (dp + rows)),
        ("the row sum lacks the probabilities", p * (dp - dp.sum(-1, keepdims=True))),
        (
            "the row mean is subtracted, where the row sum is due",
            p * (dp - (p * dp).mean(-1, keepdims=True)),
        ),
    ):
        yield words, [scale * ds @ k, scale * np.swapaxes(ds, -1, -2) @ q, dv]
    raw = q @ np.swapaxes(k, -1, -2) * scale
    ds = p * (dp - rows)
    words = "the scores stand where the probabilities are due"
    yield (
        words,
        [
            scale * ds @ k,
            scale * np.swapaxes(ds, -1, -2) @ q,
            np.swapaxes(raw, -1, -2) @ call.arguments[0],
        ],
    )
    words = "the normalization over keys is taken over queries"
    other = p / np.maximum(p.sum(-2, keepdims=True), 1e-300)
    yield (
        words,
        [
            scale * ds @ k,
            scale * np.swapaxes(ds, -1, -2) @ q,
            np.swapaxes(other, -1, -2) @ call.arguments[0],
        ],
    )


def other_losses(call: Call) -> Iterator[Trial]:
    """Yield a mean over all targets, where ignored ones or weights do not count so."""
    settings = call.settings
    if "reduction" in settings and call.form == "forward":
        loss = np.asarray(call.run())
        yield "it is the exponential of the loss, a perplexity", [np.exp(loss)]
        yield "it is the root of the loss", [np.sqrt(abs(loss))]
    if call.name in ("cross_entropy", "nll") and settings["reduction"] == "mean":
        target, weight = call.inputs[1], settings["weight"]
        seen = target != settings["ignore_index"]
        kept = int(seen.sum())
        if weight is not None and kept:
            mean = np.asarray(weight)[target[seen]].mean()
            words = "the mean divides by the number of targets, not by the sum of their weights"
            yield words, [part * mean for part in flat(call.run())]
        if 0 < kept < target.size:
            parts = [part * (kept / target.size) for part in flat(call.run())]
            yield "the mean counts the ignored targets", parts


HYPOTHESES: tuple[Callable[[Call], Iterator[Trial]], ...] = (
    attention_scale,
    attention_mask,
    masked_rows,
    soft_caps,
    soft_masks,
    scaled_with_scores,
    heads_reshaped,
    over_queries,
    heads_tiled,
    attention_gradients,
    gate_order,
    update_gate,
    forget_bias,
    other_meanings,
    other_options,
    other_positions,
    rotation_signs,
    base_two,
    uphill,
    channels_first,
    applied_twice,
    adam,
    by_a_sigmoid,
    other_variance,
    constant_statistics,
    without_a_term,
    wrong_derivative,
    other_losses,
    other_inputs,
    other_statistics,
)


# Signs --------------------------------------------------------------------------------------------


class Pair(NamedTuple):
    """What a candidate returned as one output, and what is exact."""

    call: Call
    number: int
    got: Any
    want: Any
    bound: Any
    dtype: np.dtype[Any]

    @property
    def gaps(self) -> FloatArray:
        """Return how far each element is off; 0 where both are the same infinity."""
        with np.errstate(all="ignore"):
            return np.where(self.got == self.want, 0.0, np.abs(self.got - self.want))


def _agrees(got: Any, want: Any, pair: Pair) -> bool:
    if np.shape(got) != np.shape(want) or not np.size(want):
        return False
    with np.errstate(all="ignore"):
        both = np.isfinite(got) & np.isfinite(want)
        same = (got == want) | (np.isnan(got) & np.isnan(want))
        gaps = np.where(same, 0.0, np.abs(got - want))
        size = np.max(np.abs(want), where=both, initial=0.0)
        eps = {2: 2.0**-6, 4: 2.0**-23}.get(pair.dtype.itemsize, 2.0**-52)
        bound = pair.bound if np.shape(pair.bound) == np.shape(want) else 0.0
        near = gaps <= 4 * np.asarray(bound) + 64 * eps * size
    if not (near | same).all():
        return False
    if pair.want.shape != pair.got.shape:
        return True
    off = pair.gaps[~np.isnan(pair.gaps)]
    return not off.size or float(gaps[both].max(initial=0.0)) <= LEFT * float(off.max())


def transposed(pair: Pair) -> str:
    """Find an output with two axes exchanged."""
    got, want = pair.got, pair.want
    for a, b in itertools.combinations(range(got.ndim), 2):
        if _agrees(np.swapaxes(got, a, b), want, pair) and (
            got.shape != want.shape or not _agrees(got, want, pair)
        ):
            return f"axes {a} and {b} of the output are exchanged (it is transposed)"
    return ""


def not_summed(pair: Pair) -> str:
    """Find a gradient that was not summed over the axes of a broadcast, or has axes too many."""
    got, want = pair.got, pair.want
    if not got.size or not want.size:
        return ""
    for axis, (many, n) in enumerate(zip(got.shape, want.shape, strict=False)):
        if got.ndim == want.ndim and many > n and many % n == 0:
            parts = got.reshape(*got.shape[:axis], n, -1, *got.shape[axis + 1 :])
            if _agrees(parts.sum(axis + 1), want, pair):
                return f"the gradient is not summed over those that share one along axis {axis}"
    if got.ndim <= want.ndim:
        return ""
    axes = tuple(range(got.ndim - want.ndim))
    if _agrees(got.sum(axes), want, pair):
        return f"the gradient is not summed over the broadcast axes {axes}"
    return ""


def overflown(pair: Pair) -> str:
    """Find NaN and infinities where an exponential overflows, or no key is seen."""
    wrong = ~np.isfinite(pair.got) & np.isfinite(pair.want)
    if not wrong.any():
        return ""
    rows = wrong.reshape(-1, wrong.shape[-1]) if wrong.ndim else wrong.reshape(1, 1)
    want = pair.want.reshape(rows.shape)
    if pair.call.name in ATTENTION and (want[rows.any(-1)] == 0).all():
        return "a query that sees no key gives NaN, not 0"
    if (pair.got[wrong] == -np.inf).all():
        return "the logarithm of a number that is rounded to 0"
    if pair.call.name == "linear_attention":
        return "the weights of a query add up to 0 or to infinity"
    return _of_an_exponential(pair)


def _of_an_exponential(pair: Pair) -> str:
    """Say whether an exponential of the inputs overflows."""
    sizes = [
        float(np.max(np.abs(a), where=np.isfinite(a), initial=0.0))
        for a in pair.call.inputs
        if is_float(a) and np.size(a)
    ]
    name = "float32" if pair.dtype.name == "bfloat16" else pair.dtype
    most = math.log(float(np.finfo(name).max))
    if pair.call.name in (*ATTENTION, "softmax", "log_softmax", "logsumexp", "cross_entropy"):
        reach = sizes[0] * sizes[1] if pair.call.name in ATTENTION else sizes[0]
        if reach > most:
            return "the maximum is not subtracted before exp, which overflows"
    elif max(sizes, default=0.0) > most:
        return "an exponential overflows: it needs the other form for one of the signs"
    return "a division by zero or an overflow inside"


def missing(pair: Pair) -> str:
    """Find an output that is zero, or whose wrong part is: a tile that was not written."""
    if not np.any(pair.got):
        return "it is zero: not computed or not written"
    wrong = (pair.got != pair.want) & ~(pair.gaps <= pair.bound)
    if not np.any(pair.got[wrong]):
        return "the wrong elements are all zero: not written (a tail, a tile, a row)"
    return ""


def multiple(pair: Pair) -> str:
    """Find an output that is a multiple of the exact one."""
    got, want = pair.got, pair.want
    finite = np.isfinite(want)
    base = float((want[finite] ** 2).sum())
    ratio = float((got[finite] * want[finite]).sum()) / base if base else 0.0
    if abs(ratio - 1) < 1e-3 or not _agrees(got, ratio * want, pair):
        return ""
    for words, value in _ratios(pair.call):
        if _agrees(got, value * want, pair):
            return words
    return f"it is the exact result times {ratio:.6g}"


def _ratios(call: Call) -> Iterator[tuple[str, float]]:
    yield "the sign is reversed", -1.0
    if "delta" in call.settings:
        yield "it is divided by delta, as PyTorch's SmoothL1Loss is", 1 / call.settings["delta"]
    loss = "reduction" in call.settings or "loss" in call.name or "squared" in call.name
    yield ("it is doubled: a factor 2, or accumulated twice", 2.0)
    yield ("it is halved: a factor 1/2, where there is none", 0.5)
    if loss:
        yield "logarithms are to base 2, not natural", 1 / LN2
        yield "logarithms are to base 10, not natural", 1 / math.log(10)
    for i, a in enumerate(call.inputs):
        if isinstance(a, tuple | list):  # nested parameters
            continue
        for axis, n in enumerate(max(n, 1) for n in np.shape(a)):
            place = f"axis {axis} of {call.names[i]} ({n})"
            yield f"a mean stands where a sum is due: divided by {place}", 1 / n
            yield f"a sum stands where a mean is due: multiplied by {place}", float(n)
            if loss:
                yield f"1/2 and a sum stand for a mean over {place}", n / 2
            if loss and n > 1:
                yield f"the mean divides by n - 1, not by n: {place}", n / (n - 1)
            yield f"divided by the root of {place}: a scale too many", n**-0.5
            yield f"multiplied by the root of {place}: a scale is missing", n**0.5
        n = max(np.size(a), 1)
        if loss and n > 1:
            yield f"the mean divides by n - 1, not by n: the size {n}", n / (n - 1)
        yield f"a mean stands where a sum is due: divided by the size {n}", 1 / n
        yield f"a sum stands where a mean is due: multiplied by the size {n}", float(n)
    if call.form == "vjp":
        n = max(np.size(flat(call.arguments[0])[0]), 1)
        yield f"a mean stands where a sum is due: divided by the size {n}", 1 / n


def shifted(pair: Pair) -> str:
    """Find an output whose places are shifted or reversed."""
    for axis in range(pair.got.ndim):
        for step in (1, -1):
            if _agrees(np.roll(pair.got, step, axis), pair.want, pair):
                return f"the output is shifted by one along axis {axis}"
        if _agrees(np.flip(pair.got, axis), pair.want, pair):
            return f"the output is reversed along axis {axis}"
    return ""


def cancelled(pair: Pair) -> str:
    """Find a variance of one pass, whose digits cancel at a large mean."""
    if pair.call.name not in NORMS or pair.call.name == "rms_norm":
        return ""
    x = np.asarray(pair.call.inputs[0])
    axes, _ = _reduced(pair.call)
    mean, spread = x.mean(axes, keepdims=True), x.std(axes, keepdims=True)
    if np.median(np.abs(mean)) > 10 * np.median(spread):
        return "the variance cancels: mean of the squares minus the square of the mean"
    return ""


def narrow(pair: Pair) -> str:
    """Find noise of the size that sums in a narrower format leave; a few numbers do not tell."""
    finite = np.isfinite(pair.want)
    want, gaps = pair.want[finite], pair.gaps[finite]
    if want.size < FEW:
        return ""
    rms, rms_of_gaps = (float(np.sqrt((a**2).mean())) for a in (want, gaps))
    if gaps.mean() > EVEN * rms_of_gaps:  # as large everywhere
        return ""
    noise = rms_of_gaps / rms if rms else 0.0
    eps = {4: 2.0**-23, 8: 2.0**-52}.get(pair.dtype.itemsize, 2.0**-11)
    limits = [("float32", 2.0**-24), ("float16 or TF32", 2.0**-11), ("bfloat16", 2.0**-8)]
    for name, unit in limits:
        if unit > eps / 4 and unit / 16 < noise < unit:
            return f"the errors are noise, of the size that sums or inputs in {name} leave"
    if pair.dtype.itemsize == 2 and noise < 0.05:
        return f"the errors are noise, of the size that sums in {pair.dtype} leave"
    return ""


SIGNS: tuple[Callable[[Pair], str], ...] = (missing, multiple, shifted, transposed)
LAST: tuple[Callable[[Pair], str], ...] = (cancelled, narrow)


def _trials(call: Call) -> Iterator[tuple[str, list[Any]]]:
    other = contextlib.suppress(TypeError, ValueError, IndexError)  # it is of other inputs
    for hypothesis in HYPOTHESES:
        with other:
            for words, trial in hypothesis(call):
                with other:
                    run = trial.run() if isinstance(trial, Call) else tuple(trial)
                    yield words, flat(run)


@np.errstate(all="ignore")  # infinities are expected in scores that are masked
def cause_of(call: Call, number: int, got: Any, want: list[Any], bound: Any, dtype: Any) -> str:
    """Return what explains the difference of one output, empty if nothing known does."""
    exact = np.asarray(want[number], np.float64)
    if got is None:
        return "the gradient of one operand is missing" if call.form == "vjp" else ""
    if got.dtype.kind not in "fiub" and got.dtype.name != "bfloat16":
        return ""
    pair = Pair(call, number, got.astype(np.float64), exact, bound, np.dtype(dtype))
    if pair.got.shape != exact.shape:
        words = next(filter(None, (sign(pair) for sign in (transposed, not_summed))), "")
        return words or _another(pair, want)
    if pair.dtype != got.dtype or not exact.size:
        return ""
    return overflown(pair) or _explained(pair) or _another(pair, want)


def _another(pair: Pair, want: list[Any]) -> str:
    for i, other in enumerate(want):
        if i == pair.number or other is None or not np.any(other):
            continue
        if _agrees(pair.got, other, pair):
            return f"it equals output {i}: the outputs are in another order"
    return ""


def _explained(pair: Pair) -> str:
    for words, other in _trials(pair.call):
        if pair.number < len(other) and _agrees(pair.got, np.asarray(other[pair.number]), pair):
            return words
    return next(filter(None, (sign(pair) for sign in (*SIGNS, *LAST))), "")
