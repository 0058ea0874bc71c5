"""Partial runs: steps with feeds and fetches in parts."""

# Names of the package `tagloom`, by module: see docs/design/0051-rooms-and-names.md.
PUBLIC = {
    "partial_run": "PartialRun",
}
