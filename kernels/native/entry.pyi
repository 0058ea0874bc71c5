"""The kernel of Native: records a run of its program, and runs it slice after slice."""
