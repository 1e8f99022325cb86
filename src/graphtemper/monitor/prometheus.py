"""The newest snapshot in the text format of Prometheus."""

from __future__ import annotations

from graphtemper.monitor.log import VERDICTS
from graphtemper.monitor.standing import Standing


def exposition(standing: Standing, ran_at: float, missed: int = 0, watch: str = "monitor") -> str:
    """Return gauges of the newest answer, counters of the log, and the time of the run.

    Temperature and slope have no sample if the verdict is ``abstain``, and coverage and error have
    none without late labels.

    Parameters
    ----------
    standing
        The log (`graphtemper.monitor.read_log`).
    ran_at
        End of this run, in seconds since 1970. A run that fails leaves the file as it is, so
        ``time() - graphtemper_monitor_last_run_timestamp_seconds`` shows a watch that has stopped.
    missed
        Number of snapshots that this run could not measure.
    watch
        The label that distinguishes several watched models.
    """
    entry, record, label = standing.newest, standing.record, f'watch="{_escape(watch)}"'
    lines: list[str] = []

    def add(name: str, help_text: str, value: float, more: str = "") -> None:
        metric = f"graphtemper_{name}"
        kind = "counter" if name.endswith("_total") else "gauge"
        head = [f"# HELP {metric} {help_text}", f"# TYPE {metric} {kind}"]
        lines.extend(
            [*(head if head[0] not in lines else []), f"{metric}{{{label}{more}}} {value!r}"]
        )

    add("accuracy", "Estimated accuracy of the model on the newest snapshot.", entry.accuracy)
    add("accuracy_low", "Lower end of the 90 % interval of the accuracy.", entry.low)
    add("accuracy_high", "Upper end of the 90 % interval of the accuracy.", entry.high)
    add("confidence", "Mean confidence before recalibration.", entry.confidence)
    add("num_nodes", "Nodes of the newest snapshot.", entry.num_nodes)
    if entry.settled:
        add("temperature", "Temperature that makes the probabilities honest.", entry.temperature)
        add("slope", "Slope of accuracy against confidence on the scale of logits.", entry.slope)
    for word in VERDICTS:
        chosen = int(entry.verdict == word)
        add("verdict", "1 for the verdict on the newest snapshot.", chosen, f',verdict="{word}"')
    name = f',snapshot="{_escape(entry.name)}"'
    add("snapshot_info", "1, with the name of the newest snapshot.", 1, name)
    for name, value in entry.metrics.items():
        for end, key in ((name, "value"), (f"{name}_low", "low"), (f"{name}_high", "high")):
            add(end, f"Estimated {name.replace('_', ' ')} of decisions: {key}.", value[key])
    add("source_accuracy", "Accuracy at the source.", standing.source)
    dropped = any(drop.position == len(standing.answers) - 1 for drop in standing.drops)
    add("dropped", "1 if the newest accuracy is below the source's or a gate.", int(dropped))
    if record:
        held = sum(item.covered for item in record) / len(record)
        bias = sum(item.error for item in record) / len(record)
        add("coverage", "Fraction of labelled snapshots inside their interval.", held)
        add("bias", "Mean of estimated minus true accuracy, labelled snapshots.", bias)
    add("snapshots_total", "Snapshots in the log.", len(standing.answers))
    add("labelled_total", "Snapshots with late labels.", len(record))
    add("changes_total", "Changes that raised an alarm.", len(standing.changes))
    add("drops_total", "Drops that began.", sum(drop.begins for drop in standing.drops))
    add("monitor_unread_snapshots", "Snapshots that the last run could not measure.", missed)
    ended = round(ran_at, 3)
    add("monitor_last_run_timestamp_seconds", "When the last run ended, since 1970.", ended)
    return "\n".join(lines) + "\n"


def _escape(text: str) -> str:
    """Return the value of a label as the text format requires."""
    # The name of a file may hold bytes that are not UTF-8.
    valid = text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return valid.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
