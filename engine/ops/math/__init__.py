"""Arithmetic, comparisons, reductions, random numbers, special functions, spectra."""

# Names of the package `tagloom`, by module: see docs/design/0051-rooms-and-names.md.
PUBLIC = {
    "arithmetic": (
        "accumulate_n add add_n atan2 div_no_nan divide floordiv floormod maximum minimum mod multiply "
        "squared_difference subtract xlogy pow"
    ),
    "bessel": (
        "bessel_i0 bessel_i0e bessel_i1 bessel_i1e bessel_j0 bessel_j1 bessel_k0 bessel_k0e bessel_k1 bessel_k1e "
        "bessel_y0 bessel_y1"
    ),
    "casting": "cast",
    "comparison": (
        "bitwise_and bitwise_or bitwise_xor equal greater greater_equal invert left_shift less less_equal logical_and "
        "logical_not logical_or logical_xor not_equal right_shift"
    ),
    "complex": "angle conj imag real complex",
    "cosine": "dct idct",
    "cumulative": "cumprod cumsum reduce_prod",
    "dispersion": "count_nonzero reduce_euclidean_norm reduce_std reduce_variance",
    "elementwise": (
        "abs ceil clip_by_value erf erfc exp expm1 floor is_finite is_inf is_nan log log1p negative reciprocal rint "
        "rsqrt sign sqrt square round"
    ),
    "fake_quantizing": (
        "fake_quant_with_min_max_args fake_quant_with_min_max_vars fake_quant_with_min_max_vars_per_channel"
    ),
    "gamma": "digamma lbeta lgamma polygamma zeta",
    "guarded": "nextafter polyval reciprocal_no_nan truncatediv truncatemod",
    "incomplete": "betainc igamma igammac",
    "linear": "l2_loss matmul",
    "quantizing": "Quantized dequantize quantize quantized_matmul",
    "random": "random_normal random_uniform set_random_seed truncated_normal",
    "reductions": "reduce_all reduce_any reduce_logsumexp reduce_max reduce_mean reduce_min reduce_sum",
    "running_logsumexp": "cumulative_logsumexp",
    "short_time": "inverse_stft inverse_stft_window_fn stft",
    "signal": "fftshift frame hamming_window hann_window ifftshift overlap_and_add",
    "special": "dawsn erfcinv erfinv expint fresnel_cos fresnel_sin ndtri spence xdivy xlog1py",
    "spectra": "fft fft2d fft3d ifft ifft2d ifft3d irfft irfft2d irfft3d rfft rfft2d rfft3d",
    "trigonometry": "acos acosh asin asinh atan atanh cos cosh sin sinh tan tanh",
    "zero_products": "multiply_no_nan",
}
