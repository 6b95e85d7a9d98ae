"""Layouts and conventions of other libraries."""

from __future__ import annotations

from .. import interop as i
from ._spec import NOT_ARRAYS, MapSpec, call, without

RECORDS = [
    MapSpec(f=i.to_half_split, hard=[call((5, 8)), call((2, 33, 6))]),
    MapSpec(f=i.to_interleaved, hard=[call((5, 8)), call((2, 33, 6))]),
    MapSpec(
        f=i.transpose_heads, hard=[call((2, 3, 5, 4), "torch", "flash")],
        options=[call((2, 5, 8), "onnx_3d", "dlref", num_heads=2)],
    ),
    MapSpec(
        f=i.convert_gates,
        hard=[
            call((12, 5), "torch", "onnx", cell="gru"),
            call((16, 5), "torch", "keras", cell="lstm"),
        ],
    ),
    *without(
        NOT_ARRAYS, i.conventions, i.from_state_dict, i.mask_convention, i.read_state_dict,
        i.to_state_dict, i.trace_checkpoint,
    ),
]  # fmt: skip

#: Names elsewhere: see `dlref._core.names`.
NAMES = {
    "from_state_dict": ["torch.nn.Module.load_state_dict", "from_pretrained"],
}
