"""The memory of a device: the pool that array data comes from, its counts and limit, and saved values that may move."""
