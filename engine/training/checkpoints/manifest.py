"""The manifest of a checkpoint: what is in which file, and all that is not an array."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from time import time
from typing import Any

import numpy as np

from ...base import nest
from ...base.array_like import UnreadArray
from ...base.checksums import crc32c
from ...base.dtypes import as_dtype
from ...base.errors import GraphError
from ...base.safetensors import DamagedFile, StoredTensor, TensorFile, open_regular, parse_object
from ...ops.state.variables import CONTAINER
from .saved import Saved
from .slices import Slice
from .structures import Later, decode, encode

NAME = "manifest.json"
_FORMAT, _VERSION = "tagloom checkpoint", 1
_FORMATS = (_FORMAT, "tagflow checkpoint")  # the project's former name, in checkpoints written under it
_LARGEST = 1 << 28  # bytes
CHECKSUMS = "checksums"  # of pieces of arrays, by file and name
_CHECKSUM = "crc32c"  # of the manifest without this


@dataclass
class Contents:
    """What is to be written.

    Attributes
    ----------
    step : int
    files : dict of str to list of (str, array)
        Names and arrays of each file; they are taken out as they are written.
    manifest : dict
        All else.
    """

    step: int
    files: dict[str, list[tuple[str, Any]]] = field(default_factory=dict)
    manifest: dict[str, Any] = field(default_factory=dict)
    _later: Later = field(default_factory=list)  # puts in what is deferred
    _taken: dict[str, int] = field(default_factory=dict)  # names, and how many more of them there are

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays that are in already."""
        return sum(array.nbytes for tensors in self.files.values() for _, array in tensors)

    def complete(self) -> None:
        """Make the deferred parts; CheckpointError if one can not be saved."""
        while self._later:
            self._later.pop(0)()

    def add(self, file: str, name: str, array: Any) -> str:
        """Put an array into a file; return its name there, which no other of the checkpoint has."""
        chosen = name
        while chosen in self._taken:
            number = self._taken[name] = self._taken.get(name, 0) + 1
            chosen = f"{name}#{number}"
        self._taken.setdefault(chosen, 0)
        self.files.setdefault(file, []).append((chosen, array))
        dtype, shape = as_dtype(array.dtype).name, list(array.shape)
        self.manifest["tensors"][chosen] = {"file": file, "dtype": dtype, "shape": shape}
        return chosen


def contents_of(
    step: int,
    metrics: Mapping[str, float],
    values: Mapping[str, Mapping[str, Any]],
    devices: list[str],
    random_state: tuple[int, int] | None,
    objects: Mapping[str, Any],
    slices: Mapping[str, Slice],
    aliases: Mapping[str, str],
    library: str,
) -> Contents:
    """Return what a checkpoint is to consist of.

    Parameters
    ----------
    step : int
    metrics : mapping of str to float
    values : mapping of str to mapping of str to object
        What a session keeps.
    devices : list of str
        Of each leaf of `values`; each device gets a file.
    random_state : tuple of (int, int) or None
    objects : mapping of str to object
        States of objects.
    slices : mapping of str to Slice
        Of variables.
    aliases : mapping of str to str
        What variables would be called if others were whole.
    library : str
        What writes it, and its version.

    Raises
    ------
    CheckpointError
        If there is something that can not be saved.
    """
    made = Contents(step)
    made.manifest.update(format=_FORMAT, version=_VERSION, library=library, created=time(), step=step)
    made.manifest["numpy"] = np.__version__  # whose Generator may draw other numbers in another version
    made.manifest.update(metrics=dict(metrics), random_state=random_state and list(random_state), tensors={})
    places = iter(devices)
    found: dict[str, Any] = {}
    for container, resources in values.items():
        found[container] = {name: _encoded(made, container, name, state, places) for name, state in resources.items()}
    made.manifest["resources"] = found
    own = iter(lambda: "host", None)
    made.manifest["objects"] = {name: _encoded(made, "objects", name, state, own) for name, state in objects.items()}
    there = found.get(CONTAINER, {})
    made.manifest["slices"] = {name: _slice_to_json(each) for name, each in slices.items() if name in there}
    made.manifest["aliases"] = {name: each for name, each in aliases.items() if name in there}
    return made


def _encoded(made: Contents, container: str, name: str, state: Any, places: Any) -> Any:
    """Return JSON for what a resource keeps; its arrays go to the files of the devices that they are from."""
    homes = {id(leaf): next(places) for leaf in nest.flatten(state)}
    wanted = name if container == CONTAINER else f"{container}/{name}"

    def add(array: Any) -> str:
        home = homes.get(id(array), "host")
        return made.add(home.replace("/", "").replace(":", "-") + ".safetensors", wanted, array)

    return encode(state, add, wanted, made._later)


def _slice_to_json(each: Slice) -> dict[str, Any]:
    rows = [each.rows.start, each.rows.stop, each.rows.step]
    return {"of": each.of, "shape": list(each.shape), "axis": each.axis, "rows": rows}


def read_manifest(directory: str, verify: bool = True) -> dict[str, Any]:
    """Return the manifest of a checkpoint, so far as it is one; CheckpointError otherwise.

    Parameters
    ----------
    directory : str
    verify : bool
        Look at its own checksum, if it has one.
    """
    path = os.path.join(directory, NAME)
    try:
        opened = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            file = open_regular(path, opened)
        finally:
            os.close(opened)
        with open(file, "rb") as readable:
            if os.fstat(file).st_size > _LARGEST:
                raise _damaged(path, f"its manifest has more than {_LARGEST} bytes")
            text = readable.read(_LARGEST + 1)
    except OSError as error:
        raise _damaged(path, f"its manifest can not be read: {error.strerror}") from error
    found = parse_object(text, path)
    wanted = found.pop(_CHECKSUM, None)
    if verify and wanted is not None and wanted != (got := _checksum_of(found)):
        raise _damaged(path, "its manifest has another checksum than when it was saved", wanted, got)
    if found.get("format") not in _FORMATS or not isinstance(found.get("version"), int):
        raise _damaged(path, "this is no manifest", _FORMAT, found.get("format"))
    if found["version"] > _VERSION:
        raise _damaged(path, "it was written by a newer version", f"at most version {_VERSION}", found["version"])
    return found


def open_checkpoint(directory: str, verify: bool = True) -> Saved:
    """Open a checkpoint for reading, all of which is checked but the values of its arrays: these when they are read.

    Parameters
    ----------
    directory : str
    verify : bool
        Look at checksums, where they were saved.

    Raises
    ------
    DamagedFile
        If something is missing or does not fit together.
    CheckpointError
        If a file can not be read.
    """
    manifest = read_manifest(directory, verify)
    path = os.path.join(directory, NAME)
    with ExitStack() as opened:
        try:
            sums = _checksums(manifest) if verify else {}
            arrays = _open_arrays(directory, path, _typed(manifest, "tensors", dict), sums, opened)
            get, scalar = arrays.__getitem__, lambda name: arrays[name].copy()[()]
            resources = {
                container: {name: decode(state, get, scalar) for name, state in states.items()}
                for container, states in _typed(manifest, "resources", dict).items()
            }
            objects = {name: decode(each, get, scalar) for name, each in _typed(manifest, "objects", dict).items()}
            variables = resources.pop(CONTAINER, {})
            slices = _slices(_typed(manifest, "slices", dict), variables)
            aliases = {name: str(each) for name, each in _typed(manifest, "aliases", dict).items()}
            saved = Saved(directory, variables, slices, aliases, resources, objects, **_figures(manifest))
        except (ValueError, KeyError, TypeError, AttributeError, ArithmeticError, RecursionError) as error:
            raise _damaged(path, f"its manifest does not fit together: {error!r}") from error
        saved.close = opened.pop_all().close
    return saved


def _figures(manifest: Mapping[str, Any]) -> dict[str, Any]:
    state = manifest["random_state"]
    if state is not None:
        seed, step = state
        state = int(seed), int(step)
    metrics = {str(name): float(value) for name, value in _typed(manifest, "metrics", dict).items()}
    numpy = manifest.get("numpy")
    return {
        "step": int(manifest["step"]),
        "metrics": metrics,
        "random_state": state,
        "numpy": None if numpy is None else str(numpy),
    }


def _checksums(manifest: Mapping[str, Any]) -> dict[str, dict[str, list[int]]]:
    """Return the checksums of arrays by file and name; none of a checkpoint that was saved without."""
    return {
        str(file): {str(name): [int(each) for each in sums] for name, sums in arrays.items()}
        for file, arrays in manifest.get(CHECKSUMS, {}).items()
    }


def _typed(manifest: Mapping[str, Any], key: str, kind: type) -> Any:
    value = manifest[key]
    if not isinstance(value, kind):
        raise ValueError(f"{key} is no {kind.__name__}")
    return value


def _open_arrays(
    directory: str,
    path: str,
    entries: dict[str, Any],
    checksums: Mapping[str, Mapping[str, list[int]]],
    opened: ExitStack,
) -> dict[str, StoredTensor]:
    """Open the files that arrays are in, of this directory alone; hold what they say against the manifest."""
    try:
        at = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise _damaged(path, f"its directory can not be read: {error.strerror}") from error
    try:
        names = {entry["file"] for entry in entries.values()}
        for name in names:
            if not isinstance(name, str) or name in ("", ".", "..") or os.path.basename(name) != name or "\0" in name:
                raise _damaged(path, "it names a file that is not in its directory", "a plain name", name)
        files = {name: opened.enter_context(TensorFile(os.path.join(directory, name), at)) for name in sorted(names)}
    finally:
        os.close(at)
    for name, file in files.items():
        file.checksums = checksums.get(name, {})
    found = {}
    for name, entry in entries.items():
        file = files[entry["file"]]
        array = file.get(name)
        wanted = f"{entry['dtype']}{entry['shape']}"
        got = None if array is None else f"{as_dtype(array.dtype)}{list(array.shape)}"
        if array is None or got != wanted:
            raise _damaged(file.path, "it does not have what its manifest says", wanted, got or "nothing", name)
        found[name] = array
    return found


def _slices(entries: dict[str, Any], variables: Mapping[str, Any]) -> dict[str, Slice]:
    for name, array in variables.items():
        if not isinstance(array, UnreadArray):
            raise ValueError(f"variable {name} is no array")
    found = {}
    for name, entry in entries.items():
        begin, end, step = map(int, entry["rows"])
        shape, axis = tuple(map(int, entry["shape"])), int(entry["axis"])
        each = Slice(str(entry["of"]), shape, axis, range(begin, end, step))
        is_within = 0 <= axis < len(shape) and begin >= 0 and step > 0 and end <= shape[axis]
        if not is_within or each.own_shape != variables[name].shape:
            raise ValueError(f"slice {name} is not one of its whole")
        found[name] = each
    return found


def _damaged(path: str, why: str, wanted: Any = None, got: Any = None, variable: str | None = None) -> DamagedFile:
    return DamagedFile(
        f"a checkpoint is damaged: {why}",
        file=path,
        variable=variable,
        wanted=wanted,
        got=got,
        hint="restore another checkpoint",
    )


def manifest_bytes(manifest: Mapping[str, Any]) -> bytes:
    """Return the manifest as it is written: with its own checksum, if it has those of arrays."""
    if CHECKSUMS not in manifest:
        return _text_of(manifest)
    return _text_of({**manifest, _CHECKSUM: _checksum_of(manifest)})


def _checksum_of(manifest: Mapping[str, Any]) -> int:
    """Return the checksum of a manifest without the names of what has written it, which are no values."""
    return crc32c(_text_of({key: value for key, value in manifest.items() if key not in ("format", "library")}))


def _text_of(manifest: Mapping[str, Any]) -> bytes:
    """Return JSON, which is the same again for what was read of it."""
    return json.dumps(manifest, indent=1).encode()


def checked_metrics(metrics: Mapping[str, float] | None) -> dict[str, float]:
    """Return metrics as numbers by name; GraphError if they are something else."""
    try:
        return {str(name): float(value) for name, value in (metrics or {}).items()}
    except (TypeError, ValueError) as error:
        raise GraphError(
            "metrics are numbers by name", wanted='{"loss": 0.1}', got=repr(metrics), hint="fetch them first"
        ) from error


def begin_of(values: Mapping[str, Any]) -> int:
    """Return how many leaves a snapshot has in front of the variables."""
    before = 0
    for container, each in values.items():
        if container == CONTAINER:
            break
        before += len(nest.flatten(each))
    return before
