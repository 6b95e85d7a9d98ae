"""Empty batches of very long sequences: the result is empty, and it is there at once."""

import time

import numpy as np
import pytest

from dlref import attention, recurrent

LONG = 2**33  #: steps; the arrays are empty


def sequence(*inner, steps=LONG):
    return np.zeros((0, *inner[:-1], steps, inner[-1]))


W = np.zeros((2, 2))


def rows(count):
    return np.tile(W, (count, 1))


X, HEADS = sequence(2), sequence(2, 4)
CALLS = {
    "rnn": lambda: recurrent.rnn(X, None, W, W),
    "rnn_vjp": lambda: recurrent.rnn_vjp(X, X, None, W, W)[0],
    "lstm": lambda: recurrent.lstm(X, None, None, rows(4), rows(4))[0],
    "lstm_vjp": lambda: recurrent.lstm_vjp((X, X), X, None, None, rows(4), rows(4))[0],
    "gru": lambda: recurrent.gru(X, None, rows(3), rows(3)),
    "gru_vjp": lambda: recurrent.gru_vjp(X, X, None, rows(3), rows(3))[0],
    "sdpa": lambda: attention.scaled_dot_product_attention(HEADS, HEADS, HEADS),
    "sdpa_vjp": lambda: attention.scaled_dot_product_attention_vjp(*4 * [HEADS])[0],
    "sdpa_jvp": lambda: attention.scaled_dot_product_attention_jvp(
        2 * [HEADS] + [HEADS], 3 * [HEADS]
    ),
    "delta": lambda: attention.recurrent_linear_attention(HEADS, HEADS, HEADS)[0],
    "delta_vjp": lambda: attention.recurrent_linear_attention_vjp(
        (HEADS, np.zeros((0, 2, 4, 4))), HEADS, HEADS, HEADS
    )[0],
}


@pytest.mark.parametrize("name", CALLS)
def test_an_empty_batch_returns_at_once(name):
    start = time.process_time()
    out = CALLS[name]()
    assert out.size == 0
    assert out.shape[-2] == LONG
    # a compilation takes seconds; 2**33 steps of nothing took minutes
    assert time.process_time() - start < 20
