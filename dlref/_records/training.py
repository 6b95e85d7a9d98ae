"""Optimizers, schedules and losses of stacked layers."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np

from .. import training as t
from .._core.pytree import map_floats
from . import _draw as draw
from ._spec import INSEPARABLE, RANDOM, SEPARABLE, Cases, MapSpec, call, each, option_case, without
from .neurons import dense_layers, mlp_calls, mlp_options, sequence

#: Options of optimizers.
STEPS: dict[str, Any] = {
    "adjust": "match_rms_adamw",
    "alpha": 0.5,
    "amsgrad": True,
    "betas": (0.5, 0.875),
    "centered": True,
    "coefficients": (1.5, -0.5, 0.0),
    "dampening": 0.5,
    "decoupled_weight_decay": True,
    "eps": 0.5,
    "initial_accumulator_value": 0.5,
    "lr_decay": 0.5,
    "momentum": 0.5,
    "momentum_decay": 2.0,
    "nesterov": False,
    "steps": 3,
    "weight_decay": 0.5,
}


def tree(rng: Any) -> Any:
    return rng.normal(size=(3, 4)), (rng.normal(size=3), rng.normal(size=()))


def matrices(rng: Any) -> Any:
    return rng.normal(size=(3, 4)), (rng.normal(size=(4, 2)), rng.normal(size=(1, 1)))


def optimizer(f: Any, drawn: Any = tree, **other: Any) -> MapSpec:
    """Return the record of an optimizer; some values of its options may be `other` ones."""
    given = inspect.signature(f).parameters
    values = {key: value for key, value in (STEPS | other).items() if key in given}

    def two_steps(rng: Any, drawn: Any = drawn) -> Cases:
        params, grads = drawn(rng), drawn(rng)
        yield "the first step", (params, grads, None), {"learning_rate": 0.1}
        _, state = f(params, grads, None, learning_rate=0.1)
        other = map_floats(lambda a: a / 8, drawn(rng))  # the same again says nothing of momentum
        yield "the second step", (params, other, state), {"learning_rate": 0.1}

    def second_steps(rng: Any, drawn: Any = drawn) -> Cases:
        """Yield a second step, with another and smaller gradient, for each option."""
        params, grads = drawn(rng), drawn(rng)
        smaller = map_floats(lambda a: a / 8, drawn(rng))
        for key, value in values.items():
            options = {"learning_rate": 0.1, key: value}
            if key == "dampening":
                options["momentum"] = 0.5
            if key == "decoupled_weight_decay":
                options["weight_decay"] = STEPS["weight_decay"]
            _, state = f(params, grads, None, **options)
            # the state holds the accumulator from then on
            state = None if key == "initial_accumulator_value" else state
            yield option_case(key), (params, smaller, state), options
        options = {**values, "learning_rate": 0.1}
        if len(values) > 1:  # the first step, whose state has all that they need, and the second
            yield f"{SEPARABLE} of a first step together", (params, grads, None), options
            _, state = f(params, grads, None, **options)
            yield f"{INSEPARABLE} of a second step together", (params, smaller, state), options

    def shaped(rng: Any, shapes: Any) -> Cases:
        """Yield steps of one array, or of a tuple of several."""

        def of_shapes(rng: Any) -> Any:
            parts = tuple(rng.normal(size=shape) for shape in shapes)
            return parts if len(parts) > 1 else parts[0]

        yield from two_steps(rng, of_shapes)
        yield from second_steps(rng, of_shapes)

    every: dict[str, Any] = {"hard": two_steps, "options": second_steps, "shaped": shaped}
    return MapSpec(f=f, **every)


def schedule(f: Any, options: Any = (), **kwargs: Any) -> MapSpec:
    def steps(_: Any) -> Cases:
        yield "steps", (np.arange(12),), {"peak": 1.0, **kwargs}

    return MapSpec(f=f, hard=steps, options=options)


def _floor(_: Any) -> Cases:
    yield option_case("floor"), (np.arange(12),), {"peak": 1.0, "steps": 9, "floor": 0.1}


def _decays(_: Any) -> Cases:
    given = {"peak": 1.0, "steps": 9, "decay": 4}
    yield from each(lambda: (np.arange(12),), {"floor": 0.1, "kind": "1-sqrt"}, **given)
    yield option_case("kind"), (np.arange(12),), {**given, "kind": "cosine"}


def _polynomials(rng: Any) -> Cases:
    x = rng.normal(size=(3, 5))
    yield from each(lambda: (x,), {"steps": 2, "coefficients": STEPS["coefficients"], "eps": 100.0})


def _targets(rng: Any) -> Any:
    return rng.integers(0, 3, (2, 5))


def _mlp_loss_options(rng: Any) -> Cases:
    yield from mlp_options(rng, _targets(rng))
    inputs = sequence(rng), rng.normal(size=(2, 5, 3)), dense_layers(rng)
    yield option_case("loss"), inputs, {"loss": "squared_error"}


def _with_direction(cases: Cases, rng: Any) -> Cases:
    for text, inputs, options in cases:
        yield text, (*inputs, dense_layers(rng)), options


def _hvp_options(rng: Any) -> Cases:
    yield from _with_direction(_mlp_loss_options(rng), rng)
    [inputs] = [inputs for _, inputs, _ in mlp_options(rng, _targets(rng))]
    yield option_case("gauss_newton"), (*inputs, dense_layers(rng)), {"gauss_newton": True}


RECORDS = [
    *(
        optimizer(f)
        for f in (
            t.sgd_step, t.momentum_step, t.nesterov_step, t.adagrad_step, t.rmsprop_step,
            t.adam_step, t.adamw_step, t.nadam_step, t.lion_step,
        )
    ),
    optimizer(t.muon_step, drawn=matrices),
    optimizer(t.adafactor_step, eps=(0.5, 4.0), d=0.125, beta2_decay=-0.25),
    MapSpec(
        f=t.newton_schulz, hard=[call((3, 7)), call((7, 3)), call((2, 4, 4)), call((1, 5))],
        options=_polynomials,
    ),
    MapSpec(
        f=t.diffusion_target, hard=[call((5, 7), (5, 7), (5, 1), (5, 1)), call((6,), (6,), (), ())],
        options=[
            call((5, 7), (5, 7), (5, 1), (5, 1), kind=kind) for kind in ("data", "velocity", "flow")
        ],
    ),
    MapSpec(
        f=t.min_snr_weight, hard=[call((5, 1), (7,))], draw=2 * (draw.positive,),
        options=[
            *(call((5, 1), (7,), kind=kind) for kind in ("data", "velocity", "flow")),
            call((5, 1), (7,), gamma=0.5),
        ],
    ),
    schedule(t.cosine_schedule, _floor, steps=9, warmup=2),
    schedule(t.wsd_schedule, _decays, steps=9, decay=4, warmup=2),
    schedule(t.inverse_sqrt_schedule, warmup=3), schedule(t.warmup_schedule, warmup=3),
    MapSpec(
        f=t.mlp_loss, hard=lambda rng: mlp_calls(rng, _targets(rng)), options=_mlp_loss_options,
        is_loss=True,
    ),
    MapSpec(
        f=t.mlp_loss_hvp, hard=lambda rng: _with_direction(mlp_calls(rng, _targets(rng)), rng),
        options=_hvp_options,
    ),
    MapSpec(
        f=t.fit_neuron, hard=[call((7, 3), (7,), (3,), (), learning_rate=0.1, epochs=3)],
        options=(), fixed=True,
    ),
    MapSpec(f=t.clip_by_norm, hard=[call((5, 7), 0.5), call((5, 7), 1e3)]),
    MapSpec(f=t.clip_by_value, hard=[call((5, 7), 0.5)]),
    MapSpec(f=t.tree_unravel, hard=[call((35,), (5, 7))]),
    MapSpec(f=t.tree_ravel, hard=lambda rng: iter([("a tree", (tree(rng),), {})])),
    *without(RANDOM, t.minibatch_descent, t.minibatches),
    *without("it takes a function", t.gradient_descent, t.tree_map),
]  # fmt: skip

#: Names elsewhere: see `dlref._core.names`.
NAMES = {
    "adafactor_step": ["torch.optim.Adafactor"],
    "adagrad_step": ["torch.optim.Adagrad"],
    "adam_step": ["torch.optim.Adam", "amsgrad"],
    "adamw_step": ["torch.optim.AdamW"],
    "clip_by_norm": ["torch.nn.utils.clip_grad_norm_", "clip_grad_norm"],
    "clip_by_value": ["torch.nn.utils.clip_grad_value_", "clip_grad_value"],
    "wsd_schedule": ["get_wsd_schedule", "get_linear_schedule_with_warmup", "linear_schedule"],
    "cosine_schedule": ["torch.optim.lr_scheduler.CosineAnnealingLR", "cosine_decay"],
    "min_snr_weight": ["min_snr_gamma", "snr_gamma", "compute_snr"],
    "muon_step": ["torch.optim.Muon", "muon_clip", "qk_clip"],
    "nadam_step": ["torch.optim.NAdam"],
    "rmsprop_step": ["torch.optim.RMSprop"],
    "sgd_step": ["torch.optim.SGD"],
    "tree_ravel": ["torch.nn.utils.parameters_to_vector", "jax.flatten_util.ravel_pytree"],
    "tree_unravel": ["torch.nn.utils.vector_to_parameters"],
    "tree_map": ["torch.utils._pytree.tree_map", "jax.tree_util.tree_map"],
    "lion_step": [
        "lion",
        "signsgd: it has no mean, betas=(0, 0)",
        "sign_sgd: it has no mean, betas=(0, 0)",
        "signum: it has equal betas",
    ],
}
