"""Sessions: their interfaces for coroutines and for scripts, and the parts that they are composed of."""

# Names of the package `tagloom`, by module: see docs/design/0051-rooms-and-names.md.
PUBLIC = {
    "session": "Session",
    "sync": "SyncSession",
}
