"""Control flow: conditionals, loops, and the scopes of operations."""

# Names of the package `tagloom`, by module: see docs/design/0051-rooms-and-names.md.
PUBLIC = {
    "conditional": "case cond smart_cond switch_case",
    "counted_loop": "fori_loop",
    "loops": "while_loop",
    "scopes": "colocate_with control_dependencies device name_scope",
}
