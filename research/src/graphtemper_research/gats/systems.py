"""The systems of the paper's Table 1: how faithful each is here, and what of it was reproduced.

The table of ``docs/calibrators.md`` is made from the classes and from committed results; a test
compares the two.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from graphtemper.calibrators import GATS, STAC, CaGCN, Calibrator, TemperatureScaling
from graphtemper_research.baselines.cf_gnn import CFGNN
from graphtemper_research.baselines.gets import GETS
from graphtemper_research.baselines.similarity import SimilarityCalibrator
from graphtemper_research.baselines.wats import WATS
from graphtemper_research.gats.protocol import METHODS, Row, summary
from graphtemper_research.harness.provenance import load
from graphtemper_research.retrained import GDASpecReg, GDeltaUQ

IN_DISTRIBUTION, SETS = "calibrators_in_distribution.json", "cf_gnn_sets.json"
REAL = "real.json"
_HEAD = (
    "| system | class | faithful | differs in | published | measured here |\n" + "| --- " * 6 + "|"
)
Numbers = tuple[str, str]


@dataclass(frozen=True)
class System:
    """A row: ``numbers`` reads the published and the measured number from the results' folder."""

    name: str
    kind: type[Calibrator]
    faithful: str
    numbers: Callable[[Path], Numbers]


def table(folder: Path) -> str:
    """Return the table in Markdown, with numbers from the results in a folder."""
    lines = [_HEAD]
    for system in SYSTEMS:
        cells = (
            system.name,
            f"`{system.kind.__name__}`",
            system.faithful,
            system.kind.differs or "-",
            *system.numbers(folder),
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def filled(text: str, folder: Path) -> str:
    """Return a page whose table of the systems is that of the results in a folder."""
    start = text.index(_HEAD.split(" | ")[0] + " | class")
    end = text.index("\n\n", start)
    return text[:start] + table(folder) + text[end:]


def _read(path: Path) -> list[Row]:
    rows: list[Row] = load(path)["rows"]
    return rows


def _ece(method: str) -> Callable[[Path], Numbers]:
    """Return the ECE on cora in percent, beside the paper's or an earlier re-run's."""

    def numbers(folder: Path) -> Numbers:
        known = next(each for each in METHODS if each.name == method).reference["cora"]
        source = "ECE on cora" if known.paper else "ECE on cora, in an earlier re-run"
        mean, spread = known.paper or known.rerun
        found, deviation = summary(_read(folder / IN_DISTRIBUTION), "cora", method)["ece"]
        return f"{source}: {mean:.2f} ± {spread:.2f}", f"{found:.2f} ± {deviation:.2f}"

    return numbers


def _similar(folder: Path) -> Numbers:
    """Return the ECE of the design after SimCalib beside SimCalib's, which is another method's."""
    method = 'SimilarityCalibrator(stop="train")'
    found, deviation = summary(_read(folder / IN_DISTRIBUTION), "cora", method)["ece"]
    return "ECE on cora: 3.32 ± 0.99", f"{found:.2f} ± {deviation:.2f}, of another design"


def _sets(folder: Path) -> Numbers:
    rows = _read(folder / SETS)

    def size(method: str) -> float:
        return float(np.mean([row["size"] for row in rows if row["method"] == method]))

    alone = size("GCN alone")
    methods = list(dict.fromkeys(row["method"] for row in rows if row["method"] != "GCN alone"))
    parts = [f"{size(name) / alone - 1.0:+.0%} ({size(name):.2f}, {name})" for name in methods]
    return "sets up to 74 % smaller", f"cora, from {alone:.2f} classes: " + "; ".join(parts)


def _stac(folder: Path) -> Numbers:
    claims = load(folder / REAL)["comparisons"]
    chosen = [claim for claim in claims if claim["quantity"].endswith("STAC, as published")]
    names = [claim["quantity"].split(",")[0] for claim in chosen]

    def joined(key: str) -> str:
        values = zip(names, chosen, strict=True)
        return ", ".join(f"{name} {claim[key]:.3f}" for name, claim in values)

    return f"ECE: {joined('published')}", joined("measured")


def _no_number(folder: Path) -> Numbers:
    """Return that nothing is compared: the graphs of the publication are not among the data."""
    return "on graphs that are not in this project's data", "-"


SYSTEMS: Sequence[System] = (
    System("Temperature scaling", TemperatureScaling, "yes", _ece("TemperatureScaling()")),
    System("CaGCN", CaGCN, "yes", _ece("CaGCN(floor=1, margin=0), the port")),
    System("GATS", GATS, "yes", _ece('GATS(stop="train")')),
    System("CF-GNN", CFGNN, "yes, but for settings", _sets),
    System("GDA-SpecReg", GDASpecReg, "loss and basis; not the encoder", _no_number),
    System("SimCalib", SimilarityCalibrator, "**no**", _similar),
    System("G-DeltaUQ", GDeltaUQ, "yes, with input anchors", _no_number),
    System("GETS", GETS, "yes, but for experts", _ece('GETS("node_class", stop="train")')),
    System("WATS", WATS, "yes", _ece('WATS("exponential", stop="train")')),
    System("STAC", STAC, "yes", _stac),
)
"""All rows of Table 1, in its order."""
