"""Variables by name, as in TensorFlow 1; layers find the same scopes (`engine/nn/variable_store.py`)."""
