"""Activations, softmax and their slopes."""

import numpy as np

from dlref import activations as act

from .kernels import Wrong, refuse, sigmoid, softmax


def sigmoid_backward(dout, x, slip=""):
    """dx = dout s (1 - s)."""
    s = sigmoid(x)
    slopes = {"difference": s - sigmoid(-x), "one minus": sigmoid(-x)}
    return dout * slopes.get(slip, s * sigmoid(-x))


def silu_backward(dout, x, slip=""):
    """The slope by the quotient rule, with the exponential of a number that is not positive."""
    e = np.exp(-np.abs(x))
    if slip == "no parentheses":
        with np.errstate(over="ignore", invalid="ignore"):
            grown = np.exp(-x)
            return dout * (1 + grown + x * grown / (1 + grown) ** 2)
    s = sigmoid(x)
    return dout * (s + x * e / (1 + e) ** 2)


def softplus(x, beta=1.0, slip=""):
    """max(x, 0) + log(1 + exp(-|beta x|)) / beta."""
    u = x.dtype.type(beta) * x
    rest = np.log1p(np.exp(-np.abs(u)))
    if slip == "log of sigmoid":
        rest = -np.log(sigmoid(np.abs(u)))
    return (np.maximum(u, 0) + rest) / x.dtype.type(beta)


def softplus_backward(dout, x, beta=1.0, slip=""):
    """dx = dout sigmoid(beta x)."""
    u = x.dtype.type(beta) * x
    if slip == "overflow":
        with np.errstate(over="ignore", invalid="ignore"):
            e = np.exp(u)
            return dout * np.nan_to_num(e * (1 / (e + 1)), nan=0.0)
    return dout * sigmoid(u)


def gelu(x, approximate="none", slip=""):
    """The exact form by erfc, or the tanh form."""
    if approximate == "tanh" or slip == "tanh form":
        inner = np.sqrt(2 / np.pi) * (x.astype(float) + 0.044715 * x.astype(float) ** 3)
        return (x * sigmoid(2 * inner)).astype(x.dtype)
    return act.gelu(x)


def hard_sigmoid(x, alpha=1 / 6, beta=0.5, slip=""):
    """A line between 0 and 1."""
    if slip == "rounded constant" and alpha == 1 / 6:
        alpha = 0.1667
    line = x.astype(float) * alpha + beta
    return np.clip(line, 0, 1).astype(x.dtype)


def squareplus_backward(dout, x, b=4.0, slip=""):
    """The slope (1 + x / sqrt(x^2 + b)) / 2, with a constant that is rounded to four digits."""
    half = 0.4999 if slip == "rounded constant" else 0.5
    a = x.astype(float)
    return (dout * half * (1 + a / np.hypot(a, np.sqrt(b)))).astype(x.dtype)


def glu(x, gate, slip=""):
    """The input times the sigmoid of its gate."""
    if slip == "halves swapped":
        x, gate = gate, x
    return x * sigmoid(gate)


def swiglu_backward(dout, x, gate, slip=""):
    """The gradients of the input and of the gate, of equal shapes."""
    if x.shape != gate.shape:
        refuse("operands of other shapes")
    s = sigmoid(gate)
    slope = s * (1 + gate * sigmoid(-gate))
    dx, dgate = dout * gate * s, dout * x * slope
    return (dgate, dx) if slip == "exchanged" else (dx, dgate)


def softmax_backward(dout, x, axis=-1, slip=""):
    """dx = p (dout - sum(p dout))."""
    p = softmax(x, axis)
    dx = p * (dout - (p * dout).sum(axis, keepdims=True))
    return {"copied": dout.copy(), "twice": 2 * dx}.get(slip, dx)


def log_softmax_backward(dout, x, axis=-1, slip=""):
    """dx = dout - p sum(dout)."""
    p = softmax(x, axis)
    if slip == "product with the output":
        y = act.log_softmax(x, axis=axis)
        return dout - (dout * y).sum(axis, keepdims=True)
    if slip == "added":
        return dout + p
    return dout - p * dout.sum(axis, keepdims=True)


SIGMOID, LOG_SOFTMAX = act.sigmoid, act.log_softmax
GIVEN = [
    Wrong("C", act.gelu, "forward", gelu, "tanh form",
        "The tanh form stands for the exact one.",
        (r"tanh", r"approx")),
    Wrong("D", act.hard_sigmoid, "forward", hard_sigmoid, "rounded constant",
        "The slope 1/6 is rounded to 0.1667.",
        (r"0\.1667", r"(alpha|slope|constant).*(round|digits|0\.16|1\.0002)")),
    Wrong("D", act.glu, "forward", glu, "halves swapped",
        "The sigmoid is taken of the input, not of the gate: the halves are swapped.",
        (r"swap|exchang", r"halves", r"sigmoid\(x\)", r"x stands where gate|gate stands where x",
         r"order of the (operands|inputs)")),
    Wrong("D", act.swiglu, "vjp", swiglu_backward, "exchanged",
        "The gradients of the two inputs are exchanged.",
        (r"equals? output|exchang|swap", r"output [01] .*output [01]", r"gradient of (the )?gate")),
]  # fmt: skip
FRESH = [
    Wrong("sausheong/gonn#8", SIGMOID, "vjp", sigmoid_backward, "difference",
        "The slope is s - (1 - s), not s (1 - s).",
        (r"-.*(stands|for).*\*", r"minus.*(times|product)", r"differ\w+.*product",
         r"sigmoid\(x\) - sigmoid\(-x\)|s - \(1 - s\)")),
    Wrong("schneider128k/machine_learning_course#1", SIGMOID, "vjp", sigmoid_backward, "one minus",
        "The slope is 1 - s: the factor s is missing.",
        (r"factor.*(missing|dropped|left out)", r"(1 - s|sigmoid\(-x\))", r"missing.*sigmoid",
         r"sigmoid.*(missing|dropped)")),
    Wrong("chelsea0x3b/dfdx#915", act.silu, "vjp", silu_backward, "no parentheses",
        "Parentheses are missing: the last term alone is divided by (1 + e^-x)^2.",
        (r"parenthes", r"divi\w+.*(last|one|only|alone|missing|term)", r"(1 \+|exp\(-).*stands")),
    Wrong("kvark/meganeura#164", act.softplus, "forward", softplus, "log of sigmoid",
        "log(1 + e) is -log(sigmoid), which is 0 where the sigmoid rounds to 1.",
        (r"round\w* to 1", r"log1p", r"cancel", r"log\(.*sigmoid", r"lost|absorbed")),
    Wrong("tenstorrent/tt-metal#56397", act.softplus, "vjp", softplus_backward, "overflow",
        "exp overflows, and the gradient is 0 there.",
        (r"overflow", r"exp\(.*inf")),
    Wrong("pjreddie/darknet#96", act.softmax, "vjp", softmax_backward, "copied",
        "dx is dout.",
        (r"\bdout\b.*(unchanged|copied)", r"identity", r"(copied|copy|passed|straight)",
         r"is dout|it is (the )?upstream|equals? dout|equals? the upstream",
         r"^dout stands where .+ is due$")),
    Wrong("markroxor/fromscratchtoml#65", act.softmax, "vjp", softmax_backward, "twice",
        "dx is twice what it should be.",
        (r"(times|factor|\*).*\b2\b", r"\b2\b.*(times|factor|\*)", r"twice")),
    Wrong("uxlfoundation/oneDNN#616", LOG_SOFTMAX, "vjp", log_softmax_backward,
        "product with the output",
        "dx = dout - sum(dout y) with the output y, in place of exp(y) sum(dout).",
        (r"dout \* (y|log_softmax)", r"(y|log_softmax\(x.*\)) \* dout", r"dot product.*output",
         r"(logarithm|log).*(in place of|stands|for).*(softmax|probab|exp)")),
    Wrong("mlpack/mlpack#2360", LOG_SOFTMAX, "vjp", log_softmax_backward, "added",
        "dx = dout + p, in place of dout - p sum(dout).",
        (r"\+.*(stands|for|where).*-", r"sign", r"sum\w*.*(missing|left out|dropped|1)")),
]  # fmt: skip
