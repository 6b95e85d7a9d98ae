"""Convolution and pooling."""

from __future__ import annotations

from ... import convolution as c
from .._oracle.causes import convolution as mistakes
from ._record import Known, call

PLANE = (2, 4, 7, 6), (6, 4, 3, 2), (6,)
HALVES = (2, 4, 7, 6), (6, 2, 3, 2), (6,)
SQUARE = (3, 6, 6), (3, 3, 3, 3), None

RECORDS = [
    Known(
        f=c.conv,
        calls=[
            call((2, 3, 6), (4, 3, 3), (4,)), call((2, 5), (3, 2, 2), None, padding=1),
            call((2, 5, 5), (2, 2, 3, 2), (2,), stride=2),
            call((2, 5), (2, 2, 2), (2,), dilation=3), call((2, 2, 3), (4, 1, 2), (4,), groups=2),
            call((2, 3, 4, 3), (2, 1, 2, 2, 2), (2,), groups=2, padding=(1, 0, 1), stride=2),
            call((0, 2, 4), (3, 2, 3), (3,)),
        ],
        batched=False,
        hard=[call(*PLANE), call(*SQUARE), call((2, 5, 40), (7, 5, 5), None)],
        large=[
            call((2, 3, 33, 17), (5, 3, 3, 3), (5,), padding=1), call((1, 1030), (3, 1, 9), None),
        ],
        options=[
            call(*PLANE, stride=2), call(*PLANE, padding=1), call(*PLANE, dilation=2),
            call(*HALVES, groups=2),
        ],
        mistakes=(mistakes.reversed_kernel, mistakes.exchanged_axes),
        later=(mistakes.interleaved_groups, mistakes.other_padding),
    ),
]  # fmt: skip
