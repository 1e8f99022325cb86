"""The report as one HTML file that works from disk: nothing is fetched, nothing else can run.

Charts are drawn in the browser by Vega, whose bundle comes out of the installed vl-convert package
and is written into the page. A content security policy in the page forbids every request and every
script but those two that were written with it, by their hashes. Texts that came from files are
escaped by the template, and in the JSON blocks no character can end a script element.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
from functools import cache
from importlib import import_module, resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphtemper.errors import FileError, InputError, MissingExtraError
from graphtemper.files import atomic_write
from graphtemper.report.charts import charts
from graphtemper.report.content import SCHEMA, content
from graphtemper.report.map_chart import family_styles
from graphtemper.verdict import CAUTION_WIDTH

if TYPE_CHECKING:
    from graphtemper.recalibration import Recalibration

MAX_BYTES = 2_000_000
_BLOCK = re.compile(r'<script type="application/json" id="graphtemper-report">(.*?)</script>', re.S)
_MARK = {"trust": "✓", "caution": "!", "abstain": "✕"}


def write_report(path: str | os.PathLike[str], result: Recalibration, name: str | None) -> None:
    """Write a result as one HTML page, whole or not at all; see `graphtemper.report.content`."""
    page = render(content(result, name)).encode("utf-8")
    if len(page) > MAX_BYTES:
        raise InputError(
            f"the report would be {len(page)} bytes, over the {MAX_BYTES} it may have; use a card "
            "with fewer environments, or shorter class names."
        )
    with atomic_write(path) as stream:
        stream.write(page)


def read_report(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the JSON block of a report: everything that its page says."""
    source = Path(path)
    try:
        found = _BLOCK.search(source.read_text("utf-8"))
        block: Any = None if found is None else json.loads(found.group(1))
    except (OSError, ValueError) as error:
        raise FileError(f"{source} cannot be read as a report: {error}.") from error
    if not isinstance(block, dict) or block.get("schema") != SCHEMA:
        raise FileError(f"{source} holds no report of the form {SCHEMA}; write it again.")
    return block


def render(found: dict[str, Any]) -> str:
    """Return the page of a content; the same content gives the same bytes.

    Parameters
    ----------
    found
        What `graphtemper.report.content.content` returned.
    """
    jinja, markup = _extra("jinja2"), _extra("markupsafe").Markup
    library, script = vega_bundle(), _text("page.js")
    environment = jinja.Environment(
        autoescape=True, undefined=jinja.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {"percent": _percent, "number": _number}
    page: str = environment.from_string(_text("template.html")).render(
        report=found,
        mark=_MARK[found["verdict"]["word"]],
        families=family_styles(found),
        width=CAUTION_WIDTH,
        policy=_policy(library, script),
        style=markup(_text("page.css")),
        library=markup(library),
        script=markup(script),
        report_json=markup(embeddable(found)),
        charts_json=markup(embeddable(charts(found))),
    )
    return page


def embeddable(value: Any) -> str:
    r"""Return JSON that nothing inside a script element can mistake for markup.

    Examples
    --------
    >>> print(embeddable({"name": "</script>&"}))
    {"name":"\u003c/script\u003e\u0026"}
    """
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


def check_extra() -> None:
    """Refuse early where the packages that write a page are missing."""
    _extra("jinja2")
    _extra("vl_convert")


def _extra(module: str) -> Any:
    try:
        return import_module(module)
    except ImportError as error:
        raise MissingExtraError(
            "reports need Jinja2 and vl-convert-python; run pip install 'graphtemper[report]'."
        ) from error


@cache
def vega_bundle() -> str:
    """Return Vega, Vega-Lite and Vega-Embed as one script for a page."""
    bundle: str = _extra("vl_convert").javascript_bundle()
    # A browser reads line ends as \n before it hashes a script, and ends one at the first "</".
    return bundle.replace("\r\n", "\n").replace("\r", "\n").replace("</script", "<\\/script")


def _policy(*scripts: str) -> str:
    hashes = (base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()) for text in scripts)
    allowed = " ".join(f"'sha256-{value.decode('ascii')}'" for value in hashes)
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _text(name: str) -> str:
    return resources.files("graphtemper.report").joinpath(name).read_text("utf-8")


def _percent(value: float | None, digits: int = 1) -> str:
    return "–" if value is None else f"{value:.{digits}%}"


def _number(value: float | None, form: str = ".3g") -> str:
    return "–" if value is None else format(value, form)
