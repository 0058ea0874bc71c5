"""Vectorization: the operations of a function for a single example, rewritten for many examples at once.

The function is built once, in a region of its own, with parameters of the shapes of a single example. `BatchedTensors`
finds the tensors different in each example; `Vectorization` then walks over the operations, and builds each for
all examples: by the rule `Vectorize` of its type, or by `RULES` for loops, branches, arrays and saved values. Batched
tensors have the examples along their first dimension. See docs/design/0058-vectorized-programs.md.
"""
