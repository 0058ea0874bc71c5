/* Operations on short rows, for which NumPy needs a call of an inner loop for each row. */

#ifndef TAGLOOM_ROWS_H
#define TAGLOOM_ROWS_H

#include "core/vectors.h"

#if defined(__GNUC__) && defined(__x86_64__)
#define VECTOR_CODE "cpu/row_vectors.h"
#include "core/each_vector.h"
#undef VECTOR_CODE
#endif

/* Adds rows, whose elements of `size` bytes begin `step` elements apart, to a total with vectors of so many bits; each
   element of it is one chain in the order of the rows. */
static inline void add_rows(
    void *total, const void *rows, ptrdiff_t num_rows, ptrdiff_t step, ptrdiff_t count, size_t size, int bits)
{
#if defined(__GNUC__) && defined(__x86_64__)
    static void (*const loops[2][2])(void *, const void *, ptrdiff_t, ptrdiff_t, ptrdiff_t) = {
        {add_rows_float_256, add_rows_float_512}, {add_rows_double_256, add_rows_double_512}};
    if (bits != 0) {
        loops[size == sizeof(double)][bits == 512](total, rows, num_rows, step, count);
        return;
    }
#endif
    for (ptrdiff_t r = 0; r < num_rows; r++)
        for (ptrdiff_t i = 0; i < count; i++)
            if (size == sizeof(float))
                ((float *)total)[i] += ((const float *)rows)[r * step + i];
            else
                ((double *)total)[i] += ((const double *)rows)[r * step + i];
}

#endif
