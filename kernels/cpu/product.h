/* Products of matrices by vector instructions, for factors that are too small for BLAS to be at its best, and of a few
   elements, by a tile or a plain loop.

   By AVX-512, or AVX2 with FMA: see core/vectors.h. */

#ifndef TAGLOOM_PRODUCT_H
#define TAGLOOM_PRODUCT_H

#include "core/vectors.h"

#define LEFT_ROWS 96 /* of a left factor that are packed at a time: one piece of a page each, and few panels to write to */
#define LEFT_BYTES ((size_t)1 << 21) /* of a left factor that are packed before columns are multiplied with them */
#define FAR_STEP 32 /* elements from one column to the next from which on it is packed, */
#define ENOUGH_COLUMNS 32 /* if these are so many */
#define BLOCK_TERMS 16 /* of all columns after the other: as many rows of the second factor as a core reads ahead in */

typedef struct {
    const void *a; /* element (i, k) is at i * a_row + k * a_step, in elements */
    size_t a_row;
    size_t a_step;
    const void *b; /* element (k, j) is at k * b_row + j * b_step; unused where `packed` is there */
    size_t b_row;
    size_t b_step; /* 1, or columns are packed */
    const void *packed; /* panels, as `pack` writes them; or NULL */
    void *panel; /* where columns are packed before they are used, a panel at a time; NULL: they are read in place */
    size_t inner;
    const void *more_a; /* continuation of both factors after the inner dimension, with the same steps; or NULL */
    const void *more_b;
    size_t more_inner;
    size_t columns; /* of the whole product */
    void *c; /* row by row */
    const void *total; /* addend of the product, like c; or NULL */
    int in_blocks; /* whether terms are added in blocks, each for all columns; b_step is 1, nothing is packed */
    const void *sums_before; /* from which the chains go on, like c; or NULL */
} Factors;

/* Defines a function that computes all rows of a product of a few elements. Each is a chain like those of
   product_tiles.h, but begins with the total if there is one. */
#define PRODUCT_OF_FEW(NAME, REAL, TARGET, MULTIPLY_ADD) \
    static TARGET void NAME(const Factors *f, size_t rows) \
    { \
        for (size_t i = 0; i < rows; i++) \
            for (size_t j = 0; j < f->columns; j++) { \
                const REAL *a = (const REAL *)f->a + i * f->a_row, *b = (const REAL *)f->b + j * f->b_step; \
                size_t at = i * f->columns + j; \
                REAL sum = f->total ? ((const REAL *)f->total)[at] : 0; \
                for (size_t k = 0; k < f->inner; k++) \
                    sum = MULTIPLY_ADD(a[k * f->a_step], b[k * f->b_row], sum); \
                ((REAL *)f->c)[at] = sum; \
            } \
    }

#define IN_TWO_STEPS(a, b, sum) ((sum) + (a) * (b))

PRODUCT_OF_FEW(multiply_few_float_0, float, , IN_TWO_STEPS)
PRODUCT_OF_FEW(multiply_few_double_0, double, , IN_TWO_STEPS)

#if defined(__GNUC__) && defined(__x86_64__)

PRODUCT_OF_FEW(multiply_few_float_fma, float, __attribute__((target("fma"))), __builtin_fmaf)
PRODUCT_OF_FEW(multiply_few_double_fma, double, __attribute__((target("fma"))), __builtin_fma)

#define VECTOR_CODE "cpu/product_tiles.h"
#include "core/each_vector.h"
#undef VECTOR_CODE

/* Computes all of a product of a few elements by tiles, if a row of the second factor is one vector at most. Sums begin
   with the total, as in plain loops. */
#define BY_TILES(ANY_TILE, REAL) \
    for (size_t row = 0; row < rows; row += MOST_TILE_ROWS) \
        ANY_TILE(rows - row < MOST_TILE_ROWS ? (int)(rows - row) : MOST_TILE_ROWS, 1, (int)f->columns, \
                 (const REAL *)f->a + row * f->a_row, f->a_row, f->a_step, f->b, f->b_row, f->inner, NULL, NULL, 0, \
                 (REAL *)f->c + row * f->columns, NULL, \
                 f->total ? (const REAL *)f->total + row * f->columns : NULL, f->columns)

/* Computes all of a product of a few elements of float32 (size 4) or float64. */
static void multiply_few(const Factors *f, int bits, int size, size_t rows)
{
    if (!bits)
        (size == 4 ? multiply_few_float_0 : multiply_few_double_0)(f, rows);
    else if (f->b_step != 1 || f->columns * size * 8 > (size_t)bits)
        (size == 4 ? multiply_few_float_fma : multiply_few_double_fma)(f, rows);
    else if (bits == 512 && size == 4)
        BY_TILES(any_tile_float_512, float);
    else if (bits == 512)
        BY_TILES(any_tile_double_512, double);
    else if (size == 4)
        BY_TILES(any_tile_float_256, float);
    else
        BY_TILES(any_tile_double_256, double);
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

static void multiply_few(const Factors *f, int bits, int size, size_t rows)
{
    (size == 4 ? multiply_few_float_0 : multiply_few_double_0)(f, rows);
}

static void multiply(const Factors *f, int bits, int size, size_t row, size_t rows, size_t column, size_t columns)
{
}

#endif

#endif
