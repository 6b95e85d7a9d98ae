"""Blocks and generation."""

from __future__ import annotations

from typing import Any

from .... import transformer as t
from ..causes.attention import masks_of_itself
from ..causes.training import other_nuclei
from ._explanation import Explanation

_BLOCKS = (t.encoder_block, t.encoder, t.decoder_block, t.decoder)

EXPLANATIONS: dict[Any, Explanation] = {
    **{f: Explanation(mistakes=(masks_of_itself,)) for f in _BLOCKS},
    t.next_token_probabilities: Explanation(mistakes=(other_nuclei,)),
}
