"""The result of a recalibration: what is known about a model on a target, and its probabilities."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from textwrap import fill
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from graphtemper import errors
from graphtemper import temperature as temperatures
from graphtemper._core.checks import FloatArray
from graphtemper._core.estimate import Estimate
from graphtemper.card.reading import Reading
from graphtemper.errors import require
from graphtemper.models.predictor import checked_logits
from graphtemper.recalibration.answer import Answer, Direction
from graphtemper.recalibration.few_labels import NO_LABELS, Labels
from graphtemper.recalibration.reasons import Reason
from graphtemper.recalibration.verdict import LEVEL, Verdict

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame

    from graphtemper.graph.graph import Graph
    from graphtemper.recalibration.decisions import Metrics

SCHEMA = "graphtemper.recalibration/3"
"""Schema of `Recalibration.to_dict`, in `graphtemper.report.schema("recalibration")`."""
# Ratios of temperatures closer to one than this are no change to a reader.
_SAME = 0.02
_QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
_BINS = 30
_MORE_LABELS = 50


@dataclass(frozen=True, eq=False, repr=False)
class Recalibration:
    """Calibrated probabilities of a model on a target graph, with a verdict and its reasons.

    Attributes
    ----------
    reading : Reading
        What was measured, compared with the source card, which is ``reading.card``.
    answer : Answer
        Accuracy, temperature, verdict and reasons, which are also attributes of the result.
    mean_confidence : tuple of float
        Mean confidence at the source temperature, and after recalibration.
    logits, probabilities : (n, K) arrays
        Of the chosen nodes: the model's logits, and softmax(logits / temperature). Results about
        files have none of the arrays of nodes.
    nodes : (n,) array
        Indices of the chosen nodes in the graph.
    graph : Graph or None
        The target, without its labels.
    labels
        The labels that the caller gave, by row.
    class_shares : (K,) array or None
        With ``class_shares="estimate"`` the estimated class shares of the target, if any explain
        its predictions.
    logit_shift : (K,) array or None
        What a correction for class shares added to every node's logits:
        softmax((logits + shift) / temperature). None without a correction.
    node_temperatures : (n,) array or None
        With ``per_node=True`` each chosen node's own temperature, used in place of the graph's.
    passes : int or None
        Forward passes of the model that were taken; None without a model, and for models with fast
        passes.
    """

    reading: Reading
    answer: Answer
    mean_confidence: tuple[float, float]
    logits: FloatArray = field(default_factory=lambda: np.empty((0, 0)))
    probabilities: FloatArray = field(default_factory=lambda: np.empty((0, 0)))
    nodes: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    graph: Graph | None = None
    labels: Labels = NO_LABELS
    class_shares: FloatArray | None = None
    logit_shift: FloatArray | None = None
    node_temperatures: FloatArray | None = None
    passes: int | None = None

    @classmethod
    def of(
        cls,
        reading: Reading,
        answer: Answer,
        logits: FloatArray,
        logit_shift: FloatArray | None = None,
        node_temperatures: FloatArray | None = None,
        **known: Any,
    ) -> Recalibration:
        """Apply an answer to the logits (n, K) of chosen nodes; ``known`` are the other fields."""
        divisor = answer.temperature if node_temperatures is None else node_temperatures
        shifted = logits if logit_shift is None else logits + logit_shift
        probabilities = probabilities_at(shifted, divisor)
        return cls(
            reading=reading,
            answer=answer,
            mean_confidence=(answer.claimed, float(probabilities.max(axis=1).mean())),
            logits=logits,
            probabilities=probabilities,
            logit_shift=logit_shift,
            node_temperatures=node_temperatures,
            **known,
        )

    def __getitem__(self, name: object) -> NoReturn:
        raise errors.wrong_type(f"read result.{name!s:.40}; a dictionary is result.to_dict().")

    @property
    def accuracy(self) -> Estimate:
        """Estimated accuracy with a 90 % interval; a credible one where labels were given."""
        return self.answer.accuracy

    @property
    def temperature(self) -> float:
        """What divides the model's logits; where the verdict is ``abstain``, the source's own."""
        return self.answer.temperature

    @property
    def source_temperature(self) -> float:
        """The temperature of the source."""
        return self.answer.source_temperature

    @property
    def verdict(self) -> Verdict:
        """``trust``, ``caution`` or ``abstain``."""
        return self.answer.verdict

    @property
    def reasons(self) -> tuple[Reason, ...]:
        """Why the verdict is what it is: each has a stable ``code`` and a ``text``."""
        return self.answer.reasons

    @property
    def changes(self) -> tuple[object, ...]:
        """What differs from the source."""
        return self.answer.changes

    @property
    def slope(self) -> float:
        """Source temperature over target temperature; see `Answer.slope`."""
        return self.answer.slope

    @property
    def severity_bound(self) -> float:
        """The largest ECE at the source temperature; see `Answer.severity_bound`."""
        return self.answer.severity_bound

    @property
    def direction(self) -> Direction:
        """Whether the model is over- or under-confident; see `Answer.direction`."""
        return self.answer.direction

    @cached_property
    def signals(self) -> dict[str, float]:
        """What was measured, without labels."""
        return self.reading.numbers()

    @property
    def gains(self) -> dict[str, float]:
        """Gains of the signal, as factors against the source; none without a model."""
        return {} if self.reading.gains is None else self.reading.gains.to_dict()

    @property
    def nearest(self) -> list[tuple[str, float]]:
        """Which families of shifts of the source look most like this graph, with distances."""
        return self.reading.nearest_families()

    @property
    def num_nodes(self) -> int:
        """Number of chosen nodes, n."""
        return len(self.probabilities) or self.reading.num_nodes

    @property
    def num_labels(self) -> int:
        """Number of target labels that the caller gave."""
        return int(self.labels.rows.size)

    @property
    def class_names(self) -> tuple[str, ...]:
        """Names of the classes, if the graph has them."""
        return () if self.graph is None else self.graph.class_names or ()

    @property
    def predictions(self) -> NDArray[np.intp]:
        """Predicted class of every chosen node, (n,)."""
        return np.asarray(self.probabilities.argmax(axis=1))

    def __repr__(self) -> str:
        accuracy, (before, after) = self.accuracy, self.mean_confidence
        codes = [reason.code.value for reason in self.reasons]
        more = f", and {len(codes) - 4} more" if len(codes) > 4 else ""
        return (
            f"{type(self).__name__}(verdict={self.verdict!r}, accuracy={accuracy.value:.3f} in "
            f"[{accuracy.low:.3f}, {accuracy.high:.3f}], temperature={self.temperature:.4g}, "
            f"confidence={before:.3f} -> {after:.3f}, reasons: {', '.join(codes[:4])}{more})"
        )

    def apply(self, logits: ArrayLike) -> FloatArray:
        """Return calibrated probabilities of logits (m, K) of the same model.

        A correction for class shares is added first. With `node_temperatures`, logits of as many
        nodes as the result's are taken to be of these, and have their temperatures; those of any
        other number of nodes have the graph's.
        """
        shape, divisor = np.shape(logits), self.node_temperatures
        values = checked_logits(logits, shape[0] if shape else 0)
        if divisor is None or len(values) != divisor.size:
            return self.at(self.temperature, values)
        return self.at(divisor, values)

    def at(self, temperature: float | FloatArray, logits: FloatArray | None = None) -> FloatArray:
        """Return the probabilities of the chosen nodes, or of logits, at another temperature.

        That of the source gives what the model claims before recalibration.
        """
        values = self.logits if logits is None else logits
        if self.logit_shift is not None:
            values = values + self.logit_shift
        return probabilities_at(values, temperature)

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

    def to_dict(self) -> dict[str, Any]:
        """Return everything except the per-node arrays as plain Python values."""
        accuracy, (before, after) = self.accuracy, self.mean_confidence
        interval = {"value": accuracy.value, "low": accuracy.low, "high": accuracy.high}
        found = {
            "schema": SCHEMA,
            "verdict": self.verdict,
            "reasons": [reason.to_dict() for reason in self.reasons],
            "direction": self.direction,
            "slope": None if self.verdict == "abstain" else self.slope,
            "severity_bound": self.severity_bound,
            "accuracy": interval | {"level": LEVEL},
            "mean_confidence": {"before": before, "after": after},
            "signals": dict(self.signals),
            "gains": self.gains,
            "nearest": [{"family": name, "distance": value} for name, value in self.nearest],
            "temperature": self.temperature,
            "source_temperature": self.source_temperature,
            "num_nodes": self.num_nodes,
            "num_labels": self.num_labels,
            "class_shares": None if self.class_shares is None else self.class_shares.tolist(),
            "logit_shift": None if self.logit_shift is None else self.logit_shift.tolist(),
        }
        if self.node_temperatures is not None:
            values = np.quantile(self.node_temperatures, _QUANTILES).tolist()
            named = zip(map("{:g}".format, _QUANTILES), values, strict=True)
            found["node_temperatures"] = dict(named)
        return found if self.passes is None else found | {"passes": self.passes}

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
            found = {title(name, metrics.k): text for name, text in metrics.rows().items()}
            rows = found | rows
        indent = max(map(len, rows)) + 2
        paragraphs = [(name.ljust(indent) + value, indent) for name, value in rows.items()]
        notes = [] if metrics is None else metrics.notes
        paragraphs += [(f"- {reason}", 2) for reason in (*notes, *self.reasons)]
        paragraphs += [(step, 2) for step in self._next_step(command)]
        wrapped = (
            fill(text, max(width, deep + 20), subsequent_indent=" " * deep)
            for text, deep in paragraphs
        )
        return "\n".join([f"Verdict: {self.verdict}", *wrapped])

    def summary_rows(self) -> dict[str, str]:
        """Return the numbers of the summary by name."""
        accuracy, (before, after) = self.accuracy, self.mean_confidence
        value = "not known" if self.verdict == "abstain" else f"{accuracy.value:.1%}"
        return {
            "Accuracy": f"{value} ({100 * LEVEL:.0f} % interval {accuracy.low:.1%} to "
            f"{accuracy.high:.1%}); {self.reading.card.reference.accuracy:.1%} at the source",
            "Confidence": f"{before:.1%} at the source temperature, {after:.1%} now",
            "Temperature": self._temperature_in_words(),
        }

    def _next_step(self, command: str | None) -> list[str]:
        """Return the lines to type that would earn trust; none where the verdict is that."""
        # The nodes that were labelled before are the first of a larger sample.
        count = min(self.num_labels + _MORE_LABELS, len(self.nodes))
        if self.verdict == "trust" or count == self.num_labels:
            return []
        label = f"recalibrate(..., labels={{n: ... for n in suggest_labels(result, {count})}})"
        python = f"{label}, or card.learn(model, earlier_graph) if that has labels."
        return [f"Next: {command or python}"]

    def _temperature_in_words(self) -> str:
        value, source = self.temperature, self.source_temperature
        if self.node_temperatures is not None and self.verdict != "abstain":
            low, high = np.quantile(self.node_temperatures, (0.05, 0.95))
            return f"{value:.3g} for the graph; per node, 90 % between {low:.3g} and {high:.3g}"
        if value == source:
            return f"{value:.3g}, the source temperature: nothing is changed"
        if abs(value / source - 1.0) < _SAME:
            return f"{value:.3g}, as at the source: confidence does not change"
        word = "lowered" if value > source else "raised"
        return f"{value:.3g} (source {source:.3g}): confidence is {word}"

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
        ax.set_title(f"{self.verdict}: temperature {self.temperature:.3g}")
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
        # Pages are made from results, so a result finds its page by name.
        page = import_module("graphtemper.recalibration.report.page")
        page.write_report(path, self, name, date, metrics)


def probabilities_at(logits: FloatArray, temperature: float | FloatArray) -> FloatArray:
    """Return softmax(logits / T) with the largest logit of every row on top.

    A large temperature may round a small lead to a tie, which would change the prediction.

    Examples
    --------
    >>> probabilities_at(np.array([[0.0, 1e-20]]), 1e10).argmax(axis=1).tolist()
    [1]
    """
    probabilities, top = temperatures.apply(logits, temperature), logits.argmax(axis=1)
    rows = np.flatnonzero(probabilities.argmax(axis=1) != top)
    probabilities[rows, top[rows]] = np.nextafter(probabilities[rows].max(axis=1), 2.0)
    return probabilities
