r"""Inputs to test with: random ones that are valid, and hard ones."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .._core.arguments import as_bool, as_generator, check_callable, float_dtype, shown
from .._core.pytree import map_tree
from .._records import UNKNOWN, MapSpec, spec_of
from .._records._spec import Case, Cases, option_case
from ._oracle import examples
from ._oracle.arrays import copied
from ._oracle.calls import ReferenceCall
from ._oracle.pairwise_options import pairwise_cases


def as_kind(dtype: Any) -> np.dtype[Any]:
    """Return a dtype of floats, which may be PyTorch's."""
    name = str(dtype)
    given = name.removeprefix("torch.") if name.startswith("torch.") else dtype
    return float_dtype("dtype", given, integers=False)


def random_inputs(
    op: Callable[..., Any],
    shapes: Sequence[Any],
    dtype: npt.DTypeLike,
    rng: np.random.Generator,
) -> tuple[Any, ...]:
    r"""
    Draw inputs for a function, rounded to a dtype before anything is computed from them.

    Parameters
    ----------
    op : callable
        The function of dlref they are for; it is called once, so that shapes that do not fit are
        noticed here.
    shapes : sequence of tuple of int
        The shape of each input. Values that are not tuples are passed on: a number of groups, None
        for an input that is left out, an array.
    dtype : dtype_like
        Type of the inputs: float16, bfloat16, float32 or float64.
    rng : numpy.random.Generator
        Source of the numbers.

    Returns
    -------
    tuple of ndarray
        Standard normal numbers of these shapes; distributions, classes, variances, signs, cosines
        and sines where `op` wants these.

    Raises
    ------
    TypeError
        If the dtype is another, `op` is not a function, or `rng` is not a generator.
    ValueError
        If `op` refuses inputs of these shapes.

    See Also
    --------
    check_forward : Takes them.
    hard_inputs : Inputs at which kernels break.

    Notes
    -----
    A test that rounds its inputs *after* it has computed the reference from the unrounded ones
    measures the rounding of the inputs, and blames it on the kernel. In float16 that rounding
    alone is as large as the error of a good kernel.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.check import random_inputs
    >>> from dlref.neurons import linear
    >>> x, w = random_inputs(linear, [(4, 3), (2, 3)], np.float16, np.random.default_rng(0))
    >>> x.shape, w.dtype
    ((4, 3), dtype('float16'))

    The second input of the cross-entropy holds classes, and the second input of the divergence
    holds probabilities:

    >>> from dlref.losses import cross_entropy, kl_divergence
    >>> rng = np.random.default_rng(0)
    >>> random_inputs(cross_entropy, [(4, 3), (4,)], np.float32, rng)[1].dtype.kind
    'i'
    >>> float(random_inputs(kl_divergence, [(4, 3)] * 2, np.float64, rng)[1].sum().round(9))
    4.0
    """
    kind = as_kind(dtype)
    check_callable("op", op)
    rng = as_generator("rng", rng)
    known, form = spec_of(op)
    known = UNKNOWN if form else known
    inputs: tuple[Any, ...] = _as(known.inputs(rng, shapes), kind)
    op(*inputs)
    return inputs


class TestCase(NamedTuple):
    """
    Inputs at which kernels break, with the options they belong to.

    Parameters
    ----------
    name : str
        The difficulty.
    inputs : tuple of ndarray
        The inputs.
    options : dict
        Keyword arguments.

    See Also
    --------
    hard_inputs : Yields them.

    Notes
    -----
    The inputs are valid: the exact result has no NaN.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.activations import softmax
    >>> from dlref.check import TestCase
    >>> case = TestCase("ties along columns", (np.zeros((2, 4)),), {"axis": 0})
    >>> float(softmax(*case.inputs, **case.options)[0, 0])
    0.5
    """

    name: str
    inputs: tuple[Any, ...]
    options: dict[str, Any]


TestCase.__test__ = False  # type: ignore[attr-defined]  # else pytest collects it as a test


#: First words of the names of large cases, which are kept if a candidate lacks their options.
BEYOND_TILES = "beyond tiles"


def _huge(kind: np.dtype[Any]) -> float:
    return 6e4 if kind.name == "float16" else 1e6


def _listed(shapes: Any) -> str:
    return " and ".join(str(s) for s in shapes if isinstance(s, tuple))


def _cases(known: MapSpec, kind: np.dtype[Any]) -> Cases:
    """Yield the inputs of a map at which its kernels break."""
    rng = np.random.default_rng(0)
    if callable(known.hard):
        yield from known.hard(rng)
        return
    names: set[str] = set()
    for shapes, options in known.hard_samples:
        name = f"shapes {_listed(shapes)}" if names or len(shapes) > 1 else "random"
        if names and options:
            name = str(options) if str(options) not in names else f"{name}, {options}"
        names.add(name)
        yield name, known.inputs(rng, shapes), options
    if known.more:
        yield from known.more(known, rng, _huge(kind))


def _large(known: MapSpec, form: str, *, optional: bool) -> Cases:
    """Yield inputs with three axes and beyond the tiles of kernels, but of Jacobians."""
    rng = np.random.default_rng(2)
    samples = known.large_samples if form in ("", "_vjp", "_jvp") else []
    for sample in (s for s in samples if bool(known.options_of(s)) == optional):
        shapes, options = sample
        names = ", ".join(key for key in options if key not in ("T", "S"))
        name = f"{BEYOND_TILES}, shapes {_listed(shapes)}" + (f", {names}" if names else "")
        case = name, known.inputs(rng, shapes), options
        if known.f is None or examples.is_valid(known.f, case):
            yield examples.in_form(known, form, case)


def _calls_with_options(known: MapSpec) -> Cases:
    """Yield a call for each option that a candidate may lack."""
    rng = np.random.default_rng(0)
    if callable(known.options):
        yield from known.options(rng)
        return
    for shapes, options in known.option_samples:
        yield option_case([*options][-1]), known.inputs(rng, shapes), options


def _in_form(op: Any, known: MapSpec, form: str, kind: Any) -> Cases:
    """Yield the cases of a form, or of a map that has none of its own; the first is varied."""
    cases = _cases(known, kind)
    first = next(cases)
    more = () if known.is_fixed else examples.varied(first, _huge(kind))
    given = {case[0]: examples.in_form(known, form, case) for case in (first, *cases, *more)}
    yield from (case for case in given.values() if examples.is_valid(op, case))


def hard_inputs(
    op: Callable[..., Any], dtype: npt.DTypeLike, *, every_option: bool = False
) -> Iterator[TestCase]:
    r"""
    Named inputs at which kernels of a function are known to break.

    Parameters
    ----------
    op : callable
        A function of dlref that takes arrays of floats, or parameters in nested tuples: a map, a
        block or a model, or a form of one (``_vjp``, ``_jvp``, ``_grad`` and so on).
    dtype : dtype_like
        Type of the inputs: float16, bfloat16, float32 or float64.
    every_option : bool, default False
        Whether to append calls with one option each, so that a candidate that ignores an option
        fails in some case.

    Returns
    -------
    iterator of TestCase
        Name, inputs and options of each.

    Raises
    ------
    TypeError
        If the dtype is another, `every_option` is not a bool, or nothing is known of the inputs of
        `op`: it draws random numbers, takes a function, returns tokens, or is not of dlref.

    See Also
    --------
    check_all : Runs a candidate over them.
    random_inputs : Inputs of given shapes.

    Notes
    -----
    Standard normal numbers do not tell an epsilon of :math:`10^{-6}` from one of :math:`10^{-5}`,
    a softmax with the maximum subtracted from one without, or causal masks anchored at either end
    of the keys. These do. The same call yields the same numbers.

    A function without cases of its own is called at a few shapes and options, then with a first
    array that is tiny, huge, far from zero, zero of both signs, or constant along its rows. A case
    is left out where `op` refuses it or its exact result has NaN. Configurations of models are
    among the options. `every_option` adds one case per option, chosen so that ignoring the option
    changes the result. Options that add outputs, take functions or are modified (``return_lse``,
    ``callback``, ``cache``) are excluded.

    Examples
    --------
    >>> from dlref.activations import softmax
    >>> from dlref.check import hard_inputs
    >>> [case.name for case in hard_inputs(softmax, "float32")][2:7]
    ['ties', 'large', 'an offset of 1e4', 'an offset of -1e4', 'one that is far ahead']

    >>> from dlref.activations import silu
    >>> [*hard_inputs(silu, "float32", every_option=True)][-1].options
    {'beta': 0.75}
    """
    kind, known, form = _known_spec(op, dtype)
    of_map = not form and known.more is not None
    cases = _cases(known, kind) if of_map else _in_form(op, known, form, kind)
    more = option_inputs(op, dtype) if as_bool("every_option", every_option) else ()
    cases = itertools.chain(cases, _large(known, form, optional=False))
    return itertools.chain((_rounded(case, kind) for case in cases), more)


def option_inputs(op: Callable[..., Any], dtype: npt.DTypeLike) -> Iterator[TestCase]:
    """Yield the cases that `hard_inputs` appends for `every_option`."""
    kind, known, form = _known_spec(op, dtype)
    for case in _calls_with_options(known):
        yield _rounded(examples.in_form(known, form, case), kind)


def _after_others(a: Any) -> Any:
    """Return rows in memory that begins before the first one: a storage offset of PyTorch."""
    lead = 4
    return np.concatenate([np.zeros(lead, a.dtype), np.ravel(a)])[lead:].reshape(a.shape)


def _read_only(a: Any) -> Any:
    """Return rows that may not be written to, and which are contiguous after an offset."""
    a = _after_others(a)
    a.flags.writeable = False
    return a


def _with_gaps(a: Any) -> Any:
    """Return every second number of rows, after an offset."""
    return _after_others(np.repeat(a, 2, axis=-1))[..., ::2]


#: How memory may lie: kernels that read it as if it were contiguous are found.
LAYOUTS: dict[str, Callable[[Any], Any]] = {
    "memory in reverse": lambda a: a[..., ::-1].copy()[..., ::-1],
    "memory in Fortran order": np.asfortranarray,
    "memory that is transposed": lambda a: np.swapaxes(np.swapaxes(a, -1, -2).copy(), -1, -2),
    "memory with gaps along rows": _with_gaps,
    "memory that is read-only, after an offset": _read_only,
}


def laid_out(value: Any, layout: Callable[[Any], Any]) -> Any:
    """Return arrays, within tuples, in another layout; vectors in reverse, or as they are."""
    least = 2 if layout in FLAT else 1

    def moved(a: Any) -> Any:
        return layout(a) if isinstance(a, np.ndarray) and a.ndim >= least else a

    return map_tree(moved, value)


FLAT = (LAYOUTS["memory in Fortran order"], LAYOUTS["memory that is transposed"])


def layout_inputs(op: Callable[..., Any], dtype: npt.DTypeLike) -> Iterator[tuple[TestCase, Any]]:
    """Yield the first case with two axes in each layout, and the layout, of functions of arrays."""
    _, known, _ = _known_spec(op, dtype)
    cases = hard_inputs(op, dtype) if known.calls else iter(())
    two = (case for case in cases if any(np.ndim(a) > 1 and np.size(a) for a in case.inputs))
    for _, inputs, options in itertools.islice(two, 1):
        for name, layout in LAYOUTS.items():
            yield TestCase(name, laid_out(inputs, layout), options), layout


def inputs_of_forms(op: Callable[..., Any], dtype: npt.DTypeLike) -> Iterator[tuple[str, TestCase]]:
    """Yield calls with options that one form alone has, and the form."""
    kind, known, _ = _known_spec(op, dtype)
    for form, samples in known.of_forms.items():
        for shapes, options in samples:
            inputs = known.inputs(np.random.default_rng(3), shapes)
            yield form, _rounded((option_case([*options][-1]), inputs, options), kind)


def large_inputs(op: Callable[..., Any], dtype: npt.DTypeLike) -> Iterator[TestCase]:
    """Yield inputs beyond tiles with options, every two of which are together in some case."""
    kind, known, form = _known_spec(op, dtype)
    return (_rounded(case, kind) for case in _large(known, form, optional=True))


def joint_inputs(op: Callable[..., Any], dtype: npt.DTypeLike) -> Iterator[TestCase]:
    """Yield calls with several options that the other cases have one by one."""
    kind, known, form = _known_spec(op, dtype)
    f = known.f
    if form or f is None:
        return
    optional = {*ReferenceCall(f, "forward", (), {}).defaults}
    large = [sample.options for sample in known.large_samples]
    cases = [*_cases(known, kind), *_calls_with_options(known)]
    for case in pairwise_cases(f, cases, optional, large):
        yield _rounded(case, kind)


def check_shapes(shapes: Any) -> None:
    """Raise TypeError unless there is a list of shapes for each case."""
    for some in shapes if isinstance(shapes, list | tuple) and shapes else (None,):
        if not isinstance(some, list | tuple) or any(isinstance(n, int) for n in some):
            msg = (
                "Argument 'shapes' must have the shapes of all inputs for each case, as in"
                f" [[(2, 64), (2, 64)]], not {shown(shapes)}."
            )
            raise TypeError(msg)


def shaped_inputs(
    op: Callable[..., Any], dtype: npt.DTypeLike, shapes: Sequence[Sequence[Any]]
) -> Iterator[TestCase]:
    """Yield inputs of given shapes: random, large, and with each option that fits them."""
    kind, known, _ = _known_spec(op, dtype)
    rng = np.random.default_rng(4)
    check_shapes(shapes)
    for some in shapes:
        name = f"shapes {_listed(some)}"
        if known.shaped is not None:
            own = known.shaped(rng, some)
            yield from (_rounded((f"{name}, {case[0]}", case[1], case[2]), kind) for case in own)
            continue
        samples = () if callable(known.options) else known.option_samples
        option_sets = [sample.options for sample in samples]
        if known.options_at is not None:
            option_sets = [*known.options_at(some)]
        large = examples.varied(("", known.inputs(rng, some), {}), _huge(kind))
        first = () if known.is_fixed else [case for case in large if case[0] == "20 times as large"]
        cases: list[Case] = [(name, known.inputs(rng, some), {})]
        cases += [(f"{name}, {what}", inputs, {}) for what, inputs, _ in first]
        cases += [
            (f"{name}, {', '.join(options)}", known.inputs(rng, some), options)
            for options in option_sets
        ]
        if not examples.is_valid(op, cases[0]):
            op(*cases[0][1])  # says why
        yield from (_rounded(case, kind) for case in cases if examples.is_valid(op, case))


def _known_spec(op: Any, dtype: Any) -> tuple[np.dtype[Any], MapSpec, str]:
    """Return a dtype, the record of a function, and which form of the map it is."""
    kind = as_kind(dtype)
    check_callable("op", op)
    known, form = spec_of(op)
    if known.why_not:
        msg = (
            "Argument 'op' must be a function whose inputs are known here, not "
            f"{shown(op)}: {known.why_not}."
        )
        raise TypeError(msg)
    return kind, known, form


def _rounded(case: Case, kind: np.dtype[Any]) -> TestCase:
    what, inputs, options = case
    rounded = {key: _as(value, kind) for key, value in options.items()}
    return TestCase(what, _as(inputs, kind), rounded)


def _as(value: Any, kind: np.dtype[Any]) -> Any:
    """Round arrays of floats, within tuples, and keep all else: gaps in memory too."""

    def rounded(part: Any) -> Any:
        if isinstance(part, np.floating):  # as operations on arrays without axes return
            part = np.asarray(part)
        is_other = isinstance(part, np.ndarray) and part.dtype != kind
        return copied(part, kind) if is_other and part.dtype.kind not in "biu" else part

    return map_tree(rounded, value)
