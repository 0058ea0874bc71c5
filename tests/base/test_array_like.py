"""What becomes an array: literals and scalars take a dtype they fit, arrays have one, other libraries' are read."""

import ml_dtypes
import numpy as np
import pytest
from tagloom.base import dtypes
from tagloom.base.array_like import as_array, as_fed_array
from tagloom.base.errors import DtypeError


@pytest.mark.parametrize(
    ("scalar", "dtype"),
    [
        (np.float64(2.5), "float32"),
        (np.sqrt(2), "bfloat16"),
        (np.float32(2.5), "complex64"),
        (np.int64(3), "int8"),
        (np.int64(3), "float32"),
        (np.uint8(3), "int32"),
        (ml_dtypes.bfloat16(1.5), "float64"),
        (np.True_, "bool"),
        (np.str_("a"), "string"),
    ],
)
def test_a_scalar_of_numpy_takes_a_dtype_as_a_literal_does(scalar, dtype):
    dtype = dtypes.as_dtype(dtype)
    for value, shape in ((scalar, ()), ([scalar, scalar], (2,))):
        array = as_array(value, dtype)
        assert (array.dtype, array.shape) == (dtype.numpy, shape)
        assert (array == np.asarray(scalar).astype(dtype.numpy)).all()


@pytest.mark.parametrize(
    ("scalar", "dtype"),
    [
        (np.float64(2.0), "int32"),
        (np.complex64(1j), "float32"),
        (np.True_, "float32"),
        (np.int8(1), "bool"),
        (np.int64(300), "int8"),
        (np.int8(-1), "uint32"),
        (np.float64(1e300), "float32"),
        (np.datetime64("2020"), "int64"),
    ],
)
def test_a_scalar_that_does_not_fit_is_refused(scalar, dtype):
    for value in (scalar, [scalar]):
        with pytest.raises(DtypeError):
            as_array(value, dtypes.as_dtype(dtype))


def test_alone_scalars_and_arrays_keep_their_dtype():
    assert [as_array(v).dtype for v in (np.float64(1), np.int8(1), np.zeros(2, np.uint16))] == ["f8", "i1", "u2"]
    assert [as_array(v).dtype for v in (1.0, [1, 2], True, [np.int64(1)])] == ["f4", "i4", "?", "i8"]
    with pytest.raises(DtypeError, match="another dtype"):
        as_array(np.zeros(2), dtypes.float32)


FITTING = [
    (np.float64([1, np.nan, np.inf]), "float32"),
    (np.float32([1.5]), "float64"),
    (np.float32([1.5]), "bfloat16"),
    (np.asarray([1.5], ml_dtypes.bfloat16), "float32"),
    (np.arange(3), "int32"),
    (np.arange(3), "uint8"),
    (np.uint8([255]), "int16"),
    (np.arange(3), "float16"),
    (np.float64([1]), "complex64"),
    (np.zeros(0), "float16"),
    (np.zeros(0, np.int64), "int8"),
    (np.arange(3).astype(">i8"), "int32"),
    (np.array(["a", "b"]), "string"),
]


@pytest.mark.parametrize(("array", "dtype"), FITTING)
def test_a_fed_array_takes_a_dtype_that_fits(array, dtype):
    dtype = dtypes.as_dtype(dtype)
    fed = as_fed_array(array, dtype)
    assert (fed.dtype, fed.shape) == (dtype.numpy, array.shape)
    np.testing.assert_array_equal(fed, array.astype(dtype.numpy))


@pytest.mark.parametrize(
    ("array", "dtype", "what"),
    [
        (np.float32([1]), "int32", "another kind"),
        (np.complex64([1]), "float32", "another kind"),
        (np.array([True]), "float32", "another kind"),
        (np.arange(2), "bool", "another kind"),
        (np.arange(2), "string", "another kind"),
        (np.int64([0, 2**31]), "int32", "out of range"),
        (np.int32([-1]), "uint64", "out of range"),
        (np.uint64([2**63]), "int64", "out of range"),
        (np.float64([1e39]), "float32", "too large"),
        (np.int64([70000]), "float16", "too large"),
    ],
)
def test_a_fed_array_that_does_not_fit_is_refused(array, dtype, what):
    with pytest.raises(DtypeError, match=what) as caught:
        as_fed_array(array, dtypes.as_dtype(dtype))
    assert caught.value.hint


def test_what_fits_already_is_not_copied():
    array = np.zeros(3, np.float32)
    assert as_fed_array(array, dtypes.float32) is not None
    assert np.shares_memory(as_fed_array(array, dtypes.float32), array)
    assert np.shares_memory(as_array(array), array)


def test_objects_that_are_strings():
    words = np.array([["a", "bc"]], dtype=object)
    for array in (as_array(words), as_array(words, dtypes.string), as_fed_array(words, dtypes.string)):
        assert array.dtype == dtypes.string.numpy
        assert array.tolist() == [["a", "bc"]]
    assert as_array(np.array([], dtype=object), dtypes.string).shape == (0,)
    for values in (["a", None], [1.0, 2.0], ["a", 1]):
        with pytest.raises(DtypeError, match="something else than strings") as caught:
            as_array(np.array(values, dtype=object))
        assert "numpy.array(values" in caught.value.hint


@pytest.mark.parametrize("value", [None, object(), {"a": 1}, [object()]])
def test_what_is_no_value(value):
    with pytest.raises(DtypeError, match="something else" if isinstance(value, list) else "cannot become a tensor"):
        as_array(value)


class Exporting:
    """An array of another library, as far as NumPy sees it."""

    def __init__(self, array, dlpack=None, converts=True):
        self.array, self.dlpack, self.converts = array, dlpack, converts
        self.dtype = f"other.{array.dtype}"

    def __dlpack_device__(self):
        return (1, 0)

    def __dlpack__(self, **options):
        if self.dlpack is not None:
            raise self.dlpack
        return self.array.__dlpack__(**options)

    def __array__(self, dtype=None, copy=None):
        if not self.converts:
            raise TypeError("can't convert this to NumPy")
        return self.array


@pytest.mark.parametrize(
    "refusal", [None, RuntimeError("Unsupported dtype"), BufferError("requires grad"), TypeError()]
)
def test_arrays_of_other_libraries_are_read_in_one_way_or_another(refusal):
    array = np.array([1.5, 2.0], np.float32 if refusal is None else ml_dtypes.bfloat16)
    found = as_array(Exporting(array, refusal))
    assert found.dtype == array.dtype
    np.testing.assert_array_equal(found, array)
    assert as_fed_array(Exporting(array, refusal), dtypes.float32).dtype == np.float32


def test_an_array_that_no_way_reads_is_refused_with_its_reason():
    array = Exporting(np.zeros(2, ml_dtypes.bfloat16), BufferError("it requires grad"), converts=False)
    with pytest.raises(DtypeError, match="it requires grad") as caught:
        as_array(array)
    assert caught.value.got.endswith("Exporting of other.bfloat16")
    assert ".detach().cpu()" in caught.value.hint
