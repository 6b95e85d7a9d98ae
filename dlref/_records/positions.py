"""Positions: rotations, biases of scores, learned tables."""

from __future__ import annotations

from typing import Any

from .. import positions as p
from . import _draw as draw
from ._spec import NOT_ARRAYS, MapSpec, Sample, call, pairwise, record, without

TABLE = {"T": 5, "S": 7}
DISENTANGLED = (2, 11, 3), (2, 9, 3), (2, 8, 3), (2, 8, 3)


def of_angles(f: Any, *calls: Sample) -> MapSpec:
    every = [call((4,), (3,)), call((2, 3), (2,)), call((), (1,)), call((0,), (2,)), *calls]
    return MapSpec(f=f, family="angles", calls=every, batched=False, fixed=True)


RECORDS = [
    of_angles(p.rope_angles),
    of_angles(p.rope_tables, call((3,), (2,), attention_factor=1.25)),
    of_angles(p.rope_matrix),
    record(
        p.apply_rope,
        call((3, 4), (3, 2), (3, 2)), call((2, 3, 8), (3, 4), (3, 4), interleaved=False),
        call((2, 3, 7), (2, 3, 2), (2, 3, 2), rotary_dim=4),
        call((2, 3, 5), (1, 2), (1, 2), rotary_dim=4, interleaved=False),
        call((2, 3, 7), (3, 2), (3, 2), rotary_dim=4, rotary_last=True),
        call((0, 4), (0, 2), (0, 2)), call((4,), (2,), (2,)),
        draw=(draw.normal, draw.angles, draw.angles), constant=(1, 2),
        hard=[
            call((2, 3, 5, 8), (5, 4), (5, 4)),
            call((2, 3, 5, 8), (5, 4), (5, 4), interleaved=False),
            call((2, 3, 1, 8), (1, 4), (1, 4)),
        ],
        options=[
            call((2, 3, 5, 8), (5, 2), (5, 2), rotary_dim=4),
            call((2, 3, 5, 8), (5, 2), (5, 2), rotary_dim=4, rotary_last=True),
        ],
        large=[
            *pairwise(((2, 3, 129, 64), (129, 32), (129, 32)), {"interleaved": False}),
            call((2, 129, 64), (129, 8), (129, 8), interleaved=False, rotary_dim=16),
            call(
                (2, 129, 64), (129, 8), (129, 8), interleaved=False, rotary_dim=16,
                rotary_last=True,
            ),
        ],
    ),
    record(
        p.apply_rope_axial,
        call((3, 8), (3, 2, 2), (3, 2, 2)),
        call((2, 3, 6), (3, 3, 1), (3, 3, 1), interleaved=False),
        call((0, 4), (0, 1, 2), (0, 1, 2)),
        draw=(draw.normal, draw.angles, draw.angles), constant=(1, 2),
        hard=[call((5, 8), (5, 2, 2), (5, 2, 2))],
        large=[call((2, 3, 129, 64), (129, 2, 16), (129, 2, 16))],
        options=[call((5, 8), (5, 2, 2), (5, 2, 2), interleaved=False)],
    ),
    record(
        p.apply_xpos,
        call((3, 4), *3 * [(3, 2)]),
        call((2, 3, 8), *3 * [(3, 4)], interleaved=False, inverse=True),
        call((2, 3, 7), *3 * [(2, 3, 2)], rotary_dim=4), call((0, 4), *3 * [(0, 2)]),
        draw=(draw.normal, draw.angles, draw.angles, draw.positive), constant=(1, 2, 3),
        hard=[
            call((5, 8), *3 * [(5, 4)]),
            call((5, 8), *3 * [(5, 4)], inverse=True, interleaved=False),
            call((5, 8), *3 * [(5, 2)], inverse=True, interleaved=False, rotary_dim=4),
        ],
        options=[call((5, 8), *3 * [(5, 2)], rotary_dim=4)],
    ),
    record(
        p.timestep_embedding,
        call((4,), dim=6), call((2, 3), dim=4, cosine_first=True), call((), dim=2, scale=3.0),
        call((3,), dim=6, shift=1.0), call((0,), dim=4, base=50.0),
        hard=[call((7,), dim=8)],
        options=[
            call((7,), dim=8, base=50.0), call((7,), dim=8, cosine_first=True),
            call((7,), dim=8, shift=1.0), call((7,), dim=8, scale=3.0),
        ],
    ),
    record(
        p.fourier_features,
        call((3, 2), (4, 2)), call((2,), (1, 2)), call((2, 1, 3), (2, 3)),
        call((0, 2), (3, 2)),
        batched=False, hard=[call((5, 7), (6, 7))],
    ),
    record(
        p.xpos_scales,
        call((4,), dim=6), call((2, 3), dim=2, gamma=1.5, scale_base=3.0), call((), dim=4),
        call((0,), dim=4),
        hard=[call((7,), 8)], options=[call((7,), 8, gamma=0.2), call((7,), 8, scale_base=64.0)],
        fixed=True,
    ),
    record(
        p.rope_score,
        call((4,), (4,), (), (2,)), call((2, 6), (6,), (5, 1), (3,), interleaved=False),
        call((0, 2), (2,), (), (1,)),
        batched=False,
        hard=[call((5, 8), (5, 8), 2, (4,)), call((8,), (8,), -1, (4,), interleaved=False)],
        options=(),
    ),
    record(
        p.alibi_bias,
        call((2,), T=3, S=4), call((2, 3), T=3, S=2, symmetric=True),
        call((), T=2, S=5, q_offset=3), call((0,), T=2, S=2),
        call((3,), T=4, S=2, q_offset=-2),
        draw=(draw.positive,),
        hard=[call((4,), **TABLE), call((4,), **TABLE, symmetric=True, q_offset=3)], options=(),
        fixed=True,
    ),
    record(
        p.kerple_bias,
        call((2,), (2,), T=3, S=4),
        call((2, 3), (2, 3), T=3, S=2, kind="power", symmetric=True),
        call((), (), T=2, S=5, q_offset=3, kind="power"), call((0,), (0,), T=2, S=2),
        draw=2 * (draw.positive,),
        hard=[call((4,), (4,), **TABLE), call((4,), (4,), **TABLE, kind="power")],
        options=[call((4,), (4,), **TABLE, symmetric=True), call((4,), (4,), **TABLE, q_offset=2)],
        fixed=True,
    ),  # a hidden unit that is off hides its input
    record(
        p.fire_bias,
        call((3,), (3,), (2, 3), (2,), (), (), T=3, S=4),
        call((2,), (2,), (1, 2), (1,), (), (), T=2, S=3, q_offset=9),
        draw=4 * (draw.normal,) + 2 * (draw.positive,), batched=False, analytic=False,
        hard=[
            call((6,), (6,), (2, 6), (2,), (), (), **TABLE),
            call((6,), (6,), (2, 6), (2,), (), (), **TABLE, q_offset=9),
        ],
        options=(), fixed=True,
    ),
    record(
        p.t5_bias,
        call((32, 2), T=3, S=4), call((8, 1), T=9, S=12, max_distance=10),
        call((6, 3), T=2, S=9, bidirectional=False, q_offset=7),
        batched=False, hard=[call((32, 4), **TABLE), call((8, 4), **TABLE, bidirectional=False)],
        options=[call((32, 4), T=5, S=90, max_distance=16), call((32, 4), **TABLE, q_offset=2)],
        large=[
            call((32, 4), T=129, S=300),
            call((16, 2), T=9, S=160, bidirectional=False, q_offset=150, max_distance=64),
        ],
    ),
    record(
        p.relative_bias,
        call((2, 6), T=3, S=4), call((3,), T=3, S=1), call((2, 2, 5), T=2, S=4),
        call((0, 3), T=2, S=2),
        hard=[call((4, 11), **TABLE)],
    ),
    record(
        p.learned_positions,
        call((3, 4), (5,)), call((4, 2), (2, 3)), call((3, 2), ()), call((3, 2), (0,)),
        draw=(draw.normal, draw.rows), constant=(1,), batched=False,
        hard=[call((6, 4), (5,)), call((131, 3), (2, 67))],
    ),
    record(
        p.shaw_scores,
        call((4, 3), (5, 3)), call((2, 2, 2), (1, 2)), call((0, 2, 2), (3, 2)),
        call((0, 2), (3, 2)),
        batched=False,
    ),
    record(
        p.disentangled_scores,
        call((2, 3, 2), (2, 4, 2), *2 * [(2, 4, 2)]),
        call((2, 1, 3, 2), (2, 1, 3, 2), *2 * [(1, 2, 2)], c2p=False),
        call((1, 3, 2), (1, 3, 2), *2 * [(1, 8, 2)], p2c=False),
        call((1, 9, 1), (1, 7, 1), *2 * [(1, 8, 1)], num_buckets=4, max_distance=7),
        call((0, 1, 2, 2), (0, 1, 3, 2), *2 * [(1, 2, 2)]),
        batched=False, hard=[call((2, 5, 7), (2, 6, 7), *2 * [(2, 4, 7)])],
        options=[
            call(*DISENTANGLED, c2p=False), call(*DISENTANGLED, p2c=False),
            call(*DISENTANGLED, num_buckets=4, max_distance=9),
            call(*DISENTANGLED, max_distance=7, num_buckets=4),
        ],
    ),
    record(
        p.relative_bias_grid,
        call((15, 2), height=2, width=3), call((1, 3), height=1, width=1),
        call((9, 0), height=2, width=2),
        batched=False, hard=[call((35, 3), height=3, width=4)],
    ),
    record(
        p.rope_tables_multi,
        call((3, 4), (6,), sections=(1, 3, 2)),
        call((2, 3, 4), (7,), sections=(3, 2, 2), interleaved=True),
        call((2, 3), (3,), sections=[1, 2], attention_factor=1.5),
        call((3, 0), (3,), sections=(1, 1, 1)),
        batched=False, fixed=True, hard=[call((3, 5), (8,), sections=(2, 3, 3))],
        options=[
            call((3, 5), (8,), sections=(2, 3, 3), interleaved=True),
            call((3, 5), (8,), sections=(2, 3, 3), attention_factor=1.5),
        ],
        needed=("sections",),
    ),
    record(
        p.transformer_xl_scores,
        call((3, 2), (4, 2), (6, 2), (2,), (2,)),
        call((2, 3, 2), (2, 2, 2), (4, 2), (2, 1, 2), (2,)),
        call((2, 3, 2), (2, 2, 2), (2, 4, 2), (2, 3, 2), (1,)),
        call((0, 2, 2), (0, 1, 2), (2, 2), (2,), (2,)),
        batched=False, hard=[call((5, 4), (7, 4), (11, 4), (4,), (4,))],
    ),
    record(
        p.cope,
        call((3, 2), (3, 3), (4, 2)), call((2, 3, 2), (2, 3, 5), (2, 2)),
        call((2, 2), (2, 3), (1, 2)), call((0, 2, 2), (0, 2, 3), (2, 2)),
        batched=False,
    ),
    MapSpec(f=p.rope_frequencies, why_not=NOT_ARRAYS),
    MapSpec(
        f=p.t5_relative_position_bucket, why_not=NOT_ARRAYS,
    ),
    *without(
        NOT_ARRAYS, p.alibi_slopes, p.rope_attention_factor, p.rope_permutation, p.sinusoidal,
        p.sinusoidal_grid, p.sinusoidal_shift,
    ),
]  # fmt: skip

#: Names elsewhere: see `dlref._core.names`.
NAMES = {
    "alibi_bias": ["alibi", "build_alibi_tensor"],
    "apply_rope": ["rope", "rotary_embedding", "apply_rotary_pos_emb", "rotate_half"],
    "learned_positions": ["position_embedding", "wpe"],
    "rope_frequencies": ["yarn", "inv_freq"],
    "sinusoidal": ["positional_encoding", "sinusoidal_position_embedding"],
}
