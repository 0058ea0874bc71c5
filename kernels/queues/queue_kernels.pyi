"""C kernels of queues: the module registers them, and has nothing for Python."""
