r"""Changes: what differs between a target and the source, each with its name, values and size.

Columns are compared by mean and deviation. Whether a column *looks like another one* is a question
of the distance of two normal distributions with these moments (Bhattacharyya, 1943),

.. math:: D = \tfrac14 \ln\Bigl(\tfrac14 \bigl(\tfrac{s^2}{t^2} + \tfrac{t^2}{s^2} + 2\bigr)\Bigr)
              + \tfrac14 \frac{(\mu_s - \mu_t)^2}{s^2 + t^2} .

If the columns were given in another order, the best one-to-one assignment of the target's columns
to the source's makes the sum of distances smaller by a factor of 7 to 60; between months, releases,
countries and languages it does so by at most 3, and an exchange of two columns by at most 1.4.
Columns with equal moments, such as standardised ones, cannot be told apart in this way.

A change is `Change.broken` if the input can hardly be meant: columns in another order or on another
scale, a column that varied and is constant, all nodes the same, or no edges where there were some.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from graphtemper._core.checks import FloatArray
from graphtemper._core.numerics import log_odds
from graphtemper._core.printable import printable
from graphtemper.graph.checks import Features
from graphtemper.graph.graph import Graph
from graphtemper.graph.operators import column_moments
from graphtemper.signals.evidence import Evidence

Moments = tuple[FloatArray, FloatArray]
"""Mean and standard deviation of all columns of a graph."""
CODES = (
    *("column_constant", "column_filled", "column_mean", "column_scale", "column_spread"),
    *("column_varies", "columns_order", "columns_scale", "columns_standardised", "nodes_same"),
    *("edges_none", "edges_fewer", "edges_more", "edges_one_way", "nodes_isolated", "homophily"),
    *("class_shares", "class_never", "one_class", "confidence_beyond", "nodes_unseen"),
)
"""The codes of all changes."""
MOST_COLUMNS = 1000
"""Most columns that are compared: those with the largest variance at the source."""
# Means that moved by less than this many source deviations, and deviations that changed by less
# than this factor, are no news.
_STEP, _FACTOR = 1.0, 2.0
# With labelled environments: the same, at least, and times the largest move between them.
_LEAST_STEP, _BEYOND = 0.25, 1.5
# A column is dense if its most common value has less than this share of the entries.
_DENSE = 0.65
# How much more of a column than at the source has one value if it was filled in.
_FILLED = 0.2
# What another order explains: the gain and the mean distance of all columns, and of two.
_ORDER, _ORDER_APART, _PAIR, _PAIR_APART = 8.0, 0.25, 4.0, 0.1
_FARTHEST = 2.0
# Two columns are compared if neither has one value at more than this share of its entries.
_RARE = 0.9
# A distance of moments that chance explains.
_CHANCE = 0.005
# Factor between two scales; how far its logarithm may differ between columns, and means move.
_SCALE, _SAME_SCALE, _SAME_MEAN = 5.0, 0.7, 0.4
# Changes of shares of predictions, of neighbours that are predicted alike and of nodes without
# neighbours that are news, and those of the log-odds of confidence.
_SHARE, _LOG_ODDS = 0.2, 0.5
_BROKEN = 10.0
# The size of what follows from a change of the input, at most.
_STRIKING = 5.0
# Entries by which the most common value is found.
_ROWS, _LAGS = 2000, 8
_LONGEST = 60
# Nodes that moments have to be of.
_FEWEST = 10


@dataclass(frozen=True)
class Change:
    """Something about a target that differs from the source.

    Attributes
    ----------
    code
        A stable identifier, such as ``"column_constant"``.
    kind
        ``"column"``, ``"columns"``, ``"edges"``, ``"predictions"`` or ``"nodes"``.
    name
        What it is about: a column by its name or number, a class, or a quantity.
    source, target
        Its value at the source and here, if it has one.
    size
        How large it is, in units of what is worth a mention; 10 and more if the input is broken.
    text
        A sentence for people, whose wording may change.
    broken
        Whether the input can hardly be meant.

    Examples
    --------
    >>> change = Change("edges_none", "edges", "edges per node", 5.9, 0.0, 10.0, "no edges.", True)
    >>> str(change), change.code
    ('no edges.', 'edges_none')
    """

    code: str
    kind: str
    name: str
    source: float | None
    target: float | None
    size: float
    text: str
    broken: bool = False

    def __str__(self) -> str:
        return self.text

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python values."""
        return asdict(self)


@dataclass(frozen=True, eq=False)
class Profile:
    """Moments of some nodes of a graph, and counts of their edges.

    Attributes
    ----------
    mean, deviation
        Of the compared columns, (m,).
    common
        The share of the entries of each column that have its most common value, (m,); empty if
        unknown.
    num_nodes
        Number of nodes.
    degree, isolated, mutual
        Neighbours per node, the share of nodes without any, and that of edges which exist in both
        directions; None if edges are unknown.
    feature_names
        Names of all columns of the graph; in memory only.
    """

    mean: FloatArray
    deviation: FloatArray
    common: FloatArray
    num_nodes: int
    degree: float | None = None
    isolated: float | None = None
    mutual: float | None = None
    feature_names: tuple[str, ...] | None = None

    @classmethod
    def measure(
        cls,
        graph: Graph,
        nodes: NDArray[np.int64],
        moments: Moments,
        columns: NDArray[np.int64],
    ) -> Profile:
        """Measure nodes of a graph, of which the moments of all columns are known."""
        degrees = graph.degrees[nodes]
        return cls(
            mean=moments[0][columns],
            deviation=moments[1][columns],
            common=_common(graph.features, nodes, columns),
            num_nodes=int(nodes.size),
            degree=float(degrees.mean()),
            isolated=float((degrees == 0).mean()),
            mutual=_mutual(graph),
            feature_names=graph.feature_names,
        )


@dataclass(frozen=True, eq=False)
class Baseline:
    """What a target is compared with.

    Attributes
    ----------
    columns
        Numbers of the compared columns, (m,), as floats.
    nodes, whole
        The labelled nodes of the source that a card was built from, and all of its nodes.
    steps, factors
        The largest move of each mean in source deviations, and the largest change of the logarithm
        of each deviation, between the source and labelled environments, (m,); zeros without any.
    environments, unlabelled
        How many of these there were; and how many nodes of the source have no label.
    """

    columns: FloatArray
    nodes: Profile
    whole: Profile
    steps: FloatArray
    factors: FloatArray
    environments: int = 0
    unlabelled: int = 0

    @classmethod
    def measure(cls, graph: Graph, nodes: NDArray[np.int64], own: Moments) -> Baseline:
        """Measure the source at labelled nodes, of which the moments are known."""
        every = graph.classified
        if every.size < nodes.size + _FEWEST:  # the difference would be about few nodes
            every, moments = nodes, own
        else:
            moments = column_moments(graph.features[every])
        columns = np.sort(np.argsort(-moments[1], kind="stable")[:MOST_COLUMNS])
        nothing = np.zeros(columns.size)
        return cls(
            columns.astype(np.float64),
            Profile.measure(graph, nodes, own, columns),
            Profile.measure(graph, every, moments, columns),
            steps=nothing,
            factors=nothing,
            unlabelled=max(int(every.size - graph.labelled.size), 0),
        )

    def profile(
        self, graph: Graph, nodes: NDArray[np.int64], moments: Moments | None = None
    ) -> Profile:
        """Measure nodes of a target; moments of all columns may be known."""
        known = column_moments(graph.features[nodes]) if moments is None else moments
        return Profile.measure(graph, nodes, known, self.columns.astype(np.int64))

    def of_moments(self, moments: Moments, num_nodes: int) -> Profile:
        """Return what is known of a target in files."""
        mean, deviation = (values[self.columns.astype(np.int64)] for values in moments)
        return Profile(mean, deviation, np.empty(0), num_nodes)

    def largest(self, count: int) -> Baseline | None:
        """Return the baseline of the columns with the largest variance; None if there are none."""
        kept = np.sort(np.argsort(-self.whole.deviation, kind="stable")[:count])
        nodes, whole = (
            replace(x, mean=x.mean[kept], deviation=x.deviation[kept], common=x.common[kept])
            for x in (self.nodes, self.whole)
        )
        found = Baseline(
            self.columns[kept],
            nodes,
            whole,
            self.steps[kept],
            self.factors[kept],
            self.environments,
            self.unlabelled,
        )
        return found if count else None

    def moved(self, target: Profile) -> tuple[FloatArray, FloatArray]:
        """Return how far means and deviations lie from the source's, beyond chance; both (m,)."""
        source = self.like(target)
        used = (source.deviation > 0.0) & (target.deviation > 0.0)
        spread = np.where(used, source.deviation, 1.0)
        ratio = np.where(used, target.deviation, 1.0) / spread
        chance = np.sqrt(1.0 / source.num_nodes + np.maximum(ratio, 1.0) ** 2 / target.num_nodes)
        steps = np.abs(target.mean - source.mean) / spread - 3.0 * chance
        constant = (source.deviation > 0.0) & (target.deviation == 0.0)
        factors = np.where(used, np.abs(np.log(ratio)), 0.0)
        return np.where(used | constant, np.maximum(steps, 0.0), 0.0), factors

    def like(self, target: Profile) -> Profile:
        """Return the profile of the source's nodes that the target resembles more."""
        apart = [
            _distances(item, target).clip(0.0, 10.0).sum() for item in (self.nodes, self.whole)
        ]
        return self.nodes if apart[0] <= apart[1] else self.whole

    def learned(self, target: Profile) -> Baseline:
        """Return the baseline after one more labelled environment."""
        steps, factors = self.moved(target)
        return replace(
            self,
            steps=np.maximum(self.steps, steps),
            factors=np.maximum(self.factors, factors),
            environments=self.environments + 1,
        )


def compare(
    baseline: Baseline | None,
    target: Profile | None,
    source: Evidence,
    evidence: Evidence,
    seen: Sequence[float] = (),
    usual: float | FloatArray = 0.0,
    *,
    num_nodes: int,
    reads_edges: bool = True,
) -> tuple[Change, ...]:
    """Return what differs, largest first.

    Parameters
    ----------
    baseline, target
        The profiles of both sides; None if the columns of one are unknown.
    source, evidence
        What was measured of the model's predictions on both sides.
    seen
        Log-odds of mean confidence under known shifts.
    usual : (K,) array
        How far shares of the classes moved between labelled environments.
    num_nodes
        Number of nodes of the target.
    reads_edges
        Whether the model's answers depend on edges.
    """
    found = [*_predictions(source, evidence, seen, usual, num_nodes)]
    if baseline is not None and target is not None:
        found += _columns(baseline, target)
        found += _edges(baseline.like(target), target, source, evidence, reads_edges)
        found += _unseen(baseline, target)
    return tuple(sorted(found, key=lambda change: -change.size))


def telling(found: Sequence[Change], most: int) -> list[Change]:
    """Return the largest changes, but at most two of a kind as long as there are others."""
    ranks = [sum(x.kind == item.kind for x in found[:here]) > 1 for here, item in enumerate(found)]
    order = sorted(range(len(found)), key=ranks.__getitem__)[:most]
    return [found[here] for here in sorted(order)]


def _columns(baseline: Baseline, target: Profile) -> Iterator[Change]:
    """Yield what happened to all columns, or else to each."""
    source, numbers = baseline.like(target), baseline.columns.astype(np.int64)
    varied = source.deviation > 0.0
    if not varied.any():
        return
    if not np.any(target.deviation > 0.0) and target.num_nodes > 1:
        text = "all nodes have the same features."
        yield Change("nodes_same", "columns", "all columns", None, None, 10 * _BROKEN, text, True)
        return
    scale = _common_scale(source, target)
    if scale is not None:
        text = f"all columns are on another scale (x {scale:.3g})."
        size = _BROKEN + abs(float(np.log(scale)))
        yield Change("columns_scale", "columns", "all columns", 1.0, scale, size, text, True)
        return
    if _standard(target) and not _standard(source):
        text = "the columns were standardised: all have mean 0 and deviation 1 (not so before)."
        yield Change(
            "columns_standardised", "columns", "all columns", None, None, _BROKEN, text, True
        )
        return
    label = [_label(number, target.feature_names) for number in numbers]
    order, gain = _order(source, target)
    other = np.flatnonzero(order != np.arange(order.size))
    if other.size:
        pairs = [f"{label[here]} looks like {label[order[here]].rstrip(',')}" for here in other[:3]]
        more = " ..." if other.size > 3 else ""
        what = "2 columns look exchanged" if other.size == 2 else "columns are in another order"
        text = f"{what}: {', '.join(pairs[: 1 if other.size == 2 else 3])}{more}."
        size = _BROKEN + gain
        yield Change("columns_order", "columns", what, None, float(other.size), size, text, True)
    left = np.setdiff1d(np.flatnonzero(varied | (target.deviation > 0.0)), other)
    steps, factors = baseline.moved(target)
    both = varied & (target.deviation > 0.0)
    others = float(np.median(np.log(target.deviation[both] / source.deviation[both])))
    known = steps, factors, others * (both.sum() > 2)
    for here in left:
        change = _column(baseline, source, target, int(here), label[here], *known)
        if change is not None:
            yield change


def _column(
    baseline: Baseline,
    source: Profile,
    target: Profile,
    here: int,
    label: str,
    steps: FloatArray,
    factors: FloatArray,
    others: float,
) -> Change | None:
    """Return what happened to a column, if anything that is worth a mention did.

    ``others`` is the logarithm of the usual ratio of deviations.
    """
    name = label.partition("`")[2].rstrip("`,") or label.removeprefix("column ")
    mean, deviation = float(source.mean[here]), float(source.deviation[here])
    now, spread = float(target.mean[here]), float(target.deviation[here])
    common = source.common[here]
    dense = common < _DENSE
    was = f"(was {mean:.3g} ± {deviation:.3g})"
    values = "column", name, mean, now
    if spread == 0.0:
        expected = target.num_nodes * (1.0 - common)
        if expected < 10.0:
            return None
        size = 2.0 * _BROKEN if dense else _BROKEN * float(1.0 - common)
        if size < 1.0:
            return None
        text = f"{label} is {now:.3g} everywhere {was}."
        return Change("column_constant", *values, size, text, bool(dense))
    if deviation == 0.0:
        size = _BROKEN * float(1.0 - target.common[here]) if target.common.size else 2.0
        text = f"{label} varies, {now:.3g} ± {spread:.3g} (was {mean:.3g} everywhere)."
        return Change("column_varies", *values, size, text) if size >= 1.0 else None
    scale = spread / deviation
    stands_out = abs(np.log(scale)) >= np.log(_SCALE) and abs(others) < np.log(_FACTOR)
    if dense and stands_out and _same_mean(mean / deviation, now / spread):
        text = f"{label} is on another scale (x {scale:.3g}): {now:.3g} ± {spread:.3g} {was}."
        return Change("column_scale", *values, _BROKEN + abs(float(np.log(scale))), text, True)
    limit = max(_LEAST_STEP if baseline.environments > 2 else _STEP, _BEYOND * baseline.steps[here])
    stretch = max(float(np.log(_FACTOR)), _BEYOND * baseline.factors[here])
    size = max(steps[here] / limit, factors[here] / stretch * dense)
    filled = float(target.common[here] - common) if target.common.size else 0.0
    if filled >= _FILLED and (size >= 1.0 or not baseline.environments):
        text = (
            f"{label} has one value at {target.common[here]:.0%} of the nodes (was {common:.0%})."
        )
        return Change("column_filled", *values, float(max(size, filled / _FILLED)), text)
    if size < 1.0:
        return None
    code = "column_mean" if steps[here] / limit >= size else "column_spread"
    text = f"{label} moved to {now:.3g} ± {spread:.3g} {was}."
    return Change(code, *values, float(size), text)


def _label(number: int, names: Sequence[str] | None) -> str:
    named = "" if names is None or number >= len(names) else printable(names[number])[:_LONGEST]
    return f"column {number}, `{named}`," if named else f"column {number}"


def _common_scale(source: Profile, target: Profile) -> float | None:
    """Return the factor by which all columns are larger, if there is one."""
    used = (source.deviation > 0.0) & (target.deviation > 0.0)
    if used.sum() < 2:
        return None
    logs = np.log(target.deviation[used] / source.deviation[used])
    middle = float(np.median(logs))
    before = source.mean[used] / source.deviation[used]
    after = target.mean[used] / target.deviation[used]
    same = (np.abs(logs - middle) <= _SAME_SCALE) & _same_mean(before, after)
    return float(np.exp(middle)) if abs(middle) >= np.log(_SCALE) and same.mean() >= 0.8 else None


def _same_mean(before: Any, after: Any) -> Any:
    """Return whether means, each in its own deviations, are about the same."""
    return np.abs(after - before) <= np.maximum(1.0, _SAME_MEAN * np.abs(before))


def _standard(profile: Profile) -> bool:
    """Return whether nearly all columns that vary have mean 0 and deviation 1."""
    used = profile.deviation > 0.0
    fine = (np.abs(profile.mean[used]) < 0.02) & (np.abs(profile.deviation[used] - 1.0) < 0.02)
    return bool(used.sum() > 1 and fine.mean() > 0.9)


def _distances(source: Profile, target: Profile) -> FloatArray:
    """Return the distance of each column from itself, (m,); 0 for those that do not vary."""
    used = np.flatnonzero((source.deviation > 0.0) & (target.deviation > 0.0))
    found = np.zeros(source.mean.size)
    found[used] = _apart(source, target, used, used)
    return found


def _apart(source: Profile, target: Profile, rows: Any, columns: Any) -> FloatArray:
    """Return Bhattacharyya distances of columns of the source and of the target."""
    one, other = source.deviation[rows] ** 2, target.deviation[columns] ** 2
    gap = (source.mean[rows] - target.mean[columns]) ** 2
    spread = np.log(0.25 * (one / other + other / one + 2.0))
    return np.asarray(0.25 * spread + 0.25 * gap / (one + other))


def _order(source: Profile, target: Profile) -> tuple[NDArray[np.int64], float]:
    """Return which column of the source each of the target looks like, (m,), and what that gains.

    It is the identity unless another order explains the target far better.
    """
    order = np.arange(source.mean.size)
    used = np.flatnonzero((source.deviation > 0.0) & (target.deviation > 0.0))
    if used.size < 2 or _apart(source, target, used, used).max() < _PAIR_APART:
        return order, 0.0
    # One column that went far must not outweigh all others.
    apart = np.minimum(_apart(source, target, used[:, None], used[None]), _FARTHEST)
    own = np.diag(apart).copy()
    rows, columns = linear_sum_assignment(apart)
    matched = apart[rows, columns]
    chance = _CHANCE + float(np.median(matched))
    gain = float(own.sum() / (matched.sum() + used.size * _CHANCE))
    others = np.count_nonzero(rows != columns)
    if gain >= _ORDER and own.mean() >= _ORDER_APART and others > 2:
        order[used[columns]] = used[rows]
        return order, gain
    gains = (own[:, None] + own) / (apart + apart.T + 2.0 * chance)
    gains[np.minimum(own[:, None], own) < _PAIR_APART] = 0.0
    rare = source.common[used] > _RARE
    gains[rare] = gains[:, rare] = 0.0
    np.fill_diagonal(gains, 0.0)
    one, other = np.unravel_index(gains.argmax(), gains.shape)
    gain = float(gains[one, other])
    if gain < _PAIR:
        return order, 0.0
    order[used[one]], order[used[other]] = used[other], used[one]
    return order, gain


def _edges(
    source: Profile, target: Profile, before: Evidence, after: Evidence, reads_edges: bool
) -> Iterator[Change]:
    """Yield what happened to the edges."""
    if source.degree is None or target.degree is None:
        return
    was, now = source.degree, target.degree
    values = "edges", "edges per node", was, now
    if now == 0.0 and was > 0.0:
        text = f"no edges (was {was:.2g} per node)."
        yield Change("edges_none", *values, 2.0 * _BROKEN, text, reads_edges)
        return
    ratio = abs(float(np.log(max(now, 1e-3) / max(was, 1e-3)))) / float(np.log(_FACTOR))
    if ratio >= 1.0:
        code = "edges_fewer" if now < was else "edges_more"
        yield Change(code, *values, ratio, f"{now:.2g} edges per node (was {was:.2g}).")
    if source.mutual is not None and target.mutual is not None and now > 0.0:
        lost = source.mutual - target.mutual
        if lost >= 0.5:
            text = (
                f"only one direction of each edge: {target.mutual:.0%} have their reverse (was "
                f"{source.mutual:.0%})."
            )
            both = "edges", "edges in both directions", source.mutual, target.mutual
            yield Change("edges_one_way", *both, 8.0 * lost, text)
    if source.isolated is not None and target.isolated is not None:
        more = target.isolated - source.isolated
        if more >= _SHARE:
            text = f"{target.isolated:.0%} of nodes have no neighbours (was {source.isolated:.0%})."
            alone = "edges", "nodes without neighbours", source.isolated, target.isolated
            yield Change("nodes_isolated", *alone, more / _SHARE, text)
    if before.homophily is not None and after.homophily is not None:
        moved = abs(after.homophily - before.homophily)
        if moved >= _SHARE:
            word = "fewer" if after.homophily < before.homophily else "more"
            text = (
                f"{word} neighbours are predicted alike: {after.homophily:.0%} (was "
                f"{before.homophily:.0%})."
            )
            pair = "edges", "homophily of predictions", before.homophily, after.homophily
            yield Change("homophily", *pair, moved / _SHARE, text)


def _predictions(
    source: Evidence,
    target: Evidence,
    seen: Sequence[float],
    usual: float | FloatArray,
    num_nodes: int,
) -> Iterator[Change]:
    """Yield what happened to the predictions."""
    was, now = source.predicted_shares, target.predicted_shares
    top = int(now.argmax())
    if now[top] >= 0.995 and was[top] < 0.95 and num_nodes > 1:
        text = f"class {top} is predicted for {_whole(float(now[top]))} (was {was[top]:.0%})."
        known = f"class {top}", float(was[top]), float(now[top])
        yield Change("one_class", "predictions", *known, _STRIKING, text)
    else:
        gone = (now == 0.0) & (was >= 0.02) & (was * num_nodes >= 20.0)
        for k in map(int, np.flatnonzero(gone)):
            known = f"class {k}", float(was[k]), 0.0
            text = f"class {k} is never predicted (was {was[k]:.0%})."
            yield Change("class_never", "predictions", *known, 1.0 + known[1] / _SHARE, text)
        sizes = np.abs(now - was) / np.maximum(_SHARE, _BEYOND * usual)
        k = int(sizes.argmax())
        if sizes[k] >= 1.0 and now[k] > 0.0:
            known = f"class {k}", float(was[k]), float(now[k])
            text = f"class {k} is predicted for {now[k]:.0%} of nodes (was {was[k]:.0%})."
            yield Change("class_shares", "predictions", *known, float(sizes[k]), text)
    here, most = log_odds(target.confidence), max([*seen, log_odds(source.confidence)])
    if here - most >= _LOG_ODDS:
        text = (
            f"mean confidence is {target.confidence:.1%}, beyond anything seen (was "
            f"{source.confidence:.1%})."
        )
        size = min((here - most) / _LOG_ODDS, _STRIKING)
        known = "mean confidence", source.confidence, target.confidence
        yield Change("confidence_beyond", "predictions", *known, size, text)


def _whole(share: float) -> str:
    return "all nodes" if share == 1.0 else f"{share:.1%} of nodes"


def _unseen(baseline: Baseline, target: Profile) -> Iterator[Change]:
    """Yield that the target looks like all of the source's nodes, and not like the card's."""
    known, whole = baseline.nodes, baseline.whole
    near, far = (float(_distances(item, target).sum()) for item in (whole, known))
    if far < 2.0 * near + 0.01 * known.mean.size * _CHANCE:
        return
    missing = baseline.unlabelled
    text = (
        f"kinds of nodes that the card has not seen: it was built from {known.num_nodes:,} of the "
        f"source's {whole.num_nodes:,} nodes, of which {missing:,} have no label."
    )
    yield Change("nodes_unseen", "nodes", "nodes of the card", None, None, 1.0, text)


def _common(features: Features, nodes: NDArray[np.int64], columns: NDArray[np.int64]) -> FloatArray:
    """Return the share of each column's most common value, judging by how often entries are equal.

    If one value has the share q and the others are all different, two entries are equal with
    probability q squared.
    """
    chosen = np.random.default_rng(0).permutation(nodes)[:_ROWS]
    rows = features[chosen][:, columns]
    dense = rows if isinstance(rows, np.ndarray) else rows.toarray()
    equal = [(dense == np.roll(dense, lag, axis=0)).mean(axis=0) for lag in range(1, _LAGS + 1)]
    return np.asarray(np.sqrt(np.mean(equal, axis=0)))


def _mutual(graph: Graph) -> float | None:
    """Return the share of directed edges whose reverse exists; 1 for undirected edges."""
    if not graph.num_edges:
        return None
    if not graph.directed:
        return 1.0
    ends = graph.edges[graph.edges[:, 0] != graph.edges[:, 1]].astype(np.int64)
    arcs = np.unique(ends[:, 0] * graph.num_nodes + ends[:, 1]).size
    pairs = np.unique(ends.min(axis=1) * graph.num_nodes + ends.max(axis=1)).size
    return 2.0 * (arcs - pairs) / arcs if arcs else None
