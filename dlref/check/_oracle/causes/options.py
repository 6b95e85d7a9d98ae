"""Options left out, or with other values and meanings."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..calls import ReferenceCall
from .common import Trials, chapter

FLIPPED = {
    ("interleaved", True): "the rotation pairs neighboring channels, not halves",
    ("interleaved", False): "the rotation pairs halves (half-split), not neighboring channels",
    ("reset_after", True): "the reset gate is applied after the product, not before",
    ("reset_after", False): "the reset gate is applied before the product, not after",
    ("reverse", True): "the sequence is read backwards",
    ("reverse", False): "the sequence is read forwards",
    ("nesterov", True): "the gradient is taken after the momentum, as Nesterov has it",
    ("nesterov", False): "the gradient is taken before the momentum, not as Nesterov has it",
    ("amsgrad", True): "the largest mean of the squares is kept, as AMSGrad has it",
    ("amsgrad", False): "the largest mean of the squares is not kept: it is no AMSGrad",
    ("bidirectional", True): "both directions have buckets of their own",
    ("bidirectional", False): "keys before and after a query share the buckets of one direction",
    ("squared", True): "the hinge is squared",
    ("squared", False): "the hinge is not squared",
    ("is_causal", True): "a causal mask is applied",
    ("is_causal", False): "the causal mask is missing",
}
OTHERS: dict[str, tuple[Any, ...]] = {
    "eps": (1e-5, 1e-6, 1e-3, 1e-8, 1e-12, 0.0),
    "approximate": ("none", "tanh"),
    "reduction": ("mean", "sum"),
    "weight_offset": (0.0, 1.0),
    "beta": (1.0, 1.702),
    "label_smoothing": (0.0,),
    "delta": (1.0,),
    "activation": ("relu", "gelu", "gelu_tanh", "silu", "tanh", "sigmoid", "identity"),
    "shift": (0.0, 1.0),
    "base": (1e4, 5e5, 1e6),
    "weight_decay": (0.0, 0.01),
    "betas": ((0.9, 0.999), (0.9, 0.99), (0.9, 0.95)),
    "momentum": (0.9, 0.0),
    "negative_slope": (0.01, 0.1, 0.2),
    "alpha": (1.0,),
    "layout": ("interleaved", "halves"),
    "spacing": ("paper", "tensor2tensor"),
    "rule": ("official", "paper"),
    "max_distance": (64, 128, 256),
    "num_buckets": (16, 32, 64),
}


def other_options(call: ReferenceCall) -> Trials:
    """Yield the call with options left out, or with another value."""
    settings, defaults = call.settings, call.defaults
    for key in call.non_default_options:
        if key in defaults:
            yield f"the option {key!r} is ignored", call.with_options(**{key: defaults[key]})
    for key in dict.fromkeys(key for key, _ in FLIPPED):
        if key in settings:
            message = FLIPPED[key, not settings[key]]
            yield message, call.with_options(**{key: not settings[key]})
    if settings.get("weight_offset"):
        message = "the offset of the weight is added twice"
        yield message, call.with_options(weight_offset=2 * settings["weight_offset"])
    if "bias" in call.non_default_options:
        yield "the bias is subtracted, not added", call.with_options(bias=-settings["bias"])
    for key, values in OTHERS.items():
        for value in values if key in settings else ():
            if value != settings[key]:
                yield f"{key} is {value}, not {settings[key]}", call.with_options(**{key: value})
    if isinstance(settings.get("axis"), int):
        first = call.inputs[0]
        ndim = np.ndim(first[0] if isinstance(first, tuple) else first)  # primals of a jvp
        for axis in range(ndim):
            if axis != settings["axis"] % ndim:
                yield f"it is along axis {axis}", call.with_options(axis=axis)


def other_names(call: ReferenceCall) -> Trials:
    """Yield the call with another name of an option, of those that its record has."""
    for key, value in call.settings.items():
        if isinstance(value, str) and key not in OTHERS:
            given = (sample.options.get(key) for sample in call.spec.calls)
            for name in dict.fromkeys(other for other in given if other not in (None, value)):
                yield f"{key} is {name}, not {value}", call.with_options(**{key: name})


def exchanged_betas(call: ReferenceCall) -> Trials:
    first, second = map(float, call.settings["betas"])
    message = f"betas is {(second, first)}, not {(first, second)}"
    yield message, call.with_options(betas=(second, first))


def momentum_kept(call: ReferenceCall) -> Trials:
    message = "momentum is the share of the running statistics that is kept, not replaced"
    yield message, call.with_options(momentum=1 - call.settings["momentum"])


def smoothed_over_others(call: ReferenceCall) -> Trials:
    share, n = call.settings["label_smoothing"], np.shape(call.inputs[0])[-1]
    if share and share * n <= n - 1:
        message = "label smoothing is spread over the other classes only"
        yield message, call.with_options(label_smoothing=share * n / (n - 1))


def linear_beyond_20(call: ReferenceCall) -> Trials:
    if call.form != "jvp":
        message = "it is x itself beyond 20, as the threshold of PyTorch has it"
        yield message, [np.where(call.inputs[0] > 20, call.arguments[0], call.run())]


def other_direction(call: ReferenceCall) -> Trials:
    """Yield the divergence of the second distribution from the first."""
    log_p, q = call.inputs
    yield "the two distributions are exchanged", call.with_inputs(np.log(q), np.exp(log_p))


def gated_by_tanh(call: ReferenceCall) -> Trials:
    """Yield GEGLU whose gate has the approximate GELU."""
    a, message = chapter("activations"), "the GELU of the gate is the approximate one, by tanh"
    if call.form == "forward":
        x, gate = call.inputs
        yield message, [x * a.gelu(gate, approximate="tanh")]


def by_a_sigmoid(call: ReferenceCall) -> Trials:
    """Yield GELU as CLIP has it."""
    silu = chapter("activations").silu
    message = "it is x sigmoid(1.702 x), an approximation of GELU"
    yield message, ReferenceCall(silu, call.form, call.arguments, {"beta": 1.702})
