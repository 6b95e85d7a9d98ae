r"""What a model costs: numbers to keep, and multiplications per token."""

from __future__ import annotations

from typing import NamedTuple

from .._core.arguments import as_integer
from ._configuration import T5_BUCKETS, LanguageModelConfig, check_config


class ParameterCounts(NamedTuple):
    r"""
    Numbers of parameters of a language model, by component.

    Parameters
    ----------
    embedding : int
        Vectors of the tokens, and both matrices of embeddings of another width.
    positions : int
        Table of the scheme of positions.
    attention : int
        Projections of all blocks.
    feed_forward : int
        Networks of all blocks.
    norms : int
        Weights and biases of all normalizations.
    head : int
        Weights of the last layer, 0 if they are the embeddings.

    See Also
    --------
    parameter_counts : Computes them.

    Notes
    -----
    ``total`` is their sum.

    Examples
    --------
    >>> from dlref.transformer import ParameterCounts
    >>> ParameterCounts(10, 0, 20, 30, 4, 0).total
    64
    """

    embedding: int
    positions: int
    attention: int
    feed_forward: int
    norms: int
    head: int

    @property
    def total(self) -> int:
        """All together."""
        return sum(self)


class MultiplicationCounts(NamedTuple):
    r"""
    Multiplications that a language model makes for one token, by component.

    Parameters
    ----------
    projections : int
        Queries, keys, values and outputs of attention.
    scores : int
        Queries times keys, and weights times values.
    feed_forward : int
        Feed-forward networks.
    head : int
        Logits, and both matrices of embeddings of another width.

    See Also
    --------
    multiplication_counts : Computes them.

    Notes
    -----
    ``total`` is their sum. A multiplication comes with an addition: two floating-point operations.

    Examples
    --------
    >>> from dlref.transformer import MultiplicationCounts
    >>> MultiplicationCounts(10, 1, 20, 5).total
    36
    """

    projections: int
    scores: int
    feed_forward: int
    head: int

    @property
    def total(self) -> int:
        """All together."""
        return sum(self)


def parameter_counts(config: LanguageModelConfig) -> ParameterCounts:
    r"""
    Count the parameters of a language model.

    Parameters
    ----------
    config : LanguageModelConfig
        Architecture of the model.

    Returns
    -------
    ParameterCounts
        Numbers of parameters by component, and their ``total``.

    Raises
    ------
    TypeError
        If `config` is not a configuration.

    See Also
    --------
    multiplication_counts : The cost of a token.
    init_language_model : Makes as many.

    Notes
    -----
    With width D, H heads and :math:`H_k` heads of keys of width E = D / H, F hidden units,
    L blocks, V tokens and P positions of a learned table:

    .. math::

        \text{embedding} &= V D , & \text{positions} &= P D , \\
        \text{attention} &= L \bigl( 2 D^2 + 2 D H_k E + [\, 2 D + 2 H_k E \,] \bigr) , \\
        \text{feed-forward} &= L \bigl( 2 D F + [\, F + D \,] \bigr)
            \quad \text{or, gated,} \quad 3 L D F , \\
        \text{norms} &= (2 L + 1)\, D \, [\, \cdot\, 2 \,] , & \text{head} &= V D \text{ or } 0 ,

    brackets only with biases. RMS norm has no bias: the 2 there is for layer norm alone. T5
    has 32 H numbers for positions; rotary, sinusoidal and ALiBi none. A post-norm model has no last
    norm. With another ``head_dim`` E, queries and outputs have the width H E: attention has
    :math:`2 D H E` in place of :math:`2 D^2`, and H E of its biases in place of D. For
    :math:`H_k = H` and :math:`F = 4 D` the blocks have about :math:`12 L D^2`.

    References
    ----------
    - :cite:t:`Kaplan2020`, table 1

    Examples
    --------
    GPT-2 has 124 million:

    >>> from dlref.transformer import LanguageModelConfig, parameter_counts
    >>> gpt2 = LanguageModelConfig(50257, 768, 12, num_layers=12)
    >>> counts = parameter_counts(gpt2)
    >>> f"{counts.total:,}", f"{counts.feed_forward / counts.total:.0%}"
    ('124,439,808', '46%')

    LLaMA of 2023, the smallest:

    >>> llama = LanguageModelConfig(
    ...     32000,
    ...     4096,
    ...     32,
    ...     num_layers=32,
    ...     d_ff=11008,
    ...     positions="rope",
    ...     norm="rms",
    ...     activation="swiglu",
    ...     tied=False,
    ...     biases=False,
    ... )
    >>> f"{parameter_counts(llama).total:,}"
    '6,738,415,616'
    """
    check_config(config)
    D, F, L, V = config.d_model, config.d_ff, config.num_layers, config.vocab_size
    Q, K = (n * config.head_dim for n in (config.num_heads, config.num_kv_heads))
    tables = {"learned": config.length * D, "t5": T5_BUCKETS * config.num_heads}
    with_bias = config.biases and config.norm == "layer"
    biases = D + Q + 2 * K if config.biases else 0
    plain = 2 * D * F + (F + D if config.biases else 0)
    C, factors = _embeddings(config)
    return ParameterCounts(
        embedding=V * C + factors,
        positions=tables.get(config.positions, 0),
        attention=L * (2 * D * Q + 2 * D * K + biases),
        feed_forward=L * (3 * D * F if config.gated else plain),
        norms=(2 * L + config.norm_first) * D * (2 if with_bias else 1),
        head=0 if config.tied else V * C,
    )


def _embeddings(config: LanguageModelConfig) -> tuple[int, int]:
    """Return the width of the embeddings, and the size of the matrices to the blocks and back."""
    C = config.embedding_dim
    return (config.d_model, 0) if C is None else (C, 2 * C * config.d_model)


def multiplication_counts(config: LanguageModelConfig, *, context: int) -> MultiplicationCounts:
    r"""
    Count the multiplications of a language model for one token.

    Parameters
    ----------
    config : LanguageModelConfig
        Architecture of the model.
    context : int
        Number S of tokens that the token attends to, itself included.

    Returns
    -------
    MultiplicationCounts
        Multiplications in products of matrices, by component, and their ``total``.

    Raises
    ------
    TypeError
        If `config` is not a configuration or `context` is not an integer.
    ValueError
        If `context` is less than 1.

    See Also
    --------
    parameter_counts : The numbers to be kept.

    Notes
    -----
    .. math::

        \text{projections} &= L (2 D^2 + 2 D H_k E), & \text{scores} &= 2 L D S, \\
        \text{feed-forward} &= 2 L D F \quad \text{or, gated,} \quad 3 L D F, & \text{head} &= V D .

    A matrix element is used once for each token, so the projections, the networks and the head
    cost as many multiplications as they have weights. The scores remain: a query of
    D numbers with each of S keys, and as many for the values. With another ``head_dim`` E, H E
    replaces one D of the projections, as in :func:`parameter_counts`, and the D of the scores.

    **When is attention the expensive part?** Scores cost more than everything else in a block from
    :math:`2 D S > 12 D^2`, which is S > 6 D: at D = 768 from 4600 tokens on. Averaged
    over a text of T tokens, the causal mask makes it S = (T + 1) / 2.

    **Training** needs the products of the forward pass once and, in the backward pass, two more
    of the same size: 3 times as many multiplications, or 6 floating-point operations for each
    weight and token.

    **Generation** makes the same multiplications for one token at a time, and reads every
    weight from memory for it: it takes as long as reading the parameters.

    References
    ----------
    - :cite:t:`Kaplan2020`, section 2.1

    Examples
    --------
    >>> from dlref.transformer import LanguageModelConfig, multiplication_counts
    >>> gpt2 = LanguageModelConfig(50257, 768, 12, num_layers=12)
    >>> counts = multiplication_counts(gpt2, context=512)
    >>> f"{counts.total:,}", f"{counts.scores / counts.total:.0%}"
    ('132,969,216', '7%')

    A cache does not change them, and fewer heads of keys save projections only:

    >>> grouped = LanguageModelConfig(50257, 768, 12, 4, num_layers=12)
    >>> multiplication_counts(grouped, context=512).scores == counts.scores
    True
    """
    check_config(config)
    S = as_integer("context", context, least=1)
    D, F, L = config.d_model, config.d_ff, config.num_layers
    Q, K = (n * config.head_dim for n in (config.num_heads, config.num_kv_heads))
    C, factors = _embeddings(config)
    return MultiplicationCounts(
        projections=L * (2 * D * Q + 2 * D * K),
        scores=L * 2 * Q * S,
        feed_forward=L * (3 if config.gated else 2) * D * F,
        head=config.vocab_size * C + factors,
    )
