"""Mistakes in the pieces of recent models: gates, sinks, norms of queries, experts, rotations."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from ...transformer import MixtureParams
from ...transformer._structure import norm_fields
from .blocks import BOUNDS, IN_NORMS, ROUTING, SHARED
from .common import Mistakes, Options, of_other_heads

#: Mistakes by their names in the steps of attention.
GATES = {
    "gate": "the gate of the attention's output is missing",
    "open": "the gate of the attention's output lacks its sigmoid",
}
#: How many parts of the heads different processors may have.
PARTS = (2, 4, 8, 16)
SCORES = ("softmax", "sigmoid", "softmax_of_top")


def attention_pieces(p: Any, o: Options, part: str = "attention") -> Mistakes:
    """Yield mistakes in the sinks, gates and norms of attention."""
    a = getattr(p, part)
    if a.sink is not None:
        yield "the sinks are missing", p._replace(**{part: a._replace(sink=None)}), o
        for message, sink in _sinks(a, o):
            yield message, p._replace(**{part: a._replace(sink=sink)}), o
    if a.w_gate is not None:
        for wrong, message in GATES.items():
            yield message, p, o | {"wrong": wrong}
    if o["clip_qkv"] is not None:
        for message, changed in _bounds(a, o):
            yield message, p, changed
    for message, changes in _norms(a, o):
        yield message, p._replace(**{part: a._replace(**changes)}), o
    if a.q_norm is not None and a.k_norm is not None:
        yield from _shared_norms(p, o, part)
    if a.q_norm is not None and o["rope"] is not None:
        first, then = ("before", "after")[:: -1 if o["norm_after_rope"] else 1]
        message = f"the norms of queries and keys come {then} the rotation instead of {first} it"
        yield message, p, o | {"norm_after_rope": not o["norm_after_rope"]}


#: Mistakes in the bounds of queries, keys and values, by their names in the options.
BOUNDED = {
    "values free": "the values are not bounded",
    "bounded above": "queries, keys and values have no lower bound",
}


def _bounds(a: Any, o: Options) -> Iterator[tuple[str, Options]]:
    """Yield other bounds of queries, keys and values."""
    yield "the option clip_qkv is missing", o | {"clip_qkv": None}
    for wrong, message in BOUNDED.items():
        yield message, o | {"wrong": wrong}
    if o["rope"] is not None:
        message = "queries and keys are bounded after the rotation instead of before it"
        yield message, o | {"wrong": "bounds last"}
    if a.q_norm is not None and not o["norm_after_rope"]:
        message = "queries and keys are bounded before their norms instead of after them"
        yield message, o | {"wrong": "bounds first"}


def _sinks(a: Any, o: Options) -> Iterator[tuple[str, Any]]:
    """Yield other sinks, which are scores that no query and no key gives."""
    H, kind = o["num_heads"], a.sink.dtype.type
    scale = o["scale"] if o["scale"] is not None else (len(a.w_q) // H) ** -0.5
    yield f"the sinks are multiplied by {scale:.4g}, like scores", a.sink * kind(scale)
    with np.errstate(divide="ignore", invalid="ignore"):  # the scale may be 0
        yield f"the sinks are divided by {scale:.4g}, too", a.sink / kind(scale)
    yield "the sinks are 0: the sums of the weights have 1 more below", np.zeros_like(a.sink)
    yield "the sinks have the opposite sign", -a.sink
    keys = o["num_kv_heads"] or H
    message = "the sinks go from key head to key head first, not through the queries of one"
    yield message, a.sink.reshape(-1, keys).T.ravel()
    yield from of_other_heads("the sinks", a.sink)


def _shared_norms(p: Any, o: Options, part: str) -> Mistakes:
    """Yield norms of queries and keys over all heads at once instead of each, or the opposite."""
    a, H = getattr(p, part), o["num_heads"]
    keys = o["num_kv_heads"] or H
    if a.q_norm.ndim == 2:
        message = "the norms of queries and keys are RMS norms, not layer norms"
        yield message, p, o | {"wrong": "rms of heads"}
        for name, said in (("q_norm", "norms of queries"), ("k_norm", "norms of keys")):
            for message, numbers in of_other_heads(f"the {said}", getattr(a, name)):
                yield message, p._replace(**{part: a._replace(**{name: numbers})}), o
    elif len(a.q_norm) * H == len(a.w_q) and H > 1:
        tiled = a._replace(q_norm=np.tile(a.q_norm, H), k_norm=np.tile(a.k_norm, keys))
        message = "the norms of queries and keys go over all heads at once, not over each head"
        yield message, p._replace(**{part: tiled}), o
    else:
        message = "the norms of queries and keys go over each head, not over all heads at once"
        yield message, p, o | {"norm_parts": None}
        for parts in (n for n in PARTS if n < H and H % n == 0 and keys % n == 0):
            message = f"the norms of queries and keys go over {parts} parts of the heads one by one"
            yield message, p, o | {"norm_parts": parts}


def _norms(a: Any, o: Options) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield norms of queries and keys that are missing, exchanged, or have other weights."""
    if a.q_norm is None or a.k_norm is None:
        return
    yield "queries and keys are not normalized", {"q_norm": None, "k_norm": None}
    yield "queries are not normalized", {"q_norm": None}
    yield "keys are not normalized", {"k_norm": None}
    if a.q_norm.shape == a.k_norm.shape:
        message = "the norms of queries and keys are exchanged"
        yield message, {"q_norm": a.k_norm, "k_norm": a.q_norm}
        yield "keys have the norm of queries", {"k_norm": a.q_norm}
        yield "queries have the norm of keys", {"q_norm": a.k_norm}
    unit, offset = (a.q_norm.dtype.type(value) for value in (1, o["norm_offset"]))
    others: dict[str, Callable[[Any], Any]] = {
        "missing": lambda w: np.ones_like(w) - offset,
        "taken as 2 + w, with the offset twice" if offset else "taken as 1 + w": lambda w: w + unit,
    }
    if offset:
        others["taken as w, not as 1 + w"] = lambda w: w - offset
    for message, change in others.items():
        said = f"the weights of the norms of queries and keys are {message}"
        yield said, {"q_norm": change(a.q_norm), "k_norm": change(a.k_norm)}


def network_pieces(p: Any, o: Options) -> Mistakes:
    """Yield mistakes in the choice of experts and in their computation."""
    if not isinstance(p.feed_forward, MixtureParams):
        return
    network: Any = p.feed_forward
    for message, changes in _choices(o["router"], len(network.router)):
        yield message, p, o | {"router": dict(o["router"]) | changes}
    for wrong in _misroutings(network, o["router"]):
        yield ROUTING[wrong], p, o | {"wrong": wrong}
    for wrong in BOUNDS if o["router"].get("limit") is not None else ():
        yield wrong, p, o | {"wrong": wrong}
    for name, message in {
        "shared": "the shared expert is missing",
        "shared_gate": "the gate of the shared expert is missing",
        "correction": "the correction of the router is missing",
    }.items():
        if getattr(network, name) is not None:
            changed = {name: None} | ({"shared_gate": None} if name == "shared" else {})
            yield message, p._replace(feed_forward=network._replace(**changed)), o
    for wrong, message in SHARED.items() if network.shared_gate is not None else ():
        yield message, p, o | {"wrong": wrong}
    scale = o["router"].get("scale", 1.0)
    if network.shared is not None and scale != 1:
        message = f"the output of the shared expert is multiplied by {scale:g}, too"
        yield message, p, o | {"shared_factor": scale}
        message = f"the output of the shared expert is divided by {scale:g}"
        yield message, p, o | {"shared_factor": 1 / scale}
    experts = network.experts
    rolled = type(experts)(*(None if w is None else np.roll(w, -1, 0) for w in experts))
    message = "the experts are counted from 1"
    yield message, p._replace(feed_forward=network._replace(experts=rolled)), o


def _choices(options: Mapping[str, Any], count: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield other options of a router among so many experts."""
    normalized = options.get("normalize", True)
    message = "are not normalized" if normalized else "are normalized to the sum 1"
    yield f"the weights of the experts {message}", {"normalize": not normalized}
    for k in (1, options["k"] - 1, options["k"] + 1):
        if k != options["k"] and 1 <= k <= count:
            yield f"there are {k} experts of a token, not {options['k']}", {"k": k}
    score = options.get("score", "softmax")
    for other in SCORES:
        if other != score:
            yield f"the router's scores are computed by {other}", {"score": other}
            if "softmax_of_top" not in (score, other):
                then = f"{other}, and the weights {message}"
                changes = {"score": other, "normalize": not normalized}
                yield f"the router's scores are computed by {then}", changes
    if options.get("groups", 1) > 1:
        message = "experts are chosen among all of them, not among the best groups"
        yield message, {"groups": 1, "top_groups": 1}
    if normalized and options.get("scale", 1.0) != 1:
        message = "the weights of the experts are neither normalized nor multiplied by the scale"
        yield message, {"normalize": False, "scale": 1.0}
    neutral = {"scale": 1.0, "limit": None, "shift": 0.0, "beta": 1.0}
    for name, value in neutral.items():
        if options.get(name, value) != value:
            yield f"the experts' option {name} is missing", {name: value}
    clamped = {name: neutral[name] for name in ("limit", "shift", "beta")}
    changed = [name for name, value in clamped.items() if options.get(name, value) != value]
    if len(changed) > 1:
        yield f"the experts' options {', '.join(changed)} are missing", clamped


def _misroutings(network: MixtureParams, options: Mapping[str, Any]) -> Iterator[str]:
    """Yield the names of the mistakes in the choice that this router can have."""
    yield "weighted inputs"
    yield "weighted twice"
    yield "logits"
    if network.correction is not None:
        yield "corrected"
        yield "corrected logits"
    if options.get("groups", 1) > 1:
        sigmoid = options.get("score", "softmax") == "sigmoid"
        yield "one of a group" if sigmoid else "two of a group"
        yield "masked as 0"


def norm_pieces(p: Any, o: Options) -> Mistakes:
    """Yield norms of a block that are missing, and an epsilon in another place."""
    for name in (n for n in norm_fields(type(p)) if getattr(p, n) is not None):
        if o["norm_first"] or name.startswith("output"):
            yield f"{name} is missing", p, o | {"wrong": f"no {name}"}
    if getattr(p, "output_norm1", None) is not None:
        message = "the norms of the sub-layers' outputs normalize the sums instead"
        yield message, p, o | {"wrong": "normed sums"}
    for wrong, message in IN_NORMS.items():
        yield message, p, o | {"wrong": wrong}
    if o["residual_scale"] != 1:
        message = f"the outputs of the sub-layers are not multiplied by {o['residual_scale']:g}"
        yield message, p, o | {"residual_scale": 1.0}
        for i, which in ((1, "attention"), (2, "network")):
            message = f"the output of the {which} is not multiplied by {o['residual_scale']:g}"
            yield message, p, o | {"wrong": f"unscaled {i}"}
        factor = f"multiplied by {o['residual_scale']:g}"
        message = f"the inputs of the sub-layers are {factor} before the sums, not the outputs"
        yield message, p, o | {"wrong": "input scaled"}
        yield (
            f"the sums themselves are {factor}, not the outputs alone",
            p,
            o | {"wrong": "sum scaled"},
        )
