"""Readers of files named by the elements of a queue, as in TensorFlow 1."""

from __future__ import annotations

from typing import Any

from ....base.compressed_files import check_compression
from ....base.dtypes import DType, string, uint8
from ....base.errors import DtypeError, GraphError
from ....base.record_files import FixedLayout
from ....frontend.queues.queue_base import QueueBase
from ....ir import scopes
from ....ir.apply import apply, build, scoped_name
from ....ir.entry import public
from ....ir.operation import Operation
from ....ir.tensor import Tensor
from ....ops.state.files import content_dtype
from . import operations as _operations  # noqa: F401  declares the operation types used below


class ReaderBase:
    """Base class of readers; make one of the classes below.

    A reader belongs to a session, like a queue. It takes a file name from a queue, returns the file's records in
    order, and takes the next name. Files are read in threads.

    Attributes
    ----------
    name : str
        Unique in the graph.
    shared_name : str
        Name in the session.
    dtype : DType
        Of records: string, or uint8 for bytes.
    reader_ref : Tensor
        The resource handle.
    """

    __slots__ = ("_record_bytes", "dtype", "name", "reader_ref", "shared_name")

    def __init__(
        self,
        format: str,
        dtype: DType,
        compression: str,
        shared_name: str | None,
        name: str,
        layout: FixedLayout | None = None,
    ) -> None:
        self.dtype: DType = dtype
        self._record_bytes = None if layout is None else layout.record_bytes
        self.name: str = scoped_name(name)
        self.shared_name: str = shared_name or self.name
        graph = scopes.get_default_graph()
        # In the root region: the position in the current file outlives steps.
        with scopes.within(region=graph.root, control_inputs=(), name=self.name):
            self.reader_ref: Tensor = apply(
                "ReaderHandle",
                name="handle",
                shared_name=self.shared_name,
                format=format,
                compression=check_compression(compression),
                dtype=dtype,
                layout=tuple(layout or ()),
            )

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"

    @property
    def graph(self) -> Any:
        """The reader's graph."""
        return self.reader_ref.graph

    @public
    def read(self, queue: QueueBase, name: str | None = None) -> tuple[Tensor, Tensor]:
        """Return the next record and its origin.

        Parameters
        ----------
        queue : FIFOQueue or another
            Queue of strings, the file names; the next name is taken after the last record of a file.
        name : str, optional
            Name of the operation.

        Returns
        -------
        key, value : Tensor
            A string scalar, the path and, unless a record is a whole file, a colon and the record's number from 1; and
            the record, a string scalar or uint8 of shape [n].

        Raises
        ------
        DtypeError
            If the queue's elements are no strings.
        QueueClosed
            When a step runs the operation, if the queue is closed and has no file left.
        OpError
            When a step runs the operation, if the file cannot be read, or the record is damaged. The next step
            continues after the damaged record or file.
        """
        if queue.dtypes != (string,):
            raise DtypeError(
                f"queue '{queue.name}' has no names of files",
                wanted="one component, string",
                got=list(queue.dtypes),
                hint="make it with dtypes='string', shapes=[[]]",
            )
        op = build(
            "ReaderRead",
            [self.reader_ref, queue.queue_ref],
            name=name or "read",
            dtype=self.dtype,
            # Records of other formats vary in length.
            length=self._record_bytes,
        )
        key, value = op.outputs
        return key, value

    @public
    def num_records_produced(self, name: str | None = None) -> Tensor:
        """Return the number of records read, an int64 scalar."""
        return apply("ReaderNumRecordsProduced", self.reader_ref, name=name or "num_records_produced")

    @public
    def num_work_units_completed(self, name: str | None = None) -> Tensor:
        """Return the number of files read to their ends, an int64 scalar."""
        return apply("ReaderNumWorkUnitsCompleted", self.reader_ref, name=name or "num_work_units_completed")

    @public
    def reset(self, name: str | None = None) -> Operation:
        """Return an operation that resets the reader: without a current file, and counting from 0."""
        return apply("ReaderReset", self.reader_ref, name=name or "reset")


class TextLineReader(ReaderBase):
    """A reader of the lines of files of text in UTF-8, without a byte order mark.

    Parameters
    ----------
    compression : {'auto', 'gzip', 'zlib', ''}
        By default gzip for paths ending in .gz.
    shared_name : str, optional
        Readers of the same shared name are the same reader in a session; by default the own name.
    name : str
        Name in the graph.

    Examples
    --------
    >>> import pathlib, tempfile, tagloom as tg
    >>> with tempfile.TemporaryDirectory() as directory, tg.Graph().as_default() as graph:
    ...     path = pathlib.Path(directory, "verse.txt")
    ...     _ = path.write_text("one\\ntwo\\n")
    ...     files = tg.FIFOQueue(4, "string", shapes=[[]])
    ...     put = files.enqueue(str(path))
    ...     key, line = tg.compat.tf1.TextLineReader().read(files)
    ...     with tg.SyncSession(graph) as session:
    ...         session.run(put)
    ...         [session.run(line).item() for _ in range(2)]
    ['one', 'two']
    """

    __slots__ = ()

    def __init__(
        self, compression: str = "auto", shared_name: str | None = None, name: str = "text_line_reader"
    ) -> None:
        super().__init__("text", string, compression, shared_name, name)


class TFRecordReader(ReaderBase):
    """A reader of the records of TFRecord files; checksums are verified.

    Parameters
    ----------
    compression, shared_name, name
        As of a TextLineReader.

    Examples
    --------
    >>> import tempfile, tagloom as tg
    >>> with tempfile.TemporaryDirectory() as directory, tg.Graph().as_default() as graph:
    ...     with tg.data.TFRecordWriter(directory + "/a.tfrecord") as writer:
    ...         writer.write(b"abc")
    ...     files = tg.FIFOQueue(4, "string", shapes=[[]])
    ...     put = files.enqueue(directory + "/a.tfrecord")
    ...     key, record = tg.compat.tf1.TFRecordReader().read(files)
    ...     with tg.SyncSession(graph) as session:
    ...         session.run(put)
    ...         session.run(record).tobytes()
    b'abc'
    """

    __slots__ = ()

    def __init__(
        self, compression: str = "auto", shared_name: str | None = None, name: str = "tfrecord_reader"
    ) -> None:
        super().__init__("tfrecord", uint8, compression, shared_name, name)


class WholeFileReader(ReaderBase):
    """A reader whose records are whole files.

    Parameters
    ----------
    dtype : {'uint8', 'string'}
        Bytes, or text in UTF-8.
    shared_name, name
        As of a TextLineReader.

    Examples
    --------
    >>> import pathlib, tempfile, tagloom as tg
    >>> with tempfile.TemporaryDirectory() as directory, tg.Graph().as_default() as graph:
    ...     path = pathlib.Path(directory, "a.bin")
    ...     _ = path.write_bytes(bytes([1, 2, 255]))
    ...     files = tg.FIFOQueue(4, "string", shapes=[[]])
    ...     put = files.enqueue(str(path))
    ...     key, content = tg.compat.tf1.WholeFileReader().read(files)
    ...     with tg.SyncSession(graph) as session:
    ...         session.run(put)
    ...         session.run(content)
    array([  1,   2, 255], dtype=uint8)
    """

    __slots__ = ()

    def __init__(self, dtype: Any = "uint8", shared_name: str | None = None, name: str = "whole_file_reader") -> None:
        # A compressed file is read as its compressed bytes.
        super().__init__("file", content_dtype(dtype), "", shared_name, name)


class FixedLengthRecordReader(ReaderBase):
    """A reader of files of records of a fixed length.

    Parameters
    ----------
    record_bytes : int
    header_bytes, footer_bytes : int
        Number of bytes to skip before the first record and after the last record of each file.
    compression, shared_name, name
        As of a TextLineReader.

    Raises
    ------
    GraphError
        If `record_bytes` is less than 1, or another length is negative.

    Examples
    --------
    >>> import pathlib, tempfile, tagloom as tg
    >>> with tempfile.TemporaryDirectory() as directory, tg.Graph().as_default() as graph:
    ...     path = pathlib.Path(directory, "a.bin")
    ...     _ = path.write_bytes(bytes(range(7)))
    ...     files = tg.FIFOQueue(4, "string", shapes=[[]])
    ...     put = files.enqueue(str(path))
    ...     key, record = tg.compat.tf1.FixedLengthRecordReader(3, header_bytes=1).read(files)
    ...     with tg.SyncSession(graph) as session:
    ...         session.run(put)
    ...         [session.run(record).tolist() for _ in range(2)]
    [[1, 2, 3], [4, 5, 6]]
    """

    __slots__ = ()

    def __init__(
        self,
        record_bytes: int,
        header_bytes: int = 0,
        footer_bytes: int = 0,
        compression: str = "auto",
        shared_name: str | None = None,
        name: str = "fixed_length_record_reader",
    ) -> None:
        layout = FixedLayout(record_bytes, header_bytes, footer_bytes)
        for what, size, least in zip(layout._fields, layout, (1, 0, 0), strict=True):
            if not isinstance(size, int) or isinstance(size, bool) or size < least:
                raise GraphError(
                    f"{what} is no number of bytes",
                    wanted=f"an integer of at least {least}",
                    got=repr(size),
                    hint="count the bytes of a record, of the header before the first and of the footer after the last",
                )
        super().__init__("fixed", uint8, compression, shared_name, name, layout)
