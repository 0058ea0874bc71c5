// What all kernels share. REAL is float or double; INDEX an unsigned type that counts every element; THREADS of a block.
// Elements of a row are next to each other. Where a row is reduced, threads of one threadIdx.y work on it together.

typedef REAL T;
typedef INDEX Index;

#define KERNEL extern "C" __global__ void __launch_bounds__(THREADS)

// The thread's own columns of a row.
#define EACH_COLUMN(c, width) for (Index c = threadIdx.x; c < (width); c += blockDim.x)

// The thread's own elements of all.
#define EACH_ELEMENT(i, count) \
    for (Index i = blockIdx.x * (Index)blockDim.x + threadIdx.x; i < (count); i += gridDim.x * (Index)blockDim.x)

// The rows of a block's threads. Where there are no more, the last is computed again, so that all threads meet.
#define EACH_ROW(r, rows) \
    for (Index first = blockIdx.x * (Index)blockDim.y, r; \
         r = first + threadIdx.y < (rows) ? first + threadIdx.y : (rows) - 1, first < (rows); \
         first += gridDim.x * (Index)blockDim.y)

__device__ inline T infinity() { return -log(T(0)); }
__device__ inline T larger(T a, T b) { return a > b || a != a ? a : b; }
__device__ inline T smaller(T a, T b) { return a < b || a != a ? a : b; }
__device__ inline T sign(T x) { return x > 0 ? T(1) : x < 0 ? T(-1) : x == 0 ? T(0) : x; }
__device__ inline T sigmoid(T x) { return 1 / (1 + exp(-x)); }

__device__ inline T log_add_exp(T a, T b)
{
    T over = a - b;
    if (a == b)
        return a + T(0.693147180559945309417232121458176568);
    return over > 0 ? a + log1p(exp(-over)) : over <= 0 ? b + log1p(exp(over)) : over;
}

struct Add { static __device__ inline T of(T a, T b) { return a + b; } };
struct Larger { static __device__ inline T of(T a, T b) { return larger(a, b); } };
struct Smaller { static __device__ inline T of(T a, T b) { return smaller(a, b); } };

// What the threads of a row have, joined; blockDim.x is a power of two.
template <class Join> __device__ inline T over_row(T mine)
{
    __shared__ T all[THREADS];
    T* row = all + threadIdx.y * blockDim.x;
    row[threadIdx.x] = mine;
    for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half)
            row[threadIdx.x] = Join::of(row[threadIdx.x], row[threadIdx.x + half]);
    }
    __syncthreads();
    T joined = row[0];
    __syncthreads();
    return joined;
}
