"""Derivatives of another order, at another place, or without a term."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np

from ...._core.pytree import tree_leaves
from ..bounds import size_of
from ..calls import ReferenceCall, form
from .common import Trials, probabilities, with_dout


def wrong_derivative(call: ReferenceCall) -> Trials:
    """Yield the second derivative for the first, and the derivative at the output."""
    if call.form != "vjp" or len(call.inputs) != 1:
        return
    numeric = True
    with contextlib.suppress(TypeError):  # there is none
        f, numeric = form(call.op, "deriv2")
    if not numeric:
        message = "it is the second derivative, where the first is due"
        yield message, [call.arguments[0] * np.asarray(f(call.inputs[0], **call.options))]
    y = ReferenceCall(call.op, "forward", call.inputs, call.options).run()
    if np.shape(y) == np.shape(call.inputs[0]):
        yield "the derivative is taken at the output, where the input is due", call.with_inputs(y)
        yield "dout is multiplied by the output itself", [call.arguments[0] * y]


def other_douts(call: ReferenceCall) -> Trials:
    """Yield vjps in which dout counts as 1, is one number in all places, or is the output."""
    if call.form == "vjp" and not isinstance(call.arguments[0], tuple):
        dout = np.asarray(call.arguments[0])
        least = 1e-9 * max(map(size_of, tree_leaves(call.run())), default=0.0)
        others = [("dout is ignored", np.ones_like(dout))]
        if dout.size > 1:
            first = np.full_like(dout, dout.flat[0])
            others.append(("the first number of dout stands for all", first))
        alike = (np.asarray(y) for y in _outputs(call) if np.shape(y) == dout.shape)
        others += (("the output stands where dout is due", y) for y in alike)
        for message, other in others:
            grads = tree_leaves(with_dout(call, other).run())
            if max(map(size_of, grads), default=0.0) > least:  # else zeros would be that, too
                yield message, grads


def _outputs(call: ReferenceCall) -> list[Any]:
    """Return the outputs of the map for the inputs of a vjp, if it takes the same options."""
    with contextlib.suppress(TypeError, ValueError):
        return tree_leaves(ReferenceCall(call.op, "forward", call.inputs, call.options).run())
    return []


def without_row_sum(call: ReferenceCall) -> Trials:
    """Yield the gradient of softmax without its second term."""
    if call.form == "vjp":
        p = probabilities(call.inputs[0], call.settings["axis"])
        yield "the sum over the row is missing: it is p dout", [p * call.arguments[0]]


def without_target(call: ReferenceCall) -> Trials:
    if call.form == "vjp" and np.ndim(call.arguments[0]) == 0:
        n = call.inputs[1].size if call.settings["reduction"] == "mean" else 1
        p = probabilities(call.inputs[0])
        yield "the target is not subtracted: it is p alone", [call.arguments[0] * p / n]
