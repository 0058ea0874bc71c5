"""Device memory: the pool for array data, its counts and limit, and saved values that may move."""
