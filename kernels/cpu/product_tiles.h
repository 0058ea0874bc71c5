/* Products of matrices for one instruction set and one type of elements: see each_vector.h.

   Each element of a product is one chain: fma(a[i,k], b[k,j], sum) for k in order, then added to the total if there
   is one. So neither the instruction set, nor packing, nor how a product is cut changes a bit of the result. */

/* A tile of `rows` by `vectors`, both known where this is inlined, so that its sums stay in registers. These go on from
   those in `sums_before`, which lie like c, or NULL. */
static inline __attribute__((always_inline)) TARGET void NAME(tile)(
    const int rows, const int vectors, const int first, const REAL *a, size_t a_row, size_t a_step, const REAL *b,
    size_t b_step, size_t inner, const REAL *more_a, const REAL *more_b, size_t more_inner, REAL *c, const REAL *total,
    const REAL *sums_before, size_t c_row)
{
    VECTOR sums[MOST_TILE_ROWS][MOST_VECTORS], row[MOST_VECTORS];
    MASK mask = FIRST(first);
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < vectors; v++) {
            const REAL *from = sums_before + r * c_row + v * LANES;
            sums[r][v] = !sums_before ? ZERO() : first ? LOAD_FIRST(mask, from) : LOAD(from);
        }
    for (size_t k = 0; k < inner + more_inner; k++) {
        if (k == inner) {
            a = more_a;
            b = more_b;
        }
        for (int v = 0; v < vectors; v++)
            row[v] = first ? LOAD_FIRST(mask, b + v * LANES) : LOAD(b + v * LANES);
        for (int r = 0; r < rows; r++) {
            VECTOR x = SPLAT(a[r * a_row]);
            for (int v = 0; v < vectors; v++)
                sums[r][v] = FMA(x, row[v], sums[r][v]);
        }
        a += a_step;
        b += b_step;
    }
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < vectors; v++) {
            size_t at = r * c_row + v * LANES;
            if (first) {
                if (total)
                    sums[r][v] = ADD(LOAD_FIRST(mask, total + at), sums[r][v]);
                STORE_FIRST(c + at, mask, sums[r][v]);
            } else {
                if (total)
                    sums[r][v] = ADD(LOAD(total + at), sums[r][v]);
                STORE(c + at, sums[r][v]);
            }
        }
}

#define STRIP strip_bytes(8 * sizeof(VECTOR))
#define TILE(rows, vectors) \
    NAME(tile)(rows, vectors, 0, a, a_row, a_step, b, b_step, inner, more_a, more_b, more_inner, c, total, \
               sums_before, c_row)
#define TILE_FIRST(rows) \
    NAME(tile)(rows, 1, first, a, a_row, a_step, b, b_step, inner, more_a, more_b, more_inner, c, total, \
               sums_before, c_row)
#define TILES(rows) \
    case rows: \
        if (first) \
            TILE_FIRST(rows); \
        else if (vectors == 1) \
            TILE(rows, 1); \
        else if (vectors == 2) \
            TILE(rows, 2); \
        MORE_TILES(rows) \
        break;

static TARGET void NAME(any_tile)(
    int rows, int vectors, int first, const REAL *a, size_t a_row, size_t a_step, const REAL *b, size_t b_step,
    size_t inner, const REAL *more_a, const REAL *more_b, size_t more_inner, REAL *c, const REAL *total,
    const REAL *sums_before, size_t c_row)
{
    switch (rows) {
        TILES(1)
        TILES(2)
        TILES(3)
        TILES(4)
        TILES(5)
        TILES(6)
    }
}

/* Elements from a packed tile of the left factor to the next. A multiple of 4 KB would put all tiles in one set of the cache. */
static inline size_t NAME(left_panel)(size_t inner)
{
    return MOST_TILE_ROWS * inner + 64 / sizeof(REAL);
}

/* Writes rows of a factor that lies column by column as a panel for each tile: MOST_TILE_ROWS elements for each k. */
static void NAME(pack_left)(const Factors *f, size_t row, size_t rows, size_t more_inner, REAL *panels)
{
    const REAL *a = (const REAL *)f->a + row, *more_a = f->more_a ? (const REAL *)f->more_a + row : NULL;
    size_t inner = f->inner + more_inner, whole = rows / MOST_TILE_ROWS * MOST_TILE_ROWS;
    for (size_t k = 0; k < inner; k++, panels += MOST_TILE_ROWS) {
        const REAL *from = k < f->inner ? a + k * f->a_step : more_a + (k - f->inner) * f->a_step;
        REAL *to = panels;
        for (size_t r = 0; r < whole; r += MOST_TILE_ROWS, to += NAME(left_panel)(inner))
            memcpy(to, from + r, MOST_TILE_ROWS * sizeof(REAL));
        for (size_t r = whole; r < rows; r++)
            to[r - whole] = from[r];
    }
}

/* Some rows and columns of a product: see `multiply` in product.h. `left` is NULL or panels of these rows. */
static TARGET void NAME(multiply_rows)(
    const Factors *f, size_t row, size_t rows, size_t column, size_t columns, const REAL *left)
{
    const REAL *a = (const REAL *)f->a, *total = (const REAL *)f->total, *before = (const REAL *)f->sums_before;
    const REAL *more_a = (const REAL *)f->more_a, *more_b = (const REAL *)f->more_b;
    size_t more_inner = more_a ? f->more_inner : 0, inner = f->inner + more_inner;
    size_t a_row = left ? 1 : f->a_row, a_step = left ? MOST_TILE_ROWS : f->a_step;
    REAL *c = (REAL *)f->c;
    size_t end = column + columns, panel = PANEL_BYTES / sizeof(REAL), strip = STRIP / sizeof(REAL);
    while (column < end) {
        size_t count = end - column, b_step = f->b_row, vectors, width;
        const REAL *first_row = (const REAL *)f->b + column, *goes_on_b = more_b ? more_b + column : NULL;
        if (f->packed) {
            size_t in_panel = column % panel, in_strip = column % strip;
            const REAL *at = (const REAL *)f->packed + (column - in_panel) * inner;
            first_row = at + (in_panel - in_strip) * f->inner + in_strip;
            goes_on_b = more_b ? at + panel * f->inner + (in_panel - in_strip) * more_inner + in_strip : NULL;
            b_step = strip;
            count = count < strip - in_strip ? count : strip - in_strip;
        }
        vectors = count / LANES < MOST_VECTORS ? count / LANES : MOST_VECTORS;
        width = vectors ? vectors * LANES : count;
        for (size_t r = 0; r < rows; r += MOST_TILE_ROWS) {
            size_t at = (row + r) * f->columns + column;
            const REAL *first_a = left ? left + r / MOST_TILE_ROWS * NAME(left_panel)(inner) : a + (row + r) * a_row;
            const REAL *goes_on = left ? first_a + f->inner * a_step : more_a ? more_a + (row + r) * a_row : NULL;
            NAME(any_tile)(
                rows - r < MOST_TILE_ROWS ? (int)(rows - r) : MOST_TILE_ROWS, (int)vectors, vectors ? 0 : (int)count,
                first_a, a_row, a_step, first_row, b_step, f->inner, more_a ? goes_on : NULL,
                goes_on_b, more_inner, c + at, total ? total + at : NULL, before ? before + at : NULL, f->columns);
        }
        column += width;
    }
}

/* The same for few rows: some terms of all columns after the other, so that the second factor is read from row to row.

   The sums so far are in the product, or in other memory where the product is also the addend. */
static TARGET int NAME(multiply_in_blocks)(const Factors *f, size_t row, size_t rows, size_t column, size_t columns)
{
    size_t terms = f->inner + (f->more_a ? f->more_inner : 0), done, count, skipped = row * f->columns;
    REAL *c = (REAL *)f->c + skipped, *elsewhere = f->total == f->c ? malloc(rows * f->columns * sizeof(REAL)) : NULL;
    REAL *sums = elsewhere ? elsewhere : c;
    Factors block = *f;
    if (f->total == f->c && !elsewhere)
        return 0;
    block.more_a = NULL;
    for (done = 0; done < terms; done += count) {
        int is_more = done >= f->inner;
        size_t k = is_more ? done - f->inner : done, left = (is_more ? f->more_inner : f->inner) - k;
        count = left < BLOCK_TERMS ? left : BLOCK_TERMS;
        block.a = (const REAL *)(is_more ? f->more_a : f->a) + row * f->a_row + k * f->a_step;
        block.b = (const REAL *)(is_more ? f->more_b : f->b) + k * f->b_row;
        block.inner = count;
        block.sums_before = done ? sums : NULL;
        block.c = done + count < terms ? sums : c;
        block.total = done + count < terms || !f->total ? NULL : (const REAL *)f->total + skipped;
        NAME(multiply_rows)(&block, 0, rows, column, columns, NULL);
    }
    free(elsewhere);
    return 1;
}

/* The same; columns are packed, a panel at a time, if there is room for one. */
static TARGET void NAME(multiply_panels)(
    const Factors *f, size_t row, size_t rows, size_t column, size_t columns, const REAL *left)
{
    const REAL *b = (const REAL *)f->b, *more_b = (const REAL *)f->more_b;
    size_t end = column + columns, panel = PANEL_BYTES / sizeof(REAL), count;
    REAL *c = (REAL *)f->c;
    const REAL *total = (const REAL *)f->total;
    Factors one = *f; /* in which the panel's first column is the first */
    if (!f->panel) {
        NAME(multiply_rows)(f, row, rows, column, columns, left);
        return;
    }
    one.packed = f->panel;
    for (; column < end; column += count) {
        count = end - column < panel ? end - column : panel;
        pack(b + column * f->b_step, f->b_row, f->b_step, f->inner, count, sizeof(REAL), STRIP, f->inner * STRIP,
             f->panel);
        if (f->more_a)
            pack(more_b + column * f->b_step, f->b_row, f->b_step, f->more_inner, count, sizeof(REAL), STRIP,
                 f->more_inner * STRIP, (REAL *)f->panel + f->inner * panel);
        one.c = c + column;
        one.total = total ? total + column : NULL;
        NAME(multiply_rows)(&one, row, rows, 0, count, left);
    }
}

/* The same; a left factor that lies column by column is packed, as many rows at a time as the next level of cache has
   room for, since all panels of columns are used for them. */
static TARGET void NAME(multiply)(const Factors *f, size_t row, size_t rows, size_t column, size_t columns)
{
    size_t more_inner = f->more_a ? f->more_inner : 0, inner = f->inner + more_inner;
    size_t most = LEFT_BYTES / (inner * sizeof(REAL)) / LEFT_ROWS * LEFT_ROWS;
    REAL *left = NULL;
    most = most < LEFT_ROWS ? LEFT_ROWS : most;
    most = most < rows ? most : rows;
    if (f->a_row == 1 && f->a_step >= FAR_STEP && columns >= ENOUGH_COLUMNS)
        left = malloc((most + MOST_TILE_ROWS - 1) / MOST_TILE_ROWS * NAME(left_panel)(inner) * sizeof(REAL));
    for (size_t count; left != NULL && rows > 0; row += count, rows -= count) { /* else it is read in place */
        count = rows < most ? rows : most;
        for (size_t r = 0; r < count; r += LEFT_ROWS)
            NAME(pack_left)(f, row + r, count - r < LEFT_ROWS ? count - r : LEFT_ROWS, more_inner,
                            left + r / MOST_TILE_ROWS * NAME(left_panel)(inner));
        NAME(multiply_panels)(f, row, count, column, columns, left);
    }
    free(left);
    if (rows > 0 && f->in_blocks && NAME(multiply_in_blocks)(f, row, rows, column, columns))
        return;
    if (rows > 0)
        NAME(multiply_panels)(f, row, rows, column, columns, NULL);
}

#undef STRIP
#undef TILE
#undef TILE_FIRST
#undef TILES
