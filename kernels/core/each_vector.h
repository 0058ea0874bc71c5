/* Includes VECTOR_CODE for each instruction set and type of elements: it defines NAME, TARGET, REAL, VECTOR,
   UNSIGNED (integers of the same size), LANES, MOST_VECTORS and the operations on vectors. With NaN the result of MIN
   and MAX is the second operand. */

#define TARGET __attribute__((target("avx512f,fma")))
#define MORE_TILES(rows) else if (vectors == 3) TILE(rows, 3); else TILE(rows, 4);
#define MOST_VECTORS 4

#define NAME(name) name##_float_512
#define REAL float
#define VECTOR __m512
#define UNSIGNED unsigned_ints_512
#define MASK __mmask16
#define LANES 16
#define FIRST(n) (__mmask16)((1u << (n)) - 1)
#define ZERO _mm512_setzero_ps
#define SPLAT _mm512_set1_ps
#define LOAD _mm512_loadu_ps
#define LOAD_FIRST _mm512_maskz_loadu_ps
#define STORE _mm512_storeu_ps
#define STORE_FIRST _mm512_mask_storeu_ps
#define FMA _mm512_fmadd_ps
#define ADD _mm512_add_ps
#define MIN _mm512_min_ps
#define MAX _mm512_max_ps
#define UNLESS_NEGATIVE(x) _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(x, ZERO(), _CMP_NLE_UQ), x)
#define WHERE_POSITIVE(y, x) _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(y, ZERO(), _CMP_GT_OQ), x)
#include VECTOR_CODE
#include "undo_vector.h"

#define NAME(name) name##_double_512
#define REAL double
#define VECTOR __m512d
#define UNSIGNED unsigned_longs_512
#define MASK __mmask8
#define LANES 8
#define FIRST(n) (__mmask8)((1u << (n)) - 1)
#define ZERO _mm512_setzero_pd
#define SPLAT _mm512_set1_pd
#define LOAD _mm512_loadu_pd
#define LOAD_FIRST _mm512_maskz_loadu_pd
#define STORE _mm512_storeu_pd
#define STORE_FIRST _mm512_mask_storeu_pd
#define FMA _mm512_fmadd_pd
#define ADD _mm512_add_pd
#define MIN _mm512_min_pd
#define MAX _mm512_max_pd
#define UNLESS_NEGATIVE(x) _mm512_maskz_mov_pd(_mm512_cmp_pd_mask(x, ZERO(), _CMP_NLE_UQ), x)
#define WHERE_POSITIVE(y, x) _mm512_maskz_mov_pd(_mm512_cmp_pd_mask(y, ZERO(), _CMP_GT_OQ), x)
#include VECTOR_CODE
#include "undo_vector.h"

#undef TARGET
#undef MORE_TILES
#undef MOST_VECTORS
#define TARGET __attribute__((target("avx2,fma")))
#define MORE_TILES(rows)
#define MOST_VECTORS 2

#define NAME(name) name##_float_256
#define REAL float
#define VECTOR __m256
#define UNSIGNED unsigned_ints_256
#define MASK __m256i
#define LANES 8
#define FIRST first_of_8
#define ZERO _mm256_setzero_ps
#define SPLAT _mm256_set1_ps
#define LOAD _mm256_loadu_ps
#define LOAD_FIRST(mask, p) _mm256_maskload_ps(p, mask)
#define STORE _mm256_storeu_ps
#define STORE_FIRST _mm256_maskstore_ps
#define FMA _mm256_fmadd_ps
#define ADD _mm256_add_ps
#define MIN _mm256_min_ps
#define MAX _mm256_max_ps
#define UNLESS_NEGATIVE(x) _mm256_and_ps(_mm256_cmp_ps(x, ZERO(), _CMP_NLE_UQ), x)
#define WHERE_POSITIVE(y, x) _mm256_and_ps(_mm256_cmp_ps(y, ZERO(), _CMP_GT_OQ), x)
#include VECTOR_CODE
#include "undo_vector.h"

#define NAME(name) name##_double_256
#define REAL double
#define VECTOR __m256d
#define UNSIGNED unsigned_longs_256
#define MASK __m256i
#define LANES 4
#define FIRST first_of_4
#define ZERO _mm256_setzero_pd
#define SPLAT _mm256_set1_pd
#define LOAD _mm256_loadu_pd
#define LOAD_FIRST(mask, p) _mm256_maskload_pd(p, mask)
#define STORE _mm256_storeu_pd
#define STORE_FIRST _mm256_maskstore_pd
#define FMA _mm256_fmadd_pd
#define ADD _mm256_add_pd
#define MIN _mm256_min_pd
#define MAX _mm256_max_pd
#define UNLESS_NEGATIVE(x) _mm256_and_pd(_mm256_cmp_pd(x, ZERO(), _CMP_NLE_UQ), x)
#define WHERE_POSITIVE(y, x) _mm256_and_pd(_mm256_cmp_pd(y, ZERO(), _CMP_GT_OQ), x)
#include VECTOR_CODE
#include "undo_vector.h"

#undef TARGET
#undef MORE_TILES
#undef MOST_VECTORS
