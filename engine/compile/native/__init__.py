"""Loops and clusters of pure operations as native programs."""
