"""Loops of pure operations as native programs."""
