r"""The parameters of the Transformer: nested named tuples of arrays."""

from __future__ import annotations

from typing import NamedTuple

from .._core.arguments import FloatArray
from .._core.pytree import displayed
from ..attention import AttentionParams, LatentAttentionParams


@displayed
class FeedForwardParams(NamedTuple):
    r"""
    Parameters of a feed-forward network: two dense layers.

    Parameters
    ----------
    w1 : ndarray, shape (F, D)
        Weights of the hidden layer.
    b1 : ndarray or None, shape (F,)
        Its biases; None leaves them out.
    w2 : ndarray, shape (D, F)
        Weights of the output.
    b2 : ndarray or None, shape (D,)
        Its biases; None leaves them out.

    See Also
    --------
    feed_forward : Takes them.
    GatedFeedForwardParams : Three matrices instead of two.

    Notes
    -----
    :math:`2 F D + F + D` numbers; with the usual :math:`F = 4 D`, two thirds of a block.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.transformer import FeedForwardParams
    >>> params = FeedForwardParams(np.ones((8, 2)), np.zeros(8), np.ones((2, 8)), np.zeros(2))
    >>> params._replace(b1=None)._fields
    ('w1', 'b1', 'w2', 'b2')
    """

    w1: FloatArray
    b1: FloatArray | None
    w2: FloatArray
    b2: FloatArray | None


@displayed
class GatedFeedForwardParams(NamedTuple):
    r"""
    Parameters of a gated feed-forward network: three matrices, usually without biases.

    Parameters
    ----------
    w_gate : ndarray, shape (F, D)
        Weights of the gate.
    w_up : ndarray, shape (F, D)
        Weights of the gated branch.
    w_down : ndarray, shape (D, F)
        Weights of the output.
    b_gate, b_up : ndarray or None, shape (F,)
        Biases of the gate and of the gated branch; None leaves them out.
    b_down : ndarray or None, shape (D,)
        Biases of the output; None leaves them out.

    See Also
    --------
    gated_feed_forward : Takes them.
    FeedForwardParams : Without a gate.

    Notes
    -----
    :math:`3 F D` numbers: as many as a plain network of :math:`4 D` hidden units has if
    :math:`F = 8 D / 3`.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.transformer import GatedFeedForwardParams
    >>> params = GatedFeedForwardParams(np.ones((8, 3)), np.ones((8, 3)), np.ones((3, 8)))
    >>> sum(w.size for w in params if w is not None)
    72
    """

    w_gate: FloatArray
    w_up: FloatArray
    w_down: FloatArray
    b_gate: FloatArray | None = None
    b_up: FloatArray | None = None
    b_down: FloatArray | None = None


@displayed
class ExpertParams(NamedTuple):
    r"""
    Parameters of n gated networks of one shape, along the first axis of each array.

    Parameters
    ----------
    w_gate, w_up : ndarray, shape (n, F, D)
        Weights of the gates, and of the units that they multiply.
    w_down : ndarray, shape (n, D, F)
        Weights of the outputs.
    b_gate, b_up : ndarray or None, shape (n, F)
        Biases of the two; None leaves them out.
    b_down : ndarray or None, shape (n, D)
        Biases of the outputs; None leaves them out.

    See Also
    --------
    mixture_of_experts : Uses them.
    GatedFeedForwardParams : The parameters of a single network.

    Notes
    -----
    :math:`3 n F D` numbers; a token is multiplied with :math:`3 k F D` of them.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.transformer import ExpertParams
    >>> params = ExpertParams(*np.ones((2, 4, 8, 2)), np.ones((4, 2, 8)))
    >>> params.w_up[3].shape, params.b_up
    ((8, 2), None)
    """

    w_gate: FloatArray
    w_up: FloatArray
    w_down: FloatArray
    b_gate: FloatArray | None = None
    b_up: FloatArray | None = None
    b_down: FloatArray | None = None


@displayed
class MixtureParams(NamedTuple):
    r"""
    Parameters of a block's network of experts, with its router.

    Parameters
    ----------
    router : ndarray, shape (n, D)
        Weight of the router.
    experts : ExpertParams
        Parameters of the n experts.
    router_bias : ndarray or None, shape (n,)
        Biases of the router's logits.
    correction : ndarray or None, shape (n,)
        Added to the scores for the choice alone; its gradient is 0.
    shared : GatedFeedForwardParams or None
        A network that all tokens go through.
    shared_gate : ndarray or None, shape (1, D)
        Weight of a gate of the shared network's output.

    See Also
    --------
    mixture_of_experts : Uses them.
    BlockOptions : Its field ``router`` has the options.

    Notes
    -----
    They stand where a block has the parameters of a feed-forward network.

    Examples
    --------
    >>> from dlref.transformer import MixtureParams
    >>> MixtureParams._fields[:2]
    ('router', 'experts')
    """

    router: FloatArray
    experts: ExpertParams
    router_bias: FloatArray | None = None
    correction: FloatArray | None = None
    shared: GatedFeedForwardParams | None = None
    shared_gate: FloatArray | None = None


@displayed
class GatedDeltaParams(NamedTuple):
    r"""
    Parameters of a gated delta rule, in place of a block's attention.

    Parameters
    ----------
    w_q, w_k : ndarray, shape (Hk E, D)
        Projections to queries and keys, of Hk heads.
    w_v, w_z : ndarray, shape (H V, D)
        Projections to values and to the gate of the output, of H heads; H / Hk consecutive ones
        share a head of keys.
    w_b, w_a : ndarray, shape (H, D)
        Projections to the logits of the rates :math:`\beta`, and to the steps of the decay.
    conv : ndarray, shape (2 Hk E + H V, K)
        Weight of the causal convolution of queries, keys and values, channel by channel.
    a_log : ndarray, shape (H,)
        Logarithms of the decays' rates.
    dt_bias : ndarray, shape (H,)
        Biases of the steps.
    norm : ndarray, shape (V,)
        Weight of the RMS norm of what a head reads.
    w_o : ndarray, shape (D, H V)
        Projection of the output.

    See Also
    --------
    dlref.attention.recurrent_linear_attention : The rule.
    dlref.convolution.causal_conv : The convolution.
    BlockOptions : Its field ``delta_heads`` is Hk.

    Notes
    -----
    It is the layer of Qwen3-Next, and of other models with Gated DeltaNet
    (:cite:t:`YangKautz2024`). With Hk and H heads, in words of NumPy::

        q, k, v = silu(causal_conv(x @ concatenate([w_q, w_k, w_v]).T, conv)[0])  # split
        beta = sigmoid(x @ w_b.T)
        decay = -exp(a_log) * softplus(x @ w_a.T + dt_bias)
        o = recurrent_linear_attention(l2_norm(q), l2_norm(k), v, decay, beta, scale=E**-0.5)[0]
        y = (rms_norm(o, norm) * silu(x @ w_z.T)) @ w_o.T

    Positions are known from the order of the steps alone. A block refuses masks, biases, windows,
    chunks and bounds (``clip_qkv``), and ``is_causal`` has to be True; ``num_heads``, ``rope``,
    ``scale`` and ``softcap`` have no effect. Its part of a cache has the same size after any number
    of steps.

    Examples
    --------
    >>> from dlref.transformer import GatedDeltaParams
    >>> GatedDeltaParams._fields[:4]
    ('w_q', 'w_k', 'w_v', 'w_z')
    """

    w_q: FloatArray
    w_k: FloatArray
    w_v: FloatArray
    w_z: FloatArray
    w_b: FloatArray
    w_a: FloatArray
    conv: FloatArray
    a_log: FloatArray
    dt_bias: FloatArray
    norm: FloatArray
    w_o: FloatArray


@displayed
class NormParams(NamedTuple):
    r"""
    Parameters of a normalization of rows.

    Parameters
    ----------
    weight : ndarray or None, shape (D,)
        Factor of each feature; None is 1.
    bias : ndarray or None, shape (D,)
        Offset of each feature. None, for RMS norm, leaves it out.

    See Also
    --------
    encoder_block : Has one for each sub-layer.
    dlref.normalization.layer_norm, dlref.normalization.rms_norm : Takes them.

    Notes
    -----
    A block without the option ``norm`` takes the kind of normalization from here: RMS norm if
    there is no bias, layer norm if there is one.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.transformer import NormParams
    >>> NormParams(np.ones(2))
    NormParams(weight=array([1., 1.]), bias=None)
    """

    weight: FloatArray | None
    bias: FloatArray | None = None


@displayed
class EncoderBlockParams(NamedTuple):
    r"""
    Parameters of an encoder block, and of a decoder-only model's block, too.

    Parameters
    ----------
    attention : AttentionParams, LatentAttentionParams or GatedDeltaParams
        Self-attention; the second kind makes it latent attention (DeepSeek-V3), the third a gated
        delta rule (Qwen3-Next).
    norm1 : NormParams or None
        Normalization that belongs to it; None leaves it out.
    feed_forward : FeedForwardParams, GatedFeedForwardParams or MixtureParams
        Feed-forward network.
    norm2 : NormParams or None
        Normalization that belongs to it; None leaves it out. In a parallel block without it both
        sub-layers read the output of ``norm1``.
    output_norm1, output_norm2 : NormParams or None
        Normalizations of the sub-layers' outputs before they are added (OLMo 2; with ``norm1`` and
        ``norm2`` before the sub-layers, as in Gemma 2, a sandwich). None, the default, leaves
        them out.

    See Also
    --------
    encoder_block : Takes them.
    DecoderBlockParams : With cross-attention.

    Notes
    -----
    With width D, F hidden units and as many key heads as heads, and all biases:
    :math:`4 D^2 + 4 D` for attention, :math:`2 F D + F + D` for the network, 4 D for the
    normalizations.

    Examples
    --------
    >>> from dlref.transformer import EncoderBlockParams
    >>> EncoderBlockParams._fields[:4]
    ('attention', 'norm1', 'feed_forward', 'norm2')
    """

    attention: AttentionParams | LatentAttentionParams | GatedDeltaParams
    norm1: NormParams | None
    feed_forward: FeedForwardParams | GatedFeedForwardParams | MixtureParams
    norm2: NormParams | None
    output_norm1: NormParams | None = None
    output_norm2: NormParams | None = None


@displayed
class DecoderBlockParams(NamedTuple):
    r"""
    Parameters of a decoder block with cross-attention.

    Parameters
    ----------
    self_attention : AttentionParams, LatentAttentionParams or GatedDeltaParams
        Attention over the decoder's own positions.
    norm1 : NormParams
        Normalization that belongs to it.
    cross_attention : AttentionParams
        Attention over the encoder's output.
    norm2 : NormParams
        Normalization that belongs to it.
    feed_forward : FeedForwardParams, GatedFeedForwardParams or MixtureParams
        Feed-forward network.
    norm3 : NormParams
        Normalization that belongs to it.

    See Also
    --------
    decoder_block : Takes them.
    EncoderBlockParams : Without cross-attention.

    Notes
    -----
    Norm k belongs to the k-th sub-layer. It comes before the sub-layer or after the sum, as
    the option ``norm_first`` of the block says; the parameters are the same.

    Examples
    --------
    >>> from dlref.transformer import DecoderBlockParams
    >>> DecoderBlockParams._fields[2:4]
    ('cross_attention', 'norm2')
    """

    self_attention: AttentionParams | LatentAttentionParams | GatedDeltaParams
    norm1: NormParams
    cross_attention: AttentionParams
    norm2: NormParams
    feed_forward: FeedForwardParams | GatedFeedForwardParams | MixtureParams
    norm3: NormParams


@displayed
class LanguageModelParams(NamedTuple):
    r"""
    Parameters of a language model.

    Parameters
    ----------
    embedding : ndarray, shape (V, C)
        One vector for each token; C is D unless the configuration has an ``embedding_dim``.
    positions : ndarray or None
        Table of learned positions (L, D), or of T5's biases (32, H); else None.
    blocks : tuple of EncoderBlockParams
        Parameters of each block.
    norm : NormParams or None
        Last normalization, of models that normalize first; else None.
    head : ndarray or None, shape (V, C)
        Weights of the last layer; None where they are the embeddings.
    embedding_in, embedding_out : ndarray or None, shapes (D, C) and (C, D)
        Matrices from the embeddings to the first block, and from the last one to the head; None
        without an ``embedding_dim``.

    See Also
    --------
    init_language_model : Make them.
    save_params : Keep them.

    Notes
    -----
    Nested named tuples of arrays, as :func:`dlref.training.adamw_step` takes and returns them.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.transformer import LanguageModelConfig, LanguageModelParams, init_language_model
    >>> params = init_language_model(np.random.default_rng(0), LanguageModelConfig(9, 8, 2))
    >>> isinstance(params, LanguageModelParams), params.embedding.shape, params.head
    (True, (9, 8), None)
    >>> LanguageModelParams._fields
    ('embedding', 'positions', 'blocks', 'norm', 'head', 'embedding_in', 'embedding_out')
    """

    embedding: FloatArray
    positions: FloatArray | None
    blocks: tuple[EncoderBlockParams, ...]
    norm: NormParams | None
    head: FloatArray | None
    embedding_in: FloatArray | None = None
    embedding_out: FloatArray | None = None


@displayed
class SequenceClassifierParams(NamedTuple):
    r"""
    Parameters of a classifier of texts.

    Parameters
    ----------
    class_token : ndarray, shape (D,)
        Vector that is put before the text.
    embedding : ndarray, shape (V, D)
        One vector for each token.
    positions : ndarray or None
        Table of the scheme of positions, where it has one.
    blocks : tuple of EncoderBlockParams
        Parameters of each block.
    norm : NormParams or None
        Last normalization, of models that normalize first; else None.
    w_head : ndarray, shape (C, D)
        Weights of the C classes.
    b_head : ndarray or None, shape (C,)
        Their biases.

    See Also
    --------
    init_sequence_classifier : Make them.

    Notes
    -----
    The class token is a parameter of its own, not one of the V tokens: it has no other meaning.

    Examples
    --------
    >>> from dlref.transformer import SequenceClassifierParams
    >>> SequenceClassifierParams._fields[0]
    'class_token'
    """

    class_token: FloatArray
    embedding: FloatArray
    positions: FloatArray | None
    blocks: tuple[EncoderBlockParams, ...]
    norm: NormParams | None
    w_head: FloatArray
    b_head: FloatArray | None


@displayed
class EncoderDecoderParams(NamedTuple):
    r"""
    Parameters of an encoder-decoder model.

    Parameters
    ----------
    embedding : ndarray, shape (V, D)
        One vector for each token, for both texts.
    source_positions : ndarray or None
        Table of the encoder's scheme of positions, where it has one.
    positions : ndarray or None
        Table of the decoder.
    encoder : tuple of EncoderBlockParams
        Parameters of the encoder's blocks.
    encoder_norm : NormParams or None
        Its last normalization, of models that normalize first; else None.
    decoder : tuple of DecoderBlockParams
        Parameters of the decoder's blocks.
    norm : NormParams or None
        Its last normalization, likewise.
    head : ndarray or None, shape (V, D)
        Weights of the last layer; None where they are the embeddings.

    See Also
    --------
    init_encoder_decoder_model : Make them.

    Notes
    -----
    One vocabulary serves both texts, as in the paper. Two of them are one if the numbers of the
    second begin where the first ones end.

    Examples
    --------
    >>> from dlref.transformer import EncoderDecoderParams
    >>> EncoderDecoderParams._fields[3:7]
    ('encoder', 'encoder_norm', 'decoder', 'norm')
    """

    embedding: FloatArray
    source_positions: FloatArray | None
    positions: FloatArray | None
    encoder: tuple[EncoderBlockParams, ...]
    encoder_norm: NormParams | None
    decoder: tuple[DecoderBlockParams, ...]
    norm: NormParams | None
    head: FloatArray | None
