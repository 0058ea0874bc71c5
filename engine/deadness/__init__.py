"""When values are alive: predicates, and the analyses that find them, of lowered programs and of regions."""
