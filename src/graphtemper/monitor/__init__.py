"""Monitoring of a deployed model: a log, a page, and alarms with a stated false-alarm rate.

A `Watch` recalibrates snapshots of a graph, or of a model's logits, and keeps the answers. A *drop*
is reported at once where the accuracy has fallen below the source's or a gate; a *change* is a
slower one of any signal, found by a sequential test. Both have a stated probability of ever being
wrong; that of drops holds for dependent snapshots too. Labels of an earlier snapshot score its
answer, the card learns from them, and later snapshots are answered again.
"""

from graphtemper.monitor.log import Entry
from graphtemper.monitor.snapshots import Snapshot, windows
from graphtemper.monitor.standing import Standing
from graphtemper.monitor.watch import Watch

__all__ = ["Entry", "Snapshot", "Standing", "Watch", "windows"]
