"""Operations on images."""

# Names of the package `tagloom`, by module: see docs/design/0051-rooms-and-names.md.
PUBLIC = {
    "adjusting": (
        "adjust_brightness adjust_contrast adjust_gamma adjust_hue adjust_saturation convert_image_dtype "
        "grayscale_to_rgb transpose_image"
    ),
    "boxes": "crop_and_resize non_max_suppression non_max_suppression_padded non_max_suppression_with_scores",
    "coding": "adjust_jpeg_quality decode_image encode_jpeg encode_png",
    "color": "hsv_to_rgb rgb_to_grayscale rgb_to_hsv",
    "cropping": "central_crop crop_to_bounding_box pad_to_bounding_box resize_image_with_crop_or_pad",
    "drawing": "draw_bounding_boxes",
    "fitting": "resize_image_with_pad",
    "luma": "rgb_to_yiq rgb_to_yuv yiq_to_rgb yuv_to_rgb",
    "measures": "image_gradients psnr sobel_edges ssim ssim_multiscale total_variation",
    "morphology": "dilation2d erosion2d",
    "patches": "extract_image_patches extract_volume_patches",
    "random_changes": (
        "random_brightness random_contrast random_flip_left_right random_flip_up_down random_hue random_saturation"
    ),
    "resize": "resize_area resize_bicubic resize_bilinear resize_nearest_neighbor",
    "transforms": "flip_left_right flip_up_down per_image_standardization rot90",
}
