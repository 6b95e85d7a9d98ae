r"""Encoder and decoder together: a text in, another out."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .._core.arguments import (
    FloatArray,
    as_array,
    as_generator,
    as_integer,
    as_integers,
    check_ndim,
    check_range,
    check_shape,
    check_size,
    float_dtype,
)
from .._core.pytree import (
    as_float_trees,
    as_tree_tangents,
    displayed,
    params_tangents,
    rounded,
    shaped_like,
)
from .._math.dense import affine, affine_jvp, affine_vjp
from ..attention._block import AttentionBlock, Heads
from ..losses import cross_entropy, cross_entropy_value_and_grad
from ..positions import learned_positions_vjp, t5_bias
from ._blocks import (
    DecoderBlockParams,
    EncoderBlockParams,
    NormParams,
    Options,
    as_block,
    as_norm,
    check_block,
    check_norm,
    decoder_block_forward,
    norm_forward,
)
from ._classifier import seen_from_everywhere
from ._configuration import (
    LanguageModelConfig,
    check_config,
    init_attention,
    init_blocks,
    init_embedding,
    init_network,
    init_norm,
    init_positions,
    places,
    places_vjp,
)
from ._decoding import EncoderDecoderDecoding
from ._feed_forward import Pullback
from ._language_model import Dropout, as_tokens, block_options, check_table, embed
from ._stacks import (
    decoder_forward,
    decoder_tangent,
    encoder_forward,
    encoder_tangent,
    encoder_value,
    stack_options,
)

__all__ = [
    "EncoderDecoderParams",
    "encoder_decoder_generate",
    "encoder_decoder_model",
    "encoder_decoder_model_jvp",
    "encoder_decoder_model_loss",
    "encoder_decoder_model_loss_grad",
    "encoder_decoder_model_loss_value_and_grad",
    "encoder_decoder_model_vjp",
    "encoder_decoder_weights",
    "init_encoder_decoder_model",
]

IntArray = npt.NDArray[np.int64]


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


def init_encoder_decoder_model(
    rng: np.random.Generator,
    config: LanguageModelConfig,
    *,
    dtype: npt.DTypeLike = np.float64,
) -> EncoderDecoderParams:
    r"""
    Draw the parameters of an encoder-decoder model.

    Parameters
    ----------
    rng : numpy.random.Generator
        Source of random numbers.
    config : LanguageModelConfig
        What both halves consist of: `layers` blocks each.
    dtype : dtype, default float64
        Type of the parameters.

    Returns
    -------
    EncoderDecoderParams
        Arrays of `dtype`.

    Raises
    ------
    TypeError
        If `rng` is not a generator, `config` is not a configuration or `dtype` is neither integer
        nor a real floating-point type.

    See Also
    --------
    init_language_model : The same start, with its reasons.
    encoder_decoder_model : What they are for.

    Notes
    -----
    The model of 2017 is ``LanguageModelConfig(37000, 512, 8, layers=6, hidden=2048,
    positions="sinusoidal", activation="relu", norm_first=False)``.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.transformer import LanguageModelConfig, init_encoder_decoder_model
    >>> rng = np.random.default_rng(0)
    >>> params = init_encoder_decoder_model(rng, LanguageModelConfig(9, 8, 2, layers=3))
    >>> len(params.encoder), len(params.decoder)
    (3, 3)
    """
    as_generator("rng", rng)
    check_config(config)
    kind = float_dtype("dtype", dtype)
    shrink = 1 / np.sqrt(3 * max(config.layers, 1)) if config.norm_first else 1.0
    embedding = init_embedding(rng, config, config.vocabulary)
    there, here = (init_positions(rng, config, config.length) for _ in range(2))
    encoder = init_blocks(rng, config)
    decoder = tuple(
        DecoderBlockParams(
            init_attention(rng, config, shrink),
            init_norm(config),
            init_attention(rng, config, shrink),
            init_norm(config),
            init_network(rng, config, shrink),
            init_norm(config),
        )
        for _ in range(config.layers)
    )
    lasts = [init_norm(config) if config.norm_first else None for _ in range(2)]
    head = None if config.tied else rng.normal(0.0, 0.02, embedding.shape)
    params = EncoderDecoderParams(
        embedding, there, here, encoder, lasts[0], decoder, lasts[1], head
    )
    return rounded(params, kind)  # type: ignore[no-any-return]


def as_params(name: str, params: Any, config: LanguageModelConfig) -> EncoderDecoderParams:
    """Return the parameters as nested named tuples."""
    p = shaped_like(EncoderDecoderParams, name, params)
    stacks = {}
    for key, kind in (("encoder", EncoderBlockParams), ("decoder", DecoderBlockParams)):
        blocks = getattr(p, key)
        if not isinstance(blocks, tuple) or len(blocks) != config.layers:
            got = len(blocks) if isinstance(blocks, tuple) else type(blocks).__name__
            msg = f"Argument '{name}.{key}' must be a tuple of layers = {config.layers}, not {got}."
            raise ValueError(msg)
        stacks[key] = tuple(
            as_block(kind, f"{name}.{key}[{i}]", block) for i, block in enumerate(blocks)
        )
    norms = {
        key: None if getattr(p, key) is None else as_norm(f"{name}.{key}", getattr(p, key))
        for key in ("encoder_norm", "norm")
    }
    return p._replace(**stacks, **norms)  # type: ignore[no-any-return]


def check_params(name: str, p: EncoderDecoderParams, config: LanguageModelConfig) -> None:
    """Raise unless the shapes are those of the configuration."""
    V, D = config.vocabulary, config.width
    heads = Heads(config.heads, config.kv_heads)
    check_shape(f"{name}.embedding", p.embedding, (V, D))
    for key in ("source_positions", "positions"):
        check_table(f"{name}.{key}", getattr(p, key), config)
    for key in ("encoder", "decoder"):
        for i, block in enumerate(getattr(p, key)):
            check_block(f"{name}.{key}[{i}]", block, D, D, heads, config.norm)
    for key in ("encoder_norm", "norm"):
        if getattr(p, key) is not None:
            check_norm(f"{name}.{key}", getattr(p, key), D, config.norm)
    if p.head is not None:
        check_shape(f"{name}.head", p.head, (V, D))


def _halves(dropout: Any, attention_dropout: Any, embedding_dropout: Any) -> tuple[Dropout, ...]:
    """Return the factors of the encoder and those of the decoder."""
    given = {
        "dropout": dropout,
        "attention_dropout": attention_dropout,
        "embedding_dropout": embedding_dropout,
    }
    for name, value in given.items():
        if value is not None and not (isinstance(value, tuple | list) and len(value) == 2):
            msg = (
                f"Argument {name!r} must be a tuple of 2 entries, for encoder and decoder, or None."
            )
            raise ValueError(msg)
    encoder, decoder = zip(*((None, None) if v is None else v for v in given.values()), strict=True)
    return Dropout(*encoder), Dropout(*decoder)


def _encoder(
    source: IntArray,
    p: EncoderDecoderParams,
    config: LanguageModelConfig,
    lengths: Any,
    dropout: Dropout,
) -> tuple[Any, ...]:
    """Return what the encoder is called with."""
    there = places(config, p.source_positions, source.shape[-1], p.embedding.dtype, causal=False)
    x = embed(source, p.embedding, there.vectors, config)
    factors = dropout.of_embedding(x)
    x = x if factors is None else factors * x
    mask = seen_from_everywhere(lengths, source.shape, 0)
    told = block_options(config, there, False, dropout)._replace(mask=mask)
    options = stack_options(told, config.layers, 2, x)
    return x, p.encoder, p.encoder_norm, options, (config.norm, config.eps)


def _decoder(
    target: IntArray,
    p: EncoderDecoderParams,
    config: LanguageModelConfig,
    source_shape: tuple[int, ...],
    lengths: Any,
    dropout: Dropout,
) -> tuple[FloatArray, list[Options]]:
    there = places(config, p.positions, target.shape[-1], p.embedding.dtype)
    x = embed(target, p.embedding, there.vectors, config)
    factors = dropout.of_embedding(x)
    x = x if factors is None else factors * x
    mask = seen_from_everywhere(lengths, source_shape, 0)
    told = block_options(config, there, True, dropout)._replace(memory_mask=mask)
    return x, stack_options(told, config.layers, 3, x)


def _run(
    source: IntArray,
    target: IntArray,
    p: EncoderDecoderParams,
    config: LanguageModelConfig,
    lengths: Any,
    dropout: tuple[Dropout, ...],
) -> tuple[FloatArray, Pullback]:
    end = config.norm, config.eps
    memory, encoder_pullback = encoder_forward(*_encoder(source, p, config, lengths, dropout[0]))
    x, options = _decoder(target, p, config, source.shape, lengths, dropout[1])
    source_factors, factors = (d.of_embedding(v) for d, v in zip(dropout, (memory, x), strict=True))
    h, decoder_pullback = decoder_forward(x, memory, p.decoder, p.norm, options, end)
    weight = p.embedding if p.head is None else p.head

    @np.errstate(all="ignore")
    def pullback(u: FloatArray) -> EncoderDecoderParams:
        dh, dhead, _ = affine_vjp(u, h, weight)
        dx, dmemory, ddecoder, dnorm, dbias = decoder_pullback(dh)
        dsource, dencoder, dencoder_norm, dsource_bias = encoder_pullback(dmemory)
        dx = dx if factors is None else factors * dx
        dsource = dsource if source_factors is None else source_factors * dsource
        dtable = places_vjp(config, p.positions, dx, dbias)
        dsource_table = places_vjp(config, p.source_positions, dsource, dsource_bias, causal=False)
        scale = dx.dtype.type(config.embedding_scale)
        dembedding = np.asarray(learned_positions_vjp(dx * scale, p.embedding, target))
        dembedding += learned_positions_vjp(dsource * scale, p.embedding, source)
        if p.head is None:
            dembedding += dhead
        return EncoderDecoderParams(
            dembedding,
            dsource_table,
            dtable,
            dencoder,
            dencoder_norm,
            ddecoder,
            dnorm,
            None if p.head is None else dhead,
        )

    return affine(h, weight), pullback


def _arguments(
    source: npt.ArrayLike, target: npt.ArrayLike, params: Any, config: Any, **arrays: Any
) -> tuple[Any, IntArray, IntArray, EncoderDecoderParams, list[Any]]:
    check_config(config)
    p = as_params("params", params, config)
    dtype, [p, *rest] = as_float_trees({"params": p, **arrays})
    check_params("params", p, config)
    return dtype, *_texts(("source", "target"), source, target, config), p, rest


def _texts(
    names: tuple[str, str], source: npt.ArrayLike, target: npt.ArrayLike, config: Any
) -> tuple[IntArray, IntArray]:
    ids = as_tokens(names[0], source, config.vocabulary)
    answer = as_tokens(names[1], target, config.vocabulary)
    check_shape(names[1], answer, (*ids.shape[:-1], answer.shape[-1]))
    return ids, answer


def encoder_decoder_model(
    source: npt.ArrayLike,
    target: npt.ArrayLike,
    params: EncoderDecoderParams,
    config: LanguageModelConfig,
    *,
    lengths: npt.ArrayLike | None = None,
    dropout: tuple[Any, Any] | None = None,
    attention_dropout: tuple[Any, Any] | None = None,
    embedding_dropout: tuple[npt.ArrayLike | None, npt.ArrayLike | None] | None = None,
) -> FloatArray:
    r"""
    Predict the next token of one text, given all of another.

    Parameters
    ----------
    source : array_like of int, shape (..., S)
        Text to read, of tokens from 0 to V − 1.
    target : array_like of int, shape (..., T)
        Text to write, as far as it is known.
    params : EncoderDecoderParams
        Parameters.
    config : LanguageModelConfig
        What both halves consist of.
    lengths : array_like of int or None, shape (...)
        Number of tokens of each source that count, from 0 to S; None is all.
    dropout : tuple or None
        Two entries, for encoder and decoder: each None, or for each block the factors of its two
        or three sub-layers, as :func:`encoder_block` and :func:`decoder_block` take them.
    attention_dropout : tuple or None
        Likewise: each None, or for each block the factors of its weights of self-attention.
    embedding_dropout : tuple or None
        Likewise: factors of the sum of embedding and position, (..., S, D) and (..., T, D), or
        None.

    Returns
    -------
    ndarray, shape (..., T, V)
        Logits: ``softmax(logits[..., t, :])`` is the model's distribution of token t + 1 of
        the target.

    Raises
    ------
    TypeError
        If an array has the wrong type, or `params` or `config` is not what it should be.
    ValueError
        If a token is out of range, a text longer than a learned table, or a shape does not fit.

    See Also
    --------
    encoder_decoder_generate : Write the target.
    encoder_decoder_model_loss_value_and_grad : For training.
    language_model : Without a source.

    Notes
    -----
    .. math::

        \mat M = \operatorname{encoder}(\text{source}) , \qquad
        \mat H = \operatorname{decoder}(\text{target}, \mat M) , \qquad
        \text{logits} = \mat H \mat W^\top

    The encoder sees its text from both sides, and once; the decoder sees its own from the left,
    and all of :math:`\mat M` through cross-attention in every block. That is the model for which
    the architecture was made, translation: input and output are different texts.

    References
    ----------
    - :cite:t:`Vaswani2017`

    Examples
    --------
    Every prediction depends on every token of the source, and on earlier ones of the target:

    >>> import numpy as np
    >>> from dlref.transformer import LanguageModelConfig
    >>> from dlref.transformer import encoder_decoder_model, init_encoder_decoder_model
    >>> config = LanguageModelConfig(9, 16, 2)
    >>> params = init_encoder_decoder_model(np.random.default_rng(0), config)
    >>> y = encoder_decoder_model([1, 2, 3], [4, 5], params, config)
    >>> other = encoder_decoder_model([1, 2, 8], [4, 5], params, config)
    >>> np.any(other != y, axis=-1)
    array([ True,  True])
    >>> other = encoder_decoder_model([1, 2, 3], [4, 8], params, config)
    >>> np.any(other != y, axis=-1)
    array([False,  True])
    """
    dtype, ids, answer, p, _ = _arguments(source, target, params, config)
    drops = _halves(dropout, attention_dropout, embedding_dropout)
    memory = encoder_value(*_encoder(ids, p, config, lengths, drops[0]))
    logits = _logits(answer, memory, p, config, ids.shape, lengths, drops[1])
    return rounded(logits, dtype)  # type: ignore[no-any-return]


def _logits(
    target: IntArray,
    memory: FloatArray,
    p: EncoderDecoderParams,
    config: LanguageModelConfig,
    source_shape: tuple[int, ...],
    lengths: Any,
    dropout: Dropout,
) -> FloatArray:
    x, options = _decoder(target, p, config, source_shape, lengths, dropout)
    for block, o in zip(p.decoder, options, strict=True):
        x = decoder_block_forward(x, memory, block, o)[0]
    if p.norm is not None:
        x = norm_forward(x, p.norm, config.norm, config.eps)[0]
    return affine(x, p.embedding if p.head is None else p.head)


def encoder_decoder_model_vjp(
    dout: npt.ArrayLike,
    source: npt.ArrayLike,
    target: npt.ArrayLike,
    params: EncoderDecoderParams,
    config: LanguageModelConfig,
    *,
    lengths: npt.ArrayLike | None = None,
    dropout: tuple[Any, Any] | None = None,
    attention_dropout: tuple[Any, Any] | None = None,
    embedding_dropout: tuple[npt.ArrayLike | None, npt.ArrayLike | None] | None = None,
) -> EncoderDecoderParams:
    r"""
    Vector-Jacobian product (reverse mode) of an encoder-decoder model.

    Parameters
    ----------
    dout : array_like, shape (..., T, V)
        Cotangent of the logits.
    source : array_like of int, shape (..., S)
        Text to read; it has no gradient.
    target, params, config, lengths : as in `encoder_decoder_model`
        Raises the same errors.
    dropout, attention_dropout, embedding_dropout : as in `encoder_decoder_model`
        Factors that both forms have to share.

    Returns
    -------
    EncoderDecoderParams
        Gradient of each parameter; None where it is None.

    See Also
    --------
    decoder_vjp, encoder_vjp : The halves.

    Notes
    -----
    With the cotangent :math:`\mat U` of the logits,

    .. math::

        \pdv{L}{\mat W} = \mat U^\top \mat H, \qquad \pdv{L}{\mat H} = \mat U \mat W, \qquad
        \pdv{L}{\mat M} = \Bigl( \pdv{\mat H}{\mat M} \Bigr)^\top \pdv{L}{\mat H}, \qquad
        \pdv{L}{\theta_{enc}} = \Bigl( \pdv{\mat M}{\theta_{enc}} \Bigr)^\top \pdv{L}{\mat M} .

    The decoder comes first in the backward pass. It leaves the gradient of the memory, a sum over
    its blocks, and that is the cotangent with which the encoder begins. The embeddings are used
    in up to three places, and get the sum.

    Examples
    --------
    Tokens after the end of the source get no gradient from it:

    >>> import numpy as np
    >>> from dlref.transformer import LanguageModelConfig
    >>> from dlref.transformer import encoder_decoder_model_vjp, init_encoder_decoder_model
    >>> rng = np.random.default_rng(0)
    >>> config = LanguageModelConfig(5, 8, 2, tied=False)
    >>> params = init_encoder_decoder_model(rng, config)
    >>> u = rng.normal(size=(1, 5))
    >>> grads = encoder_decoder_model_vjp(u, [1, 2], [4], params, config, lengths=1)
    >>> np.any(grads.embedding != 0, axis=1)
    array([False,  True, False, False,  True])
    """
    dtype, ids, answer, p, [u] = _arguments(source, target, params, config, dout=dout)
    check_shape("dout", u, (*answer.shape, config.vocabulary))
    drops = _halves(dropout, attention_dropout, embedding_dropout)
    return rounded(_run(ids, answer, p, config, lengths, drops)[1](u), dtype)  # type: ignore[no-any-return]


def encoder_decoder_model_jvp(
    primals: Any,
    tangents: Any,
    config: LanguageModelConfig,
    *,
    lengths: npt.ArrayLike | None = None,
    dropout: tuple[Any, Any] | None = None,
    attention_dropout: tuple[Any, Any] | None = None,
    embedding_dropout: tuple[npt.ArrayLike | None, npt.ArrayLike | None] | None = None,
) -> FloatArray:
    r"""
    Jacobian-vector product (forward mode) of an encoder-decoder model.

    Parameters
    ----------
    primals : tuple (source, target, params)
        Both texts and an :class:`EncoderDecoderParams`.
    tangents : tuple (None, None, dparams)
        Directions of the parameters; None at any place is zero. Tokens have none.
    config, lengths : as in `encoder_decoder_model`
        Raises the same errors.
    dropout, attention_dropout, embedding_dropout : as in `encoder_decoder_model`
        Factors that both forms have to share.

    Returns
    -------
    ndarray, shape (..., T, V)
        Tangent of the logits.

    Notes
    -----
    The memory and its tangent go into every block of the decoder:

    .. math::

        \dot{\mat H} = \pdv{\mat H}{\mat M}\, \dot{\mat M} + \pdv{\mat H}{\theta}\, \dot\theta,
            \qquad
        \dot{\text{logits}} = \dot{\mat H} \mat W^\top + \mat H \dot{\mat W}^\top .

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.transformer import LanguageModelConfig
    >>> from dlref.transformer import encoder_decoder_model, encoder_decoder_model_jvp
    >>> from dlref.transformer import init_encoder_decoder_model
    >>> config = LanguageModelConfig(5, 8, 2, tied=False)
    >>> params = init_encoder_decoder_model(np.random.default_rng(0), config)
    >>> along = type(params)(*[None] * 7, params.head)
    >>> y = encoder_decoder_model([1, 2], [4], params, config)
    >>> moved = encoder_decoder_model_jvp(([1, 2], [4], params), (None, None, along), config)
    >>> bool(np.allclose(moved, y, atol=1e-15))
    True
    """
    check_config(config)
    (source, target), p, dp = params_tangents(("source", "target"), primals, tangents)
    p = as_params("primals.params", p, config)
    dtype, [p], [dp] = as_tree_tangents(("params",), p, dp)
    check_params("primals.params", p, config)
    dp = as_params("tangents.params", dp, config)
    ids, answer = _texts(("primals.source", "primals.target"), source, target, config)
    end = config.norm, config.eps
    drops = _halves(dropout, attention_dropout, embedding_dropout)
    x, blocks, norm, options, _ = _encoder(ids, p, config, lengths, drops[0])
    v = _moved(ids, dp.embedding, dp.source_positions, config, drops[0])
    options = _with_moved_bias(options, ids.shape[-1], dp.source_positions, config, causal=False)
    memory = encoder_tangent(x, v, (blocks, dp.encoder), (norm, dp.encoder_norm), options, end)
    x, options = _decoder(answer, p, config, ids.shape, lengths, drops[1])
    v = _moved(answer, dp.embedding, dp.positions, config, drops[1])
    options = _with_moved_bias(options, answer.shape[-1], dp.positions, config, causal=True)
    stacks = p.decoder, dp.decoder
    h, dh = decoder_tangent(x, v, memory, stacks, (p.norm, dp.norm), options, end)
    weight, dweight = (p.embedding, dp.embedding) if p.head is None else (p.head, dp.head)
    moved = affine_jvp((h, weight, None), (dh, dweight, None))
    return rounded(moved, dtype)  # type: ignore[no-any-return]


def _moved(
    tokens: IntArray,
    dembedding: FloatArray,
    dtable: FloatArray | None,
    config: LanguageModelConfig,
    dropout: Dropout,
) -> FloatArray:
    """Return the tangent of what enters the first block."""
    vectors = None
    if config.positions == "learned" and dtable is not None:
        vectors = dtable[: tokens.shape[-1]]
    v = embed(tokens, dembedding, vectors, config)
    factors = dropout.of_embedding(v)
    return v if factors is None else factors * v


def _with_moved_bias(
    options: list[Options],
    T: int,
    dtable: FloatArray | None,
    config: LanguageModelConfig,
    *,
    causal: bool,
) -> list[Options]:
    """Add the tangent of T5's bias to the options of self-attention."""
    if config.positions != "t5" or dtable is None or not T:
        return options
    dbias = t5_bias(dtable, T, T, bidirectional=not causal)
    return [o._replace(dbias=dbias) for o in options]


def _pairs(target: npt.ArrayLike, targets: npt.ArrayLike | None) -> tuple[IntArray, IntArray]:
    ids = as_integers("target", target)
    check_ndim("target", ids, 1)  # type: ignore[arg-type]
    if targets is not None:
        wanted = as_integers("targets", targets)
        check_shape("targets", wanted, ids.shape)
        return ids, wanted
    if ids.shape[-1] < 2:
        msg = f"Argument 'target' must have at least 2 positions, not shape {ids.shape}."
        raise ValueError(msg)
    return ids[..., :-1], ids[..., 1:]


def encoder_decoder_model_loss(
    source: npt.ArrayLike,
    target: npt.ArrayLike,
    params: EncoderDecoderParams,
    config: LanguageModelConfig,
    *,
    targets: npt.ArrayLike | None = None,
    lengths: npt.ArrayLike | None = None,
    dropout: tuple[Any, Any] | None = None,
    attention_dropout: tuple[Any, Any] | None = None,
    embedding_dropout: tuple[npt.ArrayLike | None, npt.ArrayLike | None] | None = None,
) -> FloatArray:
    r"""
    Mean cross-entropy of the next token of the target.

    Parameters
    ----------
    source : array_like of int, shape (..., S)
        Text to read.
    target : array_like of int, shape (..., T)
        Text to write, from its start token on.
    params : EncoderDecoderParams
        Parameters.
    config : LanguageModelConfig
        What both halves consist of.
    targets : array_like of int or None, shape (..., T)
        What each position is to predict, −100 where nothing is asked. None is the next
        token: the decoder reads all but the last token, and predicts all but the first.
    lengths : array_like of int or None, shape (...)
        As for :func:`encoder_decoder_model`.
    dropout, attention_dropout, embedding_dropout : tuple or None
        As for :func:`encoder_decoder_model`.

    Returns
    -------
    floating-point scalar
        Loss, in nats per token.

    Raises
    ------
    TypeError
        If an array has the wrong type, or `params` or `config` is not what it should be.
    ValueError
        If a token is out of range, a text longer than a learned table, a shape does not fit, or
        `targets` is None and the target has fewer than two tokens.

    See Also
    --------
    encoder_decoder_model_loss_value_and_grad : With its gradient, for training.

    Notes
    -----
    With N predictions,

    .. math::

        L = - \frac1N \sum_t \log p(\text{target}_{t+1} \mid \text{source}, \text{target}_1, \dots,
            \text{target}_t)

    While it is trained the decoder reads the right answer as far as the place it predicts, whatever
    it would have written itself (teacher forcing): all places are predicted at once.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.transformer import LanguageModelConfig, init_encoder_decoder_model
    >>> from dlref.transformer import encoder_decoder_model_loss
    >>> config = LanguageModelConfig(9, 16, 2, tied=False)
    >>> params = init_encoder_decoder_model(np.random.default_rng(0), config)
    >>> guess = params._replace(head=0 * params.head)
    >>> bool(encoder_decoder_model_loss([1, 2], [0, 2, 1], guess, config) == np.log(9))
    True
    """
    ids, wanted = _pairs(target, targets)
    logits = encoder_decoder_model(
        source,
        ids,
        params,
        config,
        lengths=lengths,
        dropout=dropout,
        attention_dropout=attention_dropout,
        embedding_dropout=embedding_dropout,
    )
    return cross_entropy(logits, wanted)


def encoder_decoder_model_loss_value_and_grad(
    source: npt.ArrayLike,
    target: npt.ArrayLike,
    params: EncoderDecoderParams,
    config: LanguageModelConfig,
    *,
    targets: npt.ArrayLike | None = None,
    lengths: npt.ArrayLike | None = None,
    dropout: tuple[Any, Any] | None = None,
    attention_dropout: tuple[Any, Any] | None = None,
    embedding_dropout: tuple[npt.ArrayLike | None, npt.ArrayLike | None] | None = None,
) -> tuple[FloatArray, EncoderDecoderParams]:
    r"""
    Both the loss of an encoder-decoder model and its gradient, for one step of training.

    Parameters
    ----------
    source, target, params, config, targets, lengths : as in `encoder_decoder_model_loss`
        Raises the same errors.
    dropout, attention_dropout, embedding_dropout : as in `encoder_decoder_model_loss`
        Factors that value and gradient share.

    Returns
    -------
    loss : floating-point scalar
        Loss, in nats per token.
    grads : EncoderDecoderParams
        Gradient of each parameter; None where it is None.

    See Also
    --------
    encoder_decoder_model_vjp : The backward pass through the model.

    Notes
    -----
    The loss is that of :func:`encoder_decoder_model_loss`, its gradient begins with

    .. math::

        \pdv{L}{\text{logits}_{tv}} = \frac1N \bigl( p_{tv} - [\, v = \text{target}_{t+1} \,] \bigr)
            .

    The forward pass is made once, and both halves keep what their backward pass needs.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.transformer import LanguageModelConfig, init_encoder_decoder_model
    >>> from dlref.transformer import encoder_decoder_model_loss_value_and_grad
    >>> config = LanguageModelConfig(9, 16, 2)
    >>> params = init_encoder_decoder_model(np.random.default_rng(0), config)
    >>> loss, grads = encoder_decoder_model_loss_value_and_grad([1, 2], [0, 2, 1], params, config)
    >>> bool(np.any(grads.encoder[0].attention.w_v))  # it reaches the first block of the encoder
    True
    """
    ids, wanted = _pairs(target, targets)
    dtype, texts, answer, p, _ = _arguments(source, ids, params, config)
    drops = _halves(dropout, attention_dropout, embedding_dropout)
    logits, pullback = _run(texts, answer, p, config, lengths, drops)
    loss, dlogits = cross_entropy_value_and_grad(logits, wanted)
    return rounded((loss, pullback(dlogits)), dtype)  # type: ignore[no-any-return]


def encoder_decoder_model_loss_grad(
    source: npt.ArrayLike,
    target: npt.ArrayLike,
    params: EncoderDecoderParams,
    config: LanguageModelConfig,
    *,
    targets: npt.ArrayLike | None = None,
    lengths: npt.ArrayLike | None = None,
    dropout: tuple[Any, Any] | None = None,
    attention_dropout: tuple[Any, Any] | None = None,
    embedding_dropout: tuple[npt.ArrayLike | None, npt.ArrayLike | None] | None = None,
) -> EncoderDecoderParams:
    r"""
    Gradient of an encoder-decoder model's loss with respect to all parameters.

    Parameters
    ----------
    source, target, params, config, targets, lengths : as in `encoder_decoder_model_loss`
        Raises the same errors.
    dropout, attention_dropout, embedding_dropout : as in `encoder_decoder_model_loss`
        Factors that value and gradient share.

    Returns
    -------
    EncoderDecoderParams
        Gradient of each parameter; None where it is None.

    Notes
    -----
    The cross-entropy gives the cotangent with which :func:`encoder_decoder_model_vjp` starts:

    .. math::

        \pdv{L}{\text{logits}_{tv}} = \frac1N \bigl( p_{tv} - [\, v = \text{target}_{t+1} \,] \bigr)
            .

    The other parts are those of :func:`language_model_loss_grad`, and cross-attention.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.transformer import LanguageModelConfig, init_encoder_decoder_model
    >>> from dlref.transformer import encoder_decoder_model_loss_grad
    >>> config = LanguageModelConfig(9, 16, 2)
    >>> params = init_encoder_decoder_model(np.random.default_rng(0), config)
    >>> grads = encoder_decoder_model_loss_grad([1, 2], [0, 2, 1], params, config)
    >>> grads.decoder[1].cross_attention.w_q.shape
    (16, 16)
    """
    return encoder_decoder_model_loss_value_and_grad(
        source,
        target,
        params,
        config,
        targets=targets,
        lengths=lengths,
        dropout=dropout,
        attention_dropout=attention_dropout,
        embedding_dropout=embedding_dropout,
    )[1]


def encoder_decoder_generate(
    source: npt.ArrayLike,
    params: EncoderDecoderParams,
    config: LanguageModelConfig,
    *,
    start: int,
    steps: int,
    stop: int | None = None,
    lengths: npt.ArrayLike | None = None,
) -> IntArray:
    r"""
    Write a target greedily: the most probable token at each step.

    Parameters
    ----------
    source : array_like of int, shape (..., S)
        Text to read.
    params : EncoderDecoderParams
        Parameters.
    config : LanguageModelConfig
        What both halves consist of.
    start : int
        Token with which the target begins.
    steps : int
        Number of tokens to write after it.
    stop : int or None
        Token that ends a target; what would follow it is filled with it.
    lengths : array_like of int or None, shape (...)
        As for :func:`encoder_decoder_model`.

    Returns
    -------
    ndarray of int64, shape (..., 1 + steps)
        Targets.

    Raises
    ------
    TypeError
        If an argument has the wrong type, or `params` or `config` is not what it should be.
    ValueError
        If a token is out of range, a text longer than a learned table, or a shape does not fit.

    See Also
    --------
    generate : For a language model, with the same cache.

    Notes
    -----
    Each token is the one of largest probability, given the source and those before:

    .. math::

        \text{token}_{t+1} = \arg\max_v \text{logits}_{tv} .

    The encoder runs once. Keys and values of the target so far are kept, as in :func:`generate`;
    those of the memory, which every token reads, are projected once.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.transformer import LanguageModelConfig, init_encoder_decoder_model
    >>> from dlref.transformer import encoder_decoder_generate, encoder_decoder_model
    >>> config = LanguageModelConfig(9, 16, 2)
    >>> params = init_encoder_decoder_model(np.random.default_rng(0), config)
    >>> text = encoder_decoder_generate([1, 2], params, config, start=0, steps=3)
    >>> logits = encoder_decoder_model([1, 2], text[:-1], params, config)
    >>> bool(np.all(text[1:] == logits.argmax(-1)))
    True
    """
    check_config(config)
    tokens = [as_integer("start", start, least=0), as_integer("steps", steps, least=0)]
    check_range("start", np.array(tokens[0]), config.vocabulary)
    if stop is not None:
        check_range("stop", np.array(as_integer("stop", stop, least=0)), config.vocabulary)
    _, ids, _, p, _ = _arguments(
        source, np.zeros((*as_array("source", source).shape[:-1], 0), int), params, config
    )
    check_size(source=ids.size, steps=tokens[1])
    memory = encoder_value(*_encoder(ids, p, config, lengths, Dropout()))
    out = np.full((*ids.shape[:-1], 1 + tokens[1]), tokens[0], np.int64)
    done = np.zeros(ids.shape[:-1], bool)
    mask = seen_from_everywhere(lengths, ids.shape, 0)
    decoding = EncoderDecoderDecoding(p, config, memory, mask, tokens[1])
    for at in range(1, out.shape[-1]):
        token = np.argmax(decoding.feed(out[..., at - 1 : at]), axis=-1)
        out[..., at] = token if stop is None else np.where(done, stop, token)
        done |= False if stop is None else out[..., at] == stop
    return out


def encoder_decoder_weights(
    source: npt.ArrayLike,
    target: npt.ArrayLike,
    params: EncoderDecoderParams,
    config: LanguageModelConfig,
    *,
    lengths: npt.ArrayLike | None = None,
) -> tuple[FloatArray, ...]:
    r"""
    Cross-attention weights of each block: where the decoder looks in the source.

    Parameters
    ----------
    source : array_like of int, shape (..., S)
        Text to read.
    target : array_like of int, shape (..., T)
        Text to write.
    params : EncoderDecoderParams
        Parameters.
    config : LanguageModelConfig
        What both halves consist of.
    lengths : array_like of int or None, shape (...)
        As for :func:`encoder_decoder_model`.

    Returns
    -------
    tuple of ndarray, shape (..., H, T, S)
        Weights of each block of the decoder.

    Raises
    ------
    TypeError
        If an array has the wrong type, or `params` or `config` is not what it should be.
    ValueError
        If a token is out of range, a text longer than a learned table, or a shape does not fit.

    See Also
    --------
    language_model_trace : The same for self-attention.

    Notes
    -----
    With the queries :math:`\mat Q_{kh}` of head h in block k of the decoder and its keys
    :math:`\mat K_{kh}` of the memory,

    .. math::

        \mat P_{kh} = \operatorname{softmax} \Bigl( \frac{\mat Q_{kh} \mat K_{kh}^\top}{\sqrt E}
            \Bigr) ,

    where the keys beyond `lengths` are masked; row t shows what was read in order to predict token
    t + 1 of the target.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.transformer import LanguageModelConfig, init_encoder_decoder_model
    >>> from dlref.transformer import encoder_decoder_weights
    >>> config = LanguageModelConfig(9, 16, 2)
    >>> params = init_encoder_decoder_model(np.random.default_rng(0), config)
    >>> weights = encoder_decoder_weights([1, 2, 3], [0, 4], params, config)
    >>> len(weights), weights[0].shape, bool(np.allclose(weights[0].sum(-1), 1))
    (2, (2, 2, 3), True)
    """
    dtype, ids, answer, p, _ = _arguments(source, target, params, config)
    memory = encoder_value(*_encoder(ids, p, config, lengths, Dropout()))
    x, options = _decoder(answer, p, config, ids.shape, lengths, Dropout())
    weights = []
    for block, o in zip(p.decoder, options, strict=True):
        seen: list[AttentionBlock] = []
        x = decoder_block_forward(x, memory, block, o, seen=seen)[0]
        weights.append(seen[0].weights())
    return rounded(tuple(weights), dtype)  # type: ignore[no-any-return]
