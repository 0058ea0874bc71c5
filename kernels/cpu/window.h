/* Products whose left factor is gathered from an image as it is read: see window_tiles.h and convolution.pyx. */

#ifndef TAGLOOM_WINDOW_H
#define TAGLOOM_WINDOW_H

#include "core/vectors.h"

typedef struct { /* offsets of the elements of a row of the left factor, from its own place on */
    const ptrdiff_t *offsets;
    size_t count;
    size_t inner; /* elements in each segment, */
    size_t step; /* so far apart */
} Segments;

#define TALL_TILE_ROWS 12 /* of two vectors: with six their sums would fill half of the registers */

/* Rows of a tile of so many columns of float32 (size 4) or float64. */
static inline int tile_rows(int bits, int size, int columns)
{
    return bits == 512 && columns * size <= 128 ? TALL_TILE_ROWS : MOST_TILE_ROWS;
}

#if defined(__GNUC__) && defined(__x86_64__)

#define VECTOR_CODE "cpu/window_tiles.h"
#include "core/each_vector.h"
#undef VECTOR_CODE

#define CHOOSE(name, arguments_float, arguments_double) \
    if (bits == 512 && size == 4) \
        name##_float_512 arguments_float; \
    else if (bits == 512) \
        name##_double_512 arguments_double; \
    else if (size == 4) \
        name##_float_256 arguments_float; \
    else \
        name##_double_256 arguments_double;

#else

#define CHOOSE(name, arguments_float, arguments_double)

#endif

/* Computes tiles of float32 (size 4) or float64: `rows` rows that begin at `a`, a panel's `columns`. The panel's rows
   lie `b_step` elements apart, and the elements that a tile reads of them `b_next` from those of the tile before.

   It is added to what is there, if it adds, and to a bias for each column unless that is NULL; with `relu` what is not
   above zero becomes zero, but NaN; and what has nothing above zero in `where`, which lies like `c`, unless that is NULL. */
static inline void multiply_windows(
    int bits, int size, int rows, int columns, const void *const *a, const Segments *s, const void *b, size_t b_step,
    size_t b_next, void *c, size_t c_row, int adds, const void *bias, int relu, const void *where)
{
    CHOOSE(
        multiply_windows,
        (rows, columns, (const float *const *)a, s, b, b_step, b_next, c, c_row, adds, bias, relu, where),
        (rows, columns, (const double *const *)a, s, b, b_step, b_next, c, c_row, adds, bias, relu, where))
}

/* Convolves each of `channels` channels for itself, at one pixel; b has a row of channels for each place. */
static inline void multiply_channels(
    int bits, int size, size_t channels, const void *a, const Segments *s, const void *b, void *c)
{
    CHOOSE(multiply_channels, (channels, a, s, b, c), (channels, a, s, b, c))
}

/* Last operations of multiply_windows on a tile, for pixels whose rows of channels follow each other. */
static inline void finish_pixels(
    int bits, int size, int pixels, int channels, void *c, const void *bias, int relu, const void *where)
{
    CHOOSE(finish_tile, (pixels, channels, c, channels, bias, relu, where), (pixels, channels, c, channels, bias, relu, where))
}

/* Sums the products of two rows of channels over pixels; g has a row for each. */
static inline void sum_channels(
    int bits, int size, size_t channels, const void *a, const Segments *s, const void *g, void *c, int adds)
{
    CHOOSE(sum_channels, (channels, a, s, g, c, adds), (channels, a, s, g, c, adds))
}

#undef CHOOSE

#endif
