"""Lookup tables of vocabularies: numbers of words, and words of numbers, as in TensorFlow 1."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from ...base.array_like import Array
from ...base.dtypes import DType, string
from ...base.errors import GraphError, ShapeError
from ...ir.entry import public
from ...ir.tensor import Tensor
from ...ops.array.where import where
from ...ops.math.arithmetic import add
from ...ops.state.tables import Content
from ...ops.strings.conversions import as_string, string_to_hash_bucket
from .table_contents import FileContent, GivenContent, check_unique, key_dtype_of, values_of
from .tables import HashTable, LookupTable


class _IndexTable(HashTable):
    """A table of vocabulary indices; other keys get the default, or a bucket after the vocabulary."""

    def __init__(self, key_dtype: Any, content: Content, buckets: int, default_value: int, name: str) -> None:
        if isinstance(buckets, bool) or not isinstance(buckets, int) or buckets < 0:
            raise GraphError(
                "num_oov_buckets is no number of buckets", wanted="0 or more", got=repr(buckets), hint="0 for none"
            )
        # With buckets, -1 marks the missing keys that lookup() hashes.
        LookupTable.__init__(self, key_dtype, "int64", -1 if buckets else default_value, content, None, name)
        self._buckets = buckets

    @public
    def lookup(self, keys: Any, name: str | None = None) -> Tensor:
        """Return the number of each key, an int64 Tensor of the shape of `keys`; `name` names the operation."""
        key_tensor = self._keys_of(keys)
        if not self._buckets:
            return self._find_values(key_tensor, name)
        numbers = self._find_values(key_tensor)
        texts = key_tensor if self.key_dtype is string else as_string(key_tensor)
        # Buckets follow the vocabulary, whose size is only known to the step if it comes from a file.
        # Not self.size(), which counts the buckets as well.
        others = super().size() + string_to_hash_bucket(texts, self._buckets)
        return where(numbers < 0, others, numbers, name=name)

    @public
    def size(self, name: str | None = None) -> Tensor:
        """Return the number of entries and buckets, an int64 scalar."""
        return add(super().size(), self._buckets, name=name) if self._buckets else super().size(name)


@public
def index_table_from_tensor(
    mapping: Any,
    num_oov_buckets: int = 0,
    default_value: int = -1,
    dtype: Any = None,
    name: str = "index_table",
) -> HashTable:
    """Return a table from the strings or integers of a vector to their indices.

    Parameters
    ----------
    mapping : array-like
        A vector of different strings or integers.
    num_oov_buckets : int
        If above 0, missing keys are hashed to as many numbers after the vector's indices, by `string_to_hash_bucket`,
        whose hash differs from TensorFlow's.
    default_value : int
        Number of missing keys, if there are no buckets.
    dtype : {'string', 'int64', 'int32'}, optional
        Of keys; by default the dtype of `mapping`.
    name : str
        Name of the operations in the graph.

    Returns
    -------
    HashTable
        Of int64; its ``size()`` counts the buckets.

    Raises
    ------
    GraphError
        If a key is repeated, or `num_oov_buckets` is negative.
    ShapeError, DtypeError
        If `mapping` is no vector of strings or integers.

    Examples
    --------
    >>> import tagloom as tg
    >>> words = tg.index_table_from_tensor(["a", "rose", "is"])
    >>> tg.function(lambda: words.lookup(tg.constant(["rose", "thorn", "a"]))).sync()
    array([ 1, -1,  0])
    """
    keys = _convert_mapping(mapping, None if dtype is None else key_dtype_of(dtype))
    numbers = np.arange(len(keys))
    # Numbers of two equal keys differ, so any repetition is an error.
    check_unique(keys.tolist(), numbers)
    return _IndexTable(keys.dtype, GivenContent(keys.tolist(), numbers), num_oov_buckets, default_value, name)


@public
def index_to_string_table_from_tensor(
    mapping: Any, default_value: str = "UNK", name: str = "index_to_string_table"
) -> HashTable:
    """Return a table from indices of a vector to its strings.

    Parameters
    ----------
    mapping : array-like
        A vector of strings.
    default_value : str
        The string of numbers outside of the vector's indices.
    name : str
        Name of the operations in the graph.

    Returns
    -------
    HashTable
        Of int64 keys.

    Raises
    ------
    ShapeError, DtypeError
        If `mapping` is no vector of strings.

    Examples
    --------
    >>> import tagloom as tg
    >>> words = tg.index_to_string_table_from_tensor(["a", "rose", "is"])
    >>> tg.function(lambda: words.lookup(tg.constant([1, 7], "int64"))).sync().tolist()
    ['rose', 'UNK']
    """
    texts = _convert_mapping(mapping, string)
    content = GivenContent(list(range(len(texts))), texts)
    return HashTable._make_from_content(("int64", string, default_value), content, None, name)


@public
def index_table_from_file(
    vocabulary_file: str | os.PathLike[str],
    num_oov_buckets: int = 0,
    vocab_size: int | None = None,
    default_value: int = -1,
    key_dtype: Any = "string",
    name: str = "index_table",
) -> HashTable:
    """Return a table from the lines of a UTF-8 text file to their numbers, from 0.

    The file is read, in a thread, when the table is first used.

    Parameters
    ----------
    vocabulary_file : str or Path
        File with a key in each line; plain, or compressed by gzip if the name ends with .gz.
    num_oov_buckets, default_value, name
        As for `index_table_from_tensor`.
    vocab_size : int, optional
        Number of lines to use, from the first; a shorter file is an error. All lines by default.
    key_dtype : {'string', 'int64', 'int32'}

    Returns
    -------
    HashTable
        Of int64.

    Raises
    ------
    GraphError
        If `vocab_size` is less than 1.

    Examples
    --------
    >>> import pathlib, tempfile, tagloom as tg
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     path = pathlib.Path(directory, "words.txt")
    ...     _ = path.write_text("a\\nrose\\n")
    ...     words = tg.index_table_from_file(path, num_oov_buckets=1)
    ...     tg.function(lambda: words.lookup(["rose", "thorn"])).sync().tolist()
    [1, 2]
    """
    content = FileContent(
        os.fspath(vocabulary_file), lambda lines: (lines, range(len(lines))), _checked_size(vocab_size)
    )
    return _IndexTable(key_dtype, content, num_oov_buckets, default_value, name)


@public
def index_to_string_table_from_file(
    vocabulary_file: str | os.PathLike[str],
    vocab_size: int | None = None,
    default_value: str = "UNK",
    name: str = "index_to_string_table",
) -> HashTable:
    """Return a table from line numbers of a UTF-8 text file, from 0, to its lines.

    Parameters
    ----------
    vocabulary_file, vocab_size
        As for `index_table_from_file`.
    default_value, name
        As for `index_to_string_table_from_tensor`.

    Returns
    -------
    HashTable
        Of int64 keys.

    Raises
    ------
    GraphError
        If `vocab_size` is less than 1.

    Examples
    --------
    >>> import pathlib, tempfile, tagloom as tg
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     path = pathlib.Path(directory, "words.txt")
    ...     _ = path.write_text("a\\nrose\\n")
    ...     words = tg.index_to_string_table_from_file(path)
    ...     tg.function(lambda: words.lookup(tg.constant([1, 2], "int64"))).sync().tolist()
    ['rose', 'UNK']
    """
    content = FileContent(
        os.fspath(vocabulary_file), lambda lines: (range(len(lines)), lines), _checked_size(vocab_size)
    )
    return HashTable._make_from_content(("int64", string, default_value), content, None, name)


def _convert_mapping(mapping: Any, dtype: DType | None) -> Array:
    vector = values_of(dtype, mapping, "keys")
    if vector.ndim != 1:
        raise ShapeError(
            "a vocabulary is a vector", wanted="[n]", got=list(vector.shape), hint="give a list of strings or integers"
        )
    return vector


def _checked_size(size: int | None) -> int | None:
    if size is not None and (isinstance(size, bool) or not isinstance(size, int) or size < 1):
        raise GraphError(
            "vocab_size is no number of lines", wanted="1 or more", got=repr(size), hint="leave it out for all lines"
        )
    return size
