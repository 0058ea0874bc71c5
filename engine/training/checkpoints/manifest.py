"""The manifest of a checkpoint: the places of arrays in files, and all values except arrays."""

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
from ...ops.state.variables.operations import CONTAINER
from .saved import Saved
from .slices import Slice
from .structures import Later, decode_structure, encode_structure

NAME = "manifest.json"
_FORMAT, _VERSION = "tagloom checkpoint", 1
_FORMATS = (_FORMAT, "tagflow checkpoint")  # the project's former name, in checkpoints written under it
_LARGEST = 1 << 28  # bytes, against exhausting the memory by a damaged file
CHECKSUMS = "checksums"  # of pieces of arrays, by file and name
_CHECKSUM = "crc32c"  # of the manifest without this key


@dataclass
class Contents:
    """Contents of a checkpoint to be written.

    Attributes
    ----------
    step : int
    files : dict of str to list of (str, array)
        Names and arrays of each file; writing removes them one by one.
    manifest : dict
        All else.
    """

    step: int
    files: dict[str, list[tuple[str, Any]]] = field(default_factory=dict)
    manifest: dict[str, Any] = field(default_factory=dict)
    _later: Later = field(default_factory=list)  # calls that insert the deferred parts
    _taken: dict[str, int] = field(default_factory=dict)  # number of duplicates of each name

    @property
    def nbytes(self) -> int:
        """Total bytes of the arrays added so far."""
        return sum(array.nbytes for tensors in self.files.values() for _, array in tensors)

    def complete(self) -> None:
        """Make the deferred parts; raise CheckpointError if a part cannot be saved."""
        while self._later:
            self._later.pop(0)()

    def add(self, file: str, name: str, array: Any) -> str:
        """Add an array to a file; return its name, unique in the checkpoint."""
        chosen = name
        # A numbered name may be taken as well, by a variable that is called so.
        while chosen in self._taken:
            number = self._taken[name] = self._taken.get(name, 0) + 1
            chosen = f"{name}#{number}"
        self._taken.setdefault(chosen, 0)
        self.files.setdefault(file, []).append((chosen, array))
        dtype, shape = as_dtype(array.dtype).name, list(array.shape)
        self.manifest["tensors"][chosen] = {"file": file, "dtype": dtype, "shape": shape}
        return chosen


@dataclass(frozen=True, slots=True)
class Arrays:
    """Captured state of a session, with the places of its arrays.

    Attributes
    ----------
    values : mapping of str to mapping of str to object
        Resources of a session, by container and name.
    devices : list of str
        Device of each leaf of `values`; each device has a file.
    slices : mapping of str to Slice
        Slices of the sharded variables, by name.
    aliases : mapping of str to str
        Names that variables would have in a graph without shards.
    """

    values: Mapping[str, Mapping[str, Any]]
    devices: list[str]
    slices: Mapping[str, Slice]
    aliases: Mapping[str, str]


def contents_of(
    step: int,
    metrics: Mapping[str, float],
    arrays: Arrays,
    random_state: tuple[int, int] | None,
    objects: Mapping[str, Any],
    library: str,
) -> Contents:
    """Return the contents of a checkpoint.

    Parameters
    ----------
    step : int
    metrics : mapping of str to float
    arrays : Arrays
    random_state : tuple of (int, int) or None
    objects : mapping of str to object
        States of objects.
    library : str
        Name and version of the writing library.

    Raises
    ------
    CheckpointError
        If a value cannot be saved.
    """
    made = Contents(step)
    made.manifest.update(format=_FORMAT, version=_VERSION, library=library, created=time(), step=step)
    made.manifest["numpy"] = np.__version__  # the draws of its Generator depend on the version
    made.manifest.update(metrics=dict(metrics), random_state=random_state and list(random_state), tensors={})
    # `arrays.devices` lists the leaves of `arrays.values` in the order in which the loop below meets them.
    places = iter(arrays.devices)
    found: dict[str, Any] = {}
    for container, resources in arrays.values.items():
        found[container] = {
            name: _encode_resource(made, container, name, state, places) for name, state in resources.items()
        }
    made.manifest["resources"] = found
    # Endless: the arrays of all objects go to the host's file.
    own = iter(lambda: "host", None)
    made.manifest["objects"] = {
        name: _encode_resource(made, "objects", name, state, own) for name, state in objects.items()
    }
    there = found.get(CONTAINER, {})
    made.manifest["slices"] = {name: _slice_to_json(each) for name, each in arrays.slices.items() if name in there}
    made.manifest["aliases"] = {name: each for name, each in arrays.aliases.items() if name in there}
    return made


def _encode_resource(made: Contents, container: str, name: str, state: Any, places: Any) -> Any:
    """Return JSON for the state of a resource; its arrays are added to the files of their devices."""
    # `encode` passes arrays without their positions: match them by identity, valid while `state` keeps them alive.
    homes = {id(leaf): next(places) for leaf in nest.flatten(state)}
    wanted = name if container == CONTAINER else f"{container}/{name}"

    def add_to_device_file(array: object) -> str:
        # "cpu:0" has the file cpu-0.safetensors; arrays made later, of deferred parts, go to that of the host.
        home = homes.get(id(array), "host")
        return made.add(home.replace("/", "").replace(":", "-") + ".safetensors", wanted, array)

    return encode_structure(state, add_to_device_file, wanted, made._later)


def _slice_to_json(each: Slice) -> dict[str, Any]:
    rows = [each.rows.start, each.rows.stop, each.rows.step]
    return {"of": each.of, "shape": list(each.shape), "axis": each.axis, "rows": rows}


def read_manifest(directory: str, verify: bool = True) -> dict[str, Any]:
    """Return the manifest of a checkpoint; raise DamagedFile if it is unreadable or not a manifest.

    Parameters
    ----------
    directory : str
    verify : bool
        Verify the manifest's own checksum, if present.
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
                raise _damaged_checkpoint(path, f"its manifest has more than {_LARGEST} bytes")
            # Bounded, because the file may have grown since the check of its size.
            text = readable.read(_LARGEST + 1)
    except OSError as error:
        raise _damaged_checkpoint(path, f"its manifest cannot be read: {error.strerror}") from error
    found = parse_object(text, path)
    wanted = found.pop(_CHECKSUM, None)
    if verify and wanted is not None and wanted != (got := _checksum_of(found)):
        raise _damaged_checkpoint(path, "its manifest has another checksum than when it was saved", wanted, got)
    if found.get("format") not in _FORMATS or not isinstance(found.get("version"), int):
        raise _damaged_checkpoint(path, "this is no manifest", _FORMAT, found.get("format"))
    if found["version"] > _VERSION:
        raise _damaged_checkpoint(
            path, "it was written by a newer version", f"at most version {_VERSION}", found["version"]
        )
    return found


def open_checkpoint(directory: str, verify: bool = True) -> Saved:
    """Open a checkpoint for reading; check its structure now, the values of arrays when they are read.

    Parameters
    ----------
    directory : str
    verify : bool
        Verify the saved checksums.

    Raises
    ------
    DamagedFile
        If a part is missing, or parts contradict each other.
    CheckpointError
        If a file cannot be read.
    """
    manifest = read_manifest(directory, verify)
    path = os.path.join(directory, NAME)
    with ExitStack() as opened:
        try:
            sums = _parse_checksums(manifest) if verify else {}
            arrays = _open_arrays(directory, path, _get_typed(manifest, "tensors", dict), sums, opened)
            get, scalar = arrays.__getitem__, lambda name: arrays[name].copy()[()]
            resources = {
                container: {name: decode_structure(state, get, scalar) for name, state in states.items()}
                for container, states in _get_typed(manifest, "resources", dict).items()
            }
            objects = {
                name: decode_structure(each, get, scalar)
                for name, each in _get_typed(manifest, "objects", dict).items()
            }
            variables = resources.pop(CONTAINER, {})
            slices = _parse_slices(_get_typed(manifest, "slices", dict), variables)
            aliases = {name: str(each) for name, each in _get_typed(manifest, "aliases", dict).items()}
            saved = Saved(directory, variables, slices, aliases, resources, objects, **_parse_figures(manifest))
        # A damaged or forged manifest can have any structure: all errors of its decoding mean damage.
        except (ValueError, KeyError, TypeError, AttributeError, ArithmeticError, RecursionError) as error:
            raise _damaged_checkpoint(path, f"its manifest does not fit together: {error!r}") from error
        saved.close = opened.pop_all().close  # the files stay open until `saved` is closed
    return saved


def _parse_figures(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return step, metrics, random state and NumPy version of a manifest, as arguments of `Saved`."""
    state = manifest["random_state"]
    if state is not None:
        seed, step = state
        state = int(seed), int(step)
    metrics = {str(name): float(value) for name, value in _get_typed(manifest, "metrics", dict).items()}
    numpy = manifest.get("numpy")
    return {
        "step": int(manifest["step"]),
        "metrics": metrics,
        "random_state": state,
        "numpy": None if numpy is None else str(numpy),
    }


def _parse_checksums(manifest: Mapping[str, Any]) -> dict[str, dict[str, list[int]]]:
    """Return the checksums of arrays by file and name; empty for a checkpoint without checksums."""
    return {
        str(file): {str(name): [int(each) for each in sums] for name, sums in arrays.items()}
        for file, arrays in manifest.get(CHECKSUMS, {}).items()
    }


def _get_typed(manifest: Mapping[str, Any], key: str, kind: type) -> Any:
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
    """Open the files of the arrays, in this directory only; compare dtypes and shapes with the manifest."""
    try:
        at = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise _damaged_checkpoint(path, f"its directory cannot be read: {error.strerror}") from error
    try:
        # A manifest from elsewhere is not trusted: a name such as "../x" must not open a file of another directory.
        names = {entry["file"] for entry in entries.values()}
        for name in names:
            if not isinstance(name, str) or name in ("", ".", "..") or os.path.basename(name) != name or "\0" in name:
                raise _damaged_checkpoint(path, "it names a file that is not in its directory", "a plain name", name)
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
            raise _damaged_checkpoint(
                file.path, "an array differs from its entry in the manifest", wanted, got or "nothing", name
            )
        found[name] = array
    return found


def _parse_slices(entries: dict[str, Any], variables: Mapping[str, Any]) -> dict[str, Slice]:
    """Return the slices of a manifest, each checked against its whole and its array."""
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


def _damaged_checkpoint(
    path: str, why: str, wanted: object = None, got: object = None, variable: str | None = None
) -> DamagedFile:
    """Return the error about a damaged checkpoint."""
    return DamagedFile(
        f"a checkpoint is damaged: {why}",
        file=path,
        variable=variable,
        wanted=wanted,
        got=got,
        hint="restore another checkpoint",
    )


def manifest_bytes(manifest: Mapping[str, Any]) -> bytes:
    """Return the manifest's bytes, with its own checksum if the arrays have checksums."""
    if CHECKSUMS not in manifest:
        return _text_of(manifest)
    return _text_of({**manifest, _CHECKSUM: _checksum_of(manifest)})


def _checksum_of(manifest: Mapping[str, Any]) -> int:
    """Return the checksum of a manifest except the names of format and library, which are not values."""
    return crc32c(_text_of({key: value for key, value in manifest.items() if key not in ("format", "library")}))


def _text_of(manifest: Mapping[str, Any]) -> bytes:
    """Return JSON of a manifest; writing a read manifest again returns equal bytes."""
    return json.dumps(manifest, indent=1).encode()


def checked_metrics(metrics: Mapping[str, float] | None) -> dict[str, float]:
    """Return metrics as a dict of floats; raise GraphError for anything else."""
    try:
        return {str(name): float(value) for name, value in (metrics or {}).items()}
    except (TypeError, ValueError) as error:
        raise GraphError(
            "metrics are numbers by name", wanted='{"loss": 0.1}', got=repr(metrics), hint="fetch them first"
        ) from error


def begin_of(values: Mapping[str, Any]) -> int:
    """Return the number of leaves before the variables in a snapshot."""
    before = 0
    for container, each in values.items():
        if container == CONTAINER:
            break
        before += len(nest.flatten(each))
    return before
