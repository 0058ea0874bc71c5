"""A picture of a step: what each stream of a device does when."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

LANES = {"compute": "compute", "device_to_host": "device to host", "host_to_device": "host to device"}
COPIES = {"device_to_host": "copy out", "host_to_device": "copy in"}
COLOURS = {"forward": "tab:blue", "backward": "tab:orange", "copy out": "tab:green", "copy in": "tab:red"}

Bar = tuple[float, float]  # begin and length, milliseconds


def bars(trace: Any, kernels: Mapping[str, str]) -> dict[tuple[str, str], list[Bar]]:
    """Return what each stream did, by stream and label.

    Parameters
    ----------
    trace : tagloom.Trace
        Of a step on one device with a time of its own.
    kernels : mapping of str to str
        Types of the operations to show, by label.
    """
    labels = {type_: label for label, type_ in kernels.items()}
    found: dict[tuple[str, str], list[Bar]] = {}
    for span in trace.spans:
        if span.live and span.stream == "compute" and span.type in labels:
            found.setdefault(("compute", labels[span.type]), []).append(_bar(span))
    for copy in trace.copies:
        if copy.stream in COPIES:
            found.setdefault((copy.stream, COPIES[copy.stream]), []).append(_bar(copy))
    return found


def draw(trace: Any, kernels: Mapping[str, str], path: Path) -> None:
    """Write the picture of a trace; see `bars` for its parameters."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(11, 2.8), layout="constrained")
    for (stream, label), spans in bars(trace, kernels).items():
        lane = list(LANES).index(stream)
        axes.broken_barh(
            spans, (lane - 0.36, 0.72), facecolor=COLOURS[label], edgecolor="white", linewidth=0.4, label=label
        )
    axes.set_yticks(range(len(LANES)), list(LANES.values()))
    axes.invert_yaxis()
    axes.margins(x=0.01)
    axes.set_xlabel("time, ms")
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(axis="y", length=0)
    figure.legend(loc="outside upper center", ncols=len(COLOURS), frameon=False)
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def _bar(piece: Any) -> Bar:
    return piece.begin / 1e6, (piece.end - piece.begin) / 1e6
