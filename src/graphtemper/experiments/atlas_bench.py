"""The atlas on trial: known shifts of real graphs, with and without their family in the card.

Half of the labelled nodes train a model, a quarter makes the source card, a quarter is scored
under sixteen shifts whose seeds the atlas never used. Each (graph, model, seed) is one small JSON
file, so that a run can be stopped and taken up again; all tables are computed from those files.
Labels of a target are read by the scoring function alone.
"""

from __future__ import annotations

import importlib
import json
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from graphtemper import atlas, datasets, metrics, recalibrate, shifts, stac, temperature
from graphtemper._arrays import FloatArray
from graphtemper.card import SourceCard
from graphtemper.errors import InputError
from graphtemper.estimators import ATC, DoC
from graphtemper.experiments.outcome import Comparison, Outcome, Row, write_text
from graphtemper.graph import Graph
from graphtemper.models import GCN, SIGN
from graphtemper.observe import Observation
from graphtemper.predict import Predictor
from graphtemper.predictors import load_graph
from graphtemper.report import style
from graphtemper.shifts import Shift

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SCHEMA = "graphtemper.atlas_cell/1"
FEWEST_NODES = 1000
SEEDS, QUICK_COMPOSITIONS = 3, 10
QUICK_GRAPHS = ("county_2012", "cora")
# Targets count their seeds up from here; the atlas draws its own from 2^62 others.
TARGET_SEED = 1_000_000
# A trusted answer may cost this much more ECE than leaving the source temperature alone.
TOLERANCE = 0.02

MODELS: dict[str, Callable[[int], SIGN | GCN]] = {
    "SIGN": lambda seed: SIGN(hops=2, C=1.0, tol=1e-4),
    "GCN": lambda seed: GCN(hidden=64, epochs=200, dropout=0.5, seed=seed),
}
SHIFTS: tuple[Shift | None, ...] = (
    None,
    *(shifts.noise(level) for level in (0.75, 1.0, 2.5)),
    *(shifts.mask(level) for level in (0.5, 0.9)),
    *(shifts.rewire(level) for level in (0.25, 0.5, 0.75)),
    *(shifts.drop(level) for level in (0.5, 0.9)),
    shifts.add(1.5),
    shifts.shuffle(0.5),
    shifts.heterogeneous(1.5),
    *(shifts.scale(level) for level in (0.4, 2.5)),
)
KNOWN, UNKNOWN = "atlas, known family", "atlas, unknown family"
METHODS = ("uncalibrated", "source-T", "STAC", "ATC", "DoC", KNOWN, UNKNOWN, "oracle-T")

Progress = Callable[[str, int, int], None]
Indices = NDArray[np.int64]


@dataclass(frozen=True)
class Answer:
    """What a method says about a target without its labels."""

    temperature: float
    accuracy: float | None = None
    low: float | None = None
    high: float | None = None
    verdict: str | None = None


def graphs_here() -> list[str]:
    """Return the graphs of the catalogue that are large enough and on this machine."""
    large = [name for name, entry in datasets.CATALOGUE.items() if entry.nodes >= FEWEST_NODES]
    return [name for name in large if datasets.find(name) is not None]


def run(
    out: Path,
    graphs: Sequence[str] | None = None,
    models: Sequence[str] = ("SIGN",),
    seeds: int = SEEDS,
    *,
    quick: bool = False,
    progress: Progress | None = None,
) -> Outcome:
    """Measure every cell that is not in ``out/cells`` yet and summarise those that were asked for.

    Parameters
    ----------
    out
        Folder for the cells; the caller writes the outcome.
    graphs
        Names of the catalogue or paths; default every large graph that is here.
    models
        Names from `MODELS`.
    seeds
        How many: 1, 2, ...
    quick
        One seed, two small graphs and fewer compositions: a smoke test, not a result.
    progress
        Called with the cell's name, environments done and environments in all.
    """
    unknown = [name for name in models if name not in MODELS]
    if unknown or not models:
        given = repr(unknown[0]) if unknown else "nothing"
        raise InputError(f"unknown model {given}; choose from {', '.join(MODELS)}.")
    if seeds < 1:
        raise InputError(f"seeds must be at least 1, not {seeds}.")
    here = graphs_here()
    if graphs is None and quick:
        graphs = [name for name in QUICK_GRAPHS if name in here] or here[:2]
    names = here if graphs is None else list(graphs)
    if not names:
        raise InputError("no graph to measure; `graphtemper data list` shows what is here.")
    compositions = QUICK_COMPOSITIONS if quick else atlas.COMPOSITIONS
    cells = [
        _cell(out / "cells", name, model, seed, compositions, progress)
        for name in names
        for model in models
        for seed in range(1, (1 if quick else seeds) + 1)
    ]
    return outcome(cells)


def _cell(
    folder: Path, name: str, model: str, seed: int, compositions: int, progress: Progress | None
) -> dict[str, Any]:
    title = f"{Path(name).stem}-{model}-{seed}"
    path = folder / f"{title}.json"
    head = {
        "schema": SCHEMA,
        "graph": Path(name).stem,
        "model": model,
        "seed": seed,
        "compositions": compositions,
    }
    found = _stored(path, head)
    if found is None:
        tell = None if progress is None else _titled(progress, title)
        with _one_thread():
            rows = measure(load_graph(name), model, seed, compositions, progress=tell)
        found = head | {"rows": rows}
        write_text(path, json.dumps(found, indent=1, allow_nan=False) + "\n")
    return found


def _titled(progress: Progress, title: str) -> atlas.Progress:
    return lambda done, total: progress(title, done, total)


def _stored(path: Path, head: dict[str, Any]) -> dict[str, Any] | None:
    """Return a finished cell, or None where it is missing, damaged or of another protocol."""
    try:
        found: dict[str, Any] = json.loads(path.read_text("utf-8"))
        same = all(found[key] == value for key, value in head.items())
        return found if same and len(found["rows"]) == len(SHIFTS) * len(METHODS) else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


@contextmanager
def _one_thread() -> Iterator[None]:
    """Keep the linear algebra to one thread: environments already run on all cores."""
    threadpoolctl = importlib.import_module("threadpoolctl")  # untyped; comes with scikit-learn
    with threadpoolctl.threadpool_limits(1):
        yield


def measure(
    graph: Graph,
    model: str,
    seed: int,
    compositions: int = atlas.COMPOSITIONS,
    *,
    progress: atlas.Progress | None = None,
) -> list[dict[str, Any]]:
    """Return one row per shift and method for one split of one graph."""
    if graph.labelled.size < FEWEST_NODES:
        raise InputError(
            f"the graph {graph.name!r} has {graph.labelled.size} labelled nodes; the evaluation "
            f"needs at least {FEWEST_NODES}."
        )
    train, val, test = split(graph, seed)
    source = hide_labels(graph, test)
    predictor = MODELS[model](seed).fit(source, train)
    card = SourceCard.build(
        predictor, source, val, seed=seed, compositions=compositions, progress=progress
    )
    peers = Peers.fit(predictor, source, val, card.probe.temperature)
    thinner = {
        family: without(card, family) for family in {s.family for s in SHIFTS if s is not None}
    }
    unlabelled = graph.replace(labels=None)
    rows = []
    for index, shift in enumerate(SHIFTS):
        draw = TARGET_SEED + 100 * seed + index
        target = unlabelled if shift is None else shift(unlabelled, draw)
        answers = peers.answer(predictor, target, test, draw)
        answers[KNOWN] = _atlas(predictor, target, card, test, draw)
        answers[UNKNOWN] = (
            answers[KNOWN]
            if shift is None
            else _atlas(predictor, target, thinner[shift.family], test, draw)
        )
        assert graph.labels is not None
        logits = Observation(predictor, target, test).logits
        named = {"shift": "none" if shift is None else repr(shift)}
        rows += [named | row for row in score(logits, graph.labels[test], answers)]
    return rows


def split(graph: Graph, seed: int) -> tuple[Indices, Indices, Indices]:
    """Return the nodes to train on (50 %), to make the card of (25 %) and to score (25 %).

    Examples
    --------
    >>> g = Graph(features=[[1.0]] * 8, edges=[[0, 1]], labels=[0, 1] * 4)
    >>> [part.size for part in split(g, 1)]
    [4, 2, 2]
    """
    order = np.random.default_rng(seed).permutation(graph.labelled)
    train, val, test = np.split(order, [order.size // 2, 3 * order.size // 4])
    return train, val, test


def hide_labels(graph: Graph, nodes: Indices) -> Graph:
    """Return the graph with some nodes unlabelled: shifts of homophily read every label they see.

    Examples
    --------
    >>> g = Graph(features=[[1.0]] * 3, edges=[[0, 1]], labels=[0, 1, 1])
    >>> hide_labels(g, np.array([2])).labels.tolist()
    [0, 1, -1]
    """
    assert graph.labels is not None
    labels = graph.labels.copy()
    labels[nodes] = -1
    return graph.replace(labels=labels)


def without(card: SourceCard, family: str) -> SourceCard:
    """Return the card that has never seen a family: fewer environments, responses fitted anew."""
    return card.without(family)


def _atlas(
    predictor: Predictor, target: Graph, card: SourceCard, nodes: Indices, seed: int
) -> Answer:
    result = recalibrate(predictor, target, card, nodes, seed=seed)
    accuracy = result.accuracy
    return Answer(
        result.temperature, accuracy.value, accuracy.low, accuracy.high, verdict=result.verdict
    )


@dataclass(frozen=True)
class Peers:
    """The methods to compare with, carrying what they learned at the source."""

    source_temperature: float
    threshold: float
    estimators: dict[str, ATC | DoC]

    @classmethod
    def fit(
        cls, predictor: Predictor, graph: Graph, nodes: Indices, source_temperature: float
    ) -> Peers:
        """Learn from the labelled nodes that the card is made of."""
        assert graph.labels is not None
        source = Observation(predictor, graph, nodes, temperature=source_temperature)
        estimators: dict[str, ATC | DoC] = {"ATC": ATC(), "DoC": DoC()}
        for item in estimators.values():
            item.fit(source, graph.labels[nodes])
        return cls(source_temperature, stac.threshold(predictor, graph, nodes), estimators)

    def answer(
        self, predictor: Predictor, target: Graph, nodes: Indices, seed: int
    ) -> dict[str, Answer]:
        """Return the answer of every peer on an unlabelled target."""
        printed = stac.recalibrate(
            predictor, target, self.threshold, perturbation="both", nodes=nodes, seed=seed
        )
        answers = {
            "uncalibrated": Answer(1.0),
            "source-T": Answer(self.source_temperature),
            "STAC": Answer(printed.temperature, printed.accuracy),
        }
        seen = Observation(predictor, target, nodes, temperature=self.source_temperature)
        for name, estimator in self.estimators.items():
            found = estimator.estimate(seen)
            relative, _ = stac.nearest_temperature(seen.logits, found.value)
            answers[name] = Answer(
                relative * self.source_temperature, found.value, found.low, found.high
            )
        return answers


def score(
    logits: FloatArray, labels: NDArray[np.int64], answers: dict[str, Answer]
) -> list[dict[str, Any]]:
    """Score every answer, and the oracle's, against the target's labels.

    An infinite NLL, of a method that is certain and wrong, is None: JSON has no infinity.
    """
    accuracy = float((logits.argmax(axis=1) == labels).mean())
    oracle = Answer(temperature.solve(logits, labels).temperature)
    rows = []
    for method in METHODS:
        answer = oracle if method == "oracle-T" else answers[method]
        probabilities = temperature.apply(logits, answer.temperature)
        nll = metrics.nll(probabilities, labels)
        rows.append(
            {
                "method": method,
                "temperature": answer.temperature,
                "ece": metrics.ece(probabilities, labels),
                "nll": nll if math.isfinite(nll) else None,
                "accuracy": accuracy,
                "estimate": answer.accuracy,
                "low": answer.low,
                "high": answer.high,
                "verdict": answer.verdict,
            }
        )
    return rows


def outcome(cells: Sequence[dict[str, Any]]) -> Outcome:
    """Summarise cells: one row per model, graph and method, then the average over graphs."""
    rows = []
    for model in dict.fromkeys(cell["model"] for cell in cells):
        mine = [cell for cell in cells if cell["model"] == model]
        names = list(dict.fromkeys(cell["graph"] for cell in mine))
        per_graph = [
            _summary(method, name, model, [c for c in mine if c["graph"] == name])
            for name in names
            for method in METHODS
        ]
        rows += per_graph + [_average(method, model, per_graph) for method in METHODS]
    settings = {
        "models": list(dict.fromkeys(cell["model"] for cell in cells)),
        "seeds": sorted({cell["seed"] for cell in cells}),
        "compositions": sorted({cell["compositions"] for cell in cells}),
        "shifts": len(SHIFTS),
    }
    return Outcome(
        name="atlas_bench",
        title="The atlas against other label-free temperatures",
        settings=settings,
        comparisons=_bars(rows),
        rows=rows,
        draw=lambda figure: _draw(figure, cells, rows),
        size=(4.0 * (1 + len({cell["model"] for cell in cells})), 4.0),
    )


def _summary(
    method: str, graph: str, model: str, cells: Sequence[dict[str, Any]]
) -> dict[str, Any]:
    triples = [triple for cell in cells for triple in _aligned(cell, method)]
    mine = [own for own, _, _ in triples]
    judged = all(row["verdict"] is not None for row in mine)
    trusted = [
        own["ece"] - source["ece"] for own, source, _ in triples if own["verdict"] == "trust"
    ]
    estimated = [row for row in mine if row["estimate"] is not None]
    bounded = [row for row in estimated if row["low"] is not None]
    ece = _mean([row["ece"] for row in mine])
    oracle = _mean([best["ece"] for _, _, best in triples])
    assert ece is not None
    assert oracle is not None
    return {
        "model": model,
        "graph": graph,
        "method": method,
        "ece": ece,
        "ece_ratio": ece / max(oracle, 1e-12),
        "accuracy_error": _mean([abs(row["estimate"] - row["accuracy"]) for row in estimated]),
        "nll_regret": _mean(
            [_finite(own["nll"]) - _finite(best["nll"]) for own, _, best in triples]
        ),
        "coverage": _mean([row["low"] <= row["accuracy"] <= row["high"] for row in bounded]),
        "trust": len(trusted) / len(mine) if judged else None,
        "harmful": sum(gap > TOLERANCE for gap in trusted) if judged else None,
    }


def _aligned(cell: dict[str, Any], method: str) -> Iterator[tuple[Row, Row, Row]]:
    """Yield, shift by shift, a method's row with those of source-T and oracle-T."""
    wanted = (method, "source-T", "oracle-T")
    yield from zip(
        *([row for row in cell["rows"] if row["method"] == name] for name in wanted), strict=True
    )


def _average(method: str, model: str, rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Average over graphs; the ratio is that of the averages, so no small oracle dominates it."""
    mine = [row for row in rows if row["method"] == method]
    oracle = _mean([row["ece"] for row in rows if row["method"] == "oracle-T"])
    assert oracle is not None
    keys = ("ece", "accuracy_error", "nll_regret", "coverage", "trust")
    means = {key: _mean([row[key] for row in mine if row[key] is not None]) for key in keys}
    assert means["ece"] is not None
    return {
        "model": model,
        "graph": "average",
        "method": method,
        "ece": means["ece"],
        "ece_ratio": means["ece"] / max(oracle, 1e-12),
        **{key: means[key] for key in keys[1:]},
        "harmful": sum(row["harmful"] for row in mine) if means["trust"] is not None else None,
    }


def _finite(nll: float | None) -> float:
    return math.inf if nll is None else nll


def _mean(values: Sequence[float]) -> float | None:
    return float(np.mean(values)) if len(values) else None


def _bars(rows: Sequence[Row]) -> list[Comparison]:
    """State what the atlas has to reach, model by model."""
    bars = []
    for model in dict.fromkeys(row["model"] for row in rows):
        for method, ratio, error, regret in (
            (KNOWN, 1.05, 0.015, 0.004),
            (UNKNOWN, 1.20, 0.03, 0.01),
        ):
            mine = [row for row in rows if (row["model"], row["method"]) == (model, method)]
            average = mine[-1]
            pairs = [
                ("ECE over oracle's", average["ece_ratio"], ratio),
                ("error of the accuracy", average["accuracy_error"], error),
                ("NLL regret", average["nll_regret"], regret),
                ("harmful trust", average["harmful"], 0),
            ]
            if method == KNOWN:
                worst = max(row["ece_ratio"] for row in mine[:-1])
                pairs.insert(1, ("ECE over oracle's, worst graph", worst, 1.15))
            bars += [
                Comparison(f"{model}, {method}: {what}", value, f"<= {bar:g}", bool(value <= bar))
                for what, value, bar in pairs
            ]
            covered = average["coverage"]
            wide = None if method == KNOWN else bool(0.85 <= covered <= 0.97)
            what = f"{model}, {method}: coverage of the 90 % interval"
            bars.append(Comparison(what, covered, "" if wide is None else "0.85 to 0.97", wide))
    return bars


COLUMNS = {
    "graph": "graph",
    "method": "method",
    "ece": "ECE",
    "ece_ratio": "ratio",
    "accuracy_error": "acc err",
    "nll_regret": "NLL+",
    "coverage": "cover",
    "trust": "trust",
    "harmful": "bad",
}


def averages(rows: Sequence[Row]) -> list[dict[str, str]]:
    """Return every method's average over graphs, as short texts for a terminal."""
    found = _texts([row for row in rows if row["graph"] == "average"], ("graph",))
    return [row | {"method": row["method"].removesuffix(" family")} for row in found]


def atlas_rows(rows: Sequence[Row]) -> list[dict[str, str]]:
    """Return the atlas's results graph by graph, as short texts for a terminal."""
    found = _texts([row for row in rows if row["method"] in (KNOWN, UNKNOWN)], ("ece",))
    return [row | {"method": row["method"].split()[1]} for row in found]


def _texts(rows: Sequence[Row], leave_out: Sequence[str] = ()) -> list[dict[str, str]]:
    return [
        {head: _text(key, row[key]) for key, head in COLUMNS.items() if key not in leave_out}
        for row in rows
    ]


def _text(key: str, value: Any) -> str:
    if value is None:
        return ""
    if not isinstance(value, float):
        return str(value)
    if key in ("coverage", "trust"):
        return f"{value:.0%}"
    return f"{value:.2f}" if key == "ece_ratio" else f"{value:.4f}"


def render(found: Outcome) -> str:
    """Return the Markdown page: what was asked, the bars, and every row."""
    content = found.to_dict()
    settings = "; ".join(f"{key} {_plain(value)}" for key, value in content["settings"].items())
    lines = [
        f"# {found.title}",
        "",
        "Generated by `graphtemper bench atlas`; do not edit.",
        f"Settings: {settings}.",
        "",
        "*ratio* is mean ECE over the oracle's, *acc err* the mean error of the estimated",
        "accuracy, *NLL+* the regret against the oracle, *cover* how often the 90 % interval holds",
        "the truth, *trust* the share of that verdict, *bad* how often a trusted answer cost more",
        f"than {TOLERANCE} ECE against the source temperature.",
        "",
    ]
    bars = [
        {
            "quantity": item.quantity,
            "measured": f"{item.measured:.4g}",
            "bar": item.bar,
            "met": {True: "yes", False: "**no**", None: "-"}[item.met],
        }
        for item in found.comparisons
    ]
    lines += _markdown(bars)
    for model in dict.fromkeys(row["model"] for row in found.rows):
        mine = [row for row in found.rows if row["model"] == model]
        lines += ["", f"## {model}", "", *_markdown(_texts(mine))]
    return "\n".join(lines) + "\n"


def _plain(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _markdown(rows: Sequence[dict[str, str]]) -> list[str]:
    head = list(rows[0])
    body = [" | ".join(row.values()) for row in rows]
    return [f"| {line} |" for line in (" | ".join(head), " | ".join("---" for _ in head), *body)]


def _draw(figure: Figure, cells: Sequence[dict[str, Any]], rows: Sequence[Row]) -> None:
    """Draw every model's ECE, graph by graph, and estimated against true accuracy."""
    shown = {
        "source-T": (style.RED, "s"),
        "STAC": (style.ORANGE, "^"),
        UNKNOWN: (style.SKY, "D"),
        KNOWN: (style.BLUE, "o"),
        "oracle-T": (style.GREY, "|"),
    }
    models = list(dict.fromkeys(row["model"] for row in rows))
    *panels, last = figure.subplots(1, len(models) + 1)
    for axes, model in zip(panels, models, strict=True):
        for method, (colour, marker) in shown.items():
            mine = [row for row in rows if (row["model"], row["method"]) == (model, method)]
            names = [row["graph"] for row in mine]
            axes.plot([row["ece"] for row in mine], names, marker, color=colour, label=method)
        axes.set(xlabel="mean ECE", title=model)
        axes.set_xlim(left=0.0)
        axes.invert_yaxis()
    last.plot([0, 1], [0, 1], color=style.GREY, linewidth=0.8)
    for method in (UNKNOWN, KNOWN):
        chosen = [row for cell in cells for row in cell["rows"] if row["method"] == method]
        last.plot(
            [row["accuracy"] for row in chosen],
            [row["estimate"] for row in chosen],
            ".",
            color=shown[method][0],
            markersize=3,
        )
    last.set(xlabel="true accuracy", ylabel="estimated accuracy", title="every target")
    handles, names = panels[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=len(names))
