"""The newest snapshot in the text format that Prometheus reads."""

from __future__ import annotations

from graphtemper.monitor.entry import VERDICTS, Entry

_GAUGES = {
    "accuracy": ("accuracy", "Estimated accuracy of the model on the newest snapshot."),
    "accuracy_low": ("low", "Lower end of the 90 % interval of the accuracy."),
    "accuracy_high": ("high", "Upper end of the 90 % interval of the accuracy."),
    "confidence": ("confidence", "Mean confidence before recalibration."),
    "num_nodes": ("num_nodes", "Nodes of the newest snapshot."),
}
_SETTLED = {
    "temperature": ("temperature", "Temperature that makes the probabilities honest."),
    "slope": ("slope", "Slope of accuracy against confidence on the scale of logits."),
}


def exposition(
    entry: Entry,
    snapshots: int,
    alarms: int,
    ran_at: float,
    missed: int = 0,
    watch: str = "monitor",
) -> str:
    """Return gauges of the newest entry, counters of the whole log, and when the watch ran.

    Temperature and slope have no sample where the verdict is ``abstain``: none was found.

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
    watch
        The label that tells several watched models apart.

    Examples
    --------
    >>> entry = Entry("d", "0", 10, 0.8, 0.7, 0.9, 0.9, 1.5, 0.7, "trust", (), {})
    >>> lines = exposition(entry, 3, 0, ran_at=1.8e9, watch="fraud").splitlines()
    >>> lines[2], lines[-1].split()[-1]
    ('graphtemper_accuracy{watch="fraud"} 0.8', '1800000000.000')
    """
    mine = f'watch="{_escaped(watch)}"'
    lines: list[str] = []
    for name, (field, words) in (_GAUGES | (_SETTLED if entry.settled else {})).items():
        lines += _metric(name, words, "gauge", {mine: f"{getattr(entry, field)!r}"})
    each = {f'{mine},verdict="{word}"': f"{int(entry.verdict == word)}" for word in VERDICTS}
    lines += _metric("verdict", "1 for the verdict on the newest snapshot.", "gauge", each)
    newest = {f'{mine},snapshot="{_escaped(entry.name)}"': "1"}
    lines += _metric("snapshot_info", "1, with the name of the newest snapshot.", "gauge", newest)
    for name, words, count in (
        ("snapshots_total", "Snapshots in the log.", snapshots),
        ("changes_total", "Changes that raised an alarm.", alarms),
    ):
        lines += _metric(name, words, "counter", {mine: f"{count}"})
    for name, words, value in (
        ("unread_snapshots", "Snapshots that the last run could not measure.", f"{missed}"),
        (
            "last_run_timestamp_seconds",
            "When the last run ended, in seconds since 1970.",
            f"{ran_at:.3f}",
        ),
    ):
        lines += _metric(f"monitor_{name}", words, "gauge", {mine: value})
    return "\n".join(lines) + "\n"


def _metric(name: str, words: str, kind: str, samples: dict[str, str]) -> list[str]:
    whole = f"graphtemper_{name}"
    head = [f"# HELP {whole} {words}", f"# TYPE {whole} {kind}"]
    return head + [f"{whole}{{{labels}}} {value}" for labels, value in samples.items()]


def _escaped(text: str) -> str:
    """Return a label's value as the text format wants it."""
    # A name of a file may hold bytes that are no text.
    whole = text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return whole.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
