"""A Checkpointer: what it saves when, what it keeps, what it restores, and what it says of what does not fit."""

import asyncio
import gc
import json
import os
import threading
from contextlib import suppress

import numpy as np
import pytest
import tagloom as tg
from tagloom.base.safetensors import TensorFile, save_file
from tagloom.ops.state.variables.operations import VariableSlot
from tagloom.training import Checkpointer
from tagloom.training.checkpoints import directory as files
from tagloom.training.checkpoints.others import open_saved

from tests.runtime.tasks import only_this_task
from tests.strict_array_library.device import StrictDevice
from tests.support.settings import ON
from tests.training.checkpoints.models import Model, bits, variables

FLOATS = np.arange(6, dtype=np.float32).reshape(2, 3)


async def saved(directory, graph, step=1, metrics=None, **options):
    """Save the initial values of a graph's variables."""
    async with tg.Session(graph) as session, Checkpointer(directory, **options) as checkpointer:
        await session.run(graph.init)
        return await (await checkpointer.save(session, step, metrics))


async def restored(directory, graph, path=None, **options):
    """Restore into a new session; return what was, and the values of its variables."""
    async with tg.Session(graph) as session, Checkpointer(directory) as checkpointer:
        found = await checkpointer.restore(session, path, **options)
        return found, await session.read_variables()


def opened():
    return len(os.listdir("/proc/self/fd"))


def names(directory):
    return sorted(os.listdir(directory))


# ---- files


async def test_a_checkpoint_is_a_manifest_and_a_file_that_others_read(tmp_path):
    graph = variables(w=FLOATS, k=np.int64(7), s=np.array(["ä"], np.dtypes.StringDType()))
    path = await saved(tmp_path / "new" / "directory", graph, 100, {"loss": 0.5})
    assert path == tmp_path / "new" / "directory" / "checkpoint-0000000100"
    assert names(path) == ["cpu-0.safetensors", "manifest.json"]
    with TensorFile(path / "cpu-0.safetensors") as file:
        np.testing.assert_array_equal(file["w"].copy(), FLOATS)
        assert file["s"].copy().tolist() == ["ä"]
    manifest = json.loads((path / "manifest.json").read_text())
    assert (manifest["step"], manifest["metrics"], manifest["random_state"]) == (100, {"loss": 0.5}, [0, 1])
    assert manifest["tensors"]["w"] == {"file": "cpu-0.safetensors", "dtype": "float32", "shape": [2, 3]}
    assert manifest["library"] == f"tagloom {tg.__version__}"
    found, values = await restored(path.parent, variables(w=FLOATS * 0, k=np.int64(0), s=np.array(["ä"], "T")))
    assert (found.path, found.step, dict(found.metrics)) == (str(path), 100, {"loss": 0.5})
    assert sorted(found.variables) == ["k", "s", "w"]
    np.testing.assert_array_equal(values["w"], FLOATS)
    assert (values["k"], values["s"].tolist()) == (7, ["ä"])


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "complex128", "complex64", "bool", "uint16", "int8"])
async def test_variables_of_all_dtypes_come_back(tmp_path, dtype):
    value = np.array([[0, 1], [3, 2]]).astype(tg.as_dtype(dtype).numpy)
    await saved(tmp_path, variables(v=value))
    _, values = await restored(tmp_path, variables(v=np.zeros_like(value)))
    assert bits(values) == bits({"v": value})


async def test_each_device_has_a_file(tmp_path):
    with tg.Graph().as_default() as graph:
        for i in range(2):
            with tg.device(f"/cpu:{i}"):
                tg.Variable(np.full(40, i + 1, np.float32), name=f"v{i}")
        init = tg.global_variables_initializer()
    async with tg.Session(graph, devices=2, settings=ON) as session, Checkpointer(tmp_path) as checkpointer:
        await session.run(init)
        path = await (await checkpointer.save(session, 1))
        assert names(path) == ["cpu-0.safetensors", "cpu-1.safetensors", "manifest.json"]
        await session.write_variables({"v0": np.zeros(40, np.float32), "v1": np.zeros(40, np.float32)})
        await checkpointer.restore(session)
        assert [(await session.read_variables())[f"v{i}"][0] for i in range(2)] == [1, 2]


async def test_the_session_is_not_kept_waiting_for_the_disk(tmp_path, monkeypatch):
    """Nothing is written until the test lets it be, and training goes on meanwhile; what is saved is what was."""
    go, write = threading.Event(), files.write_tensors
    monkeypatch.setattr(files, "write_tensors", lambda *args: (go.wait(60), write(*args))[1])
    model = Model()
    async with tg.Session(model.graph) as session, Checkpointer(tmp_path) as checkpointer:
        await session.run(model.init)
        before = bits(await session.read_variables())
        saving = await checkpointer.save(session, 0)
        assert checkpointer.statistics().is_writing
        await model.run(session, 0, 3)
        assert not saving.done
        assert "being written" in repr(saving)
        assert names(tmp_path) == [] or all(name.startswith(".") for name in names(tmp_path))
        go.set()
        path = await saving
        assert await saving == path  # as often as you like
        statistics = checkpointer.statistics()
        assert (statistics.written, statistics.is_writing, statistics.last_path) == (1, False, str(path))
        assert statistics.last_seconds > 0
        await checkpointer.restore(session)
        assert bits(await session.read_variables()) == before


async def test_only_one_is_written_at_a_time_in_order(tmp_path, monkeypatch):
    running, most, write = 0, [], files.write_tensors

    def counted(*args):
        nonlocal running
        running += 1
        most.append(running)
        try:
            return write(*args)
        finally:
            running -= 1

    monkeypatch.setattr(files, "write_tensors", counted)
    graph = variables(w=FLOATS)
    async with tg.Session(graph) as session, Checkpointer(tmp_path) as checkpointer:
        await session.run(graph.init)
        savings = await asyncio.gather(*(checkpointer.save(session, step) for step in range(4)))
        await asyncio.gather(*savings)
    assert most == [1] * 4
    assert [saving.step for saving in savings] == [0, 1, 2, 3]


async def test_arrays_are_let_go_of_as_they_are_written(tmp_path, monkeypatch):
    """A checkpoint under way takes less and less memory: what was written is free for the next updates."""
    write, held = files.write_tensors, []
    graph = variables(**{f"v{i}": np.full(1 << 18, i, np.float32) for i in range(4)})
    with graph.as_default():
        updates = [v.assign_add(np.ones(1 << 18, np.float32)).op for v in tg.global_variables()]
    async with tg.Session(graph, settings=ON) as session, Checkpointer(tmp_path) as checkpointer:
        await session.run(graph.init)

        def counted(file, path, tensors, metadata, check, *more):
            def checked():
                held.append(session.statistics().live_bytes)
                check()

            return write(file, path, tensors, metadata, checked, *more)

        monkeypatch.setattr(files, "write_tensors", counted)
        stop = threading.Event()
        inner = write

        def waits(*args):
            stop.wait(60)
            return inner(*args)

        write = waits
        saving = await checkpointer.save(session, 1)
        await session.run(updates)  # every variable has a new array now
        stop.set()
        await saving
    falls = [held[0] - each for each in held]
    assert falls == sorted(falls)
    assert falls[-1] >= 3 << 20


# ---- what is kept


async def keep(directory, steps, metrics=lambda step: None, **options):
    graph = variables(w=FLOATS)
    async with tg.Session(graph) as session, Checkpointer(directory, **options) as checkpointer:
        await session.run(graph.init)
        for step in steps:
            await checkpointer.save(session, step, metrics(step))
    return [int(path.name.split("-")[1].split(".")[0]) for path in Checkpointer(directory).checkpoints()]


async def test_the_newest_are_kept(tmp_path):
    assert await keep(tmp_path, range(8), keep=3) == [5, 6, 7]
    assert names(tmp_path) == [f"checkpoint-{step:010d}" for step in (5, 6, 7)]


async def test_all_may_be_kept(tmp_path):
    assert await keep(tmp_path, range(8), keep=None) == list(range(8))


@pytest.mark.parametrize(("mode", "best"), [("min", [3, 4]), ("max", [0, 6])])
async def test_the_best_are_kept_too(tmp_path, mode, best):
    losses = [9.0, 5.0, 6.0, 1.0, 2.0, float("nan"), 8.0, 7.0, 7.5, 7.6]
    kept = await keep(tmp_path, range(10), lambda step: {"loss": losses[step]}, keep=2, keep_best=("loss", 2, mode))
    assert kept == sorted({*best, 8, 9})


async def test_each_manifest_is_read_once_for_its_metric(tmp_path, monkeypatch):
    from tagloom.training.checkpoints import policies

    read, seen = policies.read_manifest, []
    monkeypatch.setattr(policies, "read_manifest", lambda path: (seen.append(path), read(path))[1])
    await keep(tmp_path, range(6), lambda step: {"loss": step}, keep=2, keep_best=("loss", 2, "min"))
    assert len(seen) == len(set(seen)) == 6


async def test_what_has_no_metric_is_never_best(tmp_path):
    kept = await keep(
        tmp_path, range(4), lambda s: {"loss": 1.0} if s == 1 else None, keep=1, keep_best=("loss", 3, "min")
    )
    assert kept == [1, 3]


async def test_a_step_that_is_saved_again_takes_the_place_of_the_other(tmp_path):
    assert await keep(tmp_path, [5, 5, 5], keep=2) == [5]
    await saved(tmp_path, variables(w=FLOATS + 1), 5)
    found, values = await restored(tmp_path, variables(w=FLOATS))
    assert found.step == 5
    np.testing.assert_array_equal(values["w"], FLOATS + 1)


async def test_saving_is_due_by_steps(tmp_path):
    graph = variables(w=FLOATS)
    async with tg.Session(graph) as session, Checkpointer(tmp_path, every_steps=3, keep=None) as checkpointer:
        await session.run(graph.init)
        due = [step for step in range(1, 10) if await checkpointer.save_if_due(session, step)]
    assert due == [3, 6, 9]
    async with tg.Session(graph) as session, Checkpointer(tmp_path, every_steps=3, keep=None) as checkpointer:
        await checkpointer.restore(session)
        assert [step for step in range(10, 14) if await checkpointer.save_if_due(session, step)] == [12]


async def test_saving_is_due_by_time(tmp_path, monkeypatch):
    from tagloom.training.checkpoints import policies

    now = 100.0
    monkeypatch.setattr(policies, "monotonic", lambda: now)
    schedule = policies.Schedule(None, 10.0)
    due = []
    for now in (105.0, 110.0, 115.0, 121.0):
        if schedule.is_due(0):
            due.append(now)
            schedule.begin(0)
    assert due == [110.0, 121.0]
    assert not policies.Schedule(None, None).is_due(10**9)


@pytest.mark.parametrize(
    "options",
    [
        {"keep": 0},
        {"keep_best": ("loss", 1, "least")},
        {"keep_best": "loss"},
        {"every_steps": -1},
        {"every_seconds": 0},
        {"every_seconds": "1"},
        {"keep": "5"},
        {"keep": 2.5},
        {"keep_best": ("loss", 0, "min")},
        {"keep_best": ("loss", -1, "max")},
        {"wait_seconds": -1},
        {"wait_seconds": "1"},
        {"variables": "w"},
    ],
)
def test_policies_that_make_no_sense_are_refused(tmp_path, options):
    with pytest.raises(tg.GraphError):
        Checkpointer(tmp_path, **options)


async def test_steps_and_metrics_are_checked(tmp_path):
    graph = variables(w=FLOATS)
    async with tg.Session(graph) as session, Checkpointer(tmp_path) as checkpointer:
        with pytest.raises(tg.GraphError, match="number of updates"):
            await checkpointer.save(session, -1)
        with pytest.raises(tg.GraphError, match="metrics"):
            await checkpointer.save(session, 1, {"loss": "low"})


# ---- parts of a model, and what else there is


async def test_parts_of_a_model_have_checkpointers_of_their_own(tmp_path):
    graph = variables(a=FLOATS, b=FLOATS + 1, c=FLOATS + 2)
    async with tg.Session(graph) as session:
        await session.run(graph.init)
        async with Checkpointer(tmp_path / "ab", variables=["a", "b"]) as one:
            await one.save(session, 1)
        async with Checkpointer(tmp_path / "c", variables=[graph.collections["variables"][2]]) as other:
            await other.save(session, 2)
    with TensorFile(tmp_path / "ab" / "checkpoint-0000000001" / "cpu-0.safetensors") as file:
        assert sorted(file) == ["a", "b"]
    async with tg.Session(graph) as session:
        state = session.random_state
        assert (await Checkpointer(tmp_path / "c", variables=["c"]).restore(session)).variables == ("c",)
        assert session.random_state == state
        assert list(await session.read_variables()) == ["c"]


async def test_names_of_no_variables_are_refused(tmp_path):
    graph = variables(w=FLOATS)
    async with tg.Session(graph) as session, Checkpointer(tmp_path, variables=["w", "typo"]) as checkpointer:
        await session.run(graph.init)
        with pytest.raises(tg.GraphError, match="does not have") as caught:
            await checkpointer.save(session, 1)
        assert caught.value.got == "typo"
        with pytest.raises(tg.GraphError, match="does not have"):
            await checkpointer.restore(session)
    assert names(tmp_path) == []


class Pipeline:
    def __init__(self):
        self.place, self.buffer, self.log = 0, np.zeros(3), []

    def state_dict(self):
        return {
            "place": self.place,
            "buffer": self.buffer,
            3: (None, [1.5, float("inf"), b"\0\xff", "text", np.int8(3)]),
        }

    async def load_state_dict(self, state):
        await asyncio.sleep(0)
        self.log.append(state)


async def test_objects_are_saved_beside_the_session(tmp_path):
    graph, pipeline = variables(w=FLOATS), Pipeline()
    async with tg.Session(graph) as session, Checkpointer(tmp_path) as checkpointer:
        await session.run(graph.init)
        checkpointer.add("data", pipeline)
        saving = await checkpointer.save(session, 1)
        pipeline.buffer += 1  # its owner may change it at once
        await saving
    async with tg.Session(graph) as session, Checkpointer(tmp_path) as checkpointer:
        again = Pipeline()
        checkpointer.add("data", again)
        assert (await checkpointer.restore(session)).objects == ("data",)
    (state,) = again.log
    assert list(state) == ["place", "buffer", 3]
    assert (state["place"], state["buffer"].tolist()) == (0, [0, 0, 0])
    assert state[3] == (None, [1.5, float("inf"), b"\0\xff", "text", 3])
    assert isinstance(state[3][1][4], np.int8)


async def test_what_can_not_be_saved_is_refused_with_its_name(tmp_path):
    class Strange:
        def state_dict(self):
            return {"x": [object()]}

        def load_state_dict(self, state):
            raise AssertionError

    graph = variables(w=FLOATS)
    async with tg.Session(graph) as session, Checkpointer(tmp_path) as checkpointer:
        await session.run(graph.init)
        with pytest.raises(tg.GraphError, match="saved with a session"):
            checkpointer.add("data", object())
        checkpointer.add("data", Strange())
        with pytest.raises(tg.GraphError, match="saved with a session"):
            checkpointer.add("data", Strange())
        with pytest.raises(tg.CheckpointError, match="cannot be saved") as caught:
            await checkpointer.save(session, 1)
        assert caught.value.variable == "objects/data"
    assert names(tmp_path) == []


async def test_what_else_the_session_keeps_is_saved(tmp_path):
    """Resources of other kinds than variables, in whatever structure they give."""
    from tagloom.base.resources import Resource

    class Box(Resource):
        __slots__ = ("held",)

        def __init__(self, name):
            self.held = None

        def snapshot(self):
            return self.held

        def restore(self, held):
            return lambda: setattr(self, "held", held)

    graph = variables(w=FLOATS)
    held = ([np.arange(3.0), ("a", 2)], {"n": None, ("k", 1): np.array(True)})
    async with tg.Session(graph) as session, Checkpointer(tmp_path) as checkpointer:
        await session.run(graph.init)
        session.resources.get_or_create("boxes", "one", Box).held = held
        session.resources.get_or_create("boxes", "two", Box)
        await checkpointer.save(session, 1)
    for early in (False, True):  # whether a step has asked for the resource before
        async with tg.Session(graph) as session, Checkpointer(tmp_path) as checkpointer:
            if early:
                session.resources.get_or_create("boxes", "one", Box)
            await checkpointer.restore(session)
            found = session.resources.get_or_create("boxes", "one", Box).held
            assert found[0][0].tolist() == [0, 1, 2]
            assert (found[0][1], found[1]) == (("a", 2), {"n": None, ("k", 1): np.array(True)})


# ---- restoring


async def test_there_may_be_nothing_to_restore(tmp_path):
    for directory in (tmp_path, tmp_path / "nobody"):
        assert (await restored(directory, variables(w=FLOATS)))[0] is None


async def test_any_checkpoint_can_be_restored(tmp_path):
    for step in range(3):
        await saved(tmp_path, variables(w=FLOATS + step), step)
    checkpointer = Checkpointer(tmp_path)
    assert checkpointer.latest().name == "checkpoint-0000000002"
    found, values = await restored(tmp_path, variables(w=FLOATS), checkpointer.checkpoints()[1])
    assert found.step == 1
    np.testing.assert_array_equal(values["w"], FLOATS + 1)


async def test_a_part_is_restored_and_told(tmp_path):
    await saved(tmp_path, variables(a=FLOATS, b=FLOATS, c=FLOATS))
    graph = variables(a=FLOATS * 0, d=FLOATS)
    with pytest.raises(tg.CheckpointError, match="exactly the variables") as caught:
        await restored(tmp_path, graph)
    assert (caught.value.wanted, caught.value.got) == ("in the checkpoint too: d", "of no use in the graph: b, c")
    found, values = await restored(tmp_path, graph, partial=True)
    assert (found.variables, found.missing, found.unused) == (("a",), ("d",), ("b", "c"))
    assert list(values) == ["a"]


@pytest.mark.parametrize(
    "rename", [{"old/": "new/", "x": None}, lambda name: None if name == "x" else name.replace("old", "new")]
)
async def test_names_may_have_changed(tmp_path, rename):
    await saved(tmp_path, variables(**{"old/w": FLOATS, "old/b": FLOATS + 1, "x": FLOATS}))
    with pytest.raises(tg.CheckpointError, match="exactly"):
        await restored(tmp_path, variables(**{"new/w": FLOATS, "new/b": FLOATS}))
    # What is left out on purpose is of no use all the same.
    found, values = await restored(
        tmp_path, variables(**{"new/w": FLOATS, "new/b": FLOATS}), rename=rename, partial=True
    )
    assert found.unused == ("x",)
    np.testing.assert_array_equal(values["new/b"], FLOATS + 1)


@pytest.mark.parametrize("old", ["wrong", "wrong/", "old", "old/w/"])
async def test_names_of_nothing_are_not_given_away(tmp_path, old):
    await saved(tmp_path, variables(**{"old/w": FLOATS, "x": FLOATS}))
    graph = variables(**{"old/w": FLOATS, "x": FLOATS})
    with pytest.raises(tg.GraphError, match="was not saved") as caught:
        await restored(tmp_path, graph, rename={old: "new"}, partial=True)
    assert "old/w, x" in caught.value.hint
    await restored(tmp_path, graph, rename={old: None})


async def test_two_arrays_can_not_get_one_name(tmp_path):
    await saved(tmp_path, variables(a=FLOATS, b=FLOATS))
    with pytest.raises(tg.CheckpointError, match="one name"):
        await restored(tmp_path, variables(a=FLOATS), rename={"b": "a"})


async def test_dtypes_are_kept_or_cast(tmp_path):
    path = await saved(tmp_path, variables(w=FLOATS, i=np.int32([1, 2])))
    graph = variables(w=FLOATS.astype(tg.bfloat16.numpy), i=np.int64([0, 0]))
    with pytest.raises(tg.CheckpointError, match="another dtype") as caught:
        await restored(tmp_path, graph)
    error = caught.value
    assert (error.file, error.variable, error.wanted, error.got) == (str(path), "w", "bfloat16[2,3]", "float32[2,3]")
    assert "cast=True" in error.hint
    found, values = await restored(tmp_path, graph, cast=True)
    assert found.cast == ("w", "i")
    assert bits(values) == bits({"w": FLOATS.astype(tg.bfloat16.numpy), "i": np.int64([1, 2])})
    for wrong in (variables(w=np.zeros([2, 3], np.int32), i=np.int32([0, 0])), variables(w=FLOATS, i=np.int16([0, 0]))):
        with pytest.raises(tg.CheckpointError, match="another dtype") as caught:
            await restored(tmp_path, wrong, cast=True)
        assert "cast=True" not in caught.value.hint


async def test_shapes_have_to_fit(tmp_path):
    path = await saved(tmp_path, variables(w=FLOATS, x=FLOATS))
    graph = variables(x=FLOATS * 0, w=FLOATS.T * 0)
    async with tg.Session(graph) as session, Checkpointer(tmp_path) as checkpointer:
        await session.run(graph.init)
        with pytest.raises(tg.CheckpointError, match="does not fit") as caught:
            await checkpointer.restore(session)
        assert (caught.value.file, caught.value.variable) == (str(path), "w")
        assert (caught.value.wanted, caught.value.got) == ("float32[3,2]", "float32[2,3]")
        assert not any(value.any() for value in (await session.read_variables()).values())  # nothing has changed
    for line in (str(path), "variable: w", "float32[3,2]", "float32[2,3]"):
        assert line in str(caught.value)


async def test_shapes_that_are_open_are_taken(tmp_path):
    await saved(tmp_path, variables(w=FLOATS))
    with tg.Graph().as_default() as graph:
        tg.Variable(np.zeros([1, 3], np.float32), name="w", shape=[None, 3])
    _, values = await restored(tmp_path, graph)
    np.testing.assert_array_equal(values["w"], FLOATS)


async def test_values_go_to_where_variables_have_theirs_once(tmp_path, monkeypatch):
    """The array that was read is the variable's, and no copy of it: it is in the session's memory."""
    large = np.arange(1 << 18, dtype=np.float32)
    await saved(tmp_path, variables(w=large))
    graph = variables(w=large * 0)
    async with tg.Session(graph, settings=ON) as session, Checkpointer(tmp_path) as checkpointer:
        await checkpointer.restore(session)
        statistics = session.statistics()
        assert statistics.live_bytes == statistics.peak_bytes == large.nbytes
        (slot,) = [each for each in session.resources if isinstance(each, VariableSlot)]
        np.testing.assert_array_equal(slot.read(), large)
        assert not slot.read().flags.writeable


async def test_a_limit_of_memory_is_kept(tmp_path):
    large = np.zeros(1 << 16, np.float32)
    await saved(tmp_path, variables(w=large))
    async with tg.Session(variables(w=large), memory_limit=large.nbytes // 2, settings=ON) as session:
        with pytest.raises(tg.DeviceMemoryError):
            await Checkpointer(tmp_path).restore(session)


# ---- what others have written


async def test_arrays_of_numpy_are_restored(tmp_path):
    graph = variables(w=FLOATS * 0, s=np.array(["", ""], "T"), z=np.complex64(0))
    for save in (np.savez, np.savez_compressed):
        save(tmp_path / "weights.npz", w=np.asfortranarray(FLOATS), s=np.array(["a", "ä"]), z=np.array(1j, ">c8"))
        found, values = await restored(tmp_path, graph, tmp_path / "weights.npz")
        assert (found.step, sorted(found.variables)) == (None, ["s", "w", "z"])
        np.testing.assert_array_equal(values["w"], FLOATS)
        assert (values["s"].tolist(), values["z"]) == (["a", "ä"], 1j)


async def test_a_plain_file_of_tensors_is_restored(tmp_path):
    save_file(str(tmp_path / "w.safetensors"), [("w", FLOATS)])
    _, values = await restored(tmp_path, variables(w=FLOATS * 0), tmp_path / "w.safetensors")
    np.testing.assert_array_equal(values["w"], FLOATS)


async def test_dtypes_of_other_programs_are_refused_one_by_one(tmp_path):
    header = {"w": ("F32", 2), "half": ("F8_E5M2", 2), "z": ("C64", 2), "x": ("F4", 4)}
    sizes, entries, begin = {"w": 8, "half": 2, "z": 16, "x": 2}, {}, 0
    for name, (dtype, size) in header.items():
        end = begin + sizes[name]
        entries[name] = {"dtype": dtype, "shape": [size], "data_offsets": [begin, end]}
        begin = end
    text = json.dumps(entries).encode()
    data = np.array([1, 2], "<f4").tobytes() + b"\x3c\x40" + np.array([1j, 2], "<c8").tobytes() + b"\x12\x34"
    path = tmp_path / "theirs.safetensors"
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)
    two = np.zeros(2, np.float32)
    graph = variables(w=two, half=two, z=np.zeros(2, np.complex64))
    found, values = await restored(tmp_path, graph, path, partial=True, cast=True)
    assert (found.cast, found.unused) == (("half",), ("x",))
    assert [values[name].tolist() for name in ("w", "half", "z")] == [[1, 2], [1, 2], [1j, 2]]
    with pytest.raises(tg.CheckpointError, match="another dtype") as caught:
        await restored(tmp_path, graph, path, partial=True)
    assert (caught.value.got, caught.value.hint) == ("F8_E5M2[2]", "restore it with cast=True")
    with pytest.raises(tg.CheckpointError, match="another dtype") as caught:
        await restored(tmp_path, variables(x=np.zeros(4, np.float32)), path, partial=True, on_mismatch="error")
    assert (caught.value.variable, caught.value.got) == ("x", "F4[4]")


async def test_an_array_of_objects_refuses_itself_and_not_its_file(tmp_path):
    np.savez(
        tmp_path / "a.npz", w=FLOATS, o=np.array([{}], object), d=np.zeros(1, "M8[s]"), r=np.zeros(1, [("ä", "f4")])
    )
    found, values = await restored(tmp_path, variables(w=FLOATS * 0), tmp_path / "a.npz", partial=True)
    assert found.unused == ("d", "o", "r")
    np.testing.assert_array_equal(values["w"], FLOATS)
    for name in "odr":
        with pytest.raises(tg.CheckpointError, match="another dtype"):
            await restored(
                tmp_path, variables(**{name: np.zeros(1)}), tmp_path / "a.npz", partial=True, on_mismatch="error"
            )


async def test_pickles_in_npz_files_are_never_loaded(tmp_path):
    class Bomb:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "executed"),)

    np.savez(tmp_path / "bomb.npz", w=np.array([Bomb()], object))
    with pytest.raises(tg.CheckpointError):
        await restored(tmp_path, variables(w=FLOATS), tmp_path / "bomb.npz")
    assert names(tmp_path) == ["bomb.npz"]


async def test_npz_files_that_are_damaged_are_refused(tmp_path):
    np.savez(tmp_path / "w.npz", w=FLOATS)
    whole = (tmp_path / "w.npz").read_bytes()
    for text in (b"", whole[:50], whole[:-10], whole.replace(b"(2, 3)", b"(9, 9)"), b"x" * 100):
        (tmp_path / "w.npz").write_bytes(text)
        with pytest.raises(tg.CheckpointError):
            await restored(tmp_path, variables(w=FLOATS), tmp_path / "w.npz")


async def test_any_byte_of_an_npz_file_may_be_damaged(tmp_path):
    np.savez_compressed(tmp_path / "w.npz", w=FLOATS, s=np.array([b"\xff"]))
    whole = (tmp_path / "w.npz").read_bytes()
    for place in range(len(whole)):
        (tmp_path / "w.npz").write_bytes(whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :])
        with suppress(tg.CheckpointError), open_saved(str(tmp_path / "w.npz")) as saved:
            for array in saved.variables.values():
                with suppress(tg.CheckpointError):
                    array.copy()


async def test_bytes_of_an_npz_file_that_are_no_text_are_refused(tmp_path):
    np.savez(tmp_path / "w.npz", w=FLOATS, s=np.array([b"\xff"]))
    with pytest.raises(tg.CheckpointError, match="a dtype that no variable has"):
        await restored(
            tmp_path, variables(s=np.array(["a"], np.dtypes.StringDType())), tmp_path / "w.npz", partial=True
        )


async def test_a_path_that_leads_nowhere_is_said(tmp_path):
    for path in ("nobody", "nobody.npz", "nobody.safetensors"):
        with pytest.raises(tg.CheckpointError) as caught:
            await restored(tmp_path, variables(w=FLOATS), tmp_path / path)
        assert str(tmp_path / path) in str(caught.value)


# ---- the end


async def test_nothing_is_left_open(tmp_path):
    graph = variables(w=FLOATS)
    await saved(tmp_path, graph)
    gc.collect()
    files_before, threads = opened(), threading.active_count()
    for _ in range(3):
        await saved(tmp_path, graph, 2)
        await restored(tmp_path, graph)
        with pytest.raises(tg.CheckpointError):
            await restored(tmp_path, variables(other=FLOATS))
    # Threads that asyncio keeps for its own calls are counted above, all but those of the checkpoints have begun.
    assert not [each for each in threading.enumerate() if each.name.startswith("tagloom-checkpoint")]
    assert opened() <= files_before + threading.active_count() - threads
    assert only_this_task()


async def test_a_closed_checkpointer_saves_no_more(tmp_path):
    graph = variables(w=FLOATS)
    async with tg.Session(graph) as session:
        checkpointer = Checkpointer(tmp_path)
        await checkpointer.aclose()
        await checkpointer.aclose()
        with pytest.raises(tg.CheckpointError, match="closed"):
            await checkpointer.save(session, 1)


def test_a_loop_that_ends_meanwhile_does_not_end_the_writing(tmp_path):
    """Several loops may use one, one after the other; a checkpoint is finished by its thread."""
    graph, checkpointer = variables(w=FLOATS), Checkpointer(tmp_path)

    async def save(step):
        async with tg.Session(graph) as session:
            await session.run(graph.init)
            await checkpointer.save(session, step)

    for step in range(3):
        asyncio.run(save(step))
    asyncio.run(checkpointer.aclose())
    assert [path.name[-1] for path in checkpointer.checkpoints()] == ["0", "1", "2"]


def test_a_script_has_them_too(tmp_path):
    graph, checkpointer = variables(w=FLOATS), Checkpointer(tmp_path)
    with tg.SyncSession(graph) as session:
        session.run(graph.init)
        path = session.call(checkpointer.save, 1, metrics={"loss": 0.5}).result()
        session.write_variables({"w": FLOATS * 0})
        assert session.call(checkpointer.restore, cast=True).path == str(path)
        np.testing.assert_array_equal(session.run(graph.collections["variables"][0]), FLOATS)


async def test_a_loop_is_not_to_stand_still(tmp_path):
    graph = variables(w=FLOATS)
    async with tg.Session(graph) as session, Checkpointer(tmp_path) as checkpointer:
        await session.run(graph.init)
        saving = await checkpointer.save(session, 1)
        with pytest.raises(tg.CheckpointError, match="where an event loop runs"):
            saving.result()
        assert await asyncio.to_thread(saving.result, 60) == await saving


async def test_arrays_of_other_devices_are_saved_and_restored(tmp_path):
    with tg.Graph().as_default() as graph:
        with tg.device("/gpu:0"):
            v = tg.Variable(FLOATS, name="v")
            update = v.assign(v * 2.0).op
        with tg.device("/cpu:0"):
            tg.Variable(np.int64(3), name="k")
        init = tg.global_variables_initializer()
    async with (
        StrictDevice() as device,
        tg.Session(graph, devices=["/cpu:0", device]) as session,
        Checkpointer(tmp_path) as checkpointer,
    ):
        await session.run(init)
        await session.run(update)
        path = await (await checkpointer.save(session, 1))
        assert names(path) == ["cpu-0.safetensors", "gpu-0.safetensors", "manifest.json"]
        await session.run(update)
        await checkpointer.restore(session)
        await session.run(update)
        np.testing.assert_array_equal((await session.read_variables())["v"], FLOATS * 4)
