"""Derivatives of another order, at another place, or without a term."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..calls import Call, form

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .common import Trial


def wrong_derivative(call: Call) -> Iterator[Trial]:
    """Yield the second derivative for the first, and the derivative at the output."""
    if call.form != "vjp" or len(call.inputs) != 1:
        return
    for suffix, words in (("deriv2", "it is the second derivative, where the first is due"),):
        try:
            f, numeric = form(call.op, suffix)
        except TypeError:
            continue
        if not numeric:
            yield words, [call.arguments[0] * np.asarray(f(call.inputs[0], **call.options))]
    y = Call(call.op, "forward", call.inputs, call.options).run()
    if np.shape(y) == np.shape(call.inputs[0]):
        yield "the derivative is taken at the output, where the input is due", call.with_inputs(y)
        yield "dout is multiplied by the output itself", [call.arguments[0] * y]
    yield "dout is ignored", _with_dout(call, np.ones_like(call.arguments[0]))


def _with_dout(call: Call, dout: Any) -> Call:
    return Call(call.op, call.form, (dout, *call.inputs), call.options)


def without_a_term(call: Call) -> Iterator[Trial]:
    """Yield the gradients of softmax and cross-entropy without their second term."""
    if call.form != "vjp":
        return
    if call.name in ("softmax", "log_softmax"):
        axis, dout = call.settings["axis"], call.arguments[0]
        p = np.exp(x := call.inputs[0] - np.max(call.inputs[0], axis, keepdims=True))
        p = p / p.sum(axis, keepdims=True)
        if call.name == "softmax":
            yield "the sum over the row is missing: it is p dout", [p * dout]
            yield "only the diagonal of the Jacobian is there", [p * (1 - p) * dout]
            rest = dout.sum(axis, keepdims=True)
            yield "the sum over the row lacks the probabilities", [p * (dout - rest)]
        else:
            yield "p is not multiplied by the sum of dout", [dout - p]
            yield "the sum over the row is missing: it is dout alone", [dout + 0 * x]
    if call.name == "cross_entropy" and np.ndim(call.arguments[0]) == 0:
        x = call.inputs[0]
        p = np.exp(x - x.max(-1, keepdims=True))
        p = p / p.sum(-1, keepdims=True)
        n = call.inputs[1].size if call.settings["reduction"] == "mean" else 1
        yield "the target is not subtracted: it is p alone", [call.arguments[0] * p / n]
