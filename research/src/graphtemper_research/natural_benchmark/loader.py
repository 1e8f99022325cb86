"""Read the benchmark of natural shifts: graphs, fixed splits and tasks. Needs NumPy alone.

for task in tasks("benchmark"):
    train, fit on task.source at task.train; calibrate at task.card; answer on task.target
    add(rows, task, predicted_classes, confidences)      # at task.scored, in its order
write("my_method.csv", rows)
"""

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]
PARTS = ("train", "card")
HEAD = ("task", "node", "prediction", "confidence", "accuracy", "low", "high")


@dataclass
class Task:
    """Train on ``train`` and calibrate on ``card``, nodes of the source; answer at ``scored``.

    A graph is a dictionary: ``features`` (N, F), ``edges`` (E, 2), and ``labels`` (N,) of the
    source, where -1 is unknown. The target has no labels: they stay with the scorer.
    """

    number: int
    family: str
    source: dict[str, Array]
    target: dict[str, Array]
    train: Array
    card: Array
    scored: Array


def graph(folder: str | Path, name: str, *, labels: bool = True) -> dict[str, Array]:
    """Return a graph of the folder with dense features."""
    with np.load(Path(folder) / "graphs" / f"{name}.npz", allow_pickle=False) as stored:
        found = {"edges": stored["edges"]}
        if "features" in stored:
            found["features"] = stored["features"]
        else:
            dense = np.zeros(stored["features_shape"], dtype=np.float32)
            rows = np.repeat(np.arange(len(dense)), np.diff(stored["features_indptr"]))
            dense[rows, stored["features_indices"]] = stored["features_data"]
            found["features"] = dense
        return found | ({"labels": stored["labels"]} if labels else {})


def tasks(folder: str | Path, families: Sequence[str] | None = None) -> Iterator[Task]:
    """Yield every task, or those of some families."""
    with (Path(folder) / "tasks.csv").open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    with np.load(Path(folder) / "splits.npz", allow_pickle=False) as splits:
        for row in rows:
            if families is None or row["family"] in families:
                number, seed = int(row["task"]), row["seed"]
                home = graph(folder, row["source"])
                away = graph(folder, row["target"], labels=False)
                train, card = (splits[f"{row['source']}-{seed}-{part}"] for part in PARTS)
                scored = splits[f"{number}-scored"]
                yield Task(number, row["family"], home, away, train, card, scored)


def add(rows: list[Any], task: Task, prediction: Array, confidence: Array, *stated: float) -> None:
    """Add a task's answer: a class and a confidence per node; accuracy, low and high if stated."""
    accuracy, low, high = (*stated, "", "", "")[:3]
    for node, label, sure in zip(task.scored, prediction, confidence, strict=True):
        rows.append((task.number, int(node), int(label), f"{sure:.6f}", accuracy, low, high))


def write(path: str | Path, rows: list[Any]) -> None:
    """Write the results of all tasks."""
    with Path(path).open("w", encoding="utf-8", newline="") as stream:
        csv.writer(stream, lineterminator="\n").writerows([HEAD, *rows])
