"""Simulated labelling sessions on natural shifts: do intervals hold, and how many labels they take.

Labels of a target answer the session's questions and score it; nothing else reads them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from graphtemper import LabelSession, Recalibration, SourceCard, recalibrate
from graphtemper._core.checks import FloatArray
from graphtemper.recalibration.report import style
from graphtemper.recalibration.sequential import WAGER, fortunes
from graphtemper.recalibration.verdict import labels_needed
from graphtemper_research.graphs.datasets import load_any as load_graph
from graphtemper_research.harness import frame
from graphtemper_research.harness.cells import Case, Cell, Show
from graphtemper_research.harness.frame import Row, Rows
from graphtemper_research.harness.layout import Column, Table
from graphtemper_research.harness.outcome import Comparison, at_least, at_most
from graphtemper_research.harness.runner import Bench, Request, Selection, per
from graphtemper_research.trials import graph_names
from graphtemper_research.trials.cases import models_of
from graphtemper_research.trials.natural_environments import sources
from graphtemper_research.trials.natural_families import FAMILIES, PAIRS_ONLY, Family, scored_nodes
from graphtemper_research.trials.trial import MODELS, TARGET_SEED, Indices, halves

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SCHEMA = "graphtemper.sessions_cell/1"
ALL = "all sessions"
SESSIONS, QUICK_SESSIONS = 6, 2
GOAL, APART, BATCH, LONGEST = 0.05, 0.1, 10, 240
MOST_TARGETS, FEWEST_NODES = 4, 100


def session_facts(result: Recalibration, labels: Indices, seed: int) -> dict[str, float]:
    """Return what one session of each kind gave on a target whose labels (N,) are known.

    ``held`` and ``share`` are those of a width: whether the interval held at the stop, and the
    labels over those of a fixed plan. ``right`` and ``labels`` are those of a gate at a distance of
    `APART`, and ``always`` says whether the interval of any moment held at all of `LONGEST`.
    """
    nodes = result.nodes
    truth = float((result.predictions == labels[nodes]).mean())
    width = _finished(LabelSession(result, goal=GOAL, seed=seed), labels)
    accuracy, plan = width.accuracy, labels_needed(0.5, GOAL, nodes.size)
    found = {
        "held": float(accuracy.low - 1e-9 <= truth <= accuracy.high + 1e-9),
        "share": width.num_labels / plan,
    }
    gate = truth + APART * (1 if seed % 2 and truth + APART < 1.0 else -1)
    if 0.0 < gate < 1.0:
        decided = _finished(LabelSession(result, at_least=gate, seed=seed), labels)
        found["right"] = float((decided.decision == "above") == (truth >= gate))
        found["labels"] = float(decided.num_labels)
    whole = LabelSession(result, goal=GOAL, seed=seed)
    whole.add({int(node): int(labels[node]) for node in whole.next(LONGEST)})
    design, rows, right, counted = whole._run
    wealth = fortunes(design, rows, right, np.array([truth]), counted)
    found["always"] = float(wealth.max() < WAGER)
    return found


def _finished(session: LabelSession, labels: Indices) -> LabelSession:
    while not session.done:
        session.add({int(node): int(labels[node]) for node in session.next(BATCH)})
    return session


def measure(
    family: Family, source: str, model: str, seed: int, count: int, show: Show | None = None
) -> Rows:
    """Return one row per target of a source and session."""
    home = load_graph(source)
    train, val = halves(home, seed)
    predictor = MODELS[model](seed).fit(home, train)
    card = SourceCard.build(predictor, home, val, seed=seed, compositions=0, progress=show)
    others = [name for name in family.graphs if name != source]
    chosen = np.unique(np.linspace(0, len(others) - 1, MOST_TARGETS).round().astype(int))
    rows: Rows = []
    for name in (others[k] for k in chosen):
        away = load_graph(name)
        nodes = scored_nodes(away, name, train if family.same_nodes else train[:0], seed)
        assert away.labels is not None
        if nodes.size >= FEWEST_NODES:
            hidden = away.replace(labels=None)
            result = recalibrate(predictor, hidden, card, nodes, seed=TARGET_SEED + seed)
            for session in range(count):
                facts = {"target": graph_names.short(name), "session": session}
                rows.append(facts | session_facts(result, away.labels, session))
    return rows


def cases(request: Request) -> Selection:
    """Return a case per source of a family, model and seed."""
    found: list[Case] = []
    missing: list[str] = []
    count = QUICK_SESSIONS if request.quick else SESSIONS
    for family in (*FAMILIES, *PAIRS_ONLY):
        if request.names is not None and family.name not in request.names:
            continue
        here, absent = graph_names.present(family.graphs)
        missing += absent
        own = replace(family, graphs=tuple(here))
        chosen = sources(here) if len(here) > 1 else []
        for source, model, seed in product(chosen, models_of(request), request.splits()):
            stem = graph_names.short(source)
            head: dict[str, Any] = {
                "schema": SCHEMA,
                "family": family.name,
                "source": stem,
                "model": model,
            }
            head |= {"seed": seed, "sessions": count, "graphs": len(here)}
            work = partial(measure, own, source, model, seed, count)
            title = f"{family.name}-{stem}-{model}-{seed}"
            found.append(Case(title, head, work, whole=_ended))
    return found, missing


def _ended(row: Row) -> bool:
    return "held" in row


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
        at_least(f"the interval of any moment holds at {LONGEST} moments", every["always"], 0.90),
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
decided rightly, and the labels for that. *held always*: the interval of any moment holds at its
worst of {LONGEST} moments. The constants of both intervals were chosen on these families."""


def _draw(figure: Figure, rows: Sequence[Row], cells: Sequence[Cell]) -> None:
    """Draw how often the intervals held, by family."""
    axes = figure.subplots(1, 1)
    own = frame.select(rows, model=rows[0]["model"])
    places = np.arange(len(own))
    axes.plot([row["held"] for row in own], places, "o", color=style.BLUE, label="at the stop")
    axes.plot([row["always"] for row in own], places, "s", color=style.ORANGE, label="always")
    axes.axvline(0.9, color=style.GREY, linewidth=0.8)
    axes.set_yticks(places, [row["family"] for row in own])
    axes.set(xlabel="share of sessions in which the interval holds")
    axes.legend()


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
    draw=_draw,
    size=lambda rows: (7.0, 1.0 + 0.3 * len(rows)),
    settings=lambda cells, rows: {"seed": frame.distinct(cells, "seed")},
)
