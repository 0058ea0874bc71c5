"""C kernels; the modules beside this one with a stub have functions for Python."""
