"""Attention: scale, masks, soft caps and heads."""

from __future__ import annotations

import functools
import itertools
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from ...._core.pytree import tree_leaves
from ..calls import ReferenceCall
from .common import LN2, Trials, chapter

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Lengths of tiles of keys.
TILES = (16, 32, 64, 128)
WINDOWS = {-1: "too short", 1: "too long"}
RETURNED = ("return_lse", "return_weights")
UNMASKED = {"mask": None, "is_causal": False, "q_offset": 0, "window": None}
SPLITS = {
    "heads are split by a reshape without a transposition": ("rows", "heads"),
    "heads are joined by a reshape without a transposition": ("heads", "rows"),
    "heads are split and joined by a reshape without a transposition": ("rows", "rows"),
    "the channels of a head lie apart, a stride of the number of heads": ("inner", "inner"),
    "heads are split with the stride of the number of heads, but not joined so": ("inner", "heads"),
}


def _scale(call: ReferenceCall) -> float:
    scale = call.settings["scale"]
    return float(np.shape(call.inputs[0])[-1] ** -0.5 if scale is None else scale)


def scales(call: ReferenceCall) -> Trials:
    d = np.shape(call.inputs[0])[-1]
    scale = _scale(call)
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
    if len(call.inputs) > 2 and np.shape(call.inputs[2])[-1] != d:
        width = np.shape(call.inputs[2])[-1]
        values.append(("the scale of the scores has the width of the values", width**-0.5))
    for message, value in values:
        if not math.isclose(value, scale):
            yield message, call.with_options(scale=value)


def masks(call: ReferenceCall, keys: int = 1) -> Trials:
    """Yield masks inverted, shifted, or anchored at the other end, and windows of another width."""
    settings = call.settings
    if (mask := settings["mask"]) is not None:
        yield "the mask is inverted: True has to mean attend", call.with_options(mask=~mask)
        if mask.ndim > 1 and mask.shape[-1] == mask.shape[-2]:
            yield "the mask is transposed", call.with_options(mask=np.swapaxes(mask, -1, -2))
    t, s = (np.shape(call.inputs[i])[-2] for i in (0, keys))
    for message, kept in _kept_keys(s):
        yield message, call.with_options(mask=kept if mask is None else mask & kept)
    if settings["is_causal"]:
        offset = settings.get("q_offset") or 0
        for message, value in (
            ("the causal mask is anchored at the last key (bottom right)", s - t),
            ("the causal mask is anchored at the first key (top left)", 0),
            ("the causal mask is shifted by one: a query does not see its own key", offset - 1),
            ("the causal mask is shifted by one: a query sees the next key", offset + 1),
        ):
            if "q_offset" in settings and np.any(value != offset):
                yield message, call.with_options(q_offset=value)
    if settings.get("window") is not None:
        for message, window in _windows(*settings["window"]):
            yield message, call.with_options(window=window)
        if np.any(settings.get("q_offset")):
            left, right = settings["window"]
            near = chapter("attention").window_mask(t, s, left=left, right=right)
            kept = near if mask is None else mask & near
            yield "the window does not heed q_offset", call.with_options(window=None, mask=kept)


def _kept_keys(count: int) -> Iterator[tuple[str, Any]]:
    """Yield which keys a kernel sees that leaves out the first, the last or a part of a tile."""
    place = np.arange(count)
    yield "the last key is left out", place != count - 1
    yield "the first key is left out", place != 0
    left = {count % tile: tile for tile in TILES if 1 < count % tile < count}
    for rest, tile in left.items():  # the longest tile of those that leave as many
        message = f"the last {rest} keys, beyond a multiple of {tile}, are left out"
        yield message, place < count - rest


def _windows(left: Any, right: Any) -> Iterator[tuple[str, Any]]:
    """Yield other windows: without an end, alike on both sides, one key longer or shorter."""
    yield "the window has no right end: keys after it are seen", (left, None)
    yield "the window has no left end: keys before it are seen", (None, right)
    if right == 0 != left:
        yield "the window is as long to the right as it should be to the left", (left, left)
    sides = {" on both sides": (1, 1), " on the left": (1, 0), " on the right": (0, 1)}
    for (where, moved), by in itertools.product(sides.items(), (-1, 1)):
        ends = zip((left, right), moved, strict=True)
        window = tuple(end if end is None else end + by * m for end, m in ends)
        if window != (left, right) and all(end is None or end >= 0 for end in window):
            yield f"the window is one key {WINDOWS[by]}{where}", window


#: The same for self-attention.
masks_of_itself = functools.partial(masks, keys=0)


def _seen(call: ReferenceCall) -> Any:
    """Return which keys a query sees."""
    q, k = (np.zeros(np.shape(a)) for a in call.inputs[:2])
    masks = {key: call.settings[key] for key in UNMASKED}
    return np.isfinite(chapter("attention").attention_scores(q, k, **masks))


def _with_scores(call: ReferenceCall, scores: Any, **options: Any) -> ReferenceCall:
    """Return attention with these scores in place of products of queries and keys."""
    q, k = (np.zeros((*np.shape(a)[:-1], 1)) for a in call.inputs[:2])
    blind = call.with_inputs(q, k, *call.inputs[2:])
    return blind.with_options(bias=scores, softcap=None, **options)


def soft_caps(call: ReferenceCall) -> Trials:
    """Yield soft caps of scores before their scale, with their bias, or with their mask."""
    cap, settings = call.settings.get("softcap"), call.settings
    if cap is None:
        return
    q, k = call.inputs[:2]
    scale = _scale(call)
    message = "the soft cap is applied to the scores before their scale"
    yield message, call.with_options(softcap=cap * scale)
    if call.form != "forward":
        return
    bias = 0.0 if settings["bias"] is None else settings["bias"]
    raw = chapter("attention").attention_scores(q, k, scale=scale)
    masked = {key: settings[key] for key in UNMASKED if key in settings}
    for message, capped in (
        ("the soft cap is a hard one: the scores are clipped", np.clip(raw, -cap, cap)),
        ("the soft cap lacks its factor outside of the tanh", np.tanh(raw / cap)),
    ):
        yield message, _with_scores(call, capped + bias, **masked)
    scores = cap * np.tanh((raw + bias) / cap)
    if settings["bias"] is not None:
        message = "the soft cap is applied to the scores with their bias"
        yield message, _with_scores(call, scores)
    softened = np.where(_seen(call), scores, -cap)
    message = "the soft cap is applied after the mask: hidden keys keep a weight"
    yield message, _with_scores(call, softened, **UNMASKED)


def soft_masks(call: ReferenceCall) -> Trials:
    """Yield masks that leave hidden keys a weight, or a place in the sum."""
    if call.form != "forward" or (seen := _seen(call)).all():
        return
    names = ("bias", "scale", "softcap")
    options = {key: call.settings[key] for key in names}
    scores = chapter("attention").attention_scores(*call.inputs[:2], **options)
    for message, changed in (
        ("the mask multiplies the scores: hidden ones are 0, not -inf", scores * seen),
        ("the mask is added as 0 and 1, where hidden scores have to be -inf", scores + seen),
    ):
        yield message, _with_scores(call, changed, **UNMASKED)
    for value in (-1.0, -10.0, -100.0, -1e3, -1e4):
        message = f"hidden scores are {value:g}, not -inf: they keep a weight"
        yield message, _with_scores(call, np.where(seen, scores, value), **UNMASKED)
    message = "the mask is applied after the softmax, whose sum counts hidden keys"
    whole = call.with_options(**UNMASKED)
    if "sink" in call.settings and "dropout" not in call.settings:  # weights alone
        yield message, [whole.run() * seen]
    if "dropout" in call.settings:
        kept = 1.0 if call.settings["dropout"] is None else call.settings["dropout"]
        yield message, whole.with_options(dropout=kept * seen)


def dropouts(call: ReferenceCall) -> Trials:
    """Yield weights that are dropped without a factor, or add up to 1 again."""
    dropout = call.settings.get("dropout")
    if dropout is None:
        return
    kept = np.asarray(dropout) != 0
    if not np.array_equal(kept, dropout):
        message = "the weights that dropout keeps are not divided by 1 - rate"
        yield message, call.with_options(dropout=kept.astype(float))
    ones = call.settings["sink"] is None
    if call.form == "forward" and ones and not any(call.settings[k] for k in RETURNED):
        weights = chapter("attention").attention_weights
        options = {
            k: v for k, v in call.non_default_options.items() if k not in ("dropout", "indices")
        }
        p = np.asarray(ReferenceCall(weights, "forward", call.inputs[:2], options).run()) * dropout
        total = p.sum(-1, keepdims=True)
        out = p / np.where(total == 0, 1.0, total) @ _for_each_head(call.inputs[2], p)
        yield "the weights are normalized again after dropout", [out]


def scaled_with_scores(call: ReferenceCall) -> Trials:
    for key in ("bias", "sink"):
        if (value := call.settings.get(key)) is not None:
            message = f"the {key} is scaled with the scores, which it has to be added to after"
            yield message, call.with_options(**{key: value * _scale(call)})
            for what, factor in (("log2(e)", LN2), ("ln 2", 1 / LN2)):
                message = f"the {key} lacks the factor {what} of its scores' unit"
                yield message, call.with_options(**{key: value * factor})
    if (sink := call.settings.get("sink")) is not None and call.form == "forward":
        yield "the sink counts twice in the sum", call.with_options(sink=sink + LN2)
        if (cap := call.settings["softcap"]) is not None:
            message = "the soft cap is applied to the sink, too"
            yield message, call.with_options(sink=cap * np.tanh(sink / cap))


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


def heads_reshaped(call: ReferenceCall) -> Trials:
    """Yield multi-head attention whose heads are cut out of the wrong places."""
    settings = call.settings
    if call.form != "forward" or any(settings[key] is not None for key in ("rope", "cache")):
        return
    x, y, p = call.inputs
    linear, attention = chapter("neurons").linear, chapter("attention")
    heads = settings["num_heads"]
    keys = heads if settings["num_kv_heads"] is None else settings["num_kv_heads"]
    q, k, v = linear(x, p.w_q, p.b_q), linear(y, p.w_k, p.b_k), linear(y, p.w_v, p.b_v)
    names = ("mask", "bias", "is_causal", "window", "scale", "softcap", "sink", "dropout")
    options = {key: settings[key] for key in names} | {"q_offset": settings["q_offset"] or 0}
    for message, (split, join) in SPLITS.items():
        parts = (_split(a, n, split) for a, n in ((q, heads), (k, keys), (v, keys)))
        out = attention.scaled_dot_product_attention(*parts, **options)
        yield message, [linear(_joined(out, join), p.w_o, p.b_o)]


def heads_tiled(call: ReferenceCall) -> Trials:
    """Yield key heads tiled (0 1 0 1) where each has to serve neighbors (0 0 1 1)."""
    q, k = call.inputs[:2]
    if np.ndim(q) > 2 and np.shape(q)[-3] != np.shape(k)[-3] and call.form != "jvp":
        n = np.shape(q)[-3] // np.shape(k)[-3]
        tiled = call.with_inputs(q, *(np.concatenate([a] * n, -3) for a in call.inputs[1:]))
        message = "the key heads are tiled (0 1 0 1), not repeated (0 0 1 1)"
        if call.form == "forward":
            yield message, tiled
        else:
            dq, *rest = tree_leaves(tiled.run())
            count = len(call.inputs) - 1
            shared = (sum(np.split(g, n, -3)) for g in rest[:count])
            yield message, [dq, *shared, *rest[count:]]


def _for_each_head(v: Any, q: Any) -> Any:
    heads = q.shape[-3] // v.shape[-3] if q.ndim > 2 else 1
    return np.repeat(v, heads, -3) if heads > 1 else v


def masked_rows(call: ReferenceCall) -> Trials:
    if call.form == "forward":
        out = np.asarray(tree_leaves(call.run())[0])
        v = call.inputs[2]
        mean = _for_each_head(v, out)
        empty = (out == 0).all(-1, keepdims=True)
        if empty.any():
            message = "a query that sees no key gets the mean of the values, not 0"
            yield message, [np.where(empty, mean.mean(-2, keepdims=True), out)]


def _of_their_head(parts: Any, like: Any) -> dict[str, Any]:
    """Return gradients of keys or values for each query head, joined in right and wrong ways."""
    count = np.shape(like)[-3] if np.ndim(like) > 2 else 1
    if parts.ndim < 3 or parts.shape[-3] == count:
        return {"": parts}
    each = parts.reshape(*parts.shape[:-3], count, -1, *parts.shape[-2:])
    tiled = parts.reshape(*parts.shape[:-3], -1, count, *parts.shape[-2:])
    return {
        "": each.sum(-3),
        "are of the first query head of each group alone, not summed": each[..., 0, :, :],
        "are of the last query head of each group alone, not summed": each[..., -1, :, :],
        "are summed over heads apart (0 1 0 1), not neighbors (0 0 1 1)": tiled.sum(-4),
    }


def gradients(call: ReferenceCall) -> Trials:
    """Yield gradients of attention by its textbook formula, with a mistake in one of its lines."""
    q, k, v = call.inputs[:3]
    grouped = np.shape(q)[:-3] == np.shape(k)[:-3] == np.shape(v)[:-3]
    if call.form != "vjp" or not grouped or call.settings["indices"] is not None:
        return
    if isinstance(call.arguments[0], tuple):  # with the gradient of the log-sum-exp
        return
    if (dlse := call.settings.get("dlse")) is not None:
        yield "the gradient of the log-sum-exp, dlse, is ignored", call.with_options(dlse=None)
    keys = (*UNMASKED, "bias", "scale", "softcap", "sink")
    options = {key: call.settings[key] for key in keys}
    p = chapter("attention").attention_weights(q, k, **options)
    keys_of, values_of = (_for_each_head(a, np.asarray(q)) for a in (k, v))
    scale = q.shape[-1] ** -0.5 if options["scale"] is None else options["scale"]
    drop = 1.0 if call.settings["dropout"] is None else call.settings["dropout"]
    dout = call.arguments[0]
    dp = dout @ np.swapaxes(values_of, -1, -2)
    rows = (p * dp * drop).sum(-1, keepdims=True)
    rows = rows if dlse is None else rows - dlse[..., None]
    raw = q @ np.swapaxes(keys_of, -1, -2) * scale
    cap = options["softcap"]
    slope = scale * (1.0 if cap is None else 1 - np.tanh(raw / cap) ** 2)
    right = p * (dp * drop - rows)
    rest = tree_leaves(call.run())[3:]

    def of(ds: Any, weights: Any = p * drop, by: Any = slope, *, joined: str = "") -> list[Any]:
        dk, dv = np.swapaxes(ds * by, -1, -2) @ q, np.swapaxes(weights, -1, -2) @ dout
        shared = [_of_their_head(*pair)[joined] for pair in ((dk, k), (dv, v))]
        return [(ds * by) @ keys_of, *shared, *rest]

    yield "the row sum of the softmax's gradient is missing", of(p * dp * drop)
    yield "the scores' gradient lacks the factor p", of(dp * drop - rows)
    yield "the row sum of the softmax's gradient is added, not subtracted", of(p * (dp + rows))
    yield "the row sum lacks the probabilities", of(p * (dp - dp.sum(-1, keepdims=True)))
    message = "the row mean is subtracted, where the row sum is due"
    yield message, of(p * (dp - (p * dp).mean(-1, keepdims=True)))
    yield "the scores stand where the probabilities are due", of(right, raw)
    message = "the normalization over keys is taken over queries"
    yield message, of(right, p / np.maximum(p.sum(-2, keepdims=True), 1e-300))
    yield "the gradient lacks the scale of the scores, 1/sqrt(E)", of(right, by=slope / scale)
    yield "the gradient has the scale of the scores, 1/sqrt(E), twice", of(right, by=slope * scale)
    if cap is not None:
        yield "the gradient lacks the slope of the soft cap, 1 - tanh^2", of(right, by=scale)
    if np.any(drop != 1):
        yield "dv lacks the mask of dropout", of(right, p)
        message = "the gradient of the probabilities lacks the mask of dropout"
        yield message, of(p * (dp - (p * dp).sum(-1, keepdims=True)))
    if np.shape(q)[:-2] != np.shape(k)[:-2]:
        for way in filter(None, _of_their_head(np.zeros((*np.shape(q)[:-2], 1, 1)), k)):
            yield f"dk and dv {way}", of(right, joined=way)
