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
from graphtemper_research.paper.audit_page import render as audit
from graphtemper_research.paper.results_page import results_page


def pages(root: Path) -> dict[Path, str]:
    """Return the text of every page in a checkout, as its result files have it."""
    docs = root / "docs"
    folder = docs / "results"
    packages = {one.__name__.rpartition(".")[2]: one for one in (calibrators, baselines, retrained)}
    tables = {name: registry(one.REGISTRY) for name, one in packages.items()}
    tables["systems"] = systems(numbers.Results(folder))
    readme, listed = root / "README.md", docs / "calibrators.md"
    found = {
        readme: numbers.filled(readme.read_text("utf-8"), numbers.values(folder), "docs/"),
        listed: numbers.filled(listed.read_text("utf-8"), tables),
        docs / "results.md": results_page(folder, "results/"),
        docs / "audit.md": audit(folder),
    }
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
    return numbers.table([*head, "where it differs from what was published"], rows)


if __name__ == "__main__":
    for path, text in pages(Path(*sys.argv[1:])).items():
        write_text(path, text)
