"""Reasons of a verdict: a stable code for programs and a sentence for people.

Wording may change between versions; codes do not. `ReasonCode` is the table of all of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class ReasonCode(StrEnum):
    """Codes of reasons; ``meaning`` says when each is given.

    Examples
    --------
    >>> print(ReasonCode.FAR_FROM_ATLAS)
    far_from_atlas
    >>> ReasonCode.FAR_FROM_ATLAS.meaning
    'the target lies farther from every shift in the atlas than unknown families usually do'
    """

    meaning: str

    def __new__(cls, code: str, meaning: str) -> ReasonCode:
        """Make a string that carries its meaning."""
        member = str.__new__(cls, code)
        member._value_ = code
        member.meaning = meaning
        return member

    OVER_CONFIDENT = "over_confident", "mean confidence lies above the accuracy interval"
    UNDER_CONFIDENT = "under_confident", "mean confidence lies below the accuracy interval"
    CALIBRATED = "calibrated", "mean confidence and estimated accuracy agree"
    DIRECTION_UNCLEAR = (
        "direction_unclear",
        "mean confidence and accuracy differ, but by less than the interval is wide",
    )
    USUAL_ASSUMED = (
        "usual_assumed",
        "feature means have moved and there are neither labels nor labelled environments, so the "
        "usual over-confidence under natural shift is assumed",
    )
    SIGNAL_OUT_OF_RANGE = "signal_out_of_range", "a signal lies outside all values of the atlas"
    WIDE_INTERVAL = "wide_interval", "the accuracy interval is wide"
    FAR_FROM_ATLAS = (
        "far_from_atlas",
        "the target lies farther from every shift in the atlas than unknown families usually do",
    )
    INPUT_BROKEN = (
        "input_broken",
        "a change by which no input that was meant differs: columns in another order or on another "
        "scale, a constant column, all nodes the same, or no edges",
    )
    SIGNAL_UNREADABLE = (
        "signal_unreadable",
        "the leading signal of the card cannot be measured on this graph",
    )
    NO_LINK_SIGNAL = (
        "no_link_signal",
        "links carry no signal: features or links may belong to other nodes, and nothing "
        "unlabelled tells which",
    )
    TEMPERATURE_AT_BOUND = (
        "temperature_at_bound",
        "no temperature matches the estimated accuracy, so the nearest one is used",
    )
    BELOW_CHANCE = "below_chance", "by the labels, the accuracy is not above 1/K"
    LABELS_USED = "labels_used", "labels of the target were given"
    LABELS_NEEDED = "labels_needed", "the verdict is abstain; a number of labels would change it"
    NO_TEMPERATURE_HELPS = (
        "no_temperature_helps",
        "the verdict is abstain, and more labels would not change it",
    )
    NODE_TEMPERATURES = "node_temperatures", "every node has its own temperature"
    NODE_TEMPERATURES_EQUAL = (
        "node_temperatures_equal",
        "node temperatures were no better than one on left-out shifts, so all are equal",
    )
    NODE_TEMPERATURES_KEPT = "node_temperatures_kept", "the verdict is abstain, so all are equal"
    CLASS_SHARES_CORRECTED = "class_shares_corrected", "logits were corrected for new class shares"
    CLASS_SHARES_NOT_CORRECTED = (
        "class_shares_not_corrected",
        "a correction for class shares was requested, but the evidence does not support it",
    )
    CLASS_PROFILE_MISSING = (
        "class_profile_missing",
        "a correction for class shares was requested, but the card holds no class profile",
    )
    ENVIRONMENTS_FEW = (
        "environments_few",
        "fewer than three labelled environments set the estimate; how much environments usually "
        "vary is assumed",
    )
    ENVIRONMENTS_EXCHANGEABLE = (
        "environments_exchangeable",
        "labelled environments set the estimate; the target should differ from them as they differ "
        "from each other",
    )
    ENVIRONMENTS_ORDERED = (
        "environments_ordered",
        "labelled environments in order of time set the estimate; recent ones count for more",
    )
    ENVIRONMENT_DEVIATES = (
        "environment_deviates",
        "one labelled environment does not go with the others; its labels may be wrong",
    )
    EARLIER_LABELS = "earlier_labels", "earlier labels of the same nodes were given"
    WHOLE_GRAPH_RUN = (
        "whole_graph_run",
        "logits were given, but the model ran on the whole graph: what it reads for a useful "
        "sample of nodes is most of it",
    )
    SAMPLE_RUN = (
        "sample_run",
        "logits were given, so the model ran on a sample of the nodes with all that it reads there",
    )
    FEATURES_UNKNOWN = (
        "features_unknown",
        "without feature moments of the target, a change of class shares would go unnoticed",
    )


@dataclass(frozen=True)
class Reason:
    """Why a verdict is what it is.

    Attributes
    ----------
    code
        A stable identifier; see `ReasonCode`. It compares equal to its string.
    text
        A sentence for people, whose wording may change.

    Examples
    --------
    >>> reason = Reason(ReasonCode.WIDE_INTERVAL, "the interval is wide.")
    >>> str(reason), reason.code == "wide_interval"
    ('the interval is wide.', True)
    """

    code: ReasonCode
    text: str

    def __str__(self) -> str:
        return self.text

    def to_dict(self) -> dict[str, str]:
        """Return the code and the text as plain strings."""
        return {"code": self.code.value, "text": self.text}
