r"""Layouts of decoders: under which names the parts of a block are stored."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..attention import AttentionParams, LatentAttentionParams
from ..transformer import (
    EncoderBlockParams,
    ExpertParams,
    FeedForwardParams,
    GatedDeltaParams,
    GatedFeedForwardParams,
    LanguageModelConfig,
    LanguageModelParams,
    MixtureParams,
    NormParams,
)
from ._modules import linear_layout, norm_layout
from ._tensors import Tensor

#: A family, which is a record of `_kin`: that module imports this one, and so is not named here.
Kin = Any

# Attention. Each function gets the beginning of a layer's names.


def projections(name: str, config: LanguageModelConfig, kin: Kin) -> list[Any]:
    """Return where the weights and biases of queries, keys, values and the output are."""
    rows = {"q": "Q, D", "k": "K, D", "v": "K, D", "o": "D, Q"}
    weights = [Tensor(f"{name}self_attn.{x}_proj.weight", shape) for x, shape in rows.items()]
    has = (kin.biases if config.biases else "") + kin.some_biases
    biases = [
        Tensor(f"{name}self_attn.{x}_proj.bias", shape[0], optional=x in kin.some_biases)
        if x in has
        else None
        for x, shape in rows.items()
    ]
    return [*weights, *biases]


def fused_projections(name: str, config: LanguageModelConfig, kin: Kin) -> list[Any]:
    """Return the same where queries, keys and values are one matrix (Phi-3)."""
    parts = projections(name, config, kin)
    Q, K = (n * config.head_dim for n in (config.num_heads, config.num_kv_heads))
    fused = Tensor(f"{name}self_attn.qkv_proj.weight", "QKV, D", cut=(Q, Q + K))
    return [*(fused._replace(part=i) for i in range(3)), *parts[3:]]


def projections_by_head(name: str, config: LanguageModelConfig, kin: Kin) -> list[Any]:
    """Return the same where the rows of one matrix go from head to head (GPT-NeoX)."""
    own = f"{name}attention."
    fused = Tensor(f"{own}query_key_value.weight", "3 Q, D", parts=3, grouped=config.num_heads)
    bias = fused._replace(name=f"{own}query_key_value.bias", shape="3 Q")
    o, b_o = linear_layout(f"{own}dense.", "D", "Q", bias=config.biases)
    parts: list[Any] = [fused._replace(part=i) for i in range(3)]
    biases: list[Any] = [bias._replace(part=i) if config.biases else None for i in range(3)]
    return [*parts, o, *biases, b_o]


def gated_projections(name: str, config: LanguageModelConfig, kin: Kin) -> list[Any]:
    """Return the same where each head's query is followed by its gate (Qwen3-Next)."""
    parts = projections(name, config, kin)
    both = parts[0]._replace(shape="2 Q, D", grouped=config.num_heads, cut=(config.head_dim,))
    gates: list[Any] = [both._replace(part=1)]
    parts[0] = both
    if config.biases:
        parts[4] = parts[4]._replace(shape="2 Q", grouped=both.grouped, cut=both.cut)
        gates.append(parts[4]._replace(part=1))
    norms = qk_norms(name, kin)
    return [*parts, *norms, *gates]


def projections_of_last_bias(name: str, config: LanguageModelConfig, kin: Kin) -> list[Any]:
    """Return GPT-NeoX's, where the output of the last block alone has a bias (its Japanese kin)."""
    parts = projections_by_head(name, config, kin)
    if name.endswith(f"layers.{config.num_layers - 1}."):
        parts[7] = Tensor(f"{name}attention.dense_bias", "D")
    return parts


def projections_and_gate(name: str, config: LanguageModelConfig, kin: Kin) -> list[Any]:
    """Return the same where the gate of the heads has a matrix of its own (Trinity)."""
    gate: Any = Tensor(f"{name}self_attn.gate_proj.weight", "Q, D")
    return [*projections(name, config, kin), *qk_norms(name, kin), gate]


#: Shapes of the weights of norms of queries and keys, by the kind of a family.
QK_SIZES = {"each head": ("E", "E"), "all heads": ("Q", "K"), "by rows": ("H, E", "Hk, E")}


def qk_norms(name: str, kin: Kin) -> list[Any]:
    """Return where the norms of queries and keys are."""
    sizes = QK_SIZES[kin.qk_norm]
    return [
        Tensor(f"{name}self_attn.{norm}.weight", n, optional=kin.qk_optional)
        for norm, n in zip(kin.qk_names, sizes, strict=True)
    ]


def _latent(start: str, config: LanguageModelConfig) -> LatentAttentionParams:
    """Return where the projections of latent attention are; `_with_one_name` names w_uq."""
    name = f"{start}self_attn."
    N = config.head_dim - (config.rope_dim or 0)
    both = Tensor(f"{name}kv_b_proj.weight", "KV, Rkv", grouped=config.num_heads, cut=(N,))
    layout: list[Any] = [
        Tensor(f"{name}q_a_proj.weight", "Rq, D", optional=True),
        Tensor(f"{name}q_a_layernorm.weight", "Rq", optional=True),
        Tensor(f"{name}q_b_proj.weight", "Q, Rq"),
        Tensor(f"{name}kv_a_proj_with_mqa.weight", "DKV, D"),
        Tensor(f"{name}kv_a_layernorm.weight", "Rkv"),
        both,
        both._replace(part=1),
        Tensor(f"{name}o_proj.weight", "D, HV"),
    ]
    return LatentAttentionParams(*layout)


def _delta_rule(name: str) -> GatedDeltaParams:
    """Return where the parts of a gated delta rule are, once `apart` has been at the tensors."""
    rows = {"q": "KE", "k": "KE", "v": "HV", "z": "HV", "b": "HL", "a": "HL"}
    layout: list[Any] = [Tensor(f"{name}in_proj_{x}.weight", f"{n}, D") for x, n in rows.items()]
    layout += [Tensor(f"{name}conv1d.weight", "C, KC"), Tensor(f"{name}A_log", "HL")]
    layout += [Tensor(f"{name}dt_bias", "HL"), Tensor(f"{name}norm.weight", "VL")]
    layout.append(Tensor(f"{name}out_proj.weight", "D, HV"))
    return GatedDeltaParams(*layout)


# Networks.


def _gated(name: str, hidden: str) -> GatedFeedForwardParams:
    """Return where the matrices of a gated network are."""
    shapes = {"gate": f"{hidden}, D", "up": f"{hidden}, D", "down": f"D, {hidden}"}
    layout: list[Any] = [Tensor(f"{name}{x}_proj.weight", shape) for x, shape in shapes.items()]
    return GatedFeedForwardParams(*layout)


def gated_network(name: str, config: LanguageModelConfig) -> GatedFeedForwardParams:
    return _gated(f"{name}mlp.", "F")


def network_with_biases(name: str, config: LanguageModelConfig) -> GatedFeedForwardParams:
    """Return a gated network that has biases in some models (``mlp_bias``)."""
    sizes = {"gate": "F", "up": "F", "down": "D"}
    biases: list[Any] = [
        Tensor(f"{name}mlp.{x}_proj.bias", size, optional=True) for x, size in sizes.items()
    ]
    return GatedFeedForwardParams(*gated_network(name, config)[:3], *biases)


def fused_network(name: str, config: LanguageModelConfig) -> GatedFeedForwardParams:
    """Return a gated network, gate and up in one matrix (Phi-3, GLM)."""
    both: Any = Tensor(f"{name}mlp.gate_up_proj.weight", "2 F, D", parts=2)
    return gated_network(name, config)._replace(w_gate=both, w_up=both._replace(part=1))


def plain_network(first: str, second: str) -> Callable[..., FeedForwardParams]:
    """Return where a network without a gate is, by the names of its layers."""

    def network(name: str, config: LanguageModelConfig) -> FeedForwardParams:
        one = linear_layout(f"{name}mlp.{first}.", "F", "D", bias=True)
        two = linear_layout(f"{name}mlp.{second}.", "D", "F", bias=True)
        layout: list[Any] = [*one, *two]
        layout[1::2] = [b._replace(optional=True) for b in layout[1::2]]
        return FeedForwardParams(*layout)

    return network


def network_of_neox(name: str, config: LanguageModelConfig) -> FeedForwardParams:
    """Return a plain network, which has biases where attention has none, too (GPT-NeoX)."""
    first = linear_layout(f"{name}mlp.dense_h_to_4h.", "F", "D", bias=True)
    return FeedForwardParams(
        *first, *linear_layout(f"{name}mlp.dense_4h_to_h.", "D", "F", bias=True)
    )


def network_without_biases(name: str, config: LanguageModelConfig) -> FeedForwardParams:
    """Return a plain network by the names of GPT-NeoX."""
    first: Any = Tensor(f"{name}mlp.dense_h_to_4h.weight", "F, D")
    second: Any = Tensor(f"{name}mlp.dense_4h_to_h.weight", "D, F")
    return FeedForwardParams(first, None, second, None)


def experts(name: str, config: LanguageModelConfig) -> MixtureParams:
    """Return where a router and its experts are."""
    inner = f"{name}mlp.experts."
    both = Tensor(f"{inner}gate_up_proj", "n, 2 M, D", parts=2, form="side by side")
    arrays: list[Any] = [both, both._replace(part=1), Tensor(f"{inner}down_proj", "n, D, M")]
    router: Any = Tensor(f"{name}mlp.gate.weight", "n, D")
    return MixtureParams(router, ExpertParams(*arrays))


def experts_in_rows(name: str, config: LanguageModelConfig) -> MixtureParams:
    """Return the same where one matrix has the rows of all experts, gate and up apart (DBRX)."""
    rows = Tensor("", "n F, D", form="in rows", cut=(config.d_ff,))
    gate, up, down = (rows._replace(name=f"{name}mlp.experts.{x}") for x in ("w1", "v1", "w2"))
    arrays: list[Any] = [gate, up, down._replace(form="in rows, swapped")]
    return experts(name, config)._replace(experts=ExpertParams(*arrays))


def experts_and_correction(name: str, config: LanguageModelConfig) -> MixtureParams:
    """Return the same with a correction of the choice (MiniMax-M2)."""
    correction: Any = Tensor(f"{name}mlp.e_score_correction_bias", "n")
    return experts(name, config)._replace(correction=correction)


def with_shared(name: str, config: LanguageModelConfig) -> MixtureParams:
    """Return the same with experts for all tokens (DeepSeek-V2)."""
    return experts(name, config)._replace(shared=_gated(f"{name}mlp.shared_experts.", "MS"))


def with_both(name: str, config: LanguageModelConfig) -> MixtureParams:
    """Return the same with a correction and experts for all tokens (DeepSeek-V3)."""
    correction: Any = Tensor(f"{name}mlp.gate.e_score_correction_bias", "n")
    return with_shared(name, config)._replace(correction=correction)


def with_shared_of_hunyuan(name: str, config: LanguageModelConfig) -> MixtureParams:
    """Return the same by the names of Hunyuan."""
    router: Any = Tensor(f"{name}mlp.gate.wg.weight", "n, D")
    return experts(name, config)._replace(
        router=router, shared=_gated(f"{name}mlp.shared_mlp.", "MS")
    )


def with_both_of_hunyuan(name: str, config: LanguageModelConfig) -> MixtureParams:
    """Return the same with a correction of the choice (Hunyuan 3)."""
    return experts_and_correction(name, config)._replace(
        shared=_gated(f"{name}mlp.shared_experts.", "MS")
    )


def with_optional_correction(name: str, config: LanguageModelConfig) -> MixtureParams:
    """Return the same where published files lack the correction (A.X K1)."""
    both = with_both(name, config)
    correction: Any = both.correction
    return both._replace(correction=correction._replace(optional=True))


def with_optional_shared(name: str, config: LanguageModelConfig) -> MixtureParams:
    """Return the same, in some models without experts for all tokens (ERNIE 4.5)."""
    both = with_both(name, config)
    shared: Any = both.shared
    optional = GatedFeedForwardParams(*(t and t._replace(optional=True) for t in shared))
    return both._replace(shared=optional)


def with_both_of_afmoe(name: str, config: LanguageModelConfig) -> MixtureParams:
    """Return the same by the names of Trinity."""
    router: Any = Tensor(f"{name}mlp.router.gate.weight", "n, D")
    correction: Any = Tensor(f"{name}mlp.expert_bias", "n")
    return with_shared(name, config)._replace(router=router, correction=correction)


def with_shared_of_aria(name: str, config: LanguageModelConfig) -> MixtureParams:
    """Return experts stored as (n_in, n_out), gate and up in halves, and some for all tokens."""
    inner = f"{name}mlp.experts."
    both = Tensor(f"{inner}gate_up_proj", "n, D, 2 F", parts=2, form="in halves")
    down = Tensor(f"{inner}down_proj", "n, F, D", form="swapped")
    arrays: list[Any] = [both, both._replace(part=1), down]
    router: Any = Tensor(f"{name}mlp.router.weight", "n, D")
    shared = _gated(f"{name}mlp.shared_experts.", "MS")
    return MixtureParams(router, ExpertParams(*arrays), shared=shared)


def with_plain_shared(name: str, config: LanguageModelConfig) -> MixtureParams:
    """Return the same with an expert for all tokens that has no gate (Flint)."""
    return experts(name, config)._replace(shared=_gated(f"{name}mlp.shared_expert.", "MS"))


def with_gated_shared(name: str, config: LanguageModelConfig) -> MixtureParams:
    """Return the same with an expert for all tokens that has a gate (Qwen2-MoE, Qwen3-Next)."""
    gate: Any = Tensor(f"{name}mlp.shared_expert_gate.weight", "1, D")
    shared = _gated(f"{name}mlp.shared_expert.", "MS")
    return experts(name, config)._replace(shared=shared, shared_gate=gate)


def experts_with_biases(name: str, config: LanguageModelConfig) -> MixtureParams:
    """Return where experts are whose rows of gate and up alternate (gpt-oss)."""
    inner = f"{name}mlp.experts."
    both = Tensor(f"{inner}gate_up_proj", "n, D, 2 M", parts=2, form="in turn")
    bias = Tensor(f"{inner}gate_up_proj_bias", "n, 2 M", parts=2, form="in turn")
    down = Tensor(f"{inner}down_proj", "n, M, D", form="swapped")
    arrays: list[Any] = [both, both._replace(part=1), down, bias, bias._replace(part=1)]
    arrays.append(Tensor(f"{inner}down_proj_bias", "n, D"))
    router, of_router = (
        Tensor(f"{name}mlp.router.{x}", n) for x, n in (("weight", "n, D"), ("bias", "n"))
    )
    return MixtureParams(router, ExpertParams(*arrays), of_router)  # type: ignore[arg-type]


def experts_of_granite(name: str, config: LanguageModelConfig) -> MixtureParams:
    """Return where a router and its experts are (Granite 3's mixtures)."""
    router: Any = Tensor(f"{name}mlp.router.weight", "n, D")
    return experts(name, config)._replace(router=router)


def with_shared_of_granite(name: str, config: LanguageModelConfig) -> MixtureParams:
    """Return the same, in some models with an expert for all tokens (Granite 4's mixtures)."""
    start = f"{name}shared_mlp."
    both: Any = Tensor(f"{start}input_linear.weight", "2 MS, D", optional=True, parts=2)
    down: Any = Tensor(f"{start}output_linear.weight", "D, MS", optional=True)
    shared = GatedFeedForwardParams(both, both._replace(part=1), down)
    return experts_of_granite(name, config)._replace(shared=shared)


# Blocks and models.


def _norm(name: str, kin: Kin) -> NormParams:
    """Return where a norm is, which may have no parameters (OLMo)."""
    return norm_layout(name, bias=kin.norm_bias) if kin.norm_weight else NormParams(None)


def decoder_block(
    config: LanguageModelConfig, name: str, kin: Kin, number: int
) -> EncoderBlockParams:
    """Return where the parameters of a block are."""
    every: Any = config.blocks[number] if isinstance(config.blocks, tuple) else config.blocks
    options: dict[str, Any] = dict(every or {})
    parts = kin.projections(name, config, kin)
    if kin.qk_norm and len(parts) == 8:
        parts += qk_norms(name, kin)
    if kin.sinks:
        parts += [None] * (12 - len(parts)) + [Tensor(f"{name}self_attn.sinks", "H")]
    attention: Any = AttentionParams(*parts)
    if kin.latent:
        attention = _latent(name, config)
    elif options.get("delta_heads"):
        attention = _delta_rule(f"{name}linear_attn.")
    mixed = kin.experts is not None and options.get("router") is not None
    network = kin.experts(name, config) if mixed else kin.network(name, config)
    named = kin.norms | dict(kin.norms_of_experts if mixed else {})
    norms = {field: _norm(f"{name}{key}.", kin) for field, key in named.items()}
    if kin.one_norm and options.get("parallel"):
        del norms["norm2"]
    block = EncoderBlockParams(attention, None, network, None)
    return block._replace(**norms)  # type: ignore[arg-type]


def decoder_layout(config: LanguageModelConfig, base: str, kin: Kin) -> LanguageModelParams:
    """Return where the parameters of a model are."""
    head: Any = None if config.tied else Tensor("lm_head.weight", "V, D")
    _, table, norm = kin.tables
    embedding: Any = Tensor(f"{base}{table}.weight", "V, D")
    blocks = [decoder_block(config, f"{base}layers.{i}.", kin, i) for i in range(config.num_layers)]
    last = _norm(f"{base}{norm}", kin)
    return LanguageModelParams(embedding, None, tuple(blocks), last, head)
