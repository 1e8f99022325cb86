"""An answer applied to the nodes of a target: what pages, decisions and sessions read."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from graphtemper import errors
from graphtemper import temperature as temperatures
from graphtemper._core.checks import FloatArray
from graphtemper._core.estimate import Estimate
from graphtemper._core.lazy import cached_property
from graphtemper._core.printable import temperature_text
from graphtemper.card.reading import Reading
from graphtemper.models.predictor import checked_logits
from graphtemper.recalibration.answer import Answer, Direction
from graphtemper.recalibration.labels.few_labels import NO_LABELS, Labels
from graphtemper.recalibration.reasons import Reason
from graphtemper.recalibration.verdict import LEVEL, Verdict

if TYPE_CHECKING:
    from graphtemper.graph.graph import Graph
    from graphtemper.signals.changes import Change

SCHEMA = "graphtemper.recalibration/3"
"""Schema of `Recalibration.to_dict`, in `graphtemper.report.schema("recalibration")`."""
_QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


@dataclass(frozen=True, eq=False, repr=False)
class Applied:
    """An answer applied to the nodes of a target, as values: see `graphtemper.Recalibration`.

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
    ) -> Self:
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
    def changes(self) -> tuple[Change, ...]:
        """What differs from the source, largest first; each has a stable ``code``."""
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
            f"[{accuracy.low:.3f}, {accuracy.high:.3f}], "
            f"temperature={temperature_text(self.temperature, 4)}, "
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

    def to_dict(self) -> dict[str, Any]:
        """Return everything except the per-node arrays as plain Python values."""
        accuracy, (before, after) = self.accuracy, self.mean_confidence
        interval = {"value": accuracy.value, "low": accuracy.low, "high": accuracy.high}
        plain = {
            "schema": SCHEMA,
            "verdict": self.verdict,
            "reasons": [reason.to_dict() for reason in self.reasons],
            "changes": [change.to_dict() for change in self.changes],
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
            plain["node_temperatures"] = dict(named)
        return plain if self.passes is None else plain | {"passes": self.passes}


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
