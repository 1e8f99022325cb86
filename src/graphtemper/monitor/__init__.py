"""Following a deployed model over time: one small log, one page, an alarm with a stated rate.

`follow` recalibrates snapshot after snapshot and appends what it finds to a `Log`; `changes` marks
where the series has changed, by a test that is wrong with at most a stated probability however long
it runs.
"""

from graphtemper.monitor.change import Change, changes, evidence
from graphtemper.monitor.gates import Gate
from graphtemper.monitor.log import Entry, Log
from graphtemper.monitor.prometheus import exposition
from graphtemper.monitor.snapshots import Snapshot, find_snapshots, windows
from graphtemper.monitor.watch import alarms, fingerprint, follow

__all__ = [
    "Change",
    "Entry",
    "Gate",
    "Log",
    "Snapshot",
    "alarms",
    "changes",
    "evidence",
    "exposition",
    "find_snapshots",
    "fingerprint",
    "follow",
    "windows",
]
