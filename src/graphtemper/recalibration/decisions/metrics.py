"""Metrics of decisions about an unlabelled target, each with a 90 % interval.

Draws of calibrated probabilities (`graphtemper.recalibration.decisions.posterior`) give expected
counts; with them the labels themselves are drawn, so that an interval holds the metric that these
nodes will turn out to have. Labels that are known count as they are.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from graphtemper import errors
from graphtemper import temperature as temperatures
from graphtemper._core.checks import FloatArray, check_integer, check_unit
from graphtemper._core.estimate import Estimate
from graphtemper._core.numerics import log_odds
from graphtemper._core.reproducible import stream
from graphtemper.card import class_bias
from graphtemper.card.class_profile import FEWEST
from graphtemper.card.reading import Reading
from graphtemper.errors import InputError
from graphtemper.metrics.classification import (
    NAMES,
    RANKINGS,
    checked_costs,
    groups,
    ranking,
    rates,
    top,
)
from graphtemper.recalibration.answer import Answer
from graphtemper.recalibration.decisions import posterior
from graphtemper.recalibration.labels.few_labels import Labels

MOST_SEGMENTS = 200
"""More segments than this have too few nodes each."""
METHOD = "decisions"
_ENDS = ("value", "low", "high")
# Of more nodes than this, those with the highest scores are all kept and the others thinned.
_ROWS, _ROWS_OF_ALL = 20_000, 3_000
# Thresholds that are compared, and by how much a better one is hardly better.
_CANDIDATES, _NEARLY = 200, 0.05
_WHY = {
    "precision": "no node is flagged",
    "recall": "no node is expected to be positive",
    "f1": "no node is flagged or expected to be positive",
    "specificity": "every node is expected to be positive",
    "auroc": "all nodes are expected to be of one class",
    "average_precision": "no node is expected to be positive",
    "precision_at_k": "it needs k, and all nodes",
    "recall_at_k": "it needs k, and all nodes",
    "cost": "it needs costs",
}


@dataclass(frozen=True, eq=False)
class Confusion:
    """Expected nodes (K, K) by true class (rows) and decided class (columns), with intervals."""

    value: FloatArray
    low: FloatArray
    high: FloatArray


@dataclass(frozen=True, eq=False)
class Curve:
    """Metrics at thresholds (t,): each an array (t, 3) of value, low and high, NaN if undefined."""

    thresholds: FloatArray
    flagged: FloatArray
    precision: FloatArray
    recall: FloatArray
    f1: FloatArray
    specificity: FloatArray
    cost: FloatArray | None


@dataclass(frozen=True)
class BestThreshold:
    """A threshold, the metrics there, and how sure it is.

    ``sure`` is the share of draws in which it meets the condition, or in which no other threshold
    is more than 5 % better.
    """

    threshold: float
    sure: float
    precision: Estimate | None
    recall: Estimate | None
    f1: Estimate | None
    cost: Estimate | None


@dataclass(frozen=True, eq=False)
class _Ranked:
    """Nodes by descending score: distinct scores, nodes (m,) and drawn positives (D, m) of each."""

    scores: FloatArray
    counts: FloatArray
    hits: FloatArray

    def tables(self, thresholds: FloatArray) -> FloatArray:
        """Return tables (D, t, 2, 2) of the decisions at thresholds."""
        last = np.searchsorted(-self.scores, -thresholds, side="right")
        found = np.pad(np.cumsum(self.hits, axis=1), ((0, 0), (1, 0)))
        seen = np.append(0.0, np.cumsum(self.counts))
        caught, missed = found[:, last], found[:, -1:] - found[:, last]
        rest = seen[-1] - seen[last] - missed
        return _two(rest, seen[last] - caught, missed, caught)


def _two(rest: FloatArray, alarms: FloatArray, missed: FloatArray, hits: FloatArray) -> FloatArray:
    rows = np.stack([rest, alarms], axis=-1), np.stack([missed, hits], axis=-1)
    return np.stack(rows, axis=-2)


@dataclass(frozen=True, eq=False, repr=False)
class Metrics:
    """Estimated metrics of decisions; each is an `Estimate`, or None with a reason.

    Attributes
    ----------
    precision, recall, f1, specificity, auroc, average_precision
        Of the positive class, or means over classes (macro) if none was named.
    precision_at_k, recall_at_k, cost
        If ``k`` and ``costs`` were given; the cost is that of all nodes together.
    confusion
        Expected nodes by true class (rows) and decided class (columns). With two classes the
        decisions are those of the threshold, otherwise the predictions.
    weighted
        Without a positive class: means over classes, weighted by their expected sizes.
    source
        The same metrics at the source, as far as the card knows: those of predicted classes.
    reasons
        Why a metric is None, by name.
    notes
        Sentences about what the numbers rest on.
    num_nodes, positive, threshold, k
        The nodes that are judged, the number of the positive class, and what was asked about it.
    segments
        The same for parts of the nodes, by name.
    """

    precision: Estimate | None
    recall: Estimate | None
    f1: Estimate | None
    specificity: Estimate | None
    auroc: Estimate | None
    average_precision: Estimate | None
    precision_at_k: Estimate | None
    recall_at_k: Estimate | None
    cost: Estimate | None
    confusion: Confusion
    weighted: dict[str, Estimate | None]
    source: dict[str, float]
    reasons: dict[str, str]
    notes: list[str]
    num_nodes: int
    positive: int | None
    threshold: float | None = None
    k: int | None = None
    segments: dict[Any, Metrics] = field(default_factory=dict)
    costs: FloatArray | None = None
    ranked: _Ranked | None = None

    def __repr__(self) -> str:
        return f"Metrics({'; '.join(f'{name} {text}' for name, text in self.rows().items())})"

    def rows(self) -> dict[str, str]:
        """Return in words the chosen metrics, by name."""
        found = {name: f"undefined: {why}" for name, why in self.undefined.items()}
        for name in self.values():
            found[name] = in_words(getattr(self, name), self.source.get(name))
        return {name: found[name] for name in NAMES if name in found}

    @property
    def undefined(self) -> dict[str, str]:
        """Why chosen metrics are None, by name."""
        return {name: why for name, why in self.reasons.items() if not why.startswith("it needs")}

    def values(self) -> dict[str, dict[str, float]]:
        """Return value, low and high of the metrics that are defined, by name."""
        found = ((name, _plain(getattr(self, name))) for name in NAMES)
        return {name: value for name, value in found if value is not None}

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values, without the curve."""
        tables = {name: getattr(self.confusion, name).tolist() for name in _ENDS}
        return (
            dict.fromkeys(NAMES)
            | self.values()
            | {
                "confusion": tables,
                "weighted": {name: _plain(value) for name, value in self.weighted.items()},
                "source": self.source,
                "reasons": self.reasons,
                "notes": self.notes,
                "num_nodes": self.num_nodes,
                "segments": {str(name): one.to_dict() for name, one in self.segments.items()},
            }
        )

    def at(self, thresholds: ArrayLike) -> Curve:
        """Return the metrics at thresholds of the positive class."""
        points = np.array([check_unit(x, "threshold") for x in np.ravel(np.asarray(thresholds))])
        if not points.size:
            raise errors.missing("a curve needs at least one threshold.")
        tables = self._ranked().tables(points)
        found = {name: _band(values[..., 1]) for name, values in rates(tables).items()}
        cost = None if self.costs is None else _band((self.costs * tables).sum(axis=(-2, -1)))
        return Curve(points, tables[0, :, :, 1].sum(axis=-1), cost=cost, **found)

    def best_threshold(self, goal: str | Mapping[str, float]) -> BestThreshold:
        """Return the best threshold: for ``"cost"``, for ``"f1"``, or under a condition.

        ``{"precision": 0.8}`` is the largest recall with an estimated precision of at least 0.8,
        ``{"recall": 0.8}`` the other way round. Cost and F1 are best in the mean of the draws, so
        that the risk of a high cost counts.
        """
        scores = self._ranked().scores
        ranks = np.geomspace(1, scores.size, _CANDIDATES), np.linspace(1, scores.size, _CANDIDATES)
        ranked = scores[np.unique(np.concatenate(ranks).astype(np.intp)) - 1]
        points = np.append(1.0, ranked)  # 1 flags no node, or only those that are certain
        tables = self._ranked().tables(points)
        values = {name: np.nan_to_num(found[..., 1]) for name, found in rates(tables).items()}
        if isinstance(goal, Mapping):
            if len(goal) != 1 or not set(goal) <= {"precision", "recall"}:
                raise errors.choice("a condition is {'precision': 0.8} or {'recall': 0.8}.")
            ((name, least),) = goal.items()
            met = values[name] >= check_unit(least, name)
            if not met[0].any():
                raise errors.range(
                    f"no threshold has an estimated {name} of {least:g}; ask for less."
                )
            other = values["recall" if name == "precision" else "precision"][0]
            best = int(np.where(met[0], other, -1.0).argmax())
        else:
            losses = -values["f1"]
            if goal == "cost" and self.costs is not None:
                losses = (self.costs * tables).sum(axis=(-2, -1))
            elif goal != "f1":
                raise errors.choice(
                    f"the goal is 'f1', a condition, or with costs 'cost', not {goal!r:.60}."
                )
            best, least = int(losses[1:].mean(axis=0).argmin()), losses.min(axis=1, keepdims=True)
            met = losses <= least + _NEARLY * np.abs(least)
        curve = self.at(points[best])
        found = {name: getattr(curve, name) for name in ("precision", "recall", "f1", "cost")}
        estimates = {name: None if x is None else _of(x) for name, x in found.items()}
        return BestThreshold(float(points[best]), float(met[1:, best].mean()), **estimates)

    def _ranked(self) -> _Ranked:
        if self.ranked is None:
            raise errors.missing("thresholds need a class; call metrics(positive=...).")
        return self.ranked


def title(name: str, k: int | None = None) -> str:
    """Return the name of a metric as a reader sees it.

    Examples
    --------
    >>> title("f1"), title("average_precision"), title("precision_at_k", 500)
    ('F1', 'Average precision', 'Precision at 500')
    """
    words = "AUROC" if name == "auroc" else name.replace("_", " ").capitalize()
    return words if k is None else words.replace(" at k", f" at {k:,}")


def in_words(value: Estimate, source: float | None = None) -> str:
    """Return an estimate as a reader sees it.

    Examples
    --------
    >>> in_words(Estimate(0.61, 0.52, 0.69, "decisions"), 0.74)
    '0.61 (0.52 to 0.69), was 0.74 at the source'
    """
    digits = 2 if abs(value.high) < 10.0 else 0
    text = f"{value.value:,.{digits}f} ({value.low:,.{digits}f} to {value.high:,.{digits}f})"
    return text if source is None else f"{text}, was {source:.{digits}f} at the source"


def _plain(value: Estimate | None) -> dict[str, float] | None:
    return None if value is None else {name: getattr(value, name) for name in _ENDS}


def _band(draws: FloatArray) -> FloatArray:
    """Return value, low and high (..., 3) of draws (D, ...), the first of which is the value."""
    value = _often(draws)[0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # where no draw is defined
        low, high = np.nanquantile(draws[1:], (0.05, 0.95), axis=0)
    ends = np.fmin(low, value) + 0.0 * value, np.fmax(high, value) + 0.0 * value
    return np.stack([value, *ends], axis=-1)


def _often(draws: FloatArray) -> FloatArray:
    """Return draws (D, ...) of which the value is undefined where most of the others are."""
    seldom = np.isnan(draws[1:]).mean(axis=0) > 0.5
    return np.concatenate([np.where(seldom, np.nan, draws[:1]), draws[1:]])


def _of(band: FloatArray) -> Estimate | None:
    value, low, high = np.ravel(band).tolist()
    return None if np.isnan(value) else Estimate(value, low, high, METHOD)


def _mean(values: FloatArray, weights: FloatArray) -> FloatArray:
    """Return the mean over the last axis of what is defined."""
    known = ~np.isnan(values)
    total = (weights * known).sum(axis=-1)
    mean = (weights * np.where(known, values, 0.0)).sum(axis=-1) / np.maximum(total, 1e-300)
    return np.asarray(np.where(total > 0.0, mean, np.nan))


def estimate(
    answer: Answer,
    reading: Reading,
    probabilities: FloatArray,
    labels: Labels,
    class_names: Sequence[str] = (),
    positive: int | str | None = None,
    threshold: float | None = None,
    k: int | None = None,
    costs: ArrayLike | None = None,
    segments: Sequence[Any] | NDArray[Any] | None = None,
) -> Metrics:
    """Return the metrics that an answer implies; see `graphtemper.Recalibration.metrics`."""
    size, classes = probabilities.shape
    if not size:
        raise InputError("only a result in memory has metrics; take it from recalibrate.")
    if positive is None and (threshold is not None or k is not None):
        raise errors.missing("a threshold and k need a class; pass positive= as well.")
    chosen = None if positive is None else class_number(positive, class_names, classes)
    threshold = None if threshold is None else check_unit(threshold, "threshold")
    k = None if k is None else check_integer(k, "k", 1, size)
    table = None if costs is None else checked_costs(costs, classes if chosen is None else 2)
    known = answer, reading, probabilities, labels, class_names
    job = _Job(*known, chosen, threshold, table)
    whole = job.measure(np.arange(size), k=k)
    if segments is not None:
        whole.segments.update(job.parts(np.asarray(segments)))
    return whole


def class_number(positive: int | str, names: Sequence[str], classes: int) -> int:
    """Return the number of a class that is given by number or name."""
    if isinstance(positive, str):
        if positive in names:
            return names.index(positive)
        if not positive.isdecimal():
            known = f"the graph names {', '.join(names)}" if names else "give its number"
            raise errors.choice(f"there is no class {positive!r:.60}; {known}.")
        positive = int(positive)
    return check_integer(positive, "positive", 0, classes - 1)


class _Job:
    """What all groups of nodes of one answer share."""

    def __init__(
        self,
        answer: Answer,
        reading: Reading,
        p: FloatArray,
        labels: Labels,
        class_names: Sequence[str],
        positive: int | None,
        threshold: float | None,
        costs: FloatArray | None,
    ) -> None:
        self.labels, self.card = labels, reading.card
        self.positive, self.threshold, self.costs = positive, threshold, costs
        self.names = class_names or range(p.shape[1])
        self.rng, self.classes = stream(0, "decisions"), p.shape[1]
        accuracy = before = answer.accuracy
        if self.labels.rows.size:
            before = reading.estimate
        gap = float(np.hypot(before.centre - log_odds(answer.claimed), before.deviation))
        prior = class_bias.expected(self.card, reading.moved_fraction, gap, len(p))
        # At the source temperature: few labels may have made the probabilities nearly flat.
        self.logits = np.log(np.maximum(p, np.finfo(np.float64).tiny)) / answer.slope
        self.draws = posterior.draw(self.logits, accuracy, before, prior, self.labels, self.rng)
        self.known = np.full(len(p), -1)
        self.known[self.labels.rows] = self.labels.classes
        self.predicted = p.argmax(axis=1)
        self.scores = p if positive is None else p[:, [positive]]
        self.flagged = self.predicted == positive
        if threshold is not None:
            self.flagged = self.scores[:, 0] >= threshold

    def parts(self, segments: NDArray[Any]) -> Iterator[tuple[Any, Metrics]]:
        """Return the metrics of segments.

        The bias of a segment is none on average, and moves with the labels in it (partial pooling).
        """
        if segments.shape != self.predicted.shape:
            raise errors.shape(
                f"segments must name one for each of the {self.predicted.size} nodes, not have "
                f"shape {segments.shape}."
            )
        segments = segments.astype(str) if segments.dtype == object else segments
        names, index = np.unique(segments, return_inverse=True)
        if names.size > MOST_SEGMENTS:
            raise errors.range(
                f"there are {names.size} segments, over the {MOST_SEGMENTS} that are allowed; "
                "merge some."
            )
        rows = self.labels.rows
        p = self.draws.probabilities(self.logits[rows], self.predicted[rows], 0)
        centre, deviation = posterior.effects(p, self.labels, index[rows], names.size)
        for number, name in enumerate(names.tolist()):
            moved = self.rng.standard_normal(self.draws.biases.shape) * deviation[number]
            moved *= posterior.WIDER
            moved[0] = 0.0
            own = class_bias.centred(centre[number] + moved)
            yield name, self.measure(np.flatnonzero(index == number), own)

    def measure(
        self, rows: NDArray[np.intp], own: FloatArray | None = None, k: int | None = None
    ) -> Metrics:
        """Return the metrics of some nodes; ``own`` (D, K) is added to their logits."""
        rows, weights = self._thinned(rows)
        scores, flagged, one = self.scores[rows], self.flagged[rows], self.positive
        orders = [groups(score) for score in scores.T]
        counts = [np.add.reduceat(weights[order], starts) for order, starts in orders]
        size = len(self.draws.biases)
        hits = [np.zeros((size, count.size)) for count in counts]
        tables, pairs = np.zeros((size, self.classes, self.classes)), np.zeros((size, 2, 2))
        decided = np.eye(self.classes)[self.predicted[rows]]
        for d in range(size):
            drawn = self._drawn(rows, weights, own, d)
            tables[d] = drawn.T @ decided
            asked = drawn if one is None else drawn[:, [one]]
            for j, (order, starts) in enumerate(orders):
                hits[j][d] = np.add.reduceat(asked[order, j], starts)
            if one is not None:
                caught, other = asked[:, 0], weights - asked[:, 0]
                parts = other[~flagged], other[flagged], caught[~flagged], caught[flagged]
                pairs[d] = _two(*(part.sum() for part in parts))
        rankings = [ranking(*pair) for pair in zip(hits, counts, strict=True)]
        weighted: dict[str, Estimate | None] = {}
        if one is None:
            pairs = tables
            every = rates(tables) | {
                name: np.stack([item[name] for item in rankings], axis=-1) for name in RANKINGS
            }
            every = {name: _often(x) for name, x in every.items()}
            found = {name: _mean(x, np.ones_like(x)) for name, x in every.items()}
            members = tables.sum(axis=2)
            weighted = {name: _of(_band(_mean(x, members))) for name, x in every.items()}
        else:
            found = {name: x[:, 1] for name, x in rates(pairs).items()} | rankings[0]
            if self.classes == 2:
                tables = pairs if one else pairs[:, ::-1, ::-1]
        if k is not None:
            first, total = top(hits[0], counts[0], k), hits[0].sum(axis=1)
            found["precision_at_k"] = first / k
            found["recall_at_k"] = np.where(total > 0.0, first / np.maximum(total, 1e-9), np.nan)
        if self.costs is not None:
            found["cost"] = (self.costs * pairs).sum(axis=(-2, -1))
        values: dict[str, Any] = dict.fromkeys(NAMES)
        values |= {name: _of(_band(draws)) for name, draws in found.items()}
        order, starts = orders[0]
        return Metrics(
            **values,
            confusion=Confusion(*np.moveaxis(_band(tables), -1, 0)),
            weighted=weighted,
            source=self._at_source(),
            reasons={name: _WHY[name] for name, value in values.items() if value is None},
            notes=self._notes(),
            num_nodes=round(float(weights.sum())),
            positive=one,
            threshold=self.threshold,
            k=k,
            costs=self.costs,
            ranked=None if one is None else _Ranked(scores[order[starts], 0], counts[0], hits[0]),
        )

    def _drawn(
        self, rows: NDArray[np.intp], weights: FloatArray, own: FloatArray | None, d: int
    ) -> FloatArray:
        """Return the nodes (m, K) of each class that rows stand for: expected ones, or drawn ones.

        A row that stands for w nodes has the mean and the variance of w independent ones.
        """
        p = self.draws.probabilities(self.logits[rows], self.predicted[rows], d)
        if own is not None:
            p = temperatures.apply(np.log(np.maximum(p, 1e-300)) + own[d])
        given = self.known[rows] >= 0
        p[given] = np.eye(self.classes)[self.known[rows][given]]
        expected = weights[:, None] * p
        if d == 0:
            return np.asarray(expected)
        below = np.cumsum(p, axis=1)[:, :-1] < self.rng.random((len(p), 1))
        one_hot = np.eye(self.classes)[below.sum(axis=1)]
        return np.asarray(expected + np.sqrt(weights)[:, None] * (one_hot - p))

    def _thinned(self, rows: NDArray[np.intp]) -> tuple[NDArray[np.intp], FloatArray]:
        """Return rows to work on, and how many nodes each stands for."""
        most = _ROWS_OF_ALL if self.positive is None else _ROWS
        given = self.known[rows] >= 0
        free, kept = rows[~given], rows[given]
        if free.size <= most:
            return rows, np.ones(rows.size)
        head = 0 if self.positive is None else most // 2
        if head:
            free = free[np.argsort(-self.scores[free, 0], kind="stable")]
        else:
            free = free[np.lexsort((self.scores[free].max(axis=1), self.predicted[free]))]
        ends = np.linspace(head, free.size, most - head + 1).astype(np.intp)
        starts = np.append(np.arange(head), ends[:-1])
        steps = np.diff(np.append(starts, free.size))
        middle = free[starts + (steps - 1) // 2]
        return np.append(middle, kept), np.append(steps, np.ones(kept.size))

    def _at_source(self) -> dict[str, float]:
        """Return what the card knows of the same metrics at the source."""
        profile, same = self.card.class_profile, self.classes == 2 and self.threshold == 0.5
        one = range(self.classes) if self.positive is None else [self.positive]
        members = self.card.reference.moments.shares[one] * self.card.effective_nodes
        vague = bool((members < FEWEST).any())  # their counts are those of other classes
        if profile is None or vague or not (self.threshold is None or same):
            return {}
        found = rates(profile.counts.reshape(self.classes, -1, self.classes).sum(axis=1).T)
        means = {name: float(_mean(x[one], np.ones(len(one)))) for name, x in found.items()}
        return {name: value for name, value in means.items() if not np.isnan(value)}

    def _notes(self) -> list[str]:
        members = self.card.reference.moments.shares * self.card.effective_nodes
        few = np.flatnonzero(members < class_bias.FEW_MEMBERS)
        if self.positive is not None:
            few = few[few == self.positive]
        counts = ((self.names[k], f"{members[k]:.0f}") for k in few.tolist())
        return [f"the card has only {n} nodes of class {k}; intervals are wide." for k, n in counts]
