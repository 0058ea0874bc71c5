"""Layer 0: foundations for all other packages, without knowledge of graphs or steps."""
