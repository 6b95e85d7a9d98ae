"""An online softmax, over blocks, that does not rescale earlier blocks to a larger maximum."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import numpy as np

from ....formulas import activations, attention

if TYPE_CHECKING:
    from collections.abc import Iterator


def not_rescaled(block: int) -> Iterator[tuple[str, dict[Any, Any]]]:
    """Yield which quantity is not rescaled, and the functions in place of formulas."""
    for what, f in NOT_RESCALED.items():
        others = {whole: functools.partial(f, end, block) for whole, end in BY_SUMS.items()}
        others[attention.weights_and_lse] = functools.partial(_of_scores, f, block)
        yield what, others


def _of_scores(f: Any, block: int, scores: Any, sink: Any = None) -> Any:
    """Return the weights of attention and their logsumexp; no kernel of blocks has a sink here."""
    if sink is not None:
        raise NotImplementedError
    return f(_weights_and_lse, block, scores)


def _weights_and_lse(e: Any, z: Any, m: Any, axis: int) -> Any:
    lse = np.where(z == 0, -np.inf, m + np.log(z))
    return e / np.where(z == 0, 1, z), np.squeeze(lse, axis)


def _blocks(x: Any, axis: int, block: int) -> tuple[Any, Any, Any]:
    """Return exponentials less the maximum so far, the factor of each, and the last maximum."""
    n = x.shape[axis]
    ends = np.minimum(np.arange(n) // block * block + block, n) - 1
    so_far = np.maximum.accumulate(x, axis).take(ends, axis)
    so_far = np.where(np.isfinite(so_far), so_far, 0)
    last = so_far.take([-1], axis)
    return np.exp(x - so_far), np.exp(so_far - last), last


def _sum_not_rescaled(result: Any, block: int, x: Any, axis: int = -1) -> Any:
    e, scale, last = _blocks(x, axis, block)
    return result(e * scale, e.sum(axis, keepdims=True), last, axis)


def _terms_not_rescaled(result: Any, block: int, x: Any, axis: int = -1) -> Any:
    e, scale, last = _blocks(x, axis, block)
    return result(e, (e * scale).sum(axis, keepdims=True), last, axis)


def _neither_rescaled(result: Any, block: int, x: Any, axis: int = -1) -> Any:
    e, _, last = _blocks(x, axis, block)
    return result(e, e.sum(axis, keepdims=True), last, axis)


#: Messages, and for each a softmax over blocks that does not rescale these quantities.
NOT_RESCALED = {
    "the sum so far is not rescaled": _sum_not_rescaled,
    "the average so far is not rescaled": _terms_not_rescaled,
    "neither the sum nor the average so far is rescaled": _neither_rescaled,
}
#: Functions of exponentials, their sum and the maximum, along an axis.
BY_SUMS: dict[Any, Any] = {
    activations.softmax: lambda e, z, m, axis: e / z,
    activations.log_softmax: lambda e, z, m, axis: np.log(e / z),
    activations.logsumexp: lambda e, z, m, axis: np.squeeze(m + np.log(z), axis),
}
