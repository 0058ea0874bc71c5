/* exp and tanh of a vector. Included by each_vector.h for each instruction set and type of elements.

   Both begin with x = n ln 2 + r, |r| <= ln 2 / 2 (Cody and Waite, Software Manual for the Elementary Functions, 1980),
   and a polynomial for (exp(r) - 1 - r) / r^2. Its coefficients are a weighted least-squares fit made minimax by Lawson's
   iteration, rounded one after the other while the others are fitted again: it is off by 2^-28 of exp(r) for float32, and
   by 2^-57 for float64. Errors of all steps together, in units in the last place: exp 0.7, tanh 2.

   Each step is one rounding, the same in vectors of any length, so an element's bits do not depend on where it is. */

#define OF(constant) SPLAT(OF_TYPE(constant, REAL))

/* Returns r, n modulo 2^32 or 2^64, and exp(r) - 1 - r plus the rounding error of r. */
static inline TARGET INLINED VECTOR NAME(reduce)(VECTOR x, UNSIGNED *n, VECTOR *more)
{
    static const REAL terms[] = OF_TYPE(TERMS, REAL);
    VECTOR shifted = FMA(x, OF(LOG2_E), OF(SHIFT)); /* whose last bits are n */
    VECTOR k = shifted - OF(SHIFT);
    VECTOR exact = FMA(k, OF(MINUS_LN_2_HIGH), x);
    VECTOR r = FMA(k, OF(MINUS_LN_2_LOW), exact);
    VECTOR q = SPLAT(terms[0]);
#pragma GCC unroll 16
    for (size_t i = 1; i < sizeof terms / sizeof *terms; i++)
        q = FMA(q, r, SPLAT(terms[i]));
    *n = (UNSIGNED)shifted - (UNSIGNED)OF(SHIFT);
    *more = FMA(r * r, q, FMA(k, OF(MINUS_LN_2_LOW), exact - r));
    return r;
}

static inline TARGET INLINED VECTOR NAME(power_of_2)(UNSIGNED biased)
{
    return (VECTOR)(biased << OF_TYPE(FRACTION, REAL));
}

/* 2^n is two factors, of which the last rounds to a subnormal or infinite result. NaN stays NaN. */
static inline TARGET INLINED VECTOR NAME(exp)(VECTOR x)
{
    UNSIGNED n;
    VECTOR more, r = NAME(reduce)(MAX(OF(EXP_LEAST), MIN(OF(EXP_MOST), x)), &n, &more);
    VECTOR sum = SPLAT(1) + r;
    VECTOR y = sum + (SPLAT(1) - sum + r + more);
    UNSIGNED biased = n + 2 * OF_TYPE(BIAS, REAL), half = biased >> 1;
    return y * NAME(power_of_2)(half) * NAME(power_of_2)(biased - half);
}

/* -m / (m + 2) with m = exp(-2 |x|) - 1, and the sign of x. */
static inline TARGET INLINED VECTOR NAME(tanh)(VECTOR x)
{
    UNSIGNED sign = (UNSIGNED)SPLAT(-0.0), n;
    VECTOR size = MIN(OF(TANH_MOST), (VECTOR)((UNSIGNED)x & ~sign));
    VECTOR more, r = NAME(reduce)(size * SPLAT(-2), &n, &more);
    VECTOR m = r + more, scale = NAME(power_of_2)(n + OF_TYPE(BIAS, REAL));
    VECTOR y = FMA(scale, m, scale - SPLAT(1)) / FMA(scale, m, scale + SPLAT(1));
    return (VECTOR)(((UNSIGNED)y & ~sign) | ((UNSIGNED)x & sign));
}

#undef OF

/* Elements side by side; the result may have their memory. The rest of them is the end of a vector that overlaps
   the one before, and is read before any is written. */
#define OVER_ELEMENTS(function) \
    static TARGET void NAME(function##_of_row)(const REAL *x, REAL *y, ptrdiff_t count) \
    { \
        if (count < LANES) { \
            STORE_FIRST(y, FIRST((int)count), NAME(function)(LOAD_FIRST(FIRST((int)count), x))); \
            return; \
        } \
        VECTOR last = LOAD(x + count - LANES); \
        ptrdiff_t i = 0; \
        for (; i + LANES <= count; i += LANES) \
            STORE(y + i, NAME(function)(LOAD(x + i))); \
        if (i < count) \
            STORE(y + count - LANES, NAME(function)(last)); \
    } \
    static void NAME(function##_loop)(char **operands, const ptrdiff_t *count, const ptrdiff_t *strides, void *data) \
    { \
        const ptrdiff_t size = sizeof(REAL); \
        const char *x = operands[0]; \
        char *y = operands[1]; \
        REAL some[SOME]; \
        unsigned state = _mm_getcsr(); \
        (void)data; \
        if (*count == 1 || (strides[0] == size && strides[1] == size)) { \
            NAME(function##_of_row)((const REAL *)x, (REAL *)y, *count); \
        } else { \
            for (ptrdiff_t first = 0; first < *count; first += SOME) { \
                ptrdiff_t i, n = *count - first < SOME ? *count - first : SOME; \
                for (i = 0; i < n; i++, x += strides[0]) \
                    some[i] = *(const REAL *)x; \
                NAME(function##_of_row)(some, some, n); \
                for (i = 0; i < n; i++, y += strides[1]) \
                    *(REAL *)y = some[i]; \
            } \
        } \
        _mm_setcsr(state); \
    }

OVER_ELEMENTS(exp)
OVER_ELEMENTS(tanh)

#undef OVER_ELEMENTS
