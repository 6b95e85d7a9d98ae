"""Inline relations of convolution, and of its exercises."""

from equations.stated import draw, stated


@stated("docs/exercises/convolution/conv.rst")
def of_sizes_of_convolutions():
    a, b, x = draw(132, 3, 2, (5, 4))
    text = r"\sum_{kl} a_k b_l\, x_{i+k, j+l} = \sum_k a_k \bigl( \sum_l b_l\, x_{i+k, j+l} \bigr)"
    double = sum(a[k] * b[m] * x[1 + k, 2 + m] for k in range(3) for m in range(2))
    yield text, double, sum(a[k] * sum(b[m] * x[1 + k, 2 + m] for m in range(2)) for k in range(3))
