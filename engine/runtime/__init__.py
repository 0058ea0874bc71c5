"""Layer 6: sessions, and what runs and observes their steps."""

# Names of the package `tagloom`, by module: see docs/design/0051-rooms-and-names.md.
PUBLIC = {
    "runners": "Runners runners",
    "session": "Session",
    "sync": "SyncSession",
}
