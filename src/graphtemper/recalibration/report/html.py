"""Self-contained HTML pages that work from disk and fetch nothing.

Charts are drawn in the browser by Vega, whose bundle comes from the installed vl-convert package
and is written into the page. A content security policy in the page forbids every request, and every
script except the page's own two, by their hashes. Strings from files are escaped by the template,
and in the JSON blocks no character can end a script element.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
from collections.abc import Mapping
from functools import cache
from importlib import import_module, resources
from pathlib import Path
from typing import Any

from graphtemper import errors
from graphtemper._core.printable import printable
from graphtemper.errors import require


def render_page(
    template: str, script: str, blocks: Mapping[str, str], *, connect: str = "", **values: Any
) -> str:
    """Fill a template; the same arguments give the same bytes.

    Parameters
    ----------
    template
        Jinja2, which escapes every value.
    script
        The page's own script; only it and Vega may run.
    blocks
        Content that is not escaped, by name: JSON from `embeddable`, style sheets of this package.
    connect
        Where the page may send requests to. Default: nowhere.
    values
        Other variables of the template.
    """
    jinja, markup = require("report", "a report", "jinja2"), import_module("markupsafe").Markup
    library = vega_bundle()
    environment = jinja.Environment(
        autoescape=True,
        undefined=jinja.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        # Blocks of this package have a method __html__; everything else may come from a file.
        finalize=lambda value: value if hasattr(value, "__html__") else _printable(value),
    )
    environment.filters |= {"percent": _percent, "number": _number}
    page: str = environment.from_string(template).render(
        policy=_policy(library, script, connect=connect),
        style=markup(text_of("graphtemper.recalibration.report", "page.css")),
        library=markup(library),
        script=markup(script),
        **{name: markup(block) for name, block in blocks.items()},
        **values,
    )
    return page


def embeddable(value: Any) -> str:
    r"""Return JSON that is safe inside a script element.

    Examples
    --------
    >>> print(embeddable({"name": "</script>&"}))
    {"name":"\u003c/script\u003e\u0026"}
    """
    text = json.dumps(_printable(value), allow_nan=False, separators=(",", ":"))
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


def _printable(value: Any) -> Any:
    """Return a value whose strings hold no characters that reorder text or cannot be encoded."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, list | tuple):
        return [_printable(item) for item in value]
    if isinstance(value, dict):
        return {_printable(key): _printable(item) for key, item in value.items()}
    return value


def check_name(path: str | os.PathLike[str]) -> None:
    """Refuse a file whose name does not end as that of a page."""
    if Path(path).suffix.lower() not in (".html", ".htm"):
        raise errors.conflict(f"cannot write {path}; the report is an .html file.")


def check_extra() -> None:
    """Raise `MissingExtraError` if the packages that a page needs are not installed."""
    require("report", "a report", "jinja2", "vl_convert")


@cache
def vega_bundle() -> str:
    """Return Vega, Vega-Lite and Vega-Embed as one script for a page."""
    bundle: str = require("report", "a report", "vl_convert").javascript_bundle()
    # A browser reads line ends as \n before it hashes a script, and ends one at the first "</".
    return bundle.replace("\r\n", "\n").replace("\r", "\n").replace("</script", "<\\/script")


def text_of(package: str, name: str) -> str:
    """Return a text file that belongs to a package."""
    return resources.files(package).joinpath(name).read_text("utf-8")


def _policy(*scripts: str, connect: str) -> str:
    hashes = (base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()) for text in scripts)
    allowed = " ".join(f"'sha256-{value.decode('ascii')}'" for value in hashes)
    requests = f"connect-src {connect}; " if connect else ""
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data:; "
        f"{requests}base-uri 'none'; form-action 'none'"
    )


def _percent(value: float | None, digits: int = 1) -> str:
    return "–" if value is None else f"{value:.{digits}%}"


def _number(value: float | None, form: str = ".3g") -> str:
    return "–" if value is None else format(value, form)
