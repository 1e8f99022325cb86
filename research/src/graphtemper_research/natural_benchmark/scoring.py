"""Scores of a CSV of results on the benchmark of natural shifts, as one table."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphtemper import errors
from graphtemper.metrics.binned import bin_index, equal_width_edges
from graphtemper_research.harness import frame
from graphtemper_research.harness.frame import Row, Rows
from graphtemper_research.harness.layout import Cells, Column, Table
from graphtemper_research.natural_benchmark.loader import HEAD

BINS = 15
OVER_FAMILIES = "mean of families"
_STATED = ("accuracy", "low", "high")


@dataclass(frozen=True, eq=False)
class Answer:
    """A method's rows about one task, in the order of the scored nodes."""

    prediction: NDArray[np.int64]
    confidence: NDArray[np.float64]
    stated: tuple[float, ...]


def score(folder: Path, results: Path) -> Rows:
    """Return one row per task of a folder: ECE, its noise floor, errors and coverage.

    Every task of a family that is answered at all must be answered, at every scored node.
    """
    if not (folder / "tasks.csv").is_file():
        raise errors.no_file(
            f"{folder} has no tasks.csv; `graphtemper bench natural-folder` makes it."
        )
    answers = read(results)
    with (folder / "tasks.csv").open(encoding="utf-8", newline="") as stream:
        tasks = list(csv.DictReader(stream))
    families = {row["family"] for row in tasks if int(row["task"]) in answers}
    foreign = sorted(answers.keys() - {int(row["task"]) for row in tasks})
    if foreign or not answers:
        what = f"answers task {foreign[0]}, which is not" if foreign else "answers no task"
        raise errors.missing(f"{results} {what} in {folder}; answer tasks of this folder.")
    rows: Rows = []
    with np.load(folder / "splits.npz", allow_pickle=False) as splits:
        for task in (task for task in tasks if task["family"] in families):
            number = int(task["task"])
            nodes = splits[f"{number}-scored"]
            found = _in_order(answers.get(number, {}), nodes, number)
            with np.load(folder / "graphs" / f"{task['target']}.npz", allow_pickle=False) as graph:
                labels = graph["labels"][nodes]
            rows.append(frame.pick(task, "family", "source", "target") | scores(found, labels))
    return rows


def scores(answer: Answer, labels: NDArray[np.integer[Any]]) -> dict[str, Any]:
    """Return the scores of one task.

    Examples
    --------
    >>> sure = Answer(np.array([0, 1, 1, 1]), np.full(4, 0.95), (0.7, 0.6, 0.8))
    >>> found = scores(sure, np.array([0, 1, 1, 0]))
    >>> round(found["ece"], 2), round(found["error"], 2), found["held"]
    (0.2, 0.05, True)
    """
    right, sure = answer.prediction == labels, answer.confidence
    index = bin_index(sure, equal_width_edges(BINS), closed="right")
    gaps = np.bincount(index, sure - right, BINS)
    variances = np.bincount(index, sure * (1.0 - sure), BINS)
    truth = float(right.mean())
    stated = answer.stated
    return {
        "nodes": int(labels.size),
        "accuracy": truth,
        "ece": float(np.abs(gaps).sum() / labels.size),
        "floor": float(np.sqrt(2.0 / np.pi * variances).sum() / labels.size),
        "error": abs((stated[0] if stated else float(sure.mean())) - truth),
        "held": stated[1] <= truth <= stated[2] if len(stated) == 3 else None,
    }


def read(path: Path) -> dict[int, dict[int, tuple[int, float, tuple[float, ...]]]]:
    """Read a CSV of results, by task and node.

    Accuracy and interval belong to a task: every row of it must repeat them or leave them empty.
    """
    found: dict[int, dict[int, tuple[int, float, tuple[float, ...]]]] = {}
    count = 0
    try:
        with path.open(encoding="utf-8", newline="") as stream:
            for row in csv.DictReader(stream):
                stated = tuple(float(row[key]) for key in _STATED if row.get(key))
                answer = (int(row["prediction"]), float(row["confidence"]), stated)
                found.setdefault(int(row["task"]), {})[int(row["node"])] = answer
                count += 1
    except FileNotFoundError as error:
        raise errors.no_file(f"there is no file {path}.") from error
    except (KeyError, TypeError, ValueError) as error:
        raise errors.damaged(
            f"{path} is not a CSV of results; write the columns {', '.join(HEAD)} with numbers."
        ) from error
    if count > sum(map(len, found.values())):
        raise errors.repeated(f"{path} answers a node of a task twice; answer once.")
    return found


def _in_order(
    rows: Mapping[int, tuple[int, float, tuple[float, ...]]], nodes: Sequence[int], task: int
) -> Answer:
    absent = [int(node) for node in nodes if int(node) not in rows]
    if absent:
        raise errors.missing(
            f"task {task} has no answer at {len(absent)} nodes, node {absent[0]} among them; "
            "answer at every scored node."
        )
    found = [rows[int(node)] for node in nodes]
    if any(item[2] != found[0][2] for item in found):
        raise errors.conflict(
            f"task {task} has several accuracies or intervals; repeat the same on every row of it."
        )
    confidence = np.array([item[1] for item in found])
    if not ((confidence >= 0.0) & (confidence <= 1.0)).all():
        raise errors.range(f"task {task} has a confidence outside [0, 1]; write probabilities.")
    return Answer(np.array([item[0] for item in found]), confidence, found[0][2])


def by_family(rows: Sequence[Row]) -> Rows:
    """Return the means of every family's tasks, and the mean of the families."""
    keys = ("accuracy", "ece", "floor", "error", "held")
    means = []
    for name in frame.distinct(rows, "family"):
        own = frame.select(rows, family=name)
        means.append({"family": name, "tasks": len(own)} | {key: _mean(own, key) for key in keys})
    total = {"family": OVER_FAMILIES, "tasks": len(rows)}
    return [*means, total | {key: _mean(means, key) for key in keys}]


def _mean(rows: Sequence[Row], key: str) -> float | None:
    return frame.mean([float(row[key]) for row in rows if row[key] is not None])


TABLE = Table(
    "{method}",
    (
        Column("family"),
        Column("tasks"),
        Column("accuracy", spec=".3f"),
        Column("ece", "ECE", ".3f"),
        Column("floor", "noise floor", ".3f"),
        Column("error", "error of accuracy", ".3f"),
        Column("held", "90 % interval holds", ".0%", "-"),
    ),
)


def table(folder: Path, results: Path) -> dict[str, Cells]:
    """Return the table of a CSV of results, titled by the name of its file."""
    rows = by_family(score(folder, results))
    return TABLE.render([row | {"method": results.stem} for row in rows])
