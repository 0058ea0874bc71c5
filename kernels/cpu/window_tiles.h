/* Matrix products whose left factor is gathered from an image while it is read, for convolutions. The file is included
   once for each instruction set and element type, for which each_vector.h defines NAME, REAL, VECTOR, LANES and others.

   Every element of the result is one chain of fma(a, b, sum), in the order of the segments and of the elements in them,
   and is then added to the old element if `adds`. So neither the instruction set nor the division into tiles changes a
   bit of the result. */

/* Computes a tile of `rows` rows and `vectors` vectors of columns, both constant where this is inlined, so that the
   sums stay in registers. Row r of the left factor has its elements at a[r] + offset, for the offsets of the segments
   `s` (window.h). The rows of `b` are b_step elements apart, those of the result `c` c_row elements. `last` is the
   number of columns in the last vector, 0 if it is full. */
static inline __attribute__((always_inline)) TARGET void NAME(window_tile)(
    const int rows, const int vectors, int last, const REAL *const *a, const Segments *s, const REAL *b, size_t b_step,
    REAL *c, size_t c_row, int adds)
{
    VECTOR sums[TALL_TILE_ROWS][MOST_VECTORS], row[MOST_VECTORS];
    MASK mask = FIRST(last);
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < vectors; v++)
            sums[r][v] = ZERO();
    for (size_t i = 0; i < s->count; i++) {
        ptrdiff_t at = s->offsets[i];
        for (size_t k = 0; k < s->inner; k++) {
            for (int v = 0; v < vectors; v++)
                row[v] = LOAD(b + v * LANES);
            for (int r = 0; r < rows; r++) {
                VECTOR x = SPLAT(a[r][at]);
                for (int v = 0; v < vectors; v++)
                    sums[r][v] = FMA(x, row[v], sums[r][v]);
            }
            at += s->step;
            b += b_step;
        }
    }
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < vectors; v++) {
            REAL *to = c + r * c_row + v * LANES;
            if (v == vectors - 1 && last) {
                if (adds)
                    sums[r][v] = ADD(LOAD_FIRST(mask, to), sums[r][v]);
                STORE_FIRST(to, mask, sums[r][v]);
            } else {
                if (adds)
                    sums[r][v] = ADD(LOAD(to), sums[r][v]);
                STORE(to, sums[r][v]);
            }
        }
}

/* Adds the bias, applies ReLU and the mask `where` to a finished tile, each unless NULL or 0. In a pass over memory and
   not in window_tile, whose sums would then have too few registers. */
static __attribute__((noinline)) TARGET void NAME(finish_tile)(
    int rows, int columns, REAL *c, size_t c_row, const REAL *bias, int relu, const REAL *where)
{
    for (int first = 0; first < columns; first += LANES) {
        MASK mask = FIRST(columns - first < LANES ? columns - first : LANES);
        VECTOR added = bias ? LOAD_FIRST(mask, bias + first) : ZERO();
        for (int r = 0; r < rows; r++) {
            size_t at = r * c_row + first;
            VECTOR x = LOAD_FIRST(mask, c + at);
            if (bias)
                x = ADD(x, added);
            if (relu)
                x = UNLESS_NEGATIVE(x);
            if (where)
                x = WHERE_POSITIVE(LOAD_FIRST(mask, where + at), x);
            STORE_FIRST(c + at, mask, x);
        }
    }
}

/* Cases of a switch over `rows`, which make both arguments of window_tile constant. Tiles of 7 rows or more have at
   most two vectors. */
#define TILE(rows, vectors) NAME(window_tile)(rows, vectors, last, a, s, b, b_step, c, c_row, adds)
#define TILES(rows) \
    case rows: \
        if (vectors == 1) \
            TILE(rows, 1); \
        else if (vectors == 2) \
            TILE(rows, 2); \
        MORE_TILES(rows) \
        break;
#define TALL_TILES(rows) \
    case rows: \
        if (vectors == 1) \
            TILE(rows, 1); \
        else \
            TILE(rows, 2); \
        break;

/* Multiplies `rows` rows, at most `tile_rows` of window.h, by the columns of a panel, tile by tile. `b` is a packed
   panel, or rows with as much readable memory; its rows are b_step elements apart, and the columns of tiles b_next. */
static TARGET void NAME(multiply_windows)(
    int rows, int columns, const REAL *const *a, const Segments *s, const REAL *b, size_t b_step, size_t b_next, REAL *c,
    size_t c_row, int adds, const REAL *bias, int relu, const REAL *where)
{
    while (columns > 0) {
        int whole = columns < MOST_VECTORS * LANES ? columns : MOST_VECTORS * LANES;
        int last = whole % LANES, vectors = whole / LANES + (last > 0);
        switch (rows) {
            TILES(1)
            TILES(2)
            TILES(3)
            TILES(4)
            TILES(5)
            TILES(6)
#if MOST_VECTORS == 4
            TALL_TILES(7)
            TALL_TILES(8)
            TALL_TILES(9)
            TALL_TILES(10)
            TALL_TILES(11)
            TALL_TILES(12)
#endif
        }
        if (bias || where)
            NAME(finish_tile)(rows, whole, c, c_row, bias, relu, where);
        b += b_next;
        c += whole;
        bias = bias ? bias + whole : NULL;
        where = where ? where + whole : NULL;
        columns -= whole;
    }
}

/* Depthwise convolution at one pixel: for each channel, the sum over the places of a window. Row i of the filter `b`
   has the weights of all channels for place i; the image's channels at this place are at a + offsets[i]. */
static TARGET void NAME(multiply_channels)(
    size_t channels, const REAL *a, const Segments *s, const REAL *b, REAL *c)
{
    size_t first = 0;
    for (; first + 2 * LANES <= channels; first += 2 * LANES) {
        VECTOR one = ZERO(), two = ZERO();
        const REAL *w = b + first;
        for (size_t i = 0; i < s->count; i++, w += channels) {
            const REAL *x = a + s->offsets[i] + first;
            one = FMA(LOAD(x), LOAD(w), one);
            two = FMA(LOAD(x + LANES), LOAD(w + LANES), two);
        }
        STORE(c + first, one);
        STORE(c + first + LANES, two);
    }
    while (first < channels) {
        size_t count = channels - first < LANES ? channels - first : LANES;
        MASK mask = FIRST((int)count);
        VECTOR sum = ZERO();
        const REAL *w = b + first;
        for (size_t i = 0; i < s->count; i++, w += channels)
            sum = FMA(LOAD_FIRST(mask, a + s->offsets[i] + first), LOAD_FIRST(mask, w), sum);
        STORE_FIRST(c + first, mask, sum);
        first += count;
    }
}

/* Gradient of a depthwise filter: for one place of the window and `vectors` vectors of channels, the sums over pixels
   of the products of the image `a` and the cotangent `g`. With `last`, a single vector of `last` channels. */
static inline __attribute__((always_inline)) TARGET void NAME(sum_vectors)(
    const int vectors, int last, size_t channels, const REAL *a, const Segments *s, const REAL *g, REAL *c, int adds)
{
    VECTOR sums[4];
    MASK mask = FIRST(last);
    for (int v = 0; v < vectors; v++)
        sums[v] = ZERO();
    for (size_t i = 0; i < s->count; i++) {
        const REAL *x = a + s->offsets[i];
        for (size_t k = 0; k < s->inner; k++, x += s->step, g += channels)
            for (int v = 0; v < vectors; v++)
                sums[v] = last ? FMA(LOAD_FIRST(mask, x), LOAD_FIRST(mask, g), sums[v])
                               : FMA(LOAD(x + v * LANES), LOAD(g + v * LANES), sums[v]);
    }
    for (int v = 0; v < vectors; v++) {
        REAL *to = c + v * LANES;
        if (last)
            STORE_FIRST(to, mask, adds ? ADD(LOAD_FIRST(mask, to), sums[v]) : sums[v]);
        else
            STORE(to, adds ? ADD(LOAD(to), sums[v]) : sums[v]);
    }
}

/* The same for all channels, four vectors at a time. */
static TARGET void NAME(sum_channels)(
    size_t channels, const REAL *a, const Segments *s, const REAL *g, REAL *c, int adds)
{
    size_t first = 0;
    for (; first + 4 * LANES <= channels; first += 4 * LANES)
        NAME(sum_vectors)(4, 0, channels, a + first, s, g + first, c + first, adds);
    for (; first + LANES <= channels; first += LANES)
        NAME(sum_vectors)(1, 0, channels, a + first, s, g + first, c + first, adds);
    if (first < channels)
        NAME(sum_vectors)(1, (int)(channels - first), channels, a + first, s, g + first, c + first, adds);
}

#undef TILE
#undef TILES
#undef TALL_TILES
