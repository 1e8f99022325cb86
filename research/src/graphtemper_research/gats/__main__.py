"""Measure the GATS protocol; write its result and its page into a folder.

``python -m graphtemper_research.gats [FOLDER]``. A journal in the folder keeps finished splits, so
that the same command resumes; the rows of other code are measured again.
"""

from __future__ import annotations

import itertools
import json
import sys
from pathlib import Path

from graphtemper_research.gats.protocol import (
    GRAPHS,
    METHODS,
    NAME,
    SPLITS,
    Row,
    row_normalised,
    run_split,
)
from graphtemper_research.gats.protocol_page import render
from graphtemper_research.graphs import datasets
from graphtemper_research.harness.outcome import write_text
from graphtemper_research.harness.provenance import stamp, text
from graphtemper_research.harness.uses import key

PROTOCOL = "graphtemper_research.gats.protocol"


def main(folder: Path) -> None:
    """Measure what the journal does not hold yet, then write the result and the page."""
    journal = folder / f"{NAME}.jsonl"
    rows = kept(journal)
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
        rows += run_split(graphs[name], name, seed, methods)
        lines = [json.dumps({"code": key(PROTOCOL), **row}) + "\n" for row in rows]
        write_text(journal, "".join(lines))
        print(f"{name}, split {seed}", file=sys.stderr)
    measured = stamp("python -m graphtemper_research.gats")
    write_text(folder / f"{NAME}.md", render(rows, measured))
    write_text(folder / f"{NAME}.json", text({"measured": measured, "rows": rows}))
    journal.unlink(missing_ok=True)


def kept(journal: Path) -> list[Row]:
    """Return the rows of a journal whose code is still the same."""
    lines = journal.read_text("utf-8").splitlines() if journal.is_file() else []
    rows = [json.loads(line) for line in lines]
    return [row for row in rows if row.pop("code") == key(PROTOCOL)]


if __name__ == "__main__":
    main(Path((sys.argv[1:] or ["docs/results"])[0]))
