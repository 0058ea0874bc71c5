"""Layer 1: graphs, their building blocks and the ways to walk, rewrite, check and print them."""

# Names of the package `tagloom`, by module: see docs/design/0051-rooms-and-names.md.
PUBLIC = {
    "apply": "constant convert_to_tensor",
    "gradient_overrides": "RegisterGradient",
    "graph": "Graph",
    "indexing": "newaxis",
    "operation": "Operation",
    "scopes": "get_default_graph",
    "tensor": "Tensor",
}
