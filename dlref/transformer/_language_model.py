r"""The decoder-only language model, its loss, and the gradient of that."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .._core.arguments import FloatArray, as_integers, check_ndim, check_shape
from .._core.pytree import rounded
from ..losses import cross_entropy, cross_entropy_value_and_grad
from ._blocks import Mixer, block_forward
from ._configuration import LanguageModelConfig
from ._model import (
    Dropout,
    IntArray,
    Text,
    check_predicted,
    logits_of,
    logits_tangent,
    logits_vjp,
    model_arguments,
    model_tangents,
    next_tokens,
    shared,
)
from ._padding import IGNORED, Padding, as_padding
from ._params import LanguageModelParams
from ._stacks import stack_forward, stack_tangent, stack_value


class LanguageModelTrace(NamedTuple):
    r"""
    Intermediate results of a model.

    Parameters
    ----------
    residual : tuple of ndarray, shape (..., T, D)
        Residual stream: the embeddings, and the output of each of the K blocks.
    weights : tuple of ndarray or None, shape (..., H, T, T)
        Attention weights of each block; None for a gated delta rule, which has none.

    See Also
    --------
    language_model_trace : Makes it.

    Notes
    -----
    ``residual`` has K + 1 entries, ``weights`` K.

    Examples
    --------
    >>> from dlref.transformer import LanguageModelTrace
    >>> LanguageModelTrace._fields
    ('residual', 'weights')
    """

    residual: tuple[FloatArray, ...]
    weights: tuple[FloatArray | None, ...]


# Private functions compute in the dtype of the parameters and check nothing.


def _run(
    p: LanguageModelParams, text: Text
) -> tuple[FloatArray, Callable[[FloatArray], LanguageModelParams]]:
    """Run the model; the pullback returns the cotangent of the parameters."""
    h, stack_pullback = stack_forward(*text.enter(p.blocks, p.norm))

    @np.errstate(all="ignore")
    def pullback(u: FloatArray) -> LanguageModelParams:
        dh, dhead, dout = logits_vjp(u, h, p, text.config)
        dx, _, dblocks, dnorm, dbias = stack_pullback(dh)
        dembedding, dtable, _, din = text.pullback(dx, dbias)
        dembedding, dhead_alone = shared(p, dembedding, dhead)
        return LanguageModelParams(dembedding, dtable, dblocks, dnorm, dhead_alone, din, dout)

    return logits_of(h, p, text.config), pullback


def _text(
    tokens: IntArray, p: LanguageModelParams, config: LanguageModelConfig, *drops: Any
) -> Text:
    dropout = Dropout(*drops)
    return Text(tokens, p.embedding, p.positions, config, dropout, projection=p.embedding_in)


def _ids(ids: IntArray, pad: Padding | None) -> IntArray:
    """Return texts at the beginning of their rows."""
    return ids if pad is None else pad.texts(ids)


def _inputs_and_targets(
    tokens: npt.ArrayLike, targets: npt.ArrayLike | None, lengths: Any, padding: str, *drops: Any
) -> tuple[IntArray, IntArray]:
    """Return inputs and targets at the beginning of their rows; -100 where there is no token."""
    ids = as_integers("tokens", tokens)
    check_ndim("tokens", ids, 1)
    pad = as_padding(lengths, padding, ids.shape, *drops)
    if pad is None:
        return next_tokens("tokens", ids, targets)
    if targets is not None:
        wanted = pad.texts(next_tokens("tokens", ids, targets)[1], IGNORED)
        return pad.texts(ids), wanted
    # a place without a token is no target; at the input it is any token
    read, wanted = next_tokens("tokens", pad.texts(ids, IGNORED), None)
    return np.where(read == IGNORED, 0, read), wanted


def _logits(ids: IntArray, p: Any, config: LanguageModelConfig, *drops: Any) -> FloatArray:
    h = stack_value(*_text(ids, p, config, *drops).enter(p.blocks, p.norm))
    return logits_of(h, p, config)


def language_model(
    tokens: npt.ArrayLike,
    params: LanguageModelParams,
    config: LanguageModelConfig,
    *,
    lengths: npt.ArrayLike | None = None,
    padding: str = "right",
    dropout: tuple[Any, ...] | None = None,
    attention_dropout: tuple[npt.ArrayLike | None, ...] | None = None,
    embedding_dropout: npt.ArrayLike | None = None,
) -> FloatArray:
    r"""
    Predict the next token at every position.

    Parameters
    ----------
    tokens : array_like of int, shape (..., T)
        Tokens from 0 to V − 1.
    params : LanguageModelParams
        Parameters, of the shapes that `config` asks for.
    config : LanguageModelConfig
        Architecture of the model.
    lengths : array_like of int or None, shape (...)
        Number of real tokens in each text; None means that all T are. Padded positions give 0 and
        have no gradient, and their tokens are ignored.
    padding : "right" or "left", default "right"
        The side on which shorter texts are padded. Positions count from the first real token.
    dropout : tuple or None
        For each block, the factors of its two sub-layers, as :func:`encoder_block` takes them.
    attention_dropout : tuple or None
        For each block, the factors (..., H, T, T) of its attention weights, or None.
    embedding_dropout : array_like or None, shape (..., T, D)
        Factors of the sum of embedding and position, or an array that broadcasts to it.

    Returns
    -------
    ndarray, shape (..., T, V)
        Logits: ``softmax(logits[..., t, :])`` is the model's distribution of token t + 1.

    Raises
    ------
    TypeError
        If an array has the wrong type, or `params` or `config` is of the wrong type.
    ValueError
        If a token is out of range, the text longer than a learned table, a shape does not fit, a
        length is greater than T, or factors of dropout are given for texts padded on the left.

    See Also
    --------
    language_model_loss : How well it predicts.
    generate : Text from it.
    language_model_trace : Its intermediate results.

    Notes
    -----
    With :math:`\vec e_t` the embedding of token t, times :math:`\sqrt D` if the configuration
    scales embeddings, and :math:`\vec p_t` a vector for its place, if the scheme adds one:

    .. math::

        \vec x_t = \vec e_t + \vec p_t , \qquad
        \mat H = \operatorname{norm}(B_K(\cdots B_1(\mat X))) , \qquad
        \text{logits} = \mat H \mat W^\top ,

    where the blocks are :func:`encoder_block` with a causal mask, the norm is missing if
    blocks normalize their sums, and the head :math:`\mat W` is the matrix of embeddings again, if
    they are tied: the score of a token is the dot product of its vector with the output.

    **Embeddings of another width.** With an ``embedding_dim`` of C, the table :math:`\mat C` has a
    row :math:`\vec c_t` of C numbers for a token, and two matrices lead to the blocks and back:

    .. math::

        \vec e_t = \mat P \vec c_t , \qquad \mat W = \mat C \mat Q .

    A table of V times D numbers becomes a product, of rank C at most (OPT 350M).

    **Dropout** has three places: the sum :math:`\vec x_t`, the weights of attention, and the output
    of each sub-layer before it is added. All factors are inputs, drawn by :func:`dropout_mask`, so
    that a value and its gradient belong to the same subnetwork.

    **The mask makes it a model of language.** Position t sees the tokens up to t, so all T
    predictions of a text are made at once, and none of them sees its answer. Without the
    mask the logits at a position would depend on later tokens. Without positions *and*
    without a mask the model would be equivariant to permutations.

    **Padding.** The mask also hides whatever follows a text, so nothing else is needed for texts
    that are padded on the right. Texts padded on the left, as batches for generation are, are moved
    to the beginning of their rows, and the results are moved back: a text has the same logits
    wherever it stands.

    A token costs :math:`K (4 D^2 + 2 D F + 2 D T) + D V` multiplications, see
    :func:`multiplication_counts`.

    References
    ----------
    - :cite:t:`Radford2019`; :cite:t:`Touvron2023`

    Examples
    --------
    The prediction at a position does not depend on later tokens:

    >>> import numpy as np
    >>> from dlref.transformer import LanguageModelConfig, init_language_model, language_model
    >>> rng = np.random.default_rng(0)
    >>> config = LanguageModelConfig(9, 16, 2, positions="rope")
    >>> params = init_language_model(rng, config)
    >>> a = language_model([1, 2, 3, 4], params, config)
    >>> b = language_model([1, 2, 3, 8], params, config)
    >>> np.any(a != b, axis=-1)
    array([False, False, False,  True])

    A shorter text, padded on the left with anything:

    >>> c = language_model([[7, 7, 1, 2]], params, config, lengths=[2], padding="left")
    >>> bool(np.allclose(c[0, 2:], a[:2], atol=1e-15)), bool((c[0, :2] == 0).all())
    (True, True)

    Even without positions order matters, to two layers with a mask:

    >>> nope = LanguageModelConfig(9, 16, 2, positions="none")
    >>> params = init_language_model(rng, nope)
    >>> c, d = (language_model(t, params, nope)[-1] for t in ([1, 2, 3], [2, 1, 3]))
    >>> bool(np.allclose(c, d))
    False
    """
    kind, drops = LanguageModelParams, (dropout, attention_dropout, embedding_dropout)
    dtype, [ids], p, _ = model_arguments(kind, {"tokens": tokens}, params, config)
    pad = as_padding(lengths, padding, ids.shape, *drops)
    logits = _logits(_ids(ids, pad), p, config, *drops)
    return rounded(logits if pad is None else pad.back(logits), dtype)


def language_model_vjp(
    dout: npt.ArrayLike,
    tokens: npt.ArrayLike,
    params: LanguageModelParams,
    config: LanguageModelConfig,
    *,
    lengths: npt.ArrayLike | None = None,
    padding: str = "right",
    dropout: tuple[Any, ...] | None = None,
    attention_dropout: tuple[npt.ArrayLike | None, ...] | None = None,
    embedding_dropout: npt.ArrayLike | None = None,
) -> LanguageModelParams:
    r"""
    Vector-Jacobian product (reverse mode) of a language model.

    Parameters
    ----------
    dout : array_like, shape (..., T, V)
        Cotangent of the logits.
    tokens : array_like of int, shape (..., T)
        Tokens from 0 to V − 1; they have no gradient.
    params, config, lengths, padding : as in `language_model`
        Raises the same errors.
    dropout, attention_dropout, embedding_dropout : as in `language_model`
        Raises the same errors.

    Returns
    -------
    LanguageModelParams
        Gradient of each parameter; None where it is None.

    See Also
    --------
    encoder_vjp : The blocks.
    language_model_loss_grad : For the cotangent that belongs to the loss.

    Notes
    -----
    With the cotangent :math:`\mat U` of the logits :math:`\mat H \mat W^\top`:

    1. the head:

       .. math::

           \pdv{L}{\mat W} = \sum_t \vec u_t\, \vec h_t^\top, \qquad
           \pdv{L}{\vec h_t} = \mat W^\top \vec u_t ;

    2. the last norm and the blocks, from the last to the first, which leaves
       :math:`\pdv{L}{\mat X}`;
    3. the embedding of token v:

       .. math::

           \pdv{L}{\vec e_v} = \sum_{t:\, \text{token}_t = v} \pdv{L}{\vec x_t},

       times :math:`\sqrt D` if they are scaled; a learned position gets the sum over the batch.

    Tied embeddings were used twice, and get the sum of 1 and 3. The first is dense: every token's
    vector takes part in every prediction. T5's table serves all blocks, and its gradient is the
    sum over them.

    Examples
    --------
    Without a tie, an embedding that was not used has no gradient:

    >>> import numpy as np
    >>> from dlref.transformer import LanguageModelConfig, init_language_model, language_model_vjp
    >>> rng = np.random.default_rng(0)
    >>> config = LanguageModelConfig(4, 8, 2, tied=False)
    >>> params = init_language_model(rng, config)
    >>> grads = language_model_vjp(rng.normal(size=(2, 4)), [3, 1], params, config)
    >>> np.any(grads.embedding != 0, axis=1)
    array([False,  True, False,  True])
    """
    dtype, [ids], p, [u] = model_arguments(
        LanguageModelParams, {"tokens": tokens}, params, config, dout=dout
    )
    check_shape("dout", u, (*ids.shape, config.vocab_size))
    drops = dropout, attention_dropout, embedding_dropout
    if (pad := as_padding(lengths, padding, ids.shape, *drops)) is not None:
        ids, u = pad.texts(ids), pad.rows(u)
    return rounded(_run(p, _text(ids, p, config, *drops))[1](u), dtype)


def language_model_jvp(
    primals: Any,
    tangents: Any,
    config: LanguageModelConfig,
    *,
    lengths: npt.ArrayLike | None = None,
    padding: str = "right",
    dropout: tuple[Any, ...] | None = None,
    attention_dropout: tuple[npt.ArrayLike | None, ...] | None = None,
    embedding_dropout: npt.ArrayLike | None = None,
) -> FloatArray:
    r"""
    Jacobian-vector product (forward mode) of a language model.

    Parameters
    ----------
    primals : tuple (tokens, params)
        Tokens (..., T) and a :class:`LanguageModelParams`.
    tangents : tuple (None, dparams)
        Directions of the parameters; None at any place is zero. Tokens have none.
    config, lengths, padding : as in `language_model`
        Raises the same errors.
    dropout, attention_dropout, embedding_dropout : as in `language_model`
        Raises the same errors.

    Returns
    -------
    ndarray, shape (..., T, V)
        Tangent of the logits.

    Notes
    -----
    One pass gives the derivative along one direction of all parameters together: the slope of
    the logits in a step of training, or a Hessian-vector product's first half. The head has the
    product rule:

    .. math::

        \dot{\text{logits}} = \dot{\mat H} \mat W^\top + \mat H \dot{\mat W}^\top .

    The tangent of tied embeddings enters twice, at the input, which :math:`\dot{\mat H}` contains,
    and as :math:`\dot{\mat W}`.

    Examples
    --------
    The logits are linear in an untied head: moving along it reproduces them.

    >>> import numpy as np
    >>> from dlref.transformer import LanguageModelConfig, init_language_model
    >>> from dlref.transformer import language_model, language_model_jvp
    >>> config = LanguageModelConfig(4, 8, 2, tied=False)
    >>> params = init_language_model(np.random.default_rng(0), config)
    >>> along = params._replace(embedding=None, positions=None, blocks=None, norm=None)
    >>> moved = language_model_jvp(([3, 1], params), (None, along), config)
    >>> bool(np.allclose(moved, language_model([3, 1], params, config), atol=1e-15))
    True
    """
    kind = LanguageModelParams
    dtype, [ids], p, dp = model_tangents(kind, ("tokens",), primals, tangents, config)
    drops = dropout, attention_dropout, embedding_dropout
    pad = as_padding(lengths, padding, ids.shape, *drops)
    ids = _ids(ids, pad)
    text = _text(ids, p, config, *drops)
    x, stack = text.enter(p.blocks, p.norm)
    v, stack = text.tangent(_text(ids, dp, config, *drops), stack)
    h, dh = stack_tangent(x, v, stack, dp.blocks, dp.norm)
    moved = logits_tangent(h, dh, p, dp, config)
    return rounded(moved if pad is None else pad.back(moved), dtype)


def language_model_loss(
    tokens: npt.ArrayLike,
    params: LanguageModelParams,
    config: LanguageModelConfig,
    *,
    targets: npt.ArrayLike | None = None,
    lengths: npt.ArrayLike | None = None,
    padding: str = "right",
    dropout: tuple[Any, ...] | None = None,
    attention_dropout: tuple[npt.ArrayLike | None, ...] | None = None,
    embedding_dropout: npt.ArrayLike | None = None,
) -> FloatArray:
    r"""
    Mean cross-entropy of the next token.

    Parameters
    ----------
    tokens : array_like of int, shape (..., T)
        Texts of T tokens from 0 to V − 1.
    params, config : as in `language_model`
        Parameters, and the architecture of the model.
    targets : array_like of int or None, shape (..., T)
        The token that each position is to predict, −100 where it does not count. None is the next
        token: the model reads all but the last token, and predicts all but the first.
    lengths, padding : as in `language_model`
        Padded positions are neither read nor predicted.
    dropout, attention_dropout, embedding_dropout : as in `language_model`
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
        If a token is out of range, the text longer than a learned table, a shape does not fit, or
        `targets` is None and the text has fewer than two tokens.

    See Also
    --------
    language_model_loss_value_and_grad : With its gradient, for training.
    dlref.losses.cross_entropy : The loss of one prediction.

    Notes
    -----
    .. math:: L = - \frac1N \sum_t \log p(\text{token}_{t+1} \mid \text{token}_1, \dots,
              \text{token}_t)

    over the N predictions (if `targets` asks for none, 0/0, which is NaN). By the chain rule of
    probabilities the sum over a text is the logarithm of the model's probability of the text after
    its first token, which nothing predicts, so minimizing L is maximum likelihood.
    :math:`L / \log 2` are bits per token, and :math:`e^L` is the perplexity: the number of equally
    likely tokens that would be as hard to guess.

    **Reference values.** Guessing: :math:`\log V`. Always the same distribution: the entropy of
    the tokens. Looking one token back: the conditional entropy of pairs.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.transformer import LanguageModelConfig, init_language_model, language_model_loss
    >>> config = LanguageModelConfig(9, 16, 2)
    >>> params = init_language_model(np.random.default_rng(0), config)
    >>> zero = params._replace(embedding=0 * params.embedding)  # all logits are 0
    >>> bool(language_model_loss([1, 2, 3], zero, config) == np.log(9))
    True
    """
    kind, drops = LanguageModelParams, (dropout, attention_dropout, embedding_dropout)
    ids, wanted = _inputs_and_targets(tokens, targets, lengths, padding, *drops)
    dtype, [ids], p, _ = model_arguments(kind, {"tokens": ids}, params, config)
    check_predicted("tokens", targets, wanted, config.vocab_size)
    return cross_entropy(rounded(_logits(ids, p, config, *drops), dtype), wanted)


def language_model_loss_value_and_grad(
    tokens: npt.ArrayLike,
    params: LanguageModelParams,
    config: LanguageModelConfig,
    *,
    targets: npt.ArrayLike | None = None,
    lengths: npt.ArrayLike | None = None,
    padding: str = "right",
    dropout: tuple[Any, ...] | None = None,
    attention_dropout: tuple[npt.ArrayLike | None, ...] | None = None,
    embedding_dropout: npt.ArrayLike | None = None,
) -> tuple[FloatArray, LanguageModelParams]:
    r"""
    Both the loss of a language model and its gradient, for one step of training.

    Parameters
    ----------
    tokens, params, config, targets, lengths, padding : as in `language_model_loss`
        Raises the same errors.
    dropout, attention_dropout, embedding_dropout : as in `language_model_loss`
        The same.

    Returns
    -------
    loss : floating-point scalar
        Loss, in nats per token.
    grads : LanguageModelParams
        Gradient of each parameter; None where it is None.

    See Also
    --------
    language_model_vjp : The backward pass through the model.
    dlref.training.adamw_step : Uses the gradient.

    Notes
    -----
    With the predicted probabilities p,

    .. math::

        \pdv{L}{\text{logits}_{tv}} = \frac1N \bigl( p_{tv} - [\, v = \text{token}_{t+1} \,] \bigr)
            .

    prediction minus truth, is the cotangent with which :func:`language_model_vjp` starts. The
    forward pass is made once. Most of the time goes into products of matrices, twice as many in the
    backward pass as forward, so a step costs about :math:`3 N` times the multiplications of
    :func:`multiplication_counts`.

    Examples
    --------
    Ten steps on one sentence:

    >>> import numpy as np
    >>> from dlref.training import adamw_step
    >>> from dlref.transformer import LanguageModelConfig, init_language_model
    >>> from dlref.transformer import language_model_loss_value_and_grad
    >>> text = np.frombuffer(b"the cat sat on the mat", np.uint8)
    >>> config = LanguageModelConfig(128, 32, 2, num_layers=1)
    >>> params, state = init_language_model(np.random.default_rng(0), config), None
    >>> for step in range(10):
    ...     loss, grads = language_model_loss_value_and_grad(text, params, config)
    ...     params, state = adamw_step(params, grads, state, learning_rate=0.01)
    ...     if step in (0, 9):
    ...         print(f"{float(loss):.0f}")
    5
    2
    """
    drops = dropout, attention_dropout, embedding_dropout
    ids, wanted = _inputs_and_targets(tokens, targets, lengths, padding, *drops)
    dtype, [ids], p, _ = model_arguments(LanguageModelParams, {"tokens": ids}, params, config)
    check_predicted("tokens", targets, wanted, config.vocab_size)
    logits, pullback = _run(p, _text(ids, p, config, *drops))
    loss, dlogits = cross_entropy_value_and_grad(logits, wanted)
    return rounded((loss, pullback(dlogits)), dtype)


def language_model_loss_grad(
    tokens: npt.ArrayLike,
    params: LanguageModelParams,
    config: LanguageModelConfig,
    *,
    targets: npt.ArrayLike | None = None,
    lengths: npt.ArrayLike | None = None,
    padding: str = "right",
    dropout: tuple[Any, ...] | None = None,
    attention_dropout: tuple[npt.ArrayLike | None, ...] | None = None,
    embedding_dropout: npt.ArrayLike | None = None,
) -> LanguageModelParams:
    r"""
    Gradient of the loss with respect to all parameters.

    Parameters
    ----------
    tokens, params, config, targets, lengths, padding : as in `language_model_loss`
        Raises the same errors.
    dropout, attention_dropout, embedding_dropout : as in `language_model_loss`
        The same.

    Returns
    -------
    LanguageModelParams
        Gradient of each parameter; None where it is None.

    Notes
    -----
    The cross-entropy gives the cotangent with which :func:`language_model_vjp` starts:

    .. math::

        \pdv{L}{\text{logits}_{tv}} = \frac1N \bigl( p_{tv} - [\, v = \text{token}_{t+1} \,] \bigr)
            .

    The derivation consists of the derivations of its parts, in the order in which they are met in
    the backward pass: :func:`dlref.losses.cross_entropy_grad`, :func:`language_model_vjp`,
    :func:`encoder_vjp`, :func:`encoder_block_vjp`, :func:`feed_forward_vjp`,
    :func:`dlref.attention.multi_head_attention_vjp`, :func:`dlref.normalization.layer_norm_vjp`.

    Some gradients vanish for a reason. A bias of the keys adds the same number to all scores of
    a query, which the softmax does not see: its gradient is 0. There are four exceptions. Rotary
    positions rotate the bias by an angle that differs from key to key, so the number differs too. A
    norm of the keys (`k_norm`), their bounds (`clip_qkv`) and a `softcap` of the scores are not
    linear. (A sink is a fifth: :func:`dlref.attention.multi_head_attention_vjp`.)

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.transformer import LanguageModelConfig, init_language_model
    >>> from dlref.transformer import language_model_loss_grad
    >>> config = LanguageModelConfig(9, 16, 2)
    >>> params = init_language_model(np.random.default_rng(0), config)
    >>> grads = language_model_loss_grad([1, 2, 3, 4, 5], params, config)
    >>> own = grads.blocks[0].attention
    >>> bool(abs(own.b_k).max() < 1e-17 < abs(own.b_v).max())
    True
    >>> config = LanguageModelConfig(9, 16, 2, positions="rope")
    >>> params = init_language_model(np.random.default_rng(0), config)
    >>> grads = language_model_loss_grad([1, 2, 3, 4, 5], params, config)
    >>> bool(abs(grads.blocks[0].attention.b_k).max() > 1e-3)
    True
    """
    return language_model_loss_value_and_grad(
        tokens,
        params,
        config,
        targets=targets,
        lengths=lengths,
        padding=padding,
        dropout=dropout,
        attention_dropout=attention_dropout,
        embedding_dropout=embedding_dropout,
    )[1]


def language_model_trace(
    tokens: npt.ArrayLike,
    params: LanguageModelParams,
    config: LanguageModelConfig,
    *,
    lengths: npt.ArrayLike | None = None,
    padding: str = "right",
) -> LanguageModelTrace:
    r"""
    Residual stream and attention weights of each block.

    Parameters
    ----------
    tokens : array_like of int, shape (..., T)
        Tokens from 0 to V − 1.
    params, config, lengths, padding : as in `language_model`
        Parameters, the architecture of the model, and the lengths of the texts.

    Returns
    -------
    LanguageModelTrace
        The input of the first block, the output of each, and each block's weights.

    Raises
    ------
    TypeError
        If an array has the wrong type, or `params` or `config` is of the wrong type.
    ValueError
        If a token is out of range, the text longer than a learned table, or a shape does not fit.

    See Also
    --------
    language_model : Without looking inside.
    dlref.attention.attention_entropy : A statistic of the weights.

    Notes
    -----
    With the embeddings :math:`\mat X_0`, the queries and keys of head h in block k, and the bias
    :math:`\mat B_h` of ALiBi or T5, 0 for other schemes, and without the options `scale` and
    `softcap` of :class:`BlockOptions`,

    .. math::

        \mat X_k = B_k(\mat X_{k-1}), \qquad
        \mat P_{kh} = \operatorname{softmax} \Bigl( \frac{\mat Q_{kh} \mat K_{kh}^\top}{\sqrt E}
            + \mat B_h + \text{mask} \Bigr) .

    The weights of all pairs are formed here, T² numbers per head, which the model itself avoids.

    Examples
    --------
    The first token has only itself to look at:

    >>> import numpy as np
    >>> from dlref.transformer import LanguageModelConfig, init_language_model, language_model_trace
    >>> config = LanguageModelConfig(9, 16, 2)
    >>> params = init_language_model(np.random.default_rng(0), config)
    >>> trace = language_model_trace([3, 1, 4], params, config)
    >>> len(trace.residual), trace.weights[0].shape
    (3, (2, 3, 3))
    >>> trace.weights[1][:, 0]
    array([[1., 0., 0.],
           [1., 0., 0.]])
    """
    dtype, [ids], p, _ = model_arguments(LanguageModelParams, {"tokens": tokens}, params, config)
    pad = as_padding(lengths, padding, ids.shape)
    x, stack = _text(_ids(ids, pad), p, config).enter(p.blocks, p.norm)
    residual, weights = [x], []
    for block, s in zip(stack.blocks, stack.setups, strict=True):
        seen: dict[str, Mixer] = {}
        x = block_forward(x, block, s, seen=seen)[0]
        weights.append(seen["attention"].weights())
        residual.append(x)
    if pad is not None:
        residual = [*map(pad.back, residual)]
        weights = [None if w is None else pad.pairs_back(w) for w in weights]
    return rounded(LanguageModelTrace(tuple(residual), tuple(weights)), dtype)
