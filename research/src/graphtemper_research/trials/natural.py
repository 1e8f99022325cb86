"""Natural shifts: families of graphs from several places or times, and what helps on the others.

Half of a source's labelled nodes train a model and half make the card. Each other environment of
the family is the target once, without labels; the card then holds all other environments, or one
of them, or none. In families with an order in time it also holds those before the target only.
A family is the unit: results are means of families. Three pages are made of the same cells:
`ENVIRONMENTS`, `WITHOUT_LABELS` and `WITH_LABELS`. Only draws of labels and the scores read the
labels of a target.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from graphtemper import Graph, Recalibration, SourceCard, errors, recalibrate, temperature
from graphtemper.models import Predictor
from graphtemper_research.graphs.datasets import load_any as load_graph
from graphtemper_research.harness import frame
from graphtemper_research.harness.cells import Case, Cell, Show
from graphtemper_research.harness.frame import Row, Rows
from graphtemper_research.harness.layout import Column, Table
from graphtemper_research.harness.numeric import (
    FloatArray,
    log_odds,
    nearest_temperature,
    stream,
    to_share,
)
from graphtemper_research.harness.outcome import Comparison, at_least, at_most, between, reported
from graphtemper_research.harness.runner import Bench, Request, Selection, per, usual_settings
from graphtemper_research.trials import graph_names
from graphtemper_research.trials.cases import models_of
from graphtemper_research.trials.graph_names import short
from graphtemper_research.trials.pairs import AIRPORTS, TWITCH
from graphtemper_research.trials.trial import (
    MODELS,
    ORACLE,
    SOURCE,
    TARGET_SEED,
    TOLERANCE,
    UNCALIBRATED,
    Answer,
    Indices,
    halves,
    score,
)

SCHEMA = "graphtemper.natural_cell/6"
LATEST, POOLED, GAP = "latest-T", "pooled-T", "mean gap"
NONE, ONE, ALL = "no environment", "one environment", "all environments"
PAST, PAST_LATEST = "past environments", "latest past-T"
POISONED = "one environment with wrong labels"
TRUE = "true accuracy"
BASELINES = (UNCALIBRATED, SOURCE, LATEST, POOLED, GAP, NONE)
COUNTS, DRAWS = (20, 50), 2
WITH = {NONE: "labels", ALL: "labels and environments"}
# Largest mean ECE, error of the accuracy and share of pairs that are harmed; coverage.
LIMITS = {ALL: 0.075, ONE: 0.090}
ERROR, HARMED, COVERAGE = 0.06, 0.08, (0.85, 0.97)
LABEL_LIMITS = {(20, NONE): 0.070, (50, NONE): 0.056, (20, ALL): 0.060, (50, ALL): 0.056}
# Labels may make this share of pairs worse than no label, by more than `TOLERANCE`.
LABELS_HARMED = 0.05
QUICK_FAMILIES = ("airports", "villages")
MOST_NODES = 3000
"""More nodes of an environment than this are sampled."""
MOST_SOURCES = 3
"""Sources of a family, spread evenly over its list; every other graph of it is a target."""


@dataclass(frozen=True)
class Family:
    """Graphs of one kind in several environments, by name or path.

    ``same_nodes`` says that node i is the same thing in all of them, so that nodes the model was
    trained on are neither scored nor learned from. ``series`` are environments in order of time.
    """

    name: str
    graphs: tuple[str, ...]
    same_nodes: bool = False
    series: tuple[tuple[str, ...], ...] = ()

    def history(self, source: str, target: str) -> tuple[str, ...]:
        """Return the environments before a target in its series, without the source.

        It is empty unless the source is earlier than the target.

        Examples
        --------
        >>> family = Family("f", ("a", "b", "c", "d"), series=(("a", "b", "c", "d"),))
        >>> family.history("b", "d"), family.history("d", "b"), family.history("a", "b")
        (('a', 'c'), (), ())
        """
        for names in self.series:
            if source in names and target in names and names.index(source) < names.index(target):
                return tuple(name for name in names[: names.index(target)] if name != source)
        return ()


def _named(prefix: str, names: str) -> tuple[str, ...]:
    return tuple(f"{prefix}_{name}" for name in names.split())


_MONTHS = _named(
    "covid_us",
    "2020_05 2020_07 2020_08 2020_09 2020_10 2020_11 2020_12 2021_01 2021_03 2021_04 2021_05",
)
_ACTIVEMQ = _named("bugs_activemq", "5.0.0 5.1.0 5.2.0 5.3.0 5.8.0")
_CAMEL = _named("bugs_camel", "1.4.0 2.9.0 2.10.0 2.11.0")
_OTHER_BUGS = _named(
    "bugs",
    "groovy_1.5.7 groovy_1.6b2 hive_0.9.0 jruby_1.1 jruby_1.4.0 lucene_2.3.0 lucene_2.9.0",
)
FAMILIES = (
    Family("airports", AIRPORTS),
    Family("villages", _named("villages", "1 2 3 4")),
    Family("covid_us", _MONTHS, same_nodes=True, series=(_MONTHS,)),
    Family("bugs", (*_ACTIVEMQ, *_CAMEL, *_OTHER_BUGS), series=(_ACTIVEMQ, _CAMEL)),
    Family("twitch", TWITCH),
    Family("ud", _named("ud", "ar cs de en es fi fr ru tr zh")),
    # Families of two, which leave no third environment to learn from.
    Family("county", _named("county", "2012 2016"), same_nodes=True),
    Family("bitcoin", _named("bitcoin", "otc alpha")),
    Family("houses", _named("houses_california", "north south")),
)


def sources(graphs: Sequence[str]) -> list[str]:
    """Return at most three graphs of a family, spread evenly.

    Examples
    --------
    >>> sources("abcdefg"), sources("ab")
    (['a', 'd', 'g'], ['a', 'b'])
    """
    count = min(len(graphs), MOST_SOURCES)
    return [graphs[round(place)] for place in np.linspace(0, len(graphs) - 1, count)]


def scored_nodes(
    graph: Graph, name: str, trained: Indices, seed: int, most: int = MOST_NODES
) -> Indices:
    """Return labelled nodes that were not trained on: all, or a sample."""
    nodes = np.setdiff1d(graph.labelled, trained)
    if nodes.size <= most:
        return nodes
    return np.sort(stream(seed, f"natural nodes {short(name)}").choice(nodes, most, replace=False))


@dataclass(frozen=True, eq=False)
class Home:
    """A model frozen at its source, with its card and the nodes it was trained on."""

    predictor: Predictor
    card: SourceCard
    trained: Indices

    @classmethod
    def prepare(
        cls, source: str, same_nodes: bool, model: str, seed: int, size: int, show: Show | None
    ) -> Home:
        """Train on half of the labelled nodes and make the card of the others.

        ``same_nodes`` says whether other graphs have the nodes that are trained on.
        """
        home = load_graph(source)
        train, val = halves(home, seed)
        predictor = MODELS[model](seed).fit(home, train)
        card = SourceCard.build(predictor, home, val, seed=seed, compositions=size, progress=show)
        return cls(predictor, card, train if same_nodes else train[:0])


@dataclass(frozen=True, eq=False)
class Place:
    """One environment of a family as a frozen model sees it.

    ``known`` is the source's card with this environment and no other.
    """

    name: str
    graph: Graph
    nodes: Indices
    logits: FloatArray
    classes: Indices
    known: SourceCard

    @classmethod
    def visit(cls, home: Home, name: str, seed: int) -> Place:
        """Load an environment, and learn from its labels."""
        graph = load_graph(name)
        nodes = scored_nodes(graph, name, home.trained, seed)
        assert graph.labels is not None
        known = home.card.learn(home.predictor, graph, nodes, name=short(name))
        logits = np.asarray(home.predictor(graph), dtype=np.float64)[nodes]
        return cls(name, graph.replace(labels=None), nodes, logits, graph.labels[nodes], known)

    @property
    def poisoned(self) -> SourceCard:
        """The card with this environment if every label were that of the next class."""
        wrong = (self.classes + 1) % self.logits.shape[1]
        accuracy = float((self.logits.argmax(axis=1) == wrong).mean())
        (environment,) = self.known.environments
        return replace(self.known, environments=(replace(environment, accuracy=accuracy),))

    def drawn(self, count: int, rng: np.random.Generator) -> Indices:
        """Return the rows of some random nodes, at most half of all."""
        size = min(count, self.nodes.size // 2)
        return np.sort(rng.choice(self.nodes.size, size, replace=False))

    def ask(
        self, home: Home, card: SourceCard, seed: int, labels: dict[int, int] | None = None
    ) -> Recalibration:
        """Return the answer of a card about this environment, with some labels of it."""
        target = self.graph, card, self.nodes
        return recalibrate(home.predictor, *target, seed=TARGET_SEED + seed, labels=labels)

    def labels(self, rows: Indices) -> dict[int, int]:
        """Return the labels of some rows by node."""
        return dict(zip(self.nodes[rows].tolist(), self.classes[rows].tolist(), strict=True))


def together(card: SourceCard, known: Sequence[SourceCard], *, ordered: bool = False) -> SourceCard:
    """Return a card with the environments of others, with times where they are ``ordered``."""
    found = [item.environments[0] for item in known]
    if ordered:
        found = [replace(item, when=float(number)) for number, item in enumerate(found)]
    return replace(card, environments=tuple(found))


def pooled(places: Sequence[Place]) -> Answer:
    """Return the temperature that is likeliest on the nodes of several environments together."""
    logits = np.concatenate([place.logits for place in places])
    classes = np.concatenate([place.classes for place in places])
    return Answer(temperature.solve(logits, classes).temperature)


def after_mean_gap(place: Place, others: Sequence[Place], source: float) -> Answer:
    """Return mean confidence corrected by the mean gap of others: no atlas, no prior."""
    gaps = [
        log_odds((item.logits.argmax(axis=1) == item.classes).mean())
        - log_odds(temperature.mean_confidence(item.logits, source))
        for item in others
    ]
    claimed = log_odds(temperature.mean_confidence(place.logits, source))
    value = to_share(claimed + float(np.mean(gaps)))
    return Answer(nearest_temperature(place.logits, value), value)


def label_method(count: int, basis: str, draw: int) -> str:
    """Return the name of an answer with labels.

    Examples
    --------
    >>> label_method(50, NONE, 1)
    '50 labels, draw 1'
    """
    return f"{count} {WITH[basis]}, draw {draw}"


def alone_method(count: int, draw: int) -> str:
    """Return the name of the temperature that is fitted to a draw of labels and nothing else."""
    return f"{count} labels, temperature alone, draw {draw}"


def answers_about(
    home: Home, place: Place, others: Sequence[Place], past: Sequence[Place], seed: int
) -> dict[str, Answer]:
    """Return every method's answer about one target; only labelled draws read its labels."""
    rng = stream(seed, f"natural {short(place.name)}")
    known = together(home.card, [item.known for item in others])

    def ask(card: SourceCard, labels: dict[int, int] | None = None) -> Answer:
        return Answer.of(place.ask(home, card, seed, labels))

    accuracy = float((place.logits.argmax(axis=1) == place.classes).mean())
    found = {
        SOURCE: Answer(home.card.temperature),
        UNCALIBRATED: Answer(1.0),
        TRUE: Answer(nearest_temperature(place.logits, accuracy)),
        NONE: ask(home.card),
    }
    if others:
        one = int(rng.integers(len(others)))
        wrong = [item.poisoned if item is others[one] else item.known for item in others]
        found |= {
            LATEST: pooled(others[-1:]),
            POOLED: pooled(others),
            GAP: after_mean_gap(place, others, home.card.temperature),
            ONE: ask(together(home.card, [others[one].known])),
            ALL: ask(known),
            POISONED: ask(together(home.card, wrong)),
        }
    draws = {choice: place.drawn(choice[0], rng) for choice in product(COUNTS, _draws())}
    bases = {NONE: home.card, **({ALL: known} if others else {})}
    for count, (basis, card), draw in product(COUNTS, bases.items(), _draws()):
        found[label_method(count, basis, draw)] = ask(card, place.labels(draws[count, draw]))
    for (count, draw), rows in draws.items():
        alone = temperature.solve(place.logits[rows], place.classes[rows])
        found[alone_method(count, draw)] = Answer(alone.temperature)
    if past:
        found[PAST_LATEST] = pooled(past[-1:])
        found[PAST] = ask(together(home.card, [item.known for item in past], ordered=True))
    return found


def _draws() -> range:
    return range(1, DRAWS + 1)


def measure(
    family: Family, source: str, model: str, seed: int, compositions: int, show: Show | None = None
) -> Rows:
    """Return one row per target and method for one source of a family."""
    home = Home.prepare(source, family.same_nodes, model, seed, compositions, show)
    names = [name for name in family.graphs if name != source]
    places = {name: Place.visit(home, name, seed) for name in names}
    rows: Rows = []
    for name, place in places.items():
        others = [item for other, item in places.items() if other != name]
        past = [places[other] for other in family.history(source, name)]
        found = answers_about(home, place, others, past, seed)
        rows += [{"target": short(name)} | row for row in score(place.logits, place.classes, found)]
    return rows


def known_families(
    families: Sequence[Family], request: Request
) -> tuple[list[tuple[Family, list[str]]], list[str]]:
    """Return the families of a request with their sources, and the graphs that are missing."""
    known, names = [family.name for family in families], request.names
    if names is None and request.quick:
        names = [name for name in known if name in QUICK_FAMILIES] or known
    unknown = [name for name in names or () if name not in known]
    if unknown:
        raise errors.choice(f"unknown family {unknown[0]!r}; choose from {', '.join(known)}.")
    found, missing = [], []
    for family in families:
        if names is not None and family.name not in names:
            continue
        here, absent = graph_names.present(family.graphs)
        missing += absent
        if len(here) > 1:
            found.append((replace(family, graphs=tuple(here)), sources(here)))
    return found, missing


def cases(families: Sequence[Family], request: Request) -> Selection:
    """Return a case for every model, source and split of a request whose names are families."""
    chosen, missing = known_families(families, request)
    found, size = [], request.compositions
    for family, homes in chosen:
        for model, source, seed in product(models_of(request), homes, request.splits()):
            head: dict[str, Any] = {"schema": SCHEMA, "family": family.name}
            head |= {"source": short(source), "model": model, "seed": seed}
            head |= {"compositions": size, "graphs": len(family.graphs)}
            work = partial(measure, family, source, model, seed, size)
            found.append(Case(f"{short(source)}-{model}-{seed}", head, work))
    return found, missing


KEYS = ("family", "model", "seed", "source")


def _targets(cells: Sequence[Cell]) -> list[tuple[dict[str, Any], dict[str, Row]]]:
    return frame.by_method(frame.flat(cells, *KEYS), *KEYS, "target")


def family_means(rows: Sequence[Row]) -> Rows:
    """Return the means of every family's pairs, and the means of the families."""
    numbers = [key for key in rows[0] if key.startswith(("ece", "nll", "error", "held", "half"))]
    numbers += [key for key in (UNCALIBRATED, SOURCE, "answer", TRUE, "width") if key in rows[0]]
    model, means = {"model": rows[0]["model"]}, []
    for family in frame.distinct(rows, "family"):
        own = frame.select(rows, family=family)
        averages = {key: _average(own, key) for key in numbers}
        means.append({**model, "family": family, "pairs": len(own), **averages})
    total = {key: _average(means, key) for key in numbers}
    return [*means, {**model, "family": "mean of families", "pairs": len(rows), **total}]


def _average(rows: Sequence[Row], key: str) -> float | None:
    return frame.mean([float(row[key]) for row in rows if row[key] is not None])


def _held(found: Row) -> float:
    return float(found["low"] <= found["accuracy"] <= found["high"])


def _error(found: Row) -> float:
    return float(abs(found["estimate"] - found["accuracy"]))


def _eces(keys: dict[str, str]) -> tuple[Column, ...]:
    return tuple(Column(f"ece {key}", name, ".3f", missing="-") for key, name in keys.items())


_PLAIN = {UNCALIBRATED: "plain", SOURCE: "source"}


def _bench(
    name: str,
    title: str,
    introduction: str,
    rows: Callable[[Sequence[Cell]], Rows],
    bars: Callable[[Sequence[Row]], list[Comparison]],
    columns: Sequence[Column],
    more: Sequence[Table] = (),
) -> Bench:
    """Return a bench of all families; `of_families` gives the same of others."""
    means = Table(
        "{model}: means of families", (Column("family"), Column("pairs"), *columns), family_means
    )

    return Bench(
        name=name,
        title=title,
        command="bench natural",
        introduction=introduction,
        cases=partial(cases, FAMILIES),
        rows=rows,
        bars=per("model", bars),
        tables=(means, *more),
        terminal=(means,),
        settings=lambda cells, rows: usual_settings(cells, rows) | {"pairs": len(rows)},
    )


def of_families(bench: Bench, families: Sequence[Family]) -> Bench:
    """Return a bench of other families."""
    return replace(bench, cases=partial(cases, families))


def with_environments(cells: Sequence[Cell]) -> Rows:
    """Return one row per pair, model and seed: every method's ECE, errors and coverage."""
    rows = []
    for facts, found in _targets(cells):
        if ALL not in found:  # no third environment to learn from
            continue
        row = facts | frame.pick(found[ALL], "accuracy", "nodes", "verdict")
        for method in (*BASELINES, ONE, ALL, POISONED, PAST_LATEST, PAST, ORACLE):
            row[f"ece {method}"] = found[method]["ece"] if method in found else None
        for method in (NONE, ONE, ALL, POISONED):
            answer = found[method]
            row |= {f"error {method}": _error(answer), f"held {method}": _held(answer)}
            row[f"half {method}"] = 0.5 * (answer["high"] - answer["low"])
        rows.append(row)
    if not rows:
        raise errors.empty(
            "no page on environments: it needs a family of at least three graphs, a source, a "
            "target and one to learn from."
        )
    return rows


def environment_bars(rows: Sequence[Row]) -> list[Comparison]:
    """State the bars on means of families."""
    *families, means = family_means(rows)
    best = min(means[f"ece {name}"] for name in BASELINES)
    bars = [
        at_most(f"mean ECE with {name}", means[f"ece {name}"], limit)
        for name, limit in LIMITS.items()
    ]
    bars += [
        at_most(
            "mean ECE with all environments, against the best baseline",
            means[f"ece {ALL}"],
            best,
            ", ".join(f"{name} {means[f'ece {name}']:.4f}" for name in (*BASELINES, ORACLE)),
            bar=f"<= {best:.4f}",
        ),
        *(_harm(rows, method) for method in (ALL, GAP)),
        at_most("error of the accuracy with all environments", means[f"error {ALL}"], ERROR),
        *(
            between(f"coverage of the 90 % interval with {name}", means[f"held {name}"], COVERAGE)
            for name in (ONE, ALL)
        ),
        reported("mean ECE if one environment has wrong labels", means[f"ece {POISONED}"]),
        reported("coverage if one environment has wrong labels", means[f"held {POISONED}"]),
    ]
    for row in families:
        if row[f"ece {PAST}"] is not None:
            own = frame.select(rows, family=row["family"])
            own = [item for item in own if item[f"ece {PAST}"] is not None]
            ece = frame.average(own, f"ece {PAST}")
            bars += [
                at_most(
                    f"{row['family']}: mean ECE with past environments, against {name}",
                    ece,
                    frame.average(own, f"ece {name}"),
                    f"{len(own)} pairs",
                )
                for name in (SOURCE, PAST_LATEST)
            ]
    return bars


def _harm(rows: Sequence[Row], method: str) -> Comparison:
    worse = [row[f"ece {method}"] > row[f"ece {SOURCE}"] + TOLERANCE for row in rows]
    quantity = f"share of pairs that {method} makes worse by more than {TOLERANCE}"
    share = float(np.mean(worse))
    return at_most(quantity, share, HARMED) if method == ALL else reported(quantity, share)


_ENVIRONMENT_ECES = _eces(
    _PLAIN
    | {LATEST: "latest", POOLED: "pooled", GAP: "gap", NONE: "none", ONE: "one", ALL: "all"}
    | {POISONED: "wrong", PAST: "past", ORACLE: "oracle"}
)
ENVIRONMENTS = _bench(
    "natural_environments",
    "Labelled environments under natural shifts",
    """\
ECE of the uncalibrated model (*plain*: T = 1), the source temperature, the temperature of the
*latest* other environment (the last of its list), that of all others *pooled*, mean confidence
corrected by the mean *gap* of the others, the card with *none*, *one* (random) and *all* of the
other environments, with those before the target only (*past*; where the family has an order in
time), and the oracle. *pooled* and *gap* see the same environments as *all*. *error* is that of the
accuracy, *held* how often the 90 % interval contains it, *half* its half-width; *wrong* has all
others, one of them with every label that of the next class. The family is the unit: bars are on
means of families. At most three sources of a family, spread evenly over its list, are trained on,
and at most 3,000 nodes of an environment are measured.""",
    with_environments,
    environment_bars,
    (
        *_ENVIRONMENT_ECES,
        Column(f"error {NONE}", "error none", ".3f"),
        Column(f"error {ALL}", "error all", ".3f"),
        Column(f"held {ONE}", "held one", ".0%"),
        Column(f"held {ALL}", "held all", ".0%"),
        Column(f"half {ALL}", "half all", ".3f"),
    ),
    [
        Table(
            "{model}: {family}",
            (Column("source", "from"), Column("target", "to"), *_ENVIRONMENT_ECES),
        )
    ],
)


def without_labels(cells: Sequence[Cell]) -> Rows:
    """Return one row per pair: the ECE without labels, and how wide the interval is."""
    rows = []
    for facts, found in _targets(cells):
        answer = found[NONE]
        rows.append(
            facts
            | frame.pick(answer, "verdict", "accuracy")
            | {name: found[name]["ece"] for name in (UNCALIBRATED, SOURCE, TRUE)}
            | {"answer": answer["ece"], "error": _error(answer), "held": _held(answer)}
            | {"width": answer["high"] - answer["low"]}
        )
    return rows


def unlabelled_bars(rows: Sequence[Row]) -> list[Comparison]:
    """State what the answer gives without labels, by family and by verdict."""
    means = family_means(rows)[-1]
    groups = frame.grouped(rows, "family").values()
    harm = float(np.mean([_harmed(own) for own in groups]))
    bars = [
        at_most("mean ECE against source-T's", means["answer"], means[SOURCE]),
        at_most(f"share of pairs worse than source-T by more than {TOLERANCE}", harm, 0.1),
        between("coverage of the 90 % interval", means["held"], COVERAGE),
        at_most("mean width of the interval", means["width"], 0.45),
        reported("error of the accuracy", means["error"]),
        reported("mean ECE of the uncalibrated model", means[UNCALIBRATED]),
        reported("mean ECE at the true accuracy", means[TRUE]),
    ]
    for verdict in frame.distinct(rows, "verdict"):
        own = frame.select(rows, verdict=verdict)
        quantity, note = f"coverage where the verdict is {verdict}", f"{len(own)} of {len(rows)}"
        bars.append(at_least(quantity, frame.average(own, "held"), 0.85, f"{note} pairs"))
    return bars


def _harmed(rows: Sequence[Row]) -> float:
    """Return the share of pairs whose answer is worse than the source temperature."""
    return float(np.mean([row["answer"] > row[SOURCE] + TOLERANCE for row in rows]))


WITHOUT_LABELS = _bench(
    "natural_rule",
    "Natural shift without labels",
    """\
Mean ECE of the uncalibrated model (*plain*: T = 1), of the source temperature, of the *answer*
without labels, and of the temperature that matches the *true* accuracy; then the error of the
accuracy, how often the 90 % interval *covers* it, and the interval's width. At most three sources
of a family are trained on, and at most 3,000 nodes of a target are scored.""",
    without_labels,
    unlabelled_bars,
    (
        Column(UNCALIBRATED, "plain", ".3f", missing="-"),
        Column(SOURCE, "source", ".3f"),
        Column("answer", spec=".3f"),
        Column(TRUE, "true", ".3f"),
        Column("error", spec=".3f"),
        Column("held", "covers", ".2f"),
        Column("width", spec=".2f"),
    ),
)


def with_labels(cells: Sequence[Cell]) -> Rows:
    """Return one row per pair, model and seed: the scores with labels, means over draws."""
    rows = []
    for facts, found in _targets(cells):
        row = facts | frame.pick(found[SOURCE], "accuracy", "nodes")
        row |= {f"ece {name}": found[name]["ece"] for name in (UNCALIBRATED, SOURCE, NONE, ORACLE)}
        for count in COUNTS:
            drawn = [found[alone_method(count, draw)] for draw in _draws()]
            row[f"ece {count} labels, temperature alone"] = frame.average(drawn, "ece")
        for count, basis in product(COUNTS, WITH):
            names = [label_method(count, basis, draw) for draw in _draws()]
            drawn = [found[name] for name in names if name in found]
            name = f"{count} {WITH[basis]}"
            row[f"ece {name}"] = frame.average(drawn, "ece") if drawn else None
            row[f"nll {name}"] = frame.average(drawn, "nll") if drawn else None
            row[f"held {name}"] = frame.mean([_held(item) for item in drawn])
        rows.append(row)
    return rows


def label_bars(rows: Sequence[Row]) -> list[Comparison]:
    """State the bars on means of families."""
    means = family_means(rows)[-1]
    shared = [row for row in rows if row[f"ece 20 {WITH[ALL]}"] is not None]
    bars = []
    for (count, basis), limit in LABEL_LIMITS.items():
        if basis == ALL and not shared:
            continue
        name = f"{count} {WITH[basis]}"
        bars.append(at_most(f"mean ECE with {name}", means[f"ece {name}"], limit))
        bars.append(between(f"coverage with {name}", means[f"held {name}"], COVERAGE))
        same = means[f"ece {count} labels, temperature alone"]
        quantity = f"mean ECE with {name}, against a temperature fitted to the same labels"
        bars.append(at_most(quantity, means[f"ece {name}"], same))
    if shared:
        own = family_means(shared)[-1]
        quantity = "mean ECE with 20 labels and environments, against 50 labels"
        few, more = own[f"ece 20 {WITH[ALL]}"], own[f"ece 50 {WITH[NONE]}"]
        bars.append(at_most(quantity, few, more, "families with a third environment"))
    for count in COUNTS:
        name = f"{count} {WITH[NONE]}"
        worse = [row[f"ece {name}"] > row[f"ece {NONE}"] + TOLERANCE for row in rows]
        quantity = f"share of pairs that {name} make worse by more than {TOLERANCE}"
        bars.append(at_most(quantity, float(np.mean(worse)), LABELS_HARMED))
    return bars


WITH_LABELS = _bench(
    "natural_labels",
    "A few labels under natural shifts",
    """\
ECE of the uncalibrated model (*plain*: T = 1), of the source temperature, of the card without
labels, and with 20 or 50 random labels of the target, *alone* or with *all* other environments of
the family in the card; *20 T* and *50 T* are a temperature fitted to the same labels and nothing
else. Two draws of labels for each pair; the family is the unit.""",
    with_labels,
    label_bars,
    _eces(
        _PLAIN
        | {NONE: "no labels"}
        | {
            f"{n} {WITH[basis]}": f"{n} {name}"
            for n, (basis, name) in product(COUNTS, ((NONE, "alone"), (ALL, "all")))
        }
        | {f"{count} labels, temperature alone": f"{count} T" for count in COUNTS}
        | {ORACLE: "oracle"}
    ),
)
BENCHES = (WITHOUT_LABELS, WITH_LABELS, ENVIRONMENTS)
