"""Files of other programs: NumPy archives, safetensors files, checkpoints of TensorFlow 1."""

from __future__ import annotations

import importlib
import importlib.util
import os
import zipfile
from typing import Any

import numpy as np

from ...base.array_like import Array, UnreadArray
from ...base.dtypes import string
from ...base.errors import CheckpointError
from ...base.npz_files import UNREADABLE, read_header
from ...base.safetensors import DamagedFile, TensorFile
from .manifest import NAME, open_checkpoint
from .saved import RefusedArray, Saved, refuse_dtype


def open_saved(path: str, verify: bool = True) -> Saved:
    """Open a checkpoint's directory, a ``.safetensors`` or ``.npz`` file, or the prefix of a TensorFlow checkpoint.

    Parameters
    ----------
    path : str
    verify : bool
        Verify the checksums of a tagloom checkpoint; other formats have their own, or none.

    Raises
    ------
    CheckpointError
        If `path` is missing or unreadable, or is a TensorFlow checkpoint and TensorFlow is not installed.
    """
    if os.path.isdir(path):
        return open_checkpoint(path, verify)
    if path.endswith(".npz"):
        return _open_npz(path)
    if os.path.exists(path + ".index") and not os.path.exists(path):
        return _open_bundle(path)
    file = TensorFile(path)
    return Saved(path, file, close=file.close)


# ---- NumPy


class _Member(UnreadArray):
    """An array in an ``.npz`` file, its header read and its data unread."""

    def __init__(self, archive: zipfile.ZipFile, path: str, member: zipfile.ZipInfo) -> None:
        self._archive, self._member, self._path = archive, member, path
        with archive.open(member) as file:
            self.shape, dtype = read_header(file)
            size = member.file_size - file.tell()
        name = member.filename.removesuffix(".npy")
        # Python integers, which cannot overflow: a forged header may have any shape.
        wanted = int(np.prod(self.shape, dtype=object)) * dtype.itemsize
        if size != wanted:
            raise ValueError(f"{name} has {size} bytes instead of {wanted}")
        self._stored = dtype
        assert string.numpy is not None
        self.dtype = string.numpy if dtype.kind in "US" else dtype.newbyteorder("=")

    def copy(self) -> Array:
        try:
            with self._archive.open(self._member) as file:
                found = np.lib.format.read_array(file, allow_pickle=False)
        except UNREADABLE as error:
            raise _damaged_npz(self._path, error) from error
        try:
            text = np.char.decode(found, "utf-8") if self._stored.kind == "S" else found
        except UnicodeDecodeError as error:
            name = self._member.filename.removesuffix(".npy")
            raise refuse_dtype(self._path, name, "bytes that are no text") from error
        return np.ascontiguousarray(text).astype(self.dtype, copy=False).reshape(self.shape)


def _open_member(archive: zipfile.ZipFile, path: str, member: zipfile.ZipInfo) -> UnreadArray:
    """Return an array of an archive; pickled Python objects are refused when read, for safety."""
    with archive.open(member) as file:
        shape, dtype = read_header(file)
    if dtype.hasobject:
        return RefusedArray(path, member.filename.removesuffix(".npy"), shape, str(dtype))
    return _Member(archive, path, member)


def _open_npz(path: str) -> Saved:
    """Open an ``.npz`` file; read the headers of all arrays."""
    try:
        archive = zipfile.ZipFile(path)
    except UNREADABLE as error:
        raise _damaged_npz(path, error) from error
    try:
        members = [each for each in archive.infolist() if each.filename.endswith(".npy")]
        arrays = {each.filename.removesuffix(".npy"): _open_member(archive, path, each) for each in members}
    except UNREADABLE as error:
        archive.close()
        raise _damaged_npz(path, error) from error
    except BaseException:
        archive.close()
        raise
    return Saved(path, arrays, close=archive.close)


def _damaged_npz(path: str, error: Exception) -> CheckpointError:
    kind = CheckpointError if isinstance(error, OSError) else DamagedFile
    return kind(f"an .npz file cannot be read: {error}", file=path, hint="restore another file")


# ---- TensorFlow


class _BundleTensor(UnreadArray):
    """A tensor of a TensorFlow checkpoint; partitioned tensors are read as wholes."""

    def __init__(self, reader: Any, path: str, name: str, shape: list[int], dtype: Any) -> None:
        self._reader, self._path, self._name = reader, path, name
        self.shape = tuple(shape)
        found = np.dtype(dtype.as_numpy_dtype)
        assert string.numpy is not None
        self.dtype = string.numpy if found.kind == "O" else found

    def copy(self) -> Array:
        try:
            found = np.array(self._reader.get_tensor(self._name))  # a copy: TensorFlow owns the memory
        except Exception as error:  # of TensorFlow, whose classes are not known here
            raise DamagedFile(
                f"TensorFlow cannot read a tensor: {error}",
                file=self._path,
                variable=self._name,
                hint="restore another checkpoint",
            ) from error
        if found.dtype.kind != "O":
            return found
        try:
            texts = [each.decode() for each in found.ravel().tolist()]
        except UnicodeDecodeError as error:
            raise refuse_dtype(self._path, self._name, "bytes that are no text") from error
        return np.array(texts, self.dtype).reshape(self.shape)


def _open_bundle(path: str) -> Saved:
    """Open a TensorFlow checkpoint by TensorFlow's own reader, imported here because TensorFlow is optional."""
    if importlib.util.find_spec("tensorflow") is None:
        raise CheckpointError(
            "a checkpoint of TensorFlow is read by TensorFlow",
            file=path,
            wanted="the module tensorflow",
            got="none installed",
            hint="install it here, or convert the checkpoint to .npz where it is",
        )
    tensorflow = importlib.import_module("tensorflow")
    try:
        # The format is TensorFlow's own, so its reader is used instead of a second implementation.
        reader = tensorflow.train.load_checkpoint(path)
    except Exception as error:  # of TensorFlow, whose classes are not known here
        raise DamagedFile(
            f"TensorFlow cannot read a checkpoint: {error}", file=path, hint="restore another one"
        ) from error
    shapes, dtypes = reader.get_variable_to_shape_map(), reader.get_variable_to_dtype_map()
    # TensorFlow 2 also saves a description of its objects under this name, which is no variable.
    names = [name for name in shapes if name != "_CHECKPOINTABLE_OBJECT_GRAPH"]
    return Saved(path, {name: _open_bundle_tensor(reader, path, name, shapes[name], dtypes[name]) for name in names})


def _open_bundle_tensor(reader: object, path: str, name: str, shape: list[int], dtype: object) -> UnreadArray:
    """Return a tensor of a checkpoint; dtypes that NumPy lacks, such as resource, are refused when read."""
    try:
        return _BundleTensor(reader, path, name, shape, dtype)
    except (TypeError, AttributeError):  # it has no dtype of NumPy
        return RefusedArray(path, name, tuple(shape), str(getattr(dtype, "name", dtype)))


def is_checkpoint(path: str) -> bool:
    """Return True if a directory contains a manifest."""
    return os.path.exists(os.path.join(path, NAME))
