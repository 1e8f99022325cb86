"""Measure the GATS protocol and write its page."""

from __future__ import annotations

import itertools
import json
import sys
from pathlib import Path

from graphtemper_research.gats.protocol import (
    GRAPHS,
    METHODS,
    SPLITS,
    Row,
    row_normalised,
    run_split,
)
from graphtemper_research.gats.protocol_page import render
from graphtemper_research.graphs import datasets
from graphtemper_research.harness.outcome import write_text


def main(folder: Path, journal: Path) -> None:
    """Measure what the journal does not hold yet, one row per line, then write the page."""
    text = journal.read_text("utf-8") if journal.is_file() else ""
    lines = text[: text.rfind("\n") + 1]
    if lines != text:  # the last line of an interrupted run
        write_text(journal, lines)
    rows: list[Row] = [json.loads(line) for line in lines.splitlines()]
    finished = {(row["graph"], row["split"], row["method"]) for row in rows}
    graphs = {name: row_normalised(datasets.load(name)) for name in GRAPHS}
    for seed, name in itertools.product(range(SPLITS), GRAPHS):
        methods = [
            method
            for method in METHODS
            if method.only in (None, name)
            and seed < method.splits
            and (name, seed, method.name) not in finished
        ]
        if not methods:
            continue
        measured = list(run_split(graphs[name], name, seed, methods))
        rows += measured
        with journal.open("a", encoding="utf-8") as stream_:
            stream_.writelines(json.dumps(row) + "\n" for row in measured)
        print(f"{name}, split {seed}", file=sys.stderr)
    write_text(folder / "calibrators_in_distribution.md", render(rows))


if __name__ == "__main__":
    main(Path("docs/results"), Path("docs/results/calibrators_in_distribution.jsonl"))
