"""The explorer's JavaScript: small modules on disk, one script in the page.

A page that is one file cannot import files. Each module becomes a function that returns what it
exports, and imports become plain assignments; that is all the explorer's modules need.
"""

from __future__ import annotations

import re
from importlib import resources

MODULES = ("special", "theory", "finite_degree", "readings")
_NAMED = re.compile(r'^import (\{[^}]*\}) from "\./(\w+)\.js";$', re.M)
_WHOLE = re.compile(r'^import \* as (\w+) from "\./(\w+)\.js";$', re.M)
_EXPORT = re.compile(r"^export (?=(?:function|const) (\w+))", re.M)


def script(*modules: str) -> str:
    """Return the modules, in the order of their imports, as one script without imports.

    Examples
    --------
    >>> "import " in script("special")
    False
    >>> script("special").startswith('"use strict";')
    True
    """
    return '"use strict";\nconst modules = {};\n' + "".join(_as_function(name) for name in modules)


def _as_function(name: str) -> str:
    text = (
        resources.files("graphtemper_research.explorer").joinpath(f"{name}.js").read_text("utf-8")
    )
    exports = ", ".join(_EXPORT.findall(text))
    body = _WHOLE.sub(lambda match: f"const {match[1]} = modules.{match[2]};", text)
    body = _NAMED.sub(lambda match: f"const {match[1]} = modules.{match[2]};", body)
    body = _EXPORT.sub("", body)
    return f"modules.{name} = (() => {{\n{body}return {{ {exports} }};\n}})();\n"
