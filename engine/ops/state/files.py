"""Whole files as operations: ReadFile, WriteFile and MatchingFiles, in threads, as in TensorFlow 1."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ...base.dtypes import DType, as_dtype, string, uint8
from ...base.errors import DtypeError
from ...base.shapes import SCALAR, Shape
from ...ir.apply import apply
from ...ir.definition import REQUIRED, NotDifferentiable, define
from ...ir.entry import public
from ...ir.operation import Operation
from ...ir.tensor import Tensor
from ...ir.traits import Effect
from ...kernels.core.async_result import AsyncResult
from ...kernels.memory.contexts import outside
from ..support.common import infer_nothing
from ..support.context import KernelContext

Array = np.ndarray[Any, Any]


def content_dtype(dtype: Any) -> DType:
    """Return the requested dtype of a file's content; DtypeError unless uint8 or string."""
    known_dtype = as_dtype(dtype)
    if known_dtype not in (uint8, string):
        raise DtypeError(
            "a file's content is bytes, or text in UTF-8",
            wanted="uint8 or string",
            got=known_dtype,
            hint="read it as uint8, and make numbers of it by a function of yours",
        )
    return known_dtype


def content_shape(dtype: DType) -> Shape:
    """Return the shape of content: a vector of bytes, or a single string."""
    return SCALAR if dtype is string else Shape([None])


def as_content(data: bytes | str, dtype: DType) -> Array:
    """Return content, a line or a whole file, as an array; text loses its byte order mark.

    Raises
    ------
    UnicodeDecodeError
        For text not in UTF-8.
    """
    if dtype is uint8:
        return np.frombuffer(data.encode() if isinstance(data, str) else data, np.uint8)
    # Lines come decoded; only bytes of a whole file may begin with a byte order mark.
    return np.array(data.decode("utf-8-sig") if isinstance(data, bytes) else data, string.numpy)


def _call_in_thread(
    context: KernelContext, function: Callable[..., Any], convert: Callable[[Any], Any], *arguments: Any
) -> Any:
    """Call a function in a thread, or here if the step has no threads; return its converted result, or an AsyncResult.

    Unlike `function`, ``convert(result)`` is called on the event loop.
    """
    threads = context.step.threads
    if threads is None:
        return convert(function(*arguments))
    return AsyncResult(outside(threads, function, *arguments), convert)


def _adopt_array(context: KernelContext, array: Array) -> Array:
    """Return an array that was allocated in a thread, charged to the step's memory pool."""
    pool = context.step.contexts.pool
    return array if pool is None else pool.adopt(array)


def _read_content(path: str, dtype: DType) -> Array:
    return as_content(Path(path).read_bytes(), dtype)


def _read_file(xp: Any, context: KernelContext, filename: Any, *, dtype: DType) -> Any:
    return _call_in_thread(context, _read_content, partial(_adopt_array, context), str(filename), dtype)


def _write_content(path: str, contents: Any) -> None:
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    # A single string may be a Python string, without a dtype.
    is_text = getattr(contents, "dtype", None) != np.uint8
    Path(path).write_bytes(str(contents).encode() if is_text else np.ascontiguousarray(contents).data)


def _write_file(xp: Any, context: KernelContext, filename: Any, contents: Any) -> Any:
    return _call_in_thread(context, _write_content, lambda _: None, str(filename), contents)


def _matching_paths(patterns: list[str]) -> list[str]:
    return sorted(path for pattern in patterns for path in glob.glob(pattern, recursive=True) if os.path.isfile(path))


def _compute_matching_files(xp: Any, context: KernelContext, pattern: Any) -> Any:
    patterns = [str(text) for text in np.asarray(pattern).ravel().tolist()]
    return _call_in_thread(
        context,
        _matching_paths,
        lambda paths: _adopt_array(context, np.array(paths, string.numpy).reshape(-1)),
        patterns,
    )


def _infer_write_shapes(op: Operation) -> list[Shape]:
    """Return no shapes, after checking the inputs: a path, and content of dtype uint8 or string."""
    content_dtype(op.inputs[1].dtype)
    for tensor, wanted in zip(op.inputs, (SCALAR, content_shape(op.inputs[1].dtype)), strict=True):
        tensor.shape.merge(wanted)  # raises ShapeError for another shape
    return infer_nothing(op)


def _infer_read_shape(op: Operation) -> Shape:
    op.inputs[0].shape.merge(SCALAR)  # raises ShapeError for another shape
    return content_shape(op.attrs["dtype"])


define(
    "ReadFile",
    "filename: host string -> contents: host @dtype",
    attrs={"dtype": REQUIRED},
    shape=_infer_read_shape,
    kernel=_read_file,
    gradient=NotDifferentiable("what it gives was read from a file"),
    effects=Effect.READS,
)

define(
    "WriteFile",
    "filename: host string, contents: host any ->",
    shape=_infer_write_shapes,
    kernel=_write_file,
    gradient=NotDifferentiable("it has no value"),
    effects=Effect.SHOWS,
)

define(
    "MatchingFiles",
    "pattern: host string -> filenames: host string",
    shape=lambda op: Shape([None]),
    kernel=_compute_matching_files,
    gradient=NotDifferentiable("what it gives are names of files"),
    effects=Effect.READS,
)


@public
def read_file(filename: Any, name: str | None = None, *, dtype: Any = "uint8") -> Tensor:
    """Return the content of a file, read in a thread.

    Parameters
    ----------
    filename : string scalar
    name : str, optional
    dtype : {'uint8', 'string'}
        Bytes, or a single string of text in UTF-8, without a byte order mark.

    Returns
    -------
    Tensor
        uint8 of shape [n], or a string scalar.

    Raises
    ------
    OpError
        In a step, if the file cannot be read.

    Examples
    --------
    >>> import pathlib, tempfile, tagloom as tg
    >>> with tempfile.TemporaryDirectory() as directory, tg.Graph().as_default() as graph:
    ...     _ = pathlib.Path(directory, "a.txt").write_text("some text")
    ...     text = tg.read_file(directory + "/a.txt", dtype="string")
    ...     with tg.SyncSession(graph) as session:
    ...         session.run(text).item()
    'some text'
    """
    return apply("ReadFile", filename, name=name, dtype=content_dtype(dtype))


@public
def write_file(filename: Any, contents: Any, name: str | None = None) -> Operation:
    """Return an operation writing a file, in a thread; missing directories are made.

    Parameters
    ----------
    filename : string scalar
    contents : string scalar or uint8 Tensor of shape [n]
    name : str, optional

    Returns
    -------
    Operation

    Raises
    ------
    OpError
        In a step, if the file cannot be written.

    Examples
    --------
    >>> import pathlib, tempfile, tagloom as tg
    >>> with tempfile.TemporaryDirectory() as directory, tg.Graph().as_default() as graph:
    ...     write = tg.write_file(directory + "/new/a.txt", "some text")
    ...     with tg.SyncSession(graph) as session:
    ...         session.run(write)
    ...     pathlib.Path(directory, "new", "a.txt").read_text()
    'some text'
    """
    return apply("WriteFile", filename, contents, name=name)


@public
def matching_files(pattern: Any, name: str | None = None) -> Tensor:
    """Return the paths of the files matching patterns, sorted; empty without a match.

    Parameters
    ----------
    pattern : string Tensor of any shape
        With ``*``, ``?``, ``[...]``, and ``**`` for directories at any depth. A path that matches several patterns is
        repeated.
    name : str, optional

    Returns
    -------
    Tensor
        Of dtype string and shape [n]; without directories.

    Examples
    --------
    >>> import pathlib, tempfile, tagloom as tg
    >>> with tempfile.TemporaryDirectory() as directory, tg.Graph().as_default() as graph:
    ...     for name in ("b.txt", "a.txt", "c.csv"):
    ...         pathlib.Path(directory, name).touch()
    ...     found = tg.matching_files(directory + "/*.txt")
    ...     with tg.SyncSession(graph) as session:
    ...         [path[-5:] for path in session.run(found).tolist()]
    ['a.txt', 'b.txt']
    """
    return apply("MatchingFiles", pattern, name=name)
