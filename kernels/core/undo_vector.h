/* Undefines the macros of each_vector.h for one instruction set and one type of elements. */

#undef NAME
#undef REAL
#undef VECTOR
#undef UNSIGNED
#undef MASK
#undef LANES
#undef FIRST
#undef ZERO
#undef SPLAT
#undef LOAD
#undef LOAD_FIRST
#undef STORE
#undef STORE_FIRST
#undef FMA
#undef ADD
#undef MIN
#undef MAX
#undef UNLESS_NEGATIVE
#undef WHERE_POSITIVE
