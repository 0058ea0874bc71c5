/* Products of matrices by vector instructions, for factors that are too small for BLAS to be at its best.

   AVX-512, and AVX2 with FMA; which of them the processor has is found out when this is first asked for. */

#ifndef TAGFLOW_PRODUCT_H
#define TAGFLOW_PRODUCT_H

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define PANEL_BYTES 256 /* of a row of a packed panel: four vectors of AVX-512 */
#define MOST_TILE_ROWS 6
#define LEFT_ROWS 96 /* of a left factor that are packed at a time: with their panels they stay in the cache */
#define FAR_STEP 32 /* elements from one column to the next from which on it is packed, */
#define ENOUGH_COLUMNS 32 /* if these are so many */

typedef struct {
    const void *a; /* element (i, k) is at i * a_row + k * a_step, in elements */
    size_t a_row;
    size_t a_step;
    const void *b; /* element (k, j) is at k * b_row + j; unused where `packed` is there */
    size_t b_row;
    const void *packed; /* panels, as `pack` writes them; or NULL */
    size_t inner;
    const void *more_a; /* where both factors go on behind the inner dimension, with the same steps; or NULL */
    const void *more_b;
    size_t more_inner;
    size_t columns; /* of the whole product */
    void *c; /* row by row */
    const void *total; /* what the product is added to, like c; or NULL */
} Factors;

#if defined(__GNUC__) && defined(__x86_64__)

#include <immintrin.h>

#define TARGET __attribute__((target("avx512f,fma")))
#define MORE_TILES(rows) else if (vectors == 3) TILE(rows, 3); else TILE(rows, 4);
#define MOST_VECTORS 4

#define NAME(name) name##_float_512
#define REAL float
#define VECTOR __m512
#define MASK __mmask16
#define LANES 16
#define FIRST(n) (__mmask16)((1u << (n)) - 1)
#define ZERO _mm512_setzero_ps
#define SPLAT _mm512_set1_ps
#define LOAD _mm512_loadu_ps
#define LOAD_FIRST _mm512_maskz_loadu_ps
#define STORE _mm512_storeu_ps
#define STORE_FIRST _mm512_mask_storeu_ps
#define FMA _mm512_fmadd_ps
#define ADD _mm512_add_ps
#include "product_tiles.h"
#include "product_undo.h"

#define NAME(name) name##_double_512
#define REAL double
#define VECTOR __m512d
#define MASK __mmask8
#define LANES 8
#define FIRST(n) (__mmask8)((1u << (n)) - 1)
#define ZERO _mm512_setzero_pd
#define SPLAT _mm512_set1_pd
#define LOAD _mm512_loadu_pd
#define LOAD_FIRST _mm512_maskz_loadu_pd
#define STORE _mm512_storeu_pd
#define STORE_FIRST _mm512_mask_storeu_pd
#define FMA _mm512_fmadd_pd
#define ADD _mm512_add_pd
#include "product_tiles.h"
#include "product_undo.h"

#undef TARGET
#undef MORE_TILES
#undef MOST_VECTORS
#define TARGET __attribute__((target("avx2,fma")))
#define MORE_TILES(rows)
#define MOST_VECTORS 2

static inline TARGET __m256i first_of_8(int n)
{
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

static inline TARGET __m256i first_of_4(int n)
{
    return _mm256_cmpgt_epi64(_mm256_set1_epi64x(n), _mm256_setr_epi64x(0, 1, 2, 3));
}

#define NAME(name) name##_float_256
#define REAL float
#define VECTOR __m256
#define MASK __m256i
#define LANES 8
#define FIRST first_of_8
#define ZERO _mm256_setzero_ps
#define SPLAT _mm256_set1_ps
#define LOAD _mm256_loadu_ps
#define LOAD_FIRST(mask, p) _mm256_maskload_ps(p, mask)
#define STORE _mm256_storeu_ps
#define STORE_FIRST _mm256_maskstore_ps
#define FMA _mm256_fmadd_ps
#define ADD _mm256_add_ps
#include "product_tiles.h"
#include "product_undo.h"

#define NAME(name) name##_double_256
#define REAL double
#define VECTOR __m256d
#define MASK __m256i
#define LANES 4
#define FIRST first_of_4
#define ZERO _mm256_setzero_pd
#define SPLAT _mm256_set1_pd
#define LOAD _mm256_loadu_pd
#define LOAD_FIRST(mask, p) _mm256_maskload_pd(p, mask)
#define STORE _mm256_storeu_pd
#define STORE_FIRST _mm256_maskstore_pd
#define FMA _mm256_fmadd_pd
#define ADD _mm256_add_pd
#include "product_tiles.h"
#include "product_undo.h"

/* Bits of a vector register that products use: 512, 256, or 0 where there are none. */
static int product_bits(void)
{
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f"))
        return 512;
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? 256 : 0;
}

/* Computes some rows and columns of a product of float32 (size 4) or float64 matrices. */
static void multiply(const Factors *f, int bits, int size, size_t row, size_t rows, size_t column, size_t columns)
{
    if (bits == 512 && size == 4)
        multiply_float_512(f, row, rows, column, columns);
    else if (bits == 512)
        multiply_double_512(f, row, rows, column, columns);
    else if (size == 4)
        multiply_float_256(f, row, rows, column, columns);
    else
        multiply_double_256(f, row, rows, column, columns);
}

#else

static int product_bits(void)
{
    return 0;
}

static void multiply(const Factors *f, int bits, int size, size_t row, size_t rows, size_t column, size_t columns)
{
}

#endif

/* Writes a matrix as panels of PANEL_BYTES by its rows, side by side; what a last panel has too many is 0.

   `row` and `step` say where element (k, j) is: at k * row + j * step, in elements. */
static void pack(const void *matrix, size_t row, size_t step, size_t rows, size_t columns, int size, void *panels)
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
