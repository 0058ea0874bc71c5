// Common definitions. REAL is float or double; INDEX an unsigned type that counts every element; THREADS of a block.
// Elements of a row are next to each other. Where a row is reduced, LANES threads work on it together, and the block on
// ROWS rows; a row has one threadIdx.y, except in kernels of native programs, which define it for each function.

typedef REAL T;
typedef INDEX Index;

#define KERNEL extern "C" __global__ void __launch_bounds__(THREADS)

#define LANE threadIdx.x
#define LANES blockDim.x
#define ROW threadIdx.y
#define ROWS blockDim.y

// The thread's own columns of a row.
#define EACH_COLUMN(c, width) for (Index c = LANE; c < (width); c += LANES)

// The thread's own elements of an array.
#define EACH_ELEMENT(i, count) \
    for (Index i = blockIdx.x * (Index)blockDim.x + threadIdx.x; i < (count); i += gridDim.x * (Index)blockDim.x)

// The rows of a block's threads. Threads without a row compute the last one again, so that all meet at barriers.
#define EACH_ROW(r, rows) \
    for (Index first = blockIdx.x * (Index)(ROWS), r; \
         r = first + ROW < (rows) ? first + ROW : (rows) - 1, first < (rows); \
         first += gridDim.x * (Index)(ROWS))

__device__ inline T infinity() { return -log(T(0)); }
template <class X> __device__ inline X larger(X a, X b) { return a > b || a != a ? a : b; }
template <class X> __device__ inline X smaller(X a, X b) { return a < b || a != a ? a : b; }
template <class X> __device__ inline X sign(X x) { return x > 0 ? X(1) : x < 0 ? X(-1) : x == 0 ? X(0) : x; }
template <class X> __device__ inline X sigmoid(X x) { return 1 / (1 + exp(-x)); }

template <class X> __device__ inline X log_add_exp(X a, X b)
{
    X over = a - b;
    if (a == b)
        return a + X(0.693147180559945309417232121458176568);
    return over > 0 ? a + log1p(exp(-over)) : over <= 0 ? b + log1p(exp(over)) : over;
}

struct Add { template <class X> static __device__ inline X of(X a, X b) { return a + b; } };
struct Larger { template <class X> static __device__ inline X of(X a, X b) { return larger(a, b); } };
struct Smaller { template <class X> static __device__ inline X of(X a, X b) { return smaller(a, b); } };

// Barrier for the threads of a row; if they are of one warp, only for the warp.
__device__ inline void wait_for_row(unsigned lanes)
{
    if (lanes > 32)
        __syncthreads();
    else
        __syncwarp();
}

// The values of a row's threads, joined. The threads are next to each other, `lanes` of them, a power of two.
template <class Join, class X> __device__ inline X over_row(X mine, unsigned lane, unsigned lanes)
{
    __shared__ X all[THREADS];
    X* row = all + threadIdx.y * blockDim.x + threadIdx.x - lane;
    row[lane] = mine;
    for (unsigned half = lanes / 2; half > 0; half /= 2) {
        wait_for_row(lanes);
        if (lane < half)
            row[lane] = Join::of(row[lane], row[lane + half]);
    }
    wait_for_row(lanes);
    X joined = row[0];
    wait_for_row(lanes);
    return joined;
}
