"""The calibration section of a model card, in Markdown."""

from __future__ import annotations

import re

from graphtemper.card.card import SourceCard
from graphtemper.recalibration.result import Recalibration

_MARKUP = re.compile(r"([\\`*_{}\[\]<>()#+!|~-])")


def model_card_section(
    card: SourceCard, result: Recalibration | None = None, *, target: str = ""
) -> str:
    """Return a Markdown section about a model's calibration, at its source and on a target.

    Parameters
    ----------
    card
        The model's source card.
    result
        The result of `recalibrate` on a target, if there is one.
    target
        Name of that target.

    Examples
    --------
    >>> from graphtemper import SourceCard, csbm
    >>> from graphtemper.models import SIGN
    >>> g = csbm.sample(400, degree=6, homophily=0.8, snr=1.0, num_features=6, seed=1)
    >>> model = SIGN(hops=1).fit(g, range(200))
    >>> card = SourceCard.build(model, g, range(200, 400), compositions=0)
    >>> print(model_card_section(card).splitlines()[0])
    ## Calibration
    """
    families = card.families
    source = {
        "temperature": f"{card.probe.temperature:.4g}",
        "accuracy": f"{card.reference.accuracy:.1%}",
        "held-out labelled nodes": f"{card.num_nodes}",
        "classes, feature columns": f"{card.num_classes}, {card.num_features}",
        "shifts measured": f"{len(card.atlas)} of {', '.join(families)}",
    }
    lines = ["## Calibration", ""]
    lines += [f"Probabilities of {_plain(card.predictor)} are softmax(logits / T).", ""]
    lines += _table("at the source", source)
    if result is not None:
        rows = {"verdict": result.verdict, **result.summary_rows()}
        rows["Nodes, labels used"] = f"{result.num_nodes}, {result.num_labels}"
        if result.logit_shift is not None:
            rows["Logits"] = "corrected for class shares"
        lines += _table(f"on {_plain(target) or 'the target'}", rows)
        lines += [*(f"- {_plain(reason.text)}" for reason in result.reasons), ""]
    lines += [
        "T at the source is valid on graphs like the source. On another graph, run "
        "`graphtemper.recalibrate` with the source card. Without labels it cannot detect changes "
        "that leave features, edges and predictions unchanged.",
        "",
    ]
    return "\n".join(lines)


def _table(title: str, rows: dict[str, str]) -> list[str]:
    cells = (f"| {name.lower()} | {value} |" for name, value in rows.items())
    return [f"| {title} | |", "| --- | --- |", *cells, ""]


def _plain(text: str) -> str:
    """Return a string from a file as one line without markup."""
    return _MARKUP.sub(r"\\\1", " ".join(text.split()))
