"""
Plant mistakes in ports of models, and compare right ports: ``tox run -e measure -- planted_ports``.

A port is a module of the package transformers with random numbers, float64 throughout, whose
configuration, weights or functions are changed; its hooks give the steps that people look at first:
norms, projections, attention weights, outputs of sub-layers and blocks. `first_difference` has to
find the first of these steps that is wrong, and to name the mistake. Right ports are the same
modules, unchanged: in float64, in float64 with the norms and rotations in float32 that the package
has, in float32 and in bfloat16. Writes docs/results/ports.csv; with ``--list``, prints each port
that is judged otherwise.
"""

import argparse
import contextlib
import csv
import functools
import importlib
import itertools
import sys
import types
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import numpy as np

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "interop")]

import peers  # noqa: E402
from decoders import FAMILIES, PACKAGES, V, made  # noqa: E402
from wide import in_float64  # noqa: E402

from dlref.check import first_difference, trace  # noqa: E402
from dlref.interop import from_state_dict  # noqa: E402
from dlref.interop._decoders import KIN  # noqa: E402
from dlref.transformer import language_model  # noqa: E402

RESULTS = ROOT / "docs" / "results" / "ports.csv"
torch = peers.torch
TEXT = 12
LINEAR = {"rope_type": "linear", "factor": 2.0, "rope_theta": 1e4}
LLAMA3 = {
    "rope_type": "llama3", "rope_theta": 1e4, "original_max_position_embeddings": 8,
    "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
}  # fmt: skip
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16}
YARN |= {"rope_theta": 1e4}
SCALED_FAR = {
    "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6},
    "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
}
ROPES = LINEAR, LLAMA3, YARN | {"attention_factor": 1.0}
LLAMA = {"llama": ("Llama", [{}, *({"rope_parameters": rope} for rope in ROPES)])}
name, every = FAMILIES["gemma3_text"]
GEMMA3 = {"gemma3_text": (name, [*every, every[0] | {"rope_parameters": SCALED_FAR}])}
name, every = FAMILIES["gpt_oss"]
OSS = {"gpt_oss": (name, [*every, every[0] | {"swiglu_limit": 0.7}])}
ALL = FAMILIES | LLAMA | GEMMA3 | OSS


#: Families whose attention weights have no column of the sinks in the package.
SINKS = ("flint", "gpt_oss", "granite_swa", "granitemoe_swa")


class Port(NamedTuple):
    """A mistake: in which model, what is changed, the first wrong step, and words of the cause."""

    kind: str
    variant: int
    name: str
    change: Any  # a function of the model that returns a context
    step: str
    words: str
    entries: Any = None  # of the configuration, for the model to run
    steps: tuple[str, ...] | None = None  # that are looked at, all by default


# Models.


@functools.cache
def modeling(kind):
    package = PACKAGES.get(kind, kind)
    return importlib.import_module(f"transformers.models.{package}.modeling_{package}")


def modeled(kind, variant, dtype, **entries):
    """Return the model of a family, and its configuration."""
    name, every = ALL[kind]
    return made(name, every[variant], dtype, seed=1, spread=0.3, **entries)


#: Hooks of DBRX, whose modules have names of their own.
OF_DBRX = {
    "norm_attn_norm.norm_1": "norm1", "norm_attn_norm.attn": "attention.out",
    "norm_attn_norm.norm_2": "norm2", "ffn": "feed_forward.out", "": "out",
}  # fmt: skip


def parts_of(kind, layer):
    """Return the hooks of a layer: names of modules, and of steps."""
    own = "attention" if kind.startswith("gpt_neox") else "self_attn"
    mlp = "mlp"
    parts = {f"{own}.{x}_proj": f"attention.{x}" for x in "qkv"}
    if kind.startswith(("qwen3_next", "qwen3_5")):
        del parts[f"{own}.q_proj"]  # with its gate
    parts |= {f"{own}.o_proj": "attention.out", f"{own}.dense": "attention.out"}
    parts |= {"linear_attn": "attention.out", f"{own}.q_norm": "attention.q_normed"}
    parts[f"{own}.k_norm"] = "attention.k_normed"
    parts |= {f"{mlp}.gate_proj": "feed_forward.gate", f"{mlp}.up_proj": "feed_forward.up"}
    parts |= {f"{mlp}.dense_h_to_4h": "feed_forward.inner", mlp: "feed_forward.out"}
    parts |= {module: field for field, module in KIN[kind].norms.items()} if kind in KIN else {
        "input_layernorm": "norm1", "post_attention_layernorm": "norm2"}  # fmt: skip
    parts[""] = "out"
    parts = OF_DBRX if kind == "dbrx" else parts
    names = dict(layer.named_modules())
    for field, module in KIN[kind].norms_of_experts.items() if kind in KIN else ():
        if module in names:  # which the network ends with
            parts[module] = field
            del parts[mlp]
    if kind == "gpt_neox_japanese":  # which adds the bias of the output later
        del parts[f"{own}.dense"]
    return [(names[module], step) for module, step in parts.items() if module in names]


def steps_of(kind, model, ids):
    """Run a model and return its steps."""
    seen = {}

    def keep(name):
        def hook(_module, _inputs, output):
            first = output[0] if isinstance(output, tuple) else output
            seen[name] = first.detach()

        return hook

    def keep_weights(name):
        def hook(_module, _inputs, output):
            if isinstance(output, tuple) and len(output) > 1 and output[1] is not None:
                seen[name] = output[1].detach()

        return hook

    body = model.base_model
    last = {"dbrx": "norm_f", "gpt_neox": "final_layer_norm"}
    last["gpt_neox_japanese"] = last["gpt_neox"]
    norm = getattr(body, last.get(kind, "norm"))
    layers = body.blocks if kind == "dbrx" else body.layers
    handles = [norm.register_forward_hook(keep("norm"))]
    first = lambda _module, inputs: seen.update(embedding=inputs[0].detach())  # noqa: E731
    handles.append(layers[0].register_forward_pre_hook(first))
    for i, layer in enumerate(layers):
        for module, step in parts_of(kind, layer):
            handles.append(module.register_forward_hook(keep(f"blocks.{i}.{step}")))
        own = "attention" if kind.startswith("gpt_neox") else "self_attn"
        attention = getattr(layer, own, None)
        if attention is not None and kind not in SINKS:
            name = f"blocks.{i}.attention.weights"
            handles.append(attention.register_forward_hook(keep_weights(name)))
    with torch.no_grad():
        seen["logits"] = model(torch.tensor(ids)).logits.detach()
    for handle in handles:
        handle.remove()
    return seen


@functools.cache
def right_one(kind, variant):
    """Return tokens, the model's state and its trace, float64 throughout."""
    with in_float64(PACKAGES.get(kind, kind)):
        model, config = modeled(kind, variant, torch.float64)
    ids = np.random.default_rng(3).integers(3, V, (2, TEXT))
    params, own = from_state_dict(model.state_dict(), kind, config)
    return ids, model.state_dict(), trace(language_model, ids, params, own)


def with_names(right, seen, kept=None):
    """Return the steps that a trace has, experts' outputs with the axis of texts."""
    found = {name: array for name, array in seen.items() if name in right}
    if kept is not None:
        found = {name: a for name, a in found.items() if name.endswith(kept)}
    shaped = {}
    for name, array in found.items():
        want = right[name].shape
        flat = array.ndim == 2 and array.shape[-1] == want[-1] and len(want) == 3
        shaped[name] = array.reshape(want) if flat else array
    return shaped


def difference(port):
    """Return what `first_difference` says of a port with a mistake."""
    ids, state, right = right_one(port.kind, port.variant)
    with in_float64(PACKAGES.get(port.kind, port.kind)):
        model, _ = modeled(port.kind, port.variant, torch.float64, **(port.entries or {}))
        model.load_state_dict(state, strict=False)
        with port.change(model, modeling(port.kind)) if port.change else contextlib.nullcontext():
            seen = steps_of(port.kind, model, ids)
    return first_difference(right, with_names(right, seen, port.steps))


# Changes of weights.


def weights(ending, change):
    """Return a change of all parameters whose names end so."""

    @contextlib.contextmanager
    def changed(model, _module):
        found = [p for name, p in model.named_parameters() if name.endswith(ending)]
        assert found
        with torch.no_grad():
            for p in found:
                p.copy_(change(p.clone()))
        yield

    return changed


def exchanged(one, two):
    """Return a change of every layer that exchanges two parameters."""

    @contextlib.contextmanager
    def changed(model, _module):
        named = dict(model.named_parameters())
        pairs = [(named[n], named[n.replace(one, two)]) for n in named if one in n]
        assert pairs
        with torch.no_grad():
            for a, b in pairs:
                kept = a.clone()
                a.copy_(b)
                b.copy_(kept)
        yield

    return changed


def interleaved(heads):
    """Return rows of pairs as neighbors, as Meta's checkpoints have them."""
    return lambda w: w.unflatten(0, (heads, 2, -1)).transpose(1, 2).flatten(0, 2)


def apart(heads):
    """Return rows that go from head to head first."""
    return lambda w: w.unflatten(0, (-1, heads)).transpose(0, 1).flatten(0, 1)


def layers_exchanged(model, _module):
    """Return a change: the first two layers in each other's place."""
    layers = model.model.layers
    order = [layers[1], layers[0], *layers[2:]]
    return mock.patch.object(layers, "_modules", {str(i): one for i, one in enumerate(order)})


def tied(model, _module):
    return mock.patch.object(model.lm_head, "weight", model.model.embed_tokens.weight)


# Changes of functions.


def patched(name, make):
    """Return a change of a function in a model's file; `make` is given the right one."""
    return lambda _model, module: mock.patch.object(module, name, make(getattr(module, name)))


def norms(ending, make):
    """Return a change of the forward pass of norms; `make` is given module and right pass."""

    @contextlib.contextmanager
    def changed(model, _module):
        found = [m for name, m in model.named_modules() if name.endswith(ending)]
        assert found
        for m in found:
            m.forward = make(m, m.forward)
        yield

    return changed


def root_of(x):
    return x.pow(2).mean(-1, keepdim=True).sqrt()


def in_attention(**options):
    """Return a change of options that the attention function of a file is called with."""

    def make(right):
        def attention(module, query, key, value, attention_mask, **kwargs):
            kwargs |= {k: v(kwargs.get(k)) if callable(v) else v for k, v in options.items()}
            if "mask" in kwargs:
                attention_mask = kwargs.pop("mask")(attention_mask)
            return right(module, query, key, value, attention_mask, **kwargs)

        return attention

    return patched("eager_attention_forward", make)


def masked(change):
    """Return a change of the mask of attention, of zeros and large negative numbers."""

    def make(right):
        def attention(module, query, key, value, attention_mask, **options):
            return right(module, query, key, value, change(attention_mask), **options)

        return attention

    return patched("eager_attention_forward", make)


def shifted(by):
    def change(mask):
        low = torch.finfo(mask.dtype).min
        full = torch.full(mask.shape[-2:], low, dtype=mask.dtype)
        return torch.triu(full, diagonal=1 + by).expand(mask.shape).contiguous()

    return change


def rotation(make):
    return patched("apply_rotary_pos_emb", make)


def no_rotation(right):
    return lambda q, k, *options, **more: (q, k)


def backwards(right):
    return lambda q, k, cos, sin, *options, **more: right(q, k, cos, -sin, *options, **more)


def of_queries_alone(right):
    return lambda q, k, *options, **more: (right(q, k, *options, **more)[0], k)


def tiled(right):
    return lambda states, n: states.repeat(1, n, 1, 1)


def forward_of(path, make):
    """Return a change of the forward passes of modules; `make` is given module and right pass."""
    return norms(path, make)


# The mistakes.

ROPE = {"rope_type": "default", "rope_theta": 1e4}
ATTENDED, NORMED = "blocks.0.attention.weights", "blocks.0.norm1"
FEW = ("norm1", "norm2", "attention.out", "feed_forward.out", ".out", "logits", "embedding", "norm")


def rope(**changes):
    return {"rope_parameters": ROPE | changes}


def of_rotations():
    for kind, base in (("llama", 5e5), ("qwen2", 1e6), ("mistral", 12345.0), ("olmo2", 5e4)):
        variant = 1 if kind == "mistral" else 0
        words = f"the base of the rotation is {base:g}"
        yield Port(kind, variant, f"base {base:g}", None, ATTENDED, words, rope(rope_theta=base))
    yield Port("llama", 1, "scaling missing", None, ATTENDED, "scaling of the rotation is missing",
               rope())  # fmt: skip
    yield Port("llama", 1, "scaling by 4, not 2", None, ATTENDED,
               "the factor of the scaling is 4, not 2",
               rope(rope_type="linear", factor=4.0))  # fmt: skip
    for kind in ("llama", "mistral", "qwen3", "granite"):
        yield Port(kind, 0, "no rotation", rotation(no_rotation), ATTENDED, "are not rotated")
        yield Port(kind, 0, "backwards", rotation(backwards), ATTENDED, "goes backwards")
    for kind in ("llama", "gemma"):
        yield Port(kind, 0, "keys not rotated", rotation(of_queries_alone), ATTENDED,
                   "keys are not rotated")  # fmt: skip
    for kind in ("stablelm", "phi3"):
        variant = 1 if kind == "phi3" else 0
        step, words = ATTENDED, "all channels of a head are rotated"
        yield Port(kind, variant, "all channels turn", None, step, words,
                   rope(partial_rotary_factor=1.0))  # fmt: skip
    words = "queries and keys are rotated, as in block 0"
    yield Port("smollm3", 0, "rotated where none is", None, "blocks.1.attention.weights", words,
               {"no_rope_layers": [1, 1, 1]})  # fmt: skip
    yield Port("smollm3", 0, "no rotation where one is", None, ATTENDED, "are not rotated",
               {"no_rope_layers": [0, 0, 0]})  # fmt: skip
    near = {"full_attention": ROPE, "sliding_attention": ROPE | {"rope_theta": 1e6}}
    yield Port("gemma3_text", 0, "one base for all layers", None, ATTENDED,
               "the block has the rotation of block 1", {"rope_parameters": near})  # fmt: skip
    yield Port("deepseek_v3", 0, "pairs in halves", None, ATTENDED, "rotated as halves",
               {"rope_interleave": False})  # fmt: skip
    yield Port("deepseek_v3", 0, "base", None, ATTENDED, "the base of the rotation is 500000",
               rope(rope_theta=5e5))  # fmt: skip
    turned = {"self_attn.q_proj.weight": 4, "self_attn.k_proj.weight": 2}

    @contextlib.contextmanager
    def meta(model, module):
        with contextlib.ExitStack() as stack:
            for ending, heads in turned.items():
                stack.enter_context(weights(ending, interleaved(heads))(model, module))
            yield

    seen = ("norm1", "attention.weights", "attention.out", "feed_forward.out", ".out", "logits")
    words = "channels are rotated as halves, while the weights have pairs as neighbors"
    yield Port("llama", 0, "rows of Meta's checkpoint", meta, ATTENDED, words, None, seen)
    yield Port("mistral", 0, "rows of Meta's checkpoint", meta, ATTENDED, words, None, seen)


def of_scores():
    for kind in ("llama", "qwen2", "gemma"):
        yield Port(kind, 0, "not scaled", in_attention(scaling=1.0), ATTENDED, "are not scaled")
        yield Port(kind, 0, "no causal mask", masked(torch.zeros_like), ATTENDED,
                   "the causal mask is missing")  # fmt: skip
    yield Port("llama", 0, "scaled twice", in_attention(scaling=lambda s: s * s), ATTENDED,
               "are scaled by 1/E")  # fmt: skip
    yield Port("olmo2", 0, "shows the next token", masked(shifted(1)), ATTENDED,
               "shows one token too many")  # fmt: skip
    yield Port("llama", 0, "scaled by D, not E", in_attention(scaling=32**-0.5), ATTENDED,
               "the root of H E instead of E")  # fmt: skip
    yield Port("gemma2", 0, "no cap", in_attention(softcap=None), ATTENDED, "softcap is missing")
    yield Port("gemma2", 0, "another cap", None, ATTENDED, "the soft cap is 3",
               {"attn_logit_softcapping": 3.0})  # fmt: skip
    yield Port("olmo", 2, "no bounds", None, ATTENDED, "clip_qkv is missing", {"clip_qkv": None})
    yield Port("olmo", 2, "other bounds", None, "blocks.0.attention.q",
               "keys and values is 0.8 instead of 0.5", {"clip_qkv": 0.8})  # fmt: skip
    yield Port("gemma2", 0, "scale of E", None, ATTENDED, "divided by the root of E",
               {"query_pre_attn_scalar": 10})  # fmt: skip
    yield Port("gemma2", 0, "another scale", None, ATTENDED, "the scale of the scores is 0.5",
               {"query_pre_attn_scalar": 4})  # fmt: skip
    yield Port("granite", 0, "scale of E", None, ATTENDED, "divided by the root of E",
               {"attention_multiplier": 8**-0.5})  # fmt: skip
    for kind, size in (("mistral", 5), ("gemma2", 4), ("phi3", 4), ("ministral", 4)):
        words = f"the window ends {size} keys to the left"
        yield Port(kind, 0, "window by one", None, ATTENDED, words, {"sliding_window": size + 1})
    yield Port("mistral", 0, "no window", None, ATTENDED, "window is missing",
               {"sliding_window": None})  # fmt: skip
    other = {"layer_types": ["full_attention", "sliding_attention", "full_attention"]}
    words = "the block has the options of block 1"
    yield Port("gemma3_text", 0, "kinds of layers exchanged", None, ATTENDED, words, other)
    for kind in ("llama", "qwen2", "qwen3"):
        yield Port(kind, 0, "heads modulo", patched("repeat_kv", tiled), ATTENDED,
                   "query head h uses key head h mod Hk")  # fmt: skip
    yield Port("gpt_oss", 0, "no sinks", weights("sinks", lambda p: p - 1e9),
               "blocks.0.attention.out", "the sinks are missing")  # fmt: skip


def of_norms():
    for kind, eps in (("llama", 1e-3), ("qwen2", 1e-5), ("phi3", 2e-4)):
        words = f"eps is {eps:.3g} instead"
        yield Port(kind, 0, f"eps {eps:g}", None, NORMED, words, {"rms_norm_eps": eps})
    outside = lambda m, right: (  # noqa: E731
        lambda x: m.weight * x / (root_of(x) + m.variance_epsilon)
    )
    yield Port("llama", 0, "eps outside", norms("layernorm", outside), NORMED, "added to the root")
    centered = lambda m, right: lambda x: right(x - x.mean(-1, keepdim=True))  # noqa: E731
    for kind in ("llama", "granite"):
        yield Port(kind, 0, "layer norm", norms("layernorm", centered), NORMED, "of layer norm")
    yield Port("stablelm", 0, "RMS norm", norms("layernorm", lambda m, right: (
        lambda x: m.weight * x / (x.pow(2).mean(-1, keepdim=True) + m.eps).sqrt() + m.bias)),
        NORMED, "of rms norm")  # fmt: skip
    for kind in ("gemma", "gemma2", "qwen3_next"):
        change = weights("input_layernorm.weight", lambda w: w - 1)
        yield Port(kind, 0, "w, not 1 + w", change, NORMED, "as w, not as 1 + w")
    yield Port("llama", 0, "1 + w", weights("layernorm.weight", lambda w: w + 1), NORMED, "1 + w")
    yield Port("mistral", 0, "no weight", weights("layernorm.weight", torch.ones_like), NORMED,
               "is missing")  # fmt: skip
    swap = exchanged("input_layernorm", "post_attention_layernorm")
    yield Port("qwen2", 0, "norms exchanged", swap, NORMED, "norm1 and norm2 are exchanged")
    alone = lambda m, right: lambda x: x  # noqa: E731
    qk = "blocks.0.attention.q_normed"
    yield Port("qwen3", 0, "no norms of queries and keys", norms("_norm", alone), qk,
               "queries and keys are not normalized")  # fmt: skip
    swap = exchanged("q_norm", "k_norm")
    yield Port("qwen3", 0, "their norms exchanged", swap, qk, "queries and keys are exchanged")
    yield Port("gemma3_text", 0, "their weights w", weights("_norm.weight", lambda w: w - 1), qk,
               "queries and keys are taken as w, not as 1 + w")  # fmt: skip
    yield Port("olmo2", 0, "no norm of the output", norms("post_attention_layernorm", alone),
               "blocks.0.output_norm1", "output_norm1 is missing")  # fmt: skip
    yield Port("gemma2", 0, "no norm before the network", norms("pre_feedforward_layernorm", alone),
               "blocks.0.norm2", "norm2 is missing")  # fmt: skip
    yield Port("llama", 0, "no last norm", norms("model.norm", alone), "norm",
               "the last norm is missing")  # fmt: skip


def of_projections():
    yield Port("gemma2", 1, "q and o exchanged", exchanged("q_proj", "o_proj"),
               "blocks.0.attention.q", "queries and outputs are exchanged")  # fmt: skip
    for kind in ("llama", "mistral"):
        yield Port(kind, 0, "k and v exchanged", exchanged("k_proj", "v_proj"),
                   "blocks.0.attention.k", "keys and values are exchanged")  # fmt: skip
    yield Port("llama", 0, "o transposed", weights("o_proj.weight", lambda w: w.T),
               "blocks.0.attention.out", "w_o is transposed")  # fmt: skip
    yield Port("qwen2", 0, "q transposed", weights("q_proj.weight", lambda w: w.T),
               "blocks.0.attention.q", "w_q is transposed")  # fmt: skip
    yield Port("qwen2", 0, "no biases", weights("proj.bias", torch.zeros_like),
               "blocks.0.attention.q", "biases of attention are missing")  # fmt: skip
    yield Port("gpt_neox", 0, "no biases of the output", weights("attention.dense.bias",
               torch.zeros_like), "blocks.0.attention.out", "b_o is missing")  # fmt: skip
    both = "query_key_value.weight", "query_key_value.bias"
    change = weights(both, lambda w: w.unflatten(0, (3, 4, -1)).transpose(0, 1).flatten(0, 2))
    words = "a fused projection is read"
    yield Port("gpt_neox", 0, "fused in three parts", change, ATTENDED, words)
    yield Port("mistral", 0, "heads last", weights("q_proj.weight", apart(4)),
               "blocks.0.attention.q", "rows of w_q go from head to head")  # fmt: skip
    for kind in ("llama", "qwen3", "granite"):
        yield Port(kind, 0, "gate and up exchanged", exchanged("gate_proj", "up_proj"),
                   "blocks.0.feed_forward.gate", "w_gate and w_up are exchanged")  # fmt: skip
    yield Port("phi3", 0, "gate and up exchanged", weights("gate_up_proj.weight", lambda w:
               w.roll(len(w) // 2, 0)), "blocks.0.feed_forward.out", "w_gate and w_up")  # fmt: skip
    for kind in ("llama", "olmo2"):
        step = NORMED if kind == "llama" else "blocks.0.attention.q"
        yield Port(kind, 0, "layers exchanged", layers_exchanged, step,
                   "the block has the parameters of block 1")  # fmt: skip
    for kind in ("llama", "qwen2"):
        yield Port(kind, 0, "head tied", tied, "logits", "the head is the matrix of embeddings")


def of_networks():
    for kind, act, words in (
        ("llama", "gelu", "the activation is gelu"),
        ("gemma", "silu", "the activation is silu"),
        ("gemma2", "silu", "the activation is silu"),
        ("gpt_neox", "gelu_new", "the activation is gelu_tanh"),
        ("qwen3", "relu", "the activation is relu"),
    ):
        name = "hidden_activation" if kind == "gemma2" else "hidden_act"
        step = "blocks.0.feed_forward.out"
        yield Port(kind, 0, f"activation {act}", None, step, words, {name: act})
    out = "blocks.0.feed_forward.out"
    yield Port("qwen3_moe", 0, "weights normalized", None, out, "normalized to the sum 1",
               {"norm_topk_prob": True})  # fmt: skip
    yield Port("qwen3_moe", 1, "weights not normalized", None, out, "experts are not normalized",
               {"norm_topk_prob": False})  # fmt: skip
    for kind, entries in (("mixtral", "num_experts_per_tok"), ("olmoe", "num_experts_per_tok")):
        yield Port(kind, 0, "one expert", None, out, "there are 1 experts of a token", {entries: 1})
    yield Port("gpt_oss", 0, "three experts", None, out, "there are 3 experts of a token",
               {"num_experts_per_tok": 3})  # fmt: skip
    yield Port("gpt_oss", 0, "another limit", None, out, "limit", {"swiglu_limit": 0.5})
    yield Port("deepseek_v3", 2, "no groups", None, out, "among all of them",
               {"n_group": 1, "topk_group": 1})  # fmt: skip
    yield Port("deepseek_v3", 2, "no factor", None, out, "option scale is missing",
               {"routed_scaling_factor": 1.0})  # fmt: skip
    nothing = lambda m, right: torch.zeros_like  # noqa: E731
    yield Port("deepseek_v3", 2, "no shared expert", forward_of("shared_experts", nothing), out,
               "the shared expert is missing")  # fmt: skip
    yield Port("qwen3_next", 0, "no shared expert", forward_of("shared_expert", nothing), out,
               "the shared expert is missing")  # fmt: skip
    change = weights("experts.down_proj", lambda w: w.roll(-1, 0))
    yield Port("mixtral", 0, "other experts' down", change, out, "")
    change = weights("experts.gate_up_proj", lambda w: w.roll(w.shape[1] // 2, 1))
    words = "gate and up of the experts are exchanged"
    yield Port("mixtral", 0, "gate and up exchanged", change, out, words)
    yield Port("qwen2_moe", 0, "gate without sigmoid", open_gate, out, "lacks its sigmoid")


@contextlib.contextmanager
def open_gate(_model, module):
    """Change the file of a model: no sigmoid of the gate of its shared expert."""
    functions = {name: getattr(torch.nn.functional, name) for name in ("linear", "softmax")}
    without = types.SimpleNamespace(**functions, sigmoid=lambda x: x)
    with mock.patch.object(module, "F", without):
        yield


def sums_of(join):
    """Return a change of the sums of a layer; `join` is given the input, an output, a factor."""

    def forward(layer, x, **options):
        m = layer.residual_multiplier
        x = join(x, layer.self_attn(hidden_states=layer.input_layernorm(x), **options)[0], m)
        return join(x, layer.mlp(layer.post_attention_layernorm(x)), m)

    @contextlib.contextmanager
    def changed(model, _module):
        for layer in model.model.layers:
            layer.forward = functools.partial(forward, layer)
        yield

    return changed


def of_sums():
    unscaled = norms("embed_tokens", lambda m, right: lambda ids: m.weight[ids])
    for kind in ("gemma", "gemma3_text"):
        yield Port(kind, 0, "embeddings not scaled", unscaled, "embedding",
                   "not multiplied by the root of D")  # fmt: skip
    yield Port("granite", 0, "embeddings not scaled", None, "embedding", "not multiplied by 3",
               {"embedding_multiplier": 1.0})  # fmt: skip
    yield Port("granite", 0, "sums not scaled", None, "blocks.0.norm2", "not multiplied by 0.3",
               {"residual_multiplier": 1.0})  # fmt: skip
    yield Port("granite", 0, "another factor", None, "blocks.0.norm2",
               "multiplied by 0.22 before the sums", {"residual_multiplier": 0.22})  # fmt: skip
    norm2 = "blocks.0.norm2"
    change = sums_of(lambda x, f, m: m * x + f)
    yield Port("granite", 0, "inputs scaled", change, norm2, "the inputs of the sub-layers are")
    change = sums_of(lambda x, f, m: m * (x + f))
    yield Port("granite", 0, "both scaled", change, norm2, "the sums themselves are multiplied")
    yield Port("granite", 0, "logits not divided", None, "logits", "not multiplied by 0.4",
               {"logits_scaling": 1.0})  # fmt: skip
    yield Port("cohere", 0, "another factor", None, "logits", "multiplied by", {"logit_scale": 1.0})
    for kind, variant in (("gemma2", 0), ("gemma3_text", 1)):
        yield Port(kind, variant, "logits not capped", None, "logits", "cap of the logits",
                   {"final_logit_softcapping": None})  # fmt: skip
    words = "the network reads the sum of the attention"
    yield Port("gpt_neox", 0, "one after the other", None, "blocks.0.norm2", words,
               {"use_parallel_residual": False})  # fmt: skip
    yield Port("gpt_neox", 1, "side by side", None, "blocks.0.norm2", "read the input of the block",
               {"use_parallel_residual": True})  # fmt: skip


def of_recent_attention():
    alone = lambda m, right: lambda x: x  # noqa: E731
    yield Port("deepseek_v3", 0, "latents not normalized", norms("kv_a_layernorm", alone), ATTENDED,
               "norm of the latents is missing")  # fmt: skip
    yield Port("deepseek_v3", 0, "queries' latents", norms("q_a_layernorm", alone), ATTENDED,
               "the queries' latents is missing")  # fmt: skip
    yield Port("deepseek_v3", 0, "scale of the plain channels", in_attention(scaling=6**-0.5),
               ATTENDED, "root of N instead")  # fmt: skip
    delta = "blocks.0.attention.out"
    for name, change, words in (
        ("no dt_bias", weights("dt_bias", torch.zeros_like), "bias of the steps is missing"),
        ("taps flipped", weights("conv1d.weight", lambda w: w.flip(-1)), "flipped in time"),
        ("rates without exp", weights("A_log", torch.log), "without their exponential"),
    ):
        yield Port("qwen3_next", 0, name, change, delta, words)
    lengths = patched("l2norm", lambda right: lambda x, *options, **more: x)
    yield Port("qwen3_next", 0, "lengths", lengths, delta, "not divided by their lengths")


# Mistakes that people reported of their ports, in the words of the reports where they have some.


def of_other_heads(w):
    """Bring rows of two key heads in pairs of neighbors as if they were four heads, and back."""
    pairs = w.unflatten(0, (4, 2, -1)).transpose(1, 2).flatten(0, 2)
    return pairs.unflatten(0, (2, -1, 2)).transpose(1, 2).flatten(0, 2)


@contextlib.contextmanager
def normalized_late(model, module):
    """Let the norms of queries and keys come after the rotation."""
    layers = [layer.self_attn for layer in model.model.layers]
    late = [(a.q_norm.forward, a.k_norm.forward) for a in layers]
    for a in layers:
        a.q_norm.forward = a.k_norm.forward = lambda x: x
    turned, count = module.apply_rotary_pos_emb, itertools.count()

    def rotated(q, k, *options, **more):
        of_q, of_k = late[next(count)]
        q, k = turned(q, k, *options, **more)
        return of_q(q), of_k(k)

    with mock.patch.object(module, "apply_rotary_pos_emb", rotated):
        yield


def halves_of_a_head(right):
    """Pad the frequencies with zeros, and turn the halves of the whole head."""

    def rotated(q, k, cos, sin, **_options):
        rest = (q.shape[-1] - cos.shape[-1]) // 2
        still = torch.ones(*cos.shape[:-1], rest, dtype=cos.dtype)
        cos = torch.cat([cos[..., : cos.shape[-1] // 2], still] * 2, -1)[:, None]
        sin = torch.cat([sin[..., : sin.shape[-1] // 2], 0 * still] * 2, -1)[:, None]

        def crossed(x):
            first, second = x.chunk(2, -1)
            return torch.cat([-second, first], -1)

        return q * cos + crossed(q) * sin, k * cos + crossed(k) * sin

    return rotated


def blended_wavelengths(model, _module):
    """Blend the wavelengths of LLaMA 3's scaling, by shares the wrong way around."""
    near, far, factor = 8 / 4.0, 8 / 1.0, 8.0
    scaled = []
    for period in (1e4 ** (torch.arange(0, 8, 2) / 8)).tolist():
        wavelength = 2 * np.pi * period
        share = (wavelength - near) / (far - near)
        between = (1 - share) * factor + share
        times = 1.0 if wavelength < near else factor if wavelength > far else between
        scaled.append(period * times)
    frequencies = 1 / torch.tensor(scaled, dtype=torch.float64)
    return mock.patch.object(model.model.rotary_emb, "inv_freq", frequencies)


def eps_of(ending, eps):
    @contextlib.contextmanager
    def changed(model, _module):
        for name, m in model.named_modules():
            if name.endswith(ending):
                m.eps = eps
        yield

    return changed


def by_logits(_m, right):
    def route(x):
        logits, _, chosen = right(x)
        return logits, logits.gather(1, chosen), chosen

    return route


def by_corrected(m, right):
    def route(x):
        logits, _, chosen = right(x)
        weights = (logits.sigmoid() + m.e_score_correction_bias).gather(1, chosen)
        weights = weights / weights.sum(-1, keepdim=True)
        return logits, weights * m.routed_scaling_factor, chosen

    return route


def scaled_twice(m, right):
    def route(x):
        logits, weights, chosen = right(x)
        return logits, weights * m.routed_scaling_factor, chosen

    return route


def rounded_root(m, _right):
    root = torch.tensor(m.weight.shape[-1] ** 0.5, dtype=torch.bfloat16)
    return lambda ids: m.weight[ids] * float(root)


def weight_first(m, _right):
    def forward(x):
        weighed = m.weight * x
        return weighed / (weighed.pow(2).mean(-1, keepdim=True) + m.variance_epsilon).sqrt()

    return forward


def by_two_processors(m, _right):
    def forward(x):
        parts = x.unflatten(-1, (2, -1))
        roots = (parts.pow(2).mean(-1, keepdim=True) + m.variance_epsilon).sqrt()
        return m.weight * (parts / roots).flatten(-2)

    return forward


@contextlib.contextmanager
def normalized_stream(model, _module):
    """Let the first sum take the normalized input of a layer."""

    def forward(layer, x, **options):
        x = layer.input_layernorm(x)
        x = x + layer.self_attn(hidden_states=x, **options)[0]
        return x + layer.mlp(layer.post_attention_layernorm(x))

    for layer in model.model.layers:
        layer.forward = functools.partial(forward, layer)
    yield


@contextlib.contextmanager
def up_alone(model, _module):
    """Leave out the 1 that is added to up."""

    def gated(experts, gate_up):
        gate, up = gate_up[..., ::2], gate_up[..., 1::2]
        gate, up = gate.clamp(max=experts.limit), up.clamp(-experts.limit, experts.limit)
        return up * gate * torch.sigmoid(gate * experts.alpha)

    for layer in model.model.layers:
        layer.mlp.experts._apply_gate = functools.partial(gated, layer.mlp.experts)
    yield


def by_sigmoid(m, _right):
    def forward(x, gate):
        root = (x.pow(2).mean(-1, keepdim=True) + m.variance_epsilon).sqrt()
        return m.weight * x / root * torch.sigmoid(gate)

    return forward


def by_heads(right):
    """Rotate before heads and tokens change places: the head's number is the position."""

    def turned(q, k, cos, sin, *_, **__):
        both = []
        for x in (q, k):
            other, count = x.transpose(1, 2), x.shape[1]
            both.append(right(other, other, cos[:, :count], sin[:, :count])[0].transpose(1, 2))
        return tuple(both)

    return turned


def of_the_largest(m, _right):
    def forward(x):
        y = x / x.abs().amax(-1, keepdim=True)
        return m.weight * y / (y.pow(2).mean(-1, keepdim=True) + m.variance_epsilon).sqrt()

    return forward


def times_the_root(m, _right):
    return lambda x: m.weight * x * (x.pow(2).mean(-1, keepdim=True) + m.variance_epsilon).sqrt()


def across_heads(m, _right):
    def forward(x):
        return m.weight * x / (x.pow(2).mean((-1, -2), keepdim=True) + m.variance_epsilon).sqrt()

    return forward


def unscaled(right):
    def rule(query, *arguments, **options):
        out, state = right(query, *arguments, **options)
        return out * query.shape[-1] ** 0.5, state

    return rule


@contextlib.contextmanager
def bounded_twice(model, _module):
    """Bound the gate of the experts below, too."""

    def gated(experts, gate_up):
        gate, up = (gate_up[..., i::2].clamp(-experts.limit, experts.limit) for i in (0, 1))
        return (up + 1) * gate * torch.sigmoid(gate * experts.alpha)

    for layer in model.model.layers:
        layer.mlp.experts._apply_gate = functools.partial(gated, layer.mlp.experts)
    yield


@contextlib.contextmanager
def one_norm(model, _module):
    """Give the network the norm of the attention."""
    for layer in model.gpt_neox.layers:
        layer.post_attention_layernorm.forward = layer.input_layernorm.forward
    yield


def gate_first(m, _right):
    def forward(x, gate):
        x = x * torch.nn.functional.silu(gate)
        return m.weight * x / (x.pow(2).mean(-1, keepdim=True) + m.variance_epsilon).sqrt()

    return forward


def of_later_reports():
    """Yield mistakes of reports that were looked up after the ones below were known."""
    out, mixed = "blocks.0.feed_forward.out", "blocks.0.attention.out"
    yield Port("llama", 0, "lablup/mlxcel#1688: positions are heads", rotation(by_heads), ATTENDED,
               "the number of the head is taken as the position")  # fmt: skip
    yield Port("llama", 0, "apple/coremltools#2821: eps by the largest square",
               norms("layernorm", of_the_largest), NORMED, "by the largest square")  # fmt: skip
    yield Port("llama", 0, "mosaicml/llm-foundry#372: divided by the inverse root",
               norms("layernorm", times_the_root), NORMED, "multiplied by the root")  # fmt: skip
    yield Port("smollm3", 0, "antonellof/ferrox#193: another phase of rotations", None, ATTENDED,
               "queries and keys are not rotated", {"no_rope_layers": [0, 1, 0]})  # fmt: skip
    yield Port("smollm3", 1, "huggingface/transformers#43756: rotations inverted", None, ATTENDED,
               "the block has the options of block", {"no_rope_layers": [0, 1, 1]})  # fmt: skip
    yield Port("qwen3", 0, "vllm-project/vllm#16311: norms over all heads",
               norms(("q_norm", "k_norm"), across_heads), "blocks.0.attention.q_normed",
               "go over all heads at once")  # fmt: skip
    yield Port("qwen2_moe", 0, "NousResearch/torchtitan#36: no gate of the shared expert",
               norms("shared_expert_gate", lambda m, right: lambda x: right(x) * 0 + 1e9), out,
               "the gate of the shared expert is missing")  # fmt: skip
    yield Port("qwen3_next", 0, "ml-explore/mlx-lm#1792: one bias of the steps", weights(
               "dt_bias", lambda p: p[:1].expand(p.shape).clone()), mixed,
               "the biases of the steps of the first head")  # fmt: skip
    yield Port("qwen3_next", 0, "ml-explore/mlx-lm#1798: unscaled readings",
               patched("torch_chunk_gated_delta_rule", unscaled), mixed,
               "is not divided by the root of E")  # fmt: skip
    yield Port("gpt_oss", 1, "PrimeIntellect-ai/prime-rl#2365: gate bounded below", bounded_twice,
               out, "gate is bounded below, too")  # fmt: skip
    yield Port("gpt_neox", 0, "NVIDIA/TransformerEngine#625: one norm for both", one_norm,
               "blocks.0.norm2", "norm2 has the parameters of norm1")  # fmt: skip
    yield Port("glm", 0, "ml-explore/mlx-lm#1698: all channels turn", None, ATTENDED,
               "all channels of a head are rotated", rope(partial_rotary_factor=1.0))  # fmt: skip
    yield Port("qwen3_next", 0, "ggml-org/llama.cpp#16095: gate before the norm",
               norms("linear_attn.norm", gate_first), mixed, "comes after the gate")  # fmt: skip
    yield Port("gemma3_text", 0, "ollama/ollama#13453: logits capped", None, "logits",
               "the soft cap of the logits is 30", {"final_logit_softcapping": 30.0})  # fmt: skip
    yield Port("qwen2_moe", 0, "sgl-project/sglang#26845: shared expert twice",
               norms("shared_expert", lambda m, right: lambda x: 2 * right(x)), out,
               "the shared expert is multiplied by 2")  # fmt: skip


def without_delta(right):
    """Let the memory take the values themselves."""

    def rule(query, key, value, g, beta, **_options):
        q, k = (x / (x.pow(2).sum(-1, keepdim=True) + 1e-6).sqrt() for x in (query, key))
        q, k, v, rates, decay = (x.transpose(1, 2) for x in (q, k, value, beta, g))
        q, k = (x.repeat_interleave(v.shape[1] // x.shape[1], 1) for x in (q, k))
        memory, read = torch.zeros(*k.shape[:2], k.shape[-1], v.shape[-1]).to(v), []
        for t in range(q.shape[2]):
            step = k[:, :, t, :, None] * (rates[:, :, t, None] * v[:, :, t])[:, :, None]
            memory = memory * decay[:, :, t, None, None].exp() + step
            read.append((memory * q[:, :, t, :, None]).sum(-2) / q.shape[-1] ** 0.5)
        return torch.stack(read, 2).transpose(1, 2), memory

    return rule


def by_key_heads(w):
    """Read queries and gates of the heads that share a head of keys as one group."""
    keys, shared = 2, 2
    rows = w.unflatten(0, (keys, 2, shared, -1))
    return rows.transpose(1, 2).flatten(0, 3)


def second_sum_with(chosen):
    """Return a change: the second sum takes one of its block's input, first sum and norm."""

    @contextlib.contextmanager
    def changed(model, _module):
        def forward(layer, x, **options):
            y = x + layer.self_attn(hidden_states=layer.input_layernorm(x), **options)[0]
            z = layer.post_attention_layernorm(y)
            return (x, y, z)[chosen] + layer.mlp(z)

        for layer in model.model.layers:
            layer.forward = functools.partial(forward, layer)
        yield

    return changed


def of_latest_reports():
    """Yield mistakes of reports that were looked up after the later ones were known."""
    yield Port("qwen3_next", 0, "llmmanorg/llmman#16: no delta rule",
               patched("torch_chunk_gated_delta_rule", without_delta), "blocks.0.attention.out",
               "the memory takes the values")  # fmt: skip
    yield Port("qwen3_next", 2, "qiuzh20/gated_attention#13: gates by heads of keys",
               weights(("q_proj.weight", "q_proj.bias"), by_key_heads),
               "blocks.0.attention.q_normed", "is read head by head of the keys")  # fmt: skip
    yield Port("qwen3", 0, "lucidrains/x-transformers#352: norms without weights",
               norms(("q_norm", "k_norm"), lambda m, right: lambda x: right(x) / m.weight),
               "blocks.0.attention.q_normed", "queries and keys are missing")  # fmt: skip
    yield Port("llama", 2, "TransformerLensOrg/TransformerLens#910: another factor", None, ATTENDED,
               "the factor of the scaling is 32, not 8",
               {"rope_parameters": LLAMA3 | {"factor": 32.0}})  # fmt: skip
    yield Port("llama", 0, "strutive07/transformer-tensorflow2.0#14: the input once more",
               second_sum_with(0), "blocks.0.out", "take the input of the block")  # fmt: skip
    yield Port("llama", 0, "NVIDIA-NeMo/Speech#4048: a normalized sum", second_sum_with(2),
               "blocks.0.out", "takes the normalized input of its sub-layer")  # fmt: skip


def of_reports():
    """Yield reported mistakes: repository and number of an issue or pull request, and in words."""
    out = "blocks.0.feed_forward.out"
    yield Port("llama", 0, "huggingface/transformers#31788: rows of keys by other heads", weights(
               "k_proj.weight", of_other_heads), "blocks.0.attention.k",
               "the rows of w_k are reordered from")  # fmt: skip
    seen = ("norm1", "attention.weights", "attention.out", "feed_forward.out", ".out", "logits")
    yield Port("qwen3", 0, "vllm-project/vllm-metal#660: norm after the rotation", normalized_late,
               ATTENDED, "come after the rotation instead of before it", None, seen)  # fmt: skip
    yield Port("deepseek_v3", 2, "vllm-project/vllm#12002: correction in the weights",
               norms("mlp.gate", by_corrected), out, "correction of the router is in")  # fmt: skip
    yield Port("qwen3_moe", 0, "sgl-project/sglang#35160: raw logits as weights",
               norms("mlp.gate", by_logits), out, "are the router's logits")  # fmt: skip
    yield Port("gemma", 0, "huggingface/transformers#29402: root of D in 16 bits",
               norms("embed_tokens", rounded_root), "embedding", "rounded to bfloat16")  # fmt: skip
    yield Port("phi3", 1, "labscommunity/cascadia#69: frequencies padded with zeros",
               rotation(halves_of_a_head), ATTENDED, "are halves of a head")  # fmt: skip
    yield Port("deepseek_v3", 2, "onnxruntime/mobius#548: scale without YaRN's square",
               in_attention(scaling=10**-0.5), ATTENDED, "by the root of N + R")  # fmt: skip
    yield Port("llama", 2, "ml-explore/mlx-examples#907: wavelengths blended", blended_wavelengths,
               ATTENDED, "wavelengths are blended instead of frequencies")  # fmt: skip
    yield Port("llama", 3, "ml-explore/mlx-lm#1507: attention_factor ignored", None, ATTENDED,
               "attention_factor of the rotation's scaling is ignored",
               {"rope_parameters": YARN})  # fmt: skip
    yield Port("gpt_oss", 0, "ROCm/rocm-libraries#12229: sinks scaled", weights(
               "sinks", lambda p: p * 8**-0.5), "blocks.0.attention.out",
               "the sinks are multiplied by 0.3536")  # fmt: skip
    norms_after = "post_attention_layernorm", "post_feedforward_layernorm"
    yield Port("gemma2", 0, "NVIDIA-NeMo/Megatron-Bridge#5712: eps of some norms",
               eps_of(norms_after, 1e-2), "blocks.0.output_norm1",
               "eps of the norms of the sub-layers' outputs is 0.01")  # fmt: skip
    near = SCALED_FAR | {"sliding_attention": LINEAR | {"factor": 8.0}}
    yield Port("gemma3_text", 2, "vllm-project/vllm#29111: scaling in windows", None, ATTENDED,
               "the scaling of the rotation of block 1", {"rope_parameters": near})  # fmt: skip
    yield Port("granite", 0, "vllm-project/vllm#52158: logits multiplied", lambda model, _module:
               mock.patch.object(model.config, "logits_scaling", 1 / 2.5), "logits",
               "are divided by 0.4, not multiplied")  # fmt: skip
    yield Port("llama", 0, "vllm-project/tpu-inference#3040: weight before the mean",
               norms("layernorm", weight_first), NORMED, "by the weight before")  # fmt: skip
    yield Port("deepseek_v3", 2, "vllm-project/vllm#45037: factor twice",
               norms("mlp.gate", scaled_twice), out, "scale is 6.25 instead of 2.5")  # fmt: skip
    yield Port("deepseek_v3", 2, "sgl-project/sglang#28237: shared expert divided",
               norms("shared_experts", lambda m, right: lambda x: right(x) / 2.5), out,
               "the shared expert is divided by 2.5")  # fmt: skip
    yield Port("llama", 0, "allenai/OLMo#680: normalized residual", normalized_stream,
               "blocks.0.norm2", "the first sum takes the normalized input")  # fmt: skip
    yield Port("gpt_oss", 0, "sgl-project/sglang#39939: up without 1", up_alone, out,
               "option shift is missing")  # fmt: skip
    yield Port("olmo2", 0, "turboderp-org/exllamav3#141: norm by processors",
               norms(("q_norm", "k_norm"), by_two_processors), "blocks.0.attention.q_normed",
               "go over 2 parts of the heads")  # fmt: skip
    yield Port("qwen3_next", 0, "fla-org/flash-linear-attention#1182: gate by sigmoid",
               norms("linear_attn.norm", by_sigmoid), "blocks.0.attention.out",
               "is a sigmoid, not a SiLU")  # fmt: skip


SOURCES = {
    "rotations": of_rotations,
    "scores and masks": of_scores,
    "norms": of_norms,
    "projections": of_projections,
    "networks and experts": of_networks,
    "embeddings, sums, logits": of_sums,
    "latents and delta rules": of_recent_attention,
    "reported by others": of_reports,
    "reported, looked up later": of_later_reports,
    "reported, looked up last": of_latest_reports,
}


# Right ports.

FORMATS = {
    "float64 throughout": (torch.float64, True),
    "float64, norms in float32": (torch.float64, False),
    "float32": (torch.float32, False),
    "bfloat16": (torch.bfloat16, False),
}


def of_right(kind, variant, dtype, wide):
    """Return what `first_difference` says of an unchanged module."""
    with in_float64(PACKAGES.get(kind, kind)) if wide else contextlib.nullcontext():
        model, config = modeled(kind, variant, dtype)
        ids = np.random.default_rng(3).integers(3, V, (2, TEXT))
        seen = steps_of(kind, model, ids)
    params, own = from_state_dict(model.state_dict(), kind, config)
    right = trace(language_model, ids, params, own)
    return first_difference(right, with_names(right, seen))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[1])
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--only", choices=[*SOURCES, *FORMATS], help="one row")
    options = parser.parse_args()
    rows = []
    for source, ports in SOURCES.items():
        if options.only not in (None, source):
            continue
        count = step = named = wrongly = 0
        for port in ports():
            found = difference(port)
            at, cause = ("", "") if found is None else (found.name, found.cause)
            is_named = bool(port.words) and port.words in cause
            count, step, named = count + 1, step + (at == port.step), named + is_named
            wrongly += bool(cause) and bool(port.words) and not is_named
            if options.list and (at != port.step or not is_named):
                print(port.kind, port.name, at, port.step, cause, port.words, sep=" | ", flush=True)
        rows.append([source, count, step, named, wrongly])
        print(rows[-1], flush=True)
    for name, (dtype, wide) in FORMATS.items():
        if options.only not in (None, name):
            continue
        alarms = count = 0
        for kind, (_, every) in ALL.items():
            found = of_right(kind, 0, dtype, wide)
            count, alarms = count + 1, alarms + (found is not None)
            if options.list and found is not None:
                print(name, kind, len(every), found, sep=" | ", flush=True)
        rows.append([f"right: {name}", count, alarms, "–", "–"])
        print(rows[-1], flush=True)
    if options.only is None:
        heads = "ports", "number", "step right, or alarm", "cause named", "named wrongly"
        with RESULTS.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([heads, *rows])


if __name__ == "__main__":
    main()
