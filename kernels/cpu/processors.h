/* Loops that are compiled for several instruction sets. */

#ifndef TAGLOOM_PROCESSORS_H
#define TAGLOOM_PROCESSORS_H

/* The loader chooses among them, before AddressSanitizer is initialised. */
#if defined(__gnu_linux__) && defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__)
#define FOR_EACH_PROCESSOR __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define FOR_EACH_PROCESSOR
#endif

/* Precedes a loop whose iterations never read elements that others write, though arrays may be the same: the compiler
   makes vectors of the iterations, four of them at a time. */
#if defined(__clang__)
#define INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#elif defined(__GNUC__)
#define INDEPENDENT _Pragma("GCC ivdep") _Pragma("GCC unroll 4")
#else
#define INDEPENDENT
#endif

#endif
