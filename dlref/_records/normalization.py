"""Normalizations."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import normalization as n
from . import _draw as draw
from ._spec import Cases, MapSpec, Sample, call, pairwise, record
from .neurons import MANY_ROWS, with_gaps


def _cases_of_norms(known: MapSpec, rng: Any, size: Any) -> Cases:
    x, *rest = known.inputs(rng, known.hard_samples[0].shapes)
    yield "a small variance", (x * 1e-2, *rest), {}
    yield "a variance near eps", (x * 3e-3, *rest), {}
    yield "a mean of 100", (x + 100.0, *rest), {}
    if known.f is not n.batch_norm:
        sizes = 10.0 ** np.linspace(-2, 2, len(x)).reshape(-1, *[1] * (x.ndim - 1))
        yield "rows of different sizes", (x * sizes, *rest), {}
    if known.f is not n.rms_norm:
        yield "no variance", (np.ones_like(x), *rest), {}
    yield from with_gaps(known, rng, size)


def norm(f: Any, *calls: Sample, **known: Any) -> MapSpec:
    """Return the record of a normalization, whose first sample is the plain one."""
    hard = known.pop("hard")
    eps = [Sample(hard[0].shapes, {"eps": 0.5})]
    every: dict[str, Any] = {"more": _cases_of_norms}
    every |= {"f": f, "calls": calls, "batched": False, "of": (0,), "hard": hard, "options": eps}
    return MapSpec(**(every | known))


RECORDS = [
    norm(
        n.layer_norm, call((2, 8), (8,), (8,)), call((5,), None, None, eps=0.25),
        call((2, 3, 4), None, (4,)), call((3, 7), (7,), None), call((0, 3), (3,), (3,)),
        core=(1, 1), large=[
            call((2, 3, 1025), (1025,), (1025,)), call((2, 4097), None, None),
            call(MANY_ROWS, (16,), (16,)),
        ],
        hard=[call((5, 7), (7,), (7,)), call((3, 130), None, None)],
    ),
    norm(
        n.rms_norm, call((2, 8), (8,)), call((5,), None, eps=0.25),
        call((2, 3, 4), (4,), weight_offset=1.0), call((0, 3), (3,)), core=(1, 1),
        large=[
            *pairwise(((2, 3, 1025), (1025,)), {"weight_offset": 1.0}), call((2, 4097), None),
            call(MANY_ROWS, (16,)),
        ],
        hard=[call((5, 7), (7,)), call((3, 130), None), call((5, 7), (7,), weight_offset=1.0)],
    ),
    norm(
        n.l2_norm, call((2, 8)), call((5,), eps=0.25), call((2, 3, 4)), call((0, 3)),
        call((3, 4), eps=1.5, clamp=True), call((0, 3), clamp=True),
        hard=[call((5, 7)), call((3, 130))],
        options=[call((5, 7), eps=0.25), call((5, 7), eps=2.5, clamp=True)],
    ),
    norm(
        n.weight_norm, call((3, 4), (3,)), call((2, 3), (3,), axis=-1), call((2, 3), (), axis=None),
        call((3, 2, 4), (3,)), call((0, 3), (0,)), of=None,
        hard=[call((5, 7), (5,)), call((3, 130), (3,))],
        options=[call((5, 5), (5,), axis=1), call((5, 5), (), axis=None)],
    ),
    record(
        n.sinkhorn, call((4, 4)), call((3, 3), steps=1), call((2, 3, 3), steps=3), call((0, 0)),
        batched=True, core=(2, 2), hard=[call((5, 5)), call((2, 7, 7), steps=3)],
        large=[call((2, 65, 65))], options=[call((5, 5), steps=1)],
    ),
    norm(
        n.batch_norm, call((6, 3), (3,), (3,)), call((3, 3, 2), None, None, eps=0.25),
        call((5, 1), None, (1,)), call((0, 3), (3,), (3,)),
        large=[
            call((2, 129, 33), (33,), (33,)), call((1025, 3), None, None),
        ],
        hard=[call((8, 5), (5,), (5,)), call((4, 3, 6), (6,), (6,))],
    ),
    norm(
        n.batch_norm_inference, call((6, 3), (3,), (3,), (3,), (3,)),
        call((3,), (3,), (3,), None, None), call((2, 2, 3), (3,), (3,), None, (3,), eps=0.25),
        call((0, 3), (3,), (3,), (3,), None), draw=(draw.normal, draw.normal, draw.positive),
        hard=[call((8, 5), (5,), (5,), (5,), (5,))], more=None,
    ),
    record(
        n.batch_norm_update, call((3,), (3,), momentum=0.25), call((), (), momentum=1),
        hard=[call((7,), (7,), momentum=0.25)], options=(),
    ),
    norm(
        n.group_norm, call((2, 3, 4), 2, (4,), (4,)), call((2, 6), 2, None, None, eps=0.25),
        call((2, 2, 2, 3), 1, None, (3,)), call((0, 3, 2), 2, (2,), None), constant=(1,),
        large=[
            call((2, 129, 64), 8, (64,), (64,)),
        ],
        hard=[call((3, 7, 6), 3, (6,), (6,)), call((3, 7, 6), 6, None, None)],
    ),
    norm(
        n.instance_norm, call((2, 5, 3), (3,), (3,)), call((2, 2, 3, 2), None, None, eps=0.25),
        call((1, 4, 1), None, (1,)), call((0, 3, 2), (2,), None),
        large=[
            call((2, 129, 33), (33,), (33,)), call((1, 1025, 3), None, None),
        ],
        hard=[call((3, 5, 7), (7,), (7,))],
    ),
    MapSpec(
        f=n.batch_norm_train, why_not="its derivatives are of its first output alone",
    ),
]  # fmt: skip

#: Names elsewhere: see `dlref._core.names`.
NAMES = {
    "batch_norm": ["torch.nn.functional.batch_norm", "BatchNorm1d", "batchnorm"],
    "group_norm": ["torch.nn.functional.group_norm", "groupnorm"],
    "instance_norm": ["torch.nn.functional.instance_norm", "instancenorm"],
    "l2_norm": [
        "torch.nn.functional.normalize: it divides by the larger of the norm and eps, as with clamp=True",  # noqa: E501
        "l2_normalize",
    ],
    "layer_norm": ["torch.nn.functional.layer_norm", "layernorm", "layer_normalization"],
    "rms_norm": [
        "torch.nn.functional.rms_norm",
        "rmsnorm",
        "LlamaRMSNorm",
        "gated_rms_norm: it is also multiplied by an activation of a gate",
        "RMSNormGated: it is also multiplied by an activation of a gate",
    ],
    "sinkhorn": [
        "sinkhorn_knopp",
        "doubly_stochastic",
        "hyper_connections: it mixes streams with such a matrix",
        "mhc: it mixes streams with such a matrix",
    ],
    "weight_norm": [
        "torch.nn.utils.parametrizations.weight_norm",
        "weight_normalization",
    ],
}
