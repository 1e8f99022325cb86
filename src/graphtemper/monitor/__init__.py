"""Monitoring of a deployed model: a log, a page, and alarms with a stated false-alarm rate.

`follow` recalibrates snapshots of a graph, or of a model's logits, and appends the answers to a
`Log`. `drops` reports at once where the accuracy has fallen below the source's or a gate; `alarms`
reports slower changes of any signal by a sequential test. Both have a stated probability of ever
being wrong; that of `drops` holds for dependent snapshots too. `add_labels` takes labels of an
earlier snapshot: they score its answer (`track_record`), the card learns from them, and later
snapshots are answered again.
"""

from graphtemper.monitor.change import Change, alarms
from graphtemper.monitor.drop import Drop, drops, limits_of
from graphtemper.monitor.late_labels import LateLabels, add_labels
from graphtemper.monitor.log import Entry, Labelled, Log, Missed
from graphtemper.monitor.page import write_page
from graphtemper.monitor.prometheus import exposition
from graphtemper.monitor.snapshots import Snapshot, find_logits, find_snapshots, windows
from graphtemper.monitor.standing import Standing, read_log
from graphtemper.monitor.track_record import Scored, track_record
from graphtemper.monitor.watch import fingerprint, follow
from graphtemper.scale.logits.logit_tables import LogitArray

__all__ = [
    "Change",
    "Drop",
    "Entry",
    "Labelled",
    "LateLabels",
    "Log",
    "LogitArray",
    "Missed",
    "Scored",
    "Snapshot",
    "Standing",
    "add_labels",
    "alarms",
    "drops",
    "exposition",
    "find_logits",
    "find_snapshots",
    "fingerprint",
    "follow",
    "limits_of",
    "read_log",
    "track_record",
    "windows",
    "write_page",
]
