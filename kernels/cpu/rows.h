/* What is done to short rows, for each of which NumPy's inner loops would be called. */

#ifndef TAGFLOW_ROWS_H
#define TAGFLOW_ROWS_H

#include <stddef.h>
#include <stdint.h>

#include "processors.h"

/* Adds rows to a total, each element of it one chain in the order of the rows, four vectors of them in registers. */
#define ADD_VECTORS(vectors) \
    for (; i + vectors * LANES <= count; i += vectors * LANES) { \
        VECTOR sums[vectors]; \
        for (int v = 0; v < vectors; v++) \
            sums[v] = *(const VECTOR *)(total + i + v * LANES); \
        for (ptrdiff_t r = 0; r < rows; r++) \
            for (int v = 0; v < vectors; v++) \
                sums[v] += *(const VECTOR *)(x + r * step + i + v * LANES); \
        for (int v = 0; v < vectors; v++) \
            *(VECTOR *)(total + i + v * LANES) = sums[v]; \
    }

#define DEFINE_ADD_ROWS(name) \
    static __attribute__((unused)) FOR_EACH_PROCESSOR void name(REAL *total, const REAL *x, ptrdiff_t rows, ptrdiff_t step, ptrdiff_t count) \
    { \
        ptrdiff_t i = 0; \
        ADD_VECTORS(4) \
        ADD_VECTORS(1) \
        for (ptrdiff_t r = 0; i < count && r < rows; r++) \
            for (ptrdiff_t k = i; k < count; k++) \
                total[k] += x[r * step + k]; \
    }

/* Adds a bias to rows and, if asked to, makes what is negative zero; NaN stays. */
#define FINISH(value) ((VECTOR)((INTEGERS)(value) & ~(negative & (INTEGERS)((value) <= (VECTOR){0}))))

#define DEFINE_FINISH_ROWS(name) \
    static __attribute__((unused)) FOR_EACH_PROCESSOR void name( \
        REAL *y, ptrdiff_t rows, ptrdiff_t step, ptrdiff_t count, const REAL *bias, int relu) \
    { \
        INTEGERS negative = (INTEGERS){0} - (relu != 0); \
        for (ptrdiff_t r = 0; r < rows; r++, y += step) { \
            ptrdiff_t i = 0; \
            for (; i + LANES <= count; i += LANES) { \
                VECTOR value = *(VECTOR *)(y + i) + *(const VECTOR *)(bias + i); \
                *(VECTOR *)(y + i) = FINISH(value); \
            } \
            for (; i < count; i++) { \
                REAL value = y[i] + bias[i]; \
                y[i] = relu && value <= 0 ? 0 : value; \
            } \
        } \
    }

typedef float row_floats __attribute__((vector_size(64), aligned(4), may_alias));
typedef double row_doubles __attribute__((vector_size(64), aligned(8), may_alias));
typedef int32_t row_ints __attribute__((vector_size(64), aligned(4), may_alias));
typedef int64_t row_longs __attribute__((vector_size(64), aligned(8), may_alias));

#define REAL float
#define VECTOR row_floats
#define INTEGERS row_ints
#define LANES 16
DEFINE_ADD_ROWS(add_rows_float)
DEFINE_FINISH_ROWS(finish_rows_float)
#undef REAL
#undef VECTOR
#undef INTEGERS
#undef LANES

#define REAL double
#define VECTOR row_doubles
#define INTEGERS row_longs
#define LANES 8
DEFINE_ADD_ROWS(add_rows_double)
DEFINE_FINISH_ROWS(finish_rows_double)
#undef REAL
#undef VECTOR
#undef INTEGERS
#undef LANES

#endif
