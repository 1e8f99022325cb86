"""The coverage exam: when it says trust, the interval holds; when it cannot know, it says so.

Every answer of `recalibrate` in a situation whose truth is known (`situations`) counts by its
verdict and by whether its 90 % interval holds the true accuracy. A source is a block model, a real
graph that is shifted, or the first (seed 1) or last (seed 2) graph of a natural family; its model
and its card serve all of its rows. Labels are random, and Wilson's interval of the same labels
stands beside ours. Only draws of labels and the scores read the labels of a target.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from math import sqrt
from typing import Any

import numpy as np

from graphtemper import Graph, SourceCard, errors, recalibrate
from graphtemper.models import Predictor
from graphtemper_research.graphs.datasets import load_any as load_graph
from graphtemper_research.harness import frame
from graphtemper_research.harness.cells import Case, Cell, Show
from graphtemper_research.harness.frame import Row, Rows
from graphtemper_research.harness.layout import Column, Table
from graphtemper_research.harness.numeric import stream
from graphtemper_research.harness.outcome import Comparison, at_least, at_most
from graphtemper_research.harness.runner import Bench, Request, Selection, per, usual_settings
from graphtemper_research.trials import graph_names
from graphtemper_research.trials import situations as rows_of
from graphtemper_research.trials.graph_names import short
from graphtemper_research.trials.natural import FAMILIES, Family, Home, scored_nodes
from graphtemper_research.trials.situations import BLOCKS, COUNTS, Targets
from graphtemper_research.trials.trial import (
    MODELS,
    TARGET_SEED,
    VERDICTS,
    Indices,
    check_models,
    halves,
    hide_labels,
    split,
)

SCHEMA = "graphtemper.exam_cell/1"
TRIED = ("SIGN", "PyG-GCN", "PyG-SAGE")
SEEDS = 2
REAL = ("cora", "county_2012", "airport_usa", "chameleon_filtered")
ONLY_LINEAR = ("cora", "twitch", "ud")
"""Sources with thousands of columns or tens of thousands of nodes, where a card of a network takes
minutes: only SIGN is measured on them."""
QUICK = ("2 classes", "villages")
FRESH_GRAPHS, TARGETS, LABELLED_TARGETS = 6, 3, 2
DRAWS = 20
"""Draws of every number of labels for one source, shared by its labelled targets."""
# Shares that must be reached, the largest widths, and the fewest trusted answers that are judged.
TRUSTED, ALL, HONEST, KNOWN, UNCHANGED = 0.88, 0.85, 0.90, 0.85, 0.95
WIDEST, WILSON, FEWEST = 0.48, 0.95, 20
CANNOT_KNOW = (rows_of.NO_SIGNAL, rows_of.ACCIDENTS)
CAN_KNOW = (rows_of.FRESH, rows_of.INSIDE, rows_of.HOMOPHILY)
_Z = 1.6448536269514722  # of a 90 % interval
EVERYTHING = "all"


def wilson(right: int, count: int, population: int) -> tuple[float, float]:
    """Return Wilson's 90 % interval of the accuracy on a finite population.

    With the effective number of labels ``n (N - 1) / (N - n)`` for n of N nodes drawn without
    replacement.

    Examples
    --------
    >>> [round(end, 3) for end in wilson(40, 50, 10**9)]
    [0.693, 0.877]
    """
    n = count * (population - 1) / (population - count)
    share = right / count
    centre, spread = share + _Z**2 / (2 * n), _Z * sqrt(share * (1 - share) / n + (_Z / n / 2) ** 2)
    return (centre - spread) / (1 + _Z**2 / n), (centre + spread) / (1 + _Z**2 / n)


@dataclass(frozen=True, eq=False)
class Examined:
    """A frozen model with its card, and whom its answers are about."""

    predictor: Predictor
    card: SourceCard
    seed: int

    def answer(
        self, row: str, part: str, target: Graph, nodes: Indices | None = None, **known: Any
    ) -> dict[str, Any]:
        """Return one answer of a row and the truth; ``part`` is what the row is made of."""
        assert target.labels is not None
        nodes = target.labelled if nodes is None else nodes
        result = recalibrate(
            self.predictor,
            target.replace(labels=None),
            self.card,
            nodes=nodes,
            seed=TARGET_SEED + self.seed,
            **known,
        )
        judged = target.labels[nodes] >= 0
        right = result.predictions[judged] == target.labels[nodes][judged]
        return {
            "row": row,
            "part": part,
            "accuracy": float(right.mean()),
            "value": result.accuracy.value,
            "low": result.accuracy.low,
            "high": result.accuracy.high,
            "verdict": result.verdict,
            "reasons": " ".join(reason.code for reason in result.reasons),
            "wilson_low": None,
            "wilson_high": None,
        }

    def answers(
        self, row: str, changes: Targets, target: Graph, nodes: Indices | None = None
    ) -> Iterator[dict[str, Any]]:
        """Return the answers about one graph after each of some changes."""
        for number, (name, change) in enumerate(changes.items()):
            changed = change(target, TARGET_SEED + 1000 * self.seed + number)
            yield self.answer(row, name, changed, nodes)

    def shifted(self, target: Graph, nodes: Indices | None = None) -> Iterator[dict[str, Any]]:
        """Return the answers about one graph after all drawn shifts."""
        yield from self.answers(rows_of.INSIDE, rows_of.SHIFTS_INSIDE, target, nodes)
        yield from self.answers(rows_of.HOMOPHILY, rows_of.CHANGED_HOMOPHILY, target, nodes)
        yield from self.answers(rows_of.ENDS, rows_of.SHIFT_ENDS, target, nodes)
        yield from self.answers(rows_of.NO_SIGNAL, rows_of.WITHOUT_SIGNAL, target, nodes)

    def labelled(self, family: str, name: str, target: Graph, nodes: Indices, draws: int) -> Rows:
        """Return the answers with random labels of some nodes, beside Wilson's intervals."""
        assert target.labels is not None
        logits = np.asarray(self.predictor(target.replace(labels=None)))[nodes]
        right = logits.argmax(axis=1) == target.labels[nodes]
        found = []
        for count, draw in product(COUNTS, range(draws)):
            if count > nodes.size // 2:
                continue
            rng = stream(self.seed, f"exam labels {short(name)} {count}", draw)
            chosen = np.sort(rng.choice(nodes.size, count, replace=False))
            labels = {int(node): int(target.labels[node]) for node in nodes[chosen]}
            low, high = wilson(int(right[chosen].sum()), count, nodes.size)
            answer = self.answer(f"{count} labels", family, target, nodes, labels=labels)
            found.append(answer | {"wilson_low": low, "wilson_high": high})
        return found


def measure_block(name: str, model: str, seed: int, size: int, show: Show | None = None) -> Rows:
    """Return the answers about graphs of a block model."""
    block = BLOCKS[name]
    source = block.graph(seed)
    train, val = halves(source, seed)
    predictor = MODELS[model](seed).fit(source, train)
    build = partial(SourceCard.build, predictor, source, val, seed=seed, compositions=size)
    known = Examined(predictor, build(progress=show), seed)
    unknown = Examined(predictor, build(exclude=("homophily",)), seed)
    rows = [known.answer(rows_of.UNCHANGED, "nodes of the card", source, val)]
    fresh = TARGET_SEED + 100 * seed
    graphs = (block.graph(fresh + number) for number in range(FRESH_GRAPHS))
    rows += [known.answer(rows_of.FRESH, name, graph) for graph in graphs]
    for homophily in block.other_homophilies:
        target, part = block.graph(fresh + 50, homophily), f"{homophily:g} for {block.homophily:g}"
        rows.append(known.answer(rows_of.HOMOPHILY, part, target))
        rows.append(unknown.answer(rows_of.LEFT_OUT, part, target))
    target = block.graph(fresh + 60)
    rows += known.shifted(target)
    rows += unknown.answers(rows_of.LEFT_OUT, rows_of.CHANGED_HOMOPHILY, target)
    return rows


def measure_real(name: str, model: str, seed: int, size: int, show: Show | None = None) -> Rows:
    """Return the answers about a real graph and its shifts, on nodes that were held out."""
    graph = graph_names.load(name)
    train, val, test = split(graph, seed)
    hidden = hide_labels(graph, test)
    predictor = MODELS[model](seed).fit(hidden, train)
    card = SourceCard.build(predictor, hidden, val, seed=seed, compositions=size, progress=show)
    examined = Examined(predictor, card, seed)
    return [
        examined.answer(rows_of.UNCHANGED, "nodes of the card", graph, val),
        examined.answer(rows_of.UNCHANGED, "nodes that were held out", graph, test),
        *examined.shifted(graph, test),
    ]


def measure_family(
    family: Family, model: str, seed: int, size: int, show: Show | None = None
) -> Rows:
    """Return the answers about the other graphs of a natural family, from one of its ends."""
    source = family.graphs[-((seed - 1) % 2)]
    home = Home.prepare(source, family.same_nodes, model, seed, size, show)
    examined = Examined(home.predictor, home.card, seed)
    graph = load_graph(source)
    train, val = halves(graph, seed)
    others = np.setdiff1d(np.arange(graph.num_nodes), train)
    rows = [examined.answer(rows_of.UNCHANGED, "nodes of the card", graph, val)]
    part = "all nodes that were not trained on"
    rows.append(examined.answer(rows_of.UNCHANGED, part, graph, others))
    names = targets_of(family, source)
    draws = DRAWS // min(len(names), LABELLED_TARGETS)
    for number, name in enumerate(names):
        target = load_graph(name)
        nodes = scored_nodes(target, name, home.trained, seed)
        rows.append(examined.answer(rows_of.NATURAL, family.name, target, nodes))
        if number == 0:
            rows += examined.answers(rows_of.ACCIDENTS, rows_of.HAPPENED, target, nodes)
        if number < LABELLED_TARGETS:
            rows += examined.labelled(family.name, name, target, nodes, draws)
    return rows


def targets_of(family: Family, source: str) -> list[str]:
    """Return at most `TARGETS` other graphs of a family, spread evenly.

    Examples
    --------
    >>> targets_of(Family("f", tuple("abcdef")), "a")
    ['b', 'd', 'f']
    """
    others = [name for name in family.graphs if name != source]
    places = np.linspace(0, len(others) - 1, min(len(others), TARGETS))
    return [others[round(place)] for place in places]


def separate(families: Sequence[Family]) -> list[Family]:
    """Return families, the one of Java projects by project: intervals must hold in each of them.

    Examples
    --------
    >>> [family.name for family in separate(FAMILIES) if "bugs" in family.graphs[0]]
    ['activemq', 'camel', 'groovy', 'jruby', 'lucene']
    """
    found = []
    for family in families:
        if family.name != "bugs":
            found.append(family)
            continue
        projects: dict[str, list[str]] = {}
        for name in family.graphs:
            projects.setdefault(short(name).split("_")[1], []).append(name)
        found += [Family(name, tuple(own)) for name, own in projects.items() if len(own) > 1]
    return found


def cases(families: Sequence[Family], request: Request) -> Selection:
    """Return a case for every source, model and seed; names are block models, graphs, families."""
    models = check_models(TRIED if request.models is None else request.models)
    if request.quick and request.models is None:
        models = models[:1]
    known = [*BLOCKS, *REAL, *(family.name for family in families)]
    names = list(request.names or (QUICK if request.quick else known))
    unknown = [name for name in names if name not in known]
    if unknown:
        raise errors.choice(f"unknown source {unknown[0]!r}; choose from {', '.join(known)}.")
    work: dict[str, Any] = {name: partial(measure_block, name) for name in names if name in BLOCKS}
    real, missing = graph_names.present([name for name in names if name in REAL])
    work |= {name: partial(measure_real, name) for name in real}
    contents = {name: graph_names.content(name) for name in real}
    for family in families:
        if family.name in names:
            here, absent = graph_names.present(family.graphs)
            missing += absent
            if len(here) > 1:
                own = Family(family.name, tuple(here), family.same_nodes)
                work[family.name] = partial(measure_family, own)
                contents[family.name] = graph_names.content(*here)
    found, size = [], request.compositions
    for seed, model, (name, measure) in product(request.splits(SEEDS), models, work.items()):
        if (name in ONLY_LINEAR and model != "SIGN") or (name in REAL and seed > 1):
            continue
        head = {"schema": SCHEMA, "source": name, "model": model, "seed": seed}
        head |= {"compositions": size, "content": contents.get(name, "")}
        title = f"{name.replace(' ', '-')}-{model}-{seed}"
        found.append(Case(title, head, partial(measure, model, seed, size)))
    return found, missing


def summarise(cells: Sequence[Cell]) -> Rows:
    """Return one row per model and row of the exam, in all and for each of its parts."""
    answers = frame.flat(cells, "source", "model", "seed")
    found = []
    models = sorted(frame.distinct(answers, "model"), key=[*TRIED, *MODELS].index)
    for model, row in product(models, rows_of.ROWS):
        own = frame.select(answers, model=model, row=row)
        parts: dict[str, Sequence[Row]] = {EVERYTHING: own} | _by_part(own)
        found += [
            {"model": model, "row": row, "part": part, **scores(sub)}
            for part, sub in parts.items()
            if sub
        ]
    return found


def _by_part(rows: Sequence[Row]) -> dict[str, Sequence[Row]]:
    return {str(part): own for (part,), own in sorted(frame.grouped(rows, "part").items())}


def scores(answers: Sequence[Row]) -> dict[str, Any]:
    """Return how often verdicts are given, how often intervals hold, and how wide they are.

    Examples
    --------
    >>> answer = {"accuracy": 0.5, "low": 0.4, "high": 0.6, "verdict": "trust", "part": "a"}
    >>> answer |= {"wilson_low": 0.3, "wilson_high": 0.7}
    >>> found = scores([answer, answer | {"low": 0.55, "verdict": "abstain"}])
    >>> found["held"], found["trusted held"], found["honest"], round(found["width ratio"], 3)
    (0.5, 1.0, 1.0, 0.312)
    """
    trusted = frame.select(answers, verdict="trust")
    by_part = list(_by_part(answers).values())
    wilson = [row for row in answers if row["wilson_low"] is not None]
    worst = min(by_part, key=_held)
    return {
        "answers": len(answers),
        **{name: len(frame.select(answers, verdict=name)) / len(answers) for name in VERDICTS},
        "trusted": len(trusted),
        "trusted held": _held(trusted) if trusted else None,
        "held": _held(answers),
        "honest": float(np.mean([_holds(row) or row["verdict"] == "abstain" for row in answers])),
        "width": _width(answers),
        "trusted width": _width(trusted) if trusted else None,
        "worst part": worst[0]["part"],
        "worst held": _held(worst),
        "held by part": float(np.mean([_held(sub) for sub in by_part])),
        "wilson held": _held(wilson, "wilson_") if wilson else None,
        "wilson worst": min(_held(sub, "wilson_") for sub in by_part) if wilson else None,
        "width ratio": (
            float(np.mean([_width(sub) / _width(sub, "wilson_") for sub in by_part]))
            if wilson
            else None
        ),
    }


def _holds(row: Row, of: str = "") -> bool:
    return bool(row[f"{of}low"] <= row["accuracy"] <= row[f"{of}high"])


def _held(rows: Sequence[Row], of: str = "") -> float:
    return float(np.mean([_holds(row, of) for row in rows]))


def _width(rows: Sequence[Row], of: str = "") -> float:
    return float(np.mean([row[f"{of}high"] - row[f"{of}low"] for row in rows]))


def goals(rows: Sequence[Row]) -> list[Comparison]:
    """State the goals of every row for one model."""
    return [
        goal for row in rows if row["part"] == EVERYTHING for goal in _goals(str(row["row"]), row)
    ]


def _goals(name: str, row: Row) -> Iterator[Comparison]:
    count = f"{row['answers']} answers"
    if row["trusted"] >= FEWEST:
        note = f"{row['trusted']} of {count} are trusted"
        yield at_least(f"{name}: trusted intervals hold", row["trusted held"], TRUSTED, note)
    if name in CANNOT_KNOW:
        yield at_least(f"{name}: interval holds or abstain", row["honest"], HONEST, count)
    else:
        yield at_least(f"{name}: intervals hold", row["held"], ALL, count)
    if name in CAN_KNOW:
        note = f"mean width {row['width']:.2f}"
        yield at_least(f"{name}: share of trust", row["trust"], KNOWN, note)
    if name == rows_of.UNCHANGED:
        yield at_least(f"{name}: share of trust", row["trust"], UNCHANGED, count)
    if name == rows_of.NATURAL:
        yield at_most(f"{name}: mean width", row["width"], WIDEST)
    if name in rows_of.LABELS:
        note = f"{row['worst part']}; Wilson's worst {row['wilson worst']:.2f}"
        yield at_least(f"{name}: worst family", row["worst held"], ALL, note)
        note = f"mean of families; Wilson's holds in {row['wilson held']:.2f}"
        yield at_most(f"{name}: width over Wilson's", row["width ratio"], WILSON, note)


def _whole(rows: Sequence[Row]) -> list[Row]:
    return frame.select(rows, part=EVERYTHING)


def _parts(rows: Sequence[Row]) -> list[Row]:
    return [row for row in rows if row["part"] != EVERYTHING]


_NUMBERS = (
    Column("answers"),
    *(Column(name, spec=".0%") for name in VERDICTS),
    Column("trusted held", "trusted holds", ".0%", missing="-"),
    Column("held", "holds", ".0%"),
    Column("honest", "holds or abstain", ".0%"),
    Column("width", spec=".2f"),
    Column("trusted width", spec=".2f", missing="-"),
    Column("wilson held", "Wilson holds", ".0%", missing="-"),
    Column("width ratio", "over Wilson's", ".2f", missing="-"),
)


def bench(families: Sequence[Family]) -> Bench:
    """Return the exam on block models, real graphs and some natural families."""
    return Bench(
        name="exam",
        title="The coverage exam",
        command="bench exam",
        introduction=f"""\
Every row is a situation whose truth is known. Of its answers: how many, the share of each verdict,
how often the 90 % interval of trusted answers *holds* the true accuracy and how often that of all
does, how often it does or the verdict is `abstain`, and the mean width of the intervals (of all and
of trusted ones). With labels, Wilson's interval of the same labels is beside ours (for nodes drawn
without replacement), and *over Wilson's* is the mean of the families' ratios of widths. Labelled
and natural rows are means of answers; their parts are families. On {", ".join(ONLY_LINEAR)} only
SIGN is measured. A trusted share is judged with {FEWEST} or more trusted answers.""",
        cases=partial(cases, families),
        rows=summarise,
        bars=per("model", goals),
        tables=(
            Table("{model}", (Column("row", "situation"), *_NUMBERS), _whole),
            Table("{model}: {row}", (Column("part", "situation"), *_NUMBERS), _parts),
        ),
        terminal=(Table("{model}", (Column("row", "situation"), *_NUMBERS[:7]), _whole),),
        settings=_settings,
    )


def _settings(cells: Sequence[Cell], rows: Sequence[Row]) -> Mapping[str, Any]:
    usual = usual_settings(cells, [dict(cell) for cell in cells])
    answers = sum(row["answers"] for row in _whole(rows))
    return usual | {"sources": frame.distinct(cells, "source"), "answers": answers}


BENCH = bench(separate(FAMILIES))
