/* A stand-in for the CUDA driver, for tests on machines without a GPU: memory, streams, events, copies. No kernels.

   Device memory is memory of the process, at addresses that the host can not read (see DEVICE). A stream is a thread
   that does what was enqueued in order. One lock guards everything and one condition tells of every change: there are
   few threads, and what counts here is that the order is right.

   It is stricter than a GPU where a mistake would stay unseen there: calls need a current context, copies look up their
   addresses when they run, pageable memory is read when a copy is enqueued, and what is left over is counted.

   What is not here is made from the list of what pycuda imports, and answers CUDA_ERROR_NOT_SUPPORTED. */

#define _GNU_SOURCE
#include "machine.h"

#define LOCKED(call)                 \
    do {                             \
        pthread_mutex_lock(&lock);   \
        CUresult result_ = (call);   \
        pthread_mutex_unlock(&lock); \
        return result_;              \
    } while (0)

/* ---- the driver: devices and contexts */

CUresult cuInit(unsigned flags) { (void)flags; return CUDA_SUCCESS; }
CUresult cuDriverGetVersion(int *version) { *version = CUDA_VERSION; return CUDA_SUCCESS; }
CUresult cuDeviceGetCount(int *count) { *count = 1; return CUDA_SUCCESS; }
CUresult cuDeviceGet(CUdevice *device, int i) { *device = i; return i ? CUDA_ERROR_INVALID_DEVICE : CUDA_SUCCESS; }
CUresult cuDeviceTotalMem(size_t *nbytes, CUdevice device) { (void)device; *nbytes = limit; return CUDA_SUCCESS; }
CUresult cuCtxGetDevice(CUdevice *device) { NEED_CONTEXT; *device = 0; return CUDA_SUCCESS; }
CUresult cuCtxSynchronize(void) { NEED_CONTEXT; LOCKED(drain_all()); }

CUresult cuDeviceGetName(char *name, int length, CUdevice device)
{
    (void)device;
    strncpy(name, "Simulated CUDA", length);
    return CUDA_SUCCESS;
}

CUresult cuDeviceComputeCapability(int *major, int *minor, CUdevice device)
{
    (void)device;
    *major = 9, *minor = 0;
    return CUDA_SUCCESS;
}

CUresult cuGetErrorString(CUresult error, const char **text)
{
    *text = error == CUDA_SUCCESS ? "no error" : error == CUDA_ERROR_OUT_OF_MEMORY ? "out of memory"
          : error == CUDA_ERROR_NOT_SUPPORTED ? "operation not supported"
          : error == CUDA_ERROR_INVALID_CONTEXT ? "invalid device context"
          : error == CUDA_ERROR_LAUNCH_FAILED ? "unspecified launch failure"
          : error == CUDA_ERROR_ILLEGAL_ADDRESS ? "an illegal memory access was encountered" : "another error";
    return CUDA_SUCCESS;
}

static CUresult retain(CUcontext *context)
{
    primary.retained++;
    live[CONTEXTS]++;
    *context = &primary;
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) { (void)device; LOCKED(retain(context)); }

CUresult cuDevicePrimaryCtxRelease(CUdevice device) { (void)device; LOCKED(release()); }

static CUresult push(CUcontext context)
{
    NEED(context && primary.retained, CUDA_ERROR_INVALID_CONTEXT);
    NEED(pushed < MOST_PUSHED, CUDA_ERROR_OUT_OF_MEMORY);
    stack[pushed++] = context;
    live[PUSHED]++;
    return CUDA_SUCCESS;
}

static CUresult pop(CUcontext *context)
{
    NEED_CONTEXT;
    *context = stack[--pushed];
    live[PUSHED]--;
    return CUDA_SUCCESS;
}

CUresult cuCtxPushCurrent(CUcontext context) { LOCKED(push(context)); }
CUresult cuCtxPopCurrent(CUcontext *context) { LOCKED(pop(context)); }

/* ---- the driver: memory */

CUresult cuMemAlloc(CUdeviceptr *result, size_t nbytes) { LOCKED(allocate(result, nbytes)); }

static CUresult free_block(uintptr_t start, int device)
{
    NEED_CONTEXT;
    CUresult result = remove_block(start, device);
    return sticky ? sticky : result;
}

CUresult cuMemFree(CUdeviceptr start) { LOCKED(free_block(start, 1)); }

static CUresult info(size_t *available, size_t *total)
{
    NEED_CONTEXT;
    *total = limit, *available = limit - live[BYTES];
    return CUDA_SUCCESS;
}

CUresult cuMemGetInfo(size_t *available, size_t *total) { LOCKED(info(available, total)); }

static CUresult pin(uintptr_t start, size_t nbytes, int owned)
{
    NEED_CONTEXT;
    NEED(start && nbytes && !find(start, 1, 0), CUDA_ERROR_INVALID_VALUE);
    NEED(!expired(&allocations_left), CUDA_ERROR_OUT_OF_MEMORY);
    add_block(start, nbytes, 0, owned);
    return CUDA_SUCCESS;
}

CUresult cuMemHostAlloc(void **result, size_t nbytes, unsigned flags)
{
    (void)flags;
    NEED_CONTEXT;
    *result = aligned_alloc(4096, (nbytes + 4095) / 4096 * 4096);
    LOCKED(pin((uintptr_t)*result, nbytes, 1));
}

CUresult cuMemFreeHost(void *start) { LOCKED(free_block((uintptr_t)start, 0)); }
CUresult cuMemHostRegister(void *start, size_t nbytes, unsigned flags)
{
    (void)flags;
    LOCKED(pin((uintptr_t)start, nbytes, 0));
}

CUresult cuMemHostUnregister(void *start) { LOCKED(free_block((uintptr_t)start, 0)); }

/* ---- the driver: streams, events and copies */

CUresult cuStreamCreate(CUstream *stream, unsigned flags) { (void)flags; LOCKED(open_stream(stream)); }
CUresult cuStreamDestroy(CUstream stream) { LOCKED(close_stream(stream)); }
CUresult cuStreamSynchronize(CUstream stream) { NEED_CONTEXT; LOCKED(stream ? drain(stream) : drain_all()); }

CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags)
{
    (void)flags;
    LOCKED(wait_for(stream, event));
}

CUresult cuStreamQuery(CUstream stream)
{
    NEED_CONTEXT;
    LOCKED(sticky ? sticky : stream->done < stream->submitted ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS);
}

static CUresult new_event(CUevent *event)
{
    NEED_CONTEXT;
    *event = calloc(1, sizeof **event);
    (*event)->owners = 1;
    live[EVENTS]++;
    return CUDA_SUCCESS;
}

static CUresult destroy_event(CUevent event)
{
    NEED_CONTEXT;
    live[EVENTS]--;
    let_go(event);
    return CUDA_SUCCESS;
}

CUresult cuEventCreate(CUevent *event, unsigned flags) { (void)flags; LOCKED(new_event(event)); }
CUresult cuEventDestroy(CUevent event) { LOCKED(destroy_event(event)); }
CUresult cuEventRecord(CUevent event, CUstream stream) { LOCKED(record(event, stream)); }
CUresult cuEventSynchronize(CUevent event) { LOCKED(synchronize(event)); }

CUresult cuEventQuery(CUevent event)
{
    NEED_CONTEXT;
    LOCKED(sticky ? sticky : event->reached < event->recorded ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS);
}

CUresult cuEventElapsedTime(float *result, CUevent from, CUevent to)
{
    *result = (float)(to->when - from->when);
    return CUDA_SUCCESS;
}

#define OPERATION(...) ((struct operation){__VA_ARGS__})
#define COPIES(name, to_type, from_type)                                                                    \
    CUresult name##Async(to_type to, from_type from, size_t nbytes, CUstream stream)                        \
    {                                                                                                       \
        uintptr_t start = (uintptr_t)from;                                                                  \
        LOCKED(copy(stream, OPERATION(.kind = COPY, .to = (uintptr_t)to, .from = start, .nbytes = nbytes))); \
    }                                                                                                       \
    CUresult name(to_type to, from_type from, size_t nbytes) { return name##Async(to, from, nbytes, NULL); }
#define SETS(name, type)                                                                                    \
    CUresult name##Async(CUdeviceptr to, type value, size_t n, CUstream stream)                             \
    {                                                                                                       \
        LOCKED(copy(stream, OPERATION(.kind = SET, .to = to, .nbytes = n, .value = value, .width = sizeof value))); \
    }                                                                                                       \
    CUresult name(CUdeviceptr to, type value, size_t n) { return name##Async(to, value, n, NULL); }

COPIES(cuMemcpyHtoD, CUdeviceptr, const void *)
COPIES(cuMemcpyDtoH, void *, CUdeviceptr)
COPIES(cuMemcpyDtoD, CUdeviceptr, CUdeviceptr)
SETS(cuMemsetD8, unsigned char)
SETS(cuMemsetD16, unsigned short)
SETS(cuMemsetD32, unsigned int)

/* ---- for tests: called by ctypes */

/* How many there are, in the order of `enum count`. */
long simcuda_live(int what) { return live[what]; }

/* Let memory end at so many bytes. */
void simcuda_set_limit(size_t nbytes) { limit = nbytes; }

/* Let an allocation, a copy when it is enqueued, or a copy when it runs fail after so many more; -1 for none. */
void simcuda_fail_allocation(long after) { allocations_left = after; }
void simcuda_fail_copy(long after) { copies_left = after; }
void simcuda_fail_run(long after) { runs_left = after; }

/* Let each copy take so many microseconds. */
void simcuda_set_delay(unsigned microseconds) { delay = microseconds; }

/* Enqueue something that goes on until `simcuda_open` is called with what this returns. */
unsigned long simcuda_gate(CUstream stream)
{
    pthread_mutex_lock(&lock);
    unsigned long gate = ++gates;
    opened[gate % MOST_GATES] = 0;
    enqueue(stream, OPERATION(.kind = GATE, .number = gate));
    pthread_mutex_unlock(&lock);
    return gate;
}

/* Let what a gate holds go on. */
void simcuda_open(unsigned long gate)
{
    pthread_mutex_lock(&lock);
    opened[gate % MOST_GATES] = 1;
    pthread_cond_broadcast(&change);
    pthread_mutex_unlock(&lock);
}

/* Let memory of the process be memory of the device, at the address that is returned, until it is disowned. */
uintptr_t simcuda_adopt(void *start, size_t nbytes)
{
    pthread_mutex_lock(&lock);
    add_block((uintptr_t)start | DEVICE, nbytes, 1, 0);
    pthread_mutex_unlock(&lock);
    return (uintptr_t)start | DEVICE;
}

void simcuda_disown(uintptr_t start)
{
    pthread_mutex_lock(&lock);
    remove_block(start, 1);
    pthread_mutex_unlock(&lock);
}

/* Let everything go well from now on, and open all gates. */
void simcuda_reset(void)
{
    limit = (size_t)1 << 30;
    allocations_left = copies_left = runs_left = -1;
    delay = 0;
    sticky = CUDA_SUCCESS;
    memset(opened, 1, sizeof opened);
    simcuda_open(0);
}
