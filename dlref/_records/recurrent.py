"""Recurrent cells, sequences and their configurations."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import recurrent as r
from . import _draw as draw
from ._spec import PACKED, Cases, MapSpec, Sample, option_case, pairwise, record
from .neurons import sequence

SHORTER = np.array([5, 2])
ROWS_PACKED = {"segment_ids": np.array([[0, 0, 1, 1, 1], [3, 3, 3, 3, 4]])}
PEEPHOLES = np.linspace(-1.0, 1.0, 12)
SIZES = {"T": 3, "D": 2, "H": 3}
EVERY = (True, True, True)


def shapes(
    gates: int,
    states: int,
    batch: tuple[int, ...],
    T: int,
    D: int,
    H: int,
    given: tuple[bool, ...] = EVERY,
    cell: bool = False,
) -> tuple[Any, ...]:
    """Return shapes of x, states, weights, biases; `given`: whether of states, b_ih, b_hh."""
    return (
        (*batch, D) if cell else (*batch, T, D),
        *states * [(*batch, H) if given[0] else None],
        (gates * H, D),
        (gates * H, H),
        (gates * H,) if given[1] else None,
        (gates * H,) if given[2] else None,
    )


def layer(
    f: Any,
    gates: int,
    states: int,
    *more: dict[str, Any],
    cell: bool = False,
    options: tuple[dict[str, Any], ...] = (),
    hard: tuple[dict[str, Any], ...] = (),
    **known: Any,
) -> MapSpec:
    """Return the record of a cell or a sequence; `more` are options of further calls."""
    sequences = [] if cell else [{"reverse": True}, {"reverse": True, "lengths": [2, 0]}]
    alone = cell or f is None  # rnn_state_jacobian has no such option
    documents: list[dict[str, Any]] = [] if alone else [ROWS_PACKED]
    long_documents = [] if alone else [{"segment_ids": np.arange(65) // 20}]
    rows: list[Any] = [
        ((2,), SIZES, EVERY, {}),
        ((), {"T": 1, "D": 1, "H": 2}, (True, True, False), {}),
        ((2, 1), {"T": 2, "D": 2, "H": 1}, (False, False, False), {}),
        ((0,), SIZES, (True, False, True), {}),
        *(((2,), SIZES, EVERY, values) for values in (*sequences, *more)),
    ]
    if not cell:
        rows.append(((2,), {**SIZES, "T": 0}, EVERY, {}))
        rows.append(((3,), SIZES, (True, False, False), {"lengths": [1, 3, 2]}))
        rows.append(((2,), SIZES, EVERY, {"segment_ids": np.array([[1, 2, 2], [1, 1, 3]])}))
    calls = [
        Sample(shapes(gates, states, batch, **sizes, given=given, cell=cell), values)
        for batch, sizes, given, values in rows
    ]
    large = shapes(gates, states, (2,), 5, 3, 4, cell=cell)
    longer = shapes(gates, states, (2, 3) if cell else (2,), 65, 17, 4, cell=cell)
    every = {
        "f": f,
        "family": f"cells {gates} {states}" if cell else f"sequences {gates} {states}",
        "calls": calls,
        "draw": (1 + states) * (draw.normal,) + 2 * (draw.moderate,),
        "hard": [Sample(large, values) for values in ({}, *hard)],
        "options": [Sample(large, values) for values in (*options, *documents)],
        "large": pairwise(
            longer,
            *(
                {key: values[key]}
                for values in (*hard, *options, *long_documents)
                for key in values
            ),
        ),
        "batched": False,
    }
    return MapSpec(**(every | known))


def scan(
    T: int, D: int, N: int, *, batch: tuple[int, ...] = (), skip: bool = True, state: bool = True
) -> tuple[Any, ...]:
    """Return shapes of x, delta, a, b, c, d and the state."""
    return (
        *2 * [(*batch, T, D)],
        (D, N),
        *2 * [(*batch, T, N)],
        (D,) if skip else None,
        (*batch, D, N) if state else None,
    )


def negative(rng: Any, shape: Any, _first: Any = None) -> Any:
    return -rng.uniform(0.5, 2.0, shape)


def cell_of(rng: Any, gates: int) -> Any:
    sizes = ((2, 4), (4 * gates, 8), (4 * gates, 4), (4 * gates,), (4 * gates,))
    return tuple(rng.normal(size=size) / 2 for size in sizes)


def _bidirectional(rng: Any) -> Cases:
    yield "rnn", ("rnn", sequence(rng), cell_of(rng, 1), cell_of(rng, 1)), {}
    yield "gru", ("gru", sequence(rng), cell_of(rng, 3), cell_of(rng, 3)), {}


def _readout(rng: Any) -> tuple[Any, Any]:
    return rng.normal(size=(6, 4)), rng.normal(size=6)


def _sequences(rng: Any, first: Any = None, **options: Any) -> Cases:
    first, out = sequence(rng) if first is None else first, _readout(rng)
    yield "rnn", ("rnn", first, cell_of(rng, 1), *out), options
    yield "gru, without another layer", ("gru", first, cell_of(rng, 3)), options


def _vector_to_sequence(rng: Any) -> Cases:
    yield from _sequences(rng, sequence(rng)[:, 0], steps=5)


def _sequence_samples(rng: Any) -> Cases:
    inputs = "rnn", rng.normal(size=(2, 8)), cell_of(rng, 1)
    yield option_case("feed"), inputs, {"steps": 5, "feed": "first"}


def _pair(rng: Any) -> Cases:
    out, cell = _readout(rng), cell_of(rng, 1)
    yield "rnn", ("rnn", sequence(rng), sequence(rng, 7), cell, cell[1:], *out), {}


LENGTHS, REVERSE, WITH_PEEPHOLES = {"lengths": SHORTER}, {"reverse": True}, {"w_p": PEEPHOLES}
BEFORE, RELU = {"reset_after": False}, {"activation": "relu"}
RECORDS = [
    layer(
        r.rnn, 1, 1, RELU, {"activation": "sigmoid"}, {"activation": "identity"},
        options=(RELU, REVERSE, LENGTHS),
    ),
    layer(r.rnn_cell, 1, 1, {"activation": "sigmoid"}, cell=True, options=(RELU,)),
    layer(
        None, 1, 1, forms=(r.rnn_state_jacobian,), family="states",
        calls=[
            Sample(shapes(1, 1, (2,), 3, 2, 3)),
            Sample(shapes(1, 1, (), 2, 1, 2), {"activation": "sigmoid"}),
            Sample(shapes(1, 1, (0,), 2, 1, 2)),
        ],
        core=(1, 1), of=(1,),
    ),
    layer(
        r.lstm, 4, 2, hard=(REVERSE,), options=(LENGTHS, WITH_PEEPHOLES),
    ),
    layer(
        r.lstm_cell, 4, 2, cell=True, options=(WITH_PEEPHOLES,),
    ),
    layer(r.lstm_gates, 4, 2, options=(LENGTHS, REVERSE, WITH_PEEPHOLES)),
    layer(
        r.gru, 3, 1, BEFORE, {**BEFORE, "reverse": True, "lengths": [1, 3]}, hard=(BEFORE, REVERSE),
        options=(LENGTHS,),
    ),
    layer(
        r.gru_cell, 3, 1, BEFORE, cell=True, hard=(BEFORE,),
    ),
    record(
        r.selective_scan,
        Sample(scan(3, 2, 2)), Sample(scan(2, 3, 1, batch=(2,), skip=False)),
        Sample(scan(4, 1, 2, batch=(2, 1), state=False), {"delta_softplus": True}),
        Sample(scan(3, 2, 2, batch=(0,))), Sample(scan(0, 2, 3)),
        Sample(scan(4, 2, 2, batch=(2,)), {"segment_ids": np.array([[0, 1, 1, 1], [3, 3, 4, 5]])}),
        draw=(draw.normal, draw.unit, negative), batched=False,
        hard=[Sample(scan(5, 7, 3)), Sample(scan(33, 3, 2, state=False))],
        large=[
            Sample(scan(51, 34, 34)), Sample(scan(2, 3, 1, batch=(2,), skip=False)),
            Sample(scan(51, 5, 3), {"segment_ids": np.arange(51) // 9}),
        ],
        options=[Sample(scan(5, 3, 2), {"delta_softplus": True}), Sample(scan(5, 3, 2), PACKED)],
    ),
    MapSpec(f=r.bidirectional, hard=_bidirectional),
    MapSpec(f=r.sequence_to_sequence, hard=_sequences),
    MapSpec(f=r.sequence_to_vector, hard=_sequences),
    MapSpec(f=r.vector_to_sequence, hard=_vector_to_sequence, options=_sequence_samples),
    MapSpec(f=r.encoder_decoder, hard=_pair),
]  # fmt: skip

#: Names elsewhere: see `dlref._core.names`.
NAMES = {
    "gru": ["torch.nn.GRU"],
    "gru_cell": ["torch.nn.GRUCell"],
    "lstm": ["torch.nn.LSTM", "long_short_term_memory"],
    "lstm_cell": ["torch.nn.LSTMCell"],
    "rnn": ["torch.nn.RNN", "elman", "simple_rnn"],
    "rnn_cell": ["torch.nn.RNNCell"],
    "selective_scan": ["mamba", "s6", "selective_scan_fn"],
}
