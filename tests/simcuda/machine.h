/* What a simulated GPU is made of: memory, streams that are threads, events. `simcuda.c` is the driver in front of it.

   All functions are called with the lock held. */

#pragma once

#include <cuda.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define DEVICE ((uintptr_t)1 << 56) /* set in device addresses: no address that a processor accepts */
#define MOST_PUSHED 16
#define MOST_STREAMS 256
#define MOST_GATES 4096

enum kind { COPY, SET, RECORD, WAIT, GATE };
enum count { CONTEXTS, ALLOCATIONS, BYTES, STREAMS, EVENTS, PINNED, PUSHED, COUNTS };

struct CUctx_st { int retained; };

struct CUevent_st {
    int owners;                      /* the handle, and operations that wait for it or record it */
    unsigned long recorded, reached; /* how often it was recorded, and which of these is done */
    double when;                     /* milliseconds, of the last one done */
};

struct operation {
    enum kind kind;
    uintptr_t to, from;
    void *staged;  /* owned copy of what was read from pageable memory */
    size_t nbytes;
    unsigned value, width; /* of SET */
    CUevent event;
    unsigned long number;  /* which recording of it, or which gate */
    struct operation *next;
};

struct CUstream_st {
    struct operation *first, *last;
    unsigned long submitted, done;
    int closed;
};

struct block { /* device memory, or page-locked memory of the host */
    uintptr_t start;
    size_t nbytes;
    int device, owned;
    struct block *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t change = PTHREAD_COND_INITIALIZER;
static struct CUctx_st primary;
static struct block *blocks;
static CUstream streams[MOST_STREAMS]; /* those open or with work to do */
static long live[COUNTS];
static size_t limit = (size_t)1 << 30;
static long allocations_left = -1; /* before one is refused; -1 for any number */
static long copies_left = -1;      /* before one fails when it is enqueued */
static long runs_left = -1;        /* before one fails when it runs */
static CUresult sticky;            /* what every call returns after a copy failed while it ran */
static unsigned delay;             /* microseconds that every copy takes */
static unsigned long gates;        /* made so far */
static char opened[MOST_GATES];    /* by number, round and round */
static _Thread_local CUcontext stack[MOST_PUSHED];
static _Thread_local int pushed;

#define NEED(condition, code) do { if (!(condition)) return (code); } while (0)
#define NEED_CONTEXT NEED(pushed, CUDA_ERROR_INVALID_CONTEXT)

static int expired(long *left) { return *left >= 0 && (*left)-- == 0; }

static struct block *find(uintptr_t start, size_t nbytes, int device)
{
    for (struct block *b = blocks; b; b = b->next)
        if (b->device == device && start >= b->start && start + nbytes <= b->start + b->nbytes)
            return b;
    return NULL;
}

static void add_block(uintptr_t start, size_t nbytes, int device, int owned)
{
    struct block *b = malloc(sizeof *b);
    *b = (struct block){start, nbytes, device, owned, blocks};
    blocks = b;
    live[device ? ALLOCATIONS : PINNED]++;
    live[BYTES] += device ? (long)nbytes : 0;
}

static CUresult remove_block(uintptr_t start, int device)
{
    for (struct block **at = &blocks; *at; at = &(*at)->next) {
        struct block *b = *at;
        if (b->start != start || b->device != device)
            continue;
        live[device ? ALLOCATIONS : PINNED]--;
        live[BYTES] -= device ? (long)b->nbytes : 0;
        if (b->owned)
            free((void *)(b->start & ~DEVICE));
        *at = b->next;
        free(b);
        return CUDA_SUCCESS;
    }
    return CUDA_ERROR_INVALID_VALUE;
}

static void let_go(CUevent event)
{
    if (event && --event->owners == 0)
        free(event);
}

static int ready(const struct operation *o)
{
    return o->kind == WAIT ? o->event->reached >= o->number : o->kind == GATE ? opened[o->number % MOST_GATES] : 1;
}

static void set(char *to, size_t count, unsigned width, unsigned value)
{
    for (size_t i = 0; i < count; i++)
        memcpy(to + i * width, &value, width);
}

static double milliseconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e3 + t.tv_nsec * 1e-6;
}

/* A copy runs with the lock held, so that nobody frees what it uses; its delay is over by then. */
static void perform(struct operation *o)
{
    if (o->kind == RECORD) {
        o->event->when = milliseconds();
        if (o->event->reached < o->number)
            o->event->reached = o->number;
    }
    if (sticky || (o->kind != COPY && o->kind != SET))
        return;
    size_t nbytes = o->kind == SET ? o->nbytes * o->width : o->nbytes;
    int to_ok = !(o->to & DEVICE) || find(o->to, nbytes, 1);
    int from_ok = !(o->from & DEVICE) || find(o->from, nbytes, 1);
    if (!to_ok || !from_ok)
        sticky = CUDA_ERROR_ILLEGAL_ADDRESS;
    else if (expired(&runs_left))
        sticky = CUDA_ERROR_LAUNCH_FAILED;
    else if (o->kind == SET)
        set((char *)(o->to & ~DEVICE), o->nbytes, o->width, o->value);
    else
        memcpy((void *)(o->to & ~DEVICE), o->staged ? o->staged : (void *)(o->from & ~DEVICE), nbytes);
}

static void *serve(void *argument)
{
    CUstream stream = argument;
    pthread_mutex_lock(&lock);
    for (;;) {
        struct operation *o = stream->first;
        if (!o && stream->closed)
            break;
        if (!o || !ready(o)) {
            pthread_cond_wait(&change, &lock);
            continue;
        }
        if (delay && o->kind == COPY) {
            unsigned wanted = delay;
            pthread_mutex_unlock(&lock);
            usleep(wanted);
            pthread_mutex_lock(&lock);
        }
        perform(o);
        stream->first = o->next;
        stream->done++;
        let_go(o->event);
        free(o->staged);
        free(o);
        pthread_cond_broadcast(&change);
    }
    for (int i = 0; i < MOST_STREAMS; i++)
        if (streams[i] == stream)
            streams[i] = NULL;
    free(stream);
    pthread_mutex_unlock(&lock);
    return NULL;
}

static CUresult enqueue(CUstream stream, struct operation o)
{
    struct operation *added = malloc(sizeof o);
    *added = o;
    added->next = NULL;
    if (o.event)
        o.event->owners++;
    if (stream->first)
        stream->last->next = added;
    else
        stream->first = added;
    stream->last = added;
    stream->submitted++;
    pthread_cond_broadcast(&change);
    return CUDA_SUCCESS;
}

static CUresult drain(CUstream stream)
{
    unsigned long target = stream->submitted;
    while (stream->done < target)
        pthread_cond_wait(&change, &lock);
    return sticky;
}

static CUresult drain_all(void)
{
    for (int i = 0; i < MOST_STREAMS; i++)
        if (streams[i] && !streams[i]->closed)
            drain(streams[i]);
    return sticky;
}

static CUresult copy(CUstream stream, struct operation o)
{
    NEED_CONTEXT;
    NEED(!sticky, sticky);
    NEED(!expired(&copies_left), CUDA_ERROR_LAUNCH_FAILED);
    NEED(!(o.to & DEVICE) || find(o.to, o.nbytes * (o.kind == SET ? o.width : 1), 1), CUDA_ERROR_INVALID_VALUE);
    NEED(!(o.from & DEVICE) || find(o.from, o.nbytes, 1), CUDA_ERROR_INVALID_VALUE);
    if (!stream) { /* the default stream: after all others, and at once */
        drain_all();
        perform(&o);
        return sticky;
    }
    if (o.kind == COPY && !(o.from & DEVICE) && !find(o.from, o.nbytes, 0)) {
        o.staged = malloc(o.nbytes);
        memcpy(o.staged, (void *)o.from, o.nbytes);
    }
    int pageable = o.kind == COPY && !(o.to & DEVICE) && !find(o.to, o.nbytes, 0);
    enqueue(stream, o);
    return pageable ? drain(stream) : CUDA_SUCCESS; /* a copy into pageable memory returns when it is done */
}

static CUresult allocate(CUdeviceptr *result, size_t nbytes)
{
    NEED_CONTEXT;
    NEED(!sticky, sticky);
    NEED(nbytes, CUDA_ERROR_INVALID_VALUE);
    NEED(!expired(&allocations_left) && live[BYTES] + nbytes <= limit, CUDA_ERROR_OUT_OF_MEMORY);
    void *memory = aligned_alloc(256, (nbytes + 255) / 256 * 256);
    memset(memory, 0xAB, nbytes);
    *result = (uintptr_t)memory | DEVICE;
    add_block(*result, nbytes, 1, 1);
    return CUDA_SUCCESS;
}

static CUresult open_stream(CUstream *result)
{
    NEED_CONTEXT;
    int i = 0;
    while (i < MOST_STREAMS && streams[i])
        i++;
    NEED(i < MOST_STREAMS, CUDA_ERROR_OUT_OF_MEMORY);
    streams[i] = *result = calloc(1, sizeof **result);
    pthread_t thread;
    NEED(!pthread_create(&thread, NULL, serve, *result), CUDA_ERROR_OUT_OF_MEMORY);
    pthread_detach(thread);
    live[STREAMS]++;
    return CUDA_SUCCESS;
}

static CUresult close_stream(CUstream stream)
{
    NEED_CONTEXT;
    stream->closed = 1;
    live[STREAMS]--;
    pthread_cond_broadcast(&change);
    return CUDA_SUCCESS;
}

static CUresult release(void)
{
    NEED(primary.retained, CUDA_ERROR_INVALID_CONTEXT);
    primary.retained--;
    live[CONTEXTS]--;
    if (pushed) { /* pycuda releases it while it is current, and takes it for popped by that; its thread ends then */
        pushed--;
        live[PUSHED]--;
    }
    return CUDA_SUCCESS;
}

static CUresult synchronize(CUevent event)
{
    NEED_CONTEXT;
    unsigned long target = event->recorded;
    while (event->reached < target)
        pthread_cond_wait(&change, &lock);
    return sticky;
}

static CUresult record(CUevent event, CUstream stream)
{
    NEED_CONTEXT;
    NEED(stream, CUDA_ERROR_NOT_SUPPORTED);
    struct operation o = {.kind = RECORD, .event = event, .number = ++event->recorded};
    return enqueue(stream, o);
}

static CUresult wait_for(CUstream stream, CUevent event)
{
    NEED_CONTEXT;
    struct operation o = {.kind = WAIT, .event = event, .number = event->recorded};
    return enqueue(stream, o);
}

