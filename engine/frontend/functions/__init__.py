"""Functions of users applied to tensors: maps, folds, custom gradients, Python functions."""

# Names of the package `tagloom`, by module: see docs/design/0051-rooms-and-names.md.
PUBLIC = {
    "custom_gradient": "custom_gradient grad_pass_through recompute_grad",
    "functional": "foldl foldr map_fn scan",
    "prefixes": "associative_scan",
    "py_function": "py_function",
    "vectorized": "vectorized_map vmap",
}
