"""Draws by key, distributions, and candidate samplers."""

# Names of the package `tagloom`, by module: see docs/design/0051-rooms-and-names.md.
PUBLIC = {
    "candidates": "Candidates fixed_unigram_candidate_sampler log_uniform_candidate_sampler uniform_candidate_sampler",
    "discrete": "categorical random_shuffle",
    "distributions": "random_crop random_gamma random_poisson",
    "keys": "fold_in stateless_split",
    "stateless": (
        "stateless_categorical stateless_random_gamma stateless_random_normal stateless_random_poisson "
        "stateless_random_uniform stateless_shuffle stateless_truncated_normal"
    ),
}
