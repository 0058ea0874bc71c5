/* Arithmetic over a few elements, for which NumPy's inner loops take longer to be called than to compute.

   Each operation is one rounding, so the results are those of NumPy's loops to the last bit. */

#ifndef TAGLOOM_SHORT_LOOPS_H
#define TAGLOOM_SHORT_LOOPS_H

#include <stddef.h>

#include "processors.h"

enum { NO_SHORT_LOOP, SHORT_ADD, SHORT_SUBTRACT, SHORT_MULTIPLY, SHORT_DIVIDE, SHORT_NEGATIVE, SHORT_SQUARE };

/* Computes z[i] = expression of a and b for `count` elements, and returns from the function. The result may have the
   memory of an operand. Plain C, vectorized by the compiler for each processor: with vector types longer than the
   processor's vectors, the compiler would pass each result through memory. */
#define SHORT_LOOP(from_x, from_y, expression) \
    { \
        INDEPENDENT \
        for (ptrdiff_t i = 0; i < count; i++) { \
            const REAL a = from_x, b = from_y; \
            (void)b; \
            z[i] = expression; \
        } \
        return; \
    }

/* Chooses the loop by which operands are arrays: x_step and y_step are 1 for an array, 0 for a single element. */
#define SHORT_LOOPS(expression) \
    if (x_step && y_step) \
        SHORT_LOOP(x[i], y[i], expression) \
    if (x_step) \
        SHORT_LOOP(x[i], first_y, expression) \
    if (y_step) \
        SHORT_LOOP(first_x, y[i], expression) \
    SHORT_LOOP(first_x, first_y, expression)

/* Unary operations have the same operand as x and y. */
#define DEFINE_SHORT_LOOP(name) \
    static FOR_EACH_PROCESSOR void name( \
        int operation, const REAL *x, ptrdiff_t x_step, const REAL *y, ptrdiff_t y_step, REAL *z, ptrdiff_t count) \
    { \
        if (count == 0) \
            return; \
        const REAL first_x = x[0], first_y = y[0]; \
        switch (operation) { \
        case SHORT_ADD: SHORT_LOOPS(a + b) \
        case SHORT_SUBTRACT: SHORT_LOOPS(a - b) \
        case SHORT_MULTIPLY: SHORT_LOOPS(a * b) \
        case SHORT_DIVIDE: SHORT_LOOPS(a / b) \
        case SHORT_NEGATIVE: SHORT_LOOPS(-a) \
        case SHORT_SQUARE: SHORT_LOOPS(a * a) \
        } \
    }

#define REAL float
DEFINE_SHORT_LOOP(short_loop_float)
#undef REAL

#define REAL double
DEFINE_SHORT_LOOP(short_loop_double)
#undef REAL

#endif
