"""Steps of native programs as machine code."""
