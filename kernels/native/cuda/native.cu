// Definitions for kernels of native programs, prefixed to a kernel written by the modules in this folder.
//
// One block of threads runs a whole loop. Each thread has its own copy of every value without dimensions, an "element",
// so all threads take the same branches; the threads share the arrays. A launch ends when the program ends or gives up,
// when a series or TensorArray has no room for a row, or when the launch has run for its budget. It then stores the
// elements, and the block of instructions to go on with, in `state` for the next launch.

// How a launch ended: to be launched again, done, to be run by the step machine instead, or waiting for more room.
enum { SUSPENDED, ENDED, GAVE_UP, NO_ROOM };

// Loop over the elements of an array that this thread computes.
#define EACH(i, count) for (int i = threadIdx.x; i < (count); i += blockDim.x)

// Loop over the elements that this thread computes together with `by - 1` neighbours. All threads do the same number
// of iterations, as required by shuffles and barriers inside: threads without an element left repeat the last one.
#define EACH_BY(by, i, count) \
    for (int first = 0, i; \
         i = first + int(threadIdx.x / (by)) < (count) ? first + int(threadIdx.x / (by)) : (count) - 1, first < (count); \
         first += int(blockDim.x / (by)))

// Rows of fused operations, each computed by LANES threads, ROWS rows at a time. prelude.cu defines these for launches
// of several blocks; here every generated function comes after a definition of its LANES.
#undef LANE
#undef LANES
#undef ROW
#undef ROWS
#define LANE (threadIdx.x % LANES)
#define ROW (threadIdx.x / LANES)
#define ROWS (blockDim.x / LANES)

// End the launch with a status, to go on at block `at` of instructions.
#define LEAVE(how, at) { status = how; pc = at; goto leave; }

// Signed integers wrap around as in NumPy, where overflow is undefined in C: so they are computed as unsigned integers.
template <class X> struct Wrapping { typedef X type; };
template <> struct Wrapping<signed char> { typedef unsigned type; };
template <> struct Wrapping<short> { typedef unsigned type; };
template <> struct Wrapping<int> { typedef unsigned type; };
template <> struct Wrapping<long long> { typedef unsigned long long type; };

template <class X> __device__ inline X plus(X a, X b)
{
    typedef typename Wrapping<X>::type U;
    return X(U(a) + U(b));
}

template <class X> __device__ inline X minus(X a, X b)
{
    typedef typename Wrapping<X>::type U;
    return X(U(a) - U(b));
}

template <class X> __device__ inline X times(X a, X b)
{
    typedef typename Wrapping<X>::type U;
    return X(U(a) * U(b));
}

template <class X> __device__ inline X negated(X x) { return minus(X(0), x); }
template <class X> __device__ inline X magnitude(X x) { return x < X(0) ? negated(x) : x; }

// Integer division rounds towards minus infinity, as in Python. The caller checks for a divisor of 0, and discards the
// result. The smallest integer divided by -1 overflows, so -1 is a case of its own for signed types.
template <class X> __device__ inline X floor_divide(X a, X b)
{
    if (b == X(0))
        return X(0);
    if (X(-1) < X(0) && b == X(-1))
        return minus(X(0), a);
    return X(a / b - (a % b != 0 && (a < X(0)) != (b < X(0))));
}

template <class X> __device__ inline X floor_modulo(X a, X b)
{
    if (b == X(0) || (X(-1) < X(0) && b == X(-1)))
        return X(0);
    X rest = X(a % b);
    return rest != 0 && (rest < X(0)) != (b < X(0)) ? X(rest + b) : rest;
}

// Remainder and floor division of floating-point numbers, step by step as in NumPy: the remainder has the sign of the
// divisor, even if it is 0, and the quotient is computed from an exact multiple of the divisor.
template <class X> __device__ inline X real_modulo(X a, X b)
{
    X rest = fmod(a, b);
    if (b == 0)
        return rest;
    if (rest == 0)
        return copysign(X(0), b);
    return (rest < 0) != (b < 0) ? rest + b : rest;
}

template <class X> __device__ inline X real_floor_divide(X a, X b)
{
    if (b == 0)
        return a / b;
    X rest = fmod(a, b);
    X quotient = (a - rest) / b;
    if (rest != 0 && (rest < 0) != (b < 0))
        quotient -= 1;
    if (quotient == 0)
        return copysign(X(0), a / b);
    X down = floor(quotient);
    return quotient - down > X(0.5) ? down + 1 : down;
}

// Operators that join two elements in a reduction.
struct Both { template <class X> static __device__ inline X of(X a, X b) { return a && b; } };
struct Either { template <class X> static __device__ inline X of(X a, X b) { return a || b; } };
struct Sum { template <class X> static __device__ inline X of(X a, X b) { return plus(a, b); } };

// Products of matrices. The terms of an element are added one after the other, from the first, floats by FMA, so the
// result does not depend on the number of threads.
template <class X> __device__ inline X add_product(X a, X b, X total) { return plus(total, times(a, b)); }
__device__ inline float add_product(float a, float b, float total) { return fma(a, b, total); }
__device__ inline double add_product(double a, double b, double total) { return fma(a, b, total); }

// Four elements that are loaded by one instruction of up to 16 bytes.
template <class X> struct alignas(4 * sizeof(X) < 16 ? 4 * sizeof(X) : 16) Four { X each[4]; };

// The next four factors of a result's element, with a distance of INNER elements; by one load if AT_ONCE.
template <int INNER, bool AT_ONCE, class X> __device__ inline Four<X> next_four(const X* from)
{
    if (AT_ONCE)
        return *(const Four<X>*)from;
    return {{from[0], from[INNER], from[2 * INNER], from[3 * INNER]}};
}

// Multiply matrices, with `end(total, i)` as element i of the result.
//
// The result has COUNT elements in rows of COLUMNS, each a sum of TERMS products. Distances in elements: A_ALONG between
// rows of `a`, A_INNER between the terms of a row; B_ALONG between columns of `b`, B_INNER between the terms of a
// column. The kernel has THREADS threads.
//
// A thread computes up to four of its elements together, which are THREADS apart. If COLUMNS divides THREADS, they are
// in one column, whose factors are then loaded once for all four.
template <int COUNT, int COLUMNS, int TERMS, int A_ALONG, int A_INNER, int B_ALONG, int B_INNER, bool A_AT_ONCE,
          bool B_AT_ONCE, class X, class End>
__device__ inline void multiply_as_they_lie(const X* a, const X* b, X* made, End end)
{
    constexpr int OWN = (COUNT + THREADS - 1) / THREADS, TOGETHER = OWN < 4 ? OWN : 4;
    constexpr int COLUMNS_OF_EACH = THREADS % COLUMNS == 0 ? 1 : TOGETHER;
    for (int first = threadIdx.x; first < COUNT; first += TOGETHER * THREADS) {
        const X *left[TOGETHER], *right[TOGETHER];
        X total[TOGETHER];
        for (int g = 0; g < TOGETHER; g++) {
            // A group may reach beyond the last element: it computes its first element again, and stores nothing.
            int i = first + g * THREADS < COUNT ? first + g * THREADS : first;
            left[g] = a + i / COLUMNS * A_ALONG;
            right[g] = b + i % COLUMNS * B_ALONG;
            total[g] = 0;
        }
        int k = 0;
        for (; k + 4 <= TERMS; k += 4) {
            Four<X> rows[TOGETHER], columns[COLUMNS_OF_EACH];
            for (int g = 0; g < TOGETHER; g++)
                rows[g] = next_four<A_INNER, A_AT_ONCE>(left[g] + k * A_INNER);
            for (int g = 0; g < COLUMNS_OF_EACH; g++)
                columns[g] = next_four<B_INNER, B_AT_ONCE>(right[g] + k * B_INNER);
            for (int j = 0; j < 4; j++)
                for (int g = 0; g < TOGETHER; g++)
                    total[g] = add_product(rows[g].each[j], columns[g % COLUMNS_OF_EACH].each[j], total[g]);
        }
        for (; k < TERMS; k++)
            for (int g = 0; g < TOGETHER; g++)
                total[g] = add_product(left[g][k * A_INNER], right[g][k * B_INNER], total[g]);
        for (int g = 0, i = first; g < TOGETHER; g++, i += THREADS)
            if (i < COUNT)
                made[i] = end(total[g], i);
    }
}

// Multiply matrices as multiply_as_they_lie does, with loads of four factors at once if both addresses allow them.
//
// The strides, known to the compiler, decide whether every group of four is adjacent and aligned relative to the first
// element of the matrix; the address of that element is known only when the kernel runs.
template <int COUNT, int COLUMNS, int TERMS, int A_ALONG, int A_INNER, int B_ALONG, int B_INNER, class X, class End>
__device__ inline void multiply(const X* a, const X* b, X* made, End end)
{
    constexpr bool A = A_INNER == 1 && A_ALONG % 4 == 0, B = B_INNER == 1 && B_ALONG % 4 == 0;
    constexpr int ALIGNED = alignof(Four<X>) - 1;
    if ((A || B) && !(((A ? (size_t)a : 0) | (B ? (size_t)b : 0)) & ALIGNED))
        multiply_as_they_lie<COUNT, COLUMNS, TERMS, A_ALONG, A_INNER, B_ALONG, B_INNER, A, B>(a, b, made, end);
    else
        multiply_as_they_lie<COUNT, COLUMNS, TERMS, A_ALONG, A_INNER, B_ALONG, B_INNER, false, false>(a, b, made, end);
}
