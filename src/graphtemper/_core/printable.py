"""Names as people read them: harmless on terminals, pages and in tables; in order of numbers."""

from __future__ import annotations

import re

# Control characters but line feed and tab, lone surrogates, and characters that reorder or hide
# text: terminals act upon the first, encoders fail on the second, readers are misled by the third.
_HARMFUL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f"
    "\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
)


def printable(text: str) -> str:
    r"""Return text in which harmful characters are written as escapes.

    Examples
    --------
    >>> print(printable("day\x1b[2J \u202egpj"))
    day\x1b[2J \u202egpj
    """
    return _HARMFUL.sub(_escaped, text)


def _escaped(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode("ascii")


def natural_key(name: str) -> list[tuple[int, str]]:
    """Return a sort key that compares digits as numbers.

    Examples
    --------
    >>> sorted(["day10", "day2"], key=natural_key), natural_key("1.10") > natural_key("1.9")
    (['day2', 'day10'], True)
    """
    parts = re.findall(r"\d+|\D+", name)
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in parts]


def temperature_text(value: float, digits: int = 3) -> str:
    """Return a temperature as people read it, by a bound where only its side means anything.

    Examples
    --------
    >>> [temperature_text(value) for value in (1.2345, 3e7, 0.0004)]
    ['1.23', 'above 100', 'below 0.01']
    """
    if value > 100.0:
        return "above 100"
    return f"{value:.{digits}g}" if value >= 0.01 else "below 0.01"
