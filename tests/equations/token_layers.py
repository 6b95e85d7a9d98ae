"""The displayed equations of embedding, dropout and a layer with a correction of low rank."""

import functools
import itertools

import numpy as np
from equations.evaluate import Of, Random, mapped
from equations.ledger import reads

from dlref.formulas import neurons as formulas
from dlref.formulas.normalization import weight_norm

RNG = np.random.default_rng(0)
IDS = np.array([2, 0, 2, 1])
TABLE = mapped(
    lambda table: formulas.embedding(table, IDS, scale=0.5),
    {"E": RNG.normal(size=(4, 3))},
    t=IDS,
    c=0.5,
)


@reads(
    r"y_{nd} = c\, E_{t_n d} = c \sum_i [t_n = i]\, E_{i d} .",
    r"\pdv{L}{E_{id}} = c \sum_n [t_n = i]\, u_{nd} .",
    r"\dot y_{nd} = c\, \dot E_{t_n d} .",
)
def rows_of_a_table_and_their_derivatives():
    return TABLE


def all_masks(p, n):
    """Return all masks of n elements, and the probability of each."""
    bits = np.array(list(itertools.product([0, 1], repeat=n)))
    return bits / (1 - p), np.prod(np.where(bits, 1 - p, p), axis=1)


@reads(
    r"y_i = m_i x_i , \qquad \E[y_i] = x_i , \qquad \E[(y_i - x_i)^2] = \frac{p}{1 - p}\, x_i^2 .",
    r"\E\bigl[ (\vec w \cdot \vec y - t)^2 \bigr] = (\vec w \cdot \vec x - t)^2…",
)
def moments_of_dropout():
    masks, chances = all_masks(0.3, 4)
    given = {"p": 0.3, "x": RNG.normal(size=4), "w": RNG.normal(size=4), "t": 0.7}
    y = Of(formulas.dropout, "x", "m")
    return {**given, "m": masks[6], "y": y, r"\E": [Random(chances, m=masks)]}


@reads(r"\pdv{L}{x_i} = m_i u_i .", r"\dot y_i = m_i \dot x_i .")
def derivatives_of_dropout():
    m = np.array([0.0, 2.0, 2.0, 0.0])
    return mapped(formulas.dropout, {"x": RNG.normal(size=4), "m": m}, **{r"\dot m": 0 * m})


LORA = tuple(RNG.normal(size=s) for s in ((4, 5), (3, 5), (2, 5), (3, 2), (3,)))


@reads(r"\vec y = \mat W \vec x + s\, \mat B (\mat A \vec x) + \vec b_0…")
def layer_with_a_correction():
    x, *others = LORA
    names = "W", "A", "B", "b_0"
    given = {**dict(zip(names, others, strict=True)), "s": 0.5}
    y = formulas.lora_linear(*LORA, scale=0.5)
    return [{"x": row, "y": y[n], **given} for n, row in enumerate(x)]


@reads(r"\vec y = \operatorname{diag}(\vec m)\, \mat E \vec x + \vec b_0 , \qquad E_{ij}…")
def layer_of_dora():
    x, W, A, B, bias = LORA
    m = np.array([0.5, -2.0, 1.5])
    given = {"W": W, "A": A, "B": B, "b_0": bias, "s": 0.5, "m": m}
    y = x @ weight_norm(W + 0.5 * B @ A, m).T + bias
    return [{**given, "x": row, "y": y[n]} for n, row in enumerate(x)]


@reads(r"\pdv{L}{\mat B} = s \sum_n \vec u_n (\mat A \vec x_n)^\top , \qquad \pdv{L}{\mat A}…")
def gradients_of_a_correction():
    f = functools.partial(formulas.lora_linear, scale=0.5)
    return mapped(f, dict(zip(("x", "W", "A", "B", "b_0"), LORA, strict=True)), s=0.5)


@reads(r"\dot{\vec y} = \mat W \dot{\vec x} + s \bigl( \dot{\mat B} \mat A \vec x + \mat B…")
def tangent_of_a_correction():
    x, w, a, b, bias = LORA
    f = lambda x, a, b, bias: formulas.lora_linear(x[None], w, a, b, bias, scale=0.5)[0]  # noqa: E731
    return mapped(f, {"x": x[0], "A": a, "B": b, "b_0": bias}, W=w, s=0.5)
