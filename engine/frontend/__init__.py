"""Layer 4: what users build graphs with beyond single operations."""

# Names of the package `tagloom`, by module: see docs/design/0051-rooms-and-names.md.
PUBLIC = {
    "least_squares": "matrix_solve_ls",
}
