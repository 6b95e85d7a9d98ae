r"""Encoder and decoder together: a text in, another out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from .._core.arguments import (
    FloatArray,
    as_generator,
    as_integer,
    check_range,
    check_shape,
    check_size,
    float_dtype,
)
from .._core.pytree import rounded
from ..losses import cross_entropy, cross_entropy_value_and_grad
from ._blocks import Mixer, block_forward
from ._configuration import (
    LanguageModelConfig,
    check_config,
    init_blocks,
    init_embedding,
    init_norm,
    init_positions,
)
from ._decoding import Decoding
from ._model import (
    NO_DROPOUT,
    Dropout,
    IntArray,
    Text,
    check_predicted,
    length_mask,
    logits_of,
    logits_tangent,
    logits_vjp,
    model_arguments,
    model_tangents,
    next_tokens,
    shared,
)
from ._options import Call
from ._params import DecoderBlockParams, EncoderBlockParams, EncoderDecoderParams
from ._stacks import Stack, stack_forward, stack_tangent, stack_value


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
        Architecture of both halves: `num_layers` and `num_decoder_layers` blocks.
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
    encoder_decoder_model : Takes them.

    Notes
    -----
    The model of 2017 is ``LanguageModelConfig(37000, 512, 8, num_layers=6, d_ff=2048,
    positions="sinusoidal", activation="relu", norm_first=False)``.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.transformer import LanguageModelConfig, init_encoder_decoder_model
    >>> rng = np.random.default_rng(0)
    >>> params = init_encoder_decoder_model(rng, LanguageModelConfig(9, 8, 2, num_layers=3))
    >>> len(params.encoder), len(params.decoder)
    (3, 3)
    """
    as_generator("rng", rng)
    check_config(config)
    kind = float_dtype("dtype", dtype)
    embedding = init_embedding(rng, config, config.vocab_size)
    there, here = (init_positions(rng, config, config.length) for _ in range(2))
    encoder = init_blocks(rng, config, EncoderBlockParams)
    decoder = init_blocks(rng, config, DecoderBlockParams)
    lasts = [init_norm(config) if config.norm_first else None for _ in range(2)]
    head = None if config.tied else rng.normal(0.0, 0.02, embedding.shape)
    params = EncoderDecoderParams(
        embedding, there, here, encoder, lasts[0], decoder, lasts[1], head
    )
    return rounded(params, kind)


def _halves(*drops: Any) -> tuple[Dropout, ...]:
    """Return the factors of the encoder and of the decoder."""
    names = "dropout", "attention_dropout", "embedding_dropout"
    for name, value in zip(names, drops, strict=True):
        if value is not None and not (isinstance(value, tuple | list) and len(value) == 2):
            what = "a tuple of 2 entries, for encoder and decoder, or None"
            msg = f"Argument {name!r} must be {what}."
            raise ValueError(msg)
    encoder, decoder = zip(*((None, None) if v is None else v for v in drops), strict=True)
    return Dropout(*encoder), Dropout(*decoder)


def _texts(
    source: IntArray,
    target: IntArray,
    p: EncoderDecoderParams,
    config: LanguageModelConfig,
    dropout: tuple[Dropout, ...] = (NO_DROPOUT, NO_DROPOUT),
) -> tuple[Text, Text]:
    """Return the inputs of the encoder and of the decoder."""
    here, there = dropout
    return (
        Text(source, p.embedding, p.source_positions, config, here, causal=False),
        Text(target, p.embedding, p.positions, config, there),
    )


def _encoder(p: EncoderDecoderParams, text: Text, lengths: Any) -> tuple[FloatArray, Stack]:
    mask = length_mask(lengths, text.tokens.shape)
    return text.enter(p.encoder, p.encoder_norm, Call(mask=mask))


def _decoder(
    p: EncoderDecoderParams, texts: tuple[Text, Text], lengths: Any
) -> tuple[FloatArray, Stack]:
    mask = length_mask(lengths, texts[0].tokens.shape)
    return texts[1].enter(p.decoder, p.norm, Call(memory_mask=mask))


def _run(
    p: EncoderDecoderParams, texts: tuple[Text, Text], lengths: Any
) -> tuple[FloatArray, Callable[[FloatArray], EncoderDecoderParams]]:
    memory, encoder_pullback = stack_forward(*_encoder(p, texts[0], lengths))
    x, stack = _decoder(p, texts, lengths)
    h, decoder_pullback = stack_forward(x, stack, memory)

    @np.errstate(all="ignore")
    def pullback(u: FloatArray) -> EncoderDecoderParams:
        dh, dhead, _ = logits_vjp(u, h, p, texts[0].config)
        dx, dmemory, ddecoder, dnorm, dbias = decoder_pullback(dh)
        dsource, _, dencoder, dencoder_norm, dsource_bias = encoder_pullback(dmemory)
        dembedding, dtable, *_ = texts[1].pullback(dx, dbias)
        dread, dsource_table, *_ = texts[0].pullback(dsource, dsource_bias)
        dembedding, dhead_alone = shared(p, dembedding + dread, dhead)
        tables = dsource_table, dtable
        stacks = dencoder, dencoder_norm, ddecoder, dnorm
        return EncoderDecoderParams(dembedding, *tables, *stacks, dhead_alone)

    return logits_of(h, p, texts[0].config), pullback


def _arguments(
    source: npt.ArrayLike, target: npt.ArrayLike, params: Any, config: Any, **arrays: Any
) -> tuple[Any, IntArray, IntArray, EncoderDecoderParams, list[Any]]:
    texts = {"source": source, "target": target}
    dtype, ids, p, rest = model_arguments(EncoderDecoderParams, texts, params, config, **arrays)
    _check_batch("target", *ids)
    return dtype, *ids, p, rest


def _check_batch(name: str, ids: IntArray, answer: IntArray) -> None:
    """Raise unless there is a target for each source."""
    check_shape(name, answer, (*ids.shape[:-1], answer.shape[-1]))


def _logits(
    source: npt.ArrayLike,
    target: npt.ArrayLike,
    params: Any,
    config: Any,
    lengths: Any,
    *drops: Any,
) -> FloatArray:
    dtype, ids, answer, p, _ = _arguments(source, target, params, config)
    texts = _texts(ids, answer, p, config, _halves(*drops))
    memory = stack_value(*_encoder(p, texts[0], lengths))
    x, stack = _decoder(p, texts, lengths)
    return rounded(logits_of(stack_value(x, stack, memory), p, config), dtype)


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
        Architecture of both halves.
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
        If an array has the wrong type, or `params` or `config` is of the wrong type.
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
    drops = dropout, attention_dropout, embedding_dropout
    return _logits(source, target, params, config, lengths, *drops)


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
    check_shape("dout", u, (*answer.shape, config.vocab_size))
    drops = _halves(dropout, attention_dropout, embedding_dropout)
    return rounded(_run(p, _texts(ids, answer, p, config, drops), lengths)[1](u), dtype)


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
    >>> from dlref.transformer import LanguageModelConfig, encoder_decoder_model
    >>> from dlref.transformer import encoder_decoder_model_jvp, init_encoder_decoder_model
    >>> config = LanguageModelConfig(5, 8, 2, tied=False)
    >>> params = init_encoder_decoder_model(np.random.default_rng(0), config)
    >>> along = type(params)(*[None] * 7, params.head)
    >>> y = encoder_decoder_model([1, 2], [4], params, config)
    >>> moved = encoder_decoder_model_jvp(([1, 2], [4], params), (None, None, along), config)
    >>> bool(np.allclose(moved, y, atol=1e-15))
    True
    """
    kind, names = EncoderDecoderParams, ("source", "target")
    dtype, [ids, answer], p, dp = model_tangents(kind, names, primals, tangents, config)
    _check_batch("primals.target", ids, answer)
    drops = _halves(dropout, attention_dropout, embedding_dropout)
    texts = _texts(ids, answer, p, config, drops)
    moved = _texts(ids, answer, dp, config, drops)
    x, stack = _encoder(p, texts[0], lengths)
    v, stack = texts[0].tangent(moved[0], stack)
    memory = stack_tangent(x, v, stack, dp.encoder, dp.encoder_norm)
    x, stack = _decoder(p, texts, lengths)
    v, stack = texts[1].tangent(moved[1], stack)
    h, dh = stack_tangent(x, v, stack, dp.decoder, dp.norm, memory)
    return rounded(logits_tangent(h, dh, p, dp, config), dtype)


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
    params, config : as in `encoder_decoder_model`
        Parameters, and the architecture of the model.
    targets : array_like of int or None, shape (..., T)
        The token that each position is to predict, −100 where it does not count. None is the next
        token: the decoder reads all but the last token, and predicts all but the first.
    lengths, dropout, attention_dropout, embedding_dropout : as in `encoder_decoder_model`
        The same.

    Returns
    -------
    floating-point scalar
        Loss, in nats per token.

    Raises
    ------
    TypeError
        If an array has the wrong type, or `params` or `config` is of the wrong type.
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
    ids, wanted = next_tokens("target", target, targets)
    drops = dropout, attention_dropout, embedding_dropout
    logits = _logits(source, ids, params, config, lengths, *drops)
    check_predicted("target", targets, wanted, config.vocab_size)
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
    The loss is :func:`encoder_decoder_model_loss`; its gradient begins with

    .. math::

        \pdv{L}{\text{logits}_{tv}} = \frac1N \bigl( p_{tv} - [\, v = \text{target}_{t+1} \,] \bigr)
            .

    The forward pass is made once, and both halves keep the arrays that their backward pass needs.

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
    ids, wanted = next_tokens("target", target, targets)
    dtype, texts, answer, p, _ = _arguments(source, ids, params, config)
    check_predicted("target", targets, wanted, config.vocab_size)
    drops = _halves(dropout, attention_dropout, embedding_dropout)
    logits, pullback = _run(p, _texts(texts, answer, p, config, drops), lengths)
    loss, dlogits = cross_entropy_value_and_grad(logits, wanted)
    return rounded((loss, pullback(dlogits)), dtype)


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

    The other parts are as in :func:`language_model_loss_grad`, with cross-attention.

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
    params, config : as in `encoder_decoder_model`
        Parameters, and the architecture of the model.
    start : int
        Token with which the target begins.
    steps : int
        Number of tokens to write after it.
    stop : int or None
        Token that ends a target; later positions are filled with it.
    lengths : array_like of int or None, shape (...)
        As for :func:`encoder_decoder_model`.

    Returns
    -------
    ndarray of int64, shape (..., 1 + steps)
        Targets.

    Raises
    ------
    TypeError
        If an argument has the wrong type, or `params` or `config` is of the wrong type.
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
    the memory's, which every token reads, are projected once.

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
    for name, token in {"start": start, "stop": 0 if stop is None else stop}.items():
        check_range(name, np.array(as_integer(name, token, least=0)), config.vocab_size)
    _, [ids], p, _ = model_arguments(EncoderDecoderParams, {"source": source}, params, config)
    check_size(source=ids.size, steps=tokens[1])
    text = Text(ids, p.embedding, p.source_positions, config, causal=False)
    memory = stack_value(*_encoder(p, text, lengths))
    out = np.full((*ids.shape[:-1], 1 + tokens[1]), tokens[0], np.int64)
    done = np.zeros(ids.shape[:-1], bool)
    mask = length_mask(lengths, ids.shape)
    decoding = Decoding(p, config, ids.shape[:-1], tokens[1], memory, mask)
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
    params, config : as in `encoder_decoder_model`
        Parameters, and the architecture of the model.
    lengths : array_like of int or None, shape (...)
        As for :func:`encoder_decoder_model`.

    Returns
    -------
    tuple of ndarray, shape (..., H, T, S)
        Weights of each block of the decoder.

    Raises
    ------
    TypeError
        If an array has the wrong type, or `params` or `config` is of the wrong type.
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
    texts = _texts(ids, answer, p, config)
    memory = stack_value(*_encoder(p, texts[0], lengths))
    x, stack = _decoder(p, texts, lengths)
    weights = []
    for block, s in zip(stack.blocks, stack.setups, strict=True):
        seen: dict[str, Mixer] = {}
        x = block_forward(x, block, s, memory, seen=seen)[0]
        weights.append(seen["cross_attention"].weights())
    return rounded(cast("tuple[FloatArray, ...]", tuple(weights)), dtype)
