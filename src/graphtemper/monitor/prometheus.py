"""The newest snapshot in the text format that Prometheus reads."""

from __future__ import annotations

from graphtemper.monitor.entry import VERDICTS, Entry

_GAUGES = {
    "accuracy": "Estimated accuracy of the model on the newest snapshot.",
    "low": "Lower end of the 90 % interval of the accuracy.",
    "high": "Upper end of the 90 % interval of the accuracy.",
    "confidence": "Mean confidence before recalibration.",
    "temperature": "Temperature that makes the probabilities honest.",
    "slope": "Slope of accuracy against confidence on the scale of logits.",
    "num_nodes": "Nodes of the newest snapshot.",
}


def exposition(entry: Entry, snapshots: int, alarms: int, ran_at: float, missed: int = 0) -> str:
    """Return gauges of the newest entry, counters of the whole log, and when the watch ran.

    Parameters
    ----------
    entry
        The newest.
    snapshots, alarms
        How many the log has.
    ran_at
        When this run ended, in seconds since 1970. The file stays as it is when a run fails, so
        ``time() - graphtemper_monitor_last_run_timestamp_seconds`` shows a watch that has stopped.
    missed
        Snapshots that this run could not measure.

    Examples
    --------
    >>> entry = Entry("d", "0", 10, 0.8, 0.7, 0.9, 0.9, 1.5, 0.7, "trust", (), {})
    >>> lines = exposition(entry, 3, 0, ran_at=1.8e9).splitlines()
    >>> lines[2], lines[-1]
    ('graphtemper_accuracy 0.8', 'graphtemper_monitor_last_run_timestamp_seconds 1800000000.000')
    """
    lines: list[str] = []
    for name, words in _GAUGES.items():
        lines += _head(f"graphtemper_{name}", words, "gauge")
        lines.append(f"graphtemper_{name} {getattr(entry, name)!r}")
    lines += _head("graphtemper_verdict", "1 for the verdict on the newest snapshot.", "gauge")
    lines += [
        f'graphtemper_verdict{{verdict="{word}"}} {int(entry.verdict == word)}' for word in VERDICTS
    ]
    lines += _head("graphtemper_snapshots_total", "Snapshots in the log.", "counter")
    lines.append(f"graphtemper_snapshots_total {snapshots}")
    lines += _head("graphtemper_changes_total", "Changes that raised an alarm.", "counter")
    lines.append(f"graphtemper_changes_total {alarms}")
    name = "graphtemper_monitor_unread_snapshots"
    lines += _head(name, "Snapshots that the last run could not measure.", "gauge")
    lines.append(f"{name} {missed}")
    name = "graphtemper_monitor_last_run_timestamp_seconds"
    lines += _head(name, "When the last run ended, in seconds since 1970.", "gauge")
    lines.append(f"{name} {ran_at:.3f}")
    return "\n".join(lines) + "\n"


def _head(name: str, words: str, kind: str) -> list[str]:
    return [f"# HELP {name} {words}", f"# TYPE {name} {kind}"]
