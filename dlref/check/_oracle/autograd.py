"""The candidate's own gradient, by PyTorch or JAX, and its layout of heads."""

from __future__ import annotations

import functools
import importlib
from typing import TYPE_CHECKING, Any

import numpy as np

from ..._core.foreign import kind_of
from ..._core.pytree import flat
from .arrays import map_leaves

if TYPE_CHECKING:
    from collections.abc import Callable

#: The axes of heads in dlref.
AXES = "BHTE"


def _by_torch(f: Callable[..., Any], dout: Any, inputs: Any, options: dict[str, Any]) -> Any:
    torch = importlib.import_module("torch")

    def leaf(value: Any) -> Any:
        is_leaf = torch.is_tensor(value) and value.is_floating_point()
        return value.detach().requires_grad_() if is_leaf else value

    given = map_leaves(leaf, inputs)
    leaves = [a for a in flat(given) if torch.is_tensor(a) and a.requires_grad]
    pairs = zip(flat(f(*given, **options)), flat(dout), strict=True)
    outs, weights = zip(*((out, u) for out, u in pairs if u is not None), strict=True)
    return torch.autograd.grad(outs, leaves, weights, allow_unused=True)


def _by_jax(f: Callable[..., Any], dout: Any, inputs: Any, options: dict[str, Any]) -> Any:
    jax = importlib.import_module("jax")
    values = flat(inputs)
    places = [i for i, a in enumerate(values) if kind_of(a) == "jax" and a.dtype.kind not in "biu"]

    def of_leaves(*leaves: Any) -> Any:
        rest = iter(
            [dict(zip(places, leaves, strict=True)).get(i, a) for i, a in enumerate(values)]
        )
        return f(*map_leaves(lambda _: next(rest), inputs), **options)

    out, backward = jax.vjp(of_leaves, *(values[i] for i in places))
    return backward(map_leaves(lambda u: u, dout) if isinstance(out, tuple) else dout)


def own_vjp(f: Callable[..., Any], framework: str | None) -> Callable[..., Any]:
    """Return the vjp of a function of tensors, as its framework differentiates it."""
    by = {"torch": _by_torch, "jax": _by_jax}.get(framework or "")
    if by is None:
        msg = "Argument 'framework' must be 'torch' or 'jax' where 'vjp' is 'autograd'."
        raise ValueError(msg)

    def vjp(dout: Any, *inputs: Any, **options: Any) -> Any:
        grads = by(f, dout, inputs, options)
        return grads[0] if len(grads) == 1 else tuple(grads)

    return vjp


def _moved(value: Any, order: list[int]) -> Any:
    if kind_of(value) == "torch":
        return value.permute(order).contiguous()
    out = value.transpose(order)
    return np.ascontiguousarray(out) if isinstance(out, np.ndarray) else out


def in_layout(f: Callable[..., Any], layout: str) -> Callable[..., Any]:
    """Return a function of heads in dlref's layout, of one whose axes are in another order."""
    if sorted(layout) != sorted(AXES):
        msg = f"Argument 'layout' must have the letters B, H, T and E, not {layout!r}."
        raise ValueError(msg)

    def called(*arguments: Any, **options: Any) -> Any:
        ndim = max(getattr(a, "ndim", 0) for a in flat(arguments))
        axes = AXES[-ndim:]
        order = [axes.index(letter) for letter in layout if letter in axes]
        back = [order.index(axis) for axis in range(len(order))]

        def moved(way: list[int], a: Any) -> Any:
            return _moved(a, way) if getattr(a, "ndim", 0) == ndim == len(order) else a

        there, returned = (functools.partial(moved, way) for way in (order, back))
        return map_leaves(returned, f(*map_leaves(there, arguments), **options))

    return called
