"""The explorer's six sliders: names, symbols, bounds and steps."""

from __future__ import annotations

from dataclasses import dataclass

from graphtemper_research.explorer.readings import BOUNDS


@dataclass(frozen=True)
class Control:
    """One slider with its number field; ``key`` is its name in the address of the page."""

    name: str
    key: str
    symbol: str
    label: str
    step: float
    scale: str = "linear"

    @property
    def least(self) -> float:
        """The lowest value."""
        return BOUNDS[self.name].least

    @property
    def most(self) -> float:
        """The highest value."""
        return BOUNDS[self.name].most


CONTROLS = (
    Control("h_source", "h_s", "h_s", "Source homophily", 0.01),
    Control("h_target", "h_t", "h_t", "Target homophily", 0.01),
    Control("snr", "snr", "snr", "Signal-to-noise ratio", 0.01, "log"),
    Control("degree", "degree", "d", "Mean degree", 0.1, "log"),
    Control("gamma", "gamma", "γ", "Added noise variance", 0.1),
    Control("num_classes", "K", "K", "Classes (signal panel only)", 1),
)
