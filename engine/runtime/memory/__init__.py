"""Limits of memory, and swapping."""

# Names of the package `tagloom`, by module: see docs/design/0051-rooms-and-names.md.
PUBLIC = {
    "budget": "MemoryBudget",
}
