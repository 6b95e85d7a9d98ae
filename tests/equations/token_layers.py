"""The displayed equations of embedding, dropout and a layer with a correction of low rank."""

import itertools

import numpy as np
from equations.ledger import definition, equation
from equations.numeric import gradients, rate

from dlref.neurons import (
    dropout,
    dropout_jvp,
    dropout_vjp,
    embedding,
    embedding_jvp,
    embedding_vjp,
    lora_linear,
    lora_linear_jvp,
    lora_linear_vjp,
)

RNG = np.random.default_rng(0)
IDS = np.array([2, 0, 2, 1])
TABLE_OF_TOKENS = RNG.normal(size=(4, 3))


@definition(r"y_{nd} = c\, E_{t_n d} = c \sum_i [t_n = i]\, E_{i d} .")
def rows_of_a_table():
    E = TABLE_OF_TOKENS
    picked = [[0.5 * E[t, d] for d in range(3)] for t in IDS]
    summed = [[0.5 * sum((t == i) * E[i, d] for i in range(4)) for d in range(3)] for t in IDS]
    yield picked, summed, embedding(E, IDS, scale=0.5)


@equation(
    r"\pdv{L}{E_{id}} = c \sum_n [t_n = i]\, u_{nd} .",
    r"\dot y_{nd} = c\, \dot E_{t_n d} .",
)
def derivatives_of_an_embedding():
    E, u, dE = TABLE_OF_TOKENS, RNG.normal(size=(4, 3)), RNG.normal(size=(4, 3))
    by_hand = [
        [0.5 * sum((t == i) * u[n, d] for n, t in enumerate(IDS)) for d in range(3)]
        for i in range(4)
    ]
    (grad,) = gradients(lambda E: np.sum(u * 0.5 * E[IDS]), E)
    yield grad, by_hand, embedding_vjp(u, E, IDS, scale=0.5)
    moved = [[0.5 * dE[t, d] for d in range(3)] for t in IDS]
    yield moved, embedding_jvp((E, IDS), (dE, None), scale=0.5)


def all_masks(p, n):
    """Return all masks of n elements, and the probability of each."""
    bits = np.array(list(itertools.product([0, 1], repeat=n)))
    return bits / (1 - p), np.prod(np.where(bits, 1 - p, p), axis=1)


@equation(
    r"""y_i = m_i x_i , \qquad \E[y_i] = x_i , \qquad
    \E[(y_i - x_i)^2] = \frac{p}{1 - p}\, x_i^2 .""",
    r"""\E\bigl[ (\vec w \cdot \vec y - t)^2 \bigr] = (\vec w \cdot \vec x - t)^2
    + \frac{p}{1 - p} \sum_i w_i^2 x_i^2 ,""",
)
def moments_of_dropout():
    p, x, w, t = 0.3, RNG.normal(size=4), RNG.normal(size=4), 0.7
    masks, weights = all_masks(p, 4)
    y = dropout(np.tile(x, (16, 1)), masks)
    yield masks * x, y
    yield weights @ y, x
    yield weights @ (y - x) ** 2, p / (1 - p) * x**2
    penalty = p / (1 - p) * sum(w[i] ** 2 * x[i] ** 2 for i in range(4))
    yield weights @ (y @ w - t) ** 2, (w @ x - t) ** 2 + penalty


@equation(r"\pdv{L}{x_i} = m_i u_i .", r"\dot y_i = m_i \dot x_i .")
def derivatives_of_dropout():
    x, u, dx, m = *RNG.normal(size=(3, 4)), np.array([0.0, 2.0, 2.0, 0.0])
    (grad,) = gradients(lambda x: np.sum(u * m * x), x)
    yield grad, [m[i] * u[i] for i in range(4)], dropout_vjp(u, x, m)
    moved = [m[i] * dx[i] for i in range(4)]
    yield rate(lambda x: m * x, [x], [dx]), moved, dropout_jvp((x, m), (dx, None))


LORA = tuple(RNG.normal(size=s) for s in ((4, 5), (3, 5), (2, 5), (3, 2), (3,)))


def low_rank(x, w, a, b, bias):
    return x @ w.T + 0.5 * (x @ a.T) @ b.T + bias


@definition(
    r"""\vec y = \mat W \vec x + s\, \mat B (\mat A \vec x) + \vec b_0
    = (\mat W + s\, \mat B \mat A)\, \vec x + \vec b_0 ."""
)
def layer_with_a_correction():
    x, w, a, b, bias = LORA
    one = [w @ row + 0.5 * b @ (a @ row) + bias for row in x]
    merged = [(w + 0.5 * b @ a) @ row + bias for row in x]
    yield one, merged, lora_linear(*LORA, scale=0.5)


@equation(
    r"""\pdv{L}{\mat B} = s \sum_n \vec u_n (\mat A \vec x_n)^\top , \qquad
    \pdv{L}{\mat A} = s \sum_n (\mat B^\top \vec u_n)\, \vec x_n^\top , \qquad
    \pdv{L}{\vec x_n} = \mat W^\top \vec u_n + s\, \mat A^\top \mat B^\top \vec u_n ."""
)
def gradients_of_a_correction():
    (x, w, a, b, _), u, s = LORA, RNG.normal(size=(4, 3)), 0.5
    want = gradients(lambda *ops: np.sum(u * low_rank(*ops)), *LORA)
    dx, da, db, _ = lora_linear_vjp(u, *LORA, scale=s)
    yield want[3], s * sum(np.outer(u[n], a @ x[n]) for n in range(4)), db
    yield want[2], s * sum(np.outer(b.T @ u[n], x[n]) for n in range(4)), da
    yield want[0], [w.T @ u[n] + s * a.T @ b.T @ u[n] for n in range(4)], dx


@equation(
    r"""\dot{\vec y} = \mat W \dot{\vec x} + s \bigl( \dot{\mat B} \mat A \vec x
    + \mat B \dot{\mat A} \vec x + \mat B \mat A \dot{\vec x} \bigr) + \dot{\vec b}_0 ."""
)
def tangent_of_a_correction():
    (x, w, a, b, _), s = LORA, 0.5
    dx, _, da, db, dbias = moves = [RNG.normal(size=o.shape) for o in LORA]
    moves[1] = np.zeros(w.shape)
    by_hand = [
        w @ dx[n] + s * (db @ a @ x[n] + b @ da @ x[n] + b @ a @ dx[n]) + dbias for n in range(4)
    ]
    moved = lora_linear_jvp(LORA, (dx, None, da, db, dbias), scale=s)
    yield rate(low_rank, LORA, moves), by_hand, moved
