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

typedef float row_floats __attribute__((vector_size(64), aligned(4), may_alias));
typedef double row_doubles __attribute__((vector_size(64), aligned(8), may_alias));

#define REAL float
#define VECTOR row_floats
#define LANES 16
DEFINE_ADD_ROWS(add_rows_float)
#undef REAL
#undef VECTOR
#undef LANES

#define REAL double
#define VECTOR row_doubles
#define LANES 8
DEFINE_ADD_ROWS(add_rows_double)
#undef REAL
#undef VECTOR
#undef LANES

#endif
