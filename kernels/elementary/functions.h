/* Inner loops in the form of NumPy's for functions that vectors compute faster than its own loops do: see
   vector_functions.h. They leave the flags of floating-point exceptions as they were. */

#ifndef TAGLOOM_FUNCTIONS_H
#define TAGLOOM_FUNCTIONS_H

#include "core/vectors.h"

typedef void (*ElementaryLoop)(char **, const ptrdiff_t *, const ptrdiff_t *, void *);

enum { ELEMENTARY_EXP, ELEMENTARY_TANH };

#if defined(__GNUC__) && defined(__x86_64__)

#define INLINED __attribute__((always_inline))
#define SOME 64 /* elements that do not lie side by side are computed so many at a time */
#define OF_TYPE(constant, type) OF_TYPE_(constant, type)
#define OF_TYPE_(constant, type) constant##_##type

#define FRACTION_float 23 /* bits */
#define BIAS_float 127u
#define SHIFT_float 0x1.8p23f
#define LOG2_E_float 0x1.715476p+0f
#define MINUS_LN_2_HIGH_float -0x1.62e4p-1f
#define MINUS_LN_2_LOW_float -0x1.7f7d1cp-20f
#define EXP_MOST_float 89.0f /* which is infinite */
#define EXP_LEAST_float -104.0f /* which is 0 */
#define TANH_MOST_float 10.0f /* which is 1 */
#define TERMS_float {0x1.6a4ba8p-10f, 0x1.1239ap-7f, 0x1.5558b2p-5f, 0x1.555492p-3f, 0x1.fffffcp-2f}

#define FRACTION_double 52
#define BIAS_double 1023u
#define SHIFT_double 0x1.8p52
#define LOG2_E_double 0x1.71547652b82fep+0
#define MINUS_LN_2_HIGH_double -0x1.62e42fefa3p-1
#define MINUS_LN_2_LOW_double -0x1.3de6af278ece6p-42
#define EXP_MOST_double 710.0
#define EXP_LEAST_double -746.0
#define TANH_MOST_double 20.0
#define TERMS_double \
    { \
        0x1.ad95e05a54091p-26, 0x1.28ae425359a0fp-22, 0x1.71df178f02822p-19, 0x1.a019991cd3d7cp-16, \
            0x1.a01a0130554a7p-13, 0x1.6c16c1848adf2p-10, 0x1.1111111126aa2p-7, 0x1.5555555550681p-5, \
            0x1.55555555554fep-3, 0x1.000000000000ap-1 \
    }

#define VECTOR_CODE "elementary/vector_functions.h"
#include "core/each_vector.h"
#undef VECTOR_CODE

/* Returns the loop of a function for elements of `size` bytes, or NULL where the processor has no such vectors. */
static inline ElementaryLoop elementary_loop(int function, int size, int bits)
{
    static const ElementaryLoop loops[2][2][2] = {
        {{exp_loop_float_256, exp_loop_float_512}, {exp_loop_double_256, exp_loop_double_512}},
        {{tanh_loop_float_256, tanh_loop_float_512}, {tanh_loop_double_256, tanh_loop_double_512}},
    };
    return bits == 0 ? NULL : loops[function][size == 8][bits == 512];
}

#else

static inline ElementaryLoop elementary_loop(int function, int size, int bits)
{
    return NULL;
}

#endif
#endif
