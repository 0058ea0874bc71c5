"""Checkpoints that another version of NumPy has written, which may draw other random numbers."""

import warnings

import numpy as np
import pytest
import tagloom as tg
from tagloom.training import Checkpointer
from tagloom.training.checkpoints import manifest


def graph_of(draw):
    with tg.Graph().as_default() as graph:
        total = tg.Variable(0.0, name="total")
        _, value = tg.while_loop(lambda i, x: i < 2, lambda i, x: (i + 1, x + tg.reduce_sum(draw())), [0, 0.0])
        total.assign_add(value)
        graph.init = tg.global_variables_initializer()
    return graph


DRAWS = {
    "RandomStandardNormal": lambda: tg.random_normal([2]),
    "Categorical": lambda: tg.cast(tg.categorical([[0.5, 0.5]], 3), "float32"),
    "RandomUniform": lambda: tg.dropout(tg.random_uniform([2]), 0.5),
    None: lambda: tg.constant([1.0]),
}


@pytest.mark.parametrize("drawn", DRAWS)
async def test_a_graph_that_draws_by_numpys_generator_is_warned(tmp_path, monkeypatch, drawn):
    graph = graph_of(DRAWS[drawn])
    async with tg.Session(graph) as session, Checkpointer(tmp_path) as checkpointer:
        await session.run(graph.init)
        monkeypatch.setattr(manifest.np, "__version__", "1.99.0")
        await (await checkpointer.save(session, 1))
        monkeypatch.undo()
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            await checkpointer.restore(session)
        await (await checkpointer.save(session, 2))
        await checkpointer.restore(session)  # by this version: no warning, which would be an error
    texts = [str(each.message) for each in found]
    if drawn in ("RandomUniform", None):
        assert texts == []
    else:
        (text,) = texts
        assert f"saved with NumPy 1.99.0, and this is NumPy {np.__version__}" in text
        assert drawn in text
