"""Figure `fig:val`: the calibration slope of Theorem 1 and the ECE that one temperature removes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from graphtemper_research.harness import style
from graphtemper_research.harness.outcome import Comparison, Outcome, reported
from graphtemper_research.paper.slope_grid import SETTING, SETTINGS, measured

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def run() -> Outcome:
    """Measure 1/T_oracle on labelled targets; compare with closed form and finite degree."""
    rows = measured()
    return Outcome(
        name="slope",
        title="Calibration slope under homophily shift",
        settings=SETTINGS,
        comparisons=_compare(rows),
        rows=rows,
        draw=lambda figure: _draw(figure, rows),
    )


def _compare(rows: Sequence[dict[str, Any]]) -> list[Comparison]:
    source = next(row for row in rows if row["h_target"] == SETTING.h_source)
    far = next(row for row in rows if row["h_target"] == 0.55)
    off = [row for row in rows if _errors_off(row, "closed_slope") > 2]
    off_finite = [row for row in off if _errors_off(row, "finite_slope") > 2]
    return [
        Comparison(
            "ECE at the source homophily",
            source["ece"],
            "within 1 sd",
            abs(source["ece"] - 0.004) <= source["ece_spread"],
            published=0.004,
            spread=source["ece_spread"],
            note=f"a perfectly calibrated model would show {source['noise_floor']:.3f} here",
        ),
        Comparison(
            "ECE at h_t = 0.55",
            far["ece"],
            "within 1 sd",
            abs(far["ece"] - 0.25) <= far["ece_spread"],
            published=0.25,
            spread=far["ece_spread"],
        ),
        _after(rows, "oracle", published="<= 0.02"),
        _after(rows, "closed", "closed-form", published="<= 0.02, drawn from the oracle"),
        _after(rows, "finite", "finite-degree"),
        reported(
            "points where the closed form is more than 2 standard errors off",
            len(off),
            ", ".join(f"h_t = {row['h_target']}" for row in off),
        ),
        Comparison(
            "of these, points where the finite-degree slope is off too",
            len(off_finite),
            "0",
            not off_finite,
            note=", ".join(
                f"h_t = {row['h_target']}: {_errors_off(row, 'finite_slope'):.1f} standard errors"
                for row in off_finite
            ),
        ),
    ]


def _after(
    rows: Sequence[dict[str, Any]], key: str, name: str | None = None, published: str | None = None
) -> Comparison:
    """Return the largest ECE of the grid after one kind of temperature."""
    worst = max(rows, key=lambda row: row[f"ece_{key}"])
    return Comparison(
        f"largest ECE after the {name or key} temperature",
        worst[f"ece_{key}"],
        "<= 0.02",
        worst[f"ece_{key}"] <= 0.02,
        published=published,
        spread=worst[f"ece_{key}_spread"],
        note=f"at h_t = {worst['h_target']}",
    )


def _errors_off(row: dict[str, Any], key: str) -> float:
    return float(abs(row["slope"] - row[key]) / row["slope_error"])


def _draw(figure: Figure, rows: Sequence[dict[str, Any]]) -> None:
    left, right = figure.subplots(1, 2)
    h = [row["h_target"] for row in rows]
    left.plot(h, [row["closed_slope"] for row in rows], color=style.BLUE, label="Theorem 1")
    left.plot(
        h, [row["finite_slope"] for row in rows], "--", color=style.GREEN, label="finite degree"
    )
    left.errorbar(
        h,
        [row["slope"] for row in rows],
        [2 * row["slope_error"] for row in rows],
        fmt="o",
        color=style.RED,
        label="measured 1/T (2 s.e.)",
    )
    left.axhline(1, color=style.GREY, linewidth=0.8)
    left.set(xlabel="target homophily", ylabel="slope", title="Slope")
    left.legend()
    for key, colour, marker, label in (
        ("ece", style.RED, "o-", "as calibrated at the source"),
        ("ece_oracle", style.ORANGE, "d:", "after the oracle's T"),
        ("ece_closed", style.BLUE, "s-", "after T* (Theorem 1)"),
        ("ece_finite", style.GREEN, "^--", "after T* (finite degree)"),
    ):
        right.plot(h, [row[key] for row in rows], marker, color=colour, label=label)
    right.plot(
        h, [row["noise_floor"] for row in rows], ":", color=style.GREY, label="noise floor of ECE"
    )
    right.set(xlabel="target homophily", ylabel="ECE (15 bins)", title="Calibration error")
    right.legend()
