"""`graphtemper monitor`: a deployed model over time."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from graphtemper.cli import result_file
from graphtemper.cli.output import STYLES, Json, print_json, print_rows, progress, say, tell
from graphtemper.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphtemper.monitor import Change, Entry, Gate, Snapshot

CLOSED = 3
"""Exit code where a gate is closed; bad input has 2, so that the two are told apart."""


def monitor(
    *snapshots: str,
    card: Path,
    predict: str,
    log: Path = Path("monitor.sqlite"),
    page: Path | None = None,
    prometheus: Path | None = None,
    fail_on: Annotated[list[str], Parameter(negative="")] | None = None,
    windows: int | None = None,
    false_alarms: float = 0.01,
    seed: int = 0,
    as_json: Json = False,
) -> None:
    """Follow a model over snapshots of its graph: a log, a page, alarms, and gates for cron jobs.

    Snapshots that are in the log already are not measured again. Exits with 3 where a gate closes
    on the newest snapshot; change closes on an alarm at any snapshot that the run has added.

    Parameters
    ----------
    snapshots
        Graphs (.npz) or folders of them, taken in order of their names; with --windows one graph.
    card
        The model's source card.
    predict
        The model: package.module:callable (the predictor itself), or a saved model (.npz).
    log
        Append-only record, SQLite; made where there is none.
    page
        An .html page with the time lines, drawn again each time; needs the extra [report].
    prometheus
        A text file with the newest numbers for Prometheus.
    fail_on
        A gate: abstain, caution, change, or a comparison such as "accuracy<0.8"; may be repeated.
    windows
        Cut one graph whose nodes have times into so many spans, and take each as a snapshot. The
        graph grows from span to span, which alone can raise an alarm.
    false_alarms
        The probability that a watch over an unchanging series ever raises an alarm, at most.
    seed
        Seed of the perturbed passes.
    as_json
        Print JSON for machines.
    """
    from graphtemper import SourceCard
    from graphtemper.files import atomic_write
    from graphtemper.monitor import Gate, Log, alarms, exposition, fingerprint, follow
    from graphtemper.predictors import resolve

    gates = [Gate.parse(text) for text in fail_on or ()]
    if page is not None:
        result_file.check_report(page)
    source = SourceCard.load(card)
    predictor = resolve(predict)
    shots = _snapshots(snapshots, windows)
    book = Log(log, fingerprint(source))
    if windows is not None:
        _check_spans(shots, book.entries())
    added: list[Entry] = []
    try:
        with progress(as_json) as show:
            for entry in follow(predictor, source, shots, book, seed):
                added.append(entry)
                show("snapshots", len(added), len(shots))
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            f"interrupted; {len(added)} snapshots were added to {log}: run the same command again "
            "to go on."
        ) from None
    entries = book.entries()
    changed = alarms(entries, false_alarms, seed)
    newest = entries[-1]
    if page is not None:
        from graphtemper.monitor.page import write_page

        write_page(page, entries, changed, source.predictor, false_alarms)
    if prometheus is not None:
        with atomic_write(prometheus) as stream:
            stream.write(exposition(newest, len(entries), len(changed)).encode())
    closed = _closed(gates, entries, changed, len(added))
    if as_json:
        print_json(_facts(entries, added, changed, closed))
    else:
        _print(entries, added, changed, closed)
        for path in (log, page, prometheus):
            if path is not None:
                say(f"Written: {path}")
    if closed:
        sys.exit(CLOSED)


def _snapshots(given: tuple[str, ...], count: int | None) -> list[Snapshot]:
    from graphtemper.monitor import find_snapshots, windows
    from graphtemper.predictors import load_graph

    if count is None:
        return find_snapshots(given)
    if len(given) != 1:
        raise InputError(f"--windows takes one graph with times, not {len(given)}.")
    return list(windows(load_graph(given[0]), count))


def _check_spans(shots: list[Snapshot], entries: Sequence[Entry]) -> None:
    known = {shot.name for shot in shots}
    moved = next((entry.name for entry in entries if entry.name not in known), None)
    if moved is not None:
        raise InputError(
            f"the log has the span {moved}, which this graph is not cut into; begin a new log for "
            "other spans."
        )


def _closed(
    gates: list[Gate], entries: Sequence[Entry], changed: Sequence[Change], added: int
) -> list[str]:
    # A run may add several snapshots; an alarm at any of them is news.
    first_new = len(entries) - max(added, 1)
    alarmed = bool(changed) and changed[-1].position >= first_new
    return [gate.text for gate in gates if gate.closes(entries[-1], alarmed)]


def _facts(
    entries: Sequence[Entry],
    added: Sequence[Entry],
    changed: Sequence[Change],
    closed: list[str],
) -> dict[str, Any]:
    return {
        "snapshots": len(entries),
        "added": [entry.name for entry in added],
        "newest": entries[-1].to_dict(),
        "alarms": [
            {"snapshot": entries[alarm.position].name, **alarm._asdict()} for alarm in changed
        ],
        "closed": closed,
    }


def _print(
    entries: Sequence[Entry],
    added: Sequence[Entry],
    changed: Sequence[Change],
    closed: list[str],
) -> None:
    newest = entries[-1]
    tell(f"Newest verdict: {newest.verdict}", STYLES[newest.verdict])
    print_rows(
        {
            "Snapshot": f"{newest.name}, number {len(entries)} of the log ({len(added)} new)",
            "Accuracy": f"{newest.accuracy:.1%} (90 % interval {newest.low:.1%} to "
            f"{newest.high:.1%})",
            "Temperature": f"{newest.temperature:.3g}",
            "Alarms": ", ".join(entries[alarm.position].name for alarm in changed) or "none",
        }
    )
    for text in closed:
        tell(f"Gate closed: {text}", "bold red")
