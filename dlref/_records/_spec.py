"""The fields of a record, and the calls of a map."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from ._draw import DOMAINS, angles, normal

#: First words of the names of cases with several options: a candidate may lack some of the options
#: of a separable case, but must take all of an inseparable one, whose inputs need them.
SEPARABLE, INSEPARABLE = "the options", "all of the options"

#: Name, inputs and options.
Case = tuple[str, tuple[Any, ...], dict[str, Any]]
Cases = Iterator[Case]
CasesFrom = Callable[[Any], Cases]  # a generator of random numbers

FORMS = ("_value_and_grad", "_jacobian", "_hessian", "_grad", "_deriv2", "_deriv", "_vjp", "_jvp")
#: Two documents in a row of five steps.
PACKED = {"segment_ids": np.array([1, 1, 4, 4, 4])}


class Sample(NamedTuple):
    """The shapes of the inputs (no tuple: the input itself, None: left out), and the options."""

    shapes: tuple[Any, ...]
    options: dict[str, Any] = {}  # noqa: RUF012  # nobody writes to it


def call(*shapes: Any, **options: Any) -> Sample:
    return Sample(shapes, options)


def pairwise(shapes: tuple[Any, ...], *groups: dict[str, Any]) -> list[Sample]:
    """
    Return calls with groups of options, such that every two are together, alone and both left out.

    This is a covering array: for each bit, one call with the groups whose index has it set and one
    with the others; plus none and all.
    """
    number = range(len(groups))
    bits = range((len(groups) - 1).bit_length()) if groups else ()
    chosen = [[], [*number]]
    chosen += [[i for i in number if (i >> bit) % 2 == on] for bit in bits for on in (1, 0)]
    unique = dict.fromkeys(map(tuple, chosen))
    return [
        Sample(shapes, {key: value for i in some for key, value in groups[i].items()})
        for some in unique
    ]


def option_case(key: str) -> str:
    """Return the name of the case that differs if an option is ignored."""
    return f"the option {key!r}"


def each(inputs: Callable[[], Any], values: Mapping[str, Any], **base: Any) -> Cases:
    """Yield a case for each option, given together with those that every call needs."""
    for key, value in values.items():
        yield option_case(key), inputs(), {**base, key: value}


@dataclass(frozen=True, eq=False, kw_only=True)
class MapSpec:
    """The record of a map and its forms."""

    f: Callable[..., Any] | None
    forms: tuple[Callable[..., Any], ...] = ()  # where the map itself is none of dlref
    why_not: str = ""  # why nothing else is known
    family: str = ""  # of maps whose calls are drawn alike

    # How it is called.
    calls: Sequence[Sample] = ()  # few numbers each; the first is the plain one
    draw: tuple[Callable[..., Any], ...] = ()  # how each input is drawn; `normal` where missing
    constant: tuple[int, ...] = ()  # places of inputs without derivative (classes, positions)
    batched: bool = True  # whether a leading axis of all inputs is a batch axis
    core: tuple[int, ...] | None = None  # Jacobian by rows: axes of an output, then of each input
    of: tuple[int, ...] | None = None  # places that grad and jacobian are for, where not all
    analytic: bool = True  # whether a NaN in an input that matters makes the result NaN

    # Inputs at which its kernels break.
    hard: Sequence[Sample] | CasesFrom | None = None  # None: the calls, with more rows and columns
    large: Sequence[Sample] | None = None  # beyond tiles; None: 17 times the first call
    more: Callable[[MapSpec, Any, Any], Cases] | None = None  # of its own, not varied
    fixed: bool = False  # whether the first array means nothing if it is scaled or shifted
    needed: tuple[str, ...] = ()  # options that a candidate may not lack
    options: Sequence[Sample] | CasesFrom | None = None  # None: the calls with one option
    options_at: Callable[[Sequence[Any]], Iterable[dict[str, Any]]] | None = None  # for shapes
    shaped: Callable[[Any, Sequence[Any]], Cases] | None = None  # all cases, for shapes
    of_forms: Mapping[str, Sequence[Sample]] = field(default_factory=dict)  # of one form alone
    fields: Mapping[str, Any] = field(default_factory=dict)  # keywords of an object: defaults

    # Facts about the map.
    exponential: bool = False  # whether it has one that may overflow for one of the signs
    is_loss: bool = False

    @property
    def name(self) -> str:
        """Return the name that the forms begin with."""
        if not self.forms:
            return self.f.__name__ if self.f else ""
        name = self.forms[0].__name__
        return next(name.removesuffix(form) for form in FORMS if name.endswith(form))

    @property
    def functions(self) -> tuple[Callable[..., Any], ...]:
        """Return the functions of dlref that the record is found by."""
        return self.forms or (() if self.f is None else (self.f,))

    @property
    def is_fixed(self) -> bool:
        """Return whether the first array would leave its domain if it were scaled or shifted."""
        return self.fixed or (bool(self.draw) and self.draw[0] in DOMAINS)

    def inputs(self, rng: Any, shapes: Sequence[Any]) -> tuple[Any, ...]:
        """Draw inputs of these shapes, in float64."""
        drawn: list[Any] = []
        turns: Any = None
        for i, shape in enumerate(shapes):
            draw = self.draw[i] if i < len(self.draw) else normal
            if not isinstance(shape, tuple | list):
                drawn.append(shape)
            elif draw is angles and turns is None:
                turns = draw(rng, tuple(shape))
                drawn.append(np.cos(turns))
            elif draw is angles:
                drawn.append(np.sin(turns))
            else:
                drawn.append(np.asarray(draw(rng, tuple(shape), shapes[0])))
        return tuple(drawn)

    def options_of(self, sample: Sample) -> list[str]:
        """Return the options of a sample that have a default."""
        known = inspect.signature(self.functions[-1]).parameters
        return [k for k in sample.options if k in known and known[k].kind == known[k].KEYWORD_ONLY]

    @property
    def full(self) -> list[Sample]:
        """Return the calls whose inputs are not empty."""
        every = (
            (sample, (s for s in sample.shapes if isinstance(s, tuple))) for sample in self.calls
        )
        return [sample for sample, shapes in every if not any(0 in shape for shape in shapes)]

    @property
    def hard_samples(self) -> list[Sample]:
        """Return the samples at which its kernels break."""
        if self.hard is not None and not callable(self.hard):
            return list(self.hard)
        plain = [sample for sample in self.full if not self.options_of(sample)]
        needed = [sample for sample in self.full if {*self.options_of(sample)} & {*self.needed}]
        return [*(_grown(sample, 3) for sample in plain), *plain, *needed]

    @property
    def large_samples(self) -> list[Sample]:
        """Return samples of three axes, and of more numbers than a tile of a kernel has."""
        if self.large is not None:
            return list(self.large)
        first = next((sample for sample in self.full if not self.options_of(sample)), None)
        if first is None:
            return []
        shapes = [(2, 3, *s) if isinstance(s, tuple) else s for s in first.shapes]
        first_shapes = ((sample, sample.shapes[0]) for sample in self.full)
        of_three = [sample for sample, s in first_shapes if isinstance(s, tuple) and len(s) > 2]
        batch = [Sample(tuple(shapes), first.options)] if self.batched else of_three[:1]
        return [_grown(first, 17), *batch]

    @property
    def option_samples(self) -> list[Sample]:
        """Return a sample for each option that a candidate may lack."""
        if self.options is not None and not callable(self.options):
            return list(self.options)
        some: dict[str, Sample] = {}
        for sample in self.full:
            names = self.options_of(sample)
            if names and not {*names} & {*self.needed}:
                some.setdefault(names[-1], sample)
        return list(some.values())


def _grown(sample: Sample, times: int) -> Sample:
    """Return a sample with so many times the rows, columns, heads and so on."""
    shapes = (
        tuple(times * n if n > 1 else n for n in shape) if isinstance(shape, tuple) else shape
        for shape in sample.shapes
    )
    return Sample(tuple(shapes), sample.options)


def record(f: Any, *calls: Sample, **known: Any) -> MapSpec:
    """Return the record of a map that is called so; the first call is the plain one."""
    return MapSpec(f=f, calls=calls, **known)


#: Why nothing is known of functions of integers, names, files and so on.
NOT_ARRAYS = "it is no function of dlref that takes arrays of floats"
MASKS = "it makes a mask of integers; compare two masks with numpy.array_equal"
RANDOM = "it draws random numbers"


def without(why: str, *functions: Callable[..., Any]) -> Iterator[MapSpec]:
    """Yield the records of functions that nothing is known about, for this reason."""
    for f in functions:
        yield MapSpec(f=f, why_not=why)
