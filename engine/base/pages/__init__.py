"""Self-contained HTML pages: one file that shows a graph or a trace, and asks nothing of a network.

See docs/design/0044-pages.md.
"""
