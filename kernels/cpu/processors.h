/* Loops that are compiled for several instruction sets. */

#ifndef TAGFLOW_PROCESSORS_H
#define TAGFLOW_PROCESSORS_H

/* The loader chooses among them; it does so before AddressSanitizer is there. */
#if defined(__gnu_linux__) && defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__)
#define FOR_EACH_PROCESSOR __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define FOR_EACH_PROCESSOR
#endif

#endif
