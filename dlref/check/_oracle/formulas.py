"""
The formulas of `dlref.formulas`, as kernels compute them in the dtype of their inputs.

They cancel where dlref does not: a kernel is not wrong for that, so that their error, measured
near the inputs, is allowed. A formula that does not take some inputs raises NotImplementedError.
"""

from __future__ import annotations

import copy
import dis
import functools
import importlib
import inspect
import pkgutil
import zlib
from dataclasses import replace
from types import FunctionType, MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from ... import formulas
from ..._core.pytree import is_float, map_floats, tree_leaves
from ..._records import records
from .helpers import HELPERS
from .stochastic_rounding import Inherited, StochasticallyRounded, as_narrow_as

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import CodeType

    from ..._records import MapSpec
    from .explanations._explanation import Explanation

#: Packages whose functions are formulas.
FORMULAS = ("dlref.formulas.", "dlref.check._oracle.usual")
CHAPTERS = {m.name for m in pkgutil.iter_modules(formulas.__path__)}
#: Forms of a map, and how their names end.
FORMS = {"forward": "", "vjp": "_vjp"}
#: Errors of a formula that does not take some inputs or options.
REFUSALS = (
    *(ArithmeticError, AttributeError, LookupError, TypeError, ValueError, NotImplementedError),
)
#: Error of the erf and tanh of libraries, in roundings.
OFF = 4
#: Functions whose results are saved for the backward pass: quotients are probabilities and gates.
SAVED = {np.tanh, np.true_divide}
#: Multiplications of two matrices that OpenBLAS does in one thread.
IN_ONE_THREAD = 2**18
#: Multiplications of two matrices for which all threads are worth it.
FOR_THREADS = 2**25


# Copies of formulas.


def is_formula(f: Any) -> bool:
    return isinstance(f, FunctionType) and f.__module__.startswith(FORMULAS)


@functools.cache
def names(code: CodeType) -> tuple[str, ...]:
    """Return the global names that a code and those within it look up."""
    own = (i.argval for i in dis.get_instructions(code) if i.opname == "LOAD_GLOBAL")
    inside = (name for c in code.co_consts if hasattr(c, "co_names") for name in names(c))
    return (*own, *inside)


@functools.cache
def _called(f: Any) -> dict[Any, None]:
    """Return the formulas that a formula calls itself, and those that a partial holds."""
    if isinstance(f, functools.partial):
        inside = (f.func, *f.args, *f.keywords.values())
    else:
        inside = (*map(f.__globals__.get, names(f.__code__)), *(f.__defaults__ or ()))
    return dict.fromkeys(a for a in inside if isinstance(a, functools.partial) or is_formula(a))


@functools.cache
def parts(formula: Any) -> tuple[Any, ...]:
    """Return the functions that a formula consists of, those that it calls itself first."""
    every: dict[Any, None] = {}
    level = {formula: None}
    while level:
        every |= level
        inside = (inner for f in level for inner in _called(f))
        level = dict.fromkeys(f for f in inside if f not in every)
    return tuple(filter(is_formula, every))


def _protected(value: Any) -> Any:
    """Return a global value that a changed formula cannot write to: others use it, too."""
    if isinstance(value, dict):
        return MappingProxyType(value)
    return copy.deepcopy(value) if isinstance(value, list | set | np.ndarray) else value


def rewritten(formula: Any, others: Mapping[Any, Any]) -> Any:
    """Return a copy of a formula that calls other functions, or has the code of others."""
    changed = {f for f in parts(formula) if f in others or f.__code__ in others}
    rest = [f for f in parts(formula) if f not in changed]
    while more := {f for f in rest if f not in changed and changed & _called(f).keys()}:
        changed |= more
    made: dict[Any, Any] = {}

    def again(f: Any) -> Any:
        if isinstance(f, functools.partial):
            keywords = {key: again(value) for key, value in f.keywords.items()}
            return functools.partial(again(f.func), *map(again, f.args), **keywords)
        if not is_formula(f) or f not in changed:
            return f
        if f in others:
            return others[f]
        if f not in made:
            code, scope = others.get(f.__code__, f.__code__), HELPERS | f.__globals__
            made[f] = FunctionType(code, scope, f.__name__)
            made[f].__defaults__ = tuple(map(again, f.__defaults__ or ())) or None
            made[f].__kwdefaults__ = f.__kwdefaults__
            used = {name: scope[name] for name in names(f.__code__) if name in scope}
            scope |= {name: again(_protected(value)) for name, value in used.items()}
        return made[f]

    return again(formula)


# How a kernel computes a formula.


class Computed(Inherited):
    """
    An array that computes as kernels do.

    Sums are from left to right, erf and tanh a few roundings off, some of them, others for other
    arguments: a common factor would cancel. In 16 bits, the result of each operation is rounded;
    in 32 bits, probabilities and gates are, if they are saved in 16.
    """

    saved: Any = None  # the dtype that probabilities and gates are saved in

    def __array_finalize__(self, other: Any) -> None:
        """Save in the dtype that the array saves in that this one is made from."""
        self.saved = getattr(other, "saved", None)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        """Compute with plain arrays."""
        if method == "__call__" and (result := in_parts(ufunc, inputs)) is not None:
            return result
        own = [a for a in inputs if isinstance(a, Computed)]
        plain: list[Any] = [a.view(np.ndarray) if isinstance(a, Computed) else a for a in inputs]
        options.pop("out", None)  # callers use the returned array instead
        dtype = next((a.dtype for a in plain if _is_narrow(a)), None)
        if dtype is not None and method != "at":
            plain = [a.astype(np.float32) if _is_narrow(a) else a for a in plain]
            options.pop("dtype", None)
        if method == "__call__":
            result = of_kernels(ufunc, plain, **options)
        elif (ufunc, method) == (np.add, "reduce"):
            result = summed(plain[0], **options)
        else:
            result = getattr(ufunc, method)(*plain, **options)
        if not isinstance(result, np.ndarray | np.generic) or result.dtype.kind != "f":
            return result
        result = as_narrow_as(result, own, Computed, options)
        saved = next((a.saved for a in own if a.saved is not None), None)
        if saved is not None and ufunc in SAVED:
            result = result.astype(saved).astype(result.dtype)
        out = np.asarray(result if dtype is None else result.astype(dtype)).view(Computed)
        out.saved = saved
        return out


def _is_narrow(a: Any) -> bool:
    return isinstance(a, np.ndarray) and a.dtype.itemsize == 2 and is_float(a)


def of_kernels(ufunc: Any, inputs: list[Any], **options: Any) -> Any:
    """Return the result of a function of libraries."""
    if ufunc is np.tanh or ufunc.__name__ == "erf":
        return _perturbed(ufunc(*inputs))
    if ufunc is np.matmul and min(map(np.ndim, inputs)) > 1:
        return product(*inputs)
    return ufunc(*inputs, **options)


def in_parts(ufunc: Any, inputs: Any) -> Any:
    """Return the result of a function that kernels put together from others; None of others."""
    if ufunc is np.expm1:
        return np.exp(*inputs) - 1
    if ufunc.__name__ == "ndtr":
        (x,) = inputs
        erf = importlib.import_module("scipy.special").erf
        return (1 + erf(x * x.dtype.type(0.5**0.5))) / 2
    return None


class AtRandom(StochasticallyRounded):
    """An array whose operations are rounded at random, in parts as kernels have them."""

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        """Compute with plain arrays, and move each element up, down, or not at all."""
        if method == "__call__" and (result := in_parts(ufunc, inputs)) is not None:
            return result
        result = super().__array_ufunc__(ufunc, method, *inputs, **options)
        return result.view(AtRandom) if isinstance(result, StochasticallyRounded) else result


def _perturbed(values: Any) -> Any:
    some = np.random.default_rng(zlib.crc32(values.tobytes())).random(values.shape) < 0.5
    return values * (1 - OFF * np.finfo(values.dtype).eps * some).astype(values.dtype)


def summed(x: Any, axis: Any = 0, dtype: Any = None, **options: Any) -> Any:
    """Return sums from left to right."""
    keepdims = options.pop("keepdims", False)
    axes = [int(a) % x.ndim for a in (range(x.ndim) if axis is None else np.atleast_1d(axis))]
    rows = np.moveaxis(x, axes, range(len(axes)))
    rows = rows.reshape(-1, *rows.shape[len(axes) :])
    if options.pop("where", True) is not True or options or x.dtype.kind != "f" or not len(rows):
        return np.add.reduce(x, axis, dtype, keepdims=keepdims, **options)
    out = np.add.accumulate(rows, 0, dtype)[-1]
    return np.expand_dims(out, tuple(axes)) if keepdims else out


def product(a: Any, b: Any) -> Any:
    """
    Return a product of matrices, a few rows at a time.

    Threads would take longer to meet than to multiply these, the more so the busier the processor.
    For large products it is the other way around.
    """
    each_row = max(1, b.shape[-2] * b.shape[-1])
    if a.shape[-2] * each_row >= FOR_THREADS:
        return a @ b
    count = max(1, IN_ONE_THREAD // each_row)
    some = [a[..., i : i + count, :] @ b for i in range(0, a.shape[-2], count)]
    return np.concatenate(some, -2) if len(some) > 1 else a @ b


def computed(formula: Any, *arguments: Any, narrow: bool = False, **options: Any) -> Any:
    """
    Return the outputs of a formula, as a kernel computes it in the dtype of its first array.

    For inputs of 16 bits it computes in float32, and rounds only the values that a backward pass
    would save. If `narrow`, it rounds the result of each operation.
    """
    every = [a for a in tree_leaves(arguments) if is_float(a)]
    dtype = np.asarray(every[0]).dtype if every else np.dtype(np.float64)
    short = dtype.itemsize == 2

    def prepared(a: Any) -> Any:
        a = a.astype(np.float32 if short and not narrow else dtype)
        if isinstance(a, StochasticallyRounded):
            return a.view(AtRandom)
        a = a.view(Computed)
        a.saved = dtype if short and not narrow else None
        return a

    given = map_floats(lambda a: prepared(np.asanyarray(a)), arguments)
    keywords = {
        key: map_floats(lambda a: prepared(np.asarray(a)) if np.ndim(a) else a, value)
        for key, value in options.items()
    }
    try:
        out = formula(*given, **keywords)
    except REFUSALS as error:
        raise NotImplementedError from error
    return map_floats(lambda a: np.array(a, dtype if short else None), out)


# Which formulas a map has.


def along_diagonal(vjp: Any, x: Any, dx: Any, **options: Any) -> Any:
    """Return the tangent of a map whose Jacobian is symmetric."""
    return vjp(dx, x, **options)


def along_diagonals(vjp: Any, primals: Any, tangents: Any, **options: Any) -> Any:
    """Return the tangent of a map of single elements of several arrays."""
    every = np.broadcast_arrays(*primals, subok=True)
    slopes = vjp(np.ones_like(every[0]), *every, **options)
    pairs = zip(slopes, tangents, strict=True)
    return sum(slope * tangent for slope, tangent in pairs if tangent is not None)


#: Tangents from gradients, by family of maps.
ALONG: dict[str, Callable[..., Any]] = {"elements": along_diagonal, "pairs": along_diagonals}


def _with_replacements(others: Mapping[Any, Any], formula: Any) -> Any:
    return rewritten(formula, others) if {*others} & {*parts(formula)} else formula


def _draws(f: Any) -> bool:
    """Return whether a function draws random numbers: it would change the state of a generator."""
    return "rng" in inspect.signature(f).parameters


def _as_written(chapter: str, spec: MapSpec) -> dict[str, Any]:
    """Return the formulas of a map by form, as dlref.formulas has them."""
    if chapter not in CHAPTERS:
        return {}
    module = importlib.import_module(f"{formulas.__name__}.{chapter}")
    every = {form: getattr(module, spec.name + suffix, None) for form, suffix in FORMS.items()}
    return {form: f for form, f in every.items() if f}


def formulas_of(chapter: str, spec: MapSpec) -> dict[str, Any]:
    """Return the formulas of a map by form."""
    from .usual import INSTEAD  # noqa: PLC0415  # it imports most chapters of formulas

    own = _as_written(chapter, spec)
    plain = {form: _with_replacements(INSTEAD, f) for form, f in own.items() if not _draws(f)}
    if "vjp" in plain and spec.family in ALONG:
        plain["jvp"] = functools.partial(ALONG[spec.family], plain["vjp"])
    return plain


def completed(chapter: str, spec: MapSpec, own: Explanation) -> Explanation:
    """Return an explanation with the formulas of a map, those that it has itself before others."""
    from .usual import BY_LOGSUMEXP  # noqa: PLC0415

    plain = {**formulas_of(chapter, spec), **own.plain}
    variants = {form: own.variants.get(form, ()) for form in plain}
    for form, formula in plain.items():
        if (other := _with_replacements(BY_LOGSUMEXP, formula)) is not formula:
            variants[form] += (other,)
    variants = {form: fs for form, fs in variants.items() if fs}
    each = own.each_rounded or spec.family in ALONG
    return replace(own, plain=plain, variants=variants, each_rounded=each)


def spellings(call: Any) -> tuple[Any, ...]:
    """Return the formula of a call as dlref.formulas has it, and as textbooks write it."""
    from .usual import TEXTBOOK  # noqa: PLC0415

    own = _as_written(call.core.__module__.split(".")[1], call.spec).get(call.form)
    return (own, _with_replacements(TEXTBOOK, own)) if own else ()


def other_formulas(call: Any) -> dict[str, Any]:
    """Return the formulas of the other maps of a chapter in the form of a call, by their names."""
    module = str(getattr(call.core, "__module__", ""))
    if not module.startswith("dlref.") or call.form not in FORMS:
        return {}
    chapter = module.split(".")[1]
    own = {spec.name: _as_written(chapter, spec).get(call.form) for spec in records(chapter)}
    return {name: f for name, f in own.items() if f and name != call.spec.name and not _draws(f)}


def formulas_that_draw(call: Any) -> tuple[Any, ...]:
    """Return the formula of a map that draws random numbers."""
    module = str(getattr(call.core, "__module__", ""))
    own = spellings(call)[:1] if module.startswith("dlref.") else ()
    return tuple(filter(_draws, own))


def every_formula(explanation: Explanation, form: str) -> tuple[Any, ...]:
    """Return the plain formula of a form, if there is one, and its variants."""
    plain = explanation.plain.get(form)
    return (*([plain] if plain else []), *explanation.variants.get(form, ()))


def kernels_of(explanation: Explanation, form: str, dtype: np.dtype[Any]) -> list[Any]:
    """
    Return the formulas of a form as kernels compute them.

    With 16 bits, a kernel widens its inputs, and rounds its outputs and the values that it saves.
    Some kernels round the result of each operation, too.
    """
    if explanation.jumps:
        return []
    every = every_formula(explanation, form)
    ways = (False, True) if dtype.itemsize == 2 and explanation.each_rounded else (False,)
    return [functools.partial(computed, f, narrow=narrow) for narrow in ways for f in every]
