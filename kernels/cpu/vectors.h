/* Which vector instructions the processor has, AVX-512 or AVX2 with FMA, found out when this is first asked for; and
   panels, in which what they read lies side by side. */

#ifndef TAGFLOW_VECTORS_H
#define TAGFLOW_VECTORS_H

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define PANEL_BYTES 256 /* of a row of a packed panel: four vectors of AVX-512 */
#define MOST_TILE_ROWS 6

#if defined(__GNUC__) && defined(__x86_64__)

#include <immintrin.h>

static inline __attribute__((target("avx2,fma"))) __m256i first_of_8(int n)
{
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

static inline __attribute__((target("avx2,fma"))) __m256i first_of_4(int n)
{
    return _mm256_cmpgt_epi64(_mm256_set1_epi64x(n), _mm256_setr_epi64x(0, 1, 2, 3));
}

/* Bits of a vector register that products use: 512, 256, or 0 where there are none. */
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

/* Writes a matrix as panels of PANEL_BYTES by its rows, side by side; what a last panel has too many is 0.

   `row` and `step` say where element (k, j) is: at k * row + j * step, in elements. */
static inline void pack(const void *matrix, size_t row, size_t step, size_t rows, size_t columns, int size, void *panels)
{
    size_t width = PANEL_BYTES / size, k, j, i, most = 16;
    for (size_t first = 0; first < columns; first += width) {
        size_t count = columns - first < width ? columns - first : width;
        if (count < width)
            memset(panels, 0, rows * PANEL_BYTES);
        for (k = 0; step == 1 && k < rows; k++)
            memcpy((char *)panels + k * PANEL_BYTES, (const char *)matrix + (k * row + first) * size, count * size);
        for (k = 0; step != 1 && k < rows; k += most)
            for (j = 0; j < count; j++)
                for (i = k; i < rows && i < k + most; i++) {
                    if (size == 4)
                        ((float *)panels)[i * width + j] = ((const float *)matrix)[i * row + (first + j) * step];
                    else
                        ((double *)panels)[i * width + j] = ((const double *)matrix)[i * row + (first + j) * step];
                }
        panels = (char *)panels + rows * PANEL_BYTES;
    }
}

#endif
