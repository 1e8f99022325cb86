"""A picture of a result: confidence before and after, against the accuracy interval."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphtemper.errors import MissingExtraError
from graphtemper.recalibration.findings import Findings
from graphtemper.recalibration.verdict import LEVEL

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_BINS = 30


def plot_confidence(result: Findings, ax: Axes | None = None) -> Axes:
    """Draw the confidence of the nodes before and after, and the accuracy with its interval.

    Lines mark the mean confidences; the one after recalibration should lie in the shaded interval.
    """
    if ax is None:
        ax = _new_axes()
    accuracy, (before, after) = result.accuracy, result.mean_confidence
    confidence = result.probabilities.max(axis=1)
    low = 1.0 / result.probabilities.shape[1]
    bins = np.linspace(low, 1.0, _BINS + 1).tolist()
    if result.background is not None:
        ax.hist(result.background.confidence, bins, color="0.75", label=f"before: {before:.1%}")
    ax.hist(confidence, bins, histtype="step", color="C0", label=f"after: {after:.1%}")
    ax.axvline(before, color="0.5", linestyle=":")
    ax.axvline(after, color="C0", linestyle="--")
    label = f"accuracy: {accuracy.low:.1%} to {accuracy.high:.1%} ({100 * LEVEL:.0f} %)"
    ax.axvspan(accuracy.low, accuracy.high, color="C2", alpha=0.2, label=label)
    ax.axvline(accuracy.value, color="C2")
    ax.set(xlim=(min(low, accuracy.low), 1.0), xlabel="confidence", ylabel="nodes")
    ax.set_title(f"{result.verdict}: temperature {result.temperature:.3g}")
    ax.legend(fontsize="small")
    return ax


def _new_axes() -> Axes:
    try:
        from matplotlib import pyplot as plt
    except ImportError as error:
        raise MissingExtraError(
            "a plot needs matplotlib; run pip install 'graphtemper[plots]'."
        ) from error
    return plt.subplots(layout="constrained")[1]
