r"""The parameters of the Transformer: nested named tuples of arrays."""

from __future__ import annotations

from typing import NamedTuple

from .._core.arguments import FloatArray
from .._core.pytree import displayed
from ..attention import AttentionParams

__all__ = [
    "DecoderBlockParams",
    "EncoderBlockParams",
    "EncoderDecoderParams",
    "FeedForwardParams",
    "GatedFeedForwardParams",
    "LanguageModelParams",
    "NormParams",
    "SequenceClassifierParams",
]


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
    feed_forward : What they are parameters of.
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
    Parameters of a gated feed-forward network: three matrices, no biases.

    Parameters
    ----------
    w_gate : ndarray, shape (F, D)
        Weights of the gate.
    w_up : ndarray, shape (F, D)
        Weights of what is gated.
    w_down : ndarray, shape (D, F)
        Weights of the output.

    See Also
    --------
    gated_feed_forward : What they are parameters of.
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
    >>> sum(w.size for w in params)
    72
    """

    w_gate: FloatArray
    w_up: FloatArray
    w_down: FloatArray


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
    dlref.normalization.layer_norm, dlref.normalization.rms_norm : What they are parameters of.

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
    Parameters of an encoder block, which are those of a decoder-only model's block, too.

    Parameters
    ----------
    attention : AttentionParams
        Self-attention.
    norm1 : NormParams
        Normalization that belongs to it.
    feed_forward : FeedForwardParams or GatedFeedForwardParams
        Feed-forward network.
    norm2 : NormParams
        Normalization that belongs to it.

    See Also
    --------
    encoder_block : What they are parameters of.
    DecoderBlockParams : With cross-attention.

    Notes
    -----
    With width D, F hidden units and as many key heads as heads, and all biases:
    :math:`4 D^2 + 4 D` for attention, :math:`2 F D + F + D` for the network, 4 D for the
    normalizations.

    Examples
    --------
    >>> from dlref.transformer import EncoderBlockParams
    >>> EncoderBlockParams._fields
    ('attention', 'norm1', 'feed_forward', 'norm2')
    """

    attention: AttentionParams
    norm1: NormParams
    feed_forward: FeedForwardParams | GatedFeedForwardParams
    norm2: NormParams


@displayed
class DecoderBlockParams(NamedTuple):
    r"""
    Parameters of a decoder block with cross-attention.

    Parameters
    ----------
    self_attention : AttentionParams
        Attention over the decoder's own positions.
    norm1 : NormParams
        Normalization that belongs to it.
    cross_attention : AttentionParams
        Attention over the encoder's output.
    norm2 : NormParams
        Normalization that belongs to it.
    feed_forward : FeedForwardParams or GatedFeedForwardParams
        Feed-forward network.
    norm3 : NormParams
        Normalization that belongs to it.

    See Also
    --------
    decoder_block : What they are parameters of.
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

    self_attention: AttentionParams
    norm1: NormParams
    cross_attention: AttentionParams
    norm2: NormParams
    feed_forward: FeedForwardParams | GatedFeedForwardParams
    norm3: NormParams


@displayed
class LanguageModelParams(NamedTuple):
    r"""
    Parameters of a language model.

    Parameters
    ----------
    embedding : ndarray, shape (V, D)
        One vector for each token.
    positions : ndarray or None
        Table of learned positions (L, D), or of T5's biases (32, H); else None.
    blocks : tuple of EncoderBlockParams
        Parameters of each block.
    norm : NormParams or None
        Last normalization, of models that normalize first; else None.
    head : ndarray or None, shape (V, D)
        Weights of the last layer; None where they are the embeddings.

    See Also
    --------
    init_language_model : Make them.
    save_params : Keep them.

    Notes
    -----
    Nested named tuples of arrays: what :func:`dlref.training.adamw_step` takes and gives back.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.transformer import LanguageModelConfig, LanguageModelParams, init_language_model
    >>> params = init_language_model(np.random.default_rng(0), LanguageModelConfig(9, 8, 2))
    >>> isinstance(params, LanguageModelParams), params.embedding.shape, params.head
    (True, (9, 8), None)
    >>> LanguageModelParams._fields
    ('embedding', 'positions', 'blocks', 'norm', 'head')
    """

    embedding: FloatArray
    positions: FloatArray | None
    blocks: tuple[EncoderBlockParams, ...]
    norm: NormParams | None
    head: FloatArray | None


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
        That of the decoder.
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
    second begin where those of the first end.

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
