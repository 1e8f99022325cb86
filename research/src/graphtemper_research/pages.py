"""Every committed page that is made of result files, written by one command.

    python -m graphtemper_research.pages    # from the root of a checkout

Measuring writes results; this turns them into pages, and a test says that pages are up to date.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from graphtemper import calibrators
from graphtemper.calibrators import Calibrator
from graphtemper_research import baselines, benches, numbers, retrained
from graphtemper_research.gats.systems import systems
from graphtemper_research.harness.outcome import read_outcome, write_text
from graphtemper_research.numbers.tables import Results, table
from graphtemper_research.paper.audit_page import render as audit
from graphtemper_research.paper.results_page import results_page

# Pages of which only the parts between marks are made of results.
MARKED = (
    "README.md",
    "docs/benchmarks.md",
    "docs/calibrators.md",
    "docs/results/modules.md",
    "docs/results/private_cards.md",
    "docs/results/scaling.md",
)


def pages(root: Path) -> dict[Path, str]:
    """Return the text of every page in a checkout, as its result files have it."""
    docs = root / "docs"
    folder = docs / "results"
    packages = {one.__name__.rpartition(".")[2]: one for one in (calibrators, baselines, retrained)}
    named = numbers.values(folder)
    named |= {name: registry(one.REGISTRY) for name, one in packages.items()}
    results = Results(folder)
    sources = results.stamp("calibrators_in_distribution", "cf_gnn_sets", "real")
    named["systems"] = f"{systems(results)}\n\n{sources}"
    found = {
        docs / "results.md": results_page(folder, "results/"),
        docs / "audit.md": audit(folder),
    }
    for path in (root / name for name in MARKED):
        base = "docs/" if path.parent == root else "../" if path.parent == folder else ""
        found[path] = numbers.filled(path.read_text("utf-8"), named, base)
    for name in benches.MODULES:
        for path in folder.rglob(f"{name}.json"):
            found[path.with_suffix(".md")] = benches.load(name).page(read_outcome(path))
    return found


def registry(methods: Mapping[str, type[Calibrator]]) -> str:
    """Return what calibrators need and do, from their class attributes."""
    head = ("calibrator", "published in", "one scale per", "needs", "preserves argmax", "torch")
    rows = [
        (
            f"`{name}`",
            method.reference,
            method.granularity.replace("_", " and "),
            ", ".join(method.needs),
            "yes" if method.preserves_argmax else "no",
            "yes" if method.extra else "",
            method.differs,
        )
        for name, method in methods.items()
    ]
    return table([*head, "where it differs from what was published"], rows)


if __name__ == "__main__":
    for path, text in pages(Path(*sys.argv[1:])).items():
        write_text(path, text)
