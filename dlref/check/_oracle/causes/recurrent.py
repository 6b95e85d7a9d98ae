"""Recurrent layers: the order and the meaning of their gates."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np

from ...._core.pytree import flat
from ..calls import is_float
from .common import replaced

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..calls import Call
    from .common import Trial

GATES = {"lstm": "ifgo", "lstm_cell": "ifgo", "gru": "rzn", "gru_cell": "rzn"}


def gate_order(call: Call) -> Iterator[Trial]:
    """Yield the call with the gates of a recurrent layer in another order."""
    order = GATES.get(call.name, "")
    blocks = [i for i, name in enumerate(call.names) if name in ("w_ih", "w_hh", "b_ih", "b_hh")]
    for other in itertools.permutations(range(len(order))) if order else ():
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
    if call.name in ("lstm", "lstm_cell") and "b_ih" in call.names:
        i = call.names.index("b_ih")
        n = call.inputs[i].size // 4
        yield (
            "1 is added to the forget gate",
            replaced(call, i, call.inputs[i] + np.repeat([0.0, 1, 0, 0], n)),
        )


def update_gate(call: Call) -> Iterator[Trial]:
    """Yield a GRU whose update gate keeps what it should replace: z becomes 1 - z."""
    if call.name in ("gru", "gru_cell") and call.form == "forward":
        moved = call
        for i, name in enumerate(call.names):
            if name in ("w_ih", "w_hh", "b_ih", "b_hh") and call.inputs[i] is not None:
                r, z, n = np.split(call.inputs[i], 3)
                moved = replaced(moved, i, np.concatenate([r, -z, n]))
        yield "the update gate is exchanged with one minus itself", moved
