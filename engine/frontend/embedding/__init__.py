"""Look-ups in tables of many rows, and losses over many classes."""

# Names of the package `tagloom`, by module: see docs/design/0051-rooms-and-names.md.
PUBLIC = {
    "candidates": "learned_unigram_candidate_sampler",
    "embedding": "embedding_lookup",
    "full_softmax": "full_softmax_loss",
    "sampled": "compute_accidental_hits nce_loss sampled_softmax_loss",
    "sparse_embedding": "embedding_lookup_sparse",
}
