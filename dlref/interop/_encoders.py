r"""Families with an encoder, alone or before a decoder: BERT and T5, and their relatives."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from .._core.arguments import FloatArray, as_integer, shown
from .._core.pytree import displayed
from ..attention import AttentionParams
from ..neurons import LinearParams
from ..positions import rope_frequencies, rope_tables
from ..transformer import (
    DecoderBlockParams,
    EncoderBlockParams,
    EncoderDecoderParams,
    FeedForwardParams,
    GatedFeedForwardParams,
    LanguageModelConfig,
    NormParams,
)
from ._modules import linear_layout, norm_layout
from ._settings import GATES, Settings
from ._tensors import Sizes, Tensor, Zeros, raise_all


@displayed
class BertParams(NamedTuple):
    r"""
    Parameters of BERT or of one of its relatives.

    Parameters
    ----------
    embedding : ndarray, shape (V, C)
        One vector for each token. C is D, except in ELECTRA, RemBERT and RoFormer.
    positions : ndarray, shape (L, C)
        One for each place; one row of zeros in RoFormer, which has rotations instead. RoBERTa's
        first place has the row after the one of its padding token; the rows before it, which only
        padding uses, come last here.
    types : ndarray, shape (2, C)
        One for each of the two sentences that a text may consist of. DistilBERT and BertGeneration
        have none: one row of zeros.
    norm : NormParams or None
        Normalization of the sum of the three. Megatron-BERT and XLM-R XL have none.
    blocks : tuple of EncoderBlockParams
        Parameters of each block.
    pooler : LinearParams or None
        Dense layer, with tanh, for the first token of the output.
    last_norm : NormParams or None
        Normalization of the last sum, in models whose blocks normalize before each sub-layer.
    projection : LinearParams or None
        Dense layer from the embeddings to the blocks, where C is not D.

    See Also
    --------
    from_state_dict : Reads them from a checkpoint of "bert", "roberta" or "distilbert".
    dlref.transformer.encoder : Runs the blocks.

    Notes
    -----
    With the options that :func:`from_state_dict` returns with them, the models are::

        x = params.embedding[tokens] + params.positions[:T] + params.types[0]
        x = layer_norm(x, *params.norm, eps=options["eps"])
        x = linear(x, *params.projection)
        h = encoder(x, params.blocks, params.last_norm, **options)

    without the line of the norm or of the projection where it is None. Blocks normalize after each
    sum, and there is no last norm; in Megatron-BERT, XLM-R XL and RoBERTa-PreLayerNorm they
    normalize before each sub-layer. RoFormer's options have the tables ``rope`` of all L places,
    and a text of T tokens takes the first T rows of both. The pooled output is
    ``np.tanh(linear(h[..., 0, :], *params.pooler))``.

    Examples
    --------
    >>> from dlref.interop import BertParams
    >>> BertParams._fields
    ('embedding', 'positions', 'types', 'norm', 'blocks', 'pooler', 'last_norm', 'projection')
    """

    embedding: FloatArray
    positions: FloatArray
    types: FloatArray
    norm: NormParams | None
    blocks: tuple[EncoderBlockParams, ...]
    pooler: LinearParams | None = None
    last_norm: NormParams | None = None
    projection: LinearParams | None = None


@displayed
class T5EncoderParams(NamedTuple):
    r"""
    Parameters of T5's encoder.

    Parameters
    ----------
    embedding : ndarray, shape (V, D)
        One vector for each token.
    positions : ndarray, shape (32, H)
        Bias of the scores, for each bucket of distances and each head.
    blocks : tuple of EncoderBlockParams
        Parameters of each block, without biases.
    norm : NormParams
        RMS norm of the last sum.

    See Also
    --------
    from_state_dict : Reads them from a checkpoint of "t5" or "mt5" that has no decoder.
    dlref.transformer.encoder : Runs the blocks.
    dlref.positions.t5_bias : The bias of all pairs of positions.

    Notes
    -----
    With the options that :func:`from_state_dict` returns with them, the encoder is::

        bias = t5_bias(params.positions, T, T)
        x = params.embedding[tokens]
        h = encoder(x, params.blocks, params.norm, bias=bias, **options)

    All blocks share the bias. Scores are not divided by the root of the head's width: among the
    options is ``scale=1``. A model whose configuration has a ``relative_attention_max_distance``
    other than 128 needs it as ``max_distance`` of :func:`~dlref.positions.t5_bias`.

    Examples
    --------
    >>> from dlref.interop import T5EncoderParams
    >>> T5EncoderParams._fields
    ('embedding', 'positions', 'blocks', 'norm')
    """

    embedding: FloatArray
    positions: FloatArray
    blocks: tuple[EncoderBlockParams, ...]
    norm: NormParams


class Encoder(NamedTuple):
    """The sizes that the layout of an encoder depends on, and the options of `encoder`."""

    layers: int
    gated: bool
    pooler: bool
    sizes: Sizes
    options: dict[str, Any]
    first_place: int = 0  # row of the table of positions for the first token
    projected: bool = False  # whether embeddings are narrower than the blocks


# BERT and its relatives.

#: Defaults of vocabulary, width, blocks, heads, hidden units and places.
BERT = 30522, 768, 12, 12, 3072, 512
NAMES = ["vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads"]
NAMES += ["intermediate_size"]
OF_DISTILBERT = ["vocab_size", "dim", "n_layers", "n_heads", "hidden_dim"]


def _of_bert(s: Settings, names: list[str], defaults: tuple[int, ...], activation: str) -> Encoder:
    """Return the options that BERT and its relatives have in common."""
    s.get(None, "tie_word_embeddings")
    V, D, layers, heads, F = (
        s.integer(default, *dict.fromkeys((name, own)))
        for name, own, default in zip(names, NAMES, defaults, strict=False)
    )
    if D % heads:
        s.problems.append(f"{names[3]!r} must divide {D}, not be {heads}")
    sizes = {"V": V, "D": D, "F": F, "L": s.integer(defaults[-1], "max_position_embeddings")}
    options = {
        "num_heads": heads,
        "norm": "layer",
        "activation": s.activation("gelu", activation),
        "eps": 1e-12,
    }
    return Encoder(layers, False, False, sizes, options)


class LikeBert(NamedTuple):
    """A relative of BERT: where it differs."""

    classes: str  # the first part of its classes' names
    more: str  # its special features in words, for error messages
    base: str  # before the names, in models that have a head
    sizes: tuple[int, ...] = BERT  # by default, in the order of NAMES, then the places
    types: int = 2  # rows for sentences by default; 0: it has none
    eps: float = 1e-12
    #: Names of a layer's norms; with `last`, they stand before the sub-layers.
    norms: tuple[str, str] = ("attention.output.LayerNorm.", "output.LayerNorm.")
    first_norm: bool = True  # whether the embeddings have one
    last: str = ""  # name of the norm of the last sum
    counts: bool = False  # whether positions count from the padding token
    turns: bool = False  # whether positions are rotations, not a table
    #: Width of the embeddings by default, in families where it need not be the blocks' width, 0.
    width: int | None = None
    #: Its entry, and the name of the layer from there to the blocks.
    widening: tuple[str, str] = ("embedding_size", "embeddings_project.")


#: RoBERTa's vocabulary is another one in its own files alone.
OF_ROBERTA = (50265, *BERT[1:])
LIKE_BERT = {
    "bert": LikeBert("Bert", "norms after the sums", "bert."),
    "roberta": LikeBert(
        "Roberta",
        "positions that count from the padding token",
        "roberta.",
        OF_ROBERTA,
        counts=True,
    ),
    "camembert": LikeBert("Camembert", "RoBERTa's pieces", "roberta.", OF_ROBERTA, counts=True),
    "xlm-roberta": LikeBert("XLMRoberta", "RoBERTa's pieces", "roberta.", OF_ROBERTA, counts=True),
    "data2vec-text": LikeBert("Data2VecText", "RoBERTa's pieces", "data2vec_text.", counts=True),
    "bert-generation": LikeBert(
        "BertGeneration",
        "no embeddings of sentences",
        "bert.",
        (50358, 1024, 24, 16, 4096, 512),
        types=0,
    ),
    "megatron-bert": LikeBert(
        "MegatronBert",
        "norms before the sub-layers and after the last, and none of the embeddings",
        "bert.",
        (29056, 1024, 24, 16, 4096, 512),
        norms=("attention.ln.", "ln."),
        first_norm=False,
        last="encoder.ln.",
    ),
    "roformer": LikeBert(
        "RoFormer",
        "rotations of neighbors",
        "roformer.",
        (50000, *BERT[1:-1], 1536),
        turns=True,
        width=0,
    ),
    "rembert": LikeBert(
        "RemBert",
        "BERT's pieces, and narrower embeddings",
        "rembert.",
        (250300, 1152, 32, 18, 4608, 512),
        width=256,
        widening=("input_embedding_size", "encoder.embedding_hidden_mapping_in."),
    ),
    "electra": LikeBert(
        "Electra",
        "BERT's pieces, and narrower embeddings",
        "electra.",
        (30522, 256, 12, 4, 1024, 512),
        width=128,
    ),
    "roberta-prelayernorm": LikeBert(
        "RobertaPreLayerNorm",
        "RoBERTa's pieces, and norms before the sub-layers",
        "roberta_prelayernorm.",
        OF_ROBERTA,
        norms=("attention.LayerNorm.", "intermediate.LayerNorm."),
        last="LayerNorm.",
        counts=True,
    ),
    "xlm-roberta-xl": LikeBert(
        "XLMRobertaXL",
        "RoBERTa's positions, norms before the sub-layers, and none of the embeddings",
        "roberta.",
        (250880, 2560, 36, 32, 10240, 514),
        types=1,
        eps=1e-5,
        norms=("attention.self_attn_layer_norm.", "LayerNorm."),
        first_norm=False,
        last="encoder.LayerNorm.",
        counts=True,
    ),
}


def bert_config(s: Settings, kin: LikeBert) -> Encoder:
    s.only("position_embedding_type", "absolute")
    s.only("is_decoder", False)
    s.only("add_cross_attention", False)
    encoder = _of_bert(s, NAMES, kin.sizes, "hidden_act")
    encoder.sizes["types"] = s.integer(kin.types, "type_vocab_size") if kin.types else 1
    encoder.options["eps"] = s.number(kin.eps, "layer_norm_eps")
    if kin.last:
        encoder.options["norm_first"] = True
    if kin.turns:
        s.only("rotary_value", False)
        encoder.options["rope"] = _rotations(s, encoder)
    D = encoder.sizes["D"]
    C = D if kin.width is None else s.integer(kin.width or D, kin.widening[0])
    encoder.sizes["C"] = C
    place = first_place(s.config) if kin.counts else 0
    always = kin.widening[0] != "embedding_size"  # RemBERT's layer is there at any width
    s.known |= {"output_embedding_size"} if always else set()  # of its head
    return encoder._replace(first_place=place, projected=always or C != D)


def _rotations(s: Settings, encoder: Encoder) -> tuple[FloatArray, FloatArray]:
    """Return the rotation tables for all positions; a text uses their first rows (RoFormer)."""
    width = encoder.sizes["D"] // encoder.options["num_heads"]
    if width % 2:
        s.problems.append(f"'hidden_size' must be an even number for each head, not {width}")
    s.refuse()
    return rope_tables(np.arange(encoder.sizes["L"]), rope_frequencies(width))


def first_place(config: Mapping[str, Any] | None) -> int:
    """Return RoBERTa's row of positions for the first token: it counts from its padding token."""
    padding = (config or {}).get("pad_token_id", 1)
    return as_integer("config.pad_token_id", padding, least=0) + 1


def distilbert_config(s: Settings) -> Encoder:
    s.get(None, "sinusoidal_pos_embds")  # which tells how the table begins, and no more
    return _of_bert(s, OF_DISTILBERT, (*BERT[:2], 6, *BERT[3:]), "activation")


def _block(
    attention: list[str], norm1: str, network: tuple[str, str], norm2: str
) -> EncoderBlockParams:
    """Return the layout of a block; where its norms stand is an option."""
    weights, biases = zip(
        *(linear_layout(name, "D", "D", bias=True) for name in attention), strict=True
    )
    first = linear_layout(network[0], "F", "D", bias=True)
    second = linear_layout(network[1], "D", "F", bias=True)
    return EncoderBlockParams(
        AttentionParams(*weights, *biases),
        norm_layout(norm1, bias=True),
        FeedForwardParams(*first, *second),
        norm_layout(norm2, bias=True),
    )


def _bert_block(name: str, kin: LikeBert) -> EncoderBlockParams:
    parts = ("self.query.", "self.key.", "self.value.", "output.dense.")
    return _block(
        [f"{name}attention.{part}" for part in parts],
        f"{name}{kin.norms[0]}",
        (f"{name}intermediate.dense.", f"{name}output.dense."),
        f"{name}{kin.norms[1]}",
    )


def _distilbert_block(name: str) -> EncoderBlockParams:
    return _block(
        [f"{name}attention.{part}_lin." for part in ("q", "k", "v", "out")],
        f"{name}sa_layer_norm.",
        (f"{name}ffn.lin1.", f"{name}ffn.lin2."),
        f"{name}output_layer_norm.",
    )


def _tables(base: str, first_place: int = 0, width: str = "D") -> tuple[Any, Any]:
    """Return where the embeddings of tokens and of positions are."""
    own = f"{base}embeddings."
    positions = Tensor(f"{own}position_embeddings.weight", f"L, {width}", first=first_place)
    return Tensor(f"{own}word_embeddings.weight", f"V, {width}"), positions


def bert_layout(encoder: Encoder, base: str, kin: LikeBert) -> BertParams:
    pooler = linear_layout(f"{base}pooler.dense.", "D", "D", bias=True)
    names = [f"{base}encoder.layer.{i}." for i in range(encoder.layers)]
    C = "C" if encoder.projected else "D"
    embedding, positions = _tables(base, encoder.first_place, C)
    none: Any = Zeros(f"1, {C}")
    types: Any = Tensor(f"{base}embeddings.token_type_embeddings.weight", f"types, {C}")
    wider = linear_layout(f"{base}{kin.widening[1]}", "D", "C", bias=True)
    first = norm_layout(f"{base}embeddings.LayerNorm.", bias=True, size=C)
    return BertParams(
        embedding,
        none if kin.turns else positions,
        types if kin.types else none,
        first if kin.first_norm else None,
        tuple(_bert_block(name, kin) for name in names),
        LinearParams(*pooler) if encoder.pooler else None,
        norm_layout(f"{base}{kin.last}", bias=True) if kin.last else None,
        LinearParams(*wider) if encoder.projected else None,
    )


def distilbert_layout(encoder: Encoder, base: str) -> BertParams:
    return BertParams(
        *_tables(base),
        Zeros("1, D"),  # type: ignore[arg-type]
        norm_layout(f"{base}embeddings.LayerNorm.", bias=True),
        tuple(_distilbert_block(f"{base}transformer.layer.{i}.") for i in range(encoder.layers)),
    )


OLD_NAMES = {".gamma": ".weight", ".beta": ".bias"}  # of norms, in the first checkpoints


def with_new_norms(named: dict[str, Any], prefix: str) -> dict[str, Any]:
    """Return the tensors of a BERT with the names of norms that are used today."""
    ends = {key: re.search(r"LayerNorm(\.gamma|\.beta)$", key) for key in named}
    today = {
        key: key.removesuffix(end[1]) + OLD_NAMES[end[1]] if end else key
        for key, end in ends.items()
    }
    twice = [
        f"{prefix + key!r} is {prefix + new!r} once more"
        for key, new in today.items()
        if key != new and new in named
    ]
    raise_all("Argument 'state' must hold each tensor once", twice)
    return {today[key]: value for key, value in named.items()}


# T5 and mT5.

BUCKETS, FARTHEST = 32, 128  #: of T5's table, as published, and in dlref's models
#: Defaults of T5, and of mT5 where they differ.
T5: dict[str, Any] = {"vocab_size": 32128, "d_ff": 2048, "num_layers": 6, "num_heads": 8}
T5 |= {"feed_forward_proj": "relu"}
MT5: dict[str, Any] = {"vocab_size": 250112, "d_ff": 1024, "num_layers": 8, "num_heads": 6}
MT5 |= {"feed_forward_proj": "gated-gelu"}


def t5_config(s: Settings, defaults: dict[str, Any]) -> Encoder:
    """Return the encoder alone."""
    _unused_by_the_encoder(s)
    farthest = s.integer(FARTHEST, "relative_attention_max_distance")
    if farthest != FARTHEST:
        s.notes.append(
            f"has 'relative_attention_max_distance' = {farthest}, which is to be given to t5_bias "
            f"as max_distance={farthest}"
        )
    V, D, F, layers, heads, E = _t5_sizes(s, defaults)
    gated, activation = _t5_network(s, defaults)
    sizes = {"V": V, "D": D, "F": F, "K": heads * E, "H": heads}
    sizes["buckets"] = s.integer(BUCKETS, "relative_attention_num_buckets")
    options = {
        "num_heads": heads,
        "norm_first": True,
        "norm": "rms",
        "activation": activation,
        "scale": 1.0,
        "eps": s.number(1e-6, "layer_norm_epsilon"),
    }
    return Encoder(layers, gated, False, sizes, options)


def _unused_by_the_encoder(s: Settings) -> None:
    """Take note of entries that are of no concern to the encoder."""
    s.only("is_decoder", False)
    for name in ("tie_word_embeddings", "scale_decoder_outputs", "num_decoder_layers"):
        s.get(None, name)


def _t5_sizes(s: Settings, defaults: dict[str, Any]) -> tuple[int, ...]:
    """Return vocabulary, width, hidden units, blocks, heads and the width of a head."""
    return (
        s.integer(defaults["vocab_size"], "vocab_size"),
        s.integer(512, "d_model", "hidden_size"),
        s.integer(defaults["d_ff"], "d_ff"),
        s.integer(defaults["num_layers"], "num_layers", "num_hidden_layers"),
        s.integer(defaults["num_heads"], "num_heads", "num_attention_heads"),
        s.integer(64, "d_kv", "head_dim"),
    )


def whole_t5_config(s: Settings, defaults: dict[str, Any]) -> LanguageModelConfig:
    """Return encoder and decoder. T5 scales its outputs unless it says that it is not tied."""
    s.only("is_decoder", False)
    s.only("relative_attention_max_distance", FARTHEST)
    s.only("relative_attention_num_buckets", BUCKETS)
    V, D, F, layers, heads, E = _t5_sizes(s, defaults)
    decoder_layers = s.get(layers, "num_decoder_layers")
    decoder_layers = as_integer("config.num_decoder_layers", decoder_layers, least=1)
    gated, activation = _t5_network(s, defaults)
    tied = s.get(None, "tie_word_embeddings") is not False
    scaled = s.get(tied, "scale_decoder_outputs") and defaults is T5
    s.refuse()
    return LanguageModelConfig(
        V,
        D,
        heads,
        num_layers=layers,
        d_ff=F,
        positions="t5",
        norm="rms",
        activation=GATES[activation] if gated else activation,
        biases=False,
        eps=s.number(1e-6, "layer_norm_epsilon"),
        head_dim=E,
        blocks=UNSCALED,
        logit_scale=D**-0.5 if scaled else 1.0,
        num_decoder_layers=None if decoder_layers == layers else decoder_layers,
    )


#: Scores of T5 are not divided by the root of the head's width.
UNSCALED = {"scale": 1.0, "cross_scale": 1.0}


def _t5_network(s: Settings, defaults: dict[str, Any]) -> tuple[bool, str]:
    """Return whether the network is gated, and its activation."""
    projection = s.get(defaults["feed_forward_proj"], "feed_forward_proj")
    gate, _, activation = str(projection).rpartition("-")
    if gate not in ("", "gated"):
        s.problems.append(f"'feed_forward_proj' must not be {shown(projection)}")
    if projection == "gated-gelu":
        activation = "gelu_new"  # as Hugging Face reads it
    gated, named = s.flag(gate == "gated", "is_gated_act"), s.get(None, "dense_act_fn")
    if named is not None:  # these two override feed_forward_proj
        return gated, s.translated("dense_act_fn", named)
    return gated, s.translated("feed_forward_proj", activation)


def _t5_attention(name: str) -> AttentionParams:
    weights = [Tensor(f"{name}{x}.weight", "K, D") for x in "qkv"]
    return AttentionParams(*weights, Tensor(f"{name}o.weight", "D, K"))  # type: ignore[arg-type, call-arg]


def _t5_network_layout(name: str, gated: bool) -> Any:
    first = [Tensor(f"{name}{x}.weight", "F, D") for x in (("wi_0", "wi_1") if gated else ("wi",))]
    second = Tensor(f"{name}wo.weight", "D, F")
    if gated:
        return GatedFeedForwardParams(*first, second)  # type: ignore[arg-type, call-arg]
    return FeedForwardParams(first[0], None, second, None)  # type: ignore[arg-type]


def _t5_block(name: str, gated: bool) -> EncoderBlockParams:
    return EncoderBlockParams(
        _t5_attention(f"{name}layer.0.SelfAttention."),
        norm_layout(f"{name}layer.0.layer_norm.", bias=False),
        _t5_network_layout(f"{name}layer.1.DenseReluDense.", gated),
        norm_layout(f"{name}layer.1.layer_norm.", bias=False),
    )


def _t5_decoder_block(name: str, gated: bool) -> DecoderBlockParams:
    return DecoderBlockParams(
        _t5_attention(f"{name}layer.0.SelfAttention."),
        norm_layout(f"{name}layer.0.layer_norm.", bias=False),
        _t5_attention(f"{name}layer.1.EncDecAttention."),
        norm_layout(f"{name}layer.1.layer_norm.", bias=False),
        _t5_network_layout(f"{name}layer.2.DenseReluDense.", gated),
        norm_layout(f"{name}layer.2.layer_norm.", bias=False),
    )


def _t5_half(make: Any, name: str, layers: int, gated: bool) -> tuple[Any, Any, NormParams]:
    """Return where the table of positions, the blocks and the last norm of a half are."""
    table = f"{name}block.0.layer.0.SelfAttention.relative_attention_bias.weight"
    blocks = tuple(make(f"{name}block.{i}.", gated) for i in range(layers))
    return (
        Tensor(table, "buckets, H"),
        blocks,
        norm_layout(f"{name}final_layer_norm.", bias=False),
    )


def t5_layout(encoder: Encoder, base: str) -> T5EncoderParams:
    embedding: Any = Tensor(f"{base}shared.weight", "V, D")
    half = _t5_half(_t5_block, f"{base}encoder.", encoder.layers, encoder.gated)
    return T5EncoderParams(embedding, *half)


def whole_t5_layout(config: LanguageModelConfig, base: str) -> EncoderDecoderParams:
    deep, gated = config.num_decoder_layers, config.gated
    deep = config.num_layers if deep is None else deep
    encoding = _t5_half(_t5_block, f"{base}encoder.", config.num_layers, gated)
    there, encoder, encoder_norm = encoding
    here, decoder, norm = _t5_half(_t5_decoder_block, f"{base}decoder.", deep, gated)
    embedding: Any = Tensor(f"{base}shared.weight", "V, D")
    head: Any = None if config.tied else Tensor("lm_head.weight", "V, D")
    return EncoderDecoderParams(embedding, there, here, encoder, encoder_norm, decoder, norm, head)
