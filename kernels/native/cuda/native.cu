// Native programs: one block of threads runs a loop. All threads have the elements of no dimensions, and so go the same
// way; arrays they share. A launch ends when the program does, when it gives up, wants more room or has run for long; in
// memory it leaves the elements, and the block of instructions to go on with.

enum { SUSPENDED, ENDED, GAVE_UP, NO_ROOM };

// The thread's own elements of an array.
#define EACH(i, count) for (int i = threadIdx.x; i < (count); i += blockDim.x)

#define LEAVE(how, at) { status = how; pc = at; goto leave; }

// Integers wrap.
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

// Divisions of integers round down; where the divisor is 0 nobody looks at the result.
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

struct Both { template <class X> static __device__ inline X of(X a, X b) { return a && b; } };
struct Either { template <class X> static __device__ inline X of(X a, X b) { return a || b; } };
struct Sum { template <class X> static __device__ inline X of(X a, X b) { return plus(a, b); } };

