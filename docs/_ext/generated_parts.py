"""Generate the tables and pictures that pages include, before the pages are read."""

import contextlib
import io
import json
from pathlib import Path

import changes
import data_flow
import equations
import evidence
import measured
import method_tables
import report_fields
import scale_tables


def setup(app):
    """Connect the generators."""
    app.connect("builder-inited", _load_lazy_names)
    app.connect("builder-inited", _write)
    return {"parallel_read_safe": True}


def _load_lazy_names(app):
    """Load every public name, because autodoc lists only what a module already holds."""
    import graphtemper

    for module_name in graphtemper._MODULES:
        module = getattr(graphtemper, module_name)
        for name in getattr(module, "__all__", ()):
            setattr(module, name, getattr(module, name))


def _write(app):
    from graphtemper.recalibration.report.content import schema
    from graphtemper.recalibration.report.style import draw

    folder = Path(app.srcdir) / "_generated"
    folder.mkdir(exist_ok=True)
    changes.put(folder / "equations.md", equations.markdown(Path(app.srcdir).parent / "tests"))
    for name in ("report", "recalibration"):
        changes.put(folder / f"{name}_fields.md", report_fields.markdown(schema(name)))
    changes.put(folder / "reason_codes.md", _reason_codes())
    months = json.loads((Path(app.srcdir) / "results" / "months.json").read_text("utf-8"))
    changes.put(folder / "months_caption.md", _readme(app, "caption") + "\n")
    changes.put(folder / "months_printed.md", f"```text\n{months['printed']}\n```\n")
    changes.put(folder / "cli.md", _commands())
    parts = evidence.tables(Path(app.srcdir)) | measured.tables(Path(app.srcdir))
    parts |= scale_tables.tables(Path(app.srcdir))
    parts |= method_tables.tables(evidence.Results(Path(app.srcdir) / "results"))
    for name, text in parts.items():
        changes.put(folder / f"{name}.md", text)
    draw(folder / "evidence.png", lambda figure: evidence.draw(figure, Path(app.srcdir)))
    draw(folder / "data_flow.png", data_flow.draw, width=9.2, height=3.1)
    _run_demo(folder, changes.library(Path(app.srcdir)))


def _readme(app, name):
    """Return a measured part of the README."""
    text = (Path(app.srcdir).parent / "README.md").read_text("utf-8")
    return text.partition(f"<!-- {name} -->\n")[2].partition(f"\n<!-- /{name} -->")[0]


COMMANDS = """card build|card learn|card show|recalibrate|label|diagnose|monitor|monitor labels|demo
|data list|data fetch|data inspect|bench|paper|explore|completion|info"""


def _commands():
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


def _reason_codes():
    """Return a table of the codes of reasons and when each is given."""
    from graphtemper import ReasonCode

    rows = [f"| `{code.value}` | {code.meaning} |" for code in ReasonCode]
    return "\n".join(["| code | given when |", "| --- | --- |", *rows]) + "\n"


def _run_demo(folder, sources):
    """Run the demo for its picture, summary and report, unless no code has changed."""
    from graphtemper.cli import demo_job as demo
    from graphtemper.recalibration.report.style import draw

    picture = folder / "demo.png"
    if changes.older(picture, sources):
        result = demo.run()
        changes.put(folder / "demo.txt", result.answer.summary() + "\n")
        result.answer.report(folder / "report.html")
        draw(picture, lambda figure: demo.draw(figure, result))
