"""Python kernels of operations as steps of native programs."""
