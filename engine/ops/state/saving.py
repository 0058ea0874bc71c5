"""Save and Restore: tensors to a file and back, as operations of a graph (Abadi et al., 2016, section 4.3)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from math import prod
from typing import Any, NamedTuple

import numpy as np

from ...base.dtypes import DType, as_dtype
from ...base.errors import CheckpointError, GraphError
from ...base.safetensors import TensorFile, save_file
from ...base.shapes import Shape
from ...ir.apply import apply
from ...ir.definition import REQUIRED, NotDifferentiable, define
from ...ir.entry import public
from ...ir.operation import Operation
from ...ir.tensor import Tensor
from ...ir.traits import Effect
from ...kernels.memory.contexts import outside
from ..support.common import infer_nothing
from ..support.context import KernelContext, until_ended

Array = np.ndarray[Any, Any]
_SUFFIX = ".safetensors"


class _Part(NamedTuple):
    """A rectangular part of a tensor.

    Attributes
    ----------
    shape : tuple of int
        Shape of the whole tensor.
    bounds : tuple of (int, int)
        Begin and end in each dimension.
    """

    shape: tuple[int, ...]
    bounds: tuple[tuple[int, int], ...]

    @property
    def own_shape(self) -> tuple[int, ...]:
        """Shape of the part."""
        return tuple(end - begin for begin, end in self.bounds)

    def overlap(self, other: _Part) -> tuple[tuple[slice, ...], tuple[slice, ...]]:
        """Return the slices of the intersection with another part, within this part and within `other`."""
        pairs = list(zip(self.bounds, other.bounds, strict=True))
        begins = [max(mine[0], its[0]) for mine, its in pairs]
        # Without an intersection an end is before its begin: raised to the begin, so that both slices are empty.
        ends = [max(begin, min(mine[1], its[1])) for begin, (mine, its) in zip(begins, pairs, strict=True)]
        return self._slice_within(begins, ends), other._slice_within(begins, ends)

    def _slice_within(self, begins: Sequence[int], ends: Sequence[int]) -> tuple[slice, ...]:
        """Return the slices of this part from `begins` to `ends`, positions in the whole tensor."""
        offsets = [begin for begin, _ in self.bounds]
        return tuple(slice(a - offset, b - offset) for a, b, offset in zip(begins, ends, offsets, strict=True))


def _whole_part(shape: Sequence[int]) -> _Part:
    return _Part(tuple(shape), tuple((0, size) for size in shape))


def _parse_part(spec: str) -> _Part:
    """Return the part named by TensorFlow's ``shape_and_slices``, such as "4 3 0,2:-": the shape, then the bounds."""
    try:
        # Unpacking, `int` and a strict `zip` all raise ValueError.
        *dims, bounds = spec.split()
        shape = tuple(map(int, dims))
        pairs = [_parse_bounds(size, each) for size, each in zip(shape, bounds.split(":"), strict=True)]
    except ValueError as error:
        raise _spec_error(spec) from error
    if not all(0 <= a <= b <= size for size, (a, b) in zip(shape, pairs, strict=True)):
        raise _spec_error(spec)
    return _Part(shape, tuple(pairs))


def _parse_bounds(size: int, text: str) -> tuple[int, int]:
    """Return the begin and end in a dimension of a size, from "begin,length", or "-" for the whole dimension."""
    if text == "-":
        return 0, size
    begin, length = map(int, text.split(","))
    return begin, begin + length


def _spec_error(spec: str) -> CheckpointError:
    return CheckpointError(
        "this says no slice of a tensor",
        wanted='"", or sizes and, for each, "begin,length" or "-": "4 3 0,2:-"',
        got=repr(spec),
        hint="leave it empty for the whole tensor",
    )


def _checkpoint_path(prefix: str) -> str:
    return prefix if prefix.endswith(_SUFFIX) else prefix + _SUFFIX


def _list_texts(array: Any) -> list[str]:
    return [str(each) for each in np.asarray(array).ravel().tolist()]


# ---- saving


def _key_in_file(path: str, name: str, spec: str, tensor: Array) -> str:
    """Return the key in a file of a tensor, or of a slice; CheckpointError unless the tensor has the slice's shape."""
    if not spec:
        return name
    if _parse_part(spec).own_shape != tensor.shape:
        raise CheckpointError(
            "a tensor does not have the shape of its slice",
            file=path,
            variable=name,
            wanted=list(_parse_part(spec).own_shape),
            got=list(tensor.shape),
            hint="give the shape of the whole, and what of it the tensor is",
        )
    # The format that `_saved_parts` reads.
    return f"{name} {spec}"


def _write_checkpoint(
    path: str, names: list[str], specs: list[str], tensors: Sequence[Array], stop: threading.Event
) -> None:
    """Save tensors to a file; CheckpointError if the file cannot be written or `stop` is set meanwhile."""

    # Called again and again while writing, so that a cancelled step need not wait for the whole file.
    def refuse_if_stopped() -> None:
        if stop.is_set():
            raise CheckpointError("the step that saves was cancelled", file=path, hint="run it again")

    try:
        keys = [
            _key_in_file(path, name, spec, tensor) for name, spec, tensor in zip(names, specs, tensors, strict=True)
        ]
        save_file(path, zip(keys, tensors, strict=True), refuse_if_stopped)
    except OSError as error:
        raise CheckpointError(
            f"tensors cannot be saved: {error.strerror}", file=path, hint="look for room, and permissions, there"
        ) from error


def _compute_save(xp: Any, context: KernelContext, prefix: Any, names: Any, specs: Any, *tensors: Any) -> Any:
    """Write a checkpoint, in a thread if the step has any; a cancelled step stops the writing thread."""
    # Set by a cancelled step, and read by the thread between pieces of the file.
    stop = threading.Event()
    write = partial(
        _write_checkpoint,
        _checkpoint_path(_list_texts(prefix)[0]),
        _list_texts(names),
        _list_texts(specs),
        list(map(np.asarray, tensors)),
        stop,
    )
    threads = context.step.threads
    return write() if threads is None else _wait_for_writer(outside(threads, write), stop)


async def _wait_for_writer(call: Any, stop: threading.Event) -> None:
    """Wait for a writing thread; a cancelled step stops the thread, and ends after the partial file is gone."""
    try:
        # Not `await call`: a cancelled wait must leave the thread's future as it is.
        await asyncio.wait([call])
    except asyncio.CancelledError:
        stop.set()
        await until_ended(call)
        raise
    call.result()


define(
    "SaveV2",
    "prefix: host string, tensor_names: host string, shape_and_slices: host string, tensors: host *any ->",
    shape=infer_nothing,
    kernel=_compute_save,
    gradient=NotDifferentiable("it has no value"),
    effects=Effect.SHOWS,
)


@public
def save_v2(
    prefix: Any, tensor_names: Any, shape_and_slices: Any, tensors: Sequence[Any], name: str | None = None
) -> Operation:
    """Return an operation writing tensors to a file, in a thread, while the step continues.

    The file appears when complete and on the disk, and replaces an existing file of the same name. With an operation
    and a file for each device, every device writes its own tensors. A `Checkpointer` needs none of these operations.

    Parameters
    ----------
    prefix : string Tensor
        Scalar: path of the file, to which ".safetensors" is added if missing.
    tensor_names : list of str, or string Tensor of shape [n]
    shape_and_slices : list of str, or string Tensor of shape [n]
        For each tensor "", or its place in a larger tensor: "4 3 0,2:-" are the first two rows of a [4, 3] tensor.
    tensors : list of Tensor
        Of any dtypes.
    name : str, optional

    Returns
    -------
    Operation

    Raises
    ------
    GraphError
        If there are not as many names as tensors.
    CheckpointError
        In a step, if the file cannot be written; no partial file remains.

    Examples
    --------
    >>> import tempfile, tagloom as tg
    >>> with tempfile.TemporaryDirectory() as directory, tg.Graph().as_default() as graph:
    ...     path = directory + "/weights"
    ...     w = tg.Variable([[1.0, 2.0], [3.0, 4.0]], name="w")
    ...     save = tg.save_v2(path, ["w"], [""], [w])
    ...     (row,) = tg.restore_v2(path, ["w"], ["2 2 1,1:-"], ["float32"])
    ...     with tg.SyncSession(graph) as session:
    ...         session.run(w.initializer)
    ...         session.run(save)
    ...         session.run(row)
    array([[3., 4.]], dtype=float32)
    """
    _check_counts(tensor_names, shape_and_slices, tensors)
    return apply("SaveV2", prefix, _text_vector(tensor_names), _text_vector(shape_and_slices), list(tensors), name=name)


def _text_vector(texts: Any) -> Any:
    """Return texts as a vector of strings: an empty list would become a tensor of floats."""
    return texts if hasattr(texts, "dtype") else np.array(list(texts), np.dtypes.StringDType())


def _check_counts(names: Any, specs: Any, tensors_or_dtypes: Sequence[Any]) -> None:
    """Raise GraphError unless there is a name and a slice for each tensor; symbolic names are checked in the step."""
    counts = [len(texts) for texts in (names, specs) if not isinstance(texts, Tensor)]
    if any(count != len(tensors_or_dtypes) for count in counts):
        raise GraphError(
            "each tensor has a name, and says what slice it is",
            wanted=f"{len(tensors_or_dtypes)} names, and as many texts for slices",
            got=counts,
            hint='give [""] * len(tensors) for whole tensors',
        )


# ---- restoring


def _saved_parts(file: TensorFile, name: str) -> Iterator[tuple[str, _Part]]:
    """Yield the key and the part of each array in a file that belongs to a tensor."""
    if name in file:
        yield name, _whole_part(file[name].shape)
    for key in file:
        if key.startswith(name + " "):
            with suppress(CheckpointError):  # the key of another tensor, with a space in its name
                yield key, _parse_part(key.removeprefix(name + " "))


def _read_tensor(file: TensorFile, name: str, spec: str, dtype: DType) -> Array:
    """Read a tensor, or a slice; CheckpointError if missing, or saved with another dtype or shape."""
    sources = list(_saved_parts(file, name))
    if not sources:
        raise CheckpointError(
            "a file does not have this tensor",
            file=file.path,
            variable=name,
            got=", ".join(list(file)[:5]),
            hint="restore what was saved",
        )
    # Each saved part has the shape of the whole tensor.
    part = _parse_part(spec) if spec else _whole_part(sources[0][1].shape)
    for key, source in sources:
        if as_dtype(file[key].dtype) is not dtype or source.shape != part.shape:
            got = f"{as_dtype(file[key].dtype)}{list(source.shape)}"
            wanted = f"{dtype}{list(part.shape)}"
            raise CheckpointError(
                "a saved tensor is another one",
                file=file.path,
                variable=name,
                wanted=wanted,
                got=got,
                hint="restore it with its dtype and shape, and cast it then",
            )
    return _assemble_part(file, name, part, sources)


def _assemble_part(file: TensorFile, name: str, part: _Part, sources: Sequence[tuple[str, _Part]]) -> Array:
    """Return a part of a tensor, assembled from the saved parts."""
    for key, source in sources:
        if source == part:
            return file[key].copy()
    # Slices may overlap or leave gaps; a mask of the elements finds the gaps whatever the number of slices.
    out = np.empty(part.own_shape, file[sources[0][0]].dtype)
    found = np.zeros(part.own_shape, bool)
    for key, source in sources:
        mine, its = part.overlap(source)
        # A source without an overlap is not read from the file.
        if prod(out[mine].shape):
            out[mine], found[mine] = file[key].copy()[its], True
    if not found.all():
        raise CheckpointError(
            "a file has only some slices of this tensor",
            file=file.path,
            variable=name,
            wanted=f"{part.bounds} of {list(part.shape)}",
            got="; ".join(str(source.bounds) for _, source in sources),
            hint="restore slices that were saved there",
        )
    return out


def _read_all(path: str, names: list[str], specs: list[str], dtypes: Sequence[DType]) -> list[Array]:
    with TensorFile(path) as file:
        return [_read_tensor(file, *each) for each in zip(names, specs, dtypes, strict=True)]


def _compute_restore(
    xp: Any, context: KernelContext, prefix: Any, names: Any, specs: Any, *, dtypes: Sequence[DType]
) -> Any:
    """Read tensors, in a thread if the step has any."""
    read = partial(_read_all, _checkpoint_path(_list_texts(prefix)[0]), _list_texts(names), _list_texts(specs), dtypes)
    threads = context.step.threads
    return _adopt_outputs(context, read()) if threads is None else _restore_later(context, outside(threads, read))


async def _restore_later(context: KernelContext, call: Any) -> Any:
    return _adopt_outputs(context, await call)


def _adopt_outputs(context: KernelContext, arrays: list[Array]) -> Any:
    """Return arrays as a kernel's outputs, charged to the step's memory pool."""
    pool = context.step.contexts.pool
    # Arrays read in a thread are allocated outside the pool; adopted, they count there.
    outputs = arrays if pool is None else [pool.adopt(array) for array in arrays]
    return outputs[0] if len(outputs) == 1 else tuple(outputs)


define(
    "RestoreV2",
    "prefix: host string, tensor_names: host string, shape_and_slices: host string -> tensors: host *@dtypes",
    attrs={"dtypes": REQUIRED},
    shape=lambda op: [Shape(None)] * len(op.attrs["dtypes"]),
    kernel=_compute_restore,
    gradient=NotDifferentiable("what it gives was read from a file"),
    effects=Effect.READS,
)


@public
def restore_v2(
    prefix: Any, tensor_names: Any, shape_and_slices: Any, dtypes: Sequence[Any], name: str | None = None
) -> list[Tensor]:
    """Read tensors from a file of `save_v2`, of a `Checkpointer` or of the safetensors library, in a thread.

    Parameters
    ----------
    prefix : string Tensor
        Scalar: path of the file, to which ".safetensors" is added if missing.
    tensor_names : list of str, or string Tensor of shape [n]
    shape_and_slices : list of str, or string Tensor of shape [n]
        For each tensor "" for the whole, or a slice to read, as in `save_v2`. A tensor may be assembled from several
        saved slices.
    dtypes : list of dtype-like
        Of the tensors.
    name : str, optional

    Returns
    -------
    list of Tensor
        Of unknown shapes: assign them to variables.

    Raises
    ------
    GraphError
        If there are not as many names as dtypes.
    CheckpointError
        In a step, if there is no such file, or the file lacks these tensors in these dtypes.

    Examples
    --------
    >>> import tempfile, tagloom as tg
    >>> with tempfile.TemporaryDirectory() as directory, tg.Graph().as_default() as graph:
    ...     path = directory + "/weights"
    ...     rows = [tg.Variable([[1.0, 2.0]], name="a"), tg.Variable([[3.0, 4.0]], name="b")]
    ...     save = tg.save_v2(path, ["w", "w"], ["2 2 0,1:-", "2 2 1,1:-"], rows)
    ...     (whole,) = tg.restore_v2(path, ["w"], [""], ["float32"])
    ...     with tg.SyncSession(graph) as session:
    ...         session.run([row.initializer for row in rows])
    ...         session.run(save)
    ...         session.run(whole).tolist()
    [None, None]
    [[1.0, 2.0], [3.0, 4.0]]
    """
    _check_counts(tensor_names, shape_and_slices, dtypes)
    found = apply(
        "RestoreV2",
        prefix,
        _text_vector(tensor_names),
        _text_vector(shape_and_slices),
        name=name,
        dtypes=tuple(map(as_dtype, dtypes)),
    )
    return list(found) if isinstance(found, (list, tuple)) else [found]
