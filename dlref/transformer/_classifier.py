r"""Encoder-only classifier: a class token gathers the content of the text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from .._core.arguments import (
    FloatArray,
    as_array,
    as_floats,
    as_generator,
    as_integer,
    as_integers,
    check_shape,
    float_dtype,
    result,
)
from .._core.pytree import rounded
from .._math.dense import affine, affine_jvp, affine_vjp
from ..losses import cross_entropy, cross_entropy_value_and_grad
from ._configuration import (
    LanguageModelConfig,
    check_config,
    init_blocks,
    init_embedding,
    init_norm,
    init_positions,
)
from ._model import (
    Dropout,
    IntArray,
    Text,
    check_predicted,
    length_mask,
    model_arguments,
    model_tangents,
)
from ._options import Call
from ._params import EncoderBlockParams, SequenceClassifierParams
from ._stacks import Stack, stack_forward, stack_tangent, stack_value


def init_sequence_classifier(
    rng: np.random.Generator,
    config: LanguageModelConfig,
    classes: int,
    *,
    dtype: npt.DTypeLike = np.float64,
) -> SequenceClassifierParams:
    r"""
    Draw the parameters of a classifier of texts.

    Parameters
    ----------
    rng : numpy.random.Generator
        Source of random numbers.
    config : LanguageModelConfig
        Architecture of the encoder. A learned table has a row for the class token, too.
    classes : int
        Number C of classes.
    dtype : dtype, default float64
        Type of the parameters.

    Returns
    -------
    SequenceClassifierParams
        Arrays of `dtype`.

    Raises
    ------
    TypeError
        If an argument has the wrong type.
    ValueError
        If `classes` is less than 1.

    See Also
    --------
    init_language_model : The same start, with its reasons.
    sequence_classifier : Takes them.

    Notes
    -----
    The head starts with standard deviation 0.02, so that the first probabilities are nearly equal.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.transformer import LanguageModelConfig, init_sequence_classifier
    >>> rng = np.random.default_rng(0)
    >>> params = init_sequence_classifier(rng, LanguageModelConfig(9, 8, 2), 3)
    >>> params.w_head.shape
    (3, 8)
    """
    as_generator("rng", rng)
    check_config(config)
    C = as_integer("classes", classes, least=1)
    kind = float_dtype("dtype", dtype)
    params = SequenceClassifierParams(
        init_embedding(rng, config, 1)[0],
        init_embedding(rng, config, config.vocab_size),
        init_positions(rng, config, config.length),
        init_blocks(rng, config, EncoderBlockParams),
        init_norm(config) if config.norm_first else None,
        rng.normal(0.0, 0.02, (C, config.d_model)),
        np.zeros(C) if config.biases else None,
    )
    return rounded(params, kind)


def _text(
    tokens: IntArray, p: SequenceClassifierParams, config: LanguageModelConfig, *drops: Any
) -> Text:
    given = tokens, p.embedding, p.positions, config, Dropout(*drops)
    return Text(*given, causal=False, class_token=p.class_token)


def _entered(p: SequenceClassifierParams, text: Text, lengths: Any) -> tuple[FloatArray, Stack]:
    return text.enter(p.blocks, p.norm, Call(mask=length_mask(lengths, text.tokens.shape, 1)))


def _logits(
    tokens: npt.ArrayLike, params: Any, config: LanguageModelConfig, lengths: Any, *drops: Any
) -> FloatArray:
    kind = SequenceClassifierParams
    dtype, [ids], p, _ = model_arguments(kind, {"tokens": tokens}, params, config)
    h = stack_value(*_entered(p, _text(ids, p, config, *drops), lengths))
    return rounded(affine(h[..., 0, :], p.w_head, p.b_head), dtype)


def _run(
    p: SequenceClassifierParams, text: Text, lengths: Any
) -> tuple[FloatArray, Callable[[FloatArray], SequenceClassifierParams]]:
    h, stack_pullback = stack_forward(*_entered(p, text, lengths))
    gathered = np.ascontiguousarray(h[..., 0, :])

    def pullback(u: FloatArray) -> SequenceClassifierParams:
        dgathered, dw_head, db_head = affine_vjp(u, gathered, p.w_head, p.b_head)
        dh = np.zeros_like(h)
        dh[..., 0, :] = dgathered
        dx, _, dblocks, dnorm, dbias = stack_pullback(dh)
        dembedding, dtable, dtoken, _ = text.pullback(dx, dbias)
        grads = dtoken, dembedding, dtable, dblocks, dnorm, dw_head, db_head
        return SequenceClassifierParams(*grads)

    return affine(gathered, p.w_head, p.b_head), pullback


def sequence_classifier(
    tokens: npt.ArrayLike,
    params: SequenceClassifierParams,
    config: LanguageModelConfig,
    *,
    lengths: npt.ArrayLike | None = None,
    dropout: tuple[Any, ...] | None = None,
    attention_dropout: tuple[npt.ArrayLike | None, ...] | None = None,
    embedding_dropout: npt.ArrayLike | None = None,
) -> FloatArray:
    r"""
    Classify a text by a token that is put before it.

    Parameters
    ----------
    tokens : array_like of int, shape (..., T)
        Tokens from 0 to V − 1.
    params : SequenceClassifierParams
        Parameters.
    config : LanguageModelConfig
        Architecture of the encoder.
    lengths : array_like of int or None, shape (...)
        Number of tokens of each text that count, from 0 to T; None is all.
    dropout : tuple or None
        For each block, the factors of its two sub-layers, as :func:`encoder_block` takes them.
    attention_dropout : tuple or None
        For each block, the factors (..., H, T + 1, T + 1) of its attention weights, or None.
    embedding_dropout : array_like or None, shape (..., T + 1, D)
        Factors of the sum of embedding and position, with the class token first, or an array
        that broadcasts to it.

    Returns
    -------
    ndarray, shape (..., C)
        Logits of the classes.

    Raises
    ------
    TypeError
        If an array has the wrong type, or `params` or `config` is of the wrong type.
    ValueError
        If a token is out of range, the text longer than a learned table, or a shape does not fit.

    See Also
    --------
    sequence_classifier_loss_value_and_grad : For training.
    language_model : One prediction at each position instead.

    Notes
    -----
    .. math::

        \mat H = \operatorname{encoder}(\vec c, \vec e_1, \dots, \vec e_T) , \qquad
        \text{logits} = \mat W \vec h_0 + \vec b

    The vectors :math:`\vec e_t` of the tokens and of their places are as in
    :func:`language_model`. The class token :math:`\vec c` is a parameter, the same before every
    text, and :math:`\vec h_0` its place in the output: attention lets it gather whatever the
    classes need. Without it :math:`\vec h_0` would be the output of the first *word*, which
    has to speak for itself at the same time.

    All tokens see all others: there is no causal mask, and relative schemes of positions
    look both ways. Padding is masked, and its contents do not matter.

    References
    ----------
    - :cite:t:`Devlin2019`

    Examples
    --------
    Tokens after the end of a text change nothing:

    >>> import numpy as np
    >>> from dlref.transformer import LanguageModelConfig
    >>> from dlref.transformer import init_sequence_classifier, sequence_classifier
    >>> config = LanguageModelConfig(9, 16, 2)
    >>> params = init_sequence_classifier(np.random.default_rng(0), config, 3)
    >>> a, b = sequence_classifier([[4, 5, 0], [4, 5, 8]], params, config, lengths=[2, 2])
    >>> bool(np.all(a == b))
    True

    The order of the words does, unless the scheme of positions is "none":

    >>> c, d = sequence_classifier([[4, 5], [5, 4]], params, config)
    >>> bool(np.allclose(c, d, rtol=1e-6))
    False
    >>> nope = LanguageModelConfig(9, 16, 2, positions="none")
    >>> e, f = sequence_classifier([[4, 5], [5, 4]], params._replace(positions=None), nope)
    >>> bool(np.allclose(e, f, rtol=1e-6))
    True
    """
    drops = dropout, attention_dropout, embedding_dropout
    return _logits(tokens, params, config, lengths, *drops)


def sequence_classifier_vjp(
    dout: npt.ArrayLike,
    tokens: npt.ArrayLike,
    params: SequenceClassifierParams,
    config: LanguageModelConfig,
    *,
    lengths: npt.ArrayLike | None = None,
    dropout: tuple[Any, ...] | None = None,
    attention_dropout: tuple[npt.ArrayLike | None, ...] | None = None,
    embedding_dropout: npt.ArrayLike | None = None,
) -> SequenceClassifierParams:
    r"""
    Vector-Jacobian product (reverse mode) of a classifier of texts.

    Parameters
    ----------
    dout : array_like, shape (..., C)
        Cotangent of the logits.
    tokens : array_like of int, shape (..., T)
        Tokens from 0 to V − 1; they have no gradient.
    params, config, lengths, dropout, attention_dropout : as in `sequence_classifier`
        Raises the same errors.
    embedding_dropout : as in `sequence_classifier`
        Factors of the sum of embedding and position.

    Returns
    -------
    SequenceClassifierParams
        Gradient of each parameter; None where it is None.

    See Also
    --------
    encoder_vjp : The backward pass through the blocks.

    Notes
    -----
    Only :math:`\vec h_0` is read, so the cotangent of the encoder's output is 0 elsewhere. For one
    text, with :math:`\vec u` for the cotangent of its logits,

    .. math::

        \pdv{L}{\mat W} = \vec u\, \vec h_0^\top, \qquad \pdv{L}{\vec b} = \vec u, \qquad
        \pdv{L}{\vec h_0} = \mat W^\top \vec u, \qquad \pdv{L}{\vec h_t} = \vec 0 \quad (t > 0) .

    The last block passes it on to every token that the class token attended to. The gradients of
    the parameters are summed over the texts.

    Examples
    --------
    Tokens after the end get no gradient:

    >>> import numpy as np
    >>> from dlref.transformer import LanguageModelConfig
    >>> from dlref.transformer import init_sequence_classifier, sequence_classifier_vjp
    >>> config = LanguageModelConfig(4, 8, 2)
    >>> params = init_sequence_classifier(np.random.default_rng(0), config, 2)
    >>> grads = sequence_classifier_vjp([1, 0], [3, 2, 1], params, config, lengths=2)
    >>> np.any(grads.embedding != 0, axis=1)
    array([False, False,  True,  True])
    """
    kind = SequenceClassifierParams
    dtype, [ids], p, [u] = model_arguments(kind, {"tokens": tokens}, params, config, dout=dout)
    check_shape("dout", u, (*ids.shape[:-1], len(p.w_head)))
    drops = dropout, attention_dropout, embedding_dropout
    return rounded(_run(p, _text(ids, p, config, *drops), lengths)[1](u), dtype)


def sequence_classifier_jvp(
    primals: Any,
    tangents: Any,
    config: LanguageModelConfig,
    *,
    lengths: npt.ArrayLike | None = None,
    dropout: tuple[Any, ...] | None = None,
    attention_dropout: tuple[npt.ArrayLike | None, ...] | None = None,
    embedding_dropout: npt.ArrayLike | None = None,
) -> FloatArray:
    r"""
    Jacobian-vector product (forward mode) of a classifier of texts.

    Parameters
    ----------
    primals : tuple (tokens, params)
        Tokens (..., T) and a :class:`SequenceClassifierParams`.
    tangents : tuple (None, dparams)
        Directions of the parameters; None at any place is zero. Tokens have none.
    config, lengths, dropout, attention_dropout : as in `sequence_classifier`
        Raises the same errors.
    embedding_dropout : as in `sequence_classifier`
        Factors of the sum of embedding and position.

    Returns
    -------
    ndarray, shape (..., C)
        Tangent of the logits.

    Notes
    -----
    Value and tangent of all T + 1 positions go through the blocks; the head reads the
    class token's:

    .. math::

        \dot{\text{logits}} = \dot{\mat W} \vec h_0 + \mat W \dot{\vec h}_0 + \dot{\vec b} .

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.transformer import LanguageModelConfig
    >>> from dlref.transformer import init_sequence_classifier, sequence_classifier_jvp
    >>> config = LanguageModelConfig(4, 8, 2)
    >>> params = init_sequence_classifier(np.random.default_rng(0), config, 2)
    >>> moved = type(params)(*[None] * 6, np.array([1.0, 2.0]))  # the head's biases only
    >>> sequence_classifier_jvp(([3, 1], params), (None, moved), config)
    array([1., 2.])
    """
    kind = SequenceClassifierParams
    dtype, [ids], p, dp = model_tangents(kind, ("tokens",), primals, tangents, config)
    drops = dropout, attention_dropout, embedding_dropout
    text = _text(ids, p, config, *drops)
    x, stack = _entered(p, text, lengths)
    v, stack = text.tangent(_text(ids, dp, config, *drops), stack)
    h, dh = stack_tangent(x, v, stack, dp.blocks, dp.norm)
    moved = affine_jvp((h[..., 0, :], p.w_head, p.b_head), (dh[..., 0, :], dp.w_head, dp.b_head))
    return rounded(moved, dtype)


def _targets(classes: npt.ArrayLike, shape: tuple[int, ...]) -> IntArray | FloatArray:
    """Return the classes of texts whose logits have that shape, or their probabilities."""
    array = as_array("classes", classes)
    if array.dtype.kind not in "biu":
        _, [probabilities] = as_floats({"classes": array})
        check_shape("classes", probabilities, shape)
        return probabilities
    labels = as_integers("classes", array)
    check_shape("classes", labels, shape[:-1])
    check_predicted("classes", None, labels, shape[-1])
    return labels


def sequence_classifier_loss(
    tokens: npt.ArrayLike,
    classes: npt.ArrayLike,
    params: SequenceClassifierParams,
    config: LanguageModelConfig,
    *,
    lengths: npt.ArrayLike | None = None,
    dropout: tuple[Any, ...] | None = None,
    attention_dropout: tuple[npt.ArrayLike | None, ...] | None = None,
    embedding_dropout: npt.ArrayLike | None = None,
) -> FloatArray:
    r"""
    Mean cross-entropy of the classes of texts.

    Parameters
    ----------
    tokens : array_like of int, shape (..., T)
        Tokens from 0 to V − 1.
    classes : array_like, shape (...) of int, or (..., C)
        Class of each text, from 0 to C − 1, or −100 for a text that does not count; or, as floats,
        the probabilities of all classes, of a teacher for example.
    params, config : as in `sequence_classifier`
        Parameters, and the architecture of the model.
    lengths, dropout, attention_dropout, embedding_dropout : as in `sequence_classifier`
        The same.

    Returns
    -------
    floating-point scalar
        Loss, in nats per text.

    Raises
    ------
    TypeError
        If an array has the wrong type, or `params` or `config` is of the wrong type.
    ValueError
        If a token or class is out of range, or a shape does not fit.

    See Also
    --------
    sequence_classifier_loss_value_and_grad : With its gradient, for training.

    Notes
    -----
    .. math::

        L = - \frac1N \sum_n \log p(c_n \mid \text{text}_n)

    over the N texts that count (NaN if none does); log C for a uniform guess. With probabilities
    q of the classes, :math:`\sum_c q_{nc} \log p(c \mid \text{text}_n)` stands for the logarithm,
    as in :func:`~dlref.losses.cross_entropy`.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.transformer import LanguageModelConfig
    >>> from dlref.transformer import init_sequence_classifier, sequence_classifier_loss
    >>> config = LanguageModelConfig(4, 8, 2)
    >>> params = init_sequence_classifier(np.random.default_rng(0), config, 2)
    >>> guess = params._replace(w_head=0 * params.w_head)
    >>> bool(sequence_classifier_loss([[3, 1], [2, 0]], [0, 1], guess, config) == np.log(2))
    True
    """
    drops = dropout, attention_dropout, embedding_dropout
    logits = _logits(tokens, params, config, lengths, *drops)
    return result(cross_entropy(logits, _targets(classes, logits.shape)), logits.dtype)


def sequence_classifier_loss_value_and_grad(
    tokens: npt.ArrayLike,
    classes: npt.ArrayLike,
    params: SequenceClassifierParams,
    config: LanguageModelConfig,
    *,
    lengths: npt.ArrayLike | None = None,
    dropout: tuple[Any, ...] | None = None,
    attention_dropout: tuple[npt.ArrayLike | None, ...] | None = None,
    embedding_dropout: npt.ArrayLike | None = None,
) -> tuple[FloatArray, SequenceClassifierParams]:
    r"""
    Both the loss of a classifier and its gradient, for one step of training.

    Parameters
    ----------
    tokens, classes, params, config, lengths, dropout : as in `sequence_classifier_loss`
        Raises the same errors.
    attention_dropout, embedding_dropout : as in `sequence_classifier_loss`
        Factors of the weights, and of the sum of embedding and position.

    Returns
    -------
    loss : floating-point scalar
        Loss, in nats per text.
    grads : SequenceClassifierParams
        Gradient of each parameter; None where it is None.

    See Also
    --------
    sequence_classifier_vjp : The backward pass through the model.

    Notes
    -----
    The cotangent of the logits is

    .. math::

        \pdv{L}{\text{logits}_{nc}} = \frac1N \bigl( p_{nc} - [\, c = c_n \,] \bigr) .

    or :math:`(p_{nc} - q_{nc}) / N` for probabilities q that add up to 1. The forward pass is made
    once.

    Examples
    --------
    Raising the bias of the right class lowers the loss:

    >>> import numpy as np
    >>> from dlref.transformer import LanguageModelConfig, init_sequence_classifier
    >>> from dlref.transformer import sequence_classifier_loss_value_and_grad
    >>> config = LanguageModelConfig(4, 8, 2)
    >>> params = init_sequence_classifier(np.random.default_rng(0), config, 2)
    >>> guess = params._replace(w_head=0 * params.w_head)
    >>> loss, grads = sequence_classifier_loss_value_and_grad([3, 1], 0, guess, config)
    >>> grads.b_head
    array([-0.5,  0.5])
    """
    kind = SequenceClassifierParams
    dtype, [ids], p, _ = model_arguments(kind, {"tokens": tokens}, params, config)
    drops = dropout, attention_dropout, embedding_dropout
    logits, pullback = _run(p, _text(ids, p, config, *drops), lengths)
    loss, dlogits = cross_entropy_value_and_grad(logits, _targets(classes, logits.shape))
    return rounded((loss, pullback(result(dlogits, logits.dtype))), dtype)


def sequence_classifier_loss_grad(
    tokens: npt.ArrayLike,
    classes: npt.ArrayLike,
    params: SequenceClassifierParams,
    config: LanguageModelConfig,
    *,
    lengths: npt.ArrayLike | None = None,
    dropout: tuple[Any, ...] | None = None,
    attention_dropout: tuple[npt.ArrayLike | None, ...] | None = None,
    embedding_dropout: npt.ArrayLike | None = None,
) -> SequenceClassifierParams:
    r"""
    Gradient of a classifier's loss with respect to all parameters.

    Parameters
    ----------
    tokens, classes, params, config, lengths, dropout : as in `sequence_classifier_loss`
        Raises the same errors.
    attention_dropout, embedding_dropout : as in `sequence_classifier_loss`
        Factors of the weights, and of the sum of embedding and position.

    Returns
    -------
    SequenceClassifierParams
        Gradient of each parameter; None where it is None.

    Notes
    -----
    The cross-entropy gives the cotangent with which :func:`sequence_classifier_vjp` starts:

    .. math::

        \pdv{L}{\text{logits}_{nc}} = \frac1N \bigl( p_{nc} - [\, c = c_n \,] \bigr) .

    The other parts are as in :func:`language_model_loss_grad`, without the causal mask.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.transformer import LanguageModelConfig
    >>> from dlref.transformer import init_sequence_classifier, sequence_classifier_loss_grad
    >>> config = LanguageModelConfig(4, 8, 2)
    >>> params = init_sequence_classifier(np.random.default_rng(0), config, 2)
    >>> grads = sequence_classifier_loss_grad([3, 1], 0, params, config)
    >>> grads.class_token.shape
    (8,)
    """
    return sequence_classifier_loss_value_and_grad(
        tokens,
        classes,
        params,
        config,
        lengths=lengths,
        dropout=dropout,
        attention_dropout=attention_dropout,
        embedding_dropout=embedding_dropout,
    )[1]
