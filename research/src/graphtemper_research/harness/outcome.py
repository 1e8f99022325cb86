"""The outcome of an experiment: published next to measured, a table, a picture."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from graphtemper import errors
from graphtemper.errors import FileError
from graphtemper_research.harness import provenance
from graphtemper_research.harness.frame import Row

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SCHEMA = "graphtemper.outcome/1"
MET = {True: "yes", False: "**no**", None: "-"}
REPORTED = "reported"


@dataclass(frozen=True)
class Comparison:
    """One claim: what was published, what was measured, and whether the stated bar is met.

    ``met`` is None where there is no bar and the number is only reported. ``published`` is what the
    paper prints; ``script`` is what its authors' released script gives where the paper is silent.
    """

    quantity: str
    measured: float
    bar: str
    met: bool | None
    published: float | str | None = None
    spread: float | None = None
    note: str = ""
    script: float | str | None = None


def reported(
    quantity: str,
    measured: float,
    note: str = "",
    *,
    published: float | str | None = None,
    spread: float | None = None,
) -> Comparison:
    """Return a number without a bar."""
    return Comparison(quantity, measured, REPORTED, None, published, spread, note)


def at_most(
    quantity: str, measured: float, limit: float, note: str = "", *, bar: str = ""
) -> Comparison:
    """Return a number that must not exceed a limit; ``bar`` says it in other words.

    Examples
    --------
    >>> at_most("NLL regret", 0.003, 0.004).met, at_most("ECE", float("nan"), 0.1).met
    (True, None)
    """
    return Comparison(
        quantity, measured, bar or f"<= {limit:g}", _met(measured <= limit, measured), note=note
    )


def at_least(quantity: str, measured: float, limit: float, note: str = "") -> Comparison:
    """Return a number that must reach a limit.

    Examples
    --------
    >>> at_least("coverage", 0.85, 0.9).bar, at_least("coverage", 0.85, 0.9).met
    ('>= 0.9', False)
    """
    return Comparison(
        quantity, measured, f">= {limit:g}", _met(measured >= limit, measured), note=note
    )


def between(
    quantity: str, measured: float, limits: tuple[float, float], note: str = ""
) -> Comparison:
    """Return a number that must lie between two limits.

    Examples
    --------
    >>> between("coverage", 0.93, (0.85, 0.97)).met
    True
    """
    low, high = limits
    met = _met(low <= measured <= high, measured)
    return Comparison(quantity, measured, f"{low:g} to {high:g}", met, note=note)


def _met(met: bool, measured: float) -> bool | None:
    return None if np.isnan(measured) else bool(met)


def prefixed(prefix: str, comparisons: Iterable[Comparison]) -> list[Comparison]:
    """Return the comparisons with a prefix before every quantity.

    Examples
    --------
    >>> prefixed("SIGN: ", [reported("mean ECE", 0.1)])[0].quantity
    'SIGN: mean ECE'
    """
    return [replace(item, quantity=prefix + item.quantity) for item in comparisons]


@dataclass(frozen=True)
class Outcome:
    """The numbers of one figure or table, and how to draw them."""

    name: str
    title: str
    settings: Mapping[str, Any]
    comparisons: Sequence[Comparison]
    rows: Sequence[Row]
    draw: Callable[[Figure], None] | None = field(repr=False)
    size: tuple[float, float] = (7.0, 3.2)
    measured: Mapping[str, Any] = field(default_factory=dict)
    """Who measured it (`graphtemper_research.harness.provenance.stamp`)."""

    def to_dict(self) -> dict[str, Any]:
        """Return everything but the picture as plain Python values."""
        return {
            "schema": SCHEMA,
            "name": self.name,
            "title": self.title,
            "measured": dict(self.measured),
            "settings": _plain(dict(self.settings)),
            "comparisons": [_plain(asdict(item)) for item in self.comparisons],
            "rows": [_plain(dict(row)) for row in self.rows],
        }

    def write(self, folder: Path) -> list[Path]:
        """Write ``name.json``, and ``name.png`` if drawn; return their paths."""
        from graphtemper_research.harness.style import draw

        paths = [folder / f"{self.name}.json"]
        write_text(paths[0], provenance.text(self.to_dict()))
        if self.draw is not None:
            paths.append(folder / f"{self.name}.png")
            draw(paths[-1], self.draw, width=self.size[0], height=self.size[1])
        return paths


def read_outcome(path: Path) -> dict[str, Any]:
    """Read an outcome's JSON; a damaged or foreign file is named in one sentence."""
    try:
        content = provenance.load(path)
        if content["schema"] != SCHEMA:
            raise KeyError("schema")
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise _foreign(path) from error
    return content


def _foreign(path: Path) -> FileError:
    return errors.damaged(
        f"{path} is not an outcome of `graphtemper paper`; delete it and run again."
    )


def write_text(path: Path, text: str) -> None:
    """Write UTF-8 text atomically, in a folder that is made if it does not exist."""
    part = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part.write_text(text, "utf-8")
        part.replace(path)
    except OSError as error:
        with suppress(OSError):
            part.unlink()
        raise errors.write(f"cannot write {path}: {error.strerror or error}.") from error


def render_results(folder: Path, order: Iterable[str], link: str = "") -> str:
    """Return the Markdown tables of every outcome in ``folder``.

    ``link`` is the folder as seen from the Markdown file.
    """
    paths = [folder / f"{name}.json" for name in order if (folder / f"{name}.json").is_file()]
    lines = [
        "# Results",
        "",
        "Generated by `graphtemper paper`; do not edit. Every number comes from the code at a",
        "fixed seed. *Published* is what the paper prints; *authors' script* is what the released",
        "script gives where the paper prints nothing. *Spread* is one standard deviation over",
        "seeds unless the note says otherwise. A bar that is not met is shown as not met.",
        "",
    ]
    for path in paths:
        try:
            lines += _section(read_outcome(path), link)
        except (KeyError, TypeError, AttributeError, RecursionError) as error:
            raise _foreign(path) from error
    return "\n".join(lines)


def made_by(outcome: Mapping[str, Any]) -> str:
    """Return a sentence that names the code of a result, from what its JSON file holds.

    Examples
    --------
    >>> made_by({"measured": provenance.stamp("graphtemper paper slope")}).split(" (")[0]
    'Measured at 0.2.0'
    """
    return f"{str(provenance.Measured(**outcome['measured'])).capitalize()}."


def _section(outcome: Mapping[str, Any], link: str) -> list[str]:
    settings = ", ".join(f"{key} {_short(value)}" for key, value in outcome["settings"].items())
    lines = [
        f"## {outcome['title']}",
        "",
        f"`graphtemper paper {outcome['name']}`: {settings}. {made_by(outcome)}",
        "",
        f"![{outcome['title']}]({link}{outcome['name']}.png)",
        "",
        "| quantity | published | authors' script | measured | spread | bar | met |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for item in outcome["comparisons"]:
        note = f"<br>*{item['note']}*" if item["note"] else ""
        lines.append(
            f"| {_cell(item['quantity'] + note)} | {_short(item['published'])} | "
            f"{_short(item.get('script'))} | "
            f"{_short(item['measured'])} | {_short(item['spread'])} | {item['bar']} | "
            f"{MET[item['met']]} |"
        )
    return [*lines, ""]


def _plain(value: Any) -> Any:
    """Convert NumPy values to Python's and round floats to what the seeds support."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, np.ndarray)):
        return [_plain(item) for item in value]
    if isinstance(value, np.bool_):
        return bool(value)
    if isinstance(value, np.integer):
        return int(value)
    if isinstance(value, (float, np.floating)):
        return float(f"{float(value):.6g}") if np.isfinite(value) else None
    return value


def _cell(text: str) -> str:
    """Escape what would end a Markdown table cell."""
    return text.replace("|", "\\|")


def _short(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, list):
        return "{" + ", ".join(_short(item) for item in value) + "}"
    return f"{value:.3g}" if isinstance(value, float) else str(value)
