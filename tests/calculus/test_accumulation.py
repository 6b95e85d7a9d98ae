"""Tests of dlref.calculus._accumulation."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dlref.calculus import chain_cost

WIDTHS = st.lists(st.integers(1, 50), min_size=2, max_size=8)


@pytest.mark.parametrize(("inputs", "ratio"), [(1, 1.0), (64, 48.25), (4096, 184.358)])
def test_what_reverse_mode_saves_for_one_output(inputs, ratio):
    shapes = shapes_of([1, 64, 64, 64, 64, inputs])
    forward, reverse = (chain_cost(shapes, mode=mode)[0] for mode in ("forward", "reverse"))
    assert forward / reverse == pytest.approx(ratio, rel=1e-5)


def shapes_of(widths):
    return list(itertools.pairwise(widths))


def cost_of(order, widths):
    """Count the multiplications of an order by carrying it out."""
    if isinstance(order, int):
        return 0, widths[order], widths[order + 1]
    left, m, k = cost_of(order[0], widths)
    right, inner, n = cost_of(order[1], widths)
    assert k == inner
    return left + right + m * k * n, m, n


def every_order(i, j):
    if i == j:
        yield i
    for k in range(i, j):
        for left in every_order(i, k):
            for right in every_order(k + 1, j):
                yield left, right


class TestCost:
    @settings(derandomize=True, database=None, deadline=None)
    @given(WIDTHS, st.sampled_from(["forward", "reverse", "optimal"]))
    def test_is_that_of_the_order_returned(self, widths, mode):
        multiplications, order = chain_cost(shapes_of(widths), mode=mode)
        assert cost_of(order, widths) == (multiplications, widths[0], widths[-1])

    @settings(derandomize=True, database=None, deadline=None, max_examples=40)
    @given(st.lists(st.integers(1, 50), min_size=2, max_size=7))
    def test_optimal_is_the_least_of_all_orders(self, widths):
        least = min(cost_of(order, widths)[0] for order in every_order(0, len(widths) - 2))
        assert chain_cost(shapes_of(widths))[0] == least

    @settings(derandomize=True, database=None, deadline=None)
    @given(WIDTHS)
    def test_forward_and_reverse_formulas(self, widths):
        n = widths
        inner = range(1, len(n) - 1)
        assert chain_cost(shapes_of(n), mode="forward")[0] == n[-1] * sum(
            n[k - 1] * n[k] for k in inner
        )
        assert chain_cost(shapes_of(n), mode="reverse")[0] == n[0] * sum(
            n[k] * n[k + 1] for k in inner
        )

    def test_multi_dot_finds_no_better_order(self, rng):
        widths = [10, 100, 5, 50, 1]
        matrices = [rng.normal(size=shape) for shape in shapes_of(widths)]
        assert chain_cost([m.shape for m in matrices])[1] == (0, (1, (2, 3)))
        np.testing.assert_allclose(
            np.linalg.multi_dot(matrices),
            matrices[0] @ (matrices[1] @ (matrices[2] @ matrices[3])),
        )


class TestOrder:
    def test_forward_and_reverse(self):
        chain = [(2, 2)] * 4
        assert chain_cost(chain, mode="forward")[1] == (0, (1, (2, 3)))
        assert chain_cost(chain, mode="reverse")[1] == (((0, 1), 2), 3)

    def test_chain_of_one_needs_no_product(self):
        assert chain_cost([(3, 4)]) == (0, 0)

    def test_numpy_integers_and_empty_sides(self):
        assert chain_cost([(np.int64(2), 0), [0, 3]]) == (0, (0, 1))

    def test_large_counts_do_not_wrap(self):
        assert chain_cost([(10**7, 10**7)] * 2)[0] == 10**21


class TestErrors:
    @pytest.mark.parametrize(
        ("shapes", "error", "words"),
        [
            ([], ValueError, "'shapes' must hold at least one shape"),
            ([(2, 3), (4, 5)], ValueError, r"'shapes\[1\]' must have 3 rows .*, not 4"),
            ([(2, -1)], ValueError, r"'shapes\[0\]' must be at least 0, not -1"),
            ([(2, 3, 4)], TypeError, r"'shapes\[0\]' must be a pair of integers"),
            ([5], TypeError, r"'shapes\[0\]' must be a pair of integers, not 5"),
            ([(2.0, 3)], TypeError, r"'shapes\[0\]' must be an integer, not 2\.0"),
        ],
    )
    def test_shapes(self, shapes, error, words):
        with pytest.raises(error, match=f"^Argument {words}"):
            chain_cost(shapes)

    def test_mode(self):
        with pytest.raises(
            ValueError, match=r"'mode' must be 'forward', 'reverse' or 'optimal', not"
        ):
            chain_cost([(1, 1)], mode="backward")
