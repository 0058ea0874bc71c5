"""Units of convolutions: some rows of pixels of a result, or some images, with the pixels that they read."""

cimport numpy as cnp
from libc.stdint cimport int64_t

cdef enum:
    Z = 0
    Y = 1
    X = 2
    MOST_RANK = 3


cdef struct Settings:  # attributes of an operation; dimensions that it does not have are 1 in front
    int rank  # dimensions of an image
    bint same  # padding as TensorFlow's SAME, by the sizes
    bint biased  # whether there is a third input that is added
    bint relu
    bint summed  # whether the gradient of the result is summed as well
    bint masked  # a last input selects the kept elements
    int64_t stride[MOST_RANK]
    int64_t dilation[MOST_RANK]
    int64_t before[MOST_RANK]  # zeros before the first element of an image
    int64_t after[MOST_RANK]


cdef struct Convolution:
    int64_t source[MOST_RANK]  # sizes of an image that is read,
    int64_t result[MOST_RANK]  # and of one for which windows are taken
    int64_t window[MOST_RANK]
    int64_t stride[MOST_RANK]
    int64_t dilation[MOST_RANK]
    int64_t before[MOST_RANK]
    int64_t spread[MOST_RANK]  # between the elements of an image that is read; there are zeros
    int64_t images
    int64_t groups
    int64_t inner  # channels of a group that are read
    int64_t outer  # and the channels on the other side for each group
    int size  # bytes of an element
    int bits
    bint turned  # whether the filters are read backwards, by their inputs
    bint by_channel  # each channel for itself
    const char* data  # images
    const char* filters  # or the gradient of the result, where that of the filters is computed
    char* output
    const char* bias  # added to each pixel of the result; NULL for none
    bint relu  # negative sums become zero
    char* sums  # of each channel of the gradient of the result over all pixels, beside that of the filters; or NULL
    const char* where  # mask: elements of the result above zero here are kept; NULL for all
    # ---- made of these
    int64_t unit[MOST_RANK]  # rows of the result in a unit
    int64_t unit_images
    int64_t units
    bint lies  # whether windows are read in place in the images
    int64_t step[MOST_RANK]  # elements between neighbours in the memory read
    int64_t image_step
    int64_t buffer  # bytes of a unit that is copied


cdef struct Unit:
    int64_t first  # image
    int64_t images
    int64_t begin[MOST_RANK]  # of the rows of the result
    int64_t count[MOST_RANK]
    int64_t pixel  # the first of the result, among all
    int64_t pixels
    const char* data  # begin of its first window


cdef inline int64_t span(const Convolution* c, int d, int64_t count) noexcept nogil:
    """Return the length that `count` windows cover in a dimension."""
    return (count - 1) * c.stride[d] + (c.window[d] - 1) * c.dilation[d] + 1


cdef inline int64_t num_places(const Convolution* c) noexcept nogil:
    """Return how many elements a window has in each channel."""
    return c.window[Z] * c.window[Y] * c.window[X]


cdef inline int64_t num_pixels(const Convolution* c) noexcept nogil:
    """Return how many windows are taken of an image."""
    return c.result[Z] * c.result[Y] * c.result[X]


cdef inline int64_t num_channels(const Convolution* c) noexcept nogil:
    """Return the number of channels side by side in the memory read."""
    return c.groups * (c.outer if c.by_channel else c.inner)


cdef inline int64_t ceiling(int64_t x, int64_t y) noexcept nogil:
    return (x + y - 1) // y


cdef inline int64_t place_offset(const Convolution* c, int64_t place) noexcept nogil:
    """Return where an element of a window is, from its beginning on."""
    cdef int64_t z = place // (c.window[X] * c.window[Y]), y = place // c.window[X] % c.window[Y]
    return (z * c.dilation[Z] * c.step[Z] + y * c.dilation[Y] * c.step[Y]
            + place % c.window[X] * c.dilation[X] * c.step[X])


cdef bint open_convolution(
    const Settings* settings, const cnp.npy_intp* images, const cnp.npy_intp* filters, int size,
    Convolution* c) noexcept nogil
cdef void turn_around(Convolution* c) noexcept nogil
cdef void lay_out(Convolution* c) noexcept nogil
cdef Unit open_unit(const Convolution* c, int64_t number, char* buffer) noexcept nogil
cdef void write_row_offsets(const Convolution* c, Py_ssize_t* offsets) noexcept nogil
cdef void write_pixel_offsets(const Convolution* c, Py_ssize_t* offsets) noexcept nogil
