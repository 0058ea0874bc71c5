"""Whatever the disk does, and whatever stands in a directory: a clear error, nothing lost, nothing executed."""

import errno
import itertools
import json
import math
import os
import resource
import shutil
import struct

import numpy as np
import pytest
import tagloom as tg
from tagloom.base.safetensors import DamagedFile, streams, writing
from tagloom.training import Checkpointer
from tagloom.training.checkpoints import directory as files

from tests.training.checkpoints.models import bits, variables

VALUES = {"w": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.ones(1 << 16, np.float32)}
GRAPH = variables(**VALUES)


class Failing:
    """What stands for `os` in the modules that write: one call of a name fails."""

    def __init__(self, name, number):
        self.name, self.number, self.calls = name, number, 0

    def __getattr__(self, name):
        found = getattr(os, name)
        return self._counted(found) if name == self.name else found

    def _counted(self, function):
        def call(*args, **kwargs):
            self.calls += 1
            if self.calls == self.number:
                if function is os.write:  # a part of it has found room
                    function(args[0], args[1][: len(args[1]) // 2])
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return function(*args, **kwargs)

        return call


async def save(directory, step, checkpointer=None):
    checkpointer = checkpointer or Checkpointer(directory)
    async with tg.Session(GRAPH) as session:
        await session.run(GRAPH.init)
        return await (await checkpointer.save(session, step))


async def assert_whole(directory, step):
    """Say that a directory has the checkpoint of a step, and nothing that was not finished."""
    assert not [name for name in os.listdir(directory) if name.startswith(".")]
    async with tg.Session(GRAPH) as session:
        found = await Checkpointer(directory).restore(session)
        assert (found.step, found.skipped) == (step, ())
        for name, value in (await session.read_variables()).items():
            np.testing.assert_array_equal(value, VALUES[name])


# ---- the disk


@pytest.mark.parametrize("name", ["open", "write", "fsync", "listdir"])
async def test_a_disk_that_is_full_at_any_call(tmp_path, monkeypatch, name):
    """The n-th call fails for every n: what was saved stays, nothing is left, and the next one is saved."""
    failures = 0
    for number in itertools.count(1):
        await save(tmp_path, 1)
        error = await failure_of(save(tmp_path, 2), monkeypatch, name, number)
        if error is None:
            break
        failures += 1
        assert "No space left" in error.what
        assert str(tmp_path) in error.file
        assert "test_failures.py" in str(error.source)
        # When the last names could not be synced, or an old one removed, the new one is there, and whole.
        await assert_whole(tmp_path, int(Checkpointer(tmp_path).latest().name[-1]))
        shutil.rmtree(tmp_path)
    assert failures >= (1 if name == "listdir" else 2)
    await assert_whole(tmp_path, 2)


async def failure(saving):
    """Return how saving fails, None if it does not."""
    try:
        await saving
    except tg.CheckpointError as error:
        return error


async def failure_of(saving, monkeypatch, name, number):
    """Return how saving fails when the call of a name and a number does; None if there is no such call."""
    failing = Failing(name, number)
    with monkeypatch.context() as patched:
        patched.setattr(files, "os", failing)
        patched.setattr(writing, "os", failing)
        patched.setattr(streams, "os", failing)
        return await failure(saving)


@pytest.mark.parametrize("name", ["mkdir", "rename"])
async def test_a_disk_that_has_no_room_for_names(tmp_path, monkeypatch, name):
    """The n-th call fails for every n, as for `test_a_disk_that_is_full_at_any_call`."""
    real, failures = getattr(files.Path, name), 0
    for number in itertools.count(1):
        await save(tmp_path, 1)
        counted = itertools.count(1)

        def call(self, *args, n=number, calls=counted, **kwargs):
            if next(calls) == n:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self))
            return real(self, *args, **kwargs)

        with monkeypatch.context() as patched:
            patched.setattr(files.Path, name, call)
            error = await failure(save(tmp_path, 2))
        if error is None:
            break
        assert "No space left" in error.what
        assert error.hint == "make room there, or keep fewer checkpoints"
        failures += 1
        await assert_whole(tmp_path, 1)
        shutil.rmtree(tmp_path)
    assert failures >= 1
    await assert_whole(tmp_path, 2)


async def test_failures_are_in_the_statistics_until_a_checkpoint_is_written(tmp_path, monkeypatch):
    checkpointer = Checkpointer(tmp_path)
    async with tg.Session(GRAPH) as session:
        await session.run(GRAPH.init)
        with monkeypatch.context() as patched:
            patched.setattr(writing, "os", Failing("fsync", 1))
            patched.setattr(streams, "os", Failing("fsync", 1))
            with pytest.raises(tg.CheckpointError, match="No space"):
                await (await checkpointer.save(session, 1))
        found = session.statistics().checkpoints[str(tmp_path)]
        assert (found.written, found.failed, found.is_writing, found.writing_step) == (0, 1, False, None)
        assert "No space left" in found.last_error
        assert found.last_time is found.last_step is None
        await (await checkpointer.save(session, 2))
        found = session.statistics().checkpoints[str(tmp_path)]
        assert (found.written, found.failed, found.last_step, found.last_error) == (1, 1, 2, None)


async def test_files_that_may_not_become_large(tmp_path):
    """As the operating system says it, by a limit that this process has."""
    await save(tmp_path, 1)
    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, old[1]))
    try:
        with pytest.raises(tg.CheckpointError, match="File too large") as caught:
            await save(tmp_path, 2)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)
    assert "allow larger files" in caught.value.hint
    await assert_whole(tmp_path, 1)


@pytest.mark.parametrize("code", [errno.EROFS, errno.EACCES])
async def test_a_directory_that_can_not_be_written_to(tmp_path, monkeypatch, code):
    """A process of root may write wherever it wants, so the refusal is made up."""
    await save(tmp_path, 1)

    def refuse(self, *args, **kwargs):
        raise OSError(code, os.strerror(code), str(self))

    with monkeypatch.context() as patched:
        patched.setattr(files.Path, "mkdir", refuse)
        with pytest.raises(tg.CheckpointError, match="cannot be written") as caught:
            await save(tmp_path, 2)
    assert "that can be written to" in caught.value.hint
    await assert_whole(tmp_path, 1)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write to it")
async def test_a_directory_without_permissions(tmp_path):
    await save(tmp_path, 1)
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(tg.CheckpointError, match="Permission denied"):
            await save(tmp_path, 2)
    finally:
        tmp_path.chmod(0o700)
    await assert_whole(tmp_path, 1)


async def test_a_directory_that_is_a_file(tmp_path):
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(tg.CheckpointError):
            await save(path, 1)
    with pytest.raises(tg.CheckpointError, match="cannot be read"):
        async with tg.Session(GRAPH) as session:
            await Checkpointer(tmp_path / "file").restore(session)


async def test_what_goes_wrong_is_raised_by_the_next_call_unless_somebody_was_told(tmp_path, monkeypatch):
    async with tg.Session(GRAPH) as session:
        await session.run(GRAPH.init)
        for told in (False, True):
            checkpointer = Checkpointer(tmp_path)
            with monkeypatch.context() as patched:
                failing = Failing("write", 1)
                patched.setattr(writing, "os", failing)
                patched.setattr(streams, "os", failing)
                saving = await checkpointer.save(session, 1)
                await saving.wait_until_ended()
            if told:
                with pytest.raises(tg.CheckpointError, match="No space"):
                    await saving
            else:
                with pytest.raises(tg.CheckpointError, match="No space"):
                    await checkpointer.save(session, 2)
            assert checkpointer.statistics().failed == 1
            await (await checkpointer.save(session, 3))
            await checkpointer.aclose()
            # At the end too.
            checkpointer = Checkpointer(tmp_path)
            with monkeypatch.context() as patched:
                patched.setattr(streams, "os", Failing("write", 1))
                saving = await checkpointer.save(session, 4)
                await saving.wait_until_ended()
            with pytest.raises(tg.CheckpointError, match="No space"):
                await checkpointer.aclose()
    await assert_whole(tmp_path, 3)


async def test_what_a_dead_process_has_left_is_removed_and_a_living_ones_is_not(tmp_path):
    await save(tmp_path, 1)
    left, held = tmp_path / ".writing-left", tmp_path / ".writing-held"
    for path in (left, held, tmp_path / ".removed-left"):
        path.mkdir()
        (path / "cpu-0.safetensors").write_bytes(b"x")
    import fcntl

    opened = os.open(held, os.O_RDONLY)
    try:
        fcntl.flock(opened, fcntl.LOCK_EX)
        await save(tmp_path, 2)
        assert [name for name in os.listdir(tmp_path) if name.startswith(".")] == [".writing-held"]
    finally:
        os.close(opened)
    await save(tmp_path, 3)
    await assert_whole(tmp_path, 3)


# ---- what is damaged


async def restore(directory, path=None):
    async with tg.Session(GRAPH) as session:
        return await Checkpointer(directory).restore(session, path)


def newest(directory):
    return Checkpointer(directory).latest()


DAMAGES = {
    "cut off": lambda path: os.truncate(path / "cpu-0.safetensors", 1000),
    "cut off by a byte": lambda path: os.truncate(
        path / "cpu-0.safetensors", (path / "cpu-0.safetensors").stat().st_size - 1
    ),
    "empty": lambda path: os.truncate(path / "cpu-0.safetensors", 0),
    "no manifest": lambda path: (path / "manifest.json").unlink(),
    "half a manifest": lambda path: os.truncate(path / "manifest.json", 100),
    "an empty manifest": lambda path: os.truncate(path / "manifest.json", 0),
    "nothing": lambda path: [each.unlink() for each in path.iterdir()],
    "another header": lambda path: (path / "cpu-0.safetensors").write_bytes(struct.pack("<Q", 2) + b"{}"),
}


@pytest.mark.parametrize("what", DAMAGES)
async def test_a_damaged_checkpoint_is_passed_over_with_a_warning(tmp_path, what):
    for step in (1, 2):
        await save(tmp_path, step)
    DAMAGES[what](newest(tmp_path))
    with pytest.warns(RuntimeWarning, match="passed over"):
        found = await restore(tmp_path)
    assert found.step == 1
    assert len(found.skipped) == 1
    assert str(newest(tmp_path)) in found.skipped[0]
    with pytest.raises(DamagedFile):  # who asks for it is told
        await restore(tmp_path, newest(tmp_path))


@pytest.mark.parametrize("what", ["a link to nothing", "a file", "a pipe", "a folder"])
async def test_what_only_looks_like_a_checkpoint_is_passed_over(tmp_path, what):
    path = await save(tmp_path, 1)
    other = path.with_name("checkpoint-0000000002")
    makes = {"a link to nothing": lambda path: path.symlink_to("nothing"), "a file": files.Path.touch}
    makes |= {"a pipe": os.mkfifo, "a folder": files.Path.mkdir}
    makes[what](other)
    with pytest.warns(RuntimeWarning, match="passed over"):
        assert (await restore(tmp_path)).step == 1


@pytest.mark.parametrize("opened", [False, True])
async def test_a_checkpoint_that_another_process_removes_meanwhile_is_none(tmp_path, monkeypatch, opened):
    """It has saved a newer one by then, which is restored."""
    from tagloom.training.checkpoints import checkpointer, manifest

    path = await save(tmp_path, 1)
    module, name = (manifest, "_open_arrays") if opened else (checkpointer, "open_checkpoint")
    real, newer = getattr(module, name), path.with_name("checkpoint-0000000002")

    def removed(*arguments, **options):
        if path.exists():
            shutil.copytree(path, newer)
            shutil.rmtree(path)
        return real(*arguments, **options)

    monkeypatch.setattr(module, name, removed)
    found = await restore(tmp_path)
    assert (found.path, found.skipped) == (str(newer), ())


async def test_old_ones_that_can_not_be_removed_are_no_failure(tmp_path, monkeypatch, caplog):
    async with tg.Session(GRAPH) as session, Checkpointer(tmp_path, keep=1) as checkpointer:
        await session.run(GRAPH.init)
        first = await (await checkpointer.save(session, 1))
        real = files.Path.rename

        def refused(self, target):
            if self == first:
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(self))
            return real(self, target)

        monkeypatch.setattr(files.Path, "rename", refused)
        second = await (await checkpointer.save(session, 2))
        assert checkpointer.statistics().failed == 0
    assert checkpointer.checkpoints() == [first, second]
    assert "old ones could not be removed" in caplog.text


async def test_saving_is_due_again_when_it_has_failed(tmp_path):
    directory = tmp_path / "folder" / "checkpoints"
    directory.parent.touch()
    failed, saved = [], []
    async with tg.Session(GRAPH) as session, Checkpointer(directory, every_steps=10) as checkpointer:
        await session.run(GRAPH.init)
        for step in range(1, 24):
            try:
                if (saving := await checkpointer.save_if_due(session, step)) is not None:
                    await saving.wait_until_ended()
                    saved.append(step)
            except tg.CheckpointError:
                failed.append(step)
                directory.parent.unlink(missing_ok=True)
    assert failed == [20]  # what went wrong at 10
    assert saved == [10, 21]
    assert [each.name for each in checkpointer.checkpoints()] == ["checkpoint-0000000021"]


async def test_a_missing_file_is_damage_too(tmp_path):
    for step in (1, 2):
        await save(tmp_path, step)
    (newest(tmp_path) / "cpu-0.safetensors").unlink()
    with pytest.warns(RuntimeWarning, match="passed over"):
        assert (await restore(tmp_path)).step == 1


async def test_all_may_be_damaged(tmp_path):
    for step in (1, 2):
        await save(tmp_path, step)
    for path in Checkpointer(tmp_path).checkpoints():
        DAMAGES["cut off"](path)
    with pytest.warns(RuntimeWarning), pytest.raises(tg.CheckpointError, match="all checkpoints") as caught:
        await restore(tmp_path)
    assert caught.value.file == str(tmp_path)


async def test_a_file_that_ends_while_it_is_read_is_damage(tmp_path, monkeypatch):
    """It was whole when it was opened."""
    for step in (1, 2):
        await save(tmp_path, step)
    from tagloom.training.checkpoints import checkpointer

    opened = checkpointer.open_checkpoint

    def shortened(path, **options):
        found = opened(path, **options)
        if path.endswith("2"):
            os.truncate(os.path.join(path, "cpu-0.safetensors"), 5000)
        return found

    monkeypatch.setattr(checkpointer, "open_checkpoint", shortened)
    with pytest.warns(RuntimeWarning, match="shorter while it was read"):
        assert (await restore(tmp_path)).step == 1


# ---- bits that have changed


def flip(path, at, bit=3):
    data = bytearray(path.read_bytes())
    data[at] ^= 1 << bit
    path.write_bytes(data)


async def test_a_bit_of_any_array_that_has_changed_is_damage(tmp_path):
    for step in (1, 2):
        await save(tmp_path, step)
    path = newest(tmp_path) / "cpu-0.safetensors"
    whole = path.read_bytes()
    begin = 8 + int.from_bytes(whole[:8], "little")
    for at in (begin, (begin + len(whole)) // 2, len(whole) - 1):
        flip(path, at)
        with pytest.warns(RuntimeWarning, match="another checksum than when it was saved"):
            found = await restore(tmp_path)
        assert (found.step, len(found.skipped)) == (1, 1)
        with pytest.raises(DamagedFile, match="another checksum") as caught:
            await restore(tmp_path, newest(tmp_path))
        assert caught.value.variable in ("w", "v", *found.variables)
        path.write_bytes(whole)
    assert (await restore(tmp_path)).step == 2


async def test_a_damaged_array_leaves_a_session_as_it_was(tmp_path):
    await save(tmp_path, 1)
    flip(newest(tmp_path) / "cpu-0.safetensors", -1)
    async with tg.Session(GRAPH) as session:
        await session.run(GRAPH.init)
        before = bits(await session.read_variables())
        with pytest.raises(DamagedFile):
            await Checkpointer(tmp_path).restore(session, newest(tmp_path))
        assert bits(await session.read_variables()) == before


async def test_a_digit_of_a_manifest_that_has_changed_is_damage(tmp_path):
    for step in (1, 2):
        await save(tmp_path, step)
    path = newest(tmp_path) / "manifest.json"
    text = path.read_text()
    assert '"step": 2' in text
    path.write_text(text.replace('"step": 2', '"step": 3'))
    with pytest.warns(RuntimeWarning, match="its manifest has another checksum"):
        assert (await restore(tmp_path)).step == 1


async def test_checksums_can_be_switched_off(tmp_path):
    await save(tmp_path, 1)
    path = newest(tmp_path) / "cpu-0.safetensors"
    flip(path, -1)
    async with tg.Session(GRAPH) as session:
        careless = Checkpointer(tmp_path, checksums=False)
        assert (await careless.restore(session)).step == 1
        await (await careless.save(session, 2))
        manifest = json.loads((careless.latest() / "manifest.json").read_text())
        assert not manifest.keys() & {"checksums", "crc32c"}
        flip(careless.latest() / "cpu-0.safetensors", -1)
        assert (await Checkpointer(tmp_path).restore(session)).step == 2  # as one of before there were any


async def test_forged_checksums_are_refused(tmp_path):
    for change in (
        put("checksums", []),
        put("checksums", "cpu-0.safetensors", []),
        put("checksums", "cpu-0.safetensors", "w", ["x"]),
        put("checksums", "cpu-0.safetensors", "w", 3),
        put("checksums", "cpu-0.safetensors", "w", [1, 2]),
    ):
        await save(tmp_path, 1)
        forged(tmp_path, change)
        with pytest.raises(DamagedFile):
            await restore(tmp_path, newest(tmp_path))


# ---- hostile manifests


def forged(directory, change):
    path = newest(directory) / "manifest.json"
    manifest = json.loads(path.read_text())
    del manifest["crc32c"]  # whoever forges it does so too
    change(manifest)
    path.write_text(json.dumps(manifest))


def put(*keys):
    """Return what puts a value at a place of a manifest."""
    *way, last, value = keys

    def change(manifest):
        for key in way:
            manifest = manifest[key]
        manifest[last] = value

    return change


FORGED = {
    "a path upwards": put("tensors", "w", "file", "../outside.safetensors"),
    "an absolute path": put("tensors", "w", "file", "/etc/passwd"),
    "a path into a folder": put("tensors", "w", "file", "folder/file"),
    "the folder itself": put("tensors", "w", "file", "."),
    "the folder above": put("tensors", "w", "file", ".."),
    "no name": put("tensors", "w", "file", ""),
    "a name with a zero": put("tensors", "w", "file", "a\0b"),
    "a name that is a list": put("tensors", "w", "file", ["a"]),
    "a link to outside": put("tensors", "w", "file", "link.safetensors"),
    "a pipe": put("tensors", "w", "file", "pipe"),
    "huge shapes": put("tensors", "w", "shape", [1 << 40, 1 << 40]),
    "negative shapes": put("tensors", "w", "shape", [-2, -3]),
    "another dtype": put("tensors", "w", "dtype", "int32"),
    "an unknown dtype": put("tensors", "w", "dtype", "object"),
    "a tensor that is not there": put("tensors", "x", {"file": "cpu-0.safetensors", "dtype": "int32", "shape": []}),
    "tensors that are a list": put("tensors", []),
    "no tensors": lambda manifest: manifest.pop("tensors"),
    "a variable without an array": put("resources", "variables", "w", {"array": "nobody"}),
    "a variable that is a number": put("resources", "variables", "w", 3),
    "a variable that is code": put("resources", "variables", "w", {"eval": "print()"}),
    "an object of two kinds": put("resources", "variables", "w", {"array": "w", "tuple": []}),
    "a key that cannot be one": put("objects", {"data": {"dict": [[[], 1]]}}),
    "bytes that are none": put("objects", {"data": {"bytes": "!"}}),
    "a dict of triples": put("objects", {"data": {"dict": [[1, 2, 3]]}}),
    "resources that are a list": put("resources", []),
    "a slice of a larger whole": put("slices", {"w": {"of": "x", "shape": [1 << 60, 3], "axis": 0, "rows": [0, 5, 1]}}),
    "a slice backwards": put("slices", {"w": {"of": "x", "shape": [2, 3], "axis": 0, "rows": [2, 0, -1]}}),
    "a slice of no step": put("slices", {"w": {"of": "x", "shape": [2, 3], "axis": 0, "rows": [0, 2, 0]}}),
    "a slice along nothing": put("slices", {"w": {"of": "x", "shape": [2, 3], "axis": 9, "rows": [0, 2, 1]}}),
    "a slice of nobody": put("slices", {"y": {"of": "x", "shape": [2, 3], "axis": 0, "rows": [0, 2, 1]}}),
    "a random state of three": put("random_state", [1, 2, 3]),
    "a step that is text": put("step", "x"),
    "a step without end": put("step", math.inf),
    "a random state without end": put("random_state", [math.inf, 1]),
    "a metric out of range": put("metrics", {"loss": 10**400}),
    "a slice without end": put("slices", {"w": {"of": "w", "shape": [2, 3], "axis": 0, "rows": [0, math.inf, 1]}}),
    "a version of tomorrow": put("version", 99),
    "another format": put("format", "pickle"),
    "metrics that are text": put("metrics", {"loss": "x"}),
}


@pytest.mark.parametrize("what", FORGED)
async def test_a_manifest_is_not_believed(tmp_path, what):
    """It is refused, before a byte outside of its directory is read, and the checkpoint before it is restored."""
    directory = tmp_path / "checkpoints"
    for step in (1, 2):
        await save(directory, step)
    shutil.copy(newest(directory) / "cpu-0.safetensors", directory / "outside.safetensors")
    os.symlink("../outside.safetensors", newest(directory) / "link.safetensors")
    os.mkfifo(newest(directory) / "pipe")
    forged(directory, FORGED[what])
    with pytest.raises(tg.CheckpointError):
        await restore(directory, newest(directory))
    with pytest.warns(RuntimeWarning, match="passed over"):
        assert (await restore(directory)).step == 1


async def test_text_that_exhausts_who_reads_it_is_refused(tmp_path):
    for text in ('{"a":' + "[" * 200_000 + "]" * 200_000 + "}", '{"a": ' + "9" * 1_000_000 + "}", "[]", "\xff"):
        await save(tmp_path, 1)
        (newest(tmp_path) / "manifest.json").write_text(text)
        with pytest.raises(DamagedFile):
            await restore(tmp_path, newest(tmp_path))


def a_pipe(path):
    path.unlink()
    os.mkfifo(path)


def a_link(path):
    path.rename(path.with_name("other.json"))
    path.symlink_to("other.json")


def a_directory(path):
    path.unlink()
    path.mkdir()


def endless(path):
    path.unlink()
    path.symlink_to("/dev/zero")


@pytest.mark.parametrize(
    "change", [a_pipe, a_link, a_directory, endless, lambda path: os.truncate(path, (1 << 28) + 1)]
)
async def test_a_manifest_is_a_file_of_its_directory(tmp_path, change):
    """It neither keeps a thread waiting nor fills the memory: the one before is restored, and more are saved."""
    for step in (1, 2):
        await save(tmp_path, step)
    change(newest(tmp_path) / "manifest.json")
    with pytest.raises(DamagedFile):
        await restore(tmp_path, newest(tmp_path))
    with pytest.warns(RuntimeWarning, match="passed over"):
        assert (await restore(tmp_path)).step == 1
    await save(tmp_path, 3, Checkpointer(tmp_path, keep=1, keep_best=("loss", 1, "min")))  # which reads manifests
    assert (await restore(tmp_path)).step == 3


async def test_states_of_objects_are_never_executed(tmp_path):
    """A state is data: what looks like a pickle, or like code, comes back as the bytes and texts that it is."""

    class Kept:
        state = {"__reduce__": ("os.system", ["false"]), "p": b"cos\nsystem\n(S'false'\ntR."}

        def state_dict(self):
            return self.state

        def load_state_dict(self, state):
            self.loaded = state

    checkpointer, kept = Checkpointer(tmp_path), Kept()
    checkpointer.add("kept", kept)
    await save(tmp_path, 1, checkpointer)
    async with tg.Session(GRAPH) as session:
        await checkpointer.restore(session)
    assert kept.loaded == Kept.state
