"""Figures `fig:mech` and the synthetic tables: a trained GCN on shifted block models, and STAC.

`block_models` describes the study. The published numbers are compared with the same study on the
authors' own random numbers (`released_stream`); everything else is measured on seeds of our own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from graphtemper import metrics
from graphtemper_research.harness import style
from graphtemper_research.harness.frame import select
from graphtemper_research.harness.numeric import FloatArray
from graphtemper_research.harness.outcome import Comparison, Outcome, reported
from graphtemper_research.paper import block_models
from graphtemper_research.paper.block_models import (
    CLASSES,
    FEATURES,
    FRESH,
    LEVELS,
    METHODS,
    NOISE,
    NUM_NODES,
    PASSES,
    SEEDS,
    measured,
    recalibrated,
    shifted,
    trained,
)
from graphtemper_research.paper.released_stream import SEEDS as RELEASED_SEEDS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Accuracy and ECE in the text. It names no level; the authors' script gives them at 1.4.
PRINTED_AT = ("feature", 1.4)
PRINTED = {"uncalibrated": 0.203, "source-T": 0.191, "STAC-global": 0.100, "oracle": 0.024}
PRINTED_ACCURACY = 0.61
# ECE and error-detection AUROC that only the authors' script gives.
SCRIPT = {
    ("homophily", 0.25): {
        "uncalibrated": 0.240,
        "source-T": 0.226,
        "STAC-global": 0.146,
        "oracle": 0.024,
    },
    ("mixed", 1.2): {
        "uncalibrated": 0.179,
        "source-T": 0.166,
        "STAC-global": 0.085,
        "oracle": 0.034,
    },
}
SCRIPT_AUROC = {"uncalibrated": 0.673, "STAC-full": 0.657}
TOLERANCE = 0.01


def run() -> Outcome:
    """Run all shifts, levels and seeds, and compare with the published figures."""
    rows = measured()
    return Outcome(
        name="synthetic",
        title="STAC on synthetic shifts",
        settings={
            "N": NUM_NODES,
            "K": CLASSES,
            "F": FEATURES,
            "noise": NOISE,
            "seeds": SEEDS,
            "authors' seeds": list(RELEASED_SEEDS),
            "M": PASSES,
            **{kind: list(levels) for kind, levels in LEVELS.items()},
        },
        comparisons=_compare(rows),
        rows=rows,
        draw=lambda figure: _draw(figure, rows),
        size=(7.2, 8.4),
    )


def _compare(rows: Sequence[dict[str, Any]]) -> list[Comparison]:
    return [
        *_as_released(),
        *_own_seeds(rows),
        *_halving(rows),
        *_without_shift(rows),
        _per_node(rows),
        _ranking(rows),
    ]


def _as_released() -> list[Comparison]:
    """Compare on the authors' seeds and network, where a difference is one of method."""
    kind, level = PRINTED_AT
    scores = block_models.measured_as_released(kind, level)
    items = [
        _close(
            f"{kind} {level}: accuracy, authors' seeds",
            scores["oracle"]["accuracy"],
            published=PRINTED_ACCURACY,
        )
    ]
    items += [
        _close(f"{kind} {level}: ECE, {method}, authors' seeds", scores[method]["ece"], value)
        for method, value in PRINTED.items()
    ]
    for (kind, level), values in SCRIPT.items():
        scores = block_models.measured_as_released(kind, level)
        items += [
            _close(
                f"{kind} {level}: ECE, {method}, authors' seeds",
                scores[method]["ece"],
                script=value,
            )
            for method, value in values.items()
        ]
    scores = block_models.measured_as_released("mixed", 1.2)
    return items + [
        _close(
            f"mixed 1.2: error-detection AUROC, {method}, authors' seeds",
            scores[method]["auroc"],
            script=value,
        )
        for method, value in SCRIPT_AUROC.items()
    ]


def _close(
    quantity: str, measured: float, published: float | None = None, script: float | None = None
) -> Comparison:
    expected = published if published is not None else script
    assert expected is not None
    return Comparison(
        quantity,
        measured,
        f"within {TOLERANCE}",
        abs(measured - expected) <= TOLERANCE,
        published=published,
        script=script,
    )


def _own_seeds(rows: Sequence[dict[str, Any]]) -> list[Comparison]:
    """Report the printed quantities on seeds of our own, which show how far seeds matter."""
    kind, level = PRINTED_AT
    items = []
    for method, value in PRINTED.items():
        row = select(rows, shift=kind, level=level, method=method)[0]
        floor = f"a perfectly calibrated model would show {row['noise_floor']:.3f}"
        items.append(
            reported(
                f"{kind} {level}: ECE, {method}, {SEEDS} seeds of our own",
                row["ece"],
                floor if method == "oracle" else "",
                published=value,
                spread=row["ece_spread"],
            )
        )
    return items


def _halving(rows: Sequence[dict[str, Any]]) -> list[Comparison]:
    """State "halves the gap" as the fraction of the excess over the oracle that remains."""
    items = []
    source = _excess(rows, "source-T")
    for method in ("STAC-global", "STAC (Algorithm 1)"):
        ratios = _excess(rows, method) / source
        items.append(
            reported(
                f"{method}: ECE left above the oracle, as a share of source-T's",
                float(np.mean(ratios)),
                (
                    f"mean over {len(ratios)} shifts, from {min(ratios):.2f} to "
                    f"{max(ratios):.2f}; spread over shifts"
                ),
                published="halves the gap (0.5)",
                spread=float(np.std(ratios, ddof=1)),
            )
        )
    return items


def _excess(rows: Sequence[dict[str, Any]], method: str) -> FloatArray:
    """Return the ECE above the oracle's for every shift; level 0 is none."""
    pairs = [
        [select(rows, shift=kind, level=level, method=m)[0]["ece"] for m in (method, "oracle")]
        for kind, levels in LEVELS.items()
        for level in levels
        if level > 0.0
    ]
    return -np.diff(np.array(pairs), axis=1)[:, 0]


def _without_shift(rows: Sequence[dict[str, Any]]) -> list[Comparison]:
    """Measure how much of the figure's gap is there at level 0, and with fresh validation nodes."""
    kind, level = PRINTED_AT

    def row(method: str, at: float = level) -> dict[str, Any]:
        found: dict[str, Any] = select(rows, shift=kind, level=at, method=method)[0]
        return found

    source, fresh = row("source-T"), row(f"source-T{FRESH}")
    plain, unshifted = row("source-T", 0.0), row(f"source-T{FRESH}", 0.0)
    before, after = (
        block_models.measured_as_released(kind, at)["source-T"]["ece"] for at in (0.0, level)
    )
    fall = plain["source_accuracy"] - plain["accuracy"]
    whole = source["source_accuracy"] - source["accuracy"]
    excess = _excess(rows, f"source-T{FRESH}")
    return [
        reported(
            f"{kind} 0 (no shift): ECE of source-T, as a share of that at {level}, authors' seeds",
            before / after,
            f"{before:.3f} of {after:.3f}",
            published="0: the gap grows with the shift",
        ),
        reported(
            f"{kind} 0 (no shift): ECE of source-T, as a share of that at {level}",
            plain["ece"] / source["ece"],
            f"{plain['ece']:.3f} of {source['ece']:.3f}",
            published="0: the gap grows with the shift",
        ),
        reported(
            f"{kind} 0 (no shift): oracle temperature",
            plain["oracle_temperature"],
            published="1 (Proposition 3)",
            spread=plain["oracle_temperature_spread"],
        ),
        reported(
            f"right panel: share of the fall of accuracy at {level} that is there without shift",
            fall / whole,
            (
                f"{plain['source_accuracy']:.3f} on the source's validation nodes, "
                f"{plain['accuracy']:.3f} without shift, {source['accuracy']:.3f} at {level}; "
                f"{plain['fresh_accuracy']:.3f} on the fresh validation graphs"
            ),
            published="0: the gap is the face of the shift",
        ),
        reported(
            f"{kind} {level}: ECE, source-T with validation nodes of a fresh graph",
            fresh["ece"],
            (
                f"without shift {unshifted['ece']:.3f}; STAC-global at {level} "
                f"{row('STAC-global')['ece']:.3f}, with a fresh threshold "
                f"{row(f'STAC-global{FRESH}')['ece']:.3f}"
            ),
            published=PRINTED["source-T"],
            spread=fresh["ece_spread"],
        ),
        *(
            reported(
                f"{method}: ECE above the oracle, as a share of the control's",
                float(_excess(rows, method).mean() / excess.mean()),
                (
                    "the control is source-T with fresh validation nodes; means over "
                    f"{len(excess)} shifts"
                ),
                published="halves the gap (0.5)",
            )
            for method in ("STAC-global", f"STAC-global{FRESH}")
        ),
    ]


def _per_node(rows: Sequence[dict[str, Any]]) -> Comparison:
    full, plain = (
        [
            select(rows, shift="mixed", level=level, method=m)[0]["auroc"]
            for level in LEVELS["mixed"]
        ]
        for m in ("STAC-full", "uncalibrated")
    )
    change = np.array(full) - np.array(plain)
    return reported(
        "mixed shift: change of error-detection AUROC by the per-node stage",
        float(change.mean()),
        ", ".join(
            f"{level}: {value:+.3f}" for level, value in zip(LEVELS["mixed"], change, strict=True)
        ),
        published="only marginally moves",
    )


def _ranking(rows: Sequence[dict[str, Any]]) -> Comparison:
    changes = [
        abs(
            row["auroc"]
            - select(rows, shift=row["shift"], level=row["level"], method="oracle")[0]["auroc"]
        )
        for row in select(rows, method="uncalibrated")
    ]
    return reported(
        "largest change of AUROC by one global temperature (K = 3)",
        max(changes),
        "true for two classes only: with three, one temperature can reorder nodes",
        published="exactly none",
    )


def _draw(figure: Figure, rows: Sequence[dict[str, Any]]) -> None:
    top, middle, bottom = np.asarray(figure.subfigures(3, 1))
    _draw_mechanism(top, rows)
    _draw_reliability(middle)
    _draw_bars(bottom, rows)


_COLOURS = dict(
    zip(
        METHODS,
        (style.GREY, style.RED, style.BLUE, style.SKY, style.PURPLE, style.ORANGE, style.GREEN),
        strict=True,
    )
)


def _draw_mechanism(figure: Any, rows: Sequence[dict[str, Any]]) -> None:
    left, right = figure.subplots(1, 2)
    levels = LEVELS["feature"]
    for method in ("uncalibrated", "source-T", f"source-T{FRESH}", "STAC-global", "oracle"):
        part = [select(rows, shift="feature", level=level, method=method)[0] for level in levels]
        left.errorbar(
            levels,
            [row["ece"] for row in part],
            [row["ece_spread"] for row in part],
            fmt="o-",
            color=_COLOURS.get(method, "black"),
            label=method.removesuffix(" validation graph"),
        )
    left.set(xlabel="feature shift", ylabel="ECE", title="Calibration error", ylim=(0, None))
    left.legend(ncols=2, loc="upper left")
    part = [select(rows, shift="feature", level=level, method="oracle")[0] for level in levels]
    for key, line, colour, label in (
        ("accuracy", "o-", "black", "true accuracy"),
        ("estimated_accuracy", "s--", style.BLUE, "STAC's estimate"),
        ("source_accuracy", "^:", style.RED, "source-T assumes"),
        ("fresh_accuracy", "v:", "black", "on a fresh graph"),
    ):
        right.plot(levels, [row[key] for row in part], line, color=colour, label=label)
    right.set(xlabel="feature shift", ylabel="accuracy", title="Why source-T fails", ylim=(0.5, 1))
    right.legend(loc="upper left", ncols=2)


def _draw_reliability(figure: Any) -> None:
    source = trained(0)
    target = shifted(source, "feature", 0.8, 0)
    assert target.labels is not None
    _, predictions = recalibrated(source, target, 0)
    panels = figure.subplots(1, 3, sharey=True)
    for axes, method in zip(panels, ("uncalibrated", "source-T", "STAC-full"), strict=True):
        curve = metrics.reliability_curve(predictions[method], target.labels, bins=12)
        axes.plot([1 / CLASSES, 1], [1 / CLASSES, 1], color=style.GREY, linewidth=0.8)
        axes.errorbar(
            curve.confidence,
            curve.accuracy,
            [curve.accuracy - curve.low, curve.high - curve.accuracy],
            fmt="o-",
            color=_COLOURS[method],
        )
        axes.set(
            xlabel="confidence",
            title=f"{method}: {metrics.ece(predictions[method], target.labels):.3f}",
        )
    panels[0].set_ylabel("accuracy")


def _draw_bars(figure: Any, rows: Sequence[dict[str, Any]]) -> None:
    panels = figure.subplots(1, 3)
    panels_shown = (
        ("feature", 0.8, "ece", "ECE, feature 0.8"),
        ("homophily", 0.25, "ece", "ECE, homophily 0.25"),
        ("mixed", 1.2, "auroc", "error AUROC, mixed 1.2"),
    )
    for axes, (kind, level, key, title) in zip(panels, panels_shown, strict=True):
        part = [select(rows, shift=kind, level=level, method=method)[0] for method in METHODS]
        axes.barh(
            METHODS,
            [row[key] for row in part],
            xerr=[row[f"{key}_spread"] for row in part],
            color=[_COLOURS[method] for method in METHODS],
        )
        axes.invert_yaxis()
        axes.set(title=title, xlim=(0.5, None) if key == "auroc" else (0, None))
        if axes is not panels[0]:
            axes.set_yticklabels([])
