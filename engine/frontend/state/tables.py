"""Lookup tables, as in TensorFlow 1: numbers of words, words of numbers, and other values by keys."""

from __future__ import annotations

import os
from typing import Any
from weakref import WeakKeyDictionary

from ...base.array_like import Array
from ...base.dtypes import DType, as_dtype
from ...base.errors import GraphError, ShapeError
from ...base.shapes import Shape
from ...ir import scopes
from ...ir.apply import apply, build, convert_to_tensor, scoped_name
from ...ir.entry import public
from ...ir.graph import Graph
from ...ir.operation import Operation
from ...ir.tensor import Tensor
from ...ops.control.effects import group
from ...ops.state.tables import CONTAINER, Content, TableSpec
from .table_contents import FileContent, GivenContent, check_unique, key_dtype_of, values_of

_TABLES = "tables"  # collection of a graph: the operations that initialize its tables


class LookupTable:
    """Base of tables; make one of the classes below, or call a function such as `index_table_from_tensor`.

    A table may be made outside of a graph, and used in several. Each session has its own table contents.

    Attributes
    ----------
    key_dtype, value_dtype : DType
    default_value : numpy.ndarray
        Value of missing keys.
    name : str
        Name of the operations in a graph.

    Examples
    --------
    >>> import tagloom as tg
    >>> table = tg.HashTable([1, 2], ["one", "two"], default_value="many")
    >>> isinstance(table, tg.LookupTable), table.key_dtype, table.default_value.item()
    (True, tagloom.int32, 'many')
    """

    def __init__(
        self,
        key_dtype: Any,
        value_dtype: Any,
        default_value: Any,
        content: Content | None,
        shared_name: str | None,
        name: str,
    ) -> None:
        self.key_dtype: DType = key_dtype_of(key_dtype)
        self.value_dtype: DType = as_dtype(value_dtype)
        self.default_value: Array = values_of(self.value_dtype, default_value, "default_value")
        self.name: str = name
        self._shared_name = shared_name
        self._device = scopes.current().device  # of the place of creation; the handle is only built on first use
        shape = self.default_value.shape
        self._spec = TableSpec(self.key_dtype, self.value_dtype, shape, self.default_value.tolist(), content)
        # Weak keys: a table made outside of graphs must not keep its graphs alive.
        self._handles: WeakKeyDictionary[Graph, tuple[Tensor, Any]] = WeakKeyDictionary()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}: {self.key_dtype} to {self.value_dtype}{list(self._spec.shape)}>"

    def _handle_and_key(self) -> tuple[Tensor, Any]:
        """Return the handle in the current graph, and the key that orders its operations (None for constant tables)."""
        graph = scopes.get_default_graph()
        if graph not in self._handles:
            scope = scoped_name(self.name)
            shared = self._shared_name or scope
            device = self._device or scopes.current().device
            with scopes.within(region=graph.root, control_inputs=(), name=scope, device=device):
                handle = apply("TableHandle", name="handle", shared_name=shared, spec=self._spec)
            self._handles[graph] = handle, None if self._spec.content is not None else (CONTAINER, shared)
            if self._spec.content is not None:
                with scopes.within(region=graph.root, control_inputs=(), name=None):
                    # Built with the handle, since tables_initializer() covers tables without lookups too.
                    initializer = build("TableInitialize", [handle], name=f"{scope}/initialize", key=None)
                graph.collections.setdefault(_TABLES, []).append(initializer)
        return self._handles[graph]

    @public
    def lookup(self, keys: Any, name: str | None = None) -> Tensor:
        """Return the value of each key, `default_value` for missing keys.

        Parameters
        ----------
        keys : Tensor of `key_dtype`
            Of any shape.
        name : str, optional
            Name of the operation.

        Returns
        -------
        Tensor
            Of `value_dtype`; the shape is ``keys.shape`` followed by the shape of a value.

        Raises
        ------
        DtypeError
            If the keys are of another dtype.
        OpError
            When a step runs the operation, if a file of the table cannot be read, or a key has two values.
        """
        return self._find_values(self._keys_of(keys), name)

    def _find_values(self, keys: Tensor, name: str | None = None) -> Tensor:
        """Look up keys of the table's dtype."""
        handle, key = self._handle_and_key()
        values: Tensor = apply(
            "TableFind",
            handle,
            keys,
            name=name or "lookup",
            key=key,
            dtype=self.value_dtype,
            shape=self._spec.shape,
        )
        return values

    def _keys_of(self, keys: Any) -> Tensor:
        return convert_to_tensor(keys, self.key_dtype)

    @public
    def size(self, name: str | None = None) -> Tensor:
        """Return the number of keys, an int64 scalar."""
        handle, key = self._handle_and_key()
        return apply("TableSize", handle, name=name or "size", key=key)


class HashTable(LookupTable):
    """A table with constant contents.

    The table is filled by a step's first lookup, or by `initializer`, which need not run.

    Parameters
    ----------
    keys : array-like
        A vector of strings or integers.
    values : array-like
        As many values along axis 0; of any dtype.
    default_value : array-like
        Value of missing keys; of the shape of a value.
    key_dtype, value_dtype : dtype-like, optional
        By default the dtypes of `keys` and `values`, by the rules of literals: Python's integers are int32.
    shared_name : str, optional
        Tables of the same shared name are the same table in a session; by default the operation's own name.
    name : str
        Name of the operations in the graph.

    Raises
    ------
    ShapeError
        If keys and values differ in number, or `default_value` has another shape than a value.
    DtypeError
        If keys are neither strings nor integers, or an argument has another dtype.
    GraphError
        If a key has two values.

    Examples
    --------
    >>> import tagloom as tg
    >>> prices = tg.HashTable(["tea", "coffee"], [1.5, 2.5], default_value=-1.0)
    >>> tg.function(lambda: prices.lookup([["tea", "milk"]])).sync()
    array([[ 1.5, -1. ]], dtype=float32)
    """

    def __init__(
        self,
        keys: Any,
        values: Any,
        default_value: Any,
        key_dtype: Any = None,
        value_dtype: Any = None,
        shared_name: str | None = None,
        name: str = "hash_table",
    ) -> None:
        key_array = values_of(None if key_dtype is None else key_dtype_of(key_dtype), keys, "keys")
        value_array = values_of(None if value_dtype is None else as_dtype(value_dtype), values, "values")
        if key_array.ndim != 1 or value_array.shape[:1] != key_array.shape:
            raise ShapeError(
                "a table needs a value for each key",
                wanted="a vector of keys, and as many values along axis 0",
                got=f"keys {list(key_array.shape)}, values {list(value_array.shape)}",
                hint="cut both to one length",
            )
        super().__init__(
            key_array.dtype,
            value_array.dtype,
            default_value,
            GivenContent(key_array.tolist(), value_array),
            shared_name,
            name,
        )
        # After the constructor, which has converted the default.
        if self.default_value.shape != value_array.shape[1:]:
            raise ShapeError(
                "the default of a table has another shape than its values",
                wanted=list(value_array.shape[1:]),
                got=list(self.default_value.shape),
                hint="give a default_value that could be one of the values",
            )
        check_unique(key_array.tolist(), value_array)

    @classmethod
    def _make_from_content(
        cls, spec: tuple[Any, Any, Any], content: Content, shared_name: str | None, name: str
    ) -> HashTable:
        # Contents of a file have neither keys nor values to check before a step reads the file.
        table = cls.__new__(cls)
        LookupTable.__init__(table, *spec, content, shared_name, name)
        return table

    @classmethod
    def from_file(
        cls,
        path: str | os.PathLike[str],
        key_dtype: Any,
        value_dtype: Any,
        default_value: Any,
        key_column: int = 0,
        value_column: int = 1,
        delimiter: str = "\t",
        shared_name: str | None = None,
        name: str = "hash_table",
    ) -> HashTable:
        """Return a table of the columns of a UTF-8 text file, read in a thread when the table is first used.

        Parameters
        ----------
        path : str or Path
        key_dtype, value_dtype, default_value
            Dtypes of keys and values, parsed from text, and the value of missing keys.
        key_column, value_column : int
            Columns of the keys and the values, from 0.
        delimiter : str
            Text between columns.
        shared_name, name
            As for a HashTable.

        Returns
        -------
        HashTable

        Examples
        --------
        >>> import pathlib, tempfile, tagloom as tg
        >>> with tempfile.TemporaryDirectory() as directory:
        ...     path = pathlib.Path(directory, "ages.tsv")
        ...     _ = path.write_text("ann\\t31\\nbob\\t42\\n")
        ...     ages = tg.HashTable.from_file(path, "string", "int64", -1)
        ...     tg.function(lambda: ages.lookup(["bob", "eve"])).sync().tolist()
        [42, -1]
        """
        name_of = os.fspath(path)

        def split_lines(lines: list[str]) -> tuple[list[str], list[str]]:
            rows = [line.split(delimiter) for line in lines]
            most = max(key_column, value_column)
            if short := next((number for number, row in enumerate(rows, 1) if len(row) <= most), None):
                raise ValueError(f"{name_of}, line {short}: there is no column {most}")
            return [row[key_column] for row in rows], [row[value_column] for row in rows]

        if not delimiter or key_column < 0 or value_column < 0:
            raise GraphError(
                "a file of a table has columns, counted from 0, and something between them",
                got=f"key_column={key_column}, value_column={value_column}, delimiter={delimiter!r}",
                hint="from_file(path, 'string', 'int64', -1, key_column=0, value_column=1)",
            )
        return cls._make_from_content(
            (key_dtype, value_dtype, default_value), FileContent(name_of, split_lines), shared_name, name
        )

    @property
    def initializer(self) -> Operation:
        """Operation that fills the table in the current graph; without it the first lookup does."""
        # Each access builds a new operation; `tables_initializer` uses the one that was built with the handle.
        handle, _ = self._handle_and_key()
        return build("TableInitialize", [handle], name="initialize", key=None)


class MutableHashTable(LookupTable):
    """A table changed by steps; empty at first, and included in snapshots and checkpoints.

    Its operations run in the order in which they were built, like a variable's.

    Parameters
    ----------
    key_dtype : {'string', 'int64', 'int32'}
    value_dtype : dtype-like
    default_value : array-like
        Value of missing keys; of the shape of the values.
    shared_name : str, optional
        Tables of the same shared name are the same table in a session; by default the operation's own name.
    name : str
        Name of the operations in the graph.

    Raises
    ------
    DtypeError
        If `key_dtype` is neither string nor an integer.

    Examples
    --------
    >>> import tagloom as tg
    >>> with tg.Graph().as_default() as graph:
    ...     counts = tg.MutableHashTable("string", "int64", 0)
    ...     words = tg.placeholder("string", [None])
    ...     count = counts.insert(words, counts.lookup(words) + 1)
    ...     keys, values = counts.export()
    >>> with tg.SyncSession(graph) as session:
    ...     for line in (["a", "rose"], ["is", "a"]):
    ...         session.run(count, {words: line})
    ...     dict(zip(*(each.tolist() for each in session.run([keys, values]))))
    {'a': 2, 'rose': 1, 'is': 1}
    """

    def __init__(
        self,
        key_dtype: Any,
        value_dtype: Any,
        default_value: Any,
        shared_name: str | None = None,
        name: str = "mutable_hash_table",
    ) -> None:
        super().__init__(key_dtype, value_dtype, default_value, None, shared_name, name)

    @public
    def insert(self, keys: Any, values: Any, name: str | None = None) -> Operation:
        """Return an operation that inserts values, replacing the values of keys already in the table.

        Parameters
        ----------
        keys : Tensor of `key_dtype`
        values : Tensor of `value_dtype`
            A value for each key; of a repeated key the last value holds.
        name : str, optional
            Name of the operation.

        Returns
        -------
        Operation

        Raises
        ------
        DtypeError, ShapeError
            If keys and values differ in number, or have other dtypes.
        OpError
            When a step runs the operation, if only then a mismatch is known.
        """
        handle, key = self._handle_and_key()
        key_tensor, value_tensor = self._keys_of(keys), convert_to_tensor(values, self.value_dtype)
        # merge() raises ShapeError if there cannot be a value for each key.
        if key_tensor.shape.rank is not None:
            Shape([*key_tensor.shape, *self._spec.shape]).merge(value_tensor.shape)
        return build("TableInsert", [handle, key_tensor, value_tensor], name=name or "insert", key=key)

    @public
    def remove(self, keys: Any, name: str | None = None) -> Operation:
        """Return an operation that removes `keys`; missing keys are ignored."""
        handle, key = self._handle_and_key()
        return build("TableRemove", [handle, self._keys_of(keys)], name=name or "remove", key=key)

    @public
    def export(self, name: str | None = None) -> tuple[Tensor, Tensor]:
        """Return all keys, a vector, and their values along axis 0, in the same order."""
        handle, key = self._handle_and_key()
        op = build(
            "TableExport",
            [handle],
            name=name or "export",
            key=key,
            key_dtype=self.key_dtype,
            dtype=self.value_dtype,
            shape=self._spec.shape,
        )
        keys, values = op.outputs
        return keys, values


@public
def tables_initializer(name: str = "initialize_tables") -> Operation:
    """Return an operation that fills the tables of the current graph; without it their first lookups do.

    Parameters
    ----------
    name : str
        Name of the operation.

    Returns
    -------
    Operation

    Examples
    --------
    >>> import tagloom as tg
    >>> with tg.Graph().as_default() as graph:
    ...     found = tg.index_table_from_tensor(["a", "b"]).lookup(["b"])
    ...     init = tg.tables_initializer()
    >>> with tg.SyncSession(graph) as session:
    ...     session.run(init)
    ...     session.run(found)
    array([1])
    """
    return group(*scopes.get_default_graph().collections.get(_TABLES, ()), name=name)
