"""The paper's own setting, its real-graph table `tab:real`, with the atlas as one more column.

SIGN, feature noise 1.0 drawn as the paper's scripts drew it, the first three stored splits (random
ones where a graph has none), logits [0, g] for two classes. The card is made of the validation
nodes, where the paper fits its source temperature. The atlas contains noise at other strengths; a
second column leaves noise out of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from graphtemper import Graph
from graphtemper.models import SIGN
from graphtemper_research.harness import frame
from graphtemper_research.harness.cells import Case, Cell, Show
from graphtemper_research.harness.frame import Row, Rows
from graphtemper_research.harness.layout import Column, Table
from graphtemper_research.harness.outcome import Comparison, at_most
from graphtemper_research.harness.runner import COMPOSITIONS, Bench, Request, Selection
from graphtemper_research.paper import real, real_graphs
from graphtemper_research.trials import graph_names, trial
from graphtemper_research.trials.trial import ATLAS, ORACLE, PEERS, SOURCE, Source

SCHEMA = "graphtemper.paper_cell/1"
QUICK_GRAPHS = ("county_2012",)
BLIND = "atlas without noise"
METHODS = (*PEERS, ATLAS, BLIND, ORACLE)
# How much more ECE than the oracle's the atlas may have, on each graph.
BAR = 0.005
# Where the paper's table has STAC, among its four columns.
PUBLISHED_STAC = {name: columns[2] for name, columns in real.PUBLISHED.items()}


def cases(request: Request) -> Selection:
    """Return one case per graph: those of the paper's table, and all others of 300 nodes."""
    here, missing = graph_names.present(QUICK_GRAPHS) if request.quick else real_graphs.present()
    if request.names is not None:
        here, missing = list(request.names), []
    splits = 1 if request.quick else real_graphs.SPLITS
    found = []
    for name in here:
        graph = graph_names.short(name)
        head = {"schema": SCHEMA, "graph": graph, "splits": splits}
        head |= {"compositions": request.compositions, "content": graph_names.content(name)}
        work = partial(_load_and_measure, name, splits, request.compositions)
        found.append(Case(graph, head, work))
    return found, missing


def _load_and_measure(name: str, splits: int, compositions: int, show: Show | None) -> Rows:
    return measure(graph_names.load(name), splits, compositions, progress=show)


def measure(
    graph: Graph,
    splits: int = real_graphs.SPLITS,
    compositions: int = COMPOSITIONS,
    *,
    progress: Show | None = None,
) -> Rows:
    """Return one row per split and method for one graph."""
    assert graph.labels is not None
    rows: Rows = []
    for index, nodes in enumerate(real_graphs.splits(graph, splits)):
        source = Source.prepare(
            SIGN(hops=2, C=1.0, max_iter=200, tol=1e-4),
            trial.hide_labels(graph, nodes.test),
            nodes.train,
            nodes.val,
            index,
            compositions,
            progress=progress,
        )
        target = real_graphs.published_noise(
            graph.replace(labels=None), real_graphs.STAC_LEVEL, index
        )
        answers = source.answers(target, nodes.test, index)
        answers[BLIND] = source.ask(target, nodes.test, index, source.card.without("noise"))
        facts = {"split": index, "card_nodes": source.num_nodes}
        logits = source.logits(target, nodes.test)
        rows += [facts | row for row in trial.score(logits, graph.labels[nodes.test], answers)]
    return rows


def summarise(cells: Sequence[Cell]) -> Rows:
    """Return one row per graph: means over its splits."""
    return [_averaged(cell) for cell in cells]


def _averaged(cell: Cell) -> dict[str, Any]:
    methods = {method: frame.select(cell["rows"], method=method) for method in METHODS}
    ece = {f"ece {method}": frame.average(rows, "ece") for method, rows in methods.items()}
    return {
        "graph": cell["graph"],
        **ece,
        "printed": PUBLISHED_STAC.get(cell["graph"]),
        "excess": ece[f"ece {ATLAS}"] - ece[f"ece {ORACLE}"],
        "accuracy": frame.average(methods[ATLAS], "accuracy"),
        "estimate": frame.average(methods[ATLAS], "estimate"),
        "STAC estimate": frame.average(methods["STAC"], "estimate"),
        "verdicts": ", ".join(row["verdict"] for row in methods[ATLAS]),
        "nodes": int(frame.average(methods[ATLAS], "nodes")),
    }


def bars(rows: Sequence[Row], cells: Sequence[Cell]) -> list[Comparison]:
    """State the bar on every graph, and on how many it is met."""
    graphs = [
        at_most(
            f"{row['graph']}: ECE of the atlas above the oracle's",
            row["excess"],
            BAR,
            ", ".join(f"{name} {row[f'ece {name}']:.3f}" for name in (ATLAS, ORACLE, "STAC")),
        )
        for row in rows
    ]
    met = sum(bool(bar.met) for bar in graphs)
    what = f"graphs where the bar is met, of {len(rows)}"
    return [*graphs, Comparison(what, met, f"{len(rows)}", met == len(rows))]


_ECE = (
    Column("graph"),
    Column("ece uncalibrated", "plain", ".3f"),
    Column(f"ece {SOURCE}", "source", ".3f"),
    Column("ece STAC", "STAC", ".3f"),
    Column(f"ece {ATLAS}", "atlas", ".3f"),
    Column(f"ece {BLIND}", "blind", ".3f"),
    Column(f"ece {ORACLE}", "oracle", ".3f"),
)


def _settings(cells: Sequence[Cell], rows: Sequence[Row]) -> dict[str, Any]:
    return {
        "model": "SIGN, 2 hops, C = 1",
        "noise": real_graphs.STAC_LEVEL,
        "splits": max(cell["splits"] for cell in cells),
        "compositions": frame.distinct(cells, "compositions"),
    }


BENCH = Bench(
    name="paper_setting",
    title="The paper's real-graph table with the atlas in it",
    command="bench paper-setting",
    introduction="""\
ECE of the uncalibrated model (*plain*), the source temperature, Algorithm 1 as printed, the
atlas, the atlas with noise left out of its card (*blind*), and the oracle; then the paper's
figure for STAC, the true accuracy, and the accuracies that the atlas and STAC estimate. The
oracle minimises NLL and not ECE, so the atlas can be below it.""",
    cases=cases,
    rows=summarise,
    bars=bars,
    sections=(),
    tables=(
        Table(
            "ECE",
            (
                *_ECE,
                Column("printed", "STAC as printed", ".3f"),
                Column("accuracy", "true", ".3f"),
                Column("estimate", spec=".3f"),
                Column("STAC estimate", spec=".3f"),
                Column("verdicts"),
            ),
        ),
    ),
    terminal=(Table("The paper's real-graph table with the atlas in it", _ECE),),
    settings=_settings,
)
