"""Accumulators of gradients: sums, checks, operations and statistics."""

# Names of the package `tagloom`, by module: see docs/design/0051-rooms-and-names.md.
PUBLIC = {
    "figures": "AccumulatorStatistics",
}
