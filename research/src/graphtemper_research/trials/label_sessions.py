"""Simulated labelling sessions on natural shifts: do intervals hold, and how many labels they take.

Labels of a target answer the session's questions and score it; nothing else reads them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from graphtemper import LabelSession, Recalibration, recalibrate
from graphtemper_research.graphs.datasets import load_any as load_graph
from graphtemper_research.harness import frame
from graphtemper_research.harness.cells import Case, Cell, Show
from graphtemper_research.harness.frame import Row, Rows
from graphtemper_research.harness.layout import Column, Table
from graphtemper_research.harness.numeric import FloatArray
from graphtemper_research.harness.outcome import Comparison, at_least, at_most
from graphtemper_research.harness.runner import Bench, Request, Selection, per
from graphtemper_research.trials.cases import models_of
from graphtemper_research.trials.graph_names import short
from graphtemper_research.trials.natural import (
    FAMILIES,
    Family,
    Home,
    known_families,
    scored_nodes,
)
from graphtemper_research.trials.trial import TARGET_SEED, Indices

SCHEMA = "graphtemper.sessions_cell/1"
ALL = "all sessions"
SESSIONS, QUICK_SESSIONS = 6, 2
GOAL, APART, BATCH, LONGEST = 0.05, 0.1, 10, 240
MOST_TARGETS, FEWEST_NODES = 4, 100


def session_facts(result: Recalibration, labels: Indices, seed: int) -> dict[str, float]:
    """Return what one session of each kind gave on a target whose labels (N,) are known.

    ``held`` and ``share`` are those of a width: whether the interval held at the stop, and the
    labels over those of a fixed plan. ``right`` and ``labels`` are those of a gate at a distance of
    `APART`, and ``always`` says whether the interval held after every batch of `LONGEST` labels.
    """
    nodes = result.nodes
    truth = float((result.predictions == labels[nodes]).mean())
    width = _finished(LabelSession(result, goal=GOAL, seed=seed), labels)
    accuracy, plan = width.accuracy, planned(nodes.size)
    found = {
        "held": float(accuracy.low - 1e-9 <= truth <= accuracy.high + 1e-9),
        "share": width.num_labels / plan,
    }
    gate = truth + APART * (1 if seed % 2 and truth + APART < 1.0 else -1)
    if 0.0 < gate < 1.0:
        decided = _finished(LabelSession(result, at_least=gate, seed=seed), labels)
        found["right"] = float((decided.decision == "above") == (truth >= gate))
        found["labels"] = float(decided.num_labels)
    session = LabelSession(result, goal=GOAL, seed=seed)
    held = True
    while session.num_labels < min(LONGEST, nodes.size):
        session.add({int(node): int(labels[node]) for node in session.next(BATCH)})
        held &= session.accuracy.low - 1e-9 <= truth <= session.accuracy.high + 1e-9
    found["always"] = float(held)
    return found


def planned(population: int) -> int:
    """Return how many labels give a 90 % interval of half-width `GOAL`, at worst, without a model.

    Examples
    --------
    >>> planned(10_000)
    264
    """
    needed = 0.25 * (1.645 / GOAL) ** 2
    return math.ceil(min(needed / (1.0 + (needed - 1.0) / population), population))


def _finished(session: LabelSession, labels: Indices) -> LabelSession:
    while not session.done:
        session.add({int(node): int(labels[node]) for node in session.next(BATCH)})
    return session


def measure(
    family: Family, source: str, model: str, seed: int, count: int, show: Show | None = None
) -> Rows:
    """Return one row per target of a source and session."""
    home = Home.prepare(source, family.same_nodes, model, seed, 0, show)
    others = [name for name in family.graphs if name != source]
    chosen = np.unique(np.linspace(0, len(others) - 1, MOST_TARGETS).round().astype(int))
    rows: Rows = []
    for name in (others[k] for k in chosen):
        away = load_graph(name)
        nodes = scored_nodes(away, name, home.trained, seed)
        assert away.labels is not None
        if nodes.size >= FEWEST_NODES:
            target = away.replace(labels=None), home.card, nodes
            result = recalibrate(home.predictor, *target, seed=TARGET_SEED + seed)
            for session in range(count):
                facts = {"target": short(name), "session": session}
                rows.append(facts | session_facts(result, away.labels, session))
    return rows


def cases(request: Request) -> Selection:
    """Return a case per source of a family, model and seed."""
    count = QUICK_SESSIONS if request.quick else SESSIONS
    families, missing = known_families(FAMILIES, request)
    found = []
    for family, homes in families:
        for source, model, seed in product(homes, models_of(request), request.splits()):
            stem = short(source)
            head: dict[str, Any] = {
                "schema": SCHEMA,
                "family": family.name,
                "source": stem,
                "model": model,
            }
            head |= {"seed": seed, "sessions": count, "graphs": len(family.graphs)}
            work = partial(measure, family, source, model, seed, count)
            title = f"{family.name}-{stem}-{model}-{seed}"
            found.append(Case(title, head, work))
    return found, missing


def summarise(cells: Sequence[Cell]) -> Rows:
    """Return one row per model and family, and one for all of its sessions."""
    grouped = frame.grouped(frame.flat(cells, "family", "model"), "model", "family")
    rows = [
        {"model": model, "family": family} | table(own) for (model, family), own in grouped.items()
    ]
    every = frame.grouped(frame.flat(cells, "model"), "model")
    return rows + [{"model": model, "family": ALL} | table(own) for (model,), own in every.items()]


def table(rows: Sequence[Row]) -> dict[str, Any]:
    """Return the number of sessions, means of shares, and medians of counts."""

    def column(name: str) -> FloatArray:
        return np.array([row[name] for row in rows if name in row])

    found: dict[str, Any] = {"sessions": len(rows)}
    found |= {name: float(column(name).mean()) for name in ("held", "right", "always")}
    return found | {name: float(np.median(column(name))) for name in ("share", "labels")}


def compare(rows: Sequence[Row]) -> list[Comparison]:
    """State the bars over all sessions of a model."""
    (every,) = frame.select(rows, family=ALL)
    width = f"90 % interval at a width of {100 * GOAL:.0f} points holds"
    return [
        at_least(width, every["held"], 0.88),
        at_most("labels, median against the fixed plan", every["share"], 0.80),
        at_least("gates ten points away decided rightly", every["right"], 0.95),
        at_most("labels for that, median", every["labels"], 150),
        at_least(
            f"the interval holds after every batch of {LONGEST} labels", every["always"], 0.90
        ),
    ]


_COLUMNS = (
    Column("family"),
    Column("sessions"),
    Column("held", "held", ".0%"),
    Column("share", "labels / plan", ".2f"),
    Column("right", "gates right", ".0%"),
    Column("labels", "labels at a gate", ".0f"),
    Column("always", "held always", ".0%"),
)
_TABLE = Table("{model}: sessions", _COLUMNS)
_INTRODUCTION = f"""\
Sessions in batches of {BATCH}, on at most {MOST_TARGETS} targets of a source. *held*: the interval
at a width of {100 * GOAL:.0f} points holds the accuracy at its stop; *labels / plan*: the labels
until then over those of a fixed plan. *gates right*: gates {100 * APART:.0f} points away that are
decided rightly, and the labels for that. *held always*: it holds after every batch of
{LONGEST} labels. The constants of both intervals were chosen on these families."""


BENCH = Bench(
    name="sessions",
    title="Labelling sessions under natural shifts",
    command="bench sessions",
    introduction=_INTRODUCTION,
    cases=cases,
    rows=summarise,
    bars=per("model", compare),
    tables=(_TABLE,),
    terminal=(_TABLE,),
    settings=lambda cells, rows: {"seed": frame.distinct(cells, "seed")},
)
