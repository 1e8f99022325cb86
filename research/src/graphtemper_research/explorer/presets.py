"""States of the explorer named after the paper's figures.

Figures that are measured on block models give their own settings. Those on real graphs give a
homophily, a number of classes and a noise level, which the theory reads as a balanced graph with
snr 1 and gamma = level^2. Figure 3 is a flow chart and has nothing to set.
"""

from __future__ import annotations

from typing import NamedTuple

from graphtemper_research.explorer.readings import State


class Preset(NamedTuple):
    """One entry of the list: which figure, what to look at, and where the sliders go."""

    name: str
    title: str
    note: str
    state: State


PRESETS = (
    Preset(
        "fig1",
        "Fig. 1: the calibration slope",
        "Slope one half: accuracy rises half as fast as confidence.",
        State(h_source=0.8, h_target=0.657, snr=0.2, degree=60),
    ),
    Preset(
        "fig2",
        "Fig. 2: overview",
        "Fewer neighbours of the own class on the target, everything else unchanged.",
        State(h_source=0.8, h_target=0.65, snr=1, degree=20),
    ),
    Preset(
        "fig4",
        "Fig. 4: why homophily controls calibration",
        "Three of six neighbours share the class: with two classes nothing is left, with three a "
        "quarter of the signal is.",
        State(h_source=0.8, h_target=0.5, snr=1, degree=6, num_classes=3),
    ),
    Preset(
        "fig5-low",
        "Fig. 5: Theorem 1, the over-confident end",
        "The lowest homophily of the figure.",
        State(h_source=0.8, h_target=0.55, snr=1, degree=25),
    ),
    Preset(
        "fig5-high",
        "Fig. 5: Theorem 1, the under-confident end",
        "The highest homophily of the figure.",
        State(h_source=0.8, h_target=0.9, snr=1, degree=25),
    ),
    Preset(
        "fig6-left",
        "Fig. 6, left: self-loops",
        "A self-loop keeps some signal where neighbours have lost theirs.",
        State(h_source=0.8, h_target=0.55, snr=1, degree=20),
    ),
    Preset(
        "fig6-right",
        "Fig. 6, right: five classes",
        "The signal coefficient of five classes at the lowest homophily of the figure, 1/5.",
        State(h_source=0.8, h_target=0.2, snr=1, degree=25, num_classes=5),
    ),
    Preset(
        "fig7",
        "Fig. 7: the bound",
        "Near the source the bound is small, and still several times the exact error.",
        State(h_source=0.8, h_target=0.75, snr=1, degree=25),
    ),
    Preset(
        "fig8",
        "Fig. 8: the optimal temperature",
        "The hottest corner of the grid.",
        State(h_source=0.75, h_target=0.57, snr=2, degree=16),
    ),
    Preset(
        "fig9",
        "Fig. 9: mechanism",
        "Three classes, homophily 5/6, snr 0.16 and noise 1.4 added to 2.5: the strongest feature "
        "shift of the figure as the theory sees it.",
        State(h_source=0.833, h_target=0.833, snr=0.16, degree=8, num_classes=3, gamma=0.314),
    ),
    Preset(
        "fig10",
        "Fig. 10: real graphs under feature noise",
        "A balanced graph with minesweeper's homophily and degree, noise level 1, snr 1 assumed.",
        State(h_source=0.68, h_target=0.68, snr=1, degree=7.9, gamma=1),
    ),
    Preset(
        "fig11",
        "Fig. 11: growing feature noise",
        "A balanced graph with minesweeper's homophily and degree, noise level 3, snr 1 assumed.",
        State(h_source=0.68, h_target=0.68, snr=1, degree=7.9, gamma=9),
    ),
    Preset(
        "fig12",
        "Fig. 12: rewiring",
        "A balanced graph with minesweeper's homophily and degree, three quarters of its edges "
        "with a random end, snr 1 assumed.",
        State(h_source=0.68, h_target=0.545, snr=1, degree=7.9),
    ),
)
