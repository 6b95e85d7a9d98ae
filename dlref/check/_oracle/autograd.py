"""The candidate's own gradient, by PyTorch or JAX, and its layout of heads."""

from __future__ import annotations

import contextlib
import functools
import importlib
import inspect
from typing import TYPE_CHECKING, Any

import numpy as np

from ..._core.foreign import kind_of
from ..._core.pytree import tree_leaves
from .arrays import map_leaves

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

#: The axes of heads in dlref.
AXES = "BHTE"


def _arranged(values: Iterable[Any], is_leaf: Callable[[Any], bool], grads: Iterable[Any]) -> Any:
    """Return the gradients in the order and the trees of the values, None for all else in these."""
    rest = iter(grads)
    given = [value for value in values if any(map(is_leaf, tree_leaves(value)))]
    return map_leaves(lambda a: next(rest) if is_leaf(a) else None, given)


def _by_torch(f: Callable[..., Any], dout: Any, inputs: Any, options: dict[str, Any]) -> Any:
    torch = importlib.import_module("torch")

    def is_leaf(value: Any) -> bool:
        return bool(torch.is_tensor(value) and value.is_floating_point())

    given = map_leaves(lambda a: a.detach().requires_grad_() if is_leaf(a) else a, inputs)
    leaves = [a for a in tree_leaves(given) if is_leaf(a)]
    pairs = zip(tree_leaves(f(*given, **options)), tree_leaves(dout), strict=True)
    outs, weights = zip(*((out, u) for out, u in pairs if u is not None), strict=True)
    return _arranged(given, is_leaf, torch.autograd.grad(outs, leaves, weights, allow_unused=True))


def _by_jax(f: Callable[..., Any], dout: Any, inputs: Any, options: dict[str, Any]) -> Any:
    jax = importlib.import_module("jax")

    def is_leaf(value: Any) -> bool:
        return kind_of(value) == "jax" and value.dtype.kind not in "biu"

    values = tree_leaves(inputs)
    places = [i for i, a in enumerate(values) if is_leaf(a)]

    def of_leaves(*leaves: Any) -> Any:
        rest = iter(
            [dict(zip(places, leaves, strict=True)).get(i, a) for i, a in enumerate(values)]
        )
        return f(*map_leaves(lambda _: next(rest), inputs), **options)

    out, backward = jax.vjp(of_leaves, *(values[i] for i in places))
    grads = backward(map_leaves(lambda u: u, dout) if isinstance(out, tuple) else dout)
    return _arranged(inputs, is_leaf, grads)


def own_vjp(
    f: Callable[..., Any],
    framework: str | None,
    learned: tuple[str, ...] = (),
    constant: tuple[int, ...] = (),
) -> Callable[..., Any]:
    """
    Return the vjp of a function of tensors, as its framework differentiates it.

    The gradients of the options in `learned` follow after the ones of the inputs. The inputs in
    the places `constant` are not differentiated: masks, tables and frozen weights.
    """
    by = {"torch": _by_torch, "jax": _by_jax}.get(framework or "")
    if by is None:
        msg = "Argument 'framework' must be 'torch' or 'jax' where 'vjp' is 'autograd'."
        raise ValueError(msg)

    def vjp(dout: Any, *inputs: Any, **options: Any) -> Any:
        names = [name for name in learned if name in options]
        rest = {key: value for key, value in options.items() if key not in names}
        varied = [i for i in range(len(inputs)) if i not in constant]

        def of_all(*values: Any, **fixed: Any) -> Any:
            own = {**dict(enumerate(inputs)), **dict(zip(varied, values, strict=False))}
            learned_values = dict(zip(names, values[len(varied) :], strict=True))
            return f(*own.values(), **learned_values, **fixed)

        every = *(inputs[i] for i in varied), *(options[name] for name in names)
        grads = by(of_all, dout, every, rest)
        return grads[0] if len(grads) == 1 else tuple(grads)

    with contextlib.suppress(TypeError, ValueError):  # some callables have no signature
        first = inspect.Parameter("dout", inspect.Parameter.POSITIONAL_ONLY)
        known = inspect.signature(f).parameters.values()
        vars(vjp)["__signature__"] = inspect.Signature([first, *known])
    return vjp


def _transposed(value: Any, order: list[int]) -> Any:
    if kind_of(value) == "torch":
        return value.permute(order).contiguous()
    out = value.transpose(order)
    return np.ascontiguousarray(out) if isinstance(out, np.ndarray) else out


def in_layout(f: Callable[..., Any], layout: str) -> Callable[..., Any]:
    """Return a function of heads in dlref's layout, of one whose axes are in another order."""
    if not isinstance(layout, str) or sorted(layout) != sorted(AXES):
        msg = f"Argument 'layout' must have the letters B, H, T and E, not {layout!r}."
        raise ValueError(msg)

    def called(*arguments: Any, **options: Any) -> Any:
        ndim = max(getattr(a, "ndim", 0) for a in tree_leaves(arguments))
        axes = AXES[-ndim:]
        order = [axes.index(letter) for letter in layout if letter in axes]
        back = [order.index(axis) for axis in range(len(order))]

        def moved(way: list[int], a: Any) -> Any:
            return _transposed(a, way) if getattr(a, "ndim", 0) == ndim == len(order) else a

        there, returned = (functools.partial(moved, way) for way in (order, back))
        return map_leaves(returned, f(*map_leaves(there, arguments), **options))

    return called
