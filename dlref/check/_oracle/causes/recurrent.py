"""Recurrent layers: the order and the meaning of their gates."""

from __future__ import annotations

import functools
import itertools
from typing import TYPE_CHECKING, Any

import numpy as np

from ...._core.pytree import flat
from ..calls import is_float
from .common import replaced

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ..calls import Call
    from .common import Trial


def gate_order(order: str) -> Callable[[Call], Iterator[Trial]]:
    """Return a generator of recurrent layers whose gates are in another order than this."""
    return functools.partial(_gate_order, order)


def _gate_order(order: str, call: Call) -> Iterator[Trial]:
    blocks = [i for i, name in enumerate(call.names) if name in ("w_ih", "w_hh", "b_ih", "b_hh")]
    for other in itertools.permutations(range(len(order))):
        if other == tuple(range(len(order))):
            continue
        words = "".join(order[i] for i in np.argsort(other))
        moved, back = call, np.argsort(other)
        for i in blocks:
            if call.inputs[i] is not None:
                moved = replaced(moved, i, _regated(call.inputs[i], other))
        if call.form != "vjp":
            yield f"the gates are in the order {words}, not {order}", moved
        else:
            out = flat(moved.run())
            floats = [i for i, a in enumerate(call.inputs) if is_float(a)]
            out = [
                _regated(g, tuple(back)) if floats[k] in blocks else g for k, g in enumerate(out)
            ]
            yield f"the gates are in the order {words}, not {order}", out


def _regated(a: Any, order: tuple[int, ...]) -> Any:
    parts = np.split(np.asarray(a), len(order))
    return np.concatenate([parts[i] for i in order])


def forget_bias(call: Call) -> Iterator[Trial]:
    """Yield an LSTM with 1 added to the forget gate, as Keras initializes it."""
    names = call.names
    i = names.index("b_ih") if "b_ih" in names else None  # it may be left out
    if i is not None and call.inputs[i] is not None:
        bias = call.inputs[i] + np.repeat([0.0, 1, 0, 0], call.inputs[i].size // 4)
        yield "1 is added to the forget gate", replaced(call, i, bias)


def without_tanh(call: Call) -> Iterator[Trial]:
    """Yield a step of an LSTM without one of its two tanhs."""
    if call.form != "forward" or call.settings["w_p"] is not None:
        return
    x, h, c, w_ih, w_hh, *biases = call.inputs
    if h is None or c is None:
        return
    sums = x @ w_ih.T + h @ w_hh.T + sum(b for b in biases if b is not None)
    i, f, g, o = np.split(sums, 4, -1)
    i, f, o = (1 / (1 + np.exp(-a)) for a in (i, f, o))
    state = f * c + i * np.tanh(g)
    yield "the output lacks the tanh of the cell's state", [o * state, state]
    state = f * c + i * g
    yield "the candidate g of the cell lacks its tanh", [o * np.tanh(state), state]


def update_gate(call: Call) -> Iterator[Trial]:
    """Yield a GRU whose update gate keeps where it should replace: z becomes 1 - z."""
    if call.form == "forward":
        moved = call
        for i, name in enumerate(call.names):
            if name in ("w_ih", "w_hh", "b_ih", "b_hh") and call.inputs[i] is not None:
                r, z, n = np.split(call.inputs[i], 3)
                moved = replaced(moved, i, np.concatenate([r, -z, n]))
        yield "the update gate is exchanged with one minus itself", moved
