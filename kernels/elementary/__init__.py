"""Elementary functions, where our own are faster than NumPy's."""
