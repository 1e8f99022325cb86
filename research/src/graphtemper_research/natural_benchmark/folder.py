"""The folder of the benchmark: graphs as files, fixed splits, the list of tasks, the loader."""

from __future__ import annotations

import csv
import io
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from graphtemper import errors
from graphtemper._core.files import atomic_write
from graphtemper_research.graphs import datasets
from graphtemper_research.harness.outcome import write_text
from graphtemper_research.natural_benchmark import loader
from graphtemper_research.trials import graph_names
from graphtemper_research.trials.graph_names import short
from graphtemper_research.trials.natural import FAMILIES, Family, scored_nodes, sources
from graphtemper_research.trials.trial import halves

SEED = 1
COLUMNS = ("task", "family", "source", "target", "seed", "nodes")


def write_folder(out: Path, families: Sequence[Family] = FAMILIES) -> int:
    """Write the benchmark of all families that are on this machine; return its number of tasks.

    The tasks, the splits and the scored nodes are those of `bench natural` with seed 1. Labels of
    targets are in the graphs' files, because most targets are sources of other tasks; the loader
    leaves them out.
    """
    rows: list[dict[str, Any]] = []
    splits: dict[str, np.ndarray[Any, Any]] = {}
    (out / "graphs").mkdir(parents=True, exist_ok=True)
    for family, source, targets in _sources(families):
        home = datasets.load_any(source)
        train, card = halves(home, SEED)
        name = short(source)
        splits[f"{name}-{SEED}-train"], splits[f"{name}-{SEED}-card"] = train, card
        trained = train if family.same_nodes else train[:0]
        for target in targets:
            nodes = scored_nodes(datasets.load_any(target), target, trained, SEED)
            splits[f"{len(rows)}-scored"] = nodes
            values = (len(rows), family.name, name, short(target), SEED, nodes.size)
            rows.append(dict(zip(COLUMNS, values, strict=True)))
        for graph in (source, *targets):
            shutil.copyfile(_file(graph), out / "graphs" / f"{short(graph)}.npz")
    if not rows:
        raise errors.empty("no family of graphs is here; `graphtemper data list` shows what is.")
    with atomic_write(out / "splits.npz") as stream:
        stored: dict[str, Any] = {key: nodes.astype(np.int32) for key, nodes in splits.items()}
        np.savez_compressed(stream, **stored)
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_text(out / "tasks.csv", text.getvalue())
    shutil.copyfile(loader.__file__, out / "loader.py")
    return len(rows)


def _sources(families: Sequence[Family]) -> Iterator[tuple[Family, str, list[str]]]:
    """Yield the sources of every family with their targets, as far as they are here."""
    for family in families:
        here, _ = graph_names.present(family.graphs)
        if len(here) > 1:
            for source in sources(here):
                yield family, source, [name for name in here if name != source]


def _file(name: str) -> Path:
    found = datasets.find(name) if name in datasets.CATALOGUE else None
    return found or Path(name)
