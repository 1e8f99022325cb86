"""Precision, recall and F1 on unlabelled targets under natural shifts, drawn shifts, rare classes.

With two classes the metrics are those of class 1, otherwise means over classes. Targets are those
of `graphtemper_research.trials.natural`; drawn shifts are each unknown to the card,
and rare classes are class 1 of graphs with two, thinned at the source and at the target. Only draws
of labels and the scores read the labels of a target.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from graphtemper import SourceCard, metrics, recalibrate, shifts, temperature
from graphtemper_research.graphs.datasets import load_any as load_graph
from graphtemper_research.harness import frame, style
from graphtemper_research.harness.cells import Case, Cell, Show
from graphtemper_research.harness.frame import Row, Rows
from graphtemper_research.harness.layout import Column, Table
from graphtemper_research.harness.numeric import FloatArray, log_odds, stream, to_share
from graphtemper_research.harness.outcome import Comparison, at_most, between, reported
from graphtemper_research.harness.runner import Bench, Request, Selection, per
from graphtemper_research.trials import graph_names
from graphtemper_research.trials.cases import models_of
from graphtemper_research.trials.graph_names import short
from graphtemper_research.trials.natural import FAMILIES, Family, Home, Place, sources, together
from graphtemper_research.trials.trial import (
    MODELS,
    ORACLE,
    SOURCE,
    TARGET_SEED,
    UNCALIBRATED,
    Indices,
    split,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SCHEMA = "graphtemper.decisions_cell/1"
NATURAL, DRAWN, RARE = "natural", "drawn", "rare"
NONE, ALL, LABELS, BOTH = "no labels", "environments", "50 labels", "50 labels and environments"
GAP = "mean gap"
ASKED = ("precision", "recall", "f1")
# Largest mean error over that of the source temperature, and coverage.
LIMITS = {NONE: 0.85, ALL: 0.70, LABELS: 0.50}
AGAINST_ORACLE, COVERAGE = 1.15, (0.85, 0.97)
COUNT, MOST_TARGETS = 50, 6
KNOWN = (
    shifts.noise(1.2),
    shifts.mask(0.5),
    shifts.rewire(0.4),
    shifts.drop(0.6),
    shifts.add(1.5),
    shifts.homophily(-0.4),
)
GRAPHS = ("cora", "citeseer", "minesweeper", "tolokers", "twitch_de")
# A rare class is hardly ever predicted, so its nodes are flagged from this probability on.
RARE_THRESHOLD = 0.1
BINARY, SHARES = ("minesweeper", "tolokers", "twitch_de", "bitcoin_otc"), (0.005, 0.02, 0.1)


def plug_in(p: FloatArray) -> dict[str, float]:
    """Return the metrics that probabilities imply if they are taken at their word.

    Examples
    --------
    >>> round(plug_in(np.array([[0.9, 0.1], [0.3, 0.7]]))["precision"], 3)
    0.7
    """
    table = p.T @ np.eye(p.shape[1])[p.argmax(axis=1)]
    right, decided, true = np.diag(table), table.sum(axis=0), table.sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        found = dict(
            zip(ASKED, (right / decided, right / true, 2 * right / (decided + true)), strict=True)
        )
    binary = p.shape[1] == 2
    return {name: float(value[1] if binary else np.nanmean(value)) for name, value in found.items()}


def scores(
    result: Any, labels: Indices, method: str, threshold: float | None = None
) -> dict[str, Any]:
    """Return estimates with intervals, and the truth, by name."""
    positive = 1 if result.probabilities.shape[1] == 2 else None
    found = result.metrics(positive=positive, threshold=threshold)
    truth = metrics.decisions(result.probabilities, labels, positive, threshold)
    row: dict[str, Any] = {"method": method, "nodes": int(labels.size)}
    for name in ASKED:
        value = getattr(found, name)
        row |= {name: None, f"{name} low": None, f"{name} high": None, f"{name} true": truth[name]}
        if value is not None:
            row |= {name: value.value, f"{name} low": value.low, f"{name} high": value.high}
    return row


def plain(values: dict[str, float], method: str) -> dict[str, Any]:
    """Return the row of a method without intervals."""
    return {"method": method} | {
        name: value if np.isfinite(value) else None for name, value in values.items()
    }


def references(logits: FloatArray, labels: Indices, source: float) -> list[dict[str, Any]]:
    """Return what the plain softmax, the source temperature and the labelled oracle's imply."""
    oracle = temperature.solve(logits, labels).temperature
    at = {UNCALIBRATED: 1.0, SOURCE: source, ORACLE: oracle}
    return [plain(plug_in(temperature.apply(logits, t)), name) for name, t in at.items()]


def natural(
    family: Family, source: str, model: str, seed: int, size: int, show: Show | None = None
) -> Rows:
    """Return one row per target and method for one source of a family."""
    home = Home.prepare(source, family.same_nodes, model, seed, size, show)
    unit = home.card.temperature
    places = [Place.visit(home, name, seed) for name in targets(family, source)]
    rows: Rows = []
    for place in places:
        others = [item for item in places if item is not place]
        labels = place.labels(place.drawn(COUNT, stream(seed, f"decisions {short(place.name)}")))
        asked = {NONE: (home.card, None), LABELS: (home.card, labels)}
        if others:
            known = together(home.card, [item.known for item in others])
            asked |= {ALL: (known, None), BOTH: (known, labels)}
        facts = {"target": short(place.name)}
        for method, (card, given) in asked.items():
            found = place.ask(home, card, seed, given)
            rows.append(facts | scores(found, place.classes, method))
        rows += [facts | row for row in references(place.logits, place.classes, unit)]
        if others:
            rows.append(facts | plain(after_gaps(place, others, unit), GAP))
    return rows


def after_gaps(place: Place, others: Sequence[Place], source: float) -> dict[str, float]:
    """Return the metrics at the source temperature, moved by their mean gap elsewhere."""
    gaps: dict[str, list[float]] = {name: [] for name in ASKED}
    for other in others:
        p = temperature.apply(other.logits, source)
        truth = metrics.decisions(p, other.classes, 1 if p.shape[1] == 2 else None)
        for name, value in plug_in(p).items():
            known = truth[name]
            if known is not None and np.isfinite(value):
                gaps[name].append(log_odds(known) - log_odds(value))
    here = plug_in(temperature.apply(place.logits, source))
    return {
        name: to_share(log_odds(value) + float(np.mean(gaps[name] or [0.0])))
        for name, value in here.items()
    }


def targets(family: Family, source: str) -> list[str]:
    """Return at most six other graphs of a family, spread evenly."""
    others = [name for name in family.graphs if name != source]
    places = np.linspace(0, len(others) - 1, min(len(others), MOST_TARGETS)).round().astype(int)
    return [others[place] for place in places]


def drawn(graph: str, model: str, seed: int, size: int, show: Show | None = None) -> Rows:
    """Return one row per drawn shift, which the card does not know, and method."""
    whole = load_graph(graph)
    train, val, test = split(whole, seed)
    return _shifted(whole, (train, val, test), model, seed, size, KNOWN, show=show)


def rare(graph: str, share: float, model: str, seed: int, size: int, _: Show | None = None) -> Rows:
    """Return one row per shift where class 1 has a small share.

    Other temperatures flag other nodes from the same threshold on, so there is no reference.
    """
    whole = load_graph(graph)
    parts = [_thinned(whole.labels, part, share, seed) for part in split(whole, seed)]
    chosen = (shifts.drop(0.2), shifts.noise(0.5))
    return _shifted(whole, parts, model, seed, size, chosen, RARE_THRESHOLD)


def _thinned(labels: Any, nodes: Indices, share: float, seed: int) -> Indices:
    """Return nodes of which class 1 has at most a given share."""
    positive = nodes[labels[nodes] == 1]
    others = nodes[labels[nodes] != 1]
    kept = min(positive.size, max(round(share / (1.0 - share) * others.size), 2))
    chosen = stream(seed, "rare").choice(positive, kept, replace=False)
    return np.sort(np.concatenate([others, chosen]))


def _shifted(
    whole: Any,
    parts: Sequence[Indices],
    model: str,
    seed: int,
    size: int,
    chosen: Sequence[Any],
    threshold: float | None = None,
    show: Show | None = None,
) -> Rows:
    train, val, test = parts
    predictor = MODELS[model](seed).fit(whole, train)
    card = SourceCard.build(predictor, whole, val, seed=seed, compositions=size, progress=show)
    rows: Rows = []
    for shift in chosen:
        target = shift(whole, TARGET_SEED + seed).replace(labels=None)
        known = card.without(shift.family)
        result = recalibrate(predictor, target, known, test, seed=seed)
        logits = predictor(target)[test].astype(np.float64)
        facts = {"target": repr(shift)}
        labels = whole.labels[test]
        found = [scores(result, labels, NONE, threshold)]
        if threshold is None:
            found += references(logits, labels, card.temperature)
        rows += [facts | row for row in found]
    return rows


def cases(request: Request) -> Selection:
    """Return the cases of natural families, drawn shifts and rare classes."""
    found: list[Case] = []
    missing: list[str] = []

    def add(kind: str, family: str, source: str, make: Any, graphs: int = 1) -> None:
        for model, seed in product(models_of(request), request.splits()):
            head: dict[str, Any] = {"schema": SCHEMA, "kind": kind, "family": family}
            head |= {"source": source, "model": model, "seed": seed, "graphs": graphs}
            head["compositions"] = request.compositions
            work: Callable[..., Rows] = partial(make, model, seed, request.compositions)
            name = f"{kind}-{family}-{source}-{model}-{seed}"
            found.append(Case(name, head, work))

    for family in FAMILIES:
        if request.names is not None and family.name not in request.names:
            continue
        here, absent = graph_names.present(family.graphs)
        missing += absent
        own = replace(family, graphs=tuple(here))
        for source in sources(here) if len(here) > 1 else ():
            work = partial(natural, own, source)
            add(NATURAL, family.name, short(source), work, len(here))
    if request.names is None and not request.quick:
        for graph in graph_names.present(GRAPHS)[0]:
            add(DRAWN, short(graph), short(graph), partial(drawn, graph))
        for graph, share in product(graph_names.present(BINARY)[0], SHARES):
            add(RARE, f"{share:.1%} positive", short(graph), partial(rare, graph, share))
    return found, missing


def summarise(cells: Sequence[Cell]) -> Rows:
    """Return one row per family and method: errors, those at the source temperature, coverage."""
    keys = ("kind", "family", "model", "seed", "source")
    found: dict[tuple[str, ...], list[Row]] = {}
    for facts, by in frame.by_method(frame.flat(cells, *keys), *keys, "target"):
        truth = {name: by[NONE][f"{name} true"] for name in ASKED}
        for method, item in by.items():
            key = facts["model"], facts["kind"], facts["family"], method
            found.setdefault(key, []).append(_pair(item, by, truth))
    names = [f"{what} {name}" for what in ("error", "source", "oracle", "held") for name in ASKED]
    rows = []
    for (model, kind, family, method), pairs in found.items():
        head = {"model": model, "kind": kind, "family": family, "method": method}
        row: dict[str, Any] = head | {"pairs": len(pairs)}
        for name in names:
            row[name] = frame.mean([item[name] for item in pairs if item[name] is not None])
        for name in ASKED:
            row[f"undefined {name}"] = sum(item[f"error {name}"] is None for item in pairs)
        rows.append(row)
    return rows


def _pair(row: Row, by: dict[str, Row], truth: Row) -> dict[str, Any]:
    """Return errors of one target; None where a metric is undefined for anyone."""
    found: dict[str, Any] = {}
    for name in ASKED:
        rivals = {"source": SOURCE, "oracle": ORACLE}
        values = {what: by[rival][name] for what, rival in rivals.items() if rival in by}
        values["error"] = row[name]
        defined = truth[name] is not None and None not in values.values()
        for what in ("error", *rivals):
            known = defined and what in values
            found[f"{what} {name}"] = abs(values[what] - truth[name]) if known else None
        found[f"held {name}"] = None
        if truth[name] is not None and row.get(f"{name} low") is not None:
            low, high = row[f"{name} low"] - 1e-9, row[f"{name} high"] + 1e-9
            found[f"held {name}"] = float(low <= truth[name] <= high)
    return found


def total(rows: Sequence[Row], what: str) -> float:
    """Return the mean over families and metrics, as far as these are defined."""
    values = [row[f"{what} {name}"] for row in rows for name in ASKED]
    return float(np.mean([value for value in values if value is not None]))


def compare(rows: Sequence[Row]) -> list[Comparison]:
    """State the bars: errors against those of a temperature, coverage, and what is undefined."""
    bars = []
    for method in (*LIMITS, BOTH):
        own = frame.select(rows, kind=NATURAL, method=method)
        if own:
            ratio = total(own, "error") / total(own, "source")
            limit = (LIMITS[method],) if method in LIMITS else ()
            state = at_most if limit else reported
            bars.append(state(f"error with {method}, over that of {SOURCE}", ratio, *limit))
    for kind, method in product((NATURAL, DRAWN, RARE), (NONE, ALL, LABELS, BOTH)):
        own = frame.select(rows, kind=kind, method=method)
        if own:
            held = total(own, "held")
            bars.append(between(f"coverage, {kind}, {method}", held, COVERAGE))
            low = [
                f"{row['family']} {name} {row[f'held {name}']:.0%} of {row['pairs']}"
                for row, name in product(own, ASKED)
                if row[f"held {name}"] is not None and row[f"held {name}"] < COVERAGE[0]
            ]
            what = f"metrics of families below {COVERAGE[0]:.0%}, {kind}, {method}"
            cases = sum(row[f"held {name}"] is not None for row, name in product(own, ASKED))
            bars.append(at_most(what, len(low), 0, f"of {cases}: " + ", ".join(low)))
            without = sum(row[f"undefined {name}"] for row, name in product(own, ASKED))
            if without:
                bars.append(reported(f"undefined metrics, {kind}, {method}", without))
    own = frame.select(rows, kind=DRAWN, method=NONE)
    if own:
        ratio = total(own, "error") / total(own, "oracle")
        bars.append(at_most(f"drawn: error over that of {ORACLE}", ratio, AGAINST_ORACLE))
    return bars


_MEANS = Table(
    "{model}: {kind}",
    (
        Column("family"),
        Column("method"),
        Column("pairs"),
        *(Column(f"error {name}", name, ".3f", missing="-") for name in ASKED),
        *(Column(f"source {name}", f"{name} at source-T", ".3f", missing="-") for name in ASKED),
        *(Column(f"held {name}", f"held {name}", ".0%", missing="-") for name in ASKED),
        *(Column(f"undefined {name}", f"no {name}") for name in ASKED),
    ),
)


def _draw(figure: Figure, rows: Sequence[Row], cells: Sequence[Cell]) -> None:
    """Draw the mean error of the three metrics by natural family and method."""
    axes = figure.subplots()
    marks = {NONE: style.ORANGE, ALL: style.BLUE, LABELS: style.GREEN, SOURCE: style.GREY}
    for method, colour in marks.items():
        own = frame.select(rows, kind=NATURAL, method=method)
        names, values = [row["family"] for row in own], [total([row], "error") for row in own]
        axes.plot(values, names, "o", color=colour, label=method)
    axes.set(xlabel="mean error of precision, recall and F1")
    axes.legend(fontsize="x-small")


BENCH = Bench(
    name="decisions",
    title="Precision, recall and F1 without labels",
    command="bench decisions",
    introduction=(
        "Mean errors of precision, recall and F1 on targets without labels, with the labelled\n"
        "environments of the same family, with 50 random labels, and with both; next to what the\n"
        "probabilities imply as they are, at the source temperature and at the labelled oracle's,\n"
        "and to the mean gap of each metric in the other environments. *held* is how often the\n"
        "90 % interval contains the truth, and *no precision* on how many pairs precision is\n"
        "undefined for the method or in truth; these are in no mean. Drawn shifts are of a family\n"
        "that a card does not know; rare classes are thinned at the source and at the target."
    ),
    cases=cases,
    rows=summarise,
    bars=per("model", compare),
    tables=(_MEANS,),
    terminal=(_MEANS,),
    draw=_draw,
    size=lambda rows: (7.0, 4.0),
)
