"""Recurrent layers: the order and the meaning of their gates."""

from __future__ import annotations

import functools
import itertools
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ...._core.pytree import is_float, tree_leaves
from ..calls import ReferenceCall
from .common import Trials, named, replaced

if TYPE_CHECKING:
    from collections.abc import Callable


#: After how many steps gradients are cut.
TRUNCATED = (1, 2, 4, 8, 16, 32)
GATES = ("w_ih", "w_hh", "b_ih", "b_hh")


def gate_order(call: ReferenceCall, order: str) -> Trials:
    """Yield recurrent layers whose gates are in another order than this."""
    for other in itertools.permutations(range(len(order))):
        if other == tuple(range(len(order))):
            continue
        back = np.argsort(other)
        message = f"the gates are in the order {''.join(order[i] for i in back)}, not {order}"
        moved: Any = _with_gates(call, functools.partial(_regated, order=other))
        if call.form == "vjp":
            names = (n for n, a in zip(call.names, call.inputs, strict=True) if is_float(a))
            pairs = zip(names, tree_leaves(moved.run()), strict=True)
            moved = [_regated(g, back) if name in GATES else g for name, g in pairs]
        yield message, moved


def _with_gates(call: ReferenceCall, f: Callable[[Any], Any]) -> ReferenceCall:
    """Return a call with f of the weights and biases of the gates in their places."""
    pairs = zip(call.names, call.inputs, strict=True)
    return named(call, **{n: f(a) for n, a in pairs if n in GATES and a is not None})


def _regated(a: Any, order: Any) -> Any:
    parts = np.split(np.asarray(a), len(order))
    return np.concatenate([parts[i] for i in order])


def forget_bias(call: ReferenceCall) -> Trials:
    """Yield an LSTM with 1 added to the forget gate, as Keras initializes it."""
    names = call.names
    i = names.index("b_ih") if "b_ih" in names else None  # it may be left out
    if i is not None and call.inputs[i] is not None:
        bias = call.inputs[i] + np.repeat([0.0, 1, 0, 0], call.inputs[i].size // 4)
        yield "1 is added to the forget gate", replaced(call, i, bias)


def _is_plain(settings: dict[str, Any]) -> bool:
    """Return whether all steps of a sequence are one document, and are taken from first to last."""
    in_pieces = settings.get("lengths") is not None or settings.get("segment_ids") is not None
    return not (in_pieces or settings.get("reverse"))


def state_held(call: ReferenceCall) -> Trials:
    lengths = call.settings["lengths"]
    if call.form != "forward" or lengths is None or call.settings["reverse"]:
        return
    ends = np.asarray(lengths)[..., None, None]
    held = []
    for out in tree_leaves(call.run()):
        last = np.take_along_axis(out, np.maximum(ends - 1, 0), -2)
        held.append(np.where(np.arange(out.shape[-2])[:, None] >= ends, last, out))
    yield "the last state is held beyond the end of an entry, where 0 is due", held


def truncated(call: ReferenceCall) -> Trials:
    """Yield gradients that go back some steps only, or end where the state is detached."""
    settings, count = call.settings, 1 + (call.spec.name == "lstm")
    x, *others = call.inputs
    states, weights = others[:count], others[count:]
    whole = _is_plain(settings)
    if call.form != "vjp" or not whole or any(a is None for a in states):
        return
    steps = x.shape[-2]
    outs = tree_leaves(ReferenceCall(call.op, "forward", call.inputs, call.options).run())
    douts = tree_leaves(call.arguments[0])
    for k in (k for k in TRUNCATED if k < steps):
        message = f"the gradient goes back {k} step{'s' * (k > 1)} only: it is truncated"
        yield message, call.with_options(truncate=k)
        parts = []
        for start in range(0, steps, k):
            piece = slice(start, start + k)
            given = [out[..., start - 1, :] for out in outs] if start else states
            dout = tuple(u[..., piece, :] for u in douts)
            arguments = dout if count > 1 else dout[0], x[..., piece, :], *given, *weights
            parts.append(tree_leaves(replace(call, arguments=arguments).run()))
        dx, *rest = zip(*parts, strict=True)
        sums = [sum(part) for part in rest[count:]]
        message = f"the gradient ends every {k} step{'s' * (k > 1)}, where the state is detached"
        yield message, [np.concatenate(dx, -2), *(part[0] for part in rest[:count]), *sums]


def reset_gate(call: ReferenceCall) -> Trials:
    """Yield a GRU whose bias of the state is outside of its reset gate."""
    biases = dict(zip(call.names, call.inputs, strict=True))
    b_ih, b_hh = biases.get("b_ih"), biases.get("b_hh")
    if call.form != "forward" or b_ih is None or b_hh is None or not call.settings["reset_after"]:
        return
    n = 2 * len(b_ih) // 3
    moved = np.concatenate([b_ih[:n], b_ih[n:] + b_hh[n:]])
    kept = np.concatenate([b_hh[:n], np.zeros_like(b_hh[n:])])
    message = "the bias of the new state, b_hn, is not multiplied by the reset gate"
    yield message, named(call, b_ih=moved, b_hh=kept)
