"""The result of a recalibration: what is known about a model on a target, and its probabilities."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from graphtemper._core.printable import temperature_text
from graphtemper.errors import require
from graphtemper.recalibration import words
from graphtemper.recalibration.applied import Applied
from graphtemper.recalibration.verdict import LEVEL

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame

    from graphtemper.recalibration.decisions import Metrics

_BINS = 30


@dataclass(frozen=True, eq=False, repr=False)
class Recalibration(Applied):
    """Calibrated probabilities of a model on a target graph, with a verdict and its reasons.

    Its values are those of `graphtemper.recalibration.applied.Applied`; here is what can be made of
    them: metrics of decisions, a summary, a plot, a table and a page.
    """

    def metrics(
        self,
        positive: int | str | None = None,
        threshold: float | None = None,
        k: int | None = None,
        costs: ArrayLike | None = None,
        segments: Sequence[Any] | NDArray[Any] | None = None,
    ) -> Metrics:
        """Return what the answer means for decisions: precision, recall, F1, rankings, cost.

        Parameters
        ----------
        positive
            The class of interest, by number or by its name in the graph, against all others.
            Without it, metrics are means over classes.
        threshold
            Flag nodes whose probability of that class reaches it. By default those are flagged
            whose prediction it is.
        k
            Size of a review: precision and recall of the k nodes with the highest probability.
        costs
            Cost of a node by true class (rows) and decision (columns): 2 x 2 with ``positive``, as
            ``[[0, 1], [20, 0]]``, else K x K.
        segments
            The name of each chosen node's part, such as its country; the same metrics for each.

        Examples
        --------
        >>> from graphtemper import SourceCard, csbm, recalibrate
        >>> from graphtemper.models import SIGN
        >>> g = csbm.sample(600, degree=6, homophily=0.8, snr=1.0, num_features=8, seed=1)
        >>> model = SIGN(hops=1).fit(g, range(300))
        >>> few = {"noise": (0.5, 1.0), "drop": (0.5,), "rewire": (0.3,)}
        >>> card = SourceCard.build(model, g, range(300, 600), compositions=0, shifts=few)
        >>> m = recalibrate(model, g, card, range(300, 600)).metrics(positive=1, k=50)
        >>> m.precision.low < m.precision.value < m.precision.high, m.confusion.value.shape
        (True, (2, 2))
        """
        from graphtemper.recalibration.decisions import estimate

        known = self.answer, self.reading, self.probabilities, self.labels, self.class_names
        return estimate(*known, positive, threshold, k, costs, segments)

    def summary(
        self, width: int = 80, metrics: Metrics | None = None, command: str | None = None
    ) -> str:
        """Return the verdict, the numbers and the reasons as text, wrapped to a width.

        ``metrics`` of decisions come first. A verdict other than ``trust`` ends with what to type
        next: Python, or the ``command`` of a shell.
        """
        from graphtemper.recalibration.decisions.metrics import title

        rows = self.summary_rows()
        if metrics is not None:
            decided = {title(name, metrics.k): text for name, text in metrics.rows().items()}
            rows = decided | rows
        indent = max(map(len, rows)) + 2
        paragraphs = [(name.ljust(indent) + value, indent) for name, value in rows.items()]
        notes = [] if metrics is None else metrics.notes
        paragraphs += [(f"- {reason}", 2) for reason in (*notes, *self.reasons)]
        paragraphs += [(step, 2) for step in words.next_command(self, command)]
        wrapped = (
            fill(text, max(width, deep + 20), subsequent_indent=" " * deep)
            for text, deep in paragraphs
        )
        return "\n".join([f"Verdict: {self.verdict}", *wrapped])

    def summary_rows(self) -> dict[str, str]:
        """Return the numbers of the summary by name."""
        return words.summary_rows(self)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw confidence before and after against the accuracy interval; needs matplotlib.

        Lines mark the mean confidences; the one after recalibration should lie in the shaded
        interval. ``ax`` are the axes to draw on (default: new ones). They are returned.
        """
        if ax is None:
            pyplot = require("plots", "a plot", "matplotlib.pyplot")
            ax = pyplot.subplots(layout="constrained")[1]
        accuracy, (before, after) = self.accuracy, self.mean_confidence
        least = 1.0 / self.probabilities.shape[1]
        bins = np.linspace(least, 1.0, _BINS + 1).tolist()
        past, now = (p.max(axis=1) for p in (self.at(self.source_temperature), self.probabilities))
        ax.hist(past, bins, color="0.75", label=f"before: {before:.1%}")
        ax.hist(now, bins, histtype="step", color="C0", label=f"after: {after:.1%}")
        ax.axvline(before, color="0.5", linestyle=":")
        ax.axvline(after, color="C0", linestyle="--")
        label = f"accuracy: {accuracy.low:.1%} to {accuracy.high:.1%} ({100 * LEVEL:.0f} %)"
        ax.axvspan(accuracy.low, accuracy.high, color="C2", alpha=0.2, label=label)
        ax.axvline(accuracy.value, color="C2")
        ax.set(xlim=(min(least, accuracy.low), 1.0), xlabel="confidence", ylabel="nodes")
        ax.set_title(f"{self.verdict}: temperature {temperature_text(self.temperature)}")
        ax.legend(fontsize="small")
        return ax

    def to_frame(self) -> DataFrame:
        """Return one row per chosen node as a pandas ``DataFrame``; needs pandas.

        The index holds the nodes. Columns are the prediction, its confidence, the probabilities
        and, with ``per_node=True``, the node's temperature.
        """
        pandas = require("", "to_frame", "pandas")
        columns = {"prediction": self.predictions, "confidence": self.probabilities.max(axis=1)}
        columns |= {f"probability_{k}": values for k, values in enumerate(self.probabilities.T)}
        if self.node_temperatures is not None:
            columns["temperature"] = self.node_temperatures
        return pandas.DataFrame(columns, index=pandas.Index(self.nodes, name="node"))

    def _repr_html_(self) -> str:
        from graphtemper.recalibration import notebook

        rows = self.summary_rows()
        rows["Reasons"] = " ".join(reason.text for reason in self.reasons)
        image = notebook.picture(self.plot, "confidence before and after")
        return notebook.table(f"Verdict: {self.verdict}", rows) + image

    def report(
        self,
        path: str | os.PathLike[str],
        *,
        name: str | None = None,
        date: str = "",
        metrics: Metrics | None = None,
    ) -> None:
        """Write the result as one HTML page for people, an .html file.

        ``name`` is what they call the graph, and ``date`` when it was observed, as text. With
        ``metrics`` the page leads with them.
        """
        from graphtemper.recalibration.report.page import write_report

        write_report(path, self, name, date, metrics)
