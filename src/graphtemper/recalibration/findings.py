"""Findings about a model on a target: plain data, for files, summaries and reports."""

from __future__ import annotations

from dataclasses import dataclass
from textwrap import fill
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from graphtemper._core.arrays import FloatArray
from graphtemper._core.estimate import Estimate
from graphtemper.card.card import SourceCard
from graphtemper.card.response import Response
from graphtemper.recalibration.few_labels import Labels
from graphtemper.recalibration.reasons import Reason, ReasonCode
from graphtemper.recalibration.verdict import LEVEL, Verdict, direction

SCHEMA = "graphtemper.recalibration/3"
"""Schema of `Recalibration.to_dict`, in `graphtemper.report.schema("recalibration")`."""
Direction = Literal["over-confident", "under-confident", "calibrated", "unknown"]
_DIRECTIONS: dict[ReasonCode, Direction] = {
    ReasonCode.OVER_CONFIDENT: "over-confident",
    ReasonCode.UNDER_CONFIDENT: "under-confident",
    ReasonCode.CALIBRATED: "calibrated",
}
# Ratios of temperatures closer to one than this are no change to a reader.
_SAME = 0.02
_QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


@dataclass(frozen=True, eq=False, repr=False)
class GraphFindings:
    """Findings about a target as a whole, in memory or in shards.

    Attributes
    ----------
    temperature : float
        The graph's temperature, which divides the model's logits; the source's own where nothing
        can be read. Where the verdict is ``abstain``, it is a best guess that
        should not be relied on.
    accuracy : Estimate
        Estimated accuracy with a 90 % interval; a credible interval where labels were given.
    verdict, reasons
        ``trust``, ``caution`` or ``abstain``, and why: each reason has a stable ``code`` and a
        ``text``.
    slope : float
        Source temperature over target temperature: below 1 the model is over-confident. Not
        informative where the verdict is ``abstain``.
    severity_bound : float
        The largest ECE at the source temperature that the accuracy interval allows: the distance
        from mean confidence to the farther end. It assumes that one slope describes all nodes; the
        ECE then equals the gap between mean confidence and accuracy.
    signals, gains : dict
        What was measured, without labels; gains are factors against the source.
    nearest : list of (family, distance)
        Which shifts of the source look most like this graph.
    mean_confidence : tuple of float
        Mean confidence at the source temperature, and after recalibration.
    """

    temperature: float
    accuracy: Estimate
    verdict: Verdict
    reasons: list[Reason]
    slope: float
    severity_bound: float
    signals: dict[str, float]
    gains: dict[str, float]
    nearest: list[tuple[str, float]]
    mean_confidence: tuple[float, float]

    @property
    def source_temperature(self) -> float:
        """The temperature of the source."""
        return self.temperature * self.slope

    @property
    def direction(self) -> Direction:
        """Whether the model is over- or under-confident at the source temperature.

        ``unknown`` if the interval is too wide to tell, or the verdict is ``abstain``.
        """
        known = self.verdict != "abstain"
        code = direction(self.mean_confidence[0], self.accuracy, known=known).code
        return _DIRECTIONS.get(code, "unknown")

    def __repr__(self) -> str:
        accuracy, (before, after) = self.accuracy, self.mean_confidence
        codes = [reason.code.value for reason in self.reasons]
        more = f", and {len(codes) - 4} more" if len(codes) > 4 else ""
        return (
            f"{type(self).__name__}(verdict={self.verdict!r}, accuracy={accuracy.value:.3f} in "
            f"[{accuracy.low:.3f}, {accuracy.high:.3f}], temperature={self.temperature:.4g}, "
            f"confidence={before:.3f} -> {after:.3f}, reasons: {', '.join(codes[:4])}{more})"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python values."""
        accuracy, (before, after) = self.accuracy, self.mean_confidence
        interval = {"value": accuracy.value, "low": accuracy.low, "high": accuracy.high}
        return {
            "schema": SCHEMA,
            "verdict": self.verdict,
            "reasons": [reason.to_dict() for reason in self.reasons],
            "direction": self.direction,
            "slope": None if self.verdict == "abstain" else self.slope,
            "severity_bound": self.severity_bound,
            "accuracy": interval | {"level": LEVEL},
            "mean_confidence": {"before": before, "after": after},
            "signals": dict(self.signals),
            "gains": dict(self.gains),
            "nearest": [{"family": name, "distance": value} for name, value in self.nearest],
            "temperature": self.temperature,
            "source_temperature": self.source_temperature,
        }

    def summary(self, width: int = 80) -> str:
        """Return the verdict, the numbers and the reasons as text, wrapped to a width."""
        rows = self.summary_rows()
        indent = max(map(len, rows)) + 2
        lines = [f"Verdict: {self.verdict}"]
        lines += [
            _wrapped(name.ljust(indent) + value, width, indent) for name, value in rows.items()
        ]
        lines += [_wrapped(f"- {reason}", width, 2) for reason in self.reasons]
        return "\n".join(lines)

    def summary_rows(self) -> dict[str, str]:
        """Return the numbers of the summary by name."""
        accuracy, (before, after) = self.accuracy, self.mean_confidence
        value = "not known" if self.verdict == "abstain" else f"{accuracy.value:.1%}"
        return {
            "Accuracy": f"{value} ({100 * LEVEL:.0f} % interval {accuracy.low:.1%} to "
            f"{accuracy.high:.1%})",
            "Confidence": f"{before:.1%} at the source temperature, {after:.1%} now",
            "Temperature": self._temperature_in_words(),
        }

    def _temperature_in_words(self) -> str:
        value, source = self.temperature, self.source_temperature
        if value == source:
            return f"{value:.3g}, the source temperature: nothing is changed"
        if abs(value / source - 1.0) < _SAME:
            return f"{value:.3g}, as at the source: confidence does not change"
        word = "lowered" if value > source else "raised"
        guess = ", as a best guess" if self.verdict == "abstain" else ""
        return f"{value:.3g} (source {source:.3g}): confidence is {word}{guess}"


@dataclass(frozen=True, eq=False)
class Background:
    """What was known of the chosen nodes and of the source when an answer was given.

    With it a report can be written long after the graph and the model are gone.

    Attributes
    ----------
    card, response
        The source card, and the response surface that the answer was read from.
    signals, novelty
        What the response was read at, on the atlas's scales, and the distance from the atlas.
    name, class_names
        What the target's file calls it and its classes; "" and () if it has no names.
    confidence, predictions, degrees : (n,) arrays
        Top probability at the source temperature, its class, and the number of neighbours.
    labels
        The labels that the caller gave, by row.
    labelled : (m, K) array
        Probabilities of the labelled nodes at the source temperature.
    """

    card: SourceCard
    response: Response
    signals: dict[str, float]
    novelty: float
    name: str
    class_names: tuple[str, ...]
    confidence: FloatArray
    predictions: NDArray[np.intp]
    degrees: NDArray[np.int64]
    labels: Labels
    labelled: FloatArray


@dataclass(frozen=True, eq=False, repr=False)
class Findings(GraphFindings):
    """Findings about a target and about each of its chosen nodes.

    Attributes
    ----------
    probabilities : (n, K) array
        softmax(logits / temperature) of the chosen nodes.
    nodes : (n,) array
        Indices of the chosen nodes in the graph.
    num_labels : int
        Number of target labels that the caller gave.
    effective_labels : float
        How many labels alone would have made the accuracy interval as narrow: what the labels and
        the card are worth together. 0 without labels.
    class_shares : (K,) array or None
        Estimated class shares of the target; None if no shares explain its predictions, or the
        card is too old to estimate them.
    logit_shift : (K,) array or None
        What a correction for class shares added to every node's logits:
        softmax((logits + shift) / temperature). None without a correction.
    node_temperatures : (n,) array or None
        With ``per_node=True`` each chosen node's own temperature, used in place of the graph's.
    background : Background or None
        What a report shows next to the answer.
    passes : int or None
        Forward passes of the model that were taken; None without a model, and for models with fast
        passes.
    """

    probabilities: FloatArray
    nodes: NDArray[np.int64]
    num_labels: int = 0
    effective_labels: float = 0.0
    class_shares: FloatArray | None = None
    logit_shift: FloatArray | None = None
    node_temperatures: FloatArray | None = None
    background: Background | None = None
    passes: int | None = None

    @property
    def num_nodes(self) -> int:
        """Number of chosen nodes, n."""
        return len(self.probabilities)

    @property
    def predictions(self) -> NDArray[np.intp]:
        """Predicted class of every chosen node, (n,)."""
        return np.asarray(self.probabilities.argmax(axis=1))

    def to_dict(self) -> dict[str, Any]:
        """Return everything except the per-node arrays as plain Python values."""
        quantiles = {}
        if self.node_temperatures is not None:
            values = np.quantile(self.node_temperatures, _QUANTILES).tolist()
            named = {f"{q:g}": value for q, value in zip(_QUANTILES, values, strict=True)}
            quantiles = {"node_temperatures": named}
        return (
            super().to_dict()
            | quantiles
            | ({} if self.passes is None else {"passes": self.passes})
            | {
                "num_nodes": self.num_nodes,
                "num_labels": self.num_labels,
                "effective_labels": self.effective_labels,
                "class_shares": _listed(self.class_shares),
                "logit_shift": _listed(self.logit_shift),
            }
        )

    def summary_rows(self) -> dict[str, str]:
        """Return the numbers of the summary by name, with the accuracy at the source."""
        rows = super().summary_rows()
        if self.background is not None:
            rows["Accuracy"] += f"; {self.background.card.reference.accuracy:.1%} at the source"
        return rows

    def _temperature_in_words(self) -> str:
        if self.node_temperatures is None or self.verdict == "abstain":
            return super()._temperature_in_words()
        low, high = np.quantile(self.node_temperatures, (0.05, 0.95))
        return (
            f"{self.temperature:.3g} for the graph; per node, 90 % between {low:.3g} and {high:.3g}"
        )


def _listed(values: FloatArray | None) -> list[float] | None:
    return None if values is None else values.tolist()


def _wrapped(text: str, width: int, indent: int) -> str:
    return fill(text, max(width, indent + 20), subsequent_indent=" " * indent)
