"""Python functions that are traced, compiled and called."""

# Names of the package `tagloom`, by module: see docs/design/0051-rooms-and-names.md.
PUBLIC = {
    "arguments": "TensorSpec",
    "decorator": "function",
    "differentiate": "grad value_and_grad",
    "function": "Function",
}
