"""One call of a function of dlref, or of something wrapped around one, in each of its forms."""

from __future__ import annotations

import copy
import functools
import inspect
import itertools
import sys
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..._core.arguments import shown
from ..._core.pytree import is_float, map_floats, map_tree, tree_leaves
from ..._records import UNKNOWN, spec_of
from .arrays import map_leaves
from .differences import ridders

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from ..._records import MapSpec
    from .explanations import Explanation


def widened(value: Any) -> Any:
    """Return arrays of floats as float64, within tuples and lists, and all else as it is."""
    return map_leaves(_widened, value)


def _widened(value: Any) -> Any:
    if not has_state(value):
        return np.asarray(value, np.float64) if is_float(value) else value
    own = copy.deepcopy(value)
    for key, part in vars(own).items() if hasattr(own, "__dict__") else ():
        if isinstance(part, np.ndarray):
            object.__setattr__(own, key, widened(part))
    return own


def has_state(value: Any) -> bool:
    """Return whether something changes when it is used: a cache, a generator of random numbers."""
    if isinstance(value, np.random.Generator):
        return True
    return hasattr(value, "__dict__") and not callable(value) and not hasattr(value, "dtype")


def separate(value: Any) -> Any:
    """Copy objects with a state, within tuples and lists, and keep all else as it is."""
    return map_leaves(lambda part: copy.deepcopy(part) if has_state(part) else part, value)


def _stepped(value: Any, by: Any, h: float) -> Any:
    """Return a point that is moved along a direction, whose constants are None."""

    def step(a: Any, b: Any) -> Any:
        return a if b is None or not is_float(a) else a + h * np.asarray(b)

    return map_tree(step, value, by)


def _jvp(f: Callable[..., Any], primals: Any, tangents: Any) -> Any:
    """Return the derivative of f along a direction, by differences."""
    points = primals if isinstance(primals, tuple) else (primals,)
    directions = tangents if isinstance(primals, tuple) else (tangents,)
    like = f(*points)
    sizes = [np.ravel(part) for part in tree_leaves(like)]

    def at_step(h: float) -> Any:
        return np.concatenate(
            [np.ravel(p) for p in tree_leaves(f(*_stepped(points, directions, h)))]
        )

    parts = iter(np.split(ridders(at_step, 0.1), np.cumsum([part.size for part in sizes])[:-1]))

    def in_shape(part: Any) -> Any:
        return np.reshape(next(parts), np.shape(part)).astype(np.asarray(part).dtype)

    return map_floats(in_shape, like)


def _numbered(f: Callable[[int, Any], Any], value: Any) -> Any:
    """Apply f to the number of each array of floats and to itself."""
    count = itertools.count()
    return map_floats(lambda a: f(next(count), a), value)


def _vjp(f: Callable[..., Any], dout: Any, inputs: tuple[Any, ...]) -> Any:
    """Return the gradient of <dout, f> with respect to each array of floats, by differences."""
    weights = [np.ravel(part) for part in tree_leaves(dout)]

    def gradient(k: int, part: int, array: Any) -> Any:
        out = np.zeros(np.shape(array))
        for i in range(out.size):
            step = np.zeros(out.shape)
            step.flat[i] = 1

            def at_step(h: float, step: Any = step) -> Any:
                there = _numbered(lambda n, a: a + h * step if n == part else a, inputs[k])
                values = tree_leaves(f(*inputs[:k], there, *inputs[k + 1 :]))
                return sum(np.dot(w, np.ravel(v)) for w, v in zip(weights, values, strict=True))

            out.flat[i] = ridders(at_step, 0.1 * max(1.0, abs(float(np.ravel(array)[i]))))
        return out.astype(np.asarray(array).dtype)  # as a vjp returns it

    grads = []
    for k, value in enumerate(inputs):
        held = [is_float(part) for part in tree_leaves(value)]
        if any(held):
            grads.append(_numbered(functools.partial(gradient, k), value))
    return tuple(grads) if len(grads) != 1 else grads[0]


def _derivative_of(op: Any, suffix: str) -> Callable[..., Any] | None:
    """Return op_vjp or op_jvp, from the module that op comes from, if it is of dlref."""
    module = sys.modules.get(getattr(op, "__module__", None) or "")
    if module is None or not module.__name__.startswith("dlref."):
        return None
    return getattr(module, f"{getattr(op, '__name__', '')}_{suffix}", None)


def as_form(op: Any) -> tuple[Any, str]:
    """Return the map and the form that a function is: softmax and "vjp" for softmax_vjp."""
    if isinstance(op, functools.partial) and not op.args:
        whole, kind = as_form(op.func)
        return functools.partial(whole, **op.keywords), kind
    name, module = getattr(op, "__name__", ""), sys.modules.get(getattr(op, "__module__", "") or "")
    for kind in ("vjp", "jvp"):
        whole = getattr(module, name.removesuffix(f"_{kind}"), op)
        if whole is not op and _derivative_of(whole, kind) is op:
            return whole, kind
    return op, "forward"


def _equal(a: Any, b: Any) -> bool:
    return a is b or (np.isscalar(a) and np.isscalar(b) and a == b)


def _parameters(f: Any) -> dict[str, inspect.Parameter]:
    """Return the parameters of a function; none of one that has no signature."""
    try:
        return {**inspect.signature(f).parameters}
    except (TypeError, ValueError):
        return {}


def learned_options(op: Any) -> tuple[str, ...]:
    """Return the options that have a tangent in the jvp of a function, hence a gradient."""
    own, by_jvp = _parameters(op), _parameters(_derivative_of(getattr(op, "func", op), "jvp"))
    return tuple(name for name in own if {f"d{name}", f"{name}_tangent"} & by_jvp.keys())


def form(op: Any, suffix: str) -> tuple[Callable[..., Any], bool]:
    """Return op_vjp or op_jvp, and whether it is by differences; a partial hands its options on."""
    if isinstance(op, functools.partial) and not op.args:
        whole, numeric = form(op.func, suffix)
        kwargs = dict(op.keywords)
        if suffix == "vjp" and kwargs.pop("return_lse", False):

            def of_both(dout: Any, *inputs: Any, **options: Any) -> Any:
                return whole(dout[0], *inputs, dlse=dout[1], **options)

            return functools.partial(of_both, **kwargs), numeric
        return functools.partial(whole, **kwargs), numeric
    if derivative := _derivative_of(op, suffix):
        return derivative, False
    own = getattr(op, "__module__", None) or ""
    if not callable(op) or isinstance(op, np.ufunc) or own.startswith(("dlref.", "numpy")):
        msg = f"Argument 'op' must be a function of dlref that has a {suffix}, not {shown(op)}."
        raise TypeError(msg)

    def by_differences(first: Any, *rest: Any, **options: Any) -> Any:
        f = functools.partial(op, **options)
        return _jvp(f, first, *rest) if suffix == "jvp" else _vjp(f, first, rest)

    return by_differences, True


@functools.cache
def _spec_of_form(f: Any) -> MapSpec:
    """Return the record of a form as a function, max_vjp or huber_deriv, which has a formula."""
    return replace(UNKNOWN, f=f)


#: Numbers of a call whose explanations are kept.
MAX_CACHED_NUMBERS = 2**14


@dataclass(frozen=True)
class ReferenceCall:
    """A function of dlref in one of its forms, with its arguments, in float64."""

    op: Any
    form: str
    arguments: tuple[Any, ...]
    options: dict[str, Any]
    memory: tuple[Any, ...] = ()  # the arguments as the candidate is given them
    cached: dict[Any, Any] = field(default_factory=dict, init=False, compare=False, repr=False)

    def once(self, f: Callable[[ReferenceCall], Iterator[Any]]) -> Iterable[Any]:
        """Return the results of a function of this call; all outputs share one computation."""
        if sum(np.size(a) for a in tree_leaves(self.arguments)) > MAX_CACHED_NUMBERS:
            return f(self)
        self.cached[f], results = itertools.tee(self.cached.get(f) or f(self))
        return results

    @property
    def draws(self) -> bool:
        """Return whether the map draws random numbers."""
        return any(isinstance(a, np.random.Generator) for a in self.arguments)

    @property
    def core(self) -> Any:
        """Return the function within partials."""
        return self.op.func if isinstance(self.op, functools.partial) else self.op

    @functools.cached_property
    def spec(self) -> MapSpec:
        """Return the record of the map; an empty one for a lambda."""
        record, form = spec_of(self.core)
        return _spec_of_form(self.core) if form else record

    @functools.cached_property
    def explanation(self) -> Explanation:
        """Return the plain formulas and the mistakes that are known of the map."""
        from .explanations import explanation_of  # noqa: PLC0415  # whose mistakes are calls

        return explanation_of(self.spec)

    @functools.cached_property
    def inputs(self) -> tuple[Any, ...]:
        """Return the inputs of the map."""
        if self.form == "jvp":
            primals = self.arguments[0]
            return primals if isinstance(primals, tuple) else (primals,)
        return self.arguments[self.form == "vjp" :]

    @functools.cached_property
    def numeric(self) -> bool:
        """Return whether the reference comes from differences."""
        return self.form != "forward" and form(self.op, self.form)[1]

    @functools.cached_property
    def defaults(self) -> dict[str, Any]:
        """Return the default value of every option."""
        own = {
            p.name: p.default
            for p in _parameters(self.core).values()
            if p.kind == p.KEYWORD_ONLY and p.default is not p.empty
        }
        return {**own, **spec_of(self.core)[0].fields}

    @functools.cached_property
    def settings(self) -> dict[str, Any]:
        """Return the options, those within a partial and the defaults among them."""
        return {**self.defaults, **getattr(self.op, "keywords", {}), **self.options}

    @functools.cached_property
    def non_default_options(self) -> dict[str, Any]:
        """Return the options that differ from their defaults."""
        defaults = self.defaults
        options = {**getattr(self.op, "keywords", {}), **self.options}
        return {k: v for k, v in options.items() if k not in defaults or not _equal(v, defaults[k])}

    @functools.cached_property
    def names(self) -> list[str]:
        known, count = [*_parameters(self.core)], len(self.inputs)
        return known[:count] if len(known) >= count else [f"input {i}" for i in range(count)]

    def run(self) -> Any:
        f = self.op if self.form == "forward" else form(self.op, self.form)[0]
        options = {key: separate(value) for key, value in self.options.items()}
        with np.errstate(all="ignore"):
            return f(*separate(self.arguments), **options)

    def with_inputs_in_place(self) -> ReferenceCall:
        """Return the same call with the inputs that were given by keyword among the others."""
        own = _parameters(self.core)
        names = [name for name, p in own.items() if p.kind == p.POSITIONAL_OR_KEYWORD]
        names = names[len(self.inputs) :]
        while names and names[-1] not in self.options:
            names.pop()
        more = tuple(self.options.get(name, own[name].default) for name in names)
        missing = any(value is inspect.Parameter.empty for value in more)
        if self.form == "jvp" or missing:
            return self
        options = {name: value for name, value in self.options.items() if name not in names}
        return replace(self, arguments=(*self.arguments, *more), options=options)

    def with_options(self, **options: Any) -> ReferenceCall:
        return replace(self, options={**self.options, **options})

    def with_inputs(self, *inputs: Any) -> ReferenceCall:
        if self.form == "forward":
            return replace(self, arguments=inputs)
        if self.form == "vjp":
            return replace(self, arguments=(self.arguments[0], *inputs))
        primals = inputs if isinstance(self.arguments[0], tuple) else inputs[0]
        return replace(self, arguments=(primals, self.arguments[1]))
