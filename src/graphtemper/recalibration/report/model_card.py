"""The calibration section of a model card, in Markdown."""

from __future__ import annotations

import re

from graphtemper.card.card import SourceCard
from graphtemper.recalibration.findings import Findings
from graphtemper.recalibration.verdict import LEVEL

_MARKUP = re.compile(r"([\\`*_{}\[\]<>()#+!|~-])")


def model_card_section(
    card: SourceCard, result: Findings | None = None, *, target: str = ""
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
    lines = [
        "## Calibration",
        "",
        f"Probabilities of {_plain(card.predictor)} are softmax(logits / T).",
        "",
        "| at the source | |",
        "| --- | --- |",
        f"| temperature T | {card.probe.temperature:.4g} |",
        f"| accuracy | {card.reference.accuracy:.1%} |",
        f"| held-out labelled nodes | {card.num_nodes} |",
        f"| classes, feature columns | {card.num_classes}, {card.num_features} |",
        f"| shifts measured | {len(card.atlas)} of {', '.join(families)} |",
        "",
    ]
    lines += [] if result is None else _on_target(result, target)
    lines += [
        "T at the source is valid on graphs like the source. On another graph, run "
        "`graphtemper.recalibrate` with the source card. Without labels it cannot detect changes "
        "that leave features, edges and predictions unchanged.",
        "",
    ]
    return "\n".join(lines)


def _on_target(result: Findings, target: str) -> list[str]:
    facts = result.to_dict()
    accuracy, confidence = facts["accuracy"], facts["mean_confidence"]
    quantiles = facts.get("node_temperatures")
    spread = ""
    if quantiles is not None:
        low, high = quantiles["0.05"], quantiles["0.95"]
        spread = f" for the graph; 90 % of nodes between {low:.4g} and {high:.4g}"
    corrected = "" if facts["logit_shift"] is None else "; logits were corrected for class shares"
    return [
        f"| on {_plain(target) or 'the target'} | |",
        "| --- | --- |",
        f"| verdict | {facts['verdict']} |",
        f"| temperature T | {facts['temperature']:.4g}{spread}{corrected} |",
        f"| accuracy, estimated | {accuracy['value']:.1%} ({LEVEL:.0%} interval "
        f"{accuracy['low']:.1%} to {accuracy['high']:.1%}) |",
        f"| mean confidence, before and after | {confidence['before']:.1%}, "
        f"{confidence['after']:.1%} |",
        f"| nodes, labels used | {facts['num_nodes']}, {facts['num_labels']} |",
        "",
        *(f"- {_plain(reason.text)}" for reason in result.reasons),
        "",
    ]


def _plain(text: str) -> str:
    """Return a string from a file as one line without markup."""
    return _MARKUP.sub(r"\\\1", " ".join(text.split()))
