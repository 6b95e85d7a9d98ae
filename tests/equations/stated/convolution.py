"""Inline relations of convolution, and of its exercises."""

import numpy as np
from equations.stated import draw, stated

from dlref import convolution


@stated("docs/exercises/convolution/conv.rst")
def of_sizes_of_convolutions():
    a, b, x = draw(132, 3, 2, (5, 4))
    text = r"\sum_{kl} a_k b_l\, x_{i+k, j+l} = \sum_k a_k \bigl( \sum_l b_l\, x_{i+k, j+l} \bigr)"
    double = sum(a[k] * b[m] * x[1 + k, 2 + m] for k in range(3) for m in range(2))
    yield text, double, sum(a[k] * sum(b[m] * x[1 + k, 2 + m] for m in range(2)) for k in range(3))


@stated("dlref/convolution/_max_pool.py")
def of_the_winners_of_max_pooling():
    x, t, s, p = draw(62, 9)[0], 2, 2, 1
    grad = convolution.max_pool_vjp(np.eye(5)[[t]], x[None], size=(3,), stride=s, padding=p)
    window = x[s * t - p : s * t - p + 3]
    text = r"k_t = \arg\max_k x_{s t + k - p}"
    yield text, np.argmax(window), np.flatnonzero(grad[0])[0] - s * t + p
