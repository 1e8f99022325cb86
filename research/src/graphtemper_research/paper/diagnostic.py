"""Section 6.1: the slope as a label-free diagnostic, on real graphs.

SGC on six graphs, a source card from a quarter of the labelled nodes, and seven shifts of the
edges, scored on the other quarter. The measured slope is the source temperature over the oracle's.
Every prediction sees the target without labels, except the one from the true homophilies.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import spearmanr

from graphtemper import SourceCard, recalibrate, shifts, temperature, theory
from graphtemper.errors import InputError
from graphtemper.models import SGC
from graphtemper.recalibration import diagnose
from graphtemper_research.harness import style
from graphtemper_research.harness.frame import select
from graphtemper_research.harness.numeric import FloatArray
from graphtemper_research.harness.outcome import Comparison, Outcome, reported
from graphtemper_research.paper.homophily_study import edge_homophily
from graphtemper_research.trials import graph_names
from graphtemper_research.trials.trial import split

if TYPE_CHECKING:
    from matplotlib.figure import Figure

GRAPHS = (
    "airport_usa",
    "bugs_activemq_5.0.0",
    "citeseer+svd64",
    "cora+svd64",
    "county_2012",
    "villages_1",
)
SHIFTS = (
    *(shifts.homophily(level) for level in (-0.6, -0.3, 0.3, 0.6)),
    shifts.rewire(0.5),
    shifts.drop(0.5),
    shifts.add(1.5),
)
SEED = 1
PREDICTIONS = {
    "predicted": "theory, predicted homophilies",
    "with_degrees": "theory, predicted homophilies and degree ratio",
    "true": "theory, true homophilies",
    "shown": "theory, where diagnose shows it",
    "atlas": "the atlas",
    "none": "no correction",
}


def run(names: Sequence[str] = GRAPHS) -> Outcome:
    """Predict the slope of every target in several ways."""
    here, absent = graph_names.present(names)
    rows = [row for name in here for row in measured(name)]
    return Outcome(
        name="diagnostic",
        title="The slope as a diagnostic on real graphs",
        settings={
            "graphs": here,
            "not here": ", ".join(absent) or "none",
            "shifts": [repr(shift) for shift in SHIFTS],
            "model": "SGC, 2 hops",
            "seed": SEED,
        },
        comparisons=[
            *(item for kind in PREDICTIONS for item in compared(rows, kind)),
            *(_where(rows, raised) for raised in (True, False)),
        ],
        rows=rows,
        draw=lambda figure: _draw(figure, rows),
        size=(7.2, 3.6),
    )


def measured(name: str) -> list[dict[str, Any]]:
    """Return one row per shift of a graph: the measured slope, and what each prediction says."""
    graph = graph_names.load(name)
    assert graph.labels is not None
    train, val, test = split(graph, SEED)
    model = SGC(hops=2).fit(graph, train)
    card = SourceCard.build(model, graph, nodes=val, seed=SEED)
    source = card.reference.evidence
    rows = []
    for shift in SHIFTS:
        target = shift(graph, seed=SEED)
        result = recalibrate(model, target.replace(labels=None), card, nodes=test, seed=SEED)
        facts = diagnose(result, card)
        degrees = facts["target"]["degree"] / facts["source"]["degree"]
        oracle = temperature.fit(model(target)[test], graph.labels[test])
        seen = (facts["target"]["homophily"], source.homophily)
        rows.append(
            {
                "graph": name,
                "shift": repr(shift),
                "measured": result.source_temperature / oracle,
                "predicted": _theory(*seen, source.snr, card.num_classes),
                "with_degrees": _theory(*seen, source.snr, card.num_classes, degrees),
                "true": _theory(
                    edge_homophily(target), edge_homophily(graph), source.snr, card.num_classes
                ),
                "shown": facts["theory"]["slope"],
                "atlas": result.slope,
                "none": 1.0,
                "closer_in_card": facts["theory"]["closer"],
                "edge_shifts_in_card": facts["theory"]["shifts"],
            }
        )
    return rows


def _theory(
    h_target: float, h_source: float | None, snr: float | None, classes: int, ratio: float = 1.0
) -> float | None:
    """Return the slope of the closed form; None where it has none or would reverse predictions."""
    if h_source is None or snr is None or snr <= 0.0:
        return None
    try:
        slope = float(theory.slope_multiclass(h_target, h_source, snr, classes, degree_ratio=ratio))
    except InputError:
        return None
    return slope if slope > 0.0 else None


def scores(rows: Sequence[dict[str, Any]], kind: str) -> dict[str, float]:
    """Return how well a prediction orders, directs and sizes the measured slopes.

    Examples
    --------
    >>> pairs = (0.5, 0.25), (2.0, 2.0), (1.1, 0.9), (3.0, None)
    >>> rows = [{"measured": truth, "p": guess} for truth, guess in pairs]
    >>> found = scores(rows, "p")
    >>> found["targets"], round(found["direction"], 3), round(found["log_ratio"], 3)
    (3, 0.667, 0.201)
    """
    pairs = _logs([row for row in rows if row[kind] is not None], kind)
    if not len(pairs):
        return dict.fromkeys(("spearman", "direction", "log_ratio"), float("nan")) | {"targets": 0}
    truth, guess = pairs.T
    varied = np.ptp(guess) > 0.0 and np.ptp(truth) > 0.0
    return {
        "targets": len(pairs),
        "spearman": float(spearmanr(guess, truth).statistic) if varied else float("nan"),
        "direction": float((truth * guess > 0.0).mean()),
        "log_ratio": float(np.median(np.abs(guess - truth))),
    }


def _logs(rows: Sequence[dict[str, Any]], kind: str) -> FloatArray:
    return np.log([[row["measured"], row[kind]] for row in rows]).reshape(-1, 2)


def compared(rows: Sequence[dict[str, Any]], kind: str) -> list[Comparison]:
    """Return the scores of a prediction; no correction has neither an order nor a direction."""
    found, title = scores(rows, kind), PREDICTIONS[kind]
    none = scores([row for row in rows if row[kind] is not None], "none")
    note = f"{found['targets']} of {len(rows)} targets"
    listed = {
        "spearman": ("Spearman correlation with the measured slope", "useful on its own", note),
        "direction": ("share of targets with the right direction", "useful on its own", ""),
        "log_ratio": (
            "median |log ratio| to the measured slope",
            None,
            f"{note}; no correction on the same targets: {none['log_ratio']:.2f}",
        ),
    }
    published = kind in ("predicted", "true")
    return [
        Comparison(
            f"{title}: {text}",
            found[key],
            "reported",
            None,
            claim if published else None,
            note=remark,
        )
        for key, (text, claim, remark) in listed.items()
        if not (kind == "none" and key != "log_ratio")
    ]


def _where(rows: Sequence[dict[str, Any]], raised: bool) -> Comparison:
    """Compare the theory's best case where homophily rises, and where it falls."""
    chosen = {
        repr(s)
        for s in SHIFTS
        if s.family == "homophily" and (float(np.mean(s.level)) > 0.0) == raised
    }
    part = [row for row in rows if row["shift"] in chosen and row["true"] is not None]
    found = scores(part, "true")
    return reported(
        f"theory, true homophilies, where they {'rise' if raised else 'fall'}: right direction",
        found["direction"],
        f"{found['targets']} targets, median |log ratio| {found['log_ratio']:.2f}",
    )


def _draw(figure: Figure, rows: Sequence[dict[str, Any]]) -> None:
    panels = figure.subplots(1, 3, sharex=True, sharey=True)
    for axes, kind in zip(panels, ("predicted", "true", "atlas"), strict=True):
        for name in dict.fromkeys(row["graph"] for row in rows):
            part = [row for row in select(rows, graph=name) if row[kind] is not None]
            values = [[row["measured"] for row in part], [row[kind] for row in part]]
            axes.plot(*values, "o", markersize=4, alpha=0.8, label=name)
        ends = [0.1, 10.0]
        axes.plot(ends, ends, color=style.GREY, linewidth=0.8)
        axes.axhline(1.0, color=style.GREY, linewidth=0.8, linestyle=":")
        axes.set(xscale="log", yscale="log", xlabel="measured slope", title=PREDICTIONS[kind])
        axes.title.set_fontsize(8)
    panels[0].set_ylabel("predicted slope")
    panels[0].legend(fontsize=6)
