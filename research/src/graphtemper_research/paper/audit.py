"""Small studies of claims of the paper that none of its figures tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from graphtemper import Observation, signals, temperature, theory
from graphtemper_research.harness import style
from graphtemper_research.harness.outcome import Comparison, Outcome, reported
from graphtemper_research.paper import homophily_study, theory_studies
from graphtemper_research.paper.block_models import shifted, trained
from graphtemper_research.paper.frozen_binary import Frozen, Setting, oracle, summary

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SEEDS = 6
DEGREES = (12, 25, 50)
BASE = Setting(num_nodes=10_000, degree=25, h_source=0.7, snr=0.5)
CLASSES, H_SOURCE, H_TARGET = 3, 0.8, 0.6
PASSES, REPEATS = (2, 4, 6, 8, 10, 20, 50), 24


def run() -> Outcome:
    """Measure what the claims leave open: degrees, classes, passes, limits, and homophily."""
    degree = [_degree_row(d) for d in DEGREES]
    classes = _classes_row()
    passes = [_passes_row(m) for m in PASSES]
    beyond, rewired = theory_studies.rows(), homophily_study.rows()
    return Outcome(
        name="audit",
        title="Small studies for the audit",
        settings={"seeds": SEEDS, "degrees": list(DEGREES), "M": list(PASSES)},
        comparisons=[
            *_compare_degree(degree),
            _compare_classes(classes),
            *_compare_passes(passes),
            *theory_studies.comparisons(beyond),
            *homophily_study.comparisons(rewired),
        ],
        rows=[
            *degree,
            classes,
            *passes,
            *ranking_example(),
            limits_example(),
            *beyond,
            *rewired,
        ],
        draw=lambda figure: _draw(figure, degree, passes),
    )


def _degree_row(degree: int) -> dict[str, Any]:
    """Change only the degree of the target, not homophily or snr."""
    target_setting = Setting(BASE.num_nodes, degree, BASE.h_source, BASE.snr)
    slopes = []
    for seed in range(SEEDS):
        target = target_setting.draw(BASE.h_source, seed)
        assert target.labels is not None
        fitted = oracle(Frozen.train(BASE, seed).logits(target), target.labels)
        slopes += [] if fitted is None else [1 / fitted]
    mean, spread, error = summary(slopes)
    common = (BASE.h_source, BASE.h_source, BASE.snr)
    return {
        "study": "degree",
        "degree": degree,
        "measured": mean,
        "spread": spread,
        "error": error,
        "independent_of_degree": 1.0,
        "with_degree_ratio": theory.slope(*common, degree_ratio=degree / BASE.degree),
        "finite_degree": 1
        / theory.finite_degree_temperature(*common, BASE.degree, degree_target=degree),
    }


def _classes_row() -> dict[str, Any]:
    """Compare the oracle temperature with the ratio of signal coefficients."""
    setting = Setting(10_000, 25, H_SOURCE, 1.0, num_classes=CLASSES)
    values = []
    for seed in range(SEEDS):
        target = setting.draw(H_TARGET, seed)
        assert target.labels is not None
        fitted = oracle(Frozen.train(setting, seed).logits(target), target.labels)
        values += [] if fitted is None else [fitted]
    mean, spread, error = summary(values)
    ratio = 1 / float(theory.signal_ratio(H_TARGET, H_SOURCE, CLASSES))
    return {
        "study": "classes",
        "num_classes": CLASSES,
        "h_source": H_SOURCE,
        "h_target": H_TARGET,
        "measured": mean,
        "spread": spread,
        "error": error,
        "signal_ratio": ratio,
    }


def _passes_row(count: int) -> dict[str, Any]:
    """Repeat STAC's disagreement estimate with M passes on one synthetic target."""
    source = trained(0)
    target = shifted(source, "feature", 0.8, 0)
    assert target.labels is not None
    estimates = [
        1
        - signals.pairwise_disagreement(
            Observation(source.model, target, seed=repeat).votes("edge", count, share=0.3)
        )
        for repeat in range(REPEATS)
    ]
    mean, spread, _ = summary(estimates)
    truth = float((source.model(target).argmax(axis=1) == target.labels).mean())
    return {"study": "passes", "M": count, "measured": mean, "spread": spread, "accuracy": truth}


def ranking_example() -> list[dict[str, Any]]:
    """Return two nodes of a three-class problem whose order one temperature reverses."""
    logits = np.array([[0.0, -1.0, -1.0], [0.0, -0.5, -10.0]])
    rows = []
    for value in (1.0, 0.2):
        first, second = temperature.apply(logits, value).max(axis=1)
        rows.append({"study": "ranking", "T": value, "first": first, "second": second})
    return rows


def limits_example() -> dict[str, Any]:
    """Return the slope at both ends of the snr for h_s = 0.8, h_t = 0.6."""
    return {
        "study": "limits",
        "low_snr": theory.slope(0.6, 0.8, 1e-9),
        "high_snr": theory.slope(0.6, 0.8, 1e9),
        "claimed_for_high_snr": theory.slope_limit_low_snr(0.6, 0.8),
    }


def _compare_degree(rows: Sequence[dict[str, Any]]) -> list[Comparison]:
    return [
        Comparison(
            f"slope when only the degree changes, {BASE.degree} to {row['degree']}",
            row["measured"],
            f"degree ratio predicts {row['with_degree_ratio']:.2f}, finite degree "
            f"{row['finite_degree']:.2f}",
            abs(row["measured"] - row["finite_degree"]) <= 3 * row["error"],
            published="1 (independent of degree)",
            spread=row["spread"],
        )
        for row in rows
        if row["degree"] != BASE.degree
    ]


def _compare_classes(row: dict[str, Any]) -> Comparison:
    return reported(
        f"K = {CLASSES}: oracle T, h {H_SOURCE} to {H_TARGET}",
        row["measured"],
        (
            f"the ratio of signal coefficients is {row['signal_ratio']:.3f}; the paper claims "
            "no T for K classes, and the covariance within classes moves too"
        ),
        spread=row["spread"],
    )


def _compare_passes(rows: Sequence[dict[str, Any]]) -> list[Comparison]:
    chosen = {row["M"]: row for row in rows}
    return [
        reported(
            f"spread of the disagreement estimate with M = {count}",
            chosen[count]["spread"],
            (
                f"its error against the true accuracy is "
                f"{chosen[count]['measured'] - chosen[count]['accuracy']:+.3f} at any M"
            ),
            published="6-10 suffice",
        )
        for count in (6, 10, 50)
    ]


def _draw(
    figure: Figure, degree: Sequence[dict[str, Any]], passes: Sequence[dict[str, Any]]
) -> None:
    left, right = figure.subplots(1, 2)
    x = [row["degree"] for row in degree]
    left.plot(x, [row["with_degree_ratio"] for row in degree], color=style.BLUE, label="x d_t/d_s")
    left.plot(x, [1.0 for _ in degree], ":", color=style.GREY, label="as printed")
    left.plot(x, [row["finite_degree"] for row in degree], "--", color=style.GREEN, label="exact")
    left.errorbar(
        x,
        [row["measured"] for row in degree],
        [2 * row["error"] for row in degree],
        fmt="o",
        color=style.RED,
        label="measured (2 s.e.)",
    )
    left.set(xlabel="target degree", ylabel="slope", title="Only the degree changes")
    left.legend()
    count = [row["M"] for row in passes]
    right.errorbar(
        count,
        [row["measured"] for row in passes],
        [2 * row["spread"] for row in passes],
        fmt="o-",
        color=style.BLUE,
        label="estimate (2 sd)",
    )
    right.axhline(passes[0]["accuracy"], color=style.RED, label="true accuracy")
    right.set(xscale="log", xlabel="passes M", ylabel="accuracy", title="More passes, same error")
    right.set_xticks(count, [str(m) for m in count])
    right.legend(loc="center right")
