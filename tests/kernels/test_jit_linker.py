"""Object files in memory: their code is there as long as somebody has the library, and no longer."""

import ctypes
import gc
from pathlib import Path

import pytest

pytest.importorskip("llvmlite")

from tagloom.kernels.native.jit.compilation import QUICK, _linker, build_object

MOST = type(_linker).MOST


def code_of(number):
    return build_object(f"define i32 @run(ptr %a, ptr %b, ptr %c) nounwind {{ ret i32 {number} }}", QUICK)


def result_of(library):
    return ctypes.CFUNCTYPE(ctypes.c_int, *3 * [ctypes.c_void_p])(library["run"])(None, None, None)


def resident_kilobytes():
    fields = Path("/proc/self/statm").read_text().split()
    return 4 * int(fields[1])


def test_each_has_its_own_code_whatever_becomes_of_the_others():
    codes = [code_of(number) for number in range(3)]
    libraries = {k: _linker.link(codes[k % 3]) for k in range(3 * MOST)}
    for k in list(libraries):
        if k % 5:
            del libraries[k]
    gc.collect()
    assert [result_of(library) for library in libraries.values()] == [k % 3 for k in libraries]


def test_code_may_call_functions_of_the_process():
    text = """
    declare double @sqrt(double)
    define i32 @run(ptr %a, ptr %b, ptr %c) nounwind {
      %x = call double @sqrt(double 49.0)
      %n = fptosi double %x to i32
      ret i32 %n
    }"""
    assert result_of(_linker.link(build_object(text, QUICK))) == 7


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads what Linux says of memory")
def test_what_nobody_has_takes_no_memory():
    code = code_of(1)
    for _ in range(10 * MOST):
        _linker.link(code)
    before = resident_kilobytes()
    for _ in range(40 * MOST):  # 25 MB if the names of all were kept
        _linker.link(code)
    assert resident_kilobytes() - before < 8_000


def test_a_file_that_is_none_is_an_error_and_others_are_linked():
    with pytest.raises(RuntimeError):
        _linker.link(b"no object file")
    assert result_of(_linker.link(code_of(5))) == 5
