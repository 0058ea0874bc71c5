"""Keys of stateless draws: pairs of integers, and new keys derived from them.

A key is the key of a Philox generator. Draws count its blocks by the lowest word of the counter; `fold_in` and
`stateless_split` use counters with other high words, so that derived keys are independent of all draws by their key.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...base import dtypes
from ...base.array_libraries import is_traced
from ...base.errors import DtypeError, ShapeError
from ...base.shapes import Shape
from ...ir.apply import apply, convert_to_tensor
from ...ir.definition import REQUIRED, NotDifferentiable, Sample, define
from ...ir.entry import public
from ...ir.operation import Operation
from ...ir.rules.vectorizing import Vectorize
from ...ir.tensor import Tensor
from ..support.arguments import static_int
from ..support.literals import i32
from ..support.vectorizing.families import one_by_one

Array = np.ndarray[Any, Any]

_FOLDED, _SPLIT = 1, 2  # the third words of the counters
NO_GRADIENT = NotDifferentiable("it is made of bits, and a key has no gradient")


def key_tensor(key: Any) -> Tensor:
    """Return the two integers of a key as a tensor of int32 or int64."""
    tensor = convert_to_tensor(key)
    if tensor.dtype not in dtypes.INDEX:
        raise DtypeError(
            "a key is two integers", wanted="int32 or int64", got=tensor.dtype, operation=tensor.op, hint="seed=[1, 2]"
        )
    if not tensor.shape.is_compatible_with(Shape([2])):
        raise ShapeError(
            "a key is two integers", wanted="[2]", got=tensor.shape, operation=tensor.op, hint="as in seed=[7, 0]"
        )
    return tensor


def words_of(xp: Any, key: Array, number: Any = 0, kind: int = 0) -> np.random.Philox:
    """Return the generator of a key, which begins at a number, of a kind, as the middle words of its counter.

    The host draws for all devices; a kernel that is traced draws by a generator whose words become steps.
    """
    if key.shape != (2,):
        raise ValueError(f"a key is two integers, got an array of shape {list(key.shape)}")
    host = xp if is_traced(xp) else np
    counter = host.zeros(4, np.int64)
    counter[1], counter[2] = number, kind
    # Negative numbers are extended to 64 bits, so that int32 and int64 keys agree.
    words = key.astype(np.int64, copy=False).view(np.uint64)
    philox: np.random.Philox = host.random.Philox(key=words, counter=counter.view(np.uint64))
    return philox


def _draw_key_pair(xp: Any, key: Array, number: Any, kind: int) -> Array:
    return words_of(xp, key, number, kind).random_raw(2).astype(np.int64)


def _expected_pair(key: Array, number: int, kind: int) -> Array:
    """Return the result of `_draw_key_pair` from plain integers, as the expectation of samples."""
    counter = (kind << 128) + (number << 64)
    return np.random.Philox(key=(int(key[1]) << 64) + int(key[0]), counter=counter).random_raw(2).astype(np.int64)


define(
    "KeyFoldIn",
    "key: host K, data: host D -> folded: host int64",
    where={"K": dtypes.INDEX, "D": dtypes.INDEX},
    shape=lambda op: Shape([2]),
    rules=[Vectorize(one_by_one)],
    kernel=lambda xp, key, data: _draw_key_pair(xp, key, data, _FOLDED),
    gradient=NO_GRADIENT,
    samples=[Sample([i32([3, 4]), i32(5)], lambda key, data: _expected_pair(key, int(data), 1))],
)


def _keys_shape(op: Operation) -> Shape:
    return Shape([op.attrs["num"], 2])


define(
    "KeySplit",
    "key: host K -> keys: host int64",
    where={"K": dtypes.INDEX},
    attrs={"num": REQUIRED},
    shape=_keys_shape,
    rules=[Vectorize(one_by_one)],
    kernel=lambda xp, key, num: np.stack([_draw_key_pair(xp, key, k, _SPLIT) for k in range(num)]),
    gradient=NO_GRADIENT,
    samples=[Sample([i32([3, 4])], lambda key: np.stack([_expected_pair(key, k, 2) for k in range(3)]), {"num": 3})],
)


@public
def fold_in(seed: Any, data: Any, name: str | None = None) -> Tensor:
    """Derive a new key from a key and a number of a step, epoch or replica (TensorFlow's stateless_fold_in).

    Parameters
    ----------
    seed : int32 or int64 vector of 2
        A key.
    data : int32 or int64 scalar
        Other numbers yield other, independent keys.

    Returns
    -------
    Tensor
        The new key, an int64 vector of 2, on every executor and device the same.

    Raises
    ------
    ShapeError
        If `seed` is known not to be two integers.
    DtypeError
        If `seed` or `data` is no integer.

    Examples
    --------
    >>> import tagloom as tg
    >>> noise = tg.function(lambda step: tg.stateless_random_normal([2], tg.fold_in([7, 0], step)))
    >>> bool((noise.sync(1) == noise.sync(1)).all()), bool((noise.sync(1) == noise.sync(2)).any())
    (True, False)
    """
    number = np.int64(data) if type(data) is int else data
    return apply("KeyFoldIn", key_tensor(seed), number, name=name)


@public
def stateless_split(seed: Any, num: int = 2, name: str | None = None) -> Tensor:
    """Derive several independent keys from a key, which should not be used for draws besides.

    Parameters
    ----------
    seed : int32 or int64 vector of 2
        A key.
    num : int, optional
        Number of keys, at least 1.

    Returns
    -------
    Tensor
        Of int64 and shape [num, 2], a key in each row.

    Raises
    ------
    ShapeError
        If `seed` is known not to be two integers, or `num` is less than 1.

    Examples
    --------
    >>> import tagloom as tg
    >>> keys = tg.function(lambda: tg.stateless_split([7, 0], 3)).sync()
    >>> keys.shape, len({tuple(key) for key in keys.tolist()})
    ((3, 2), 3)
    """
    count = static_int(num, "num")
    if count < 1:
        raise ShapeError("a key is split into some", wanted="num of 1 or more", got=count, hint="num=2, say")
    return apply("KeySplit", key_tensor(seed), name=name, num=count)
