"""The verdict: whether an estimate can be trusted, and why."""

from __future__ import annotations

from typing import Literal

import numpy as np

from graphtemper._core.estimate import Estimate
from graphtemper._core.numerics import normal_quantile
from graphtemper.card.random_effects import ENVIRONMENTS
from graphtemper.card.reading import FAR, MOVED, NEAR, Reading
from graphtemper.recalibration.labels.few_labels import more_labels
from graphtemper.recalibration.reasons import Reason, ReasonCode
from graphtemper.signals.sample import Sampled

Verdict = Literal["trust", "caution", "abstain"]

LEVEL = 0.90
# Half-width of the accuracy interval up to which an answer may be trusted, and above which the
# atlas alone has said nothing.
CAUTION_WIDTH, ABSTAIN_WIDTH = 0.15, 0.30
# The same where features moved: the usual rule is that wide only where it contradicts the source.
ABSTAIN_ASSUMED = 0.35
# Half-width of the interval that labels are counted for.
VERIFIED_WIDTH = 0.10
# Distance to the nearest environment, in units of how far left-out families lie from the others.
CAUTION_NOVELTY, ABSTAIN_NOVELTY = NEAR, FAR
# With fewer nodes than this, a share of them is not worth estimating.
_FEWEST_NODES = 10
# Fewer environments than this do not show how much they vary.
_FEWEST_TO_VARY = 3
_LINKS_WITHOUT_SIGNAL = (
    "links carry no signal: features or links may belong to other nodes, and without labels "
    "nothing tells which; the interval holds for both."
)
# A gap between confidence and accuracy that is too small to call the model over-confident.
_SMALL_GAP = 0.02


def judge(
    reading: Reading,
    accuracy: Estimate,
    caveat: Reason | None,
    used: Reason | None = None,
    *,
    count: float = 0.0,
    leads: bool = False,
) -> tuple[Verdict, list[Reason]]:
    """Decide whether there is evidence that an estimate could be checked against.

    Labels of the target and labelled environments are such evidence, and so are shifts of the atlas
    that look like the target, if its feature means have not moved. Where they have and there is
    neither, the usual over-confidence is an assumption.

    Parameters
    ----------
    reading
        The target, compared with the card.
    accuracy
        The estimate.
    caveat
        What is wrong with the temperature that goes with it, if anything is.
    used, count, leads
        What labels say if there are any, their effective number, and whether they know more than
        the atlas.
    """
    reasons = _out_of_range(reading) + ([] if used is None else [used])
    width = accuracy.half_width
    checked = leads or reading.expected is not None
    assumed = not checked and reading.moved_fraction >= MOVED
    verdict: Verdict = "trust"
    if width > CAUTION_WIDTH:
        verdict = "caution"
        text = (
            f"the accuracy is only known to within {100 * width:.0f} points: between "
            f"{accuracy.low:.0%} and {accuracy.high:.0%}."
        )
        reasons.append(Reason(ReasonCode.WIDE_INTERVAL, text))
    if assumed:
        verdict = "caution"
        reasons.append(_assumption(reading, accuracy, count))
    if reading.novelty > (ABSTAIN_NOVELTY if assumed else CAUTION_NOVELTY) and not checked:
        verdict = "caution"
        text = (
            f"the graph lies {reading.novelty:.1f} times as far from any shift in the atlas as an "
            "unknown family usually does."
        )
        reasons.append(Reason(ReasonCode.FAR_FROM_ATLAS, text))
    if caveat is not None:
        verdict = "caution"
        reasons.append(caveat)
    alone = not (checked or assumed)
    unreadable = reading.unreadable and not leads
    unlinked = reading.unlinked and not (leads or reading.flat or reading.unreadable)
    if unlinked:
        reasons.append(Reason(ReasonCode.NO_LINK_SIGNAL, _LINKS_WITHOUT_SIGNAL))
    unknown = assumed and width > ABSTAIN_ASSUMED
    too_far = reading.novelty > ABSTAIN_NOVELTY and not checked and not count
    if unreadable:
        reasons.append(Reason(ReasonCode.SIGNAL_UNREADABLE, _why_unreadable(reading)))
    small = reading.num_nodes <= _FEWEST_NODES and width > CAUTION_WIDTH
    cause = None if leads else reading.broken
    if cause is not None:
        text = f"the input looks broken, so nothing can be said: {cause}"
        reasons.insert(0, Reason(ReasonCode.INPUT_BROKEN, text))
    silent = reading.flat or unreadable or unlinked or cause is not None
    wide = unknown or (alone and width > ABSTAIN_WIDTH)
    if silent or too_far or small or wide:
        verdict = "abstain"
        # An unknown accuracy is planned for at its hardest, the value nearest to one half.
        hardest = 0.5 if too_far or unreadable else min(max(0.5, accuracy.low), accuracy.high)
        reasons.append(_what_would_help(hardest, reading.num_nodes, count))
    return verdict, reasons


def _assumption(reading: Reading, accuracy: Estimate, count: float) -> Reason:
    """Say what is assumed where feature means have moved, and how many labels would verify it."""
    needed = labels_needed(min(max(0.5, accuracy.low), accuracy.high), population=reading.num_nodes)
    text = (
        "feature means have moved, and without labels nothing tells how far accuracy fell: the "
        f"usual over-confidence is assumed; labels of about {needed} target nodes"
        f"{' in all' if count else ''} would verify it, and labelled earlier graphs help."
    )
    if reading.moments is None:
        text = text.replace("feature means have moved", "the features are unknown")
    return Reason(ReasonCode.USUAL_ASSUMED, text)


def _why_unreadable(reading: Reading) -> str:
    """Say why the leading signal of the card cannot be measured."""
    if reading.constant and reading.num_nodes > 1:
        return "all nodes have the same features, so there is no signal to read."
    if reading.evidence.homophily is None:
        return "the graph has no neighbours to read the signal from, on which this card relies."
    return "on this graph noise hides the signal that this card relies on."


def _what_would_help(accuracy: float, num_nodes: int, count: float) -> Reason:
    needed = labels_needed(accuracy, population=num_nodes)
    if count >= needed:
        text = "the source temperature is kept, because no temperature would change anything."
        return Reason(ReasonCode.NO_TEMPERATURE_HELPS, text)
    total = " in all" if count else ""
    text = (
        f"the accuracy is too uncertain to act on; labels of about {needed} target nodes{total} "
        f"would bring it to within {100 * VERIFIED_WIDTH:.0f} points."
    )
    if num_nodes <= _FEWEST_NODES:
        nodes = "the one node" if num_nodes == 1 else f"all {num_nodes} nodes"
        text = f"the graph is too small to estimate an accuracy; check {nodes} by hand."
    return Reason(ReasonCode.LABELS_NEEDED, text)


def labels_needed(
    accuracy: float, half_width: float = VERIFIED_WIDTH, population: int | None = None
) -> int:
    """Return the number of labels that bring a 90 % interval of the accuracy to a half-width.

    In a finite population of N nodes, n / (1 + (n - 1) / N) labels do what n do in a large one.

    Examples
    --------
    >>> labels_needed(0.8, 0.08), labels_needed(0.8, 0.08, population=100)
    (68, 41)
    """
    variance = max(accuracy * (1.0 - accuracy), 0.05)
    needed = variance * (normal_quantile(LEVEL) / half_width) ** 2
    if population is not None:
        needed = min(needed / (1.0 + max(needed - 1.0, 0.0) / population), population)
    return int(np.ceil(needed))


def _out_of_range(reading: Reading) -> list[Reason]:
    """Name the signals that lie outside all values of the atlas."""
    response = reading.response
    x = response.coordinates(reading.signals)
    reasons = []
    for name, value, column in zip(response.names, x, response.points.T, strict=True):
        low, high = min(float(column.min()), 0.0), max(float(column.max()), 0.0)
        beyond = max(low - value, value - high)
        if beyond > 1.0:
            side = "below" if value < low else "above"
            text = f"{name} is {beyond:.1f} standard deviations {side} anything seen at the source."
            reasons.append(Reason(ReasonCode.SIGNAL_OUT_OF_RANGE, text))
    return reasons


def direction(confidence: float, accuracy: Estimate, *, known: bool = True) -> Reason:
    """Say whether the model is over- or under-confident, as far as the interval allows.

    Where the accuracy is not ``known``, because the verdict is ``abstain``, nothing is claimed.

    Examples
    --------
    >>> direction(0.92, Estimate(0.85, 0.56, 0.96, "atlas")).text.split(": ")[1]
    'perhaps over-confident, but the interval (56% to 96%) is too wide to tell.'
    """
    if not known:
        text = (
            f"at the source temperature the model claims {confidence:.1%}; whether that is too "
            f"much or too little is unknown (accuracy {accuracy.low:.0%} to "
            f"{accuracy.high:.0%})."
        )
        return Reason(ReasonCode.DIRECTION_UNCLEAR, text)
    gap = confidence - accuracy.value
    word = "over-confident" if gap > 0 else "under-confident"
    code = ReasonCode.OVER_CONFIDENT if gap > 0 else ReasonCode.UNDER_CONFIDENT
    narrow = accuracy.half_width <= CAUTION_WIDTH
    if f"{confidence:.1%}" == f"{accuracy.value:.1%}" and narrow:
        word, code = "about as confident as it is right", ReasonCode.CALIBRATED
    elif accuracy.low <= confidence <= accuracy.high:
        interval = f"the interval ({accuracy.low:.0%} to {accuracy.high:.0%})"
        small = abs(gap) < _SMALL_GAP
        hardly, code = f"perhaps {word}, but", ReasonCode.DIRECTION_UNCLEAR
        if small and narrow:
            word, code = "about as confident as it is right", ReasonCode.CALIBRATED
        elif narrow:
            word = f"{hardly} {interval} holds its confidence as well"
        else:
            word = f"{'about right, but' if small else hardly} {interval} is too wide to tell"
    text = (
        f"at the source temperature the model claims {confidence:.1%} and is estimated to be right "
        f"{accuracy.value:.1%} of the time: {word}."
    )
    return Reason(code, text)


def environment_reasons(reading: Reading, accuracy: Estimate) -> list[Reason]:
    """Say which assumption about labelled environments an estimate rests on, if on any."""
    known = reading.card.environments
    if accuracy.method != ENVIRONMENTS:
        return []
    count = len(known)
    many = "1 labelled environment" if count == 1 else f"{count} labelled environments"
    if known[-1].when is not None:
        code = ReasonCode.ENVIRONMENTS_ORDERED
        text = (
            f"the estimate rests on {many} in order of time; recent ones count for more, and the "
            "interval assumes that this graph differs from them as they differ from each other."
        )
        if count == 1:
            text = (
                f"the estimate rests on {many}, of an earlier time; the interval assumes that this "
                "graph differs from it as natural graphs usually differ from each other."
            )
    elif count >= _FEWEST_TO_VARY:
        code = ReasonCode.ENVIRONMENTS_EXCHANGEABLE
        text = (
            f"the estimate rests on {many}; the interval assumes that this graph differs from them "
            "as they differ from each other."
        )
    else:
        code = ReasonCode.ENVIRONMENTS_FEW
        text = (
            f"the estimate rests on {many}, too few to show how much they vary: the interval "
            "assumes that gaps between confidence and accuracy vary as in other natural graphs."
        )
    said = [Reason(code, text)]
    if reading.outlier is not None:
        name = known[reading.outlier].name
        text = (
            f"the accuracy in environment {name!r} does not go with that in the others; check its "
            "labels."
        )
        said.append(Reason(ReasonCode.ENVIRONMENT_DEVIATES, text))
    return said


def labels_used(
    count: int, hits: int, accuracy: Estimate, before: Estimate, population: int
) -> Reason:
    """Say what labels showed, and how many more would make the accuracy known."""
    nodes = "1 labelled node" if count == 1 else f"{count} labelled nodes"
    text = (
        f"the model is right on {hits} of {nodes}; with them the accuracy is known to within "
        f"{100 * accuracy.half_width:.1f} points, without them to within "
        f"{100 * before.half_width:.1f}"
    )
    more = min(more_labels(accuracy, VERIFIED_WIDTH), population - count)
    if more > 0:
        text += f"; about {more} more would bring that to {100 * VERIFIED_WIDTH:.0f}"
    return Reason(ReasonCode.LABELS_USED, f"{text}.")


def below_chance(accuracy: float, num_classes: int) -> Reason | None:
    """Say that an accuracy is not above that of guessing, if so."""
    if accuracy > 1.0 / num_classes:
        return None
    text = (
        f"an accuracy of {accuracy:.1%} is not above that of guessing among {num_classes} classes, "
        f"{1.0 / num_classes:.1%}, so the logits say next to nothing about the classes."
    )
    return Reason(ReasonCode.BELOW_CHANCE, text)


def at_bound(problem: str) -> Reason | None:
    """Return the reason for a problem that `nearest_temperature` met, or None for ""."""
    return Reason(ReasonCode.TEMPERATURE_AT_BOUND, f"{problem}.") if problem else None


def whole_graph_run() -> Reason:
    """Return the reason of a model that ran on the whole graph in spite of given logits."""
    text = (
        "the model ran on the whole graph, because what it reads for a useful sample of nodes is "
        "most of it."
    )
    return Reason(ReasonCode.WHOLE_GRAPH_RUN, text)


def sampled_run(found: Sampled) -> Reason:
    """Return the reason of a model whose evidence is from a sample of nodes and links."""
    nodes = found.num_nodes
    text = (
        f"the model ran on {nodes:,} sampled nodes and {found.num_links:,} sampled links, with all "
        f"nodes within {found.depth} edges."
    )
    if found.replaced:
        text += (
            f" {found.replaced:,} nodes, {found.replaced / nodes:.1%} of the sample, reach more "
            f"than {found.most_edges:,} edges, and others of their strata took their places."
        )
    return Reason(ReasonCode.SAMPLE_RUN, text)


def earlier_labels(known: int, nodes: int, environments: int) -> Reason:
    """Return the reason of earlier labels; ``environments`` were learned with such labels."""
    use = f"{environments} environments show what they are worth"
    if not environments:
        use = "they help to read new labels, but no environment shows what they are worth alone"
    text = f"{known:,} of {nodes:,} nodes have an earlier label; {use}."
    return Reason(ReasonCode.EARLIER_LABELS, text)
