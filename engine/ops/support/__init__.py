"""Helpers that families of operations share."""

# Names of the package `tagloom`, by module: see docs/design/0051-rooms-and-names.md.
PUBLIC = {
    "indexed_slices": "IndexedSlices",
}
