"""Steps that are repeated in the background."""

# Names of the package `tagloom`, by module: see docs/design/0051-rooms-and-names.md.
PUBLIC = {
    "group": "Runners runners",
    "repeating_step": "Runner RunnerStatistics",
}
