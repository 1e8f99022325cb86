"""Monitoring of a deployed model: a log, a page, and alarms with a stated false-alarm rate.

`follow` recalibrates snapshots of a graph and appends the results to a `Log`; `follow_logits` does
the same with stored logits. `drops` reports at once where the accuracy has fallen below the
source's or a gate; `alarms` reports slower changes of any signal by a sequential test. Both have a
stated probability of ever being wrong; that of `drops` holds for dependent snapshots too.
`add_labels` takes labels of an earlier snapshot: they score its answer (`track_record`), the card
learns from them, and later snapshots are answered again.
"""

from graphtemper.monitor.change import Change, capital, changes
from graphtemper.monitor.drop import Drop, drops, limits_of
from graphtemper.monitor.entry import Entry, Labelled, Missed
from graphtemper.monitor.gates import Gate
from graphtemper.monitor.late_labels import LateLabels, add_labels
from graphtemper.monitor.log import Log
from graphtemper.monitor.logit_snapshots import LogitSnapshot, find_logits
from graphtemper.monitor.prometheus import exposition
from graphtemper.monitor.snapshots import Snapshot, find_snapshots, windows
from graphtemper.monitor.track_record import Scored, track_record
from graphtemper.monitor.watch import (
    alarms,
    check_model,
    current_card,
    fingerprint,
    follow,
    follow_logits,
)
from graphtemper.scale.logits.logit_files import LogitArray

__all__ = [
    "Change",
    "Drop",
    "Entry",
    "Gate",
    "Labelled",
    "LateLabels",
    "Log",
    "LogitArray",
    "LogitSnapshot",
    "Missed",
    "Scored",
    "Snapshot",
    "add_labels",
    "alarms",
    "capital",
    "changes",
    "check_model",
    "current_card",
    "drops",
    "exposition",
    "find_logits",
    "find_snapshots",
    "fingerprint",
    "follow",
    "follow_logits",
    "limits_of",
    "track_record",
    "windows",
]
