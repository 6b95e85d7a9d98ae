"""Gradients through depth, and initializations."""

from __future__ import annotations

from .. import propagation as p
from ._spec import NOT_ARRAYS, RANDOM, call, record, without

RECORDS = [
    record(
        p.gradient_magnitude,
        call((5,), 3), call((), 1), call((2, 3), 2, activation_slope=-0.5), call((0, 3), 2),
        constant=(1,), batched=False,
    ),
    *without(
        RANDOM, p.glorot_normal, p.he_normal, p.lecun_normal, p.glorot_uniform, p.he_uniform,
        p.orthogonal, p.signal_propagation,
    ),
    *without(NOT_ARRAYS, p.critical_gain),
]  # fmt: skip

#: Names elsewhere: see `dlref._core.names`.
NAMES = {
    "glorot_normal": [
        "torch.nn.init.xavier_normal_",
        "jax.nn.initializers.glorot_normal",
        "xavier_normal",
    ],
    "glorot_uniform": [
        "torch.nn.init.xavier_uniform_",
        "jax.nn.initializers.glorot_uniform",
        "xavier_uniform",
        "xavier",
    ],
    "he_normal": [
        "torch.nn.init.kaiming_normal_",
        "jax.nn.initializers.he_normal",
        "kaiming_normal",
    ],
    "he_uniform": [
        "torch.nn.init.kaiming_uniform_",
        "jax.nn.initializers.he_uniform",
        "kaiming_uniform",
        "kaiming",
    ],
    "lecun_normal": ["jax.nn.initializers.lecun_normal"],
    "orthogonal": ["torch.nn.init.orthogonal_", "jax.nn.initializers.orthogonal"],
}
