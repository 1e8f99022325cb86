"""Changed class shares on real graphs: how well they are estimated, and what correcting does.

Half of the labelled nodes train a model, a quarter makes the source card, and of the last quarter
nodes are drawn so that their class shares are new while the graph stays: pure label shift. Controls
shift the graph as well, where a correction rests on an assumption that no longer holds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np

from graphtemper import Graph, SourceCard, metrics, recalibrate
from graphtemper import temperature as temperatures
from graphtemper.recalibration import Recalibration
from graphtemper_research.harness import frame
from graphtemper_research.harness.cells import Cell, Show
from graphtemper_research.harness.frame import Aggregate, Row, Rows
from graphtemper_research.harness.layout import Column, Table
from graphtemper_research.harness.numeric import FloatArray
from graphtemper_research.harness.outcome import Comparison, at_least, at_most, reported
from graphtemper_research.harness.runner import Bench, per
from graphtemper_research.trials import trial
from graphtemper_research.trials.cases import graph_cases
from graphtemper_research.trials.share_targets import CASES, resampled
from graphtemper_research.trials.trial import SOURCE, UNCALIBRATED, Indices

SCHEMA = "graphtemper.class_shares_cell/1"
GRAPHS = (
    "cora",
    "citeseer",
    "pubmed",
    "minesweeper",
    "tolokers",
    "actor",
    "amazon_photo",
    "airport_usa",
    "county_2012",
    "imdb_years",
)
QUICK_GRAPHS = ("county_2012",)
# The modes of `recalibrate`, without and with a correction.
MODES: tuple[Literal["estimate"] | None, ...] = (None, "estimate")
METHODS = ("plain", "estimate")
ESTIMATORS = ("predicted", "reported")
_PLAIN = (f"ece {UNCALIBRATED}", f"ece {SOURCE}")
HALF = 0.5
"""Limit of the share error, relative to that of the predicted shares."""
NO_WORSE = 0.95
"""Fraction of the cases in which a correction may not raise the ECE."""
NOTICEABLE = 0.005


def measure(
    graph: Graph, model: str, seed: int, compositions: int, *, progress: Show | None = None
) -> Rows:
    """Return two rows per case, without and with a correction, for one split of one graph."""
    assert graph.labels is not None
    train, val, test = trial.split(graph, seed)
    home = trial.hide_labels(graph, test)
    predictor = trial.MODELS[model](seed).fit(home, train)
    card = SourceCard.build(
        predictor, home, val, seed=seed, compositions=compositions, progress=progress
    )
    home_shares = np.bincount(graph.labels[val], minlength=graph.num_classes) / val.size
    unlabelled = graph.replace(labels=None)
    rows: Rows = []
    for index, case in enumerate(CASES):
        draw = trial.TARGET_SEED + 1000 * seed + index
        target = unlabelled if case.shift is None else case.shift(unlabelled, draw)
        nodes = resampled(graph.labels, test, case.strength, draw)
        plain, corrected = (
            recalibrate(predictor, target, card, nodes, seed=draw, class_shares=mode)
            for mode in MODES
        )
        labels = graph.labels[plain.nodes]
        logits = np.asarray(predictor(target)[plain.nodes], dtype=np.float64)
        facts = case.name | _facts(home_shares, card.temperature, logits, labels, corrected)
        for method, result in zip(METHODS, (plain, corrected), strict=True):
            rows.append(facts | _scored(method, result, logits, labels))
    return rows


def _facts(
    home_shares: FloatArray,
    temperature: float,
    logits: FloatArray,
    labels: Indices,
    result: Recalibration,
) -> dict[str, Any]:
    """Return how far the shares moved, the L1 error of every estimate, and the ECE without any."""
    classes = home_shares.size
    true = np.bincount(labels, minlength=classes) / labels.size
    estimates = {
        "predicted": np.bincount(logits.argmax(axis=1), minlength=classes) / labels.size,
        "reported": result.class_shares,
    }
    facts = {
        f"l1 {name}": None if shares is None else float(np.abs(shares - true).sum())
        for name, shares in estimates.items()
    }
    facts |= {
        f"ece {name}": metrics.ece(temperatures.apply(logits, value), labels)
        for name, value in {UNCALIBRATED: 1.0, SOURCE: temperature}.items()
    }
    moved = float(np.abs(true - home_shares).sum())
    return {"moved": moved, "applied": result.logit_shift is not None, **facts}


def _scored(
    method: str, result: Recalibration, logits: FloatArray, labels: Indices
) -> dict[str, Any]:
    shift = 0.0 if result.logit_shift is None else result.logit_shift
    return trial.score(logits + shift, labels, {method: trial.Answer.of(result)})[0]


def summarise(cells: Sequence[Cell]) -> Rows:
    """Return one row per case: share errors, and the answers without and with a correction."""
    keys = ("model", "graph", "seed", "shift", "strength", "draw")
    rows = []
    for facts, methods in frame.by_method(frame.flat(cells, *keys[:3]), *keys):
        plain, corrected = (methods[method] for method in METHODS)
        rows.append(
            facts
            | frame.pick(plain, "nodes", "moved", "applied", *(f"l1 {name}" for name in ESTIMATORS))
            | frame.pick(plain, *_PLAIN)
            | {
                f"{key} {when}": row[key]
                for key in ("ece", "accuracy", "estimate", "verdict")
                for when, row in (("before", plain), ("after", corrected))
            }
        )
    return rows


def _is_pure(row: Row) -> bool:
    return bool(row["shift"] == "none" and row["strength"] > 0.0)


def _is_reported(row: Row) -> bool:
    return row["l1 reported"] is not None


def compare(rows: Sequence[Row]) -> list[Comparison]:
    """State both bars over the pure share shifts, and what else has to be known."""
    pure = [row for row in rows if _is_pure(row)]
    controls = [row for row in rows if row["shift"] != "none"]
    unchanged = frame.select(rows, shift="none", strength=0.0)
    corrected = frame.select(pure, applied=True)
    with_shares = [row for row in pure if _is_reported(row)]
    predicted = [
        row if _is_reported(row) else {**row, "l1 reported": row["l1 predicted"]} for row in pure
    ]
    return [
        at_most(
            "share error where shares are reported, over that of predicted shares",
            _ratio(with_shares),
            HALF,
            f"{len(with_shares)} of {len(pure)} cases",
        ),
        reported(
            "the same over all cases, with predicted shares where none are reported",
            _ratio(predicted),
        ),
        reported(
            "share error where logits are corrected, over that of predicted shares",
            _ratio(corrected),
            f"{len(corrected)} cases",
        ),
        at_least(
            "cases in which the ECE is no worse with the correction",
            1.0 - len(_worse(pure)) / len(pure),
            NO_WORSE,
            f"{len(pure)} cases, corrected or not; "
            f"{1.0 - len(_worse(pure, NOTICEABLE)) / len(pure):.3f} but for {NOTICEABLE}",
        ),
        _part("corrected cases in which the ECE is worse", corrected, _worse(corrected)),
        _part(
            f"corrected cases in which it is worse by {NOTICEABLE}",
            corrected,
            _worse(corrected, NOTICEABLE),
        ),
        reported(
            "mean ECE of corrected cases",
            frame.average(corrected, "ece after"),
            f"{frame.average(corrected, 'ece before'):.4f} without, "
            f"{frame.average(corrected, _PLAIN[1]):.4f} at {SOURCE}, "
            f"{frame.average(corrected, _PLAIN[0]):.4f} {UNCALIBRATED}; accuracy "
            f"{frame.average(corrected, 'accuracy before'):.3f} to "
            f"{frame.average(corrected, 'accuracy after'):.3f}",
        ),
        reported(
            "error of the accuracy in corrected cases",
            _error(corrected, "after"),
            f"{_error(corrected, 'before'):.4f} for the predictions as they were",
        ),
        _applied("graphs as they are that were corrected", unchanged),
        _applied("controls that were corrected", controls),
        _part("controls in which that made the ECE worse", controls, _worse(controls)),
    ]


def _part(what: str, rows: Sequence[Row], some: Sequence[Row]) -> Comparison:
    fraction = len(some) / len(rows) if rows else float("nan")
    return reported(what, fraction, f"{len(some)} of {len(rows)}")


def _applied(what: str, rows: Sequence[Row]) -> Comparison:
    return _part(what, rows, frame.select(rows, applied=True))


def _worse(rows: Sequence[Row], by: float = 0.0) -> list[Row]:
    return [row for row in rows if row["applied"] and row["ece after"] - row["ece before"] > by]


def _ratio(rows: Sequence[Row], name: str = "reported") -> float:
    """Return the mean L1 error of an estimate over that of the predicted shares."""
    if not rows:
        return float("nan")
    return frame.average(rows, f"l1 {name}") / max(frame.average(rows, "l1 predicted"), 1e-12)


def _error(rows: Sequence[Row], when: str) -> float:
    gaps = [abs(row[f"estimate {when}"] - row[f"accuracy {when}"]) for row in rows]
    return float(np.mean(gaps)) if gaps else float("nan")


def _among(keep: Callable[[Row], bool], column: str) -> Aggregate:
    """Return the aggregate that averages a column over some rows of a group."""
    return lambda rows: frame.mean_of(column)([row for row in rows if keep(row)])


_EFFECTS = (*_PLAIN, "ece before", "ece after", "accuracy before", "accuracy after")
_SUMMARY: dict[str, Aggregate] = {
    "cases": len,
    "reported": lambda rows: sum(map(_is_reported, rows)),
    "applied": lambda rows: len(frame.select(rows, applied=True)),
    **{key: _among(_is_reported, key) for key in (f"l1 {name}" for name in ESTIMATORS)},
    "worse": lambda rows: len(_worse(rows)),
    **{key: _among(lambda row: bool(row["applied"]), key) for key in _EFFECTS},
}
_ERRORS = (
    Column("cases"),
    Column("reported", "reported in"),
    *(Column(f"l1 {name}", name, ".3f") for name in ESTIMATORS),
)
_CORRECTIONS = (
    Column("cases"),
    Column("applied", "corrected"),
    Column("worse"),
    Column(_PLAIN[0], f"ECE {UNCALIBRATED}", ".3f"),
    Column(_PLAIN[1], SOURCE, ".3f"),
    Column("ece before", "before", ".3f"),
    Column("ece after", "after", ".3f"),
    Column("accuracy before", "accuracy before", ".3f"),
    Column("accuracy after", "then", ".3f"),
)
# What the tables group cases by: which cases, and what a group is called.
_GROUPS: dict[str, Callable[[Row], Any]] = {
    "graph": lambda row: row["graph"] if _is_pure(row) else None,
    "strength": lambda row: row["strength"] if row["shift"] == "none" else None,
    "control": lambda row: (
        None if row["shift"] == "none" else f"{row['shift']}, shares {row['strength']:g}"
    ),
}


def _by(name: str, what: str, columns: Sequence[Column]) -> Table:
    """Return the table of share errors or corrections by graph, strength or control."""

    def rows(cases: Sequence[Row]) -> Rows:
        named = [{**row, name: _GROUPS[name](row)} for row in cases]
        return frame.aggregate([r for r in named if r[name] is not None], ("model", name), _SUMMARY)

    return Table(f"{{model}}: {what} by {name}", (Column(name), *columns), rows)


BENCH = Bench(
    name="class_shares",
    title="Changed class shares",
    command="bench class-shares",
    introduction="""\
Pure share shifts draw the scored nodes so that their class shares are new: every class share is
multiplied by exp(strength x a normal number). L1 errors of the shares are means over the cases in
which shares are reported. ECE and accuracy are means over the corrected cases; *before* is what
`recalibrate` answers by default. Controls shift the graph itself, alone and with new shares: there
the assumption behind a correction is false.""",
    cases=graph_cases(measure, SCHEMA, GRAPHS, QUICK_GRAPHS),
    rows=summarise,
    bars=per("model", compare),
    tables=tuple(
        _by(name, what, columns)
        for name in _GROUPS
        for what, columns in (("share errors", _ERRORS), ("corrections", _CORRECTIONS))
    ),
    terminal=tuple(_by(name, "corrections", _CORRECTIONS) for name in ("graph", "strength")),
)
