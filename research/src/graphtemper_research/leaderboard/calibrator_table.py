"""The registry as a Markdown table, for the documentation."""

from __future__ import annotations

from collections.abc import Mapping

from graphtemper.calibrators.base import Calibrator

_HEAD = (
    "| calibrator | published in | one scale per | needs | preserves argmax | torch "
    "| where it differs from what was published |\n| --- | --- | --- | --- | --- | --- | --- |"
)


def markdown_table(registry: Mapping[str, type[Calibrator]]) -> str:
    """Return one row per calibrator, from its class attributes.

    Examples
    --------
    >>> from graphtemper.calibrators import TemperatureScaling
    >>> print(markdown_table({"TS": TemperatureScaling}).splitlines()[-1])
    | `TS` | Guo et al., ICML 2017 | global | labels | yes |  | solved exactly; ... |
    """
    lines = [_HEAD]
    for name, method in registry.items():
        cells = (
            f"`{name}`",
            method.reference,
            method.granularity.replace("_", " and "),
            ", ".join(method.needs),
            "yes" if method.preserves_argmax else "no",
            "yes" if method.extra else "",
            method.differs,
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)
