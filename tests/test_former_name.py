"""What was written while the project was called tagflow is still read; see docs/renaming.md."""

import io
import json
import pickle
import re
from pathlib import Path

import numpy as np
import pytest
import tagloom as tg
from tagloom.training import Checkpointer

PAGE = (Path(__file__).parents[1] / "docs" / "renaming.md").read_text()


def model():
    with tg.Graph().as_default() as graph:
        w = tg.Variable(np.arange(3.0, dtype=np.float32), name="w")
        return graph, w, tg.global_variables_initializer(), w.assign(tg.zeros([3]))


def under_the_former_name(directory):
    """Rewrite the checkpoints in `directory` as the engine wrote them then: names have the same length."""
    files = [path for path in directory.rglob("*") if path.is_file()]
    for path in files:
        path.write_bytes(path.read_bytes().replace(b"tagloom", b"tagflow"))
    return files


async def test_checkpoints_are_restored(tmp_path):
    graph, w, init, change = model()
    async with Checkpointer(tmp_path) as checkpointer, tg.Session(graph) as session:
        await session.run(init)
        await (await checkpointer.save(session, 1))
        files = under_the_former_name(tmp_path)
        (manifest,) = [path for path in files if path.name == "manifest.json"]
        assert json.loads(manifest.read_text())["format"] == "tagflow checkpoint"
        await session.run(change)
        assert await checkpointer.restore(session) is not None
        assert (await session.run(w)).tolist() == [0, 1, 2]


def test_pickled_graphs_are_read_by_the_page_s_unpickler():
    graph, *_ = model()
    former = pickle.dumps(graph, 4).replace(b"tagloom", b"tagflow")
    assert b"tagflow" in former
    page = {}
    exec(re.search(r"```python\n(.*?)```", PAGE, re.S)[1], page)
    again = page["FormerNames"](io.BytesIO(former)).load()
    assert again.to_text() == graph.to_text()


def test_the_former_name_of_the_root_error_catches_errors():
    with pytest.raises(tg.TagflowError):
        tg.matmul([1.0], [2.0])
    assert tg.TagflowError is tg.TagloomError
    assert "TagflowError" not in dir(tg)
