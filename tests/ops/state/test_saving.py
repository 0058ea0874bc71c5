"""Save and Restore in a graph: files, slices, one on each device, cancelled and failing."""

import asyncio
import os
import threading

import numpy as np
import pytest
import tagloom as tg
from tagloom.base.safetensors import TensorFile, streams, writing

from tests.runtime.tasks import only_this_task

FLOATS = np.arange(12, dtype=np.float32).reshape(4, 3)


@pytest.fixture(params=["machine", "reference"])
def executor(request):
    return request.param


async def run(graph, *fetches, executor="machine", feeds=None, **options):
    async with tg.Session(graph, executor=executor, **options) as session:
        return [await session.run(fetch, feeds) for fetch in fetches]


async def test_variables_are_saved_and_restored_then_assigned(graph, executor, tmp_path):
    """As in TensorFlow 1: Restore, then Assign (Abadi et al., 2016, section 4.3)."""
    path = tmp_path / "weights"
    w, k = tg.Variable(FLOATS, name="w"), tg.Variable(np.int64(7), name="k")
    names, whole = ["w", "k"], ["", ""]
    save = tg.save_v2(str(path), names, whole, [w, k])
    found = tg.restore_v2(str(path), names, whole, ["float32", "int64"])
    restore = tg.group(*(v.assign(value).op for v, value in zip((w, k), found, strict=True)))
    change = tg.group(w.assign(w * 0.0).op, k.assign_add(1).op)
    init = tg.global_variables_initializer()
    async with tg.Session(graph, executor=executor) as session:
        for step in (init, save, change):
            await session.run(step)
        assert (await session.run(k)) == 8
        await session.run(restore)
        np.testing.assert_array_equal(await session.run(w), FLOATS)
        assert (await session.run(k)) == 7
    assert os.listdir(tmp_path) == ["weights.safetensors"]
    with TensorFile(tmp_path / "weights.safetensors") as file:
        assert sorted(file) == ["k", "w"]


async def test_all_dtypes_and_names_from_tensors(graph, executor, tmp_path):
    values = [np.array(["a", "ä"], "T"), np.array(1j), np.array([True]), FLOATS.astype(tg.bfloat16.numpy)]
    names = tg.constant(["s", "z", "b", "h"])
    path = tg.placeholder("string", [])
    save = tg.save_v2(path, names, tg.constant([""] * 4), list(map(tg.constant, values)))
    found = tg.restore_v2(path, names, tg.constant([""] * 4), [v.dtype for v in map(tg.constant, values)])
    _, results = await run(graph, save, found, executor=executor, feeds={path: str(tmp_path / "x.safetensors")})
    for result, value in zip(results, values, strict=True):
        assert result.dtype == value.dtype
        assert result.tolist() == value.tolist()
    assert os.listdir(tmp_path) == ["x.safetensors"]


async def test_each_device_saves_what_it_has(graph, tmp_path):
    saves = []
    for i in range(2):
        with tg.device(f"/cpu:{i}"):
            v = tg.Variable(FLOATS + i, name=f"v{i}")
            saves.append(tg.save_v2(str(tmp_path / f"shard{i}"), [v.name], [""], [v]))
    init = tg.global_variables_initializer()
    async with tg.Session(graph, devices=2) as session:
        await session.run(init)
        step = session.make_step(tg.group(*saves))
        await step()
        assert [part.count("= SaveV2(") for part in step.to_text().split("# /job")[1:]] == [1, 1]
    for i in range(2):
        with TensorFile(tmp_path / f"shard{i}.safetensors") as file:
            np.testing.assert_array_equal(file[f"v{i}"].copy(), FLOATS + i)


@pytest.mark.parametrize(
    ("spec", "wanted"),
    [
        ("", FLOATS),
        ("4 3 0,2:-", FLOATS[:2]),
        ("4 3 1,2:1,2", FLOATS[1:3, 1:]),
        ("4 3 2,0:-", FLOATS[2:2]),
        ("4 3 -:2,1", FLOATS[:, 2:]),
    ],
)
@pytest.mark.parametrize("saved", [[""], ["4 3 0,1:-", "4 3 1,3:-"], ["4 3 -:0,2", "4 3 0,2:2,1", "4 3 2,2:2,1"]])
async def test_slices_are_put_together(graph, executor, tmp_path, saved, spec, wanted):
    from tagloom.ops.state.saving import _parse_part

    parts = [FLOATS[tuple(slice(*bounds) for bounds in _parse_part(each).bounds)] if each else FLOATS for each in saved]
    path = str(tmp_path / "w")
    save = tg.save_v2(path, ["w"] * len(parts), saved, list(map(tg.constant, parts)))
    (found,) = tg.restore_v2(path, ["w"], [spec], ["float32"])
    _, result = await run(graph, save, found, executor=executor)
    np.testing.assert_array_equal(result, wanted)


async def fails(graph, fetch, match, **options):
    with pytest.raises(tg.TagloomError) as caught:
        await run(graph, fetch, **options)
    error = caught.value if isinstance(caught.value, tg.CheckpointError) else caught.value.__cause__
    assert isinstance(error, tg.CheckpointError)
    assert match in error.what
    return error


async def test_what_does_not_fit_is_said(graph, executor, tmp_path):
    path = str(tmp_path / "w")
    save = tg.save_v2(path, ["w", "part"], ["", "4 3 0,2:-"], [FLOATS, FLOATS[:2]])
    await run(graph, save)
    for name, spec, dtype, match in (
        ("nobody", "", "float32", "does not have this tensor"),
        ("w", "", "int32", "another one"),
        ("w", "5 3 0,1:-", "float32", "another one"),
        ("part", "", "float32", "only some slices"),
        ("part", "4 3 1,2:-", "float32", "only some slices"),
    ):
        (found,) = tg.restore_v2(path, [name], [spec], [dtype])
        error = await fails(graph, found, match, executor=executor)
        assert (error.file, error.variable) == (path + ".safetensors", name)
    for spec in ("4 3", "4 3 0,2", "x 3 -:-", "4 3 0,5:-", "4 3 -1,2:-"):
        (found,) = tg.restore_v2(path, ["w"], [spec], ["float32"])
        await fails(graph, found, "no slice", executor=executor)
    await fails(graph, tg.save_v2(path, ["w"], ["4 3 0,1:-"], [FLOATS]), "shape of its slice", executor=executor)
    (found,) = tg.restore_v2(str(tmp_path / "nobody"), ["w"], [""], ["float32"])
    await fails(graph, found, "a file cannot be read", executor=executor)
    await fails(graph, tg.save_v2(str(tmp_path / "no" / "w"), ["w"], [""], [FLOATS]), "No such file", executor=executor)


def test_counts_have_to_agree(graph):
    with pytest.raises(tg.GraphError, match="each tensor has a name"):
        tg.save_v2("x", ["a"], ["", ""], [FLOATS, FLOATS])
    with pytest.raises(tg.GraphError, match="each tensor has a name"):
        tg.restore_v2("x", ["a", "b"], ["", ""], ["float32"])


async def test_a_loop_saves_in_each_iteration(graph, executor, tmp_path):
    def body(i):
        path = tg.constant(str(tmp_path) + "/w") + tg.as_string(i)
        with tg.control_dependencies([tg.save_v2(path, ["i"], [""], [i])]):
            return i + 1

    await run(graph, tg.while_loop(lambda i: i < 3, body, [0]), executor=executor)
    for i in range(3):
        with TensorFile(tmp_path / f"w{i}.safetensors") as file:
            assert file["i"].copy() == i


async def test_a_cancelled_step_leaves_no_file(graph, executor, tmp_path, monkeypatch):
    """The thread has begun to write: it is stopped, and the step ends when nothing is left."""
    reached, go, write = threading.Event(), threading.Event(), os.write

    class Waits:
        def __getattr__(self, name):
            return self.write if name == "write" else getattr(os, name)

        def write(self, *args):
            reached.set()
            go.wait(60)
            return write(*args)

    monkeypatch.setattr(streams, "os", Waits())
    save = tg.save_v2(str(tmp_path / "w"), ["w"], [""], [FLOATS])
    async with tg.Session(graph, executor=executor) as session:
        saving = asyncio.ensure_future(session.run(save))
        await asyncio.to_thread(reached.wait, 60)
        assert len(os.listdir(tmp_path)) == 1
        saving.cancel()
        for _ in range(3):
            await asyncio.sleep(0)
        assert not saving.done()
        go.set()
        with pytest.raises(asyncio.CancelledError):
            await saving
        assert os.listdir(tmp_path) == []
        await session.run(save)
        assert os.listdir(tmp_path) == ["w.safetensors"]
    assert only_this_task()


async def test_the_loop_goes_on_while_a_file_is_written(graph, tmp_path, monkeypatch):
    """A file that is being written waits for another step of the same session."""
    go = threading.Event()

    class Waits:
        def __getattr__(self, name):
            return (lambda file: (go.wait(60), os.fsync(file))) if name == "fsync" else getattr(os, name)

    monkeypatch.setattr(writing, "os", Waits())
    save = tg.save_v2(str(tmp_path / "w"), ["w"], [""], [FLOATS])
    other = tg.py_function(lambda: go.set(), [], [])
    async with tg.Session(graph) as session:
        await asyncio.gather(session.run(save), session.run(other))
