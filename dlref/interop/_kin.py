r"""Families of decoders as records, and their configurations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from .._core.arguments import as_integer
from ..transformer import LanguageModelConfig
from . import _kin_layouts as layouts
from ._settings import Settings, rope_settings

SLIDING = "sliding_attention"
NO_NAMES: Mapping[str, str] = MappingProxyType({})
#: Fields of a block's norms, and their names in a layer.
BEFORE = {"norm1": "input_layernorm", "norm2": "post_attention_layernorm"}
BEHIND = {
    "output_norm1": "post_attention_layernorm",
    "output_norm2": "post_feedforward_layernorm",
}
SANDWICH = {
    "norm1": "input_layernorm",
    "norm2": "pre_feedforward_layernorm",
    **BEHIND,
}


class Kin(NamedTuple):
    """A family: its defaults, and where it differs from LLaMA."""

    classes: str  # the first part of its classes' names
    more: str  # its special features in words, for error messages
    defaults: dict[str, Any]  # of its configuration
    settings: Callable[[Settings, Kin, dict[str, Any]], Any] = lambda s, kin, options: None
    norms: dict[str, str] = BEFORE
    norms_of_experts: Mapping[str, str] = NO_NAMES  # of blocks with experts in addition
    norm: str = "rms"
    norm_bias: bool = False
    norm_weight: bool = True  # whether norms have parameters
    biases: str = "qkvo"  # which projections have one, where there are biases
    some_biases: str = ""  # which have one in some models, by an entry of their own
    #: Of queries and keys: of "each head", of "all heads" at once, or a layer norm by a row a head.
    qk_norm: str = ""
    qk_names: tuple[str, str] = ("q_norm", "k_norm")
    qk_optional: bool = False  # whether there are models without them
    latent: bool = False  # whether keys and values are projected from latents
    sinks: bool = False
    interleaved: bool = False  # whether rotated pairs are neighbors
    by_kind: bool = False  # whether each kind of layers has its rotation
    alpha: bool = False  # whether a scaling may be a factor of the base
    projections: Callable[..., list[Any]] = layouts.projections
    gated: bool = True  # whether networks are
    network: Callable[..., Any] = layouts.gated_network
    experts: Callable[..., Any] | None = None
    one_norm: bool = False  # whether parts side by side share a norm
    tables: tuple[str, str, str] = ("model.", "embed_tokens", "norm.")
    names: Mapping[str, str] = NO_NAMES  # own parts of tensors' names: the usual ones
    entries: Mapping[str, str] = NO_NAMES  # own entries, "inner.name" too: the usual ones


def plain(s: Settings, kin: Kin, name: str) -> Any:
    """Return an entry of the configuration, null included, or the family's default."""
    s.known |= {name}
    return s.config.get(name, kin.defaults.get(name))


def _by_usual_names(s: Settings, kin: Kin) -> None:
    """Read a family's own entries as the usual ones; where a file has both, they must agree."""
    parted = {path.rpartition("."): usual for path, usual in kin.entries.items()}
    inner = {outer: s.inside(outer, set()) for outer, dot, _ in parted if dot}
    for (outer, _, name), usual in parted.items():
        own = inner.get(outer, s)
        own.known |= {name}
        if name in own.config:
            if own.config[name] is not None:
                s.only(usual, own.config[name])
            s.config[usual] = own.config[name]
            s.own_names[usual] = name
        elif outer and usual in kin.defaults:  # the usual name alone would not be read
            s.only(usual, kin.defaults[usual])
    for own in inner.values():
        own.finish()


def decoder_config(s: Settings, kin: Kin) -> LanguageModelConfig:
    """Return the configuration of a model of a family."""
    d = kin.defaults
    _by_usual_names(s, kin)
    width = s.integer(d["hidden_size"], "hidden_size")
    heads = s.integer(d["num_attention_heads"], "num_attention_heads")
    kv_heads = plain(s, kin, "num_key_value_heads")
    of_keys = s.entry_name("num_key_value_heads")
    kv_heads = as_integer(f"config.{of_keys}", kv_heads or heads, least=1)
    if heads % kv_heads:
        s.problems.append(f"{of_keys!r} must divide {heads}, not be {kv_heads}")
    E = plain(s, kin, "head_dim") if "head_dim" in d else s.get(None, "head_dim")
    if E is None and width % heads and not kin.latent:
        s.problems.append(f"'num_attention_heads' must divide {width}, not be {heads}")
    E = width // heads if E is None else as_integer("config.head_dim", E, least=1)
    turning = E
    if kin.latent:  # whose heads have channels without a rotation, then channels with one
        kv_heads, turning = heads, s.integer(64, "qk_rope_head_dim")
        E = turning + s.integer(128, "qk_nope_head_dim")
    rotation = {"base": d.get("rope_theta", 10000.0), "partial": d.get("partial_rotary_factor")}
    rotation |= {"usual": d.get("rope_scaling"), "alpha": kin.alpha}
    if "rotary_dim" in d and s.get(None, "rotary_dim"):
        rotation["partial"] = s.integer(None, "rotary_dim") / E
    base, scaling, rotated = rope_settings(s, turning, by_kind=kin.by_kind, **rotation)
    s.refuse()
    s.only_these(num_heads=heads, n_heads=heads, n_head=heads, d_model=width, n_embd=width)
    if kin.qk_norm and not kin.qk_optional:  # an entry of others, which says so
        s.only("use_qk_norm", True)
    name = next(n for n in ("hidden_activation", "hidden_act") if n in d)
    eps = next(n for n in ("norm_epsilon", "norm_eps", f"{kin.norm}_norm_eps") if n in d)
    blocks: dict[str, Any] = {"rope_interleaved": kin.interleaved}
    options: dict[str, Any] = {
        "vocab_size": s.integer(d["vocab_size"], "vocab_size"),
        "d_model": width,
        "num_heads": heads,
        "num_kv_heads": kv_heads,
        "num_layers": s.integer(d["num_hidden_layers"], "num_hidden_layers"),
        "d_ff": s.integer(d["intermediate_size"], "intermediate_size"),
        "positions": "rope",
        "norm": kin.norm,
        "activation": s.activation(d[name], name, gated=kin.gated),
        "tied": s.flag(d.get("tie_word_embeddings", False), "tie_word_embeddings"),
        "biases": s.flag(d["attention_bias"], "attention_bias") if "attention_bias" in d else False,
        "rope_base": base,
        "rope_scaling": scaling,
        "rope_dim": rotated if rotated != E else None,
        "eps": s.number(d[eps], eps),
        "head_dim": E,
        "blocks": blocks,
    }
    each = kin.settings(s, kin, options)
    s.refuse()
    if each is not None:
        each = [blocks | own for own in each]
        options["blocks"] = each[0] if each and all(own == each[0] for own in each) else tuple(each)
        options["blocks"] = options["blocks"] or blocks
    return LanguageModelConfig(**options)
