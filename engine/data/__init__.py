"""Input pipelines: elements from files, arrays and iterables, transformed, shuffled and batched on their way.

See docs/pipelines.md, and docs/design/0032-pipelines.md.
"""

from typing import TYPE_CHECKING

from ..frontend.missing_names import missing_in
from .dataset import Dataset
from .graph_iterator import GraphIterator
from .images import decode_image, from_images, random_crop, random_distort, random_flip
from .iterator import DatasetIterator
from .sources import (
    from_arrays,
    from_async,
    from_files,
    from_fixed_length_records,
    from_iterable,
    from_npz,
    from_text,
    from_tfrecord,
    zip_datasets,
)
from .tfrecord import TFRecordWriter, make_example, parse_example

if not TYPE_CHECKING:  # a type checker would believe that the module has every name
    __getattr__ = missing_in("data")

__all__ = [
    "Dataset",
    "DatasetIterator",
    "GraphIterator",
    "TFRecordWriter",
    "decode_image",
    "from_arrays",
    "from_async",
    "from_files",
    "from_fixed_length_records",
    "from_images",
    "from_iterable",
    "from_npz",
    "from_text",
    "from_tfrecord",
    "make_example",
    "parse_example",
    "random_crop",
    "random_distort",
    "random_flip",
    "zip_datasets",
]


def __dir__() -> list[str]:
    """Return the public names, without the submodules."""
    return sorted(__all__)
