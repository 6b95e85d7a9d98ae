r"""Text from a language model: a token at a time, with a cache of keys and values."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .._core.arguments import (
    FloatArray,
    as_floats,
    as_generator,
    as_integer,
    as_integers,
    as_number,
    check_axes,
    check_ndim,
    check_range,
    check_shape,
    check_size,
    choice,
    result,
    shown,
)
from ..activations import log_softmax, softmax
from ._configuration import LanguageModelConfig, check_config
from ._decoding import Decoding
from ._model import IntArray, model_arguments
from ._params import LanguageModelParams


def next_token_probabilities(
    logits: npt.ArrayLike,
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    min_p: float | None = None,
) -> FloatArray:
    r"""
    Distribution from which the next token is drawn.

    Parameters
    ----------
    logits : array_like, shape (..., V)
        Scores of the tokens.
    temperature : float, default 1.0
        Divides the logits, at least 0. With 0 all probability is on the largest.
    top_k : int or None
        Keep the k most probable tokens, all those that tie with the k-th included.
    top_p : float or None
        Keep the fewest most probable tokens that together have at least this probability, which is
        greater than 0 and at most 1.
    min_p : float or None
        Keep the tokens that are at least this share as probable as the most probable one, from 0 to
        1.

    Returns
    -------
    ndarray, shape (..., V)
        Probabilities, which sum to 1 in each row.

    Raises
    ------
    TypeError
        If `logits` is not real or an option is not a number.
    ValueError
        If `logits` is a scalar or an option is out of range.

    See Also
    --------
    generate : Draws from it again and again.

    Notes
    -----
    1. **Temperature.** :math:`p_i \propto e^{z_i / \tau}`: below 1 it sharpens, above 1 it
       flattens. The odds of two tokens are raised to the power :math:`1 / \tau`.
    2. **Top k.** Tokens with :math:`z_i` below the k-th largest get 0, and the others are divided
       by their sum.
    3. **Top p.** Sorted by falling probability, :math:`p_{(1)} \ge p_{(2)} \ge \dots`, those
       tokens are kept before which less than p has been collected: the nucleus. Its size depends
       on how certain the model is; the size of the top k does not.
    4. **Min p.** Tokens with :math:`p_i < p_{min} \max_j p_j` get 0. The threshold is relative: a
       model that is sure of one token keeps few others, an unsure one keeps many, also at a high
       temperature. In logits it is a distance from the largest one,
       :math:`z_i \ge \max_j z_j + \tau \log p_{min}`.
    5. The probabilities that are kept are divided by their sum.

    With K for the tokens that top k keeps (all, without it), and N for the nucleus, where p without
    an index is `top_p`,

    .. math::

        p_i = \frac{e^{z_i / \tau}}{\sum_{j \in K} e^{z_j / \tau}} \; (i \in K), \qquad
        q_i = \frac{p_i}{\sum_{j \in N} p_j} \; (i \in N), \qquad
        N = \Bigl\{ (m) : \sum_{l < m} p_{(l)} < p \Bigr\} .

    With both options, top p therefore sees the probabilities that top k has normalized, as in
    Hugging Face's Transformers.

    At temperature 0 the first of several equal maxima is taken, as in greedy decoding. The limit
    of small temperatures is another: equal maxima share the probability. A row with NaN, or of −inf
    alone, gives NaN at every temperature.

    References
    ----------
    - :cite:t:`Holtzman2020` on top p; :cite:t:`Fan2018` on top k; :cite:t:`NguyenMinP2024` on min p

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.transformer import next_token_probabilities
    >>> logits = np.log([0.5, 0.3, 0.15, 0.05])
    >>> next_token_probabilities(logits, top_k=2)
    array([0.625, 0.375, 0.   , 0.   ])
    >>> next_token_probabilities(logits, top_p=0.9).round(3)
    array([0.526, 0.316, 0.158, 0.   ])
    >>> next_token_probabilities(logits, top_k=2, top_p=0.6)  # 0.625 is enough, 0.5 would not be
    array([1., 0., 0., 0.])
    >>> next_token_probabilities(logits, min_p=0.25)  # at least 0.125
    array([0.52631579, 0.31578947, 0.15789474, 0.        ])
    >>> next_token_probabilities(logits, temperature=0)
    array([1., 0., 0., 0.])
    >>> [next_token_probabilities([2.0, 2.0, 1.0], temperature=t) for t in (0, 1e-3)]
    [array([1., 0., 0.]), array([0.5, 0.5, 0. ])]

    At half the temperature the odds are squared, 5 : 3 becomes 25 : 9:

    >>> p = next_token_probabilities(logits, temperature=0.5)
    >>> abs(float(p[0] / p[1]) - 25 / 9) < 1e-14
    True
    """
    options = _sampling(temperature, top_k, top_p, min_p)
    dtype, [z] = as_floats({"logits": logits})
    check_ndim("logits", z, 1)
    return result(_probabilities(z, options), dtype)


class _Sampling(NamedTuple):
    temperature: float
    top_k: int | None
    top_p: float | None
    min_p: float | None


def _sampling(
    temperature: float, top_k: int | None, top_p: float | None, min_p: float | None
) -> _Sampling:
    return _Sampling(
        as_number("temperature", temperature, least=0),
        None if top_k is None else as_integer("top_k", top_k, least=1),
        None if top_p is None else as_number("top_p", top_p, above=0, most=1),
        None if min_p is None else as_number("min_p", min_p, least=0, most=1),
    )


def _probabilities(z: FloatArray, options: _Sampling) -> FloatArray:
    tau, k, mass, share = options
    if not z.size:
        return np.zeros_like(z)
    if tau == 0:
        best: FloatArray = np.arange(z.shape[-1]) == np.argmax(z, axis=-1)[..., None]
        largest = z.max(axis=-1, keepdims=True)
        return np.where(largest > -np.inf, best, np.nan).astype(z.dtype)
    with np.errstate(all="ignore"):
        # Below 1, z / tau may overflow; a difference from the maximum can only reach -inf.
        z = z / tau if tau >= 1 else (z - z.max(axis=-1, keepdims=True)) / tau
        if k is not None and k < z.shape[-1]:
            least = np.partition(z, -k, axis=-1)[..., -k, None]
            z = np.where(z < least, -np.inf, z)
        p = softmax(z)
        if mass is not None:
            order = np.argsort(-p, axis=-1, kind="stable")
            sorted_p = np.take_along_axis(p, order, -1)
            before = np.cumsum(sorted_p, axis=-1) - sorted_p
            kept = before < mass
            kept[..., 0] = True
            out = np.zeros_like(p)
            np.put_along_axis(out, order, np.where(kept, sorted_p, 0.0), -1)
            p = out / out.sum(-1, keepdims=True)
        if share is not None:
            p = np.where(p < share * p.max(axis=-1, keepdims=True), 0.0, p)
            p = p / p.sum(-1, keepdims=True)
        return np.asarray(p)


class _Groups:
    """Prompts of different lengths, by their lengths, and what stands to the left of each."""

    def __init__(self, texts: list[IntArray], pads: list[IntArray], batch: tuple[int, ...]) -> None:
        self.texts, self.pads, self.batch = texts, pads, batch
        self.results: list[IntArray] = [*texts]

    def __iter__(self) -> Iterator[tuple[IntArray, IntArray]]:
        """Yield the rows of each group, and its texts."""
        counts = np.array([len(text) for text in self.texts])
        for length in np.unique(counts):
            rows = np.flatnonzero(counts == length)
            yield rows, np.array([self.texts[row] for row in rows])

    def add(self, rows: IntArray, texts: IntArray) -> None:
        """Keep the results (B, ..., T + steps) of a group."""
        for row, text in zip(rows, texts, strict=True):
            self.results[row] = text

    def result(self) -> Any:
        """Return the results in the order of the prompts, a list if these were one."""
        if not self.pads:
            return self.results
        whole = [
            np.concatenate([np.broadcast_to(pad, (*text.shape[:-1], len(pad))), text], axis=-1)
            for pad, text in zip(self.pads, self.results, strict=True)
        ]
        return np.reshape(whole, (*self.batch, *whole[0].shape))


def _groups(prompt: Any, lengths: npt.ArrayLike | None, padding: str) -> _Groups | None:
    """Return prompts of different lengths by groups, None if all are equally long."""
    choice("padding", padding, ("left",))
    if lengths is not None:
        ids, counts = as_integers("prompt", prompt), as_integers("lengths", lengths)
        check_ndim("prompt", ids, 1)
        check_shape("lengths", counts, ids.shape[:-1])
        T = ids.shape[-1]
        if counts.size and not 1 <= counts.min() <= counts.max() <= T:
            msg = f"Argument 'lengths' must lie in [1, {T}], not {shown(lengths)}."
            raise ValueError(msg)
        rows = [*zip(ids.reshape(counts.size, T), T - counts.ravel(), strict=True)]
        if not rows:
            return None
        return _Groups([row[n:] for row, n in rows], [row[:n] for row, n in rows], counts.shape)
    if not isinstance(prompt, list | tuple) or not all(hasattr(t, "__len__") for t in prompt):
        return None
    if len({len(text) for text in prompt}) < 2:
        return None
    for i, text in enumerate(prompt):
        if not len(text):
            msg = f"Argument 'prompt[{i}]' must have at least 1 token."
            raise ValueError(msg)
    texts = [as_integers(f"prompt[{i}]", text) for i, text in enumerate(prompt)]
    for i, text in enumerate(texts):
        check_axes(f"prompt[{i}]", text, 1)
    return _Groups(texts, [], (len(texts),))


def _checked(
    prompt: npt.ArrayLike, params: Any, config: LanguageModelConfig, steps: int, beams: int = 1
) -> tuple[IntArray, LanguageModelParams, int, int]:
    """Return the prompts, the parameters, the number of steps and of the tokens to be read."""
    _, [ids], p, _ = model_arguments(LanguageModelParams, {"prompt": prompt}, params, config)
    if not ids.shape[-1]:
        msg = f"Argument 'prompt' must have at least 1 token, not shape {ids.shape}."
        raise ValueError(msg)
    steps = as_integer("steps", steps, least=0)
    check_size(prompt=ids.size, beams=beams, steps=steps)
    needed = ids.shape[-1] + max(steps - 1, 0)  # the last token is not read again
    if config.positions == "learned":
        assert p.positions is not None
        if needed > (rows := len(p.positions)):
            msg = f"Arguments 'prompt' and 'steps' must need at most length = {rows} positions, "
            raise ValueError(msg + f"not {needed}.")
    return ids, p, steps, needed


def _start(
    prompt: npt.ArrayLike, params: Any, config: LanguageModelConfig, steps: int, beams: int = 1
) -> tuple[IntArray, tuple[int, ...], int, Decoding]:
    """Check; return the prompts (B, T), their batch axes, the number of steps and a decoding."""
    ids, p, steps, needed = _checked(prompt, params, config, steps, beams)
    texts = ids.reshape(-1, ids.shape[-1])
    return texts, ids.shape[:-1], steps, Decoding(p, config, (beams * len(texts),), needed)


def generate(
    prompt: npt.ArrayLike,
    params: LanguageModelParams,
    config: LanguageModelConfig,
    *,
    steps: int,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    min_p: float | None = None,
    rng: np.random.Generator | None = None,
    stop: int | None = None,
    lengths: npt.ArrayLike | None = None,
    padding: str = "left",
) -> Any:
    r"""
    Continue texts, one token at a time.

    Parameters
    ----------
    prompt : array_like of int, shape (..., T), or list of these
        Beginnings of texts, at least one token each. A list may hold texts of different lengths.
    params, config : as in `language_model`
        Parameters, and the architecture of the model.
    steps : int
        Number of tokens to append.
    temperature : float, default 1.0
        As for :func:`next_token_probabilities`; 0 is greedy and needs no `rng`.
    top_k, top_p, min_p : int or float or None
        As for :func:`next_token_probabilities`.
    rng : numpy.random.Generator or None
        Source of random numbers, one for each token. The same state gives the same text.
    stop : int or None
        Token that ends a text; later positions are filled with it.
    lengths : array_like of int or None, shape (...)
        Number of real tokens in each prompt; None means that all T are.
    padding : "left"
        The side on which shorter prompts are padded: continuations follow on the right.

    Returns
    -------
    ndarray of int64, shape (..., T + steps), or list of ndarray
        Prompts, with their padding, and their continuations. A list of prompts of different lengths
        gives a list.

    Raises
    ------
    TypeError
        If an argument has the wrong type; `rng` is needed unless the temperature is 0.
    ValueError
        If a token is out of range, the prompt empty, the text (without its last token, which is
        not read) longer than a learned table, or an option out of range.

    See Also
    --------
    beam_search : Search for a probable text instead.
    next_token_probabilities : One step.

    Notes
    -----
    Repeat: run the model on the text so far, turn the last logits into probabilities, draw a
    token, append it. Sampling with temperature 1 and no limits draws texts from the model's
    distribution of texts.

    **The cache.** The causal mask makes keys and values of a token independent of later tokens. So
    they are computed once and kept, and a new token costs one pass of a single position, whose
    query attends to all keys kept: :math:`2 D S` multiplications per layer for S tokens, instead of
    the whole text again. The logits are equal to :func:`language_model`'s up to rounding. Memory is
    :math:`2 L H_k E S` numbers per text.

    **Drawing.** The token is the first whose cumulative probability exceeds a uniform number from
    `rng`:

    .. math::

        \text{token}_{T+1} = \min \Bigl\{ v : \sum_{w \le v} p_w > r \Bigr\}, \qquad
        r \text{ uniform in } [0, 1) .

    So equal states of the generator give equal texts.

    **Prompts of different lengths** are continued by groups of equal length, each from its own
    first token, so that a text is the same in any batch, whatever stands in the padding.

    Examples
    --------
    A text of the untrained model; and the same again, from the same seed:

    >>> import numpy as np
    >>> from dlref.transformer import LanguageModelConfig, generate, init_language_model
    >>> config = LanguageModelConfig(9, 16, 2, positions="rope")
    >>> params = init_language_model(np.random.default_rng(0), config)
    >>> texts = [
    ...     generate([1, 2], params, config, steps=6, rng=np.random.default_rng(1)).tolist()
    ...     for _ in range(2)
    ... ]
    >>> texts[0][:2], len(texts[0]), texts[0] == texts[1]
    ([1, 2], 8, True)

    Prompts of different lengths, in one call:

    >>> texts = generate([[1, 2], [3]], params, config, steps=1, temperature=0)
    >>> [len(text) for text in texts]
    [3, 2]

    Greedy decoding takes the largest logit:

    >>> from dlref.transformer import language_model
    >>> text = generate([1, 2], params, config, steps=1, temperature=0)
    >>> int(text[-1]) == int(language_model([1, 2], params, config)[-1].argmax())
    True
    """
    options = _sampling(temperature, top_k, top_p, min_p)
    if options.temperature > 0:
        as_generator("rng", rng)
    check_config(config)
    if stop is not None:
        check_range("stop", np.array(as_integer("stop", stop, least=0)), config.vocab_size)
    groups = _groups(prompt, lengths, padding)
    if groups is None:
        texts, batch, steps, decoding = _start(prompt, params, config, steps)
        draw = None if rng is None else lambda _: rng.random((len(texts), 1))
        out = _continued(texts, decoding, steps, options, draw, stop)
        return out.reshape(*batch, out.shape[1])
    for _, alike in groups:  # a call that is refused draws no number
        _checked(alike, params, config, steps)
    steps = as_integer("steps", steps, least=0)
    numbers = None if rng is None else rng.random((steps, len(groups.texts), 1))
    for rows, alike in groups:
        texts, _, steps, decoding = _start(alike, params, config, steps)
        groups.add(rows, _continued(texts, decoding, steps, options, _draws(numbers, rows), stop))
    return groups.result()


def _draws(numbers: FloatArray | None, rows: IntArray) -> Callable[[int], FloatArray] | None:
    """Return the numbers of some rows in a step, drawn for all rows (steps, B, 1)."""
    return None if numbers is None else lambda step: numbers[step][rows]


def _continued(
    texts: IntArray,
    decoding: Decoding,
    steps: int,
    options: _Sampling,
    draw: Callable[[int], FloatArray] | None,
    stop: int | None,
) -> IntArray:
    """Append tokens to texts (B, T); `draw` gives uniform numbers (B, 1) for each step."""
    out = np.empty((len(texts), texts.shape[1] + steps), np.int64)
    out[:, : texts.shape[1]] = texts
    done = np.zeros(len(texts), bool)
    fed = 0
    for step, at in enumerate(range(texts.shape[1], out.shape[1])):
        if not done.all() if len(texts) else False:
            token = _drawn(decoding.feed(out[:, fed:at]), options, draw, step)
            fed = at
            out[:, at] = token if stop is None else np.where(done, stop, token)
            if stop is not None:
                done |= out[:, at] == stop
        else:
            out[:, at] = stop or 0
    return out


def _drawn(
    logits: FloatArray,
    options: _Sampling,
    draw: Callable[[int], FloatArray] | None,
    step: int,
) -> npt.NDArray[np.int64]:
    if options.temperature == 0:
        return np.asarray(np.argmax(logits, axis=-1))
    assert draw is not None
    p = _probabilities(np.asarray(logits, np.float64), options)
    total = np.cumsum(p, axis=-1)
    where = draw(step) * total[:, -1:]
    return np.asarray(np.argmax(total > where, axis=-1))


def beam_search(
    prompt: npt.ArrayLike,
    params: LanguageModelParams,
    config: LanguageModelConfig,
    *,
    steps: int,
    beams: int = 4,
    stop: int | None = None,
    length_penalty: float = 0.0,
    lengths: npt.ArrayLike | None = None,
    padding: str = "left",
) -> tuple[Any, FloatArray]:
    r"""
    Search for a probable continuation, keeping several at each step.

    Parameters
    ----------
    prompt : array_like of int, shape (..., T), or list of these
        Beginnings of texts, at least one token each. A list may hold texts of different lengths.
    params, config : as in `language_model`
        Parameters, and the architecture of the model.
    steps : int
        Number of tokens to append.
    beams : int, default 4
        Number K of continuations kept.
    stop : int or None
        Token that ends a text; later positions are filled with it and counts nothing.
    length_penalty : float from 0 to 100, default 0.0
        Power a of the length by which log-probabilities are divided when texts are compared.
    lengths, padding : as in `generate`
        Number of real tokens in each prompt, if they differ.

    Returns
    -------
    texts : ndarray of int64, shape (..., K, T + steps), or list of ndarray
        Prompts and continuations, the best first; a list if `prompt` is one of different lengths.
    scores : ndarray of float64, shape (..., K)
        Their log-probabilities, divided by (length)^a.

    Raises
    ------
    TypeError
        If an argument has the wrong type.
    ValueError
        If a token is out of range, the prompt empty, the text (without its last token, which is
        not read) longer than a learned table, or an option out of range.

    See Also
    --------
    generate : Draw, or take the best token at each step, which is this with one beam.

    Notes
    -----
    Texts are compared by the log-probability of the n tokens appended, the sum over the
    tokens, with the length penalty a:

    .. math::

        \text{score} = \frac{1}{n^a} \sum_{t=1}^n \log p(\text{token}_{T+t} \mid \text{token}_1,
            \dots, \text{token}_{T+t-1}) .

    Of the K V texts that are one token longer than those kept, the K best are kept. That is exact
    if :math:`K \ge V^{n-1}` for n steps, and else a heuristic: the best text may begin with a token
    that looked bad. The length counts the tokens appended, up to and including `stop`. Where fewer
    than K texts exist, scores of the rest are −inf.

    A probable text is not a typical one: models repeat themselves under beam search. It is for
    tasks with one right answer.

    Examples
    --------
    Enough beams find the most probable of all texts of two more tokens:

    >>> import itertools
    >>> import numpy as np
    >>> from dlref.activations import log_softmax
    >>> from dlref.transformer import LanguageModelConfig, init_language_model
    >>> from dlref.transformer import beam_search, language_model
    >>> config = LanguageModelConfig(3, 16, 2, positions="rope")
    >>> params = init_language_model(np.random.default_rng(0), config)
    >>> texts, scores = beam_search([0], params, config, steps=2, beams=3)
    >>> every = [[0, *pair] for pair in itertools.product(range(3), repeat=2)]
    >>> logp = log_softmax(language_model(every, params, config))
    >>> total = [logp[i, 0, t[1]] + logp[i, 1, t[2]] for i, t in enumerate(every)]
    >>> texts[0].tolist() == every[int(np.argmax(total))]
    True
    >>> bool(np.isclose(scores[0], max(total)))
    True
    """
    K = as_integer("beams", beams, least=1)
    power = as_number("length_penalty", length_penalty, least=0, most=100)
    check_config(config)
    if stop is not None:
        check_range("stop", np.array(as_integer("stop", stop, least=0)), config.vocab_size)
    groups = _groups(prompt, lengths, padding)
    if groups is None:
        texts, batch, steps, decoding = _start(prompt, params, config, steps, K)
        out, scores = _searched(texts, decoding, config.vocab_size, steps, K, power, stop)
        return out.reshape(*batch, *out.shape[1:]), scores.reshape(*batch, K)
    scores = np.empty((len(groups.texts), K))
    for rows, alike in groups:
        texts, _, steps, decoding = _start(alike, params, config, steps, K)
        out, scores[rows] = _searched(texts, decoding, config.vocab_size, steps, K, power, stop)
        groups.add(rows, out)
    return groups.result(), scores.reshape(*groups.batch, K)


def _searched(
    texts: IntArray,
    decoding: Decoding,
    V: int,
    steps: int,
    K: int,
    power: float,
    stop: int | None,
) -> tuple[IntArray, FloatArray]:
    """Return the K best continuations (B, K, T + steps) of texts (B, T), and their scores."""
    B, T = texts.shape
    out = np.zeros((B, K, T + steps), np.int64)
    out[:, :, :T] = texts[:, None]
    total = np.full((B, K), -np.inf)
    total[:, 0] = 0.0  # at first all beams are the same text
    length, done = np.zeros((B, K)), np.zeros((B, K), bool)
    fed = 0
    for at in range(T, T + steps if B else T):
        logits = decoding.feed(out[:, :, fed:at].reshape(B * K, at - fed))
        fed = at
        logp = log_softmax(np.asarray(logits, np.float64)).reshape(B, K, V)
        if stop is not None:
            logp[done] = np.where(np.arange(V) == stop, 0.0, -np.inf)
        sums = total[:, :, None] + logp
        lengths = length + ~done
        ranks = (sums / np.maximum(lengths, 1)[:, :, None] ** power).reshape(B, K * V)
        best = np.argsort(-ranks, axis=1, kind="stable")[:, :K]
        beam, token = np.divmod(best, V)
        row = np.arange(B)[:, None]
        out, total = out[row, beam], sums.reshape(B, K * V)[row, best]
        length, done = lengths[row, beam], done[row, beam]
        out[:, :, at] = token
        if stop is not None:
            done |= token == stop
        decoding.reorder((row * K + beam).ravel())
    scores = total / np.maximum(length, 1) ** power
    return out, scores
