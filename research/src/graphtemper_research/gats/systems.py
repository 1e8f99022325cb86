"""The systems of the paper's Table 1: how faithful each is here, and what of it was reproduced.

`graphtemper_research.pages` puts the table into ``docs/calibrators.md``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from graphtemper.calibrators import GATS, STAC, CaGCN, Calibrator, TemperatureScaling
from graphtemper_research.baselines.cf_gnn import CFGNN
from graphtemper_research.baselines.gets import GETS
from graphtemper_research.baselines.wats import WATS
from graphtemper_research.gats.protocol import METHODS, in_words
from graphtemper_research.numbers.tables import Results, table
from graphtemper_research.retrained import GDASpecReg, GDeltaUQ

Numbers = tuple[str, str]


@dataclass(frozen=True)
class System:
    """A row: ``numbers`` reads the published and the measured number from the results."""

    name: str
    kind: type[Calibrator]
    faithful: str
    numbers: Callable[[Results], Numbers]


def systems(results: Results) -> str:
    """Return the table in Markdown."""
    head = ("system", "class", "faithful", "differs in", "published", "measured here")
    rows = []
    for one in SYSTEMS:
        facts = (one.name, f"`{one.kind.__name__}`", one.faithful, one.kind.differs or "-")
        rows.append([*facts, *one.numbers(results)])
    return table(head, rows)


def _ece(method: str) -> Callable[[Results], Numbers]:
    """Return the ECE on cora in percent, beside the paper's or an earlier re-run's."""

    def numbers(results: Results) -> Numbers:
        known = next(each for each in METHODS if each.name == method).reference["cora"]
        source = "ECE on cora" if known.paper else "ECE on cora, in an earlier re-run"
        mean, spread = known.paper or known.rerun
        (row,) = results.rows("calibrators_in_distribution", graph="cora", method=method)
        return f"{source}: {mean:.2f} ± {spread:.2f}", in_words((row["ece"], row["spread"]))

    return numbers


def _sets(results: Results) -> Numbers:
    size = {row["method"]: row["size"] for row in results.rows("cf_gnn_sets")}
    alone = size.pop("GCN alone")
    parts = [f"{mean / alone - 1.0:+.0%} ({mean:.2f}, {name})" for name, mean in size.items()]
    return "sets up to 74 % smaller", f"cora, from {alone:.2f} classes: " + "; ".join(parts)


def _stac(results: Results) -> Numbers:
    claims = results.read("real")["comparisons"]
    chosen = [claim for claim in claims if claim["quantity"].endswith("STAC, as published")]
    names = [claim["quantity"].split(",")[0] for claim in chosen]

    def joined(key: str) -> str:
        values = zip(names, chosen, strict=True)
        return ", ".join(f"{name} {claim[key]:.3f}" for name, claim in values)

    return f"ECE: {joined('published')}", joined("measured")


def _no_number(results: Results) -> Numbers:
    """Return that nothing is compared: the graphs of the publication are not among the data."""
    return "on graphs that are not in this project's data", "-"


SYSTEMS: Sequence[System] = (
    System("Temperature scaling", TemperatureScaling, "yes", _ece("TemperatureScaling()")),
    System("CaGCN", CaGCN, "yes", _ece("CaGCN(floor=1, margin=0), the port")),
    System("GATS", GATS, "yes", _ece('GATS(stop="train")')),
    System("CF-GNN", CFGNN, "yes, but for settings", _sets),
    System("GDA-SpecReg", GDASpecReg, "loss and basis; not the encoder", _no_number),
    System("G-DeltaUQ", GDeltaUQ, "yes, with input anchors", _no_number),
    System("GETS", GETS, "yes, but for experts", _ece('GETS("node_class", stop="train")')),
    System("WATS", WATS, "yes", _ece('WATS("exponential", stop="train")')),
    System("STAC", STAC, "yes", _stac),
)
"""The rows of Table 1 whose equations are known, in its order."""
