"""Parts of pages that are read from the code, by the name of their substitution; the demo's output.

Numbers come from `graphtemper_research.numbers`; here are fields, codes, commands and equations.
"""

import contextlib
import io
from pathlib import Path

import changes
import equations

COMMANDS = """card build|card learn|card show|recalibrate|label|diagnose|monitor|monitor labels|demo
|data list|data fetch|data inspect|bench|paper|explore|completion|info"""


def setup(app):
    """Connect what has to be there before pages are read."""
    app.connect("builder-inited", _load_lazy_names)
    app.connect("builder-inited", _run_demo)
    return {"parallel_read_safe": True}


def values(root: Path) -> dict[str, str]:
    """Return the substitutions, in Markdown."""
    from graphtemper import ReasonCode
    from graphtemper.recalibration.report.schema import schema

    codes = [f"| `{code.value}` | {code.meaning} |" for code in ReasonCode]
    return {
        "equations": equations.markdown(root / "tests"),
        "reason_codes": "\n".join(["| code | given when |", "| --- | --- |", *codes]),
        "report_fields": fields(schema("report")),
        "recalibration_fields": fields(schema("recalibration")),
        "cli": commands(),
    }


def fields(schema: dict) -> str:
    """Return a table of every field of a schema; `[]` stands for the entries of a list."""
    rows = {}

    def visit(node, path):
        while "$ref" in node:
            node = schema["$defs"][node["$ref"].rpartition("/")[2]]
        for part in (*node.get("anyOf", ()), *node.get("oneOf", ())):
            visit(part, path)
        for name, child in node.get("properties", {}).items():
            here = f"{path}.{name}" if path else name
            rows[here] = child.get("description", "").replace("|", "\\|") or rows.get(here, "")
            visit(child, here)
        if isinstance(node.get("items"), dict):
            visit(node["items"], f"{path}[]")

    visit(schema, "")
    lines = [f"| `{path}` | {text} |" for path, text in rows.items()]
    return "\n".join(["| field | meaning |", "| --- | --- |", *lines])


def commands() -> str:
    """Return what every command prints for ``--help``, folded."""
    from rich.console import Console

    from graphtemper.cli import app as program

    parts = []
    for command in ["", *"".join(COMMANDS.split("\n")).split("|")]:
        with contextlib.redirect_stdout(io.StringIO()) as stream:
            program.help_print(command.split(), console=Console(file=stream, width=92))
        text = "\n".join(line.rstrip() for line in stream.getvalue().strip().splitlines())
        block = f"```text\n{text}\n```\n"
        title = f"<details><summary><code>graphtemper {command}</code></summary>"
        parts.append(f"{title}\n\n{block}\n</details>\n" if command else block)
    return "\n".join(parts)


def _load_lazy_names(app):
    """Load every public name, because autodoc lists only what a module already holds."""
    import graphtemper

    for module_name in graphtemper._MODULES:
        module = getattr(graphtemper, module_name)
        for name in getattr(module, "__all__", ()):
            setattr(module, name, getattr(module, name))


def _run_demo(app):
    """Run the demo for its picture, summary and report, unless no code has changed."""
    from graphtemper.cli import demo_job as demo
    from graphtemper.recalibration.report.style import draw

    folder = Path(app.srcdir) / "_generated"
    folder.mkdir(exist_ok=True)
    picture = folder / "demo.png"
    if changes.older(picture, changes.library(Path(app.srcdir))):
        result = demo.run()
        changes.put(folder / "demo.txt", result.answer.summary() + "\n")
        result.answer.report(folder / "report.html")
        draw(picture, lambda figure: demo.draw(figure, result))
