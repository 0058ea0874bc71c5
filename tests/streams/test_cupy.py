"""What is used of CuPy's memory: with the real one where it is installed, which needs no GPU; and where it is not."""

import sys
import warnings
from collections import deque
from types import SimpleNamespace

import numpy as np
import pytest
from tagloom.kernels.memory.swappable import SwappableArray
from tagloom.kernels.memory.unreserved import charge_reader, is_sole_owner
from tagloom.streams import CudaUnavailable, cuda_devices
from tagloom.streams.cuda.arrays import CupyArrays, address_of, load_cupy
from tagloom.streams.cuda.memory import Allocator, BlockPool, CudaBuffer, buffer_of


def test_without_it_a_device_copies(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    assert load_cupy(None) is None


def test_who_asks_for_it_is_told_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(CudaUnavailable, match=r'pip install "tagloom\[cuda\]"'):
        load_cupy(True)


def test_it_is_left_out_on_demand(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", object())
    assert load_cupy(False) is None
    assert load_cupy(None) is sys.modules["cupy"]


@pytest.fixture
def cupy():
    with warnings.catch_warnings():  # of what it thinks of its installation
        warnings.simplefilter("ignore")
        return pytest.importorskip("cupy")


@pytest.fixture
def core():
    """What arrays need of a device: memory that nobody touches, and a stream's handle."""
    addresses = deque(range(1 << 20, 1 << 24, 1 << 20))
    pool = BlockPool("memory", Allocator(lambda nbytes: addresses.popleft(), id, OSError), limit=10_000, most_cached=0)
    return SimpleNamespace(
        memory=pool, index=0, streams=[_Stream()], buffer=lambda shape, dtype: CudaBuffer(pool, shape, dtype)
    )


class _Stream:
    def __cuda_stream__(self):
        return 0, 4711


def test_arrays_have_our_memory(cupy, core):
    arrays = CupyArrays(core, cupy)
    assert arrays._stream.ptr == 4711
    array = arrays.make_array(core.make_buffer((10, 5), np.float32))
    assert (array.shape, array.dtype, array.nbytes, array.flags.c_contiguous) == ((10, 5), np.float32, 200, True)
    assert core.memory.counts(array)
    assert address_of(array) == buffer_of(array).pointer == 1 << 20
    views = [array[2:], array.T, array.reshape(50), array[:0]]
    for view in views:
        assert buffer_of(view) is buffer_of(array)
        assert core.memory.byte_counter.counts(view)
    assert [address_of(view) - (1 << 20) for view in views[:3]] == [40, 0, 0]
    assert core.memory.live_bytes == 200
    del array, view
    assert core.memory.live_bytes == 200
    views.clear()
    assert core.memory.live_bytes == 0


def test_memory_that_is_free_when_its_holder_lets_go(cupy, core):
    byte_counter, holder = (
        core.memory.byte_counter,
        SwappableArray(CupyArrays(core, cupy).make_array(core.make_buffer((10, 5), np.float32))),
    )
    charge_reader(byte_counter, holder.array)
    assert is_sole_owner(byte_counter, holder)
    for part in (slice(2, None), slice(0)):
        view = holder.array[part]
        assert not is_sole_owner(byte_counter, holder)
        del view
        assert is_sole_owner(byte_counter, holder)
    for whole in (lambda array: array.reshape(50), lambda array: array.view(np.int32), lambda array: array[:]):
        holder = SwappableArray(whole(holder.array))
        assert is_sole_owner(byte_counter, holder)
        array = holder.array
        assert not is_sole_owner(byte_counter, holder)
        del array
    holder = SwappableArray(holder.array[2:])
    assert not is_sole_owner(byte_counter, holder)


def test_the_allocator_is_ours_in_calls(cupy, core):
    arrays = CupyArrays(core, cupy)
    before = cupy.cuda.get_allocator()
    with cupy.cuda.using_allocator(arrays._allocate_bytes):
        array, nothing = cupy.ndarray((100,), np.float64), cupy.ndarray((0, 3), np.int8)
        with pytest.raises(MemoryError, match="of the limit of 10000 bytes 800 are in use"):
            cupy.ndarray((2000,), np.float64)
    assert cupy.cuda.get_allocator() == before
    assert core.memory.byte_counter.counts(array)
    assert core.memory.counts(nothing)
    assert core.memory.live_bytes == 800
    del array
    assert core.memory.live_bytes == 0


@pytest.mark.parametrize("name", ["get_current_stream", "using_allocator", "MemoryPointer", "UnownedMemory", "Device"])
def test_it_has_what_is_used(cupy, name):
    assert callable(getattr(cupy.cuda, name))
    assert callable(cupy.cuda.Stream.use)


def test_a_missing_driver_is_an_error_of_ours_where_warnings_are_errors(tmp_path, monkeypatch):
    """pycuda warns before it raises."""
    package = tmp_path / "pycuda"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "driver.py").write_text("import warnings; warnings.warn('no driver'); raise ImportError('libcuda')")
    for name in [name for name in sys.modules if name.partition(".")[0] == "pycuda"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.syspath_prepend(tmp_path)
    try:
        with pytest.raises(CudaUnavailable, match="pycuda cannot be imported: libcuda"):
            cuda_devices()
    finally:
        sys.modules.pop("pycuda", None)
