"""Activations, convolutions, pooling, normalization and losses."""

# Names of the package `tagloom`, by module: see docs/design/0051-rooms-and-names.md.
PUBLIC = {
    "activations": "elu gelu leaky_relu log_sigmoid relu relu6 selu sigmoid softplus softsign",
    "activations_composed": "crelu hard_sigmoid swish zero_fraction",
    "batch_norm": "batch_normalization fused_batch_norm normalize_moments sufficient_statistics weighted_moments",
    "convolution": "atrous_conv2d conv1d conv2d conv3d convolution",
    "convolution_transpose": (
        "conv1d_transpose conv2d_backprop_filter conv2d_backprop_input conv2d_transpose conv3d_transpose"
    ),
    "ctc": "ctc_loss",
    "ctc_decoding": "ctc_beam_search_decoder ctc_greedy_decoder",
    "depthwise": "depthwise_conv2d separable_conv2d",
    "dropout": "dropout",
    "edit_distance": "collapse_repeated edit_distance",
    "likelihoods": "log_poisson_loss weighted_cross_entropy_with_logits",
    "local_response": "lrn",
    "logaddexp": "logaddexp",
    "losses": (
        "log_softmax sigmoid_cross_entropy_with_logits softmax softmax_cross_entropy_with_logits "
        "sparse_softmax_cross_entropy_with_logits"
    ),
    "normalization": "bias_add l2_normalize moments",
    "pooling": "avg_pool avg_pool1d avg_pool3d max_pool max_pool1d max_pool3d max_pool_with_argmax pool",
    "stateless_dropout": "stateless_dropout",
}
