"""State that operations read and write, a room or a file for each kind."""

# Names of the package `tagloom`, by module: see docs/design/0051-rooms-and-names.md.
PUBLIC = {
    "files": "matching_files read_file write_file",
    "saving": "restore_v2 save_v2",
    "session_handles": "get_session_handle",
    "stacks": "stack_close stack_pop stack_push",
}
