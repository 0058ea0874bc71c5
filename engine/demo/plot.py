"""The curve of the loss as a picture; needs matplotlib, which is imported only here."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import tagloom as tg

from ..base.extras import install_hint, is_installed


def require_matplotlib() -> None:
    """Raise TagloomError unless matplotlib is installed; called before the work whose result would be lost."""
    if not is_installed("matplotlib"):
        raise tg.TagloomError("--plot needs matplotlib, which is not installed", hint=install_hint("bench"))


def plot_losses(path: str | Path, losses: Sequence[float], before: float, after: float) -> None:
    """Draw the training loss of each step and the held-out loss before and after, in nats per character."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    axes.plot(range(1, len(losses) + 1), losses, linewidth=1, label="training, each step")
    axes.plot([0, len(losses)], [before, after], "o", label="held-out text, before and after")
    axes.set(xlabel="step", ylabel="loss (nats per character)", title="Character-level LSTM")
    axes.legend()
    figure.savefig(path, dpi=150)
