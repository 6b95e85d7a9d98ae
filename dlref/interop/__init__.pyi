from ._conventions import Convention as Convention
from ._conventions import conventions as conventions
from ._conventions import mask_convention as mask_convention
from ._gates import convert_gates as convert_gates
from ._layouts import to_half_split as to_half_split
from ._layouts import to_interleaved as to_interleaved
from ._layouts import transpose_heads as transpose_heads
