"""What `graphtemper monitor` prints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from graphtemper._core.printable import temperature_text
from graphtemper.cli.output import (
    STYLES,
    print_json,
    print_line,
    print_reasons,
    print_rows,
    print_sentence,
)

if TYPE_CHECKING:
    from graphtemper.monitor import Entry, Standing
    from graphtemper.monitor.log import Missed
    from graphtemper.monitor.watch import LateLabels


class Run(NamedTuple):
    """What a run added to the log, what it could not measure, and the labels that it took."""

    added: list[Entry]
    missed: Sequence[Missed]
    late: LateLabels | None = None


def print_facts(standing: Standing, run: Run, closed: Mapping[str, str], kind: str) -> None:
    """Print JSON; its fields are described in docs/howto/monitoring_reference.md."""
    facts: dict[str, Any] = {
        "snapshots": len(standing.answers),
        "source_accuracy": standing.source,
        "added": [entry.name for entry in run.added],
        "missed": [missed._asdict() for missed in run.missed],
        "newest": asdict(standing.newest),
        "alarms": _alarms(standing),
        "track_record": [scored.to_dict() for scored in standing.record],
        "closed": dict(closed),
        "false_drops": standing.false_drops,
        "false_alarms": standing.false_alarms,
        "alarm_every": standing.every,
        "kind": kind,
    }
    if run.late is not None:
        facts["labels"] = run.late.scored.to_dict() | {
            "answered_again": [asdict(entry) for entry in run.late.answered],
            "unanswered": [missed._asdict() for missed in run.late.unanswered],
        }
    print_json(facts)


def print_outcome(standing: Standing, run: Run, written: Sequence[Path | None]) -> None:
    """Print the newest verdict with its reasons, alarms, and what the run did."""
    from graphtemper._core.estimate import Estimate
    from graphtemper.monitor.record import summary
    from graphtemper.recalibration.decisions.metrics import in_words, title

    if run.late is not None:
        _print_late(run.late)
    newest, turned_out = standing.newest, summary(standing.record)
    alarms = [
        (f"drop below {one['below']}" if one["kind"] == "drop" else "change")
        + f" at {one['snapshot']}"
        + ", found later" * one.get("late", False)
        for one in _alarms(standing)
    ]
    note = "" if newest.settled else ", that of the source, which is kept"
    print_sentence(f"Newest verdict: {newest.verdict}", STYLES[newest.verdict])
    print_sentence(standing.headline())
    print_rows(
        {
            "Snapshot": f"{newest.name}, number {len(standing.answers)} of the log",
            "New": f"{len(run.added)}",
            **{
                title(name, newest.asked.get("k")): in_words(
                    Estimate(value["value"], value["low"], value["high"], "decisions")
                )
                for name, value in newest.metrics.items()
            },
            "Accuracy": f"{newest.accuracy_in_words}; {standing.source:.1%} at the source",
            "Temperature": f"{temperature_text(newest.temperature)}{note}",
            "Alarms": "; ".join(alarms) or "none",
        }
    )
    print_reasons([*newest.reasons, *([turned_out] if turned_out else [])])
    for missed in run.missed:
        print_sentence(f"Not measured: {missed.name}: {missed.reason}", "bold red")
    if run.missed:
        print_line(
            "It stays in the exit code until it is measured, or left out with --forget NAME."
        )
    for path in written:
        if path is not None:
            print_line(f"Written: {path}")


def _alarms(standing: Standing) -> list[dict[str, Any]]:
    """Return changes and the beginnings of drops, oldest first."""
    found = [{"kind": "change", **change._asdict()} for change in standing.changes]
    found += [{"kind": "drop", **drop._asdict()} for drop in standing.drops if drop.begins]
    for alarm in found:
        alarm["snapshot"] = standing.answers[alarm["position"]].name
    return sorted(found, key=lambda alarm: alarm["position"])


def _print_late(late: LateLabels) -> None:
    scored = late.scored
    first, labelled = scored.first, scored.labelled
    error = f" ± {1.645 * labelled.deviation:.1%}" if labelled.deviation else ""
    held = "inside" if scored.covered else "outside"
    print_sentence(f"Labels of {first.name}", "bold")
    print_rows(
        {
            "True accuracy": f"{labelled.accuracy:.1%}{error} ({labelled.num_labels} labels)",
            "Answered": f"{first.accuracy_in_words}: the truth is {held}",
            "ECE": f"{labelled.ece_before:.3f} at the source temperature, {labelled.ece_after:.3f} "
            "as answered",
            "Answered again": f"{len(late.answered)} later snapshots",
        }
    )
    for missed in late.unanswered:
        print_sentence(f"Not answered again: {missed.name}: {missed.reason}", "bold red")
