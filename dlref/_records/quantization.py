"""Numbers with few bits."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import quantization as q
from . import _draw as draw
from ._spec import Cases, MapSpec, call, record, without


def _ties(_: MapSpec, rng: Any, _size: Any) -> Cases:
    halves = np.arange(-12, 13) / 2.0
    yield "ties", (halves, np.array(1.0)), {"bits": 4}
    yield "ties of another scale", (halves / 4, np.array(0.25)), {"bits": 3}
    far = 100.0 * rng.normal(size=(5, 7))
    yield "both ends of eight bits", (far, np.array(0.5)), {}


RECORDS = [
    record(
        q.fake_quantize,
        call((3, 4), (), 0, bits=3), call((3, 4), (3, 1), 1, bits=3),
        call((2, 3, 2), (3, 1), np.array([[1], [-1], [0]]), bits=4), call((3, 4), (4,), 0),
        call((5,), (), -2, bits=2), call((), (), 0), call((0, 3), (), 0),
        call((2, 3), (2, 3), 0, bits=3),
        draw=(draw.wide, draw.positive), constant=(2,), batched=False,
        hard=[call((6, 7), (), 0), call((6, 7), (6, 1), 0, bits=3), call((6, 7), (), 2, bits=3)],
        large=[call((17, 1031), (), 0), call((3, 2, 65), (3, 1, 1), 0, bits=3)],
        more=_ties, options=[call((6, 7), (), 0, bits=3)],
    ),
    *without(
        "codes are compared exactly, not within a tolerance", q.quantize_blocks,
        q.dequantize_blocks,
    ),
]  # fmt: skip

#: Names elsewhere: see `dlref._core.names`.
NAMES = {
    "quantize_blocks": ["mxfp8", "mxfp4", "nvfp4", "e8m0: it is the format of the scales"],
    "fake_quantize": ["fake_quant", "quantize_dequantize"],
}
