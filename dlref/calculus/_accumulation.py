r"""The cost of a chain of Jacobians, by the order of multiplication."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .._core.arguments import as_integer, choice

if TYPE_CHECKING:
    # the index of a Jacobian, or the pair of products that are multiplied
    Order = int | tuple["Order", "Order"]


def chain_cost(shapes: Sequence[tuple[int, int]], *, mode: str = "optimal") -> tuple[int, Order]:
    r"""
    Number of multiplications of a chain of Jacobians, and the order that attains it.

    Parameters
    ----------
    shapes : sequence of (int, int)
        Shapes of the Jacobians, the outermost function first, as in the product
        :math:`\mat J_1 \mat J_2 \cdots \mat J_L`: the columns of each are the rows of the next.
    mode : {"optimal", "forward", "reverse"}
        Order of accumulation: from the inputs forward, from the outputs backward, or the cheapest
        of all.

    Returns
    -------
    multiplications : int
        Scalar multiplications of dense products.
    order : int or nested tuple of int
        The products as pairs of positions in `shapes`: ``(0, (1, 2))`` is
        :math:`\mat J_1 (\mat J_2 \mat J_3)`. A chain of one is ``0``.

    Raises
    ------
    TypeError
        If a shape is not a pair of integers.
    ValueError
        If `shapes` is empty, a side is negative, the shapes do not fit, or `mode` is
        unknown.

    See Also
    --------
    chain_rule : Multiplies the Jacobians in the cheapest order.

    Notes
    -----
    Number the widths: :math:`\mat J_k` is :math:`n_{k-1} \times n_k`, from the output,
    :math:`n_0`, to the input, :math:`n_L`. A product of an :math:`a \times b` with a
    :math:`b \times c` matrix takes :math:`abc` multiplications.

    **Forward mode** starts at the input, :math:`\mat J_1 (\cdots (\mat J_{L-1} \mat J_L))`. Every
    intermediate product has :math:`n_L` columns:

    .. math:: C_\text{forward} = n_L \sum_{k=1}^{L-1} n_{k-1} n_k .

    **Reverse mode** starts at the output, :math:`((\mat J_1 \mat J_2) \cdots) \mat J_L`. Every
    intermediate product has :math:`n_0` rows:

    .. math:: C_\text{reverse} = n_0 \sum_{k=2}^{L} n_{k-1} n_k .

    The sums differ only in their end terms. Let all inner widths be :math:`n` and divide both costs
    by :math:`n`: forward mode is cheaper if
    :math:`n_L (n_0 + (L - 2) n) < n_0 (n_L + (L - 2) n)`, that is, if there are fewer inputs than
    outputs: :math:`n_L < n_0`. A loss has :math:`n_0 = 1` output and millions of inputs: this is
    why backpropagation runs in reverse.

    **Optimal.** The cost :math:`m_{ij}` of the best order for :math:`\mat J_i \cdots \mat J_j` is
    the cost of its best last product:

    .. math::

        m_{ii} = 0, \qquad
        m_{ij} = \min_{i \le k < j} \bigl( m_{ik} + m_{k+1,j} + n_{i-1} n_k n_j \bigr) .

    Filling the table of all :math:`i < j`, short chains first, takes :math:`O(L^3)` steps.
    For Jacobians with structure of their own (sparse, shared), finding the best order is
    NP-complete (:cite:t:`Naumann2008`); dense chains are the easy case. Where two orders cost the
    same, the one that splits later in the chain is returned.

    References
    ----------
    Forward and reverse accumulation are compared in :cite:t:`GriewankWalther2008`.

    Examples
    --------
    A loss of 1000 parameters through widths 100 and 10: reverse mode is cheap. Next to the number
    of multiplications stands the order: ``((0, 1), 2)`` multiplies Jacobians 0 and 1 first.

    >>> from dlref.calculus import chain_cost
    >>> loss = [(1, 10), (10, 100), (100, 1000)]
    >>> chain_cost(loss, mode="reverse")
    (101000, ((0, 1), 2))
    >>> chain_cost(loss, mode="forward")
    (1010000, (0, (1, 2)))

    With as many inputs as outputs, the best order can be neither:

    >>> chain = [(10, 30), (30, 2), (2, 30), (30, 10)]
    >>> [chain_cost(chain, mode=mode)[0] for mode in ("forward", "reverse", "optimal")]
    [4200, 4200, 1400]
    >>> chain_cost(chain)[1]
    ((0, 1), (2, 3))
    """
    widths = _widths(shapes)
    choice("mode", mode, ("forward", "reverse", "optimal"))
    length = len(widths) - 1
    cost = [[0] * length for _ in range(length)]
    split = [[0] * length for _ in range(length)]
    for span in range(1, length):
        for i in range(length - span):
            j = i + span
            cuts = {"forward": [i], "reverse": [j - 1], "optimal": range(j - 1, i - 1, -1)}[mode]
            cost[i][j], split[i][j] = min(
                (
                    (cost[i][k] + cost[k + 1][j] + widths[i] * widths[k + 1] * widths[j + 1], k)
                    for k in cuts
                ),
                key=lambda candidate: candidate[0],
            )

    return cost[0][-1], _order(split, 0, length - 1)


def _order(split: list[list[int]], i: int, j: int) -> Order:
    """Read the order of a chain off the positions of its last products."""
    if i == j:
        return i
    return _order(split, i, split[i][j]), _order(split, split[i][j] + 1, j)


def _widths(shapes: Sequence[tuple[int, int]]) -> list[int]:
    """Return the sides that a chain of matrices passes through, from output to input."""
    widths: list[int] = []
    for position, shape in enumerate(shapes):
        name = f"shapes[{position}]"
        if not isinstance(shape, tuple | list) or len(shape) != 2:
            msg = f"Argument {name!r} must be a pair of integers, not {shape!r}."
            raise TypeError(msg)
        rows, columns = (as_integer(name, side, least=0) for side in shape)
        if widths and rows != widths[-1]:
            msg = (
                f"Argument {name!r} must have {widths[-1]} rows to fit the one before, not {rows}."
            )
            raise ValueError(msg)
        widths += [columns] if widths else [rows, columns]
    if not widths:
        msg = "Argument 'shapes' must hold at least one shape, not 0."
        raise ValueError(msg)
    return widths
