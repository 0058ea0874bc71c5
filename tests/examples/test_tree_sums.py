"""A network over syntax trees, read from Python's sources, learns what expressions come to."""

import ast

import numpy as np

from examples.tree_sums import ADD, MULTIPLY, SUBTRACT, Size, draw, read_trees, train, tree_of, values

SMALL = Size(units=16, batch=16, nodes=7)


async def test_it_learns_sums_and_products():
    losses, right, report = await train(SMALL, 200, say=str)
    assert np.mean(losses[-10:]) < np.mean(losses[:10]) / 2
    assert right > 0.6
    assert report.loops[0].not_native is None


def test_a_tree_has_each_node_behind_its_operands():
    tree = tree_of(ast.parse("(a - f(2)) * b + 1", mode="eval").body)
    assert tree.kinds == (-1, -1, SUBTRACT, -1, MULTIPLY, -1, ADD)
    assert (tree.left[6], tree.right[6]) == (4, 5)
    assert (tree.left[4], tree.right[4]) == (2, 3)
    assert values(tree, [2, 1, 0, 2, 0, 1, 0], 3) == [2, 1, 1, 2, 2, 1, 0]
    assert tree_of(ast.parse("a", mode="eval").body) is None


def test_there_are_trees_of_all_operations_in_the_standard_library():
    trees = read_trees(SMALL.nodes)
    assert len(trees) > 30
    assert {kind for tree in trees for kind in tree.kinds} == {-1, ADD, SUBTRACT, MULTIPLY}
    assert max(len(tree.kinds) for tree in trees) == SMALL.nodes


def test_a_forest_is_trees_one_behind_the_other():
    trees = read_trees(SMALL.nodes)
    kinds, digits, left, right, wanted = draw(np.random.default_rng(0), trees, SMALL)
    meanings = {ADD: int.__add__, SUBTRACT: int.__sub__, MULTIPLY: int.__mul__}
    for k, kind in enumerate(kinds):
        if kind < 0:
            assert wanted[k] == digits[k]
        else:
            assert max(left[k], right[k]) < k
            assert wanted[k] == meanings[kind](int(wanted[left[k]]), int(wanted[right[k]])) % SMALL.modulus
