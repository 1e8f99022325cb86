"""The main job end to end on an embedded graph: train, shift, estimate, recalibrate, score."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from graphtemper import metrics, mixture, temperature, theory
from graphtemper.errors import InputError, NotIdentifiableError
from graphtemper.experiments.frozen_binary import Frozen, Setting
from graphtemper.report import style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SETTING = Setting(num_nodes=8000, degree=20, h_source=0.8, snr=1.0)
H_TARGET = 0.65


@dataclass(frozen=True)
class Demo:
    """What the demonstration found; labels of the target are used only for the scores."""

    verdict: str
    reason: str
    accuracy: float | None
    true_accuracy: float
    scores: list[dict[str, Any]]
    probabilities: dict[str, NDArray[np.float64]]
    labels: NDArray[np.int64]

    def to_dict(self) -> dict[str, Any]:
        """Return the verdict and the table as plain values."""
        return {
            "verdict": self.verdict,
            "reason": self.reason,
            "estimated_accuracy": self.accuracy,
            "true_accuracy": self.true_accuracy,
            "scores": self.scores,
        }


def run(seed: int = 0) -> Demo:
    """Train on a homophilous graph, meet a less homophilous one, repair the confidence.

    The label-free temperature comes from the shape of the unlabelled logits (`mixture`).
    """
    if seed < 0:
        raise InputError(f"seed must be 0 or more, not {seed}.")
    frozen = Frozen.train(SETTING, seed)
    target = SETTING.draw(H_TARGET, seed)
    logits = frozen.logits(target)
    verdict, reason, estimate, repaired = _judge(logits, target.degrees, frozen.source_snr)
    assert target.labels is not None
    candidates = {
        "source temperature": 1.0,
        "label-free": repaired,
        "closed form, if homophily were known": float(
            theory.optimal_temperature(theory.slope(H_TARGET, SETTING.h_source, SETTING.snr))
        ),
        "oracle (uses labels)": temperature.fit(logits, target.labels),
    }
    probabilities = {name: temperature.apply(logits, t) for name, t in candidates.items()}
    scores = [
        {
            "temperature of": name,
            "T": candidates[name],
            "mean confidence": float(p.max(axis=1).mean()),
            "ECE": metrics.ece(p, target.labels),
            "NLL": metrics.nll(p, target.labels),
        }
        for name, p in probabilities.items()
    ]
    return Demo(
        verdict=verdict,
        reason=reason,
        accuracy=estimate,
        true_accuracy=float((logits.argmax(axis=1) == target.labels).mean()),
        scores=scores,
        probabilities=probabilities,
        labels=target.labels,
    )


def _judge(
    logits: NDArray[np.float64], degrees: NDArray[np.int64], snr: float
) -> tuple[str, str, float | None, float]:
    """Return verdict, reason, estimated accuracy and temperature, from unlabelled logits only."""
    try:
        fit = mixture.fit_binary(logits[:, 1] - logits[:, 0], degrees, snr=snr)
    except NotIdentifiableError as error:
        return "abstain", f"{error} The source temperature is kept.", None, 1.0
    confidence = temperature.mean_confidence(logits)
    direction = theory.direction(fit.slope)
    reason = (
        f"the model is {direction}: it claims {confidence:.0%} and the logits' shape says "
        f"{fit.accuracy:.0%} (standard error {fit.accuracy_error:.1%})."
    )
    return "trust", reason, fit.accuracy, fit.temperature


def draw(figure: Figure, demo: Demo) -> None:
    """Draw the reliability diagram before and after."""
    panels = figure.subplots(1, 2, sharey=True)
    shown = ("source temperature", "label-free")
    for axes, name, colour in zip(panels, shown, (style.RED, style.GREEN), strict=True):
        curve = metrics.reliability_curve(demo.probabilities[name], demo.labels)
        axes.plot([0.5, 1], [0.5, 1], color=style.GREY, linewidth=0.8)
        axes.errorbar(
            curve.confidence,
            curve.accuracy,
            [curve.accuracy - curve.low, curve.high - curve.accuracy],
            fmt="o-",
            color=colour,
        )
        error = metrics.ece(demo.probabilities[name], demo.labels)
        axes.set(xlabel="confidence", title=f"{name}: ECE {error:.3f}", xlim=(0.48, 1.02))
    panels[0].set_ylabel("accuracy")
