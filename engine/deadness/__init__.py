"""When values are alive: predicates, and the analysis that finds them for lowered programs."""
