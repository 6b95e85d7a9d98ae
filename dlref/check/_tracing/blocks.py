"""
The blocks, written out.

This is a second transcription of `dlref.transformer`, on purpose.  It is the oracle of a trace:
tests hold that it arrives at the numbers of the forward pass, which keeps no T x T arrays, has
fused kernels and shares projections.  And it can be made to go wrong: a mistake changes its
parameters, its options, or the entry "wrong", and no such side door belongs into the
forward pass.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ... import formulas
from ..._core.arguments import FloatArray
from ...activations import sigmoid, softmax
from ...activations._by_name import by_name
from ...attention import LatentAttentionParams, attention_scores, attention_weights
from ...normalization import layer_norm, rms_norm
from ...positions import apply_rope, rope_permutation
from ...transformer import (
    GatedDeltaParams,
    GatedFeedForwardParams,
    MixtureParams,
    mixture_of_experts,
    top_k_router,
)
from .common import GATES, Options, Steps, in_part, inner_eps, joined, linear, split
from .delta import delta_steps
from .latent import attention_options, latent_steps

#: Mistakes inside of RMS norms, by their names in the options.
IN_NORMS = {
    "eps outside": "eps is added to the root, not under it",
    "weight first": "inputs of the norms are multiplied by the weight before their mean square",
    "eps of the largest": "eps is multiplied by the largest square of the inputs of a norm",
    "times the root": "inputs of the norms are multiplied by the root, not divided by it",
}


def _mean(squares: FloatArray) -> Any:
    return np.mean(squares, axis=-1, keepdims=True)


#: What such a mistake divides by, given squares and epsilon.
ROOTS: dict[str, Callable[[FloatArray, Any], Any]] = {
    "eps outside": lambda squares, eps: np.sqrt(_mean(squares)) + eps,
    "eps of the largest": lambda squares, eps: np.sqrt(
        _mean(squares) + eps * squares.max(-1, keepdims=True)
    ),
    "times the root": lambda squares, eps: 1 / np.sqrt(_mean(squares) + eps),
}


def normed(x: FloatArray, p: Any, o: Options, name: str = "") -> FloatArray:
    """Normalize as a block with these parameters and options does; `name` is the norm's."""
    if name in (eps_of := o.get("eps_of", {})):
        o = o | {"eps": eps_of[name]}
    if o["norm"] == "layer" or (o["norm"] is None and p.bias is not None):
        weight = None if p.weight is None else p.weight + x.dtype.type(o["norm_offset"])
        return layer_norm(x, weight, p.bias, eps=o["eps"])
    if o.get("wrong") in ROOTS:
        root = ROOTS[o["wrong"]](np.asarray(x * x), x.dtype.type(o["eps"]))
        return np.asarray(x / root * (p.weight + x.dtype.type(o["norm_offset"])))
    if o.get("wrong") == "weight first":
        weighed = np.asarray(x * (p.weight + x.dtype.type(o["norm_offset"])))
        return rms_norm(weighed, np.ones_like(p.weight), eps=o["eps"])
    y = rms_norm(x, p.weight, eps=o["eps"], weight_offset=o["norm_offset"])
    return y if p.bias is None else y + p.bias  # a bias only after a mistake


def _heads(x: FloatArray, count: int, wrong: str) -> FloatArray:
    if wrong == "cut":
        return x.reshape(*x.shape[:-2], count, x.shape[-2], x.shape[-1] // count)
    return split(x, count)


def _attend(x: FloatArray, p: Any, o: Options, y: Any = None, part: str = "attention") -> Steps:
    """Return the steps of attention to `y`, of self-attention if there is none."""
    if isinstance(p, LatentAttentionParams):
        return latent_steps(x, p, o, part)
    if isinstance(p, GatedDeltaParams):
        return delta_steps(x, p, o, part)
    H, y, wrong = o["num_heads"], x if y is None else y, o.get("wrong", "")
    keys = o["num_kv_heads"] or H
    q, k, v = (
        _heads(linear(x, p.w_q, p.b_q), H, wrong),
        _heads(linear(y, p.w_k, p.b_k), keys, wrong),
        _heads(linear(y, p.w_v, p.b_v), keys, wrong),
    )
    steps: Steps = {"q": q, "k": k, "v": v}
    order = [_normalize, _clip, _rotate]
    if o["norm_after_rope"]:
        order = [_clip, _rotate, _normalize]
    if wrong in ("bounds first", "bounds last"):
        order = sorted(order, key=lambda change: (change is _clip) == (wrong == "bounds last"))
    for change in order:
        changed = change(q, k, v, p, o)
        q, k, v = changed.get("q", q), changed.get("k", k), changed.get("v", v)
        name = {_rotate: "rotated", _normalize: "normed", _clip: "clipped"}[change]
        shown = "qkv" if change is _clip else "qk"
        steps |= {f"{key}_{name}": changed[key] for key in shown if key in changed}
    options = attention_options(o, x.shape[-2])
    steps["scores"] = attention_scores(q, k, **options)
    steps["weights"] = attention_weights(q, k, sink=p.sink, **options)
    if wrong == "axis":
        steps["weights"] = _over_queries(steps["scores"])
    if wrong == "masked weights":
        seen = np.isfinite(steps["scores"])
        free = options | {"mask": None, "is_causal": False, "window": None}
        steps["weights"] = np.asarray(softmax(attention_scores(q, k, **free))) * seen
    if wrong == "clipped":
        scores, cap = attention_scores(q, k, **options | {"softcap": None}), o["softcap"]
        steps["scores"] = np.where(np.isfinite(scores), np.clip(scores, -cap, cap), scores)
        steps["weights"] = np.asarray(softmax(steps["scores"]))
    steps["averages"] = steps["weights"] @ np.repeat(v, H // keys, axis=-3)
    merged = joined(steps["averages"])
    if wrong == "merge":
        merged = steps["averages"].reshape(merged.shape)
    if p.w_gate is not None:
        steps["gate"] = linear(x, p.w_gate, p.b_gate)
        if wrong != "gate":
            merged = merged * (steps["gate"] if wrong == "open" else sigmoid(steps["gate"]))
    steps["out"] = linear(merged, p.w_o, p.b_o)
    return in_part(part, steps)


def _clip(q: FloatArray, k: FloatArray, v: FloatArray, p: Any, o: Options) -> Steps:
    """Return queries, keys and values between their bounds, if there are any."""
    c, wrong = o["clip_qkv"], o.get("wrong", "")
    if c is None:
        return {}
    bounded = {"q": q, "k": k} | ({} if wrong == "values free" else {"v": v})
    if wrong == "bounded above":
        return {name: np.asarray(np.minimum(x, x.dtype.type(c))) for name, x in bounded.items()}
    return {name: np.clip(x, -c, c) for name, x in bounded.items()}


def _rotate(q: FloatArray, k: FloatArray, v: FloatArray, p: Any, o: Options) -> Steps:
    """Return queries and keys after the rotation, if there is one."""
    if o["rope"] is None:
        return {}
    (cos, sin), wrong = o["rope"], o.get("wrong", "")
    of_keys, neighbors = o.get("rope_of_keys", (cos, sin)), o["rope_interleaved"]
    rotated = []
    of_values = [(v, (cos, sin))] if wrong.startswith("values") else []
    for a, tables in ((q, (cos, sin)), (k, of_keys), *of_values):
        if wrong in PLACES:
            numbers = cos[: a.shape[PLACES[wrong]]], sin[: a.shape[PLACES[wrong]]]
            tables = [_along(table, a, PLACES[wrong]) for table in numbers]  # noqa: PLW2901
        if wrong.endswith((" by halves", " by neighbors")):
            of_neighbors = wrong.startswith("neighbors")
            rotated.append(_by_other_tables(a, cos, sin, neighbors=of_neighbors))
            continue
        pairs, R = neighbors != (a is v and wrong == "values by other pairs"), 2 * cos.shape[-1]
        first = np.roll(a, R, axis=-1) if wrong == "last channels" else a
        turned = np.asarray(apply_rope(first, *tables, interleaved=pairs, rotary_dim=R))
        rotated.append(np.roll(turned, -R, axis=-1) if wrong == "last channels" else turned)
    steps = {"q": rotated[0], "k": k if wrong == "keys" else rotated[1]}
    return steps | dict(zip("v", rotated[2:], strict=False))


#: Axes whose numbers may be taken for positions by mistake.
PLACES = {"places are heads": -3}


def _along(table: Any, x: FloatArray, axis: int) -> FloatArray:
    """Return a table whose rows follow another axis of x, for each of its rows."""
    shape = [1] * x.ndim
    shape[axis], shape[-1] = table.shape
    return np.broadcast_to(table.reshape(shape), (*x.shape[:-1], table.shape[-1]))


def _by_other_tables(x: FloatArray, cos: Any, sin: Any, *, neighbors: bool) -> FloatArray:
    """Return a rotation of neighbors by tables in halves, or of halves by tables of neighbors."""
    R = np.shape(cos)[-1]
    order = rope_permutation(2 * R)
    back = np.argsort(order)
    halves = x[..., : 2 * R][..., order] if neighbors else x[..., : 2 * R]
    crossed = np.concatenate([-halves[..., R:], halves[..., :R]], axis=-1)
    both = (np.concatenate([table, table], axis=-1) for table in (cos, sin))
    # Tables in halves meet channels that are not, and the other way round.
    of_cos, of_sin = (table[..., order if neighbors else back] for table in both)
    out = halves * of_cos + crossed * of_sin
    return np.concatenate([out[..., back] if neighbors else out, x[..., 2 * R :]], axis=-1)


def _normalize(q: FloatArray, k: FloatArray, v: FloatArray, p: Any, o: Options) -> Steps:
    """Return queries and keys after their norms, where there are any."""
    steps = {}
    for name, x, w in (("q", q, p.q_norm), ("k", k, p.k_norm)):
        if w is not None and w.ndim == 2:
            weights = w[:, None, :] + x.dtype.type(o["norm_offset"])
            of_heads = rms_norm if o.get("wrong") == "rms of heads" else layer_norm
            steps[name] = np.asarray(weights * of_heads(x, eps=inner_eps(o)))
        elif w is not None:
            together = len(w) != x.shape[-1]
            rows = np.swapaxes(x, -2, -3)
            if together and "norm_parts" in o:
                steps[name] = _by_parts(x, w, o)
                continue
            rows = rows.reshape(*rows.shape[:-2], -1) if together else rows
            y = rms_norm(rows, w, eps=inner_eps(o), weight_offset=o["norm_offset"])
            steps[name] = np.swapaxes(y.reshape(np.swapaxes(x, -2, -3).shape), -2, -3)
    return steps


def _by_parts(x: FloatArray, w: FloatArray, o: Options) -> FloatArray:
    """Return the norm of all heads taken over each head alone, or over so many parts of them."""
    heads, T, E = x.shape[-3:]
    parts = o["norm_parts"] or heads
    rows = joined(x).reshape(*x.shape[:-3], T, parts, -1)
    unit = np.ones(rows.shape[-1], x.dtype)
    y = rms_norm(rows, unit, eps=inner_eps(o)).reshape(*x.shape[:-3], T, heads * E)
    return split(np.asarray(y * (w + x.dtype.type(o["norm_offset"]))), heads)


def _over_queries(scores: FloatArray) -> FloatArray:
    """Return the softmax of scores over the wrong axis."""
    with np.errstate(invalid="ignore", over="ignore"):
        e = np.exp(scores - scores.max(-2, keepdims=True, initial=-np.inf))
        return np.asarray(e / e.sum(-2, keepdims=True))


def _quick_gelu(x: FloatArray) -> FloatArray:
    return np.asarray(x * sigmoid(x.dtype.type(1.702) * x))


def _network(x: FloatArray, p: Any, o: Options) -> Steps:
    if isinstance(p, MixtureParams):
        return _mixture(x, p, o)
    f = _quick_gelu if o.get("wrong") == "quick" else by_name(o["activation"]).map
    if isinstance(p, GatedFeedForwardParams):
        steps: Steps = {
            "feed_forward.gate": linear(x, p.w_gate, p.b_gate),
            "feed_forward.up": linear(x, p.w_up, p.b_up),
        }
        gate, up = steps.values()
        hidden: Any = f(gate) * up
        if o.get("wrong") in ("up", "product"):
            hidden = gate * f(up) if o["wrong"] == "up" else f(gate * up)
        out = linear(hidden, p.w_down, p.b_down)
    else:
        steps = {"feed_forward.inner": linear(x, p.w1, p.b1)}
        hidden = f(steps["feed_forward.inner"])
        out = linear(hidden, p.w2, p.b2)
    return steps | {"feed_forward.hidden": hidden, "feed_forward.out": out}


def _mixture(x: FloatArray, p: Any, o: Options) -> Steps:
    """Return the steps of a mixture of experts: the choice of the router, and the sum."""
    options = dict(o["router"])
    if "shared_factor" in o and p.shared is not None:
        down = np.asarray(p.shared.w_down)
        p = p._replace(shared=p.shared._replace(w_down=down * down.dtype.type(o["shared_factor"])))
    if o.get("wrong") in (*ROUTING, *BOUNDS):
        return _misrouted(x, p, options, o)
    names = ("k", "score", "groups", "top_groups", "normalize", "scale")
    chosen = {name: options[name] for name in names if name in options}
    bias, correction = p.router_bias, p.correction
    routing = top_k_router(x, p.router, bias=bias, correction=correction, **chosen)
    units = {activation: unit for unit, activation in GATES.items()}
    more = {"router_bias": bias, "correction": correction, "activation": units[o["activation"]]}
    by_mistake = o.get("wrong") in SHARED
    more |= {} if by_mistake else {"shared": p.shared, "shared_gate": p.shared_gate}
    out = mixture_of_experts(x, p.router, p.experts, **options, **more)
    return {
        "feed_forward.router": linear(x, p.router, bias),
        "feed_forward.weights": routing.weights,
        "feed_forward.out": _with_shared(out, x, p, o) if by_mistake else out,
    }


#: Mistakes in the gate of the shared expert, by their names in the options.
SHARED = {
    "shared open": "the gate of the shared expert lacks its sigmoid",
    "all gated": "the gate of the shared expert multiplies the output of all experts",
    "others gated": "the gate of the shared expert multiplies the output of the other experts",
}


def _with_shared(out: FloatArray, x: FloatArray, p: Any, o: Options) -> FloatArray:
    """Add the output of the shared expert by mistake to the output of the others."""
    shared: FloatArray = _network(x, p.shared, o | {"wrong": ""})["feed_forward.out"]
    gate = linear(x, p.shared_gate)
    if o["wrong"] == "shared open":
        return out + gate * shared
    return sigmoid(gate) * out + (sigmoid(gate) if o["wrong"] == "all gated" else 1) * shared


#: Mistakes in the choice of experts, by their names in the options.
ROUTING = {
    "corrected": "the correction of the router is in the experts' weights, too",
    "one of a group": "groups of experts are chosen by their best expert, not by their two best",
    "two of a group": "groups of experts are chosen by their two best experts, not by the best one",
    "weighted inputs": "the experts' weights multiply their inputs, not their outputs",
    "weighted twice": "the experts' weights multiply their outputs twice",
    "masked as 0": "scores outside the best groups are 0, not minus infinity",
    "logits": "the experts' weights are the router's logits, not their scores",
    "corrected logits": "the correction is added to the router's logits, not to their scores",
}


#: Mistakes in the bounds of gate and up in experts that have a limit: multiples of it.
FREE, INSIDE = (-np.inf, np.inf), (-1.0, 1.0)
ABOVE = (-np.inf, 1.0)
BOUNDS = {
    "the experts' gate is bounded below, too": (INSIDE, INSIDE),
    "the experts' gate is not bounded": (FREE, INSIDE),
    "the experts' up is not bounded": (ABOVE, FREE),
    "the experts' up is bounded above alone": (ABOVE, ABOVE),
}


def _expert(x: FloatArray, p: Any, units: Options, wrong: str) -> Any:
    """Return the output of an expert, whose gate and up may have other bounds."""
    plain: Any = formulas.transformer
    if wrong not in BOUNDS:
        return plain.expert(x, p, units)
    limit, gate, up = units["limit"], linear(x, p.w_gate, p.b_gate), linear(x, p.w_up, p.b_up)
    bounds = [[limit * n for n in pair] for pair in BOUNDS[wrong]]
    inner = [np.clip(z, *pair) for z, pair in zip((gate, up), bounds, strict=True)]
    return linear(plain.expert_units(*inner, **units | {"limit": None}), p.w_down, p.b_down)


def _misrouted(x: FloatArray, p: Any, options: Options, o: Options) -> Steps:
    """Return the steps of a mixture whose experts are chosen or weighed by mistake."""
    wrong, score = o["wrong"], options.get("score", "softmax")
    logits = linear(x, p.router, p.router_bias)
    plain: Any = formulas.transformer  # which loads SciPy, and whose functions have no annotations
    scores = plain.router_scores(logits, score)
    corrected = scores if p.correction is None else scores + p.correction
    if wrong == "corrected logits":
        scores = corrected = plain.router_scores(logits + p.correction, score)
    chosen_by, groups = corrected, options.get("groups", 1)
    if groups > 1:
        like = {"one of a group": "softmax", "two of a group": "sigmoid"}.get(wrong, score)
        best = plain.within_best_groups(corrected, like, groups, options["top_groups"])
        chosen_by = np.where(np.isfinite(best), best, 0.0 if wrong == "masked as 0" else -np.inf)
    experts = np.argsort(-chosen_by, axis=-1, kind="stable")[..., : options["k"]]
    of_all = {"corrected": corrected, "logits": logits}.get(wrong, scores)
    weights = np.take_along_axis(of_all, experts, axis=-1)
    sums_to_1 = options.get("normalize", True) or score == "softmax_of_top"
    if sums_to_1 and wrong != "logits":
        weights = weights / (np.sum(weights, axis=-1, keepdims=True) + plain.TINY)
    weights = weights * options.get("scale", 1.0)
    n = len(p.router)
    units: Options = {"activation": {f: unit for unit, f in GATES.items()}[o["activation"]]}
    units |= {"limit": None, "shift": 0.0, "beta": 1.0}
    units |= {name: options[name] for name in ("limit", "shift", "beta") if name in options}
    dense = plain.dense_weights(weights, experts, n)
    first = dense if wrong == "weighted inputs" else np.ones_like(dense)
    inputs = [first[..., e, None] * x for e in range(n)]
    experts_of = [plain.of_expert(p.experts, e) for e in range(n)]
    parts = [_expert(z, own, units, wrong) for z, own in zip(inputs, experts_of, strict=True)]
    after = {"weighted inputs": dense != 0, "weighted twice": dense * dense}.get(wrong, dense)
    out = sum(after[..., e, None] * part for e, part in enumerate(parts))
    if p.shared is not None:
        out = out + plain.shared_expert(x, p.shared, p.shared_gate)
    steps = {"router": logits, "weights": weights, "out": out}
    return {f"feed_forward.{name}": a.astype(x.dtype) for name, a in steps.items()}


def _sublayers(x: FloatArray, parts: Any, o: Options) -> Steps:
    """Return the steps of sub-layers with their norms and sums, the output last."""
    steps: Steps = {}
    wrong, given = o.get("wrong", ""), x
    for i, (run, norm, output_norm) in enumerate(parts, 1):
        z = given if o["parallel"] != (wrong == "parallel") else x
        norm = parts[0][1] if o["parallel"] and norm is None else norm  # noqa: PLW2901
        if o["norm_first"] and norm is not None:
            steps[f"norm{i}"] = z if wrong == f"no norm{i}" else normed(z, norm, o, f"norm{i}")
            z = z if wrong == "unnormed" else steps[f"norm{i}"]
        steps |= run(z)
        if "stop" in o:
            o["stop"](steps)
        out = list(steps.values())[-1]
        of_sum = wrong == "normed sums" and output_norm is not None
        if output_norm is not None and not of_sum:
            name = f"output_norm{i}"
            out = steps[name] = out if wrong == f"no {name}" else normed(out, output_norm, o, name)
        factor = out.dtype.type(o["residual_scale"])
        is_scaled = factor != 1 and wrong not in (f"unscaled {i}", "input scaled")
        out = out * factor if is_scaled else out
        others = {f"left out {i}": np.zeros_like(x), "normed": z, f"normed {i}": z, "given": given}
        beside = others.get(wrong, x)
        beside = beside * factor if wrong in ("input scaled", "sum scaled") else beside
        x = steps[f"sum{i}"] = np.asarray(beside + out)
        if of_sum:
            x = steps[f"output_norm{i}"] = normed(x, output_norm, o, f"output_norm{i}")
        if not o["norm_first"] and norm is not None:
            x = steps[f"norm{i}"] = normed(x, norm, o, f"norm{i}")
    return steps | {"out": x}


def block_steps(x: FloatArray, p: Any, o: Options) -> Steps:
    attend = (lambda z: _attend(z, p.attention, o)), p.norm1, p.output_norm1
    network = (lambda z: _network(z, p.feed_forward, o)), p.norm2, p.output_norm2
    return _sublayers(x, (attend, network), o)


def decoder_block_steps(given: tuple[FloatArray, FloatArray], p: Any, o: Options) -> Steps:
    """Return the steps of a decoder block, which is given its input and the memory."""
    x, memory = given
    across = o["across"]

    def read(z: FloatArray) -> Steps:
        source = z if across["own"] else memory
        return _attend(z, p.cross_attention, across, source, "cross_attention")

    attend = (lambda z: _attend(z, p.self_attention, o, part="self_attention")), p.norm1, None
    network = (lambda z: _network(z, p.feed_forward, o)), p.norm3, None
    return _sublayers(x, (attend, (read, p.norm2, None), network), o)
