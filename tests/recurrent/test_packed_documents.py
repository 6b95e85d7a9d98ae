"""Packed documents of recurrent layers: each is as if it stood alone."""

import functools
import itertools

import numpy as np
import pytest

from dlref import recurrent
from dlref._core.pytree import tree_leaves
from dlref.formulas import recurrent as formulas

#: Segment ids of two rows of nine steps, one of them with a number that comes back.
ROWS = np.array([[0, 0, 0, 5, 5, 0, 1, 1, 1], [2, 3, 3, 3, 3, 3, 3, 3, 3]])
LAYERS = [
    ("rnn", 1, 1, {"activation": "tanh"}),
    ("gru", 3, 1, {"reset_after": True}),
    ("gru", 3, 1, {"reset_after": False}),
    ("lstm", 4, 2, {"w_p": np.linspace(-1, 1, 12)}),
    ("lstm_gates", 4, 2, {}),
]
ORDERS = [{}, {"reverse": True}, {"lengths": [8, 4]}, {"reverse": True, "lengths": [5, 0]}]


def operands(rng, gates, states):
    weights = (rng.normal(size=s) / 2 for s in ((4 * gates, 3), (4 * gates, 4), *2 * [4 * gates]))
    return [rng.normal(size=(2, 9, 3)), *rng.normal(size=(states, 2, 4)), *weights]


def documents(options):
    """Yield the row and the slice of time of each document, and whether it is read first."""
    ends = options.get("lengths", [9, 9])
    for row, (ids, end) in enumerate(zip(ROWS, ends, strict=True)):
        cuts = [0, *(np.flatnonzero(np.diff(ids[:end])) + 1), end] if end else []
        parts = [slice(*ends) for ends in itertools.pairwise(cuts)]
        first = parts[-1:] if options.get("reverse") else parts[:1]
        for part in parts:
            yield row, part, part in first


def as_tuple(value):
    return value if isinstance(value, tuple) else (value,)


def of_document(arrays, states, row, part, first):
    """Return the operands of one document, in a tuple; without states there are zeros."""
    x, *others = arrays
    before = [h[row] if first else 0 * h[row] for h in others[:states]]
    return x[row, part], *before, *others[states:]


def one_by_one(f, like, order):
    """Return what f gives for each document alone, in its place."""
    want = [np.zeros_like(y) for y in like]
    for row, part, first in documents(order):
        for to, y in zip(want, as_tuple(f(row, part, first)), strict=True):
            to[row, part] = y
    return want


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(("name", "gates", "states", "options"), LAYERS)
def test_one_by_one(rng, name, gates, states, options, order):
    f = functools.partial(getattr(recurrent, name), **options)
    arrays, reverse = operands(rng, gates, states), order.get("reverse", False)
    got = as_tuple(f(*arrays, **order, segment_ids=ROWS))
    alone = lambda *place: f(*of_document(arrays, states, *place), reverse=reverse)  # noqa: E731
    for ours, want in zip(got, one_by_one(alone, got, order), strict=True):
        np.testing.assert_allclose(ours, want, rtol=0, atol=4e-15)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(("name", "gates", "states", "options"), [
    *LAYERS, ("rnn", 1, 1, {"truncate": 2}),
])  # fmt: skip
def test_gradients_one_by_one(rng, name, gates, states, options, order):
    f = functools.partial(getattr(recurrent, f"{name}_vjp"), **options)
    arrays, reverse = operands(rng, gates, states), order.get("reverse", False)
    outputs = {"lstm": 2, "lstm_gates": 4}.get(name, 1)
    u = tuple(rng.normal(size=(outputs, 2, 9, 4)))
    got = f(u if outputs > 1 else u[0], *arrays, **order, segment_ids=ROWS)
    want = [np.zeros_like(g) for g in got]
    for row, part, first in documents(order):
        some = tuple(v[row, part] for v in u)
        given = of_document(arrays, states, row, part, first)
        dx, *rest = f(some if outputs > 1 else some[0], *given, reverse=reverse)
        want[0][row, part] = dx
        for i, g in enumerate(rest, 1):
            if i > states:
                want[i] += g
            elif first:
                want[i][row] = g
    for ours, alone in zip(got, want, strict=True):
        np.testing.assert_allclose(ours, alone, rtol=0, atol=8e-15 * max(1, abs(alone).max()))


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(("name", "gates", "states", "options"), LAYERS)
def test_tangents_one_by_one(rng, name, gates, states, options, order):
    f = functools.partial(getattr(recurrent, f"{name}_jvp"), **options)
    arrays, moves = operands(rng, gates, states), operands(rng, gates, states)
    got = as_tuple(f(tuple(arrays), tuple(moves), **order, segment_ids=ROWS))

    def alone(*place):
        both = (of_document(a, states, *place) for a in (arrays, moves))
        return f(*both, reverse=order.get("reverse", False))

    for ours, want in zip(got, one_by_one(alone, got, order), strict=True):
        np.testing.assert_allclose(ours, want, rtol=0, atol=8e-15 * max(1, abs(want).max()))


@pytest.mark.parametrize(("name", "gates", "states", "options"), LAYERS)
def test_one_array_serves_all_rows(rng, name, gates, states, options):
    f = functools.partial(getattr(recurrent, name), *operands(rng, gates, states), **options)
    for one, each in zip(
        as_tuple(f(segment_ids=ROWS[0])), as_tuple(f(segment_ids=ROWS[[0, 0]])), strict=True
    ):
        np.testing.assert_array_equal(one, each)


def test_both_directions_stay_in_the_document(rng):
    x, h, *weights = operands(rng, 1, 1)
    got = recurrent.bidirectional("rnn", x, (h, *weights), (h, *weights), segment_ids=ROWS)
    for reverse, part in ((False, got[..., :4]), (True, got[..., 4:])):
        order = {"reverse": reverse}
        for row, steps, first in documents(order):
            given = of_document((x, h, *weights), 1, row, steps, first)
            np.testing.assert_allclose(
                part[row, steps], recurrent.rnn(*given, **order), rtol=0, atol=4e-15
            )


@pytest.mark.parametrize("reverse", [False, True])
def test_wirings_are_their_formulas(rng, reverse):
    x, h, *weights = operands(rng, 1, 1)
    network, y = (h, *weights), rng.normal(size=(2, 3, 3))
    options = {"segment_ids": ROWS, "reverse": reverse}
    for name, inputs, shape in (
        ("sequence_to_sequence", (x, network), (2, 9, 4)),
        ("sequence_to_vector", (x, network), (2, 4)),
        ("encoder_decoder", (x, y, network, weights), (2, 3, 4)),
    ):
        u = rng.normal(size=shape)
        for form, first in ((name, ()), (f"{name}_vjp", (u,))):
            got = getattr(recurrent, form)(*first, recurrent.rnn, *inputs, **options)
            want = getattr(formulas, form)(*first, recurrent.rnn, *inputs, **options)
            got, want = tree_leaves(got), tree_leaves(want)
            for ours, theirs in zip(got, want, strict=True):
                np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("name", ["rnn", "gru"])
def test_nan_stays_in_its_document(rng, name):
    f, arrays = getattr(recurrent, name), operands(rng, {"rnn": 1, "gru": 3}[name], 1)
    whole = f(*arrays, segment_ids=ROWS)
    arrays[0][:, 0] = np.nan
    broken = f(*arrays, segment_ids=ROWS)
    np.testing.assert_array_equal(broken[0, 3:], whole[0, 3:])
    np.testing.assert_array_equal(broken[1, 1:], whole[1, 1:])


@pytest.mark.parametrize("steps", [0, 1])
def test_few_steps(rng, steps):
    x, h, *weights = operands(rng, 1, 1)
    ids = ROWS[:, :steps]
    got = recurrent.rnn(x[:, :steps], h, *weights, segment_ids=ids)
    np.testing.assert_array_equal(got, recurrent.rnn(x[:, :steps], h, *weights))
    _, dh, *_ = recurrent.rnn_vjp(got, x[:, :steps], h, *weights, segment_ids=ids)
    assert dh.shape == h.shape


@pytest.mark.parametrize(
    ("error", "message", "ids"),
    [
        (TypeError, "'segment_ids' must be integer, not float64", np.zeros(9)),
        (ValueError, r"'segment_ids' must broadcast to \(..., T\) = \(2, 9\)", ROWS[:, :3]),
    ],
)
def test_errors(rng, error, message, ids):
    arrays = operands(rng, 1, 1)
    with pytest.raises(error, match=message):
        recurrent.rnn(*arrays, segment_ids=ids)
