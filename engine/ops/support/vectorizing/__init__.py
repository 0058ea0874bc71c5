"""Rules of `engine/vectorize` for families of operations: how an operation is built for many examples at once."""
