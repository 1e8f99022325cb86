"""Following a deployed model over time: one small log, one page, an alarm with a stated rate.

`follow` recalibrates one snapshot of the graph after the other and appends what it finds to a
`Log`; `follow_logits` does so with logits that a model left elsewhere. `changes` marks where the
series has changed, by a test that is wrong with at most a stated probability however long it runs,
provided that the order of snapshots says nothing while nothing changes.
"""

from graphtemper.monitor.change import Change, capital, changes
from graphtemper.monitor.entry import Entry, Missed
from graphtemper.monitor.gates import Gate
from graphtemper.monitor.log import Log
from graphtemper.monitor.logit_snapshots import LogitArray, LogitSnapshot, find_logits
from graphtemper.monitor.prometheus import exposition
from graphtemper.monitor.snapshots import Snapshot, find_snapshots, windows
from graphtemper.monitor.watch import alarms, check_model, fingerprint, follow, follow_logits

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
