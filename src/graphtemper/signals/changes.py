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
    *(
        "no_link_signal",
        "class_shares",
        "class_never",
        "one_class",
        "confidence_beyond",
        "nodes_unseen",
    ),
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
        How large it is, in units of what is worth a mention; 10 and more if nothing can be said.
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
        The share of the entries of each column that have its most common value, (m,); NaN where
        that is unknown.
    num_nodes
        Number of nodes.
    degree, isolated, mutual
        Neighbours per node, None if edges are unknown; the share of nodes without any, and that of
        edges which exist in both directions.
    feature_names
        Names of all columns of the graph; in memory only.
    """

    mean: FloatArray
    deviation: FloatArray
    common: FloatArray
    num_nodes: int
    degree: float | None = None
    isolated: float = 0.0
    mutual: float = 1.0
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
        return Profile(mean, deviation, np.full(mean.size, np.nan), num_nodes)

    def largest(self, count: int) -> Baseline | None:
        """Return the baseline of the columns with the largest variance; None if there are none."""
        kept = np.sort(np.argsort(-self.whole.deviation, kind="stable")[:count])
        sides = {name: _rows(getattr(self, name), kept) for name in ("nodes", "whole")}
        return replace(_rows(self, kept), **sides) if count else None

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
        sides = self.nodes, self.whole
        return min(sides, key=lambda side: _distances(side, target).clip(0.0, 10.0).sum())

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
    unlinked: bool = False,
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
    reads_edges, unlinked
        Whether the model's answers depend on edges, and whether links carry no signal any more.
    """
    found = [*_predictions(source, evidence, seen, usual, num_nodes)]
    if baseline is not None and target is not None:
        found += _columns(baseline, target)
        found += _edges(baseline.like(target), target, source, evidence, reads_edges)
        found += _unseen(baseline, target)
    if unlinked and not any(item.broken for item in found):  # which would be the cause
        text = "links carry no signal: features or links may belong to other nodes."
        known = "signal of links", None, None, _BROKEN, text
        found.append(Change("no_link_signal", "edges", *known))
    return tuple(sorted((x for x in found if x.size >= 1.0), key=lambda change: -change.size))


def telling(found: Sequence[Change], most: int) -> list[Change]:
    """Return the largest changes, but at most two of a kind as long as there are others."""
    ranks = [sum(x.kind == item.kind for x in found[:here]) > 1 for here, item in enumerate(found)]
    order = sorted(range(len(found)), key=ranks.__getitem__)[:most]
    return [found[here] for here in sorted(order)]


def _columns(baseline: Baseline, target: Profile) -> Iterator[Change]:
    """Yield what happened to all columns, or else to each."""
    source = baseline.like(target)
    varied, varies = source.deviation > 0.0, target.deviation > 0.0
    if not varied.any():
        return
    together = _together(source, target)
    if together is not None:
        yield Change(together[0], "columns", "all columns", None, *together[1:], broken=True)
        return
    label = [_label(int(number), target.feature_names) for number in baseline.columns]
    order, gain = _order(source, target)
    other = np.flatnonzero(order != np.arange(order.size))
    if other.size:
        pairs = [f"{label[x]} looks like {label[order[x]].rstrip(',')}" for x in other[:3]]
        what = "columns are in another order"
        text = f"{what}: {', '.join(pairs)}{' ...' * (other.size > 3)}."
        if other.size == 2:
            what = "2 columns look exchanged"
            text = f"{what}: {pairs[0]}, and the other way round."
        known = what, None, float(other.size), _BROKEN + gain, text
        yield Change("columns_order", "columns", *known, broken=True)
    steps, factors = baseline.moved(target)
    both = varied & varies
    logs = np.log(target.deviation[both] / source.deviation[both])
    others = float(np.median(logs)) if logs.size > 2 else 0.0
    for here in np.setdiff1d(np.flatnonzero(varied | varies), other):
        moved = float(steps[here]), float(factors[here])
        yield _column(baseline, source, target, int(here), label[here], *moved, others)


def _together(source: Profile, target: Profile) -> tuple[str, float | None, float, str] | None:
    """Return what happened to all columns at once: a code, a value, a size and a sentence."""
    if target.num_nodes > 1 and not np.any(target.deviation > 0.0):
        return "nodes_same", None, 10.0 * _BROKEN, "all nodes have the same features."
    scale = _common_scale(source, target)
    if scale is not None:
        text = f"all columns are on another scale (x {scale:.3g})."
        return "columns_scale", scale, _BROKEN + abs(float(np.log(scale))), text
    if _standard(target) and not _standard(source):
        text = "the columns were standardised: all have mean 0 and deviation 1 (not so before)."
        return "columns_standardised", None, _BROKEN, text
    return None


def _column(
    baseline: Baseline,
    source: Profile,
    target: Profile,
    here: int,
    label: str,
    step: float,
    factor: float,
    others: float,
) -> Change:
    """Return the most that can be said of a column.

    ``step`` and ``factor`` say how far mean and deviation moved, and ``others`` is the logarithm of
    the usual ratio of deviations.
    """
    mean, deviation = float(source.mean[here]), float(source.deviation[here])
    now, spread = float(target.mean[here]), float(target.deviation[here])
    common, filled = float(source.common[here]), float(target.common[here])
    dense, broken = common < _DENSE, False
    least = _LEAST_STEP if baseline.environments > 2 else _STEP
    sizes = (
        step / max(least, _BEYOND * float(baseline.steps[here])),
        factor / max(np.log(_FACTOR), _BEYOND * float(baseline.factors[here])) * dense,
    )
    size, scale = max(sizes), spread / deviation if deviation > 0.0 else 0.0
    code = "column_mean" if sizes[0] == size else "column_spread"
    was = f"(was {mean:.3g} ± {deviation:.3g})"
    text = f"{label} moved to {now:.3g} ± {spread:.3g} {was}."
    if scale == 0.0 and deviation > 0.0:
        # A rare value may be missing from a few nodes.
        size = _BROKEN * (1.0 + dense - common) * (target.num_nodes * (1.0 - common) >= 10.0)
        code, broken, text = "column_constant", dense, f"{label} is {now:.3g} everywhere {was}."
    elif deviation == 0.0:
        code, size = "column_varies", _BROKEN * (1.0 - np.nan_to_num(filled, nan=0.8))
        text = f"{label} varies, {now:.3g} ± {spread:.3g} (was {mean:.3g} everywhere)."
    elif (
        dense
        and abs(np.log(scale)) >= np.log(_SCALE)
        and abs(others) < np.log(_FACTOR)
        and _same_mean(mean / deviation, now / spread)
    ):
        code, size, broken = "column_scale", _BROKEN + abs(float(np.log(scale))), True
        text = f"{label} is on another scale (x {scale:.3g}): {now:.3g} ± {spread:.3g} {was}."
    elif filled - common >= _FILLED and (size >= 1.0 or not baseline.environments):
        code, size = "column_filled", max(size, (filled - common) / _FILLED)
        text = f"{label} has one value at {filled:.0%} of the nodes (was {common:.0%})."
    name = label.partition("`")[2].rstrip("`,") or label.removeprefix("column ")
    return Change(code, "column", name, mean, now, float(size), text, broken)


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
    """Yield what happened to the edges, however small."""
    was, now = source.degree, target.degree
    if was is None or now is None:
        return
    if now == 0.0 < was:
        text = f"no edges (was {was:.2g} per node)."
        known = "edges", "edges per node", was, now, 2.0 * _BROKEN, text
        yield Change("edges_none", *known, broken=reads_edges)
        return
    ratio = float(np.log(max(now, 1e-3) / max(was, 1e-3)) / np.log(_FACTOR))
    code, text = "edges_fewer" if ratio < 0.0 else "edges_more", f"{now:.2g} edges per node"
    values = "edges per node", was, now
    yield Change(code, "edges", *values, abs(ratio), f"{text} (was {was:.2g}).")
    lost = source.mutual - target.mutual
    text = f"only one direction of each edge: {target.mutual:.0%} have their reverse"
    values = "edges in both directions", source.mutual, target.mutual
    size = 8.0 * lost * (lost >= 0.5)
    yield Change("edges_one_way", "edges", *values, size, f"{text} (was {source.mutual:.0%}).")
    values = "nodes without neighbours", source.isolated, target.isolated
    text = f"{target.isolated:.0%} of nodes have no neighbours (was {source.isolated:.0%})."
    size = (target.isolated - source.isolated) / _SHARE
    yield Change("nodes_isolated", "edges", *values, size, text)
    if before.homophily is not None and after.homophily is not None:
        size = (after.homophily - before.homophily) / _SHARE
        text = f"{'fewer' if size < 0.0 else 'more'} neighbours are predicted alike"
        values = "homophily of predictions", before.homophily, after.homophily
        text = f"{text}: {after.homophily:.0%} (was {before.homophily:.0%})."
        yield Change("homophily", "edges", *values, abs(size), text)


def _predictions(
    source: Evidence,
    target: Evidence,
    seen: Sequence[float],
    usual: float | FloatArray,
    num_nodes: int,
) -> Iterator[Change]:
    """Yield what happened to the predictions, however small."""
    was, now = source.predicted_shares, target.predicted_shares
    sizes = np.abs(now - was) / np.maximum(_SHARE, _BEYOND * usual)
    top, most = int(now.argmax()), int(sizes.argmax())
    gone = np.flatnonzero((now == 0.0) & (was >= 0.02) & (was * num_nodes >= 20.0))
    if now[top] >= 0.995 and was[top] < 0.95 and num_nodes > 1:
        many = "all nodes" if now[top] == 1.0 else f"{now[top]:.1%} of nodes"
        rows = [("one_class", top, _STRIKING, f"is predicted for {many}")]
    else:
        rows = [("class_never", int(k), 1.0 + was[k] / _SHARE, "is never predicted") for k in gone]
        text = f"is predicted for {now[most]:.0%} of nodes"
        rows += [("class_shares", most, float(sizes[most] * (now[most] > 0.0)), text)]
    for code, k, size, text in rows:
        values = f"class {k}", float(was[k]), float(now[k]), float(size)
        yield Change(code, "predictions", *values, f"class {k} {text} (was {was[k]:.0%}).")
    beyond = log_odds(target.confidence) - max([*seen, log_odds(source.confidence)])
    text = f"mean confidence is {target.confidence:.1%}, beyond anything seen"
    both, size = (source.confidence, target.confidence), min(beyond / _LOG_ODDS, _STRIKING)
    text = f"{text} (was {source.confidence:.1%})."
    yield Change("confidence_beyond", "predictions", "mean confidence", *both, size, text)


def _unseen(baseline: Baseline, target: Profile) -> Iterator[Change]:
    """Yield that the target looks like all of the source's nodes, and not like the card's."""
    known, whole = baseline.nodes, baseline.whole
    near, far = (float(_distances(item, target).sum()) for item in (whole, known))
    text = (
        f"kinds of nodes that the card has not seen: it was built from {known.num_nodes:,} of the "
        f"source's {whole.num_nodes:,} nodes, of which {baseline.unlabelled:,} have no label."
    )
    size = float(far >= 2.0 * near + 0.01 * known.mean.size * _CHANCE)
    yield Change("nodes_unseen", "nodes", "nodes of the card", None, None, size, text)


def _rows(part: Any, kept: NDArray[np.int64]) -> Any:
    """Return an object of which each array has some of its rows."""
    arrays = {key: value for key, value in vars(part).items() if isinstance(value, np.ndarray)}
    return replace(part, **{key: value[kept] for key, value in arrays.items()})


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


def _mutual(graph: Graph) -> float:
    """Return the share of directed edges whose reverse exists; 1 for undirected edges."""
    if not graph.directed:
        return 1.0
    ends = graph.edges[graph.edges[:, 0] != graph.edges[:, 1]].astype(np.int64)
    arcs = np.unique(ends[:, 0] * graph.num_nodes + ends[:, 1]).size
    pairs = np.unique(ends.min(axis=1) * graph.num_nodes + ends.max(axis=1)).size
    return 2.0 * (arcs - pairs) / arcs if arcs else 1.0
