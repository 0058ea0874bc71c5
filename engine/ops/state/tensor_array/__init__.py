"""TensorArrays: storage, operations and gradients."""
