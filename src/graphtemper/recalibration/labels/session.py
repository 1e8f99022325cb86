"""A labelling session: labels that arrive in batches, and an interval that holds at the stop.

The order of the chosen nodes is drawn once. What is known of the accuracy, or of the precision or
recall of a class, is a function of the
*run*: the nodes from the start of the order that all have an answer. So labels may come late, in
another order, or for nodes that were not suggested; the run takes them in when it gets to them, and
until then they serve the temperature only. Whoever labels the easy nodes first cannot mislead it.

A file of a session holds node numbers, predictions and labels, and is continued without a model.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from itertools import takewhile
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphtemper import errors
from graphtemper._core.checks import (
    FloatArray,
    check_instance,
    check_integer,
    check_number,
    check_unit,
)
from graphtemper._core.estimate import Estimate
from graphtemper._core.files import atomic_write
from graphtemper._core.lazy import cached_property
from graphtemper._core.safe_reading import check_seal, parse_json, read_bytes, sealed
from graphtemper.errors import InputError, VersionError
from graphtemper.recalibration.decisions.metrics import class_number
from graphtemper.recalibration.job import relabelled
from graphtemper.recalibration.labels.few_labels import design
from graphtemper.recalibration.labels.given import LabelsGiven, as_labels, checked, drawn_order
from graphtemper.recalibration.labels.sequences import (
    FEWEST,
    WAGER,
    adjusted,
    any_moment,
    fortunes,
    half_width,
)
from graphtemper.recalibration.result import Recalibration

SCHEMA = "graphtemper.session/2"
METRICS = ("accuracy", "precision", "recall")
"""Metrics that a goal can be about."""
AT_THE_GOAL, ANY_MOMENT = "labels, at the goal", "labels, at any moment"
"""Methods of the estimate of a session: at its own stop, and wherever somebody else stops."""
_MAX_BYTES = 2_000_000_000
_ASKED = ("goal", "at_least", "metric", "positive", "threshold")
# What depends on the labels and is kept until the next ones.
_KEPT = ("_run", "_counted", "decision", "estimate", "result")
# Logits of another machine differ in the last bits, and a file holds this many digits.
_SAME, _DIGITS = 1e-3, 5
# Narrower goals need more labels than there are things to label.
_LEAST_GOAL = 1e-6


@dataclass(frozen=True, eq=False)
class Begun:
    """What a session was begun with, and what is known of the chosen nodes; it does not change.

    Attributes
    ----------
    goal, at_least
        The width or the gate at which it stops; one of them is None.
    metric, positive, threshold
        What it is about; the class is None for the accuracy.
    start
        The metric without labels.
    seed
        Seed of the order.
    num_nodes, num_classes
        Of the graph and the model.
    nodes, predictions, flagged, confidence : (n,) arrays
        The chosen nodes, their predicted classes, whether the metric counts them, and their largest
        probabilities.
    columns : (n, q) array
        Earlier labels and proxies.
    """

    goal: float | None
    at_least: float | None
    metric: str
    positive: int | None
    threshold: float | None
    start: float
    seed: int
    num_nodes: int
    num_classes: int
    nodes: NDArray[np.int64]
    predictions: NDArray[np.int32]
    flagged: NDArray[np.int32]
    confidence: FloatArray
    columns: FloatArray

    @classmethod
    def of(cls, **given: Any) -> Begun:
        """Check goals and metric, as a caller or a file gives them, and the types of arrays."""
        goals = {name: given[name] for name in ("goal", "at_least") if given[name] is not None}
        if len(goals) != 1:
            raise errors.conflict(
                "give one goal: goal=0.05 for a width, or at_least=0.8 for a gate."
            )
        for name, value in goals.items():
            least, most = (_LEAST_GOAL, 0.5) if name == "goal" else (0.0, 1.0)
            given[name] = check_number(value, name)
            if not least < given[name] < most:
                raise errors.range(
                    f"{name} must lie between {least:g} and {most:g}, not {value!r:.60}."
                )
        check_integer(given["seed"], "seed", 0)
        if given["metric"] not in METRICS:
            raise errors.choice(
                f"metric is one of {', '.join(METRICS)}, not {given['metric']!r:.60}."
            )
        return cls(**given | {name: np.array(given[name], kind) for name, kind in _ARRAYS.items()})

    @classmethod
    def from_file(cls, content: dict[str, Any]) -> Begun:
        """Return what a file holds; an error says that its fields do not agree."""
        begun = cls.of(**{item.name: content[item.name] for item in fields(cls)})
        size, classes = begun.nodes.size, begun.num_classes
        columns = begun.columns.reshape(size, -1 if begun.columns.size else 0)
        check_unit(begun.start, "start")
        if begun.metric != "accuracy":
            check_integer(begun.positive, "positive", 0, classes - 1)
        ends = {"nodes": begun.num_nodes, "predictions": classes, "confidence": 2, "flagged": 2}
        given = ((getattr(begun, name), end) for name, end in ends.items())
        fit = [x.shape == (size,) and 0 <= x.min() <= x.max() < end for x, end in given]
        if not all(fit) or np.unique(begun.nodes).size < size:
            raise errors.content("its nodes do not agree with each other.")
        return replace(begun, columns=columns)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, in the order of the fields."""
        values = {item.name: getattr(self, item.name) for item in fields(self)}
        return values | {name: values[name].tolist() for name in _ARRAYS}

    def agrees(self, other: Begun) -> bool:
        """Return whether these are the same nodes with the same predictions, up to rounding."""
        pairs = [(getattr(self, name), getattr(other, name)) for name in _ARRAYS]
        if any(mine.shape != its.shape for mine, its in pairs):
            return False
        return all((np.abs(mine - its) > _SAME).sum() <= _SAME * mine.size for mine, its in pairs)


_ARRAYS = {"nodes": "i8", "predictions": "i4", "flagged": "i4", "confidence": "f8"}
_ARRAYS |= {"columns": "f8"}


def _asked(
    result: Recalibration, metric: str, positive: int | str | None, threshold: float | None
) -> tuple[float, int | None, NDArray[Any]]:
    """Return the metric so far, its class, and which nodes it counts."""
    if metric not in METRICS[1:]:
        if positive is not None or threshold is not None:
            raise errors.conflict("a class and a threshold go with metric='precision' or 'recall'.")
        return result.accuracy.value, None, np.ones(result.nodes.size)
    if positive is None:
        raise errors.missing(f"the {metric} is that of a class; pass positive= as well.")
    found = result.metrics(positive=positive, threshold=threshold)
    start = getattr(found, metric)
    if start is None:
        raise errors.missing(f"the {metric} is undefined: {found.reasons[metric]}.")
    flagged = result.predictions == found.positive
    if threshold is not None:
        flagged = result.probabilities[:, found.positive] >= threshold
    return start.value, found.positive, flagged


class LabelSession:
    """Labels of a target in batches, until a metric is known well enough.

    Parameters
    ----------
    result
        From `recalibrate`, with one temperature and uncorrected predictions.
    goal
        Stop when the 90 % interval of the metric reaches at most this far to each side, as 0.05.
    at_least
        Or stop when the metric is decided to be above or below this gate, as 0.80; either
        decision is wrong with a probability of at most 5 %.
    metric
        ``"accuracy"``, or ``"precision"`` or ``"recall"`` of a class. For precision only flagged
        nodes are drawn. Recall needs positive nodes, which are met by chance.
    positive, threshold
        The class, by number or name, and the probability from which a node is flagged; by default
        nodes are flagged whose prediction the class is.
    seed
        Seed of the order of nodes.

    Examples
    --------
    >>> from graphtemper import SourceCard, csbm, recalibrate
    >>> from graphtemper.models import SIGN
    >>> g = csbm.sample(800, degree=6, homophily=0.8, snr=1.0, num_features=8, seed=1)
    >>> model = SIGN(hops=1).fit(g, range(400))
    >>> few = {"noise": (0.5, 1.0), "drop": (0.5,), "rewire": (0.3,)}
    >>> card = SourceCard.build(model, g, range(400, 800), compositions=0, shifts=few)
    >>> june = csbm.sample(800, degree=6, homophily=0.6, snr=1.0, num_features=8, seed=2)
    >>> session = LabelSession(recalibrate(model, june, card), goal=0.08)
    >>> while not session.done:
    ...     session.add({node: june.labels[node] for node in session.next(10)})
    >>> print(session.summary())
    60 labels: accuracy 86.5%, 90 % interval 79.1% to 94.0%.
    >>> float((model(june).argmax(axis=1) == june.labels).mean())
    0.8475
    """

    _begun: Begun
    _answers: dict[int, int | None]
    _source: Recalibration | None

    def __init__(
        self,
        result: Recalibration,
        *,
        goal: float | None = None,
        at_least: float | None = None,
        metric: str = "accuracy",
        positive: int | str | None = None,
        threshold: float | None = None,
        seed: int = 0,
    ) -> None:
        check_instance(result, Recalibration, "result", "LabelSession(result, goal=0.05)")
        if result.node_temperatures is not None or result.logit_shift is not None:
            raise errors.conflict(
                "a session needs one temperature and the model's own predictions; recalibrate "
                "without per_node and class_shares."
            )
        if result.graph is None:
            raise errors.missing("a session needs the nodes; recalibrate a graph in memory.")
        columns = result.labels.columns
        start, number, flagged = _asked(result, metric, positive, threshold)
        self._begin(
            Begun.of(
                goal=goal,
                at_least=at_least,
                metric=metric,
                positive=number,
                threshold=threshold,
                start=start,
                seed=seed,
                num_nodes=result.graph.num_nodes,
                num_classes=result.logits.shape[1],
                nodes=result.nodes,
                predictions=result.predictions,
                flagged=flagged,
                confidence=result.probabilities.max(axis=1).round(_DIGITS),
                columns=result.logits[:, :0] if columns is None else columns.round(_DIGITS),
            )
        )
        self._source = result
        rows, given = result.labels.rows.tolist(), result.labels.classes.tolist()
        self._answers = dict(zip(rows, given, strict=True))

    def _begin(self, begun: Begun) -> None:
        """Draw the order of nodes; nothing is labelled yet."""
        self._begun, self._nodes, self._answers, self._source = begun, begun.nodes, {}, None
        self.goal, self.at_least, self.metric = begun.goal, begun.at_least, begun.metric
        self._order = drawn_order(begun.nodes.size, begun.seed)
        if begun.metric == "precision":
            self._order = self._order[begun.flagged[self._order] > 0]

    def next(self, count: int = 10) -> NDArray[np.int64]:
        """Return the next nodes to label: the first of the order that have no answer, if any."""
        check_integer(count, "count", 1)
        open_rows = [row for row in self._order.tolist() if row not in self._answers]
        return np.asarray(self._nodes[open_rows[:count]])

    def add(self, labels: LabelsGiven, *, replace: bool = False) -> None:
        """Add labels: ``{node: class}``, a pandas ``Series``, or one class per node, -1 if unknown.

        None in place of a class says that a node cannot be labelled. It leaves the population: the
        accuracy is that of nodes that can be labelled. With ``replace`` a label corrects an earlier
        one. If anything is wrong with the labels, the session stays as it was.
        """
        found = checked(labels, self._nodes, self._begun.num_nodes, self._begun.num_classes)
        for row, label in found.items():
            before = self._answers.get(row)
            if before is not None and not replace:
                raise errors.repeated(
                    f"node {self._nodes[row]} has the label {before} already and is now given "
                    f"{label}; leave one out, or correct it with replace=True."
                )
        self._answers |= found
        for name in _KEPT:
            self.__dict__.pop(name, None)

    @property
    def labels(self) -> dict[int, int | None]:
        """All answers by node; None where a node cannot be labelled."""
        return {int(self._nodes[row]): label for row, label in self._answers.items()}

    @property
    def num_labels(self) -> int:
        """Number of labels, without nodes that cannot be labelled."""
        return sum(label is not None for label in self._answers.values())

    @property
    def waiting(self) -> int:
        """Number of labels that the interval does not use yet: earlier nodes have no answer."""
        answers = (self._answers.get(row) for row in self._order.tolist())
        return sum(label is not None for label in answers) - self._run[1].size

    @cached_property
    def _run(self) -> tuple[FloatArray, NDArray[np.int64], FloatArray, NDArray[np.bool_]]:
        """What may explain the population; rows and hits of the run among it, and which count."""
        begun = self._begun
        answered = takewhile(self._answers.__contains__, self._order.tolist())
        run = [(row, self._answers[row]) for row in answered]
        rows = np.array([row for row, label in run if label is not None], np.int64)
        classes = np.array([label for _, label in run if label is not None], np.int64)
        kept = (begun.flagged > 0) | (self.metric != "precision")
        kept[[row for row, label in run if label is None]] = False
        known = begun.confidence[kept], begun.predictions[kept], begun.num_classes
        x, right = design(*known, begun.columns[kept]), begun.predictions[rows] == classes
        counted = np.ones(rows.size, dtype=bool)
        if self.metric == "precision":
            right = classes == begun.positive
        elif self.metric == "recall":  # columns explain nothing of a share of unknown nodes
            x, right, counted = x[:, :0], begun.flagged[rows] > 0, classes == begun.positive
        return x, (np.cumsum(kept) - 1)[rows], right.astype(np.float64), counted

    @property
    def _count(self) -> int:
        """Labels of the run of which the metric is a share: for recall, those of the class."""
        return int(self._run[3].sum())

    @property
    def _left(self) -> int:
        """Nodes of the population that the run has no label of."""
        return len(self._run[0]) - self._run[1].size

    @cached_property
    def _counted(self) -> tuple[float, float]:
        """The metric by the run alone, and the variance of one label.

        Before two labels that count it is the one without labels.
        """
        if self._count <= bool(self._left):
            return self._begun.start, 0.25
        x, rows, right, counted = self._run
        return adjusted(x, rows[counted], right[counted])

    @property
    def _half(self) -> float:
        """Half-width of the interval at a stop; 0 if no node is left."""
        count, (x, rows, *_) = self._count, self._run
        if not count:
            return 1.0
        return half_width(self._counted[1], count, count * len(x) / rows.size)

    @cached_property
    def decision(self) -> str | None:
        """``above`` or ``below`` the gate, or None while that is open or if there is none."""
        if self.at_least is None or not self._count:
            return None
        if not self._left:
            return "above" if self._counted[0] >= self.at_least else "below"
        x, rows, right, counted = self._run
        more, less = fortunes(x, rows, right, np.array([self.at_least]), counted)[:, 0] >= WAGER
        return "above" if more else "below" if less else None

    @property
    def done(self) -> bool:
        """Whether the goal is reached, or no node is left."""
        if self.goal is None or not self._left:
            return not self._left or self.decision is not None
        return self._count >= FEWEST and self._half <= self.goal

    @property
    def accuracy(self) -> Estimate:
        """The accuracy: `estimate`; of `result` if the session is about recall, else an error."""
        return self.estimate if self.metric == "accuracy" else self.result.accuracy

    @cached_property
    def estimate(self) -> Estimate:
        """The metric with a 90 % interval that holds where the session stands.

        At a goal of a width it is the narrow one that holds at this stop. At a gate, and before any
        goal, it is the wider one that holds at any moment (``method`` says which).
        """
        value, half, method = self._counted[0], self._half, AT_THE_GOAL
        low, high = max(value - half, 0.0), min(value + half, 1.0)
        if not self.done or (self.goal is None and self._left):
            (low, high), method = any_moment(*self._run), ANY_MOMENT
        return Estimate(min(max(value, low), high), low, high, method)

    @property
    def more(self) -> int:
        """About how many more labels are expected to reach the goal; 0 when it is reached."""
        count, size = self._count, len(self._run[0])
        if self.done:
            return 0
        if not count and self.metric == "recall":
            return self._left
        # Before any label the variance is that of the hardest share.
        variance, share = 0.25, 1.0
        if count:
            variance, share = self._counted[1], count / self._run[1].size
        size = max(round(share * size), count)
        if self.goal is not None:
            needed = max((half_width(variance, 1, 10**18) / self.goal) ** 2, FEWEST)
        elif self.at_least is not None:
            # A bet grows by half of the squared distance over the variance with every label.
            apart = max(abs(self._counted[0] - self.at_least), 0.02)
            needed = 2.0 * variance * (WAGER + 1.0) / apart**2
        more = max(np.ceil(needed / (1.0 + needed / size)) - count, 1)
        return min(int(np.ceil(more / share)), self._left)

    @cached_property
    def result(self) -> Recalibration:
        """The result, recalibrated with all labels of the session."""
        if self.metric == "precision":
            raise errors.conflict(
                "labels of flagged nodes alone cannot correct the result; begin a session with "
                "metric='accuracy' or 'recall'."
            )
        if self._source is None:
            raise errors.missing(
                "the session was loaded without its result; load it with "
                "LabelSession.load(path, recalibrate(model, graph, card))."
            )
        return relabelled(self._source, as_labels(self._answers, self._source.labels.columns))

    def summary(self) -> str:
        """Return where the session stands, in one line."""
        found = self.estimate
        text = f"{self.num_labels} labels: {self.metric} {found.value:.1%}, 90 % interval "
        text += f"{found.low:.1%} to {found.high:.1%}"
        if not self.done:
            text += f" if you stop here; about {self.more} more are expected"
        elif self.decision is not None:
            text += f", {self.decision} the gate of {self.at_least:.0%}"
        if self.waiting:
            text += f"; {self.waiting} labels wait for nodes before them in the order"
        return f"{text}."

    def __repr__(self) -> str:
        return f"LabelSession: {self.summary()}"

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the session as JSON: nodes, predictions, confidences and labels."""
        content = {"schema": SCHEMA} | self._begun.to_dict()
        content["answers"] = list(self._answers.items())
        with atomic_write(path) as file:
            file.write(sealed(content).encode())

    @classmethod
    def load(
        cls, path: str | os.PathLike[str], result: Recalibration | None = None
    ) -> LabelSession:
        """Read a session.

        With the ``result`` that it was begun with, computed again, `result` is available too, and a
        session of another model or graph is refused.
        """
        session = cls.__new__(cls)
        try:
            session._read(parse_json(read_bytes(path, _MAX_BYTES, "the session")))
        except VersionError as error:
            raise VersionError(f"{path}: {error}") from error
        except (InputError, ValueError, TypeError, KeyError, IndexError, OverflowError) as error:
            text = str(error) if isinstance(error, InputError) else "a field is missing or invalid."
            raise errors.damaged(f"{path} is not a labelling session: {text}") from error
        if result is not None:
            asked = {name: getattr(session._begun, name) for name in _ASKED}
            if not session._begun.agrees(cls(result, **asked)._begun):
                raise errors.other_model(
                    f"the session {path} was begun with another model, graph, card or choice of "
                    "nodes; give those, or begin a new session."
                )
            session._source = result
        return session

    def check_asked(self, asked: Mapping[str, Any]) -> None:
        """Refuse a goal, metric, class or threshold other than those the session was begun with."""
        names = () if self._source is None else self._source.class_names
        for name, given in asked.items():
            known, value = getattr(self._begun, name), given
            if name == "positive":
                value = class_number(given, names, self._begun.num_classes)
            if value != known:
                raise errors.conflict(
                    f"the session was begun with {name}={known!r:.60}, not {given!r:.60}; leave "
                    "that out, or begin another session."
                )

    def _read(self, content: dict[str, Any]) -> None:
        """Take the state from a file, or raise an error."""
        if content["schema"] != SCHEMA:
            raise VersionError(f"its schema is {content['schema']!r:.60}, not {SCHEMA!r}.")
        check_seal(content, required=True)
        self._begin(Begun.from_file(content))
        size, classes = self._nodes.size, self._begun.num_classes
        for row, label in content["answers"]:
            check_integer(0 if label is None else label, "a class", 0, classes - 1)
            self._answers[check_integer(row, "a row", 0, size - 1)] = label
