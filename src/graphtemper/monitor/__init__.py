"""Monitoring of a deployed model: a log, a page, and alarms with a stated false-alarm rate.

`follow` recalibrates snapshots of a graph and appends the results to a `Log`; `follow_logits` does
the same with stored logits. `alarms` reports changes by a sequential test, whose probability of
ever raising a false alarm is at most the stated one, provided that snapshots are exchangeable
while nothing changes.
"""

from graphtemper.monitor.change import Change, capital, changes
from graphtemper.monitor.entry import Entry, Missed
from graphtemper.monitor.gates import Gate
from graphtemper.monitor.log import Log
from graphtemper.monitor.logit_snapshots import LogitSnapshot, find_logits
from graphtemper.monitor.prometheus import exposition
from graphtemper.monitor.snapshots import Snapshot, find_snapshots, windows
from graphtemper.monitor.watch import alarms, check_model, fingerprint, follow, follow_logits
from graphtemper.scale.logits.logit_files import LogitArray

__all__ = [
    "Change",
    "Entry",
    "Gate",
    "Log",
    "LogitArray",
    "LogitSnapshot",
    "Missed",
    "Snapshot",
    "alarms",
    "capital",
    "changes",
    "check_model",
    "exposition",
    "find_logits",
    "find_snapshots",
    "fingerprint",
    "follow",
    "follow_logits",
    "windows",
]
