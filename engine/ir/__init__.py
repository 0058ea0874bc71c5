"""Layer 1: graphs, their building blocks and the ways to walk, rewrite, check and print them."""
