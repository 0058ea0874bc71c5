"""Layer 6: sessions, and what runs and observes their steps."""
