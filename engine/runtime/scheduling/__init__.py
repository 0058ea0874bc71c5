"""Admission of steps, priorities, tasks and threads."""

# Names of the package `tagloom`, by module: see docs/design/0051-rooms-and-names.md.
PUBLIC = {
    "priorities": "priority",
}
