/* Arithmetic over a few elements, for which NumPy's inner loops take longer to be called than to compute.

   Each operation is one rounding, so the results are those of NumPy's loops to the last bit. */

#ifndef TAGFLOW_SHORT_LOOPS_H
#define TAGFLOW_SHORT_LOOPS_H

#include <stddef.h>

#include "processors.h"

enum { NO_SHORT_LOOP, SHORT_ADD, SHORT_SUBTRACT, SHORT_MULTIPLY, SHORT_DIVIDE, SHORT_NEGATIVE, SHORT_SQUARE };

/* Some elements at a time, then one by one. The result may lie where an operand lies; vectors are read before any of it
   is written. */
#define SHORT_LOOP(x_step, y_step, expression) \
    for (; i + LANES <= count; i += LANES) { \
        VECTOR a = x_step ? *(const VECTOR *)(x + i) : SPLAT(x[0]), b = y_step ? *(const VECTOR *)(y + i) : SPLAT(y[0]); \
        (void)b; \
        *(VECTOR *)(z + i) = expression; \
    } \
    for (; i < count; i++) { \
        REAL a = x[x_step * i], b = y[y_step * i]; \
        (void)b; \
        z[i] = expression; \
    } \
    break;

#define SHORT_LOOPS(expression) \
    if (x_step && y_step) { \
        SHORT_LOOP(1, 1, expression) \
    } \
    if (x_step) { \
        SHORT_LOOP(1, 0, expression) \
    } \
    if (y_step) { \
        SHORT_LOOP(0, 1, expression) \
    } \
    SHORT_LOOP(0, 0, expression)

#define DEFINE_SHORT_LOOP(name) \
    static FOR_EACH_PROCESSOR void name( \
        int operation, const REAL *x, ptrdiff_t x_step, const REAL *y, ptrdiff_t y_step, REAL *z, ptrdiff_t count) \
    { \
        ptrdiff_t i = 0; \
        switch (operation) { \
        case SHORT_ADD: SHORT_LOOPS(a + b) \
        case SHORT_SUBTRACT: SHORT_LOOPS(a - b) \
        case SHORT_MULTIPLY: SHORT_LOOPS(a * b) \
        case SHORT_DIVIDE: SHORT_LOOPS(a / b) \
        case SHORT_NEGATIVE: SHORT_LOOPS(-a) \
        case SHORT_SQUARE: SHORT_LOOPS(a * a) \
        } \
    }

typedef float short_floats __attribute__((vector_size(64), aligned(4), may_alias));
typedef double short_doubles __attribute__((vector_size(64), aligned(8), may_alias));

#define REAL float
#define VECTOR short_floats
#define LANES 16
#define SPLAT(e) (VECTOR){e, e, e, e, e, e, e, e, e, e, e, e, e, e, e, e}
DEFINE_SHORT_LOOP(short_loop_float)
#undef REAL
#undef VECTOR
#undef LANES
#undef SPLAT

#define REAL double
#define VECTOR short_doubles
#define LANES 8
#define SPLAT(e) (VECTOR){e, e, e, e, e, e, e, e}
DEFINE_SHORT_LOOP(short_loop_double)
#undef REAL
#undef VECTOR
#undef LANES
#undef SPLAT

#endif
