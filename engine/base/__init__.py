"""Layer 0: what every other package stands on, and nothing of the engine itself."""
