"""The newest snapshot in the text format that Prometheus reads."""

from __future__ import annotations

from graphtemper.monitor.log import Entry

_VERDICTS = ("trust", "caution", "abstain")
_GAUGES = {
    "accuracy": "Estimated accuracy of the model on the newest snapshot.",
    "low": "Lower end of the 90 % interval of the accuracy.",
    "high": "Upper end of the 90 % interval of the accuracy.",
    "confidence": "Mean confidence before recalibration.",
    "temperature": "Temperature that makes the probabilities honest.",
    "slope": "Slope of accuracy against confidence on the scale of logits.",
    "num_nodes": "Nodes of the newest snapshot.",
}


def exposition(entry: Entry, snapshots: int, alarms: int) -> str:
    """Return gauges of the newest entry and counters of the whole log.

    Examples
    --------
    >>> entry = Entry("d", "0", 10, 0.8, 0.7, 0.9, 0.9, 1.5, 0.7, "trust", (), {})
    >>> print(exposition(entry, 3, 0).splitlines()[2])
    graphtemper_accuracy 0.8
    """
    lines: list[str] = []
    for name, words in _GAUGES.items():
        lines += _head(f"graphtemper_{name}", words, "gauge")
        lines.append(f"graphtemper_{name} {getattr(entry, name)!r}")
    lines += _head("graphtemper_verdict", "1 for the verdict on the newest snapshot.", "gauge")
    lines += [
        f'graphtemper_verdict{{verdict="{word}"}} {int(entry.verdict == word)}'
        for word in _VERDICTS
    ]
    lines += _head("graphtemper_snapshots_total", "Snapshots in the log.", "counter")
    lines.append(f"graphtemper_snapshots_total {snapshots}")
    lines += _head("graphtemper_changes_total", "Changes that raised an alarm.", "counter")
    lines.append(f"graphtemper_changes_total {alarms}")
    return "\n".join(lines) + "\n"


def _head(name: str, words: str, kind: str) -> list[str]:
    return [f"# HELP {name} {words}", f"# TYPE {name} {kind}"]
