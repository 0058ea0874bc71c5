/* What CUDA C has and C++ has not, for one processor: the threads of a block take turns, from one __syncthreads() to the
   next, and the blocks follow each other. Threads that do not meet at a __syncthreads() are an error here. */

#include <math.h>
#include <stddef.h>
#include <ucontext.h>
#include <utility>

#define __global__
#define __launch_bounds__(threads)
#define __device__
#define __shared__ static
#define EXPORTED extern "C" __attribute__((visibility("default")))

struct Dim { unsigned x, y, z; };
static Dim threadIdx, blockIdx, blockDim, gridDim;

enum { MOST = 1024, STACK = 1 << 15 };
enum { RUNNING, WAITING, DONE };
static ucontext_t scheduler, threads[MOST];
static char stacks[MOST][STACK];
static int states[MOST];
static unsigned current;
static void (*body)(void*);
static void* captured;

static void begin()
{
    body(captured);
    states[current] = DONE;
}

static void resume(unsigned t)
{
    current = t;
    threadIdx = {t % blockDim.x, t / blockDim.x, 0};
    states[t] = RUNNING;
    swapcontext(&scheduler, &threads[t]);
}

static void __syncthreads()
{
    unsigned me = current;
    states[me] = WAITING;
    swapcontext(&threads[me], &scheduler);
}

/* Here all wait, as all threads of a block come to the same waits. */
static void __syncwarp() { __syncthreads(); }

/* Whether some thread of the block gives one that is not 0. Three votes in turn: who is fast may be at the next one, whose
   count it must not find used. */
static int votes[3];
static unsigned voted[MOST];

static int __syncthreads_or(int mine)
{
    unsigned vote = voted[current]++ % 3;
    votes[(vote + 1) % 3] = 0;
    votes[vote] |= mine != 0;
    __syncthreads();
    return votes[vote];
}

/* One block; says no if some threads are done while others wait for them. */
static bool run_block(unsigned count, bool backward)
{
    for (unsigned t = 0; t < count; t++) {
        voted[t] = 0;
        getcontext(&threads[t]);
        threads[t].uc_stack.ss_sp = stacks[t];
        threads[t].uc_stack.ss_size = STACK;
        threads[t].uc_link = &scheduler;
        makecontext(&threads[t], begin, 0);
    }
    votes[0] = votes[1] = votes[2] = 0;
    for (;;) {
        unsigned done = 0;
        for (unsigned i = 0; i < count; i++) {
            unsigned t = backward ? count - 1 - i : i;
            resume(t);
            done += states[t] == DONE;
        }
        if (done != 0)
            return done == count;
    }
}

template <class Call> static void call(void* captured) { (*(Call*)captured)(); }

template <class... A, size_t... I>
static void apply(void (*kernel)(A...), void** arguments, std::index_sequence<I...>)
{
    kernel(*(A*)arguments[I]...);
}

/* Runs a kernel on blocks of shape[1] x shape[2] threads, shape[0] of them. Returns 0; 1 if threads do not meet; 2 if the
   arguments have not the sizes of the parameters, or there are too many threads. */
template <class... A>
static int launch(void (*kernel)(A...), const unsigned* shape, bool backward, void** arguments, const size_t* sizes,
                  size_t number)
{
    const size_t wanted[] = {sizeof(A)...};
    if (number != sizeof...(A) || shape[1] * shape[2] > MOST)
        return 2;
    for (size_t i = 0; i < number; i++)
        if (sizes[i] != wanted[i])
            return 2;
    auto run = [&] { apply(kernel, arguments, std::index_sequence_for<A...>()); };
    body = call<decltype(run)>;
    captured = &run;
    gridDim = {shape[0], 1, 1};
    blockDim = {shape[1], shape[2], 1};
    for (unsigned b = 0; b < shape[0]; b++) {
        blockIdx = {backward ? shape[0] - 1 - b : b, 0, 0};
        if (!run_block(shape[1] * shape[2], backward))
            return 1;
    }
    return 0;
}
