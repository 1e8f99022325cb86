"""Natural shifts: other countries, another election, later years.

Half of the source's labelled nodes train a model and half make the card. Across graphs every
labelled node of the target is scored; where source and target are the same counties, those that
were not trained on. In time the source is the induced subgraph of the nodes up to the median known
time, and the target is the whole graph, scored on the later nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from graphtemper.recalibration.report import style
from graphtemper_research.harness import frame
from graphtemper_research.harness.cells import Cell
from graphtemper_research.harness.frame import Row, Rows
from graphtemper_research.harness.layout import Column, Table, interval
from graphtemper_research.harness.outcome import Comparison, at_least, at_most, reported
from graphtemper_research.harness.pictures import legend_below, scatter
from graphtemper_research.harness.runner import Bench, per, usual_settings
from graphtemper_research.trials.pairs import PAIRS, Pair, pair_cases, short_name
from graphtemper_research.trials.trial import (
    ATLAS,
    METHODS,
    ORACLE,
    SOURCE,
    TOLERANCE,
    VERDICTS,
    Source,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SCHEMA = "graphtemper.natural_cell/1"
# Where the verdict is trust, this fraction of the pairs has to be better than source-T.
BETTER_FRACTION = 0.8
# Least rank correlation of interval width and error.
RANK_CORRELATION = 0.5
# An abstention is no answer, so it has no colour.
COLOURS = dict(zip(VERDICTS, (style.GREEN, style.ORANGE, style.GREY), strict=True))


def summarise(cells: Sequence[Cell]) -> Rows:
    """Return one row per pair, model and seed: every method's ECE, and the atlas's answer."""
    keys = ("group", "model", "seed", "source")
    rows = []
    for facts, methods in frame.by_method(frame.flat(cells, *keys), *keys, "target"):
        atlas = methods[ATLAS]
        rows.append(
            facts
            | {f"ece {method}": methods[method]["ece"] for method in METHODS}
            | frame.pick(atlas, "accuracy", "estimate", "low", "high", "verdict")
            | {"error": abs(atlas["estimate"] - atlas["accuracy"])}
            | {"half_width": 0.5 * (atlas["high"] - atlas["low"])}
            | frame.pick(atlas, "card_nodes", "nodes")
        )
    return rows


def compare(rows: Sequence[Row]) -> list[Comparison]:
    """State the bars over the pairs of one model, and what else has to be known about them."""
    atlas, source, oracle = (
        np.array([row[f"ece {method}"] for row in rows]) for method in (ATLAS, SOURCE, ORACLE)
    )
    verdict = np.array([row["verdict"] for row in rows])
    trusted, abstained = verdict == "trust", verdict == "abstain"
    fine = source - oracle <= TOLERANCE
    better = float((atlas < source)[trusted].mean()) if trusted.any() else float("nan")
    harmful = int((atlas - source > TOLERANCE)[trusted].sum())
    covered = [row["low"] <= row["accuracy"] <= row["high"] for row in rows]
    return [
        at_most(
            "mean ECE",
            float(atlas.mean()),
            float(source.mean()),
            f"oracle-T {oracle.mean():.4f}",
            bar=f"<= source-T's {source.mean():.4f}",
        ),
        at_least(
            "share of trusted pairs that are better than source-T",
            better,
            BETTER_FRACTION,
            f"{trusted.sum()} of {len(rows)} are trusted; {harmful} of these are worse than "
            f"source-T by more than {TOLERANCE}",
        ),
        at_least(
            "rank correlation of interval width and error",
            rank_correlation([row["half_width"] for row in rows], [row["error"] for row in rows]),
            RANK_CORRELATION,
        ),
        reported("share of pairs with abstention", float(abstained.mean())),
        reported(
            "share of pairs with abstention although source-T was fine",
            float((abstained & fine).mean()),
            f"within {TOLERANCE} of oracle-T; {(abstained & fine).sum()} of {abstained.sum()} "
            f"abstentions, and source-T was fine in {fine.sum()} of {len(rows)} pairs",
        ),
        reported("coverage of the 90 % interval", float(np.mean(covered))),
        *(
            reported(
                f"error of the accuracy where the verdict is {name}",
                frame.average(frame.select(rows, verdict=name), "error"),
                f"{(verdict == name).sum()} of {len(rows)}",
            )
            for name in VERDICTS
            if name in verdict
        ),
    ]


def rank_correlation(one: Sequence[float], other: Sequence[float]) -> float:
    """Return Spearman's rank correlation; NaN where either is constant or too short.

    Examples
    --------
    >>> round(rank_correlation([0.1, 0.2, 0.4], [0.01, 0.05, 0.02]), 3)
    0.5
    >>> rank_correlation([0.1, 0.1, 0.1], [0.01, 0.05, 0.02])
    nan
    """
    from scipy.stats import spearmanr

    if len(one) < 3 or np.ptp(one) == 0.0 or np.ptp(other) == 0.0:
        return float("nan")
    return float(spearmanr(one, other).statistic)


_MEANS = (*(f"ece {method}" for method in METHODS), "error", "half_width")


def group_means(rows: Sequence[Row], keys: Sequence[str] = _MEANS) -> Rows:
    """Return the averages of every group of one model's pairs, and of all of them."""
    means = []
    for group in (*frame.distinct(rows, "group"), "all"):
        own = rows if group == "all" else frame.select(rows, group=group)
        counts = [len(frame.select(own, verdict=verdict)) for verdict in VERDICTS]
        means.append(
            {"model": rows[0].get("model"), "group": group, "pairs": len(own)}
            | {key: frame.average(own, key) for key in keys}
            | {"verdicts": "/".join(map(str, counts))}
        )
    return means


_PLAIN = Column("ece uncalibrated", "plain", ".3f")
_ECE = (
    Column(f"ece {SOURCE}", "source", ".3f"),
    Column(f"ece {ATLAS}", "atlas", ".3f"),
    Column(f"ece {ORACLE}", "oracle", ".3f"),
)
_PAIR = (
    *_ECE,
    Column("accuracy", "true", ".2f"),
    Column("estimate", spec=".2f"),
    Column(interval, "interval"),
    Column("verdict"),
)
_AVERAGES = Table(
    "{model}: averages",
    (
        Column("group"),
        Column("pairs"),
        _PLAIN,
        *_ECE,
        Column("error", spec=".3f"),
        Column("half_width", "half", ".3f"),
        Column("verdicts", "t/c/a"),
    ),
    group_means,
)
_INTRODUCTION = """\
ECE of the uncalibrated model (*plain*), the source temperature, the atlas and the oracle; then
the true accuracy, the *estimate* of the atlas with its 90 % interval, and the verdict. In the
averages, *error* is that of the accuracy, *half* the half-width of the interval, and *t/c/a*
counts the verdicts trust, caution and abstain. These shifts also change concepts and class
shares: an unlabelled graph often does not show that, and abstention is the right answer to
many."""


def _draw(figure: Figure, rows: Sequence[Row], cells: Sequence[Cell]) -> None:
    """Draw the atlas against the source temperature, and the interval's width against the error."""
    left, right = figure.subplots(1, 2)
    groups = {verdict: frame.select(rows, verdict=verdict) for verdict in VERDICTS}
    scatter(left, groups, f"ece {SOURCE}", f"ece {ATLAS}", COLOURS)
    scatter(right, groups, "half_width", "error", COLOURS)
    left.set(xlabel="ECE of source-T", ylabel="ECE of the atlas", title="every pair")
    right.set(
        xlabel="half-width of the interval",
        ylabel="error of the accuracy",
        title="below the line, the interval holds the truth",
    )
    legend_below(figure, left)


def pair_settings(cells: Sequence[Cell], rows: Sequence[Row]) -> dict[str, Any]:
    """Return the usual settings and the number of pairs."""
    count = len({(row["source"], row["target"]) for row in rows})
    return usual_settings(cells, rows) | {"pairs": count}


def bench(pairs: Sequence[Pair] = PAIRS) -> Bench:
    """Return the bench of some pairs."""
    return Bench(
        name="natural_shifts",
        title="The atlas under natural shifts",
        command="bench natural-pairs",
        introduction=_INTRODUCTION,
        cases=pair_cases(Source.answers, SCHEMA, METHODS, pairs),
        rows=summarise,
        bars=per("model", compare),
        tables=(
            Table(
                "{model}: {group}",
                (Column("source", "from"), Column("target", "to"), _PLAIN, *_PAIR),
            ),
            _AVERAGES,
        ),
        terminal=(Table("{model}: {group}", (Column(short_name, "graph"), *_PAIR)), _AVERAGES),
        draw=_draw,
        size=lambda rows: (8.0, 4.2),
        settings=pair_settings,
    )


BENCH = bench()
