"""The newest snapshot in the text format of Prometheus."""

from __future__ import annotations

from graphtemper.monitor.entry import VERDICTS
from graphtemper.monitor.standing import Standing

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


def exposition(standing: Standing, ran_at: float, missed: int = 0, watch: str = "monitor") -> str:
    """Return gauges of the newest answer, counters of the log, and the time of the run.

    Temperature and slope have no sample if the verdict is ``abstain``, and coverage and error have
    none without late labels.

    Parameters
    ----------
    standing
        The log (`graphtemper.monitor.standing.read_log`).
    ran_at
        End of this run, in seconds since 1970. A run that fails leaves the file as it is, so
        ``time() - graphtemper_monitor_last_run_timestamp_seconds`` shows a watch that has stopped.
    missed
        Number of snapshots that this run could not measure.
    watch
        The label that distinguishes several watched models.
    """
    entry, record = standing.newest, standing.record
    label = f'watch="{_escape(watch)}"'
    lines: list[str] = []
    for name, (field, help_text) in (_GAUGES | (_SETTLED if entry.settled else {})).items():
        lines += _metric(name, help_text, "gauge", {label: f"{getattr(entry, field)!r}"})
    verdicts = {f'{label},verdict="{word}"': f"{int(entry.verdict == word)}" for word in VERDICTS}
    lines += _metric("verdict", "1 for the verdict on the newest snapshot.", "gauge", verdicts)
    newest = {f'{label},snapshot="{_escape(entry.name)}"': "1"}
    lines += _metric("snapshot_info", "1, with the name of the newest snapshot.", "gauge", newest)
    dropped = any(drop.position == len(standing.answers) - 1 for drop in standing.drops)
    facts = {
        "source_accuracy": ("Accuracy at the source.", standing.source),
        "dropped": ("1 if the newest accuracy is below the source's or a gate.", int(dropped)),
    }
    if record:
        held = sum(item.covered for item in record) / len(record)
        error = sum(item.error for item in record) / len(record)
        facts["coverage"] = ("Fraction of labelled snapshots inside their interval.", held)
        facts["bias"] = ("Mean of estimated minus true accuracy, labelled snapshots.", error)
    for name, (help_text, value) in facts.items():
        lines += _metric(name, help_text, "gauge", {label: f"{value!r}"})
    for name, help_text, count in (
        ("snapshots_total", "Snapshots in the log.", len(standing.answers)),
        ("labelled_total", "Snapshots with late labels.", len(record)),
        ("changes_total", "Changes that raised an alarm.", len(standing.changes)),
        ("drops_total", "Drops that began.", sum(drop.begins for drop in standing.drops)),
    ):
        lines += _metric(name, help_text, "counter", {label: f"{count}"})
    for name, help_text, text in (
        ("unread_snapshots", "Snapshots that the last run could not measure.", f"{missed}"),
        (
            "last_run_timestamp_seconds",
            "When the last run ended, in seconds since 1970.",
            f"{ran_at:.3f}",
        ),
    ):
        lines += _metric(f"monitor_{name}", help_text, "gauge", {label: text})
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
