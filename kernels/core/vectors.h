/* Detection of the processor's vector instructions, AVX-512 or AVX2 with FMA, at the first request; and panels, in
   which the elements that they read lie side by side. */

#ifndef TAGLOOM_VECTORS_H
#define TAGLOOM_VECTORS_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define PANEL_BYTES 256 /* of a row of a packed panel: four vectors of AVX-512 */
#define AVX2_STRIP 64 /* of a row of a strip, of which panels for AVX2 consist: two vectors, as a tile reads */
#define MOST_TILE_ROWS 6

#if defined(__GNUC__) && defined(__x86_64__)

#include <immintrin.h>

typedef uint32_t unsigned_ints_256 __attribute__((vector_size(32)));
typedef uint32_t unsigned_ints_512 __attribute__((vector_size(64)));
typedef uint64_t unsigned_longs_256 __attribute__((vector_size(32)));
typedef uint64_t unsigned_longs_512 __attribute__((vector_size(64)));

static inline __attribute__((target("avx2,fma"))) __m256i first_of_8(int n)
{
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

static inline __attribute__((target("avx2,fma"))) __m256i first_of_4(int n)
{
    return _mm256_cmpgt_epi64(_mm256_set1_epi64x(n), _mm256_setr_epi64x(0, 1, 2, 3));
}

/* Bits of a vector register that products and functions use: 512, 256, or 0 where there are none. */
static inline int product_bits(void)
{
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f"))
        return 512;
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? 256 : 0;
}

#else

static inline int product_bits(void)
{
    return 0;
}

#endif

/* Bytes of a row of a strip that the tiles of products with vectors of so many bits read. */
static inline size_t strip_bytes(int bits)
{
    return bits == 512 ? PANEL_BYTES : AVX2_STRIP;
}

/* Writes `rows` elements of each of `columns` columns, that lie `step` elements apart, as rows of `width` elements. */
static inline void pack_columns(
    const void *matrix, size_t step, size_t rows, size_t columns, int size, size_t width, void *panel)
{
    size_t k = 0, j, i, most = 16;
    for (; k < rows; k += most) /* as long as a line of the cache, so that each is read once */
        for (j = 0; j < columns; j++) {
            size_t end = rows < k + most ? rows : k + most;
            i = k;
#if defined(__GNUC__) && defined(__x86_64__)
            if (size == 4 && j + 4 <= columns) { /* four columns at a time, as blocks of 4 x 4 that are turned around */
                const float *from = (const float *)matrix + j * step;
                for (; i + 4 <= end; i += 4) {
                    float *to = (float *)panel + i * width + j;
                    __m128 a = _mm_loadu_ps(from + i), b = _mm_loadu_ps(from + step + i);
                    __m128 c = _mm_loadu_ps(from + 2 * step + i), d = _mm_loadu_ps(from + 3 * step + i);
                    _MM_TRANSPOSE4_PS(a, b, c, d);
                    _mm_storeu_ps(to, a);
                    _mm_storeu_ps(to + width, b);
                    _mm_storeu_ps(to + 2 * width, c);
                    _mm_storeu_ps(to + 3 * width, d);
                }
                for (; i < end; i++)
                    for (size_t v = 0; v < 4; v++)
                        ((float *)panel)[i * width + j + v] = from[v * step + i];
                j += 3;
                continue;
            }
#endif
            for (; i < end; i++)
                if (size == 4)
                    ((float *)panel)[i * width + j] = ((const float *)matrix)[j * step + i];
                else
                    ((double *)panel)[i * width + j] = ((const double *)matrix)[j * step + i];
        }
}

/* Writes a matrix as panels of PANEL_BYTES by its rows, side by side; surplus bytes of the last panel are 0.

   Each panel is cut into strips of `strip` bytes by its rows, one every `apart` bytes: as wide as the tiles that read
   them, so that a strip is read from end to end, and its lines fill all sets of the cache. A panel is written row by row
   nevertheless, since a row of the matrix has few such bytes side by side.

   `row` and `step` say where element (k, j) is: at k * row + j * step, in elements; one of them is 1. */
static inline void pack(
    const void *matrix, size_t row, size_t step, size_t rows, size_t columns, int size, size_t strip, size_t apart,
    void *panels)
{
    size_t width = PANEL_BYTES / size, first, k, s;
    char *to = panels;
    for (first = 0; first < columns; first += width, to += PANEL_BYTES / strip * apart) {
        size_t bytes = (columns - first < width ? columns - first : width) * size;
        const char *from = (const char *)matrix + first * step * size;
        for (s = 0; bytes < PANEL_BYTES && s < PANEL_BYTES; s += strip)
            memset(to + s / strip * apart, 0, rows * strip);
        if (step != 1)
            for (s = 0; s < bytes; s += strip)
                pack_columns(from + s * step, step, rows, (bytes - s < strip ? bytes - s : strip) / size, size,
                             strip / size, to + s / strip * apart);
        else if (bytes == PANEL_BYTES && strip == AVX2_STRIP)
            for (k = 0; k < rows; k++)
                for (s = 0; s < PANEL_BYTES / AVX2_STRIP; s++)
                    memcpy(to + k * AVX2_STRIP + s * apart, from + k * row * size + s * AVX2_STRIP, AVX2_STRIP);
        else
            for (k = 0; k < rows; k++)
                for (s = 0; s < bytes; s += strip)
                    memcpy(to + k * strip + s / strip * apart, from + k * row * size + s,
                           bytes - s < strip ? bytes - s : strip);
    }
}

#endif
