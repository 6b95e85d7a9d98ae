"""Convolution and pooling."""

from __future__ import annotations

import numpy as np

from .. import convolution as c
from ._spec import PACKED, call, record

PLANE = (2, 4, 7, 6), (6, 4, 3, 2), (6,)
HALVES = (2, 4, 7, 6), (6, 2, 3, 2), (6,)
SMALL = (2, 4, 5, 6), (4, 6, 3, 2), (6,)
SQUARE = (3, 6, 6), (3, 3, 3, 3), None
ROWS_PACKED = {"segment_ids": np.array([[0, 0, 1, 1, 2], [3, 3, 3, 4, 4]])}

RECORDS = [
    record(
        c.conv,
        call((2, 3, 6), (4, 3, 3), (4,)), call((2, 5), (3, 2, 2), None, padding=1),
        call((2, 5, 5), (2, 2, 3, 2), (2,), stride=2),
        call((2, 5), (2, 2, 2), (2,), dilation=3), call((2, 2, 3), (4, 1, 2), (4,), groups=2),
        call((2, 3, 4, 3), (2, 1, 2, 2, 2), (2,), groups=2, padding=(1, 0, 1), stride=2),
        call((0, 2, 4), (3, 2, 3), (3,)), call((2, 5), (2, 2, 4), (2,), padding="same", dilation=2),
        call((2, 5, 4), (2, 2, 3, 2), None, padding=((2, 0), 1), stride=2),
        call((2, 5, 3), (2, 2, 3, 2), None, padding=((2, 4), 1), padding_mode="circular"),
        batched=False,
        hard=[call(*PLANE), call(*SQUARE), call((2, 5, 40), (7, 5, 5), None)],
        large=[
            call((2, 3, 33, 17), (5, 3, 3, 3), (5,), padding=1), call((1, 1030), (3, 1, 9), None),
            call((2, 4, 33, 17), (6, 2, 3, 2), (6,), stride=2, padding=1, dilation=2, groups=2),
            call((2, 9, 11, 10), (6, 3, 3, 2), (6,), groups=3),
            call(
                (2, 4, 33, 17), (6, 2, 3, 2), (6,), padding=2, groups=2, padding_mode="circular",
            ),
            call((1, 32, 12, 10), (24, 32, 3, 3), (24,)),  # cuDNN uses TF32 from 16 channels on
        ],
        options=[
            call(*PLANE, stride=2), call(*PLANE, padding="causal"), call(*PLANE, padding=1),
            call(*PLANE, dilation=2), call(*HALVES, groups=2),
            call(*PLANE, padding=1, padding_mode="circular"),
        ],
    ),
    record(
        c.conv_transpose,
        call((2, 3, 4), (3, 2, 3), (2,)), call((2, 3), (2, 1, 2), None, stride=2),
        call((2, 3, 2), (2, 2, 3, 2), (2,), padding=1),
        call((2, 3), (2, 2, 2), (2,), dilation=2),
        call((2, 2, 3), (2, 1, 2), (2,), groups=2),
        call((2, 3), (2, 2, 2), None, stride=2, output_padding=1),
        call((0, 2, 4), (2, 3, 3), (3,)),
        batched=False,
        hard=[call(*SMALL), call(*SQUARE), call((2, 5, 20), (5, 7, 5), None)],
        large=[
            call((2, 3, 33, 17), (3, 5, 3, 3), (5,), stride=2), call((1, 1030), (1, 3, 9), None),
            call(
                (2, 4, 17, 9), (4, 3, 3, 2), (6,), stride=2, padding=1, dilation=2, groups=2,
                output_padding=1,
            ),
        ],
        options=[
            call(*SMALL, stride=2), call(*SMALL, padding=1), call(*SMALL, dilation=2),
            call(SMALL[0], (4, 3, 3, 2), (6,), groups=2),
            call(*SMALL, stride=2, output_padding=1),
        ],
    ),
    *(
        record(
            f,
            call((2, 6), size=(2,)), call((7,), size=(3,), stride=2, padding=1),
            call((2, 4, 5), size=(2, 3), stride=1), call((3, 3, 4), size=(2, 1, 2)),
            call((0, 4), size=(2,)),
            call((2, 8), size=(3,), padding=1, ceil_mode=True), call((2, 5, 8), **more),
            hard=[call((2, 3, 7, 8), size=(3, 3)), call((3, 41), size=(5,))],
            large=[call((5, 65, 34), size=(3, 2)), call((2, 3, 130), size=(7,))],
            options=[
                call((2, 3, 7, 8), size=(3, 3), stride=2),
                call((2, 3, 7, 8), size=(3, 3), padding=1),
                call((2, 3, 7, 8), size=(3, 3), ceil_mode=True), call((2, 7, 8), **more),
                call((2, 9, 8), stride=2, ceil_mode=True, **more),
            ],
            needed=("size",), batched=False,
        )
        for f, more in (
            (c.max_pool, {"size": (2, 2), "padding": 1, "dilation": 2}),
            (c.mean_pool, {"size": (3, 2), "padding": 1, "count_include_pad": False}),
        )
    ),
    record(
        c.interpolate,
        call((2, 5), size=(8,)), call((4, 3), size=(6, 5), align_corners=True),
        call((2, 3, 4), size=(2, 2, 7)), call((2, 3, 4), size=(5, 3)), call((0, 4), size=(6,)),
        call((7,), size=(1,)), call((7,), size=(1,), align_corners=True),
        hard=[call((2, 3, 7, 8), size=(11, 5)), call((3, 41), size=(64,))],
        large=[
            call((5, 65, 34), size=(33, 70)), call((2, 3, 130), size=(261,)),
            call((3, 9, 8, 17), size=(18, 5, 40), align_corners=True),
        ],
        options=[call((2, 3, 7, 8), size=(13, 15), align_corners=True)],
        needed=("size",), batched=False,
    ),
    record(
        c.causal_conv,
        call((5, 2), (2, 3), None, None), call((2, 3, 2), (2, 3), (2,), (2, 2, 2)),
        call((1, 3), (3, 4), (3,), (3, 3)), call((2, 0, 2), (2, 2), None, (2, 1, 2)),
        call((0, 3, 2), (2, 1), (2,), None), call((5, 2), (2, 3), (2,), (2, 2), **PACKED),
        batched=False,
        hard=[
            call((2, 9, 5), (5, 4), (5,), (2, 3, 5)), call((7, 4), (4, 4), None, None),
            call((3, 2, 5), (5, 6), (5,), (3, 5, 5)),  # shorter than the state
        ],
        large=[
            call((2, 131, 17), (17, 4), (17,), None), call((1030, 3), (3, 5), None, (4, 3)),
            call((1030, 3), (3, 5), None, (4, 3), segment_ids=np.arange(1030) // 97),
        ],
        options=[call((2, 5, 3), (3, 4), (3,), (2, 3, 3), **ROWS_PACKED)],
    ),
]  # fmt: skip

#: Names elsewhere: see `dlref._core.names`.
NAMES = {
    "causal_conv": ["causal_conv1d", "causal_conv1d_fn", "ShortConvolution"],
    "conv": [
        "torch.nn.functional.conv2d",
        "jax.lax.conv_general_dilated",
        "conv1d",
        "conv3d",
        "convolve",
        "Conv2d",
        "convolution",
        'same_padding: here it is padding="same"',
    ],
    "conv_transpose": [
        "torch.nn.functional.conv_transpose2d",
        "jax.lax.conv_transpose",
        "conv_transpose1d",
        "conv_transpose3d",
        "ConvTranspose2d",
        "deconvolution",
    ],
    "max_pool": ["torch.nn.functional.max_pool2d", "max_pool1d", "max_pool3d", "MaxPool2d"],
    "interpolate": [
        "torch.nn.functional.interpolate",
        "bilinear",
        "jax.image.resize: it takes a mean of more places for a smaller size",
        "upsample",
    ],
    "mean_pool": [
        "torch.nn.functional.avg_pool2d",
        "avg_pool1d",
        "avg_pool3d",
        "average_pool",
        "AvgPool2d",
    ],
}
