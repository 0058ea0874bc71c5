"""Variables: operations, updates at indices, and checks of values from outside."""

# Names of the package `tagloom`, by module: see docs/design/0051-rooms-and-names.md.
PUBLIC = {
    "scattering": "",
}
