"""Texts and numbers for pages of HTML."""

from __future__ import annotations

import json
from importlib import resources
from typing import Any


def embeddable(value: Any) -> str:
    r"""Return JSON that is safe inside a script element.

    Examples
    --------
    >>> print(embeddable({"name": "</script>&"}))
    {"name":"\u003c/script\u003e\u0026"}
    """
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


def text_of(package: str, name: str) -> str:
    """Return a text file that belongs to a package."""
    return resources.files(package).joinpath(name).read_text("utf-8")
