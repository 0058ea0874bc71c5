"""Random draws by a key, with the bits of NumPy's Generator, as steps of a run.

Words are those of a Philox generator (Salmon et al., 2011: 4x64, 10 rounds), whose key and counter may change from
iteration to iteration. Distributions are NumPy's own functions of a bit generator, which its module of generators
exports for other languages; where it does not, operations are called.
"""

from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.string cimport memcpy
from numpy cimport npy_intp

import ctypes
from functools import cache
from importlib import import_module

from tagloom.kernels.native.tracing.interface import Untraceable

from tagloom.kernels.native.run cimport Run
from tagloom.kernels.native.strided cimport append_work, data_in

cdef extern from *:
    ctypedef unsigned long long Wide "unsigned __int128"

cdef extern from "numpy/random/bitgen.h":
    ctypedef struct BitGenerator "bitgen_t":
        void* state
        uint64_t (*next_uint64)(void*) noexcept nogil
        uint32_t (*next_uint32)(void*) noexcept nogil
        double (*next_double)(void*) noexcept nogil
        uint64_t (*next_raw)(void*) noexcept nogil

ctypedef void (*Fill)(BitGenerator*, npy_intp, void*) noexcept nogil
ctypedef double (*DrawOne)(BitGenerator*, double) noexcept nogil
ctypedef double (*DrawScaled)(BitGenerator*, double, double) noexcept nogil
ctypedef int64_t (*DrawCount)(BitGenerator*, double) noexcept nogil
ctypedef uint64_t (*DrawUpTo)(BitGenerator*, uint64_t) noexcept nogil
ctypedef void (*FillBelow32)(BitGenerator*, uint32_t, uint32_t, npy_intp, bint, void*) noexcept nogil
ctypedef void (*FillBelow64)(BitGenerator*, uint64_t, uint64_t, npy_intp, bint, void*) noexcept nogil
ctypedef void (*Act)(BitGenerator*, Draw*) noexcept nogil

cdef enum:
    ROUNDS = 10
    DRAW = 20  # nanoseconds


cdef struct Draw:
    Philox* philox
    Act act
    void* function  # NumPy's
    void* out
    npy_intp count
    const char* first  # parameters
    const char* second


cdef struct Start:
    Philox* philox
    const uint64_t* key
    const uint64_t* counter


# ---- words


cdef inline void _multiply(uint64_t a, uint64_t b, uint64_t* high, uint64_t* low) noexcept nogil:
    cdef Wide product = <Wide>a * <Wide>b
    high[0], low[0] = <uint64_t>(product >> 64), <uint64_t>product


cdef void _make_block(Philox* philox) noexcept nogil:
    """Count on, and compute the words of the block."""
    cdef uint64_t* x = philox.words
    cdef uint64_t key[2]
    cdef uint64_t high[2]
    cdef uint64_t low[2]
    cdef int i
    for i in range(4):
        philox.counter[i] += 1
        if philox.counter[i]:
            break
    memcpy(x, philox.counter, sizeof(philox.counter))
    memcpy(key, philox.key, sizeof(key))
    for i in range(ROUNDS):
        _multiply(0xD2E7470EE14C6C93ULL, x[0], &high[0], &low[0])
        _multiply(0xCA5A826395121157ULL, x[2], &high[1], &low[1])
        x[0], x[1], x[2], x[3] = high[1] ^ x[1] ^ key[0], low[1], high[0] ^ x[3] ^ key[1], low[0]
        key[0] += 0x9E3779B97F4A7C15ULL
        key[1] += 0xBB67AE8584CAA73BULL
    philox.position = 0


cdef uint64_t _next_word(void* state) noexcept nogil:
    cdef Philox* philox = <Philox*>state
    if philox.position == 4:
        _make_block(philox)
    philox.position += 1
    return philox.words[philox.position - 1]


cdef uint32_t _next_half(void* state) noexcept nogil:
    """Return the lower half of the next word, or the upper one of the last."""
    cdef Philox* philox = <Philox*>state
    cdef uint64_t word
    if philox.has_half:
        philox.has_half = False
        return philox.half
    word = _next_word(state)
    philox.has_half, philox.half = True, <uint32_t>(word >> 32)
    return <uint32_t>word


cdef double _next_fraction(void* state) noexcept nogil:
    return <double>(_next_word(state) >> 11) * (1.0 / 9007199254740992.0)


cdef Philox* append_start(Run run, key, counter) except NULL:
    """Append the start of a generator by two words of a key and four of a counter; return its state."""
    cdef Start* start = <Start*>run.arena.take(1, sizeof(Start))
    start.philox = <Philox*>run.arena.take(1, sizeof(Philox))
    start.key, start.counter = <const uint64_t*>data_in(key), <const uint64_t*>data_in(counter)
    append_work(run, _start, start, [key, counter], [], DRAW)
    return start.philox


cdef void _start(const void* arguments, int part, int parts) noexcept nogil:
    cdef const Start* start = <const Start*>(<const uint64_t*>arguments)[0]
    memcpy(start.philox.key, start.key, sizeof(start.philox.key))
    memcpy(start.philox.counter, start.counter, sizeof(start.philox.counter))
    start.philox.position, start.philox.has_half = 4, False


# ---- distributions


cdef int append_draw(Run run, Philox* philox, str kind, list parameters, output) except -1:
    """Append draws that fill an array; parameters are arrays in order, as `_describe` wants them for a kind."""
    cdef Draw* draw = <Draw*>run.arena.take(1, sizeof(Draw))
    draw.philox, draw.out, draw.count = philox, data_in(output), output.size
    if parameters:
        draw.first, draw.second = data_in(parameters[0]), data_in(parameters[len(parameters) - 1])
    _describe(draw, kind)
    return append_work(run, _draw, draw, parameters, [output], draw.count * DRAW) if draw.count else 0


cdef int _describe(Draw* draw, str kind) except -1:
    """Set the functions of a kind of draws."""
    name = _FUNCTIONS[kind]
    draw.function = NULL if name is None else <void*><size_t>_address_of(name)
    if kind == "words":
        draw.act = _fill_words
    elif kind in ("normal", "normal_f"):
        draw.act = _fill
    elif kind == "truncated":
        draw.act = _fill_truncated
    elif kind == "gamma":
        draw.act = _fill_by_parameter
    elif kind == "poisson":
        draw.act = _fill_counts
    elif kind == "gumbel":
        draw.act = _fill_standard
    else:
        draw.act = _fill_order if kind == "order" else _fill_below_32 if kind == "below_32" else _fill_below_64
    return 0


_FUNCTIONS = {
    "words": None,
    "normal": "random_standard_normal_fill",
    "normal_f": "random_standard_normal_fill_f",
    "truncated": "random_standard_normal_fill",
    "gamma": "random_standard_gamma",  # of a shape for each number
    "poisson": "random_poisson",  # of a mean for each number
    "gumbel": "random_gumbel",
    "below_32": "random_bounded_uint32_fill",  # of the least number, and of the end of the range
    "below_64": "random_bounded_uint64_fill",
    "order": "random_interval",
}


@cache
def _address_of(name):
    """Return the address of a function of NumPy's module of generators."""
    try:
        library = ctypes.CDLL(import_module("numpy.random._generator").__file__)
        return ctypes.cast(getattr(library, name), ctypes.c_void_p).value
    except (OSError, AttributeError):
        raise Untraceable from None


cdef void _draw(const void* arguments, int part, int parts) noexcept nogil:
    cdef Draw draw = (<const Draw*>(<const uint64_t*>arguments)[0])[0]
    cdef BitGenerator bits
    bits.state, bits.next_uint64, bits.next_raw = draw.philox, _next_word, _next_word
    bits.next_uint32, bits.next_double = _next_half, _next_fraction
    draw.act(&bits, &draw)


cdef void _fill_words(BitGenerator* bits, Draw* draw) noexcept nogil:
    cdef npy_intp i
    for i in range(draw.count):
        (<uint64_t*>draw.out)[i] = bits.next_raw(bits.state)


cdef void _fill(BitGenerator* bits, Draw* draw) noexcept nogil:
    (<Fill>draw.function)(bits, draw.count, draw.out)


cdef void _fill_truncated(BitGenerator* bits, Draw* draw) noexcept nogil:
    """Draw normal numbers; numbers beyond 2 are drawn again, in passes over all of them."""
    cdef double* out = <double*>draw.out
    cdef bint is_done = False
    cdef npy_intp i
    _fill(bits, draw)
    while not is_done:
        is_done = True
        for i in range(draw.count):
            if not -2 <= out[i] <= 2:
                (<Fill>draw.function)(bits, 1, &out[i])
                is_done = is_done and -2 <= out[i] <= 2


cdef void _fill_by_parameter(BitGenerator* bits, Draw* draw) noexcept nogil:
    cdef npy_intp i
    for i in range(draw.count):
        (<double*>draw.out)[i] = (<DrawOne>draw.function)(bits, (<const double*>draw.first)[i])


cdef void _fill_counts(BitGenerator* bits, Draw* draw) noexcept nogil:
    cdef npy_intp i
    for i in range(draw.count):
        (<int64_t*>draw.out)[i] = (<DrawCount>draw.function)(bits, (<const double*>draw.first)[i])


cdef void _fill_standard(BitGenerator* bits, Draw* draw) noexcept nogil:
    cdef npy_intp i
    for i in range(draw.count):
        (<double*>draw.out)[i] = (<DrawScaled>draw.function)(bits, 0.0, 1.0)


cdef void _fill_below_32(BitGenerator* bits, Draw* draw) noexcept nogil:
    cdef uint32_t low = (<const uint32_t*>draw.first)[0]
    cdef uint32_t high = (<const uint32_t*>draw.second)[0]
    (<FillBelow32>draw.function)(bits, low, high - 1 - low, draw.count, False, draw.out)


cdef void _fill_below_64(BitGenerator* bits, Draw* draw) noexcept nogil:
    cdef uint64_t low = (<const uint64_t*>draw.first)[0]
    cdef uint64_t high = (<const uint64_t*>draw.second)[0]
    (<FillBelow64>draw.function)(bits, low, high - 1 - low, draw.count, False, draw.out)


cdef void _fill_order(BitGenerator* bits, Draw* draw) noexcept nogil:
    """Fill with the numbers from 0 in a random order (Fisher and Yates)."""
    cdef int64_t* out = <int64_t*>draw.out
    cdef npy_intp i, k
    for i in range(draw.count):
        out[i] = i
    for i in range(draw.count - 1, 0, -1):
        k = <npy_intp>(<DrawUpTo>draw.function)(bits, i)
        out[i], out[k] = out[k], out[i]
