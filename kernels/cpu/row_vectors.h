/* Rows added to a total, some vectors of it at a time in registers. Included by each_vector.h for each instruction set
   and type of elements. */

#define ADD_VECTORS(vectors) \
    for (; i + vectors * LANES <= count; i += vectors * LANES) { \
        VECTOR sums[vectors]; \
        for (int v = 0; v < vectors; v++) \
            sums[v] = LOAD(total + i + v * LANES); \
        for (ptrdiff_t r = 0; r < num_rows; r++) \
            for (int v = 0; v < vectors; v++) \
                sums[v] = ADD(sums[v], LOAD(rows + r * step + i + v * LANES)); \
        for (int v = 0; v < vectors; v++) \
            STORE(total + i + v * LANES, sums[v]); \
    }

static TARGET void NAME(add_rows)(
    void *to, const void *from, ptrdiff_t num_rows, ptrdiff_t step, ptrdiff_t count)
{
    REAL *total = to;
    const REAL *rows = from;
    ptrdiff_t i = 0;
    ADD_VECTORS(8)
    ADD_VECTORS(4)
    ADD_VECTORS(2)
    ADD_VECTORS(1)
    if (i < count) {
        MASK rest = FIRST((int)(count - i));
        VECTOR sum = LOAD_FIRST(rest, total + i);
        for (ptrdiff_t r = 0; r < num_rows; r++)
            sum = ADD(sum, LOAD_FIRST(rest, rows + r * step + i));
        STORE_FIRST(total + i, rest, sum);
    }
}

#undef ADD_VECTORS
