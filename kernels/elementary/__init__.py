"""Elementary functions, where ours are faster than NumPy's."""
