r"""What a default card says of labels: attacks by somebody with the card, the graph and the model.

The attacker has the card, the model, all features and edges, and the lists of the labelled nodes,
but no label. Whatever a card holds of a fit to labels is an equation about them, because a fit is
where a gradient vanishes; counts and means are equations as they are. With one unknown
:math:`y_{ik} \in [0, 1]` per node and class, a linear programme takes, of all labels that fulfil
the equations up to their digits, those that the model finds most likely.

*Other labels* are those that the second opinion is fitted to. *Own labels* are those that the card
scores, attacked by class shares, class offsets, temperature, class biases, confusion table, recalls
and accuracy. The model was trained on neither. The accuracies and node responses of the atlas rest
on draws that no card holds, and are left out: attacks on these are a table of SECURITY.md.

*Rare members* have a class of their own that neither features nor edges show and that the model
never saw. The attacker knows how many there are and names as many.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.stats import rankdata

from graphtemper import Graph, SourceCard, csbm, errors, temperature
from graphtemper.models import SIGN
from graphtemper_research.harness import frame
from graphtemper_research.harness.cells import Case, Cell, Show
from graphtemper_research.harness.frame import Row, Rows
from graphtemper_research.harness.layout import Column, Table
from graphtemper_research.harness.numeric import FloatArray, stream
from graphtemper_research.harness.outcome import Comparison, at_most, reported
from graphtemper_research.harness.runner import Bench, Request, Selection
from graphtemper_research.trials import graph_names
from graphtemper_research.trials.graph_names import short

SCHEMA = "graphtemper.attack_cell/1"
BLOCK = "block model"
GRAPHS = (BLOCK, "county_2012", "twitch_ptbr")
SIZES, QUICK_SIZES = (60, 100, 200, 300, 1000), (60, 200)
RARE, QUICK_RARE = (1, 2, 3, 4, 5), (3,)
TRAINED, OUTSIDE = 300, 500
"""Labelled nodes that the model is trained on, and nodes without labels that are no members."""
FITTED = 2.0 / 3.0
"""Part of the other labels that the second opinion is fitted to; nobody knows which."""
GAIN = 0.04
"""Largest share of labels that a card may add to the better of the largest class and the model."""
FEWEST = 10
"""No smaller count may be read."""
# The parts that are attacked do not depend on the atlas, which is small for this reason.
_SHIFTS = {"noise": (0.5, 1.0), "drop": (0.5,), "rewire": (0.3,)}
# How much an equation counts against a unit of the model's log-odds. The best counts.
_WEIGHTS = (1.0, 10.0, 100.0)
_LEAST = 1e-3
# A class without members has a smaller constant.
_ABSENT = -500.0
_OTHER, _OWN = "other labels", "own labels"

Rows64 = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Equations:
    """Linear equations ``rows @ y = values`` for labels y, one-hot (n K,), up to ``errors``."""

    rows: FloatArray
    values: FloatArray

    @classmethod
    def of(cls, parts: Sequence[tuple[FloatArray, float]]) -> Equations:
        """Join weights (n, K) and values, each scaled to a unit of a label."""
        rows = np.array([weights.ravel() for weights, _ in parts])
        values = np.array([value for _, value in parts])
        scale = np.abs(rows).max(axis=1)
        used = scale > 0.0
        return cls(rows[used] / scale[used, None], values[used] / scale[used])

    def solved(self, likely: FloatArray, weight: float) -> FloatArray:
        """Return the likeliest labels (n, K) between 0 and 1 with small violations."""
        size, classes = likely.shape
        count = len(self.values)
        cost = -np.log(np.maximum(likely, _LEAST)).ravel() / size
        cost = np.concatenate([cost, np.full(2 * count, weight / size)])
        one_class = sp.kron(sp.eye_array(size), np.ones((1, classes)))
        slack = sp.eye_array(count)
        together = sp.block_array(
            [[one_class, None, None], [sp.csr_array(self.rows), slack, -slack]], format="csr"
        )
        found: Any = linprog(  # type: ignore[call-overload]
            cost,
            A_eq=together,
            b_eq=np.concatenate([np.ones(size), self.values]),
            bounds=(0.0, None),
            method="highs",
            options={"time_limit": 20.0},
        )
        return likely if found.x is None else found.x[: size * classes].reshape(size, classes)


@dataclass(frozen=True, eq=False)
class Victim:
    """A source with its card; the model is trained on none of the labels that are attacked.

    ``graph`` holds the labels of ``other`` nodes and of the card's ``own``; ``outside`` are nodes
    without labels.
    """

    graph: Graph
    logits: FloatArray
    own: Rows64
    other: Rows64
    outside: Rows64
    card: SourceCard

    @classmethod
    def draw(cls, graph: Graph, size: int, rare: int, seed: int) -> Victim:
        """Train a model, and build a card from as many own labels as others.

        ``rare`` nodes of each get a class of their own.
        """
        assert graph.labels is not None
        rng = np.random.default_rng([seed, size, rare])
        known = rng.permutation(np.flatnonzero(graph.labels >= 0))
        if known.size < TRAINED + 2 * size:
            raise errors.too_few(f"{size} own and other labels need more labelled nodes.")
        train, other, own, outside = np.split(known, np.cumsum([TRAINED, size, size]))
        names = [*map(str, range(graph.num_classes)), *["rare"] * (rare > 0)]
        labels = np.full(graph.num_nodes, -1)
        labels[train] = graph.labels[train]
        model = SIGN(hops=2).fit(graph.replace(labels=labels, class_names=tuple(names)), train)
        labels[train] = -1
        for nodes in (other, own):
            labels[nodes] = graph.labels[nodes]
            labels[nodes[:rare]] = graph.num_classes
        graph = graph.replace(labels=labels, class_names=tuple(names))
        own, other = np.sort(own), np.sort(other)
        card = SourceCard.build(
            model, graph, own, compositions=0, shifts=_SHIFTS, seed=seed, progress=False
        )
        return cls(graph, np.asarray(model(graph)), own, other, outside[:OUTSIDE], card)

    def labels(self, nodes: Rows64) -> Rows64:
        """Return what the attacker wants."""
        assert self.graph.labels is not None
        return np.asarray(self.graph.labels[nodes])

    def likely(self, nodes: Rows64) -> FloatArray:
        """Return the probabilities of the model, by the card's temperature."""
        return np.asarray(temperature.apply(self.logits[nodes], self.card.temperature))

    def sums(self, nodes: Rows64) -> FloatArray:
        """Return the sums of columns that the second opinion reads, and a constant (n, s + 1)."""
        assert self.card.probe.second is not None
        std, count = self.card.probe.column_std, len(self.card.probe.second.weights) - 1
        scale = np.divide(1.0, std, out=np.zeros_like(std), where=std > 0)
        scale /= np.sqrt(max(int((std > 0).sum()), 1))
        draws = stream(self.card.probe.seed, "node sketch")
        signs = draws.choice([-1.0, 1.0], size=(scale.size, 64))[:, :count]
        found = self.graph.features[nodes] @ (signs * scale[:, None])
        return np.column_stack([np.asarray(found), np.ones(nodes.size)])

    def second(self, nodes: Rows64) -> FloatArray:
        """Return the probabilities of the second opinion."""
        assert self.card.probe.second is not None
        return np.asarray(temperature.apply(self.sums(nodes) @ self.card.probe.second.weights))

    def other_equations(self) -> Equations:
        """Return what the coefficients say: their penalty balances the residuals of every sum."""
        assert self.card.probe.second is not None
        x, weights = self.sums(self.other), self.card.probe.second.weights
        penalised = weights * (np.arange(len(weights)) < len(weights) - 1)[:, None]
        values = x.T @ self.second(self.other) + penalised / FITTED
        units = np.eye(weights.shape[1])
        return Equations.of(
            [
                (np.outer(column, unit), float(row @ unit))
                for column, row in zip(x.T, values, strict=True)
                for unit in units
                if weights[-1] @ unit > _ABSENT  # a class that nobody has has no equation
            ]
        )

    def own_equations(self) -> Equations:
        """Return what the parts of the card say that are measured at its own nodes."""
        card, size = self.card, self.own.size
        z = self.logits[self.own] / card.temperature
        z -= z.mean(axis=1, keepdims=True)
        p, units = temperature.apply(z), np.eye(z.shape[1])
        moments, right = card.reference.moments, units[z.argmax(axis=1)]
        parts = [(right, card.reference.accuracy * size)]
        # The temperature: the mean logit of the labels is that of the probabilities.
        parts.append((z, float((p * z).sum())))
        moved = z - z.mean(axis=0)
        for unit, share, offset, recall in zip(
            units, moments.shares, moments.offsets, card.population.recalls, strict=True
        ):
            own = np.tile(unit, (size, 1))
            parts.append((own, share * size))
            parts += [
                (np.outer(column, unit), share * size * mean)
                for column, mean in zip(moved.T, offset, strict=True)
            ]
            parts.append((right * own - recall * own, 0.0))
        parts += self._profile(z)
        return Equations.of(parts)

    def _profile(self, z: FloatArray) -> Iterator[tuple[FloatArray, float]]:
        """Yield what the class profile says: counts in cells, and the optimum of the biases."""
        profile = self.card.class_profile
        if profile is None:
            return
        units = np.eye(z.shape[1])
        cells = np.array([int(profile.cells(row[None, :]).argmax()) for row in z])
        for cell, counts in enumerate(profile.counts):
            inside = (cells == cell).astype(np.float64)
            for unit, count in zip(units, counts, strict=True):
                yield np.outer(inside, unit), float(count)
        p = np.asarray(temperature.apply(profile.calibrated(z)))
        for unit, bias in zip(units, profile.biases, strict=True):
            yield np.tile(unit, (len(z), 1)), float((p @ unit).sum() + bias)
        slope = np.log(profile.slope)
        yield profile.slope * z, float(profile.slope * (p * z).sum() + slope)

    def attacked(self, part: str) -> tuple[Rows64, list[FloatArray]]:
        """Return the nodes of a part, and what every attack on their labels finds."""
        if part == _OTHER:
            nodes, given = self.other, self.likely(self.other)
            if self.card.probe.second is None:
                return nodes, [given]
            priors, equations = [given, self.second(nodes)], self.other_equations()
            priors.append(np.sqrt(priors[0] * priors[1]))
        else:
            nodes, given = self.own, self.likely(self.own)
            priors, equations = [given], self.own_equations()
        found = [equations.solved(prior, weight) for prior in priors[::2] for weight in _WEIGHTS]
        return nodes, [*priors, *found]

    def membership(self) -> float:
        """Return the area under the curve of telling fitted nodes by the second opinion's margin.

        It is 0.5 where there is none.
        """
        if self.card.probe.second is None:
            return 0.5
        rows = np.concatenate([self.other, self.outside])
        ranks = rankdata(self.second(rows).max(axis=1))[: self.other.size]
        area = (ranks.mean() - (self.other.size + 1) / 2) / max(self.outside.size, 1)
        return float(max(area, 1.0 - area))


def source(name: str) -> Graph:
    """Return a graph by name; the block model has 4,000 nodes and 100 columns."""
    if name != BLOCK:
        return graph_names.load(name)
    return csbm.sample(4000, degree=6, homophily=0.75, snr=0.7, num_features=100, seed=0)


def recovered(victim: Victim, part: str) -> Row:
    """Return the share of labels that is guessed, and that the best attack recovers."""
    nodes, found = victim.attacked(part)
    labels = victim.labels(nodes)
    largest = float(np.bincount(labels).max() / labels.size)
    model = float((victim.likely(nodes).argmax(axis=1) == labels).mean())
    best = max(float((item.argmax(axis=1) == labels).mean()) for item in found)
    guess = max(largest, model)
    return {"part": part, "guess": guess, "recovered": best, "gain": best - guess}


def named(victim: Victim, part: str, rare: int) -> Row:
    """Return how many rare members the mean of all attacks names, and how many chance would.

    Ties are broken by chance: each of the tied counts for the share of members among them.
    """
    nodes, found = victim.attacked(part)
    member = victim.labels(nodes) == victim.graph.num_classes - 1
    hits = _hits(np.mean(found, axis=0)[:, -1], member, rare)
    return {"part": part, "named": hits, "members": rare, "chance": rare * rare / nodes.size}


def _hits(scores: FloatArray, member: NDArray[np.bool_], count: int) -> float:
    scores = scores.round(6)
    limit = np.sort(scores)[-count]
    above, tied = scores > limit, scores == limit
    left = (count - above.sum()) / tied.sum()
    return float((member & above).sum() + left * (member & tied).sum())


def readable(victim: Victim) -> int:
    """Return how many counts of labels below ten the card holds as they are, but for zeros."""
    card, labels = victim.card, victim.labels(victim.own)
    counts = np.bincount(labels, minlength=card.num_classes)
    shown = [
        (round(share * labels.size, 4), count)
        for share, count in zip(card.reference.moments.shares, counts, strict=True)
    ]
    if card.class_profile is not None:
        z = victim.logits[victim.own] / card.temperature
        cells = [int(card.class_profile.cells(row[None, :]).argmax()) for row in z]
        table = np.zeros_like(card.class_profile.counts)
        np.add.at(table, (np.array(cells), labels), 1.0)
        shown += list(zip(card.class_profile.counts.ravel(), table.ravel(), strict=True))
    return sum(bool(0 < true < FEWEST and abs(said - true) < 1e-3) for said, true in shown)


def measure(
    name: str, sizes: Sequence[int], members: Sequence[int], seed: int, show: Show | None = None
) -> Rows:
    """Attack cards of a graph, with as many labels and rare members as given."""
    graph, rows = source(name), []
    assert graph.labels is not None
    possible = [size for size in sizes if TRAINED + 2 * size <= (graph.labels >= 0).sum()]
    for size, rare in product(possible, (0, *members)):
        victim = Victim.draw(graph, size, rare, seed)
        facts: dict[str, Any] = {"labels": size, "rare": rare}
        for part in (_OTHER, _OWN):
            found = named(victim, part, rare) if rare else recovered(victim, part)
            rows.append({**facts, **found})
        if not rare:
            rows[-1] |= {"membership": victim.membership(), "small counts": readable(victim)}
    return rows


def cases(request: Request) -> Selection:
    """Return a case for every graph and split."""
    names, missing = [BLOCK], list[str]()
    if request.names is not None:
        names = list(request.names)
    elif not request.quick:
        here, missing = graph_names.present(GRAPHS[1:])
        names += here
    sizes, members = (QUICK_SIZES, QUICK_RARE) if request.quick else (SIZES, RARE)
    found = []
    for name, seed in product(names, request.splits(3)):
        head: dict[str, Any] = {"schema": SCHEMA, "graph": short(name), "model": "SIGN"}
        head |= {"seed": seed, "compositions": 0, "sizes": list(sizes), "members": list(members)}
        head |= {"content": "" if name == BLOCK else graph_names.content(name)}
        work = partial(measure, name, sizes, members, seed)
        found.append(Case(f"{short(name)}-{seed}".replace(" ", "-"), head, work))
    return found, missing


def summarise(cells: Sequence[Cell]) -> Rows:
    """Return one row per graph, number of labels, of rare members and part."""
    return frame.flat(cells, "graph", "model", "seed")


def bars(rows: Sequence[Row], cells: Sequence[Cell]) -> list[Comparison]:
    """State what the best attack adds to guessing, and how many rare members it names."""
    found = []
    for part in (_OTHER, _OWN):
        own = frame.select(rows, part=part, rare=0)
        means = {
            size: frame.average(frame.select(own, labels=size), "gain")
            for size in frame.distinct(own, "labels")
        }
        size = max(means, key=lambda one: means[one])
        worst = max(own, key=lambda row: row["gain"])
        at, where = f"{size} labels", f"{worst['graph']} with {worst['labels']} labels"
        found.append(at_most(f"{part}: added to guessing, mean of sources", means[size], GAIN, at))
        found.append(reported(f"{part}: added to guessing, worst draw", worst["gain"], where))
        rare = [row for row in rows if row["part"] == part and row["rare"]]
        hits, chance = (sum(row[key] for row in rare) for key in ("named", "chance"))
        # As many as chance names, and two standard deviations of a count.
        limit = chance + 2.0 * np.sqrt(max(chance, 1.0))
        asked = sum(row["members"] for row in rare)
        note = f"of {asked} members; chance names {chance:.1f}"
        found.append(at_most(f"{part}: rare members named", hits, float(limit), note))
    counts = [row for row in rows if "small counts" in row]
    found.append(
        at_most(
            "counts below ten that are readable",
            max(float(row["small counts"]) for row in counts),
            0.0,
        )
    )
    found.append(
        reported(
            "membership by the second opinion, area",
            max(row["membership"] for row in counts),
            "0.5 is chance; the largest of all sources",
        )
    )
    return found


BENCH = Bench(
    name="card_attacks",
    title="What a card says of labels",
    command="bench card-attacks",
    introduction="""\
*Guess* is the share of labels that the model or the largest class guesses, *recovered* what the
best of several linear programmes finds with the card, chosen in hindsight. *Named* is how many of
the members of a rare class, which the model never saw, it names, next to what *chance* names.""",
    cases=cases,
    rows=summarise,
    bars=bars,
    tables=(
        Table(
            "Labels",
            (
                Column("graph"),
                Column("labels"),
                Column("part"),
                Column("guess", spec=".3f"),
                Column("recovered", spec=".3f"),
                Column("gain", spec="+.3f"),
            ),
            rows=lambda rows: [row for row in rows if not row["rare"]],
        ),
        Table(
            "Rare members",
            (
                Column("graph"),
                Column("labels"),
                Column("part"),
                Column("members"),
                Column("named", spec=".1f"),
                Column("chance", spec=".2f"),
            ),
            rows=lambda rows: [row for row in rows if row["rare"]],
        ),
    ),
    terminal=(
        Table(
            "Labels",
            (Column("graph"), Column("labels"), Column("part"), Column("gain", spec="+.3f")),
            rows=lambda rows: [row for row in rows if not row["rare"]],
        ),
    ),
)
