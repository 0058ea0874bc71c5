"""Registry of the operations that have a C kernel, or an inner loop of our own."""

from libc.stdint cimport int64_t

from tagloom.kernels.core.arena cimport Arena
from tagloom.kernels.core.table cimport Loop, Native

# Operation type, its attributes, dtypes of inputs and outputs, the kernel's Node.params to write, objects that it
# needs as long as it is used. Returns NULL where the Python kernel must do it.
ctypedef Native (*FindNative)(str, dict, list, list, int64_t*, list) except *

# Operation type, dtypes of inputs and outputs, data for the loop, owner of such data. Returns NULL where there is none.
ctypedef Loop (*FindLoop)(str, list, list, void**, Arena) except *

cdef int register(str type, FindNative find, tuple reads=*) except -1
cdef int register_loop(str type, FindLoop find) except -1
cdef Native find_native(str type, dict attrs, list inputs, list outputs, int64_t* params, list kept) except *
cdef Loop find_own_loop(str type, list inputs, list outputs, void** data, Arena arena) except *
