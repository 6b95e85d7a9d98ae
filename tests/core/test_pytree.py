"""Tests of dlref._core.pytree."""

from typing import NamedTuple

from dlref._core.pytree import map_tree, tree_leaves, tree_unflatten


class Pair(NamedTuple):
    left: object
    right: object


def test_trees_keep_their_types_and_nones():
    tree = Pair((1, None), 2)
    assert map_tree(lambda a: None if a is None else -a, tree) == Pair((-1, None), -2)
    assert tree_leaves(tree) == [1, None, 2]
    assert tree_unflatten(tree, iter("ab")) == Pair(("a", None), "b")


def test_several_trees_are_mapped_together():
    point, direction = Pair((1, 2), 3), Pair((10, 20), (None, None))
    added = map_tree(lambda a, b: a if isinstance(b, tuple) else a + b, point, direction)
    assert added == Pair((11, 22), 3)


def test_other_nodes_than_tuples():
    def is_node(value):
        return isinstance(value, list) or type(value) is tuple

    assert map_tree(str, [1, (Pair(2, 3),)], is_node=is_node) == ["1", ("Pair(left=2, right=3)",)]
