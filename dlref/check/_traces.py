r"""Every intermediate of a model by name, and the first one in which a port differs."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .._core.arguments import as_array, as_number, check_mapping, float_dtype, printable, shown
from ..activations import sigmoid, softmax
from ..positions import rope_permutation
from ._candidates import html_table
from ._oracle.stochastic_rounding import EPS
from ._tracing.fits import fits_of, least
from ._tracing.models import LEFT_OUT, MODELS, OF_HEADS, Change, Trace, step_before, traced

if TYPE_CHECKING:
    from .._core.arguments import FloatArray
    from ._tracing.common import Steps
    from ._tracing.fits import Fit

    Arrays = tuple[Mapping[str, Any], Mapping[str, Any]]  # a trace's and the other's

#: How many epsilons an element may be off; 1024 in wider dtypes.
EPSILONS = {"bfloat16": 16, "float16": 32}
#: An array of fewer different numbers may consist of round ones, which are exact in any dtype.
MIN_DISTINCT = 16
#: A score at or below this is a masked one: its weight is 0.
FINITE_MASK = -1000.0
#: Largest correlation of a residual with an array at which it still counts as rounding.
MAX_CORRELATION = 0.3
#: Tolerance after a step in float32, and the largest error of a factor that is rounded to it.
AFTER_FLOAT32, MAX_ROUNDING = 256 * EPS["float32"], 2.0**-24
#: More mistakes than these that lead to the same numbers say nothing.
MOST_NAMED = 4
#: Steps of a mixture of experts: the scores of all, the weights of the ones that are chosen.
ROUTED = ("feed_forward.router", "feed_forward.weights")
#: Names whose channels may be kept as halves instead of neighbors.
IN_PLACE = "it is kept after its bounds, which the port takes in place"
ROTATED = tuple(f"attention.{x}{end}" for x in "qk" for end in ("", "_clipped", "_rotated"))


def trace(model: Any, *inputs: Any, **options: Any) -> dict[str, FloatArray]:
    r"""
    Run a model and keep every intermediate by name.

    Parameters
    ----------
    model : function
        One of :func:`~dlref.transformer.language_model`, :func:`~dlref.transformer.encoder`,
        :func:`~dlref.transformer.encoder_block`, :func:`~dlref.transformer.decoder`,
        :func:`~dlref.transformer.decoder_block`,
        :func:`~dlref.transformer.encoder_decoder_model`,
        :func:`~dlref.transformer.sequence_classifier` and :func:`~dlref.neurons.mlp`.
    *inputs
        Its positional arguments; parameters as the named tuples.
    **options
        Its options, dropout excepted. With the ``lengths`` of padded texts, there are zeros where
        there is no token.

    Returns
    -------
    dict of ndarray
        Arrays by name, in the order in which they are computed.

    Raises
    ------
    TypeError
        If `model` is another function, an argument is of the wrong kind for the model, or the
        parameters of a whole model are a plain tuple.
    ValueError
        If an argument is of the wrong kind for the model, or there is dropout.

    See Also
    --------
    first_difference : Where another implementation departs from the trace.
    dlref.transformer.language_model_trace : Residual stream and weights only.

    Notes
    -----
    Names of a block, after ``blocks.0.`` and the like:

    - ``norm1``, ``norm2``: the normalizations; ``sum1``, ``sum2``: the sums; ``out``: the
      block's output;
    - ``attention.q``, ``.k``, ``.v`` of shape (..., H, T, E), ``.q_rotated``, ``.k_rotated``,
      ``.scores`` (−inf where masked), ``.weights``, ``.averages`` of the values, ``.out``; with
      norms also ``.q_normed`` and ``.k_normed``, with bounds ``.q_clipped`` and so on;
    - ``feed_forward.inner``, or ``.gate`` and ``.up``, then ``.hidden`` and ``.out``.

    A decoder's block has three sub-layers, hence ``norm3`` and ``sum3``, too. Its steps are called
    ``self_attention.q`` and ``cross_attention.q`` (keys and values of the memory) instead of
    ``attention.q``, and so on.

    A language model begins with ``embedding`` and, where vectors are added for the places,
    ``positioned``; it ends with ``norm`` and ``logits``. A classifier does so, too, the vector of
    its class before the text. An encoder-decoder model has both halves, as ``encoder.embedding``,
    ``encoder.blocks.0.out``, ``encoder.norm`` (the memory), ``decoder.embedding``,
    ``decoder.blocks.0.out`` and the like, then ``logits``. Layers of a perceptron have ``inner``
    and ``out``, after ``layers.0.`` and the like.

    Everything is computed by dlref's functions for the parts, one at a time, so that T² numbers per
    head are kept. The last entry is the result of the model, up to rounding.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.check import trace
    >>> from dlref.transformer import LanguageModelConfig, init_language_model, language_model
    >>> config = LanguageModelConfig(9, 8, 2, num_layers=1)
    >>> params = init_language_model(np.random.default_rng(0), config)
    >>> steps = trace(language_model, [1, 2, 3], params, config)
    >>> list(steps)[:4], steps["blocks.0.attention.weights"].shape
    (['embedding', 'positioned', 'blocks.0.norm1', 'blocks.0.attention.q'], (2, 3, 3))
    >>> bool(np.allclose(steps["logits"], language_model([1, 2, 3], params, config)))
    True
    """
    if not any(model is known for known in MODELS):
        names = ", ".join(f.__name__ for f in MODELS)
        msg = f"Argument 'model' must be one of dlref's functions {names}, not {shown(model)}."
        raise TypeError(msg)
    model(*inputs, **options)  # checks all arguments
    return traced(model, inputs, options)


class TraceDifference(NamedTuple):
    r"""
    The first intermediate in which another implementation differs.

    Parameters
    ----------
    name : str
        The first intermediate that differs.
    cause : str
        The mistake that explains it, empty if no known one does.
    num_wrong : int
        Number of elements that differ.
    size : int
        Number of elements.
    at : tuple of int
        Index of the element that differs most.
    got : float
        The other value there.
    exact : float
        The value of the trace there.
    agreed : tuple of str
        Names that were compared before, and agree.
    notes : tuple of str
        Layouts of the other implementation's arrays that agree.
    then : TraceDifference or None
        The next difference, of the other implementation from the model with that mistake; None
        if the mistake explains the other implementation.

    See Also
    --------
    first_difference : Returns it.

    Notes
    -----
    Its text is a sentence. A mistake explains a difference if dlref arrives at the same numbers
    when it makes that mistake.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.check import TraceDifference, first_difference
    >>> difference = first_difference({"a": np.ones(2)}, {"a": np.array([1.0, 3.0])})
    >>> difference.at, difference.got, difference.exact
    ((1,), 3.0, 1.0)
    >>> TraceDifference._fields[:2]
    ('name', 'cause')
    """

    name: str
    cause: str
    num_wrong: int
    size: int
    at: tuple[int, ...]
    got: float
    exact: float
    agreed: tuple[str, ...]
    notes: tuple[str, ...]
    then: TraceDifference | None = None

    def __repr__(self) -> str:
        """Return a sentence."""
        if self.num_wrong:
            beside = f"at {self.at} it is {self.got:.6g} instead of {self.exact:.6g}"
            text = f"{self.name} differs in {self.num_wrong} of {self.size} elements: {beside}"
        else:
            text = f"{self.name} has another shape"
        text += f"; {self.cause}" if self.cause else ""
        before = f"{len(self.agreed)} before it agree" if self.agreed else "nothing was before it"
        more = [] if self.then is None else [f"with this mistake in the model, {self.then!r}"]
        return printable("; ".join([text, before, *self.notes, *more]))

    def _repr_html_(self) -> str:
        """Return a table of the differences, with places and causes, for notebooks."""
        rows = [
            ("differs first", self.name),
            ("elements", f"{self.num_wrong} of {self.size}" if self.num_wrong else "another shape"),
            ("worst at", f"{self.at}: {self.got:.6g} instead of {self.exact:.6g}"),
            ("cause", self.cause or "unknown"),
            ("agree before it", ", ".join(self.agreed) or "none"),
            *(("layout", note) for note in self.notes),
            *(() if self.then is None else (("then", repr(self.then)),)),
        ]
        return html_table(("", ""), rows)


def _layouts(name: str, array: Any) -> Iterator[tuple[str, Any]]:
    """Yield the layouts in which an array may be kept, each with its name."""
    channels = {"": array}
    rotated = name.endswith(ROTATED) and "cross_attention" not in name
    if rotated and array.shape[-1] % 2 == 0:
        channels["pairs of channels in halves"] = array[..., rope_permutation(array.shape[-1])]
    for message, value in channels.items():
        yield message, value
        if "attention." in name and array.ndim > 2:
            swapped = np.swapaxes(value, -2, -3)
            yield f"{message}{', ' if message else ''}heads after the time axis", swapped
            merged = swapped.reshape(*swapped.shape[:-2], -1)
            yield f"{message}{', ' if message else ''}heads joined", merged


def _bound(want: Any, rtol: float) -> Any:
    """
    Return the tolerance of each element: by its row's size, or by the array's for tiny rows.

    The size of a row of one number, the first one under a causal mask, is accidental: it counts as
    large as the median of the rows.
    """
    finite = np.isfinite(want)
    size = np.where(finite, np.abs(want), 0.0)
    rows = size.max(-1, keepdims=True, initial=0.0)
    single = finite.sum(-1, keepdims=True) < 2
    if single.any():
        rows = np.where(single, np.maximum(rows, np.median(rows)), rows)
    return rtol * np.maximum(rows, 1e-3 * size.max(initial=0.0))


def _misses(got: Any, want: Any, rtol: float) -> Any:
    """Return by how many times its bound each element is off, NaN and inf included."""
    got, want = got.astype(np.float64), want.astype(np.float64)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        gap = np.where(got == want, 0.0, np.abs(got - want))
        ratio = np.where(gap == 0, 0.0, gap / _bound(want, rtol))
    return np.where(np.isnan(ratio), np.inf, ratio)


def _match(name: str, got: Any, want: Any, rtol: float, note: str = "") -> str | None:
    """Return the layout in which two arrays agree, '' if it is the same, and a note; or None."""
    for message, value in _layouts(name, want):
        for more, array in _forms(name, got, value):
            if not np.any(_misses(array, value, rtol) > 1):
                return ", ".join(filter(None, (message, more, note)))
    return None


def _forms(name: str, got: Any, want: Any) -> Iterator[tuple[str, Any]]:
    """Yield the layouts in which an array may be meant, if it has the right shape."""
    if got.shape == want.shape:
        yield "", got
        hidden = np.isneginf(want) & (got <= FINITE_MASK)
        if name.endswith("attention.scores") and np.any(hidden):
            yield "masked scores are finite", np.where(hidden, want, got)
    elif got.shape == (1, *want.shape):
        for message, array in _forms(name, got[0], want):
            yield ", ".join(filter(None, ("an axis of length 1 first", message))), array


def _difference(
    name: str, got: Any, want: Any, rtol: float, cause: str, before: tuple[Any, Any]
) -> TraceDifference:
    """Describe a difference, in the layout that fits best."""
    shapes = got.shape, got.shape[1:] if got.shape[:1] == (1,) else got.shape
    alike = [value for _, value in _layouts(name, want) if value.shape in shapes]
    if not alike:
        cause = cause or f"it has shape {got.shape} instead of {want.shape}"
        return TraceDifference(name, cause, 0, got.size, (), np.nan, np.nan, *before)
    got = got.reshape(alike[0].shape)
    alike = [value for value in alike if value.shape == got.shape]
    ratios = [_misses(got, value, rtol) for value in alike]
    best = min(range(len(alike)), key=lambda i: int(np.sum(ratios[i] > 1)))
    ratio, value = ratios[best], alike[best]
    at = tuple(int(i) for i in np.unravel_index(np.argmax(ratio), ratio.shape))
    wrong = int(np.sum(ratio > 1))
    entries = float(got[at]), float(value[at])
    return TraceDifference(name, cause, wrong, got.size, at, *entries, *before)


def first_difference(
    trace: Mapping[str, Any], other: Mapping[str, Any], *, rtol: float | None = None
) -> TraceDifference | None:
    r"""
    Find the first intermediate in which another implementation differs, and why.

    Parameters
    ----------
    trace : dict of array_like
        Result of :func:`trace`.
    other : dict of array_like
        Intermediates of the other implementation, by the same names; as many or as few as there
        are. Arrays of other libraries are taken, too.
    rtol : float or None
        Tolerance of an element, relative to the largest of its row; None is 1024 epsilons of the
        narrower dtype, 32 of float16 and 16 of bfloat16, (i + 1) times as much in block i, and at
        least as much for the arrays after it.

    Returns
    -------
    TraceDifference or None
        The first difference in the order of the trace, None if all agrees.

    Raises
    ------
    TypeError
        If an argument is not a dictionary, or an array is not one of real numbers.
    ValueError
        If `other` has names that the trace does not have, or no names, or `rtol` is negative.

    See Also
    --------
    trace : The names.
    check_forward : For a single function.

    Notes
    -----
    Arrays with heads may have them before the time axis, after it, or joined with the channels, and
    queries and keys may have rotated pairs in halves instead of neighbors (as in LLaMA's
    checkpoints). Masked scores may be large negative numbers, or scores before the mask if the
    weights agree; a batch of one text may keep its axis. All these are layouts, not mistakes: the
    result says so in its ``notes``.

    Numbers that are all of bfloat16 or float16, 16 different ones or more, are compared as such
    even if they come in a wider dtype, since NumPy has no bfloat16. Differences of one rounding
    cannot be distinguished from a small mistake then: GELU and its tanh form agree in 16 bits.
    Roundings grow from block to block. Where they exceed the tolerance, the block is run once more
    on the other's own input, if that is among its arrays. A token whose last expert and next one
    have scores that are equal up to rounding may go to either: this is no difference, and ``notes``
    say for how many tokens the comparison is inconclusive.

    Where an array differs, the part of the model that it belongs to is run once more for each known
    mistake, on the input up to which everything agrees. The mistake that leads to the other values
    is the cause; one that explains the later steps, too, is preferred. These are known: rotation of
    other pairs, backwards or none, of queries alone or of values, with another base, without its
    scaling or from position 1 on; scale; causal mask missing or shifted; a bias left out,
    transposed or scaled; softmax over the queries; keys of grouped heads in another order;
    projections exchanged, cut out of a fused matrix or into heads in the other order; heads split
    or joined by a reshape alone; weights transposed, biases missing; the other kind of norm, its
    weight, bias, denominator, eps and place; sums without one of their terms; the activation; gate
    and up exchanged; parameters of another block; in cross-attention the same, and that it reads
    the decoder itself, or that its keys and values are exchanged. Before and after the blocks:
    positions, scaled embeddings, the last norm, the head, probabilities instead of logits. If none
    fits, dropout or a constant factor is named.

    Of a trace with ``lengths``, numbers at places without a token are not compared: a port may
    compute anything there, but no token may attend to it.

    The fewer names `other` has, the more parts lie between two of them, and a cause
    is only found if it is the only one in its block.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.check import first_difference, trace
    >>> from dlref.transformer import LanguageModelConfig, init_language_model, language_model
    >>> rng = np.random.default_rng(0)
    >>> config = LanguageModelConfig(9, 16, 2, activation="gelu")
    >>> params = init_language_model(rng, config)
    >>> right = trace(language_model, [1, 2, 3], params, config)
    >>> relu = LanguageModelConfig(9, 16, 2, activation="relu")
    >>> port = trace(language_model, [1, 2, 3], params, relu)
    >>> difference = first_difference(right, port)
    >>> difference.name, difference.cause
    ('blocks.0.feed_forward.hidden', 'the activation is relu')
    """
    check_mapping("trace", trace)
    check_mapping("other", other)
    other = trace.judged(other) if isinstance(trace, Trace) else other
    unknown = [name for name in other if name not in trace]
    if unknown or not other:
        names = ", ".join(map(repr, unknown[:5])) or "none"
        some = ", ".join(map(repr, list(trace)[:5]))
        msg = f"Argument 'other' must have names of the trace ({some}, ...), not {names}."
        raise ValueError(msg)
    factor = None if rtol is None else as_number("rtol", rtol, least=0)
    return _first_difference(trace, _without_padding(trace, other), factor)


def _first_difference(
    trace: Mapping[str, Any], other: Mapping[str, Any], factor: Any, *, last: bool = False
) -> TraceDifference | None:
    """Return the first difference, with the next one unless it is the last to be sought."""
    agreed: list[str] = []
    notes: dict[str, list[str]] = {}
    bound = 0.0
    for name, value in trace.items():
        if name not in other:
            continue
        want, got = _real(f"trace[{name!r}]", value), _real(f"other[{name!r}]", other[name])
        bound = max(bound, _allowed(name, want, got)) if factor is None else factor
        layout = _match_step(name, got, trace, bound)
        if layout is None and factor is None and (wider := _of_float32(got, want)) > bound:
            message = "it agrees to float32 only: a step up to it is computed in float32"
            layout = _match(name, got, want, wider, message)
            if layout is not None:
                bound = max(wider, AFTER_FLOAT32)  # roundings grow from here on
        narrow = "16 bits" if _in_16_bits(want) or _in_16_bits(got) else ""
        narrow = narrow or ("float32" if bound >= AFTER_FLOAT32 else "")
        if layout is None and factor is None and narrow:
            layout = _from_own_input(name, (trace, other), bound, narrow)
        if layout is None and _before_mask(name, (trace, other), bound):
            notes.setdefault("scores are those before the mask", []).append(name)
            continue
        if layout is None:
            cause, change = _cause(name, (trace, other), bound, agreed)
            said = tuple(f"{', '.join(names)}: {text}" for text, names in notes.items())
            difference = _difference(name, got, want, bound, cause, (tuple(agreed), said))
            then = None if last else _after(trace, other, factor, bound, change)
            return difference._replace(then=then)
        if layout:
            notes.setdefault(layout, []).append(name)
        agreed.append(name)
    return None


def _without_padding(trace: Any, other: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the other's arrays with the trace's numbers where there is no token."""
    if getattr(trace, "padding", None) is None:
        return other
    filled_in = dict(other)
    for name, given in other.items():
        got = _real(f"other[{name!r}]", given)
        layouts = zip(_layouts(name, trace.hidden(name)), _layouts(name, trace[name]), strict=True)
        filled = [
            np.where(unseen, value.astype(got.dtype), got)
            for (_, unseen), (_, value) in layouts
            if value.shape == got.shape
        ]
        want = trace[name]
        filled_in[name] = min(filled, key=lambda a: _count_off(name, a, want), default=got)
    return filled_in


def _count_off(name: str, got: Any, want: Any) -> int:
    """Return how many elements differ in the layout that fits best."""
    alike = [value for _, value in _layouts(name, want) if value.shape == got.shape]
    return min(int(np.sum(_misses(got, value, 1e-3) > 1)) for value in alike)


def _to_padding(name: str, got: Any, want: Any, trace: Any) -> str:
    """Return a message if tokens attend to places where there is no token."""
    if not name.endswith("attention.weights") or getattr(trace, "padding", None) is None:
        return ""
    keys = np.swapaxes(trace.hidden(name), -1, -2)
    seen = got.shape == want.shape and bool(np.any(np.where(keys, got, 0)))
    return "tokens attend to the padding" if seen else ""


def _agree(names: Iterable[str], other: Mapping[str, Any], steps: Steps, bound: float) -> bool:
    """Whether all these arrays of the other are the ones that are found."""
    return all(
        _match_step(name, _real(f"other[{name!r}]", other[name]), steps, bound) is not None
        for name in names
    )


def _match_step(name: str, got: Any, steps: Mapping[str, Any], bound: float) -> str | None:
    """Return the layout in which an array matches a step, or the bounds after it."""
    layout = _match(name, got, _real(f"trace[{name!r}]", steps[name]), bound)
    for after in _bounds_after(name, steps) if layout is None else ():
        layout = _match(name, got, _real(f"trace[{after!r}]", steps[after]), bound, IN_PLACE)
    return layout


def _bounds_after(name: str, steps: Mapping[str, Any]) -> list[str]:
    """Return the step of the bounds that come next after a step, if they do."""
    after = f"{OF_HEADS.sub('', name)}_clipped"
    return [after] if after in steps and step_before(after, steps) == name else []


def _cause(name: str, arrays: Arrays, bound: float, agreed: list[str]) -> tuple[str, Change | None]:
    """Return the cause of a difference in words, and the change of the model that makes it."""
    right, other = arrays
    got, want = (_real(name, some[name]) for some in (other, right))

    def refutes(steps: Steps) -> bool:
        """Whether steps of a part that differ from the other already rule a mistake out."""
        alike = [s for s in (name, *agreed) if s in steps and np.shape(right[s]) == steps[s].shape]
        return not _agree(alike, other, steps, bound)

    trials = getattr(right, "mistakes", {}).get(name, lambda _: ())(refutes)
    if mistakes := _mistakes(name, arrays, bound, trials, agreed):
        change = None if mistakes[0].startswith(LEFT_OUT.split("{")[0]) else Change(mistakes[0])
        return _one_of(mistakes, change)
    message = _to_padding(name, got, want, right) or _dropped(name, got, want, bound)
    if message:
        return message, None
    if fits := _fitted(name, arrays, bound, agreed):
        fit, number = fits[0]
        messages = [fit.message.format(number) for fit, number in fits]
        return _one_of(messages, Change(fit.message, value=number))
    return _multiple(name, got, want, bound), None


def _one_of(messages: list[str], change: Change | None) -> tuple[str, Change | None]:
    """Return mistakes that lead to the same numbers in words, and the change; none if too many."""
    return ("", None) if len(messages) > MOST_NAMED else (", or ".join(messages), change)


def _after(
    right: Any, other: Mapping[str, Any], factor: Any, bound: float, change: Change | None
) -> TraceDifference | None:
    """
    Return the first difference of the other from a model with the mistake that is found.

    The parts have the mistake that agree longer with it than without it. Those of which the other
    has too few steps to tell have it all, or none has it: what explains more steps is taken.
    """
    if change is None:
        return None
    order, differences = list(right), []

    def agreed(steps: Steps) -> int:
        """Return how far the other agrees with the steps of a part."""
        there = _comparable(steps, other, right)
        ends = (order.index(s) for s in there if not _agree([s], other, steps, bound))
        return next(ends, len(order))

    for with_ties in (True, False):

        def is_made(with_it: Steps, without: Steps, with_ties: bool = with_ties) -> bool:
            first, second = agreed(with_it), agreed(without)
            return with_ties if first == second else first > second

        changed = right.changed(change, is_made)
        then = _first_difference(changed, _comparable(changed, other, right), factor, last=True)
        if then is None:
            return None
        differences.append(then)
    return max(differences, key=lambda then: order.index(then.name))


def _comparable(steps: Steps, other: Mapping[str, Any], right: Steps) -> dict[str, Any]:
    """Return the other's arrays, except of steps to which a mistake gives another shape."""
    return {
        step: other[step]
        for step, array in steps.items()
        if step in other and array.shape == right[step].shape
    }


def _mistakes(
    name: str,
    arrays: Arrays,
    bound: float,
    trials: Iterable[tuple[str, Steps]],
    agreed: list[str],
) -> list[str]:
    """
    Return the mistakes that lead to an array of the other, and leave matching arrays alone.

    Those that explain what comes later in the same part, too, go before others.
    """
    right, other = arrays
    whole: list[str] = []
    first: list[str] = []
    for message, steps in trials:
        alike = [s for s in agreed if s in steps and np.shape(right[s]) == steps[s].shape]
        if _agree((name, *alike), other, steps, bound):
            later = _agree((step for step in steps if step in other), other, steps, bound)
            messages = whole if later else first
            messages += [message] if message not in messages else []
    return whole or first


def _of_float32(got: Any, want: Any) -> float:
    """
    Return the tolerance of numbers in float64 that come from float32; 0 if they do not.

    Roundings do not follow the array; a mistake as small as they are does. A factor that was
    rounded to float32, such as the one of Gemma's embeddings, is the same for all rows.
    """
    if got.dtype != np.float64 or want.dtype != np.float64 or want.size < MIN_DISTINCT:
        return 0.0
    if got.shape != want.shape:
        return 16 * EPS["float32"]  # another layout
    there = np.isfinite(got) & np.isfinite(want)
    a, b = got[there], want[there]
    off = a - b
    size = float(np.linalg.norm(off) * np.linalg.norm(b))
    follows = abs(float(off @ b)) > MAX_CORRELATION * size
    return 0.0 if follows and not _is_rounded(got, want) else 16 * EPS["float32"]


def _is_rounded(got: Any, want: Any) -> bool:
    """Whether rows are multiplied by one rounded factor, or each by its own, with other noise."""
    if want.ndim < 2 or not np.isfinite([got, want]).all() or not want.any(-1).all():
        return False
    squares = np.sum(want * want, axis=-1)
    factors = np.sum((got - want) * want, axis=-1) / squares
    rest = got - want - factors[..., None] * want
    noise = np.linalg.norm(rest) / np.linalg.norm(want)
    most = float(np.max(np.abs(factors)))
    if factors.size > 1 and np.ptp(factors) <= 64 * EPS["float64"]:
        return most <= MAX_ROUNDING
    return most <= 4 * MAX_ROUNDING and bool(
        noise > MAX_ROUNDING / 10
    )  # a mean, a root, a quotient


def _fitted(name: str, arrays: Arrays, bound: float, agreed: list[str]) -> list[tuple[Fit, float]]:
    """Return options of the block, each with a value that leads to the array of the other."""
    right, other = arrays
    got = _real(f"other[{name!r}]", other[name])
    if name not in (parts := getattr(right, "parts", {})) or got.size < MIN_DISTINCT:
        return []  # any few numbers are fitted
    options, run = parts[name]

    keys = [name, *_bounds_after(name, right)]

    def misfit(fit: Fit, number: float) -> float:
        gaps, steps = [], run(fit.options(number))
        for _, value in (pair for key in keys for pair in _layouts(key, steps[key])):
            if value.shape == got.shape:
                both = np.isfinite(value) & np.isfinite(got)
                hidden = (np.isfinite(value) != np.isfinite(got)).mean()
                gaps.append(float(((value[both] - got[both]) ** 2).sum() + 1e3 * hidden))
        return min(gaps, default=float("inf"))

    def leads_there(fit: Fit, number: float, *, later: bool = False) -> bool:
        steps = run(fit.options(number))
        some = (step for step in (steps if later else agreed) if step in steps and step in other)
        return _agree((name, *some), other, steps, bound)

    whole: list[tuple[Fit, float]] = []
    first: list[tuple[Fit, float]] = []
    for fit in fits_of(options):
        low, high = (run(fit.options(float(value))) for value in fit.grid[[0, -1]])
        if all(np.array_equal(low[key], high[key], equal_nan=True) for key in keys):
            continue  # the array does not depend on the option
        number = least(functools.partial(misfit, fit), fit)
        if not leads_there(fit, number):
            continue
        (whole if leads_there(fit, number, later=True) else first).append((fit, number))
    found = whole or first
    return [(fit, number) for fit, number in found if not fit.narrow] or found


def _from_own_input(name: str, arrays: Arrays, bound: float, narrow: str) -> str | None:
    """
    Return the layout in which an array follows from the other's own input of the part.

    In 16 bits, or after a step in float32, the roundings of earlier parts may have grown, and
    either choice is right among experts whose scores are equal up to rounding.
    """
    right, other = arrays
    before, run, arguments = getattr(right, "sources", {}).get(name, ("", None, ()))
    if before not in other or np.shape(other[before]) != np.shape(right[before]):
        return None
    steps = run(_real(before, other[before]).astype(right[before].dtype))
    want, got = steps[name], _real(name, other[name])
    message = f"it follows from the other's own input, up to roundings in {narrow}"
    layout = _match(name, got, want, bound, message)
    if layout is not None:
        return layout
    if got.shape != want.shape:
        return None
    off = np.any(_misses(got, want, bound) > 1, axis=-1)
    if np.any(off & ~_undecided(name, steps, arguments, bound)):
        return None
    return f"inconclusive for {off.sum()} of {off.size} tokens, whose experts are a close choice"


def _undecided(name: str, steps: Steps, arguments: tuple[Any, ...], bound: float) -> Any:
    """Return for which tokens the last expert chosen and the next one are equal up to rounding."""
    before = [*steps][: [*steps].index(name)]
    routed = [steps[step] for step in before if step.endswith(ROUTED)]
    if len(routed) < 2:
        return np.zeros(1, bool)
    (router, weights), (params, options) = routed, arguments
    k, groups = weights.shape[-1], options["router"].get("groups", 1)
    if k == router.shape[-1] or groups > 1:
        return np.zeros(1, bool)  # there is no choice, or not by these scores alone
    scores, slack = router, np.abs(router).max(-1)
    if params.feed_forward.correction is not None:  # a sigmoid or softmax rises by 1/4 at most
        score = softmax if options["router"].get("score", "softmax") == "softmax" else sigmoid
        scores = np.asarray(score(router)) + params.feed_forward.correction
        slack = slack / 4 + np.abs(scores).max(-1)
    ordered = np.sort(scores)[..., ::-1]
    return ordered[..., k - 1] - ordered[..., k] <= bound * slack


def _multiple(name: str, got: Any, want: Any, bound: float) -> str:
    """Return a message if an array is a multiple of the right one, in any layout."""
    if got.shape == want.shape:  # scores that are hidden in both
        hidden = np.isneginf(want) & (np.isneginf(got) | (got <= FINITE_MASK))
        got, want = (np.where(hidden, 0.0, a) for a in (got, want))
    a, b = np.ravel(got).astype(np.float64), np.ravel(want).astype(np.float64)
    if a.size < 2 or a.shape != b.shape or not np.isfinite([a, b]).all() or not b.any():
        return ""
    with np.errstate(over="ignore"):
        factor = np.copysign(np.linalg.norm(a) / np.linalg.norm(b), a.mean() * b.mean())
    rounding = abs(factor - 1) <= 8 * bound
    if factor == 0 or rounding or not np.isfinite(factor):
        return ""
    if _match(name, got, want * factor, 4 * bound) is None:
        return ""
    return f"it is multiplied by {factor:.7g}"


def _dropped(name: str, got: Any, want: Any, bound: float) -> str:
    """Return a message if some elements are zero, and the others are multiplied by one factor."""
    if got.shape != want.shape or not np.isfinite(want).all():
        return ""
    kept = (got != 0) | (want == 0)
    message = _multiple(name, got[kept], want[kept], bound)
    if kept.all() or not message:
        return ""
    return message.replace("it is", "some elements are zero and the others") + ", as by dropout"


def _real(name: str, value: Any) -> Any:
    """Return an array of real numbers."""
    array = as_array(name, value)
    if array.dtype != np.longdouble:
        float_dtype(name, array.dtype)  # raises an error that names the fault
    return array


def _before_mask(name: str, arrays: Arrays, bound: float) -> bool:
    """Whether scores differ only where a mask hides them, and the weights agree all the same."""
    weights = name.removesuffix("scores") + "weights"
    if not name.endswith("attention.scores") or not all(weights in some for some in arrays):
        return False
    (want, got), (right, other) = ([_real(n, some[n]) for some in arrays] for n in (name, weights))
    if got.shape != want.shape or _match(weights, other, right, bound) is None:
        return False
    shown = np.where(np.isneginf(want), want, got)
    return _match(name, shown, want, bound) is not None


def _allowed(name: str, want: Any, got: Any) -> float:
    """Return the tolerance of two arrays; in 16 bits, block i carries roundings of i blocks."""
    kinds = want.dtype.name, got.dtype.name
    if not _in_16_bits(want):  # else the numbers of the other can be the same ones
        kinds = kinds[0], _in_16_bits(got) or kinds[1]
    block = re.search(r"\bblocks\.(\d+)\.", name)
    depth = 1 + int(block[1]) if block and {*kinds} & {*EPSILONS} else 1
    return max(depth * EPSILONS.get(kind, 1024) * EPS.get(kind, EPS["float64"]) for kind in kinds)


def _in_16_bits(array: Any) -> str:
    """Return the dtype of 16 bits that has all the numbers of an array, nothing if none has."""
    with np.errstate(over="ignore"):
        wide = np.ascontiguousarray(array, np.float32)
        narrow = wide.astype(np.float16)
    if array.dtype.kind not in "fV" or not np.array_equal(wide, array):
        return ""
    if len(np.unique(wide)) < MIN_DISTINCT:
        return ""
    if not np.any(wide.view(np.uint32) & 0xFFFF):
        return "bfloat16"  # float16 has most of these, too
    return "float16" if np.array_equal(narrow, wide) else ""
