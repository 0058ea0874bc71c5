"""Peak memory of the training step of ``lstm_train``, each case in fresh processes."""

from dataclasses import replace

from . import lstm_train

EXPERIMENT = replace(lstm_train.EXPERIMENT, name="lstm_peak", peak="peak_bytes")
