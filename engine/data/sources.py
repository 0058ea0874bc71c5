"""Sources of Datasets."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from ..base.array_like import as_array
from ..base.compressed_files import check_compression
from ..base.dtypes import as_dtype
from ..base.errors import GraphError, ShapeError
from ..base.npz_files import UNREADABLE, read_header
from ..base.record_files import FixedLayout
from ..ir.misuse import refuses_misuse
from ..runtime.functions.arguments import TensorSpec
from .arguments import check_counts
from .dataset import Dataset
from .stages import combining, iterables
from .stages import sources as stages
from .stages.elements import leaves_of, pack_leaves

Files = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]


@refuses_misuse
def from_iterable(
    source: Iterable[Any] | Callable[[], Iterable[Any]], *, output: Any = None, threads: bool | None = None
) -> Dataset:
    """Return the elements of an iterable of Python.

    The state is the number of elements taken; restoring takes and drops as many. An iterator with ``state_dict()`` and
    ``load_state_dict(state)`` saves its own state.

    Parameters
    ----------
    source : iterable or callable
        A list, a range; or a function, such as a generator function, to be called in each epoch.
    output : structure of TensorSpec, optional
        Spec of the elements; see `Dataset.check`.
    threads : bool, optional
        True to iterate in a thread, as for elements read from a disk. By default iteration is on the event loop until a
        request takes more than 5 ms, and in a thread from then on.

    Returns
    -------
    Dataset

    Raises
    ------
    GraphError
        If `source` is neither an iterable nor callable.

    Examples
    --------
    >>> import asyncio, tagloom as tg
    >>> async def main():
    ...     return [x async for x in tg.data.from_iterable(range(10)).skip(7)]
    >>> asyncio.run(main())
    [7, 8, 9]
    """
    if not hasattr(source, "__iter__") and not callable(source):
        raise GraphError("this is no iterable", got=repr(source), hint="give a list, or a generator function")
    made = Dataset(iterables.IterableStage, source=source, threads=threads)
    return made if output is None else made.check(output)


@refuses_misuse
def from_async(source: Any, *, output: Any = None) -> Dataset:
    """Return the elements of an asynchronous iterable, such as an async generator function.

    For the state see `from_iterable`.

    Parameters
    ----------
    source : async iterable or callable
        An async iterable, or a function to be called for a new one in each epoch.
    output : structure of TensorSpec, optional
        Spec of the elements; see `Dataset.check`.

    Returns
    -------
    Dataset

    Raises
    ------
    GraphError
        If `source` is neither an asynchronous iterable nor callable.

    Examples
    --------
    >>> import asyncio, tagloom as tg
    >>> async def ticks():
    ...     for i in range(3):
    ...         await asyncio.sleep(0)
    ...         yield i
    >>> async def main():
    ...     return [pair.tolist() async for pair in tg.data.from_async(ticks).repeat(2).batch(3)]
    >>> asyncio.run(main())
    [[0, 1, 2], [0, 1, 2]]
    """
    if not hasattr(source, "__aiter__") and not callable(source):
        raise GraphError("this is no asynchronous iterable", got=repr(source), hint="give an async generator function")
    made = Dataset(iterables.AsyncIterableStage, source=source)
    return made if output is None else made.check(output)


@refuses_misuse
def from_arrays(arrays: Any) -> Dataset:
    """Return the slices of arrays along axis 0.

    Parameters
    ----------
    arrays : structure of array-like
        A tuple or dict of arrays, or a single array; all of equal length. The arrays must not be changed meanwhile.

    Returns
    -------
    Dataset
        Of read-only views.

    Raises
    ------
    ShapeError
        If the arrays differ in length.

    Examples
    --------
    >>> import asyncio, numpy as np, tagloom as tg
    >>> async def main():
    ...     data = tg.data.from_arrays({"x": np.eye(3), "y": np.arange(3)})
    ...     return [element async for element in data.shuffle(3, seed=0).take(1).batch(1)]
    >>> asyncio.run(main())
    [{'x': array([[0., 1., 0.]]), 'y': array([1])}]
    """
    leaves = [as_array(each) for each in leaves_of(arrays)]
    # None is the length of a scalar, which has no axis 0
    lengths = {array.shape[0] if array.ndim else None for array in leaves}
    if len(lengths) != 1 or None in lengths:
        raise ShapeError(
            "arrays that are sliced along axis 0 must be equally long",
            wanted="one or more arrays of one length",
            got=[array.shape for array in leaves],
            hint="cut them to one length, or make one Dataset of each and zip_datasets",
        )
    spec = pack_leaves(arrays, (TensorSpec(array.shape[1:], array.dtype) for array in leaves))
    return Dataset(stages.ArraysStage, spec=spec, arrays=pack_leaves(arrays, iter(leaves)))


@refuses_misuse
def from_npz(path: str | os.PathLike[str], names: str | Iterable[str] | None = None) -> Dataset:
    """Return the slices of the arrays of an ``.npz`` file along axis 0, as dicts by array name.

    Shapes and dtypes are read at once; the arrays are read in a thread at the first request for an element.

    Parameters
    ----------
    path : str or Path
    names : str or iterable of str, optional
        Names of arrays; all by default.

    Returns
    -------
    Dataset

    Raises
    ------
    OSError
        If the file cannot be opened.
    GraphError, ShapeError
        If the file is damaged, an array is missing or has a dtype of no tensor, or the lengths differ.

    Examples
    --------
    >>> import asyncio, tempfile, numpy as np, tagloom as tg
    >>> async def main(directory):
    ...     np.savez(directory + "/digits.npz", x=np.arange(4), y=np.arange(4) % 2)
    ...     return [element["x"].tolist() async for element in tg.data.from_npz(directory + "/digits.npz").batch(3)]
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     asyncio.run(main(directory))
    [[0, 1, 2], [3]]
    """
    name_of = os.fspath(path)
    headers = _read_headers(name_of)
    wanted = list(headers) if names is None else [names] if isinstance(names, str) else list(names)
    _check_headers(name_of, headers, wanted)
    spec = {name: TensorSpec(headers[name][0][1:], as_dtype(headers[name][1])) for name in wanted}
    return Dataset(stages.ArchiveStage, spec=spec, arrays=(name_of, wanted))


def _check_headers(name_of: str, headers: dict[str, tuple[tuple[int, ...], np.dtype[Any]]], wanted: list[str]) -> None:
    """Raise an error for missing arrays, different lengths, or dtypes of no tensor."""
    if missing := [name for name in wanted if name not in headers]:
        raise GraphError(
            f"{name_of} has no such arrays", wanted=missing, got=list(headers), hint="see numpy.load(path).files"
        )
    lengths = {headers[name][0][0] if headers[name][0] else None for name in wanted}
    if len(lengths) != 1 or None in lengths:
        raise ShapeError(
            f"the arrays of {name_of} must be equally long",
            got={name: headers[name][0] for name in wanted},
            hint="choose some by names=",
        )
    if refused := [name for name in wanted if headers[name][1].kind in "OVMm"]:  # objects, structs, dates, times
        raise GraphError(
            f"arrays of {name_of} are of dtypes that no tensor has",
            got={name: str(headers[name][1]) for name in refused},
            hint=f"choose others by names=, as of {[name for name in headers if name not in refused][:5]}",
        )


def _read_headers(path: str) -> dict[str, tuple[tuple[int, ...], np.dtype[Any]]]:
    """Return shapes and dtypes of an archive's arrays; OSError if the file is missing, GraphError if damaged."""
    found = {}
    # outside of the try block: a missing file is an OSError, a damaged one a GraphError
    with open(path, "rb") as whole:
        try:
            with zipfile.ZipFile(whole) as archive:
                for member in archive.namelist():
                    if member.endswith(".npy"):
                        with archive.open(member) as file:
                            # the header alone: arrays may be larger than the memory, and are not needed yet
                            found[member.removesuffix(".npy")] = read_header(file)
        except UNREADABLE as error:
            raise GraphError(
                f"an .npz file cannot be read: {error}",
                wanted="an archive of arrays, as numpy.savez writes it",
                got=path,
                hint="write it again, or look whether it is of another kind",
            ) from error
    return found


@refuses_misuse
def from_files(files: Files) -> Dataset:
    """Return the paths of files.

    Parameters
    ----------
    files : str, Path or iterable of them
        Paths, or patterns with ``*``, ``?``, ``[...]`` and ``**``, whose files come in the order of their names. Files
        are searched for, in a thread, at the first request for an element; a pattern without a match is an error then.

    Returns
    -------
    Dataset
        Of strings.

    Examples
    --------
    >>> import asyncio, pathlib, tempfile, tagloom as tg
    >>> async def main(directory):
    ...     for name in "ab":
    ...         pathlib.Path(directory, name + ".txt").write_text(name * 3)
    ...     paths = tg.data.from_files(directory + "/*.txt")
    ...     return [text async for text in paths.map(lambda path: pathlib.Path(path).read_text(), threads=True)]
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     asyncio.run(main(directory))
    ['aaa', 'bbb']
    """
    return Dataset(stages.PathsStage, spec=TensorSpec([], "string"), patterns=stages.as_patterns(files))


@refuses_misuse
def from_text(files: Files, compression: str = "auto") -> Dataset:
    """Return the lines of text files in UTF-8, without line ends and without a byte order mark.

    Parameters
    ----------
    files : str, Path or iterable of them
        As for `from_files`.
    compression : {'auto', 'gzip', 'zlib', ''}
        By default gzip for paths that end with .gz.

    Returns
    -------
    Dataset
        Of strings.

    Examples
    --------
    >>> import asyncio, pathlib, tempfile, tagloom as tg
    >>> async def main(directory):
    ...     pathlib.Path(directory, "verse.txt").write_text("one two\\nthree\\n")
    ...     lines = tg.data.from_text(directory + "/*.txt")
    ...     return [words async for words in lines.map(lambda line: line.split())]
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     asyncio.run(main(directory))
    [['one', 'two'], ['three']]
    """
    return _records_dataset(files, "text", "line", compression, TensorSpec([], "string"))


@refuses_misuse
def from_tfrecord(files: Files, compression: str = "auto") -> Dataset:
    """Return the records of TFRecord files, after checking their checksums.

    Parameters
    ----------
    files : str, Path or iterable of them
        As for `from_files`.
    compression : {'auto', 'gzip', 'zlib', ''}
        By default gzip for paths that end with .gz.

    Returns
    -------
    Dataset
        Of bytes; in a graph, of vectors of uint8. See `parse_example`.

    Examples
    --------
    >>> import asyncio, tempfile, tagloom as tg
    >>> async def main(directory):
    ...     with tg.data.TFRecordWriter(directory + "/data.tfrecord") as writer:
    ...         writer.write(tg.data.make_example({"label": [3]}))
    ...     records = tg.data.from_tfrecord(directory + "/data.tfrecord")
    ...     return [example["label"] async for example in records.map(tg.data.parse_example)]
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     asyncio.run(main(directory))
    [array([3])]
    """
    return _records_dataset(files, "tfrecord", "record", compression, TensorSpec([None], "uint8"))


@refuses_misuse
def from_fixed_length_records(
    files: Files, record_bytes: int, header_bytes: int = 0, footer_bytes: int = 0, compression: str = "auto"
) -> Dataset:
    """Return the records of files with records of equal length, such as CIFAR-10's.

    Parameters
    ----------
    files : str, Path or iterable of them
        As for `from_files`.
    record_bytes : int
    header_bytes, footer_bytes : int
        Numbers of bytes to skip before the first and after the last record of each file.
    compression : {'auto', 'gzip', 'zlib', ''}
        By default gzip for paths that end with .gz.

    Returns
    -------
    Dataset
        Of bytes; in a graph, of vectors of uint8. A truncated record at the end of a file is an error in its place.

    Raises
    ------
    GraphError
        If `record_bytes` is less than 1, another size less than 0, or the compression unknown.

    Examples
    --------
    >>> import asyncio, pathlib, tempfile, numpy as np, tagloom as tg
    >>> async def main(directory):
    ...     pathlib.Path(directory, "pairs.bin").write_bytes(b"HEAD" + np.arange(6, dtype=np.int16).tobytes())
    ...     records = tg.data.from_fixed_length_records(directory + "/pairs.bin", 4, header_bytes=4)
    ...     return [pair async for pair in records.map(lambda record: np.frombuffer(record, np.int16).tolist())]
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     asyncio.run(main(directory))
    [[0, 1], [2, 3], [4, 5]]
    """
    check_counts(record_bytes=record_bytes)
    check_counts(least=0, header_bytes=header_bytes, footer_bytes=footer_bytes)
    layout = FixedLayout(record_bytes, header_bytes, footer_bytes)
    return _records_dataset(files, layout, "record", compression, TensorSpec([record_bytes], "uint8"))


def _records_dataset(files: Files, format: str | FixedLayout, unit: str, compression: str, spec: TensorSpec) -> Dataset:
    """Return the Dataset of the records of files in a format, whose `unit` is named in errors."""
    return Dataset(
        stages.RecordsStage,
        spec=spec,
        patterns=stages.as_patterns(files),
        format=format,
        unit=unit,
        compression=check_compression(compression),
    )


@refuses_misuse
def zip_datasets(*datasets: Dataset) -> Dataset:
    """Return tuples of an element of each Dataset, until the first Dataset ends.

    Parameters
    ----------
    *datasets : Dataset

    Returns
    -------
    Dataset

    Examples
    --------
    >>> import asyncio, tagloom as tg
    >>> async def main():
    ...     numbers, letters = tg.data.from_iterable(range(3)), tg.data.from_iterable("abcd")
    ...     return [pair async for pair in tg.data.zip_datasets(numbers, letters)]
    >>> asyncio.run(main())
    [(0, 'a'), (1, 'b'), (2, 'c')]
    """
    if not datasets or not all(isinstance(each, Dataset) for each in datasets):
        raise GraphError(
            "Datasets are what is put side by side", wanted="one or more", got=datasets, hint="zip_datasets(a, b)"
        )
    # elements of unknown spec in one Dataset leave the spec of the tuples unknown
    specs = tuple(each.element_spec for each in datasets)
    return Dataset(combining.ZipStage, datasets, None if None in specs else specs)
