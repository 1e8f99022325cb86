"""The newest snapshot in the text format of Prometheus."""

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
    """Return gauges of the newest entry, counters of the log, and the time of the run.

    Temperature and slope have no sample if the verdict is ``abstain``.

    Parameters
    ----------
    entry
        The newest entry.
    snapshots, alarms
        Number of snapshots in the log and of alarms.
    ran_at
        End of this run, in seconds since 1970. A run that fails leaves the file as it is, so
        ``time() - graphtemper_monitor_last_run_timestamp_seconds`` shows a watch that has stopped.
    missed
        Number of snapshots that this run could not measure.
    watch
        The label that distinguishes several watched models.

    Examples
    --------
    >>> entry = Entry("d", "0", 10, 0.8, 0.7, 0.9, 0.9, 1.5, 0.7, "trust", (), {})
    >>> lines = exposition(entry, 3, 0, ran_at=1.8e9, watch="fraud").splitlines()
    >>> lines[2], lines[-1].split()[-1]
    ('graphtemper_accuracy{watch="fraud"} 0.8', '1800000000.000')
    """
    label = f'watch="{_escape(watch)}"'
    lines: list[str] = []
    for name, (field, help_text) in (_GAUGES | (_SETTLED if entry.settled else {})).items():
        lines += _metric(name, help_text, "gauge", {label: f"{getattr(entry, field)!r}"})
    verdicts = {f'{label},verdict="{word}"': f"{int(entry.verdict == word)}" for word in VERDICTS}
    lines += _metric("verdict", "1 for the verdict on the newest snapshot.", "gauge", verdicts)
    newest = {f'{label},snapshot="{_escape(entry.name)}"': "1"}
    lines += _metric("snapshot_info", "1, with the name of the newest snapshot.", "gauge", newest)
    for name, help_text, count in (
        ("snapshots_total", "Snapshots in the log.", snapshots),
        ("changes_total", "Changes that raised an alarm.", alarms),
    ):
        lines += _metric(name, help_text, "counter", {label: f"{count}"})
    for name, help_text, value in (
        ("unread_snapshots", "Snapshots that the last run could not measure.", f"{missed}"),
        (
            "last_run_timestamp_seconds",
            "When the last run ended, in seconds since 1970.",
            f"{ran_at:.3f}",
        ),
    ):
        lines += _metric(f"monitor_{name}", help_text, "gauge", {label: value})
    return "\n".join(lines) + "\n"


def _metric(name: str, help_text: str, kind: str, samples: dict[str, str]) -> list[str]:
    metric = f"graphtemper_{name}"
    head = [f"# HELP {metric} {help_text}", f"# TYPE {metric} {kind}"]
    return head + [f"{metric}{{{labels}}} {value}" for labels, value in samples.items()]


def _escape(text: str) -> str:
    """Return the value of a label as the text format requires."""
    # The name of a file may hold bytes that are not UTF-8.
    valid = text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return valid.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
