"""Elements of queues and the lines of operations that wait at them; `queue_kernels` registers their C kernels."""
