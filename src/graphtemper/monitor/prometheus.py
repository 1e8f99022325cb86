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
        Where the watch stands.
    ran_at
        End of this run, in seconds since 1970. A run that fails leaves the file as it is, so
        ``time() - graphtemper_monitor_last_run_timestamp_seconds`` shows a watch that has stopped.
    missed
        Number of snapshots that this run could not measure.
    watch
        The label that distinguishes several watched models.
    """
    entry, record, label = standing.newest, standing.record, f'watch="{_escape(watch)}"'
    count, labelled = len(standing.answers), len(record)
    dropped = any(drop.position == count - 1 for drop in standing.drops)
    verdicts: dict[str, float] = {
        f',verdict="{word}"': int(entry.verdict == word) for word in VERDICTS
    }
    info: dict[str, float] = {f',snapshot="{_escape(entry.name)}"': 1}
    # What each metric is, and its value or its values by another label.
    table: dict[str, tuple[str, float | dict[str, float]]] = {
        "accuracy": ("Estimated accuracy of the model on the newest snapshot.", entry.accuracy),
        "accuracy_low": ("Lower end of the 90 % interval of the accuracy.", entry.low),
        "accuracy_high": ("Upper end of the 90 % interval of the accuracy.", entry.high),
        "confidence": ("Mean confidence before recalibration.", entry.confidence),
        "num_nodes": ("Nodes of the newest snapshot.", entry.num_nodes),
        "verdict": ("1 for the verdict on the newest snapshot.", verdicts),
        "snapshot_info": ("1, with the name of the newest snapshot.", info),
        "source_accuracy": ("Accuracy at the source.", standing.source),
        "dropped": ("1 if the newest accuracy is below the source's or a gate.", int(dropped)),
        "snapshots_total": ("Snapshots in the log.", count),
        "labelled_total": ("Snapshots with late labels.", labelled),
        "changes_total": ("Changes that raised an alarm.", len(standing.changes)),
        "drops_total": ("Drops that began.", sum(drop.begins for drop in standing.drops)),
        "monitor_unread_snapshots": ("Snapshots that the last run could not measure.", missed),
        "monitor_last_run_timestamp_seconds": ("When the last run ended.", round(ran_at, 3)),
    }
    if entry.settled:
        table["temperature"] = (
            "Temperature that makes the probabilities honest.",
            entry.temperature,
        )
        table["slope"] = ("Slope of accuracy against confidence, in logits.", entry.slope)
    for name, value in entry.metrics.items():
        for end, key in ((name, "value"), (f"{name}_low", "low"), (f"{name}_high", "high")):
            table[end] = (f"Estimated {name.replace('_', ' ')} of decisions: {key}.", value[key])
    if record:
        held, bias = (sum(getattr(one, key) for one in record) for key in ("covered", "error"))
        table["coverage"] = ("Fraction of labelled snapshots in their interval.", held / labelled)
        table["bias"] = ("Mean of estimated minus true accuracy.", bias / labelled)
    lines: list[str] = []
    for name, (about, shown) in table.items():
        kind = "counter" if name.endswith("_total") else "gauge"
        lines += [f"# HELP graphtemper_{name} {about}", f"# TYPE graphtemper_{name} {kind}"]
        values = shown if isinstance(shown, dict) else {"": shown}
        lines += [f"graphtemper_{name}{{{label}{more}}} {one!r}" for more, one in values.items()]
    return "\n".join(lines) + "\n"


def _escape(text: str) -> str:
    """Return the value of a label as the text format requires."""
    # The name of a file may hold bytes that are not UTF-8.
    valid = text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return valid.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
