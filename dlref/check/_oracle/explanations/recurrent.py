"""Recurrent cells and sequences."""

from __future__ import annotations

import functools
from typing import Any

from .... import recurrent as r
from ..causes import recurrent as mistakes
from ..usual import gru_cell_jvp, lstm_cell_jvp
from ._explanation import Explanation

LSTM = functools.partial(mistakes.gate_order, order="ifgo"), mistakes.forget_bias
GRU = functools.partial(mistakes.gate_order, order="rzn"), mistakes.reset_gate
IN_TIME = (mistakes.state_held, mistakes.truncated)

EXPLANATIONS: dict[Any, Explanation] = {
    r.rnn: Explanation(
        mistakes=IN_TIME,
    ),
    r.lstm: Explanation(
        mistakes=(*LSTM, *IN_TIME),
    ),
    r.lstm_cell: Explanation(
        plain={"jvp": lstm_cell_jvp},
        mistakes=LSTM,
    ),
    r.gru: Explanation(
        mistakes=(*GRU, *IN_TIME),
    ),
    r.gru_cell: Explanation(
        plain={"jvp": gru_cell_jvp},
        mistakes=GRU,
    ),
}  # fmt: skip
