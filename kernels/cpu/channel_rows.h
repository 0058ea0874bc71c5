/* Loops over the channels of a pixel, for pooling. They are plain loops, compiled once for each instruction
   set of vector_bits(), since the compiler's vectors for any processor cannot choose between two values. */

#ifndef TAGLOOM_CHANNEL_ROWS_H
#define TAGLOOM_CHANNEL_ROWS_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__) && defined(__x86_64__)
#define FOR_EACH_SET(name, type) \
    LOOPS(name##_0, type, ) \
    LOOPS(name##_256, type, __attribute__((target("avx2")))) \
    LOOPS(name##_512, type, __attribute__((target("avx512f,avx512vl"))))
#else
#define FOR_EACH_SET(name, type) LOOPS(name##_0, type, ) LOOPS(name##_256, type, ) LOOPS(name##_512, type, )
#endif

#define LOOPS(name, type, target) \
    /* Keep the larger of two values, and NaN. */ \
    static target void keep_larger_##name(size_t count, type *restrict best, const type *restrict x) \
    { \
        for (size_t c = 0; c < count; c++) \
            best[c] = (x[c] > best[c]) | (x[c] != x[c]) ? x[c] : best[c]; \
    } \
    /* The same, with the place of the larger one, or of the first NaN. */ \
    static target void keep_place_##name( \
        size_t count, type *restrict best, int32_t *restrict places, const type *restrict x, int32_t place) \
    { \
        for (size_t c = 0; c < count; c++) { \
            int larger = (x[c] > best[c]) | ((x[c] != x[c]) & (best[c] == best[c])); \
            places[c] = larger ? place : places[c]; \
            best[c] = larger ? x[c] : best[c]; \
        } \
    } \
    /* Set an element to the window's value if it is at the window's place, else to 0. */ \
    static target void give_##name( \
        size_t count, type *restrict to, const type *restrict g, const int32_t *restrict places, int32_t place) \
    { \
        for (size_t c = 0; c < count; c++) \
            to[c] = places[c] == place ? g[c] : 0; \
    } \
    static target void give_more_##name( \
        size_t count, type *restrict to, const type *restrict g, const int32_t *restrict places, int32_t place) \
    { \
        for (size_t c = 0; c < count; c++) \
            to[c] += places[c] == place ? g[c] : 0; \
    }

FOR_EACH_SET(float, float)
FOR_EACH_SET(double, double)

#undef LOOPS
#undef FOR_EACH_SET

/* Call the loop for an instruction set and a type: `size` is that of an element. */
#define CALL(loop, type, ...) \
    (bits == 512 ? loop##_##type##_512(__VA_ARGS__) : bits == 256 ? loop##_##type##_256(__VA_ARGS__) : loop##_##type##_0(__VA_ARGS__))

static inline void keep_larger(int bits, int size, size_t count, void *best, const void *x)
{
    size == 4 ? CALL(keep_larger, float, count, best, x) : CALL(keep_larger, double, count, best, x);
}

static inline void keep_place(int bits, int size, size_t count, void *best, int32_t *places, const void *x, int32_t place)
{
    size == 4 ? CALL(keep_place, float, count, best, places, x, place)
              : CALL(keep_place, double, count, best, places, x, place);
}

static inline void give(
    int bits, int size, int adds, size_t count, void *to, const void *g, const int32_t *places, int32_t place)
{
    if (adds)
        size == 4 ? CALL(give_more, float, count, to, g, places, place)
                  : CALL(give_more, double, count, to, g, places, place);
    else
        size == 4 ? CALL(give, float, count, to, g, places, place) : CALL(give, double, count, to, g, places, place);
}

#undef CALL

#endif
