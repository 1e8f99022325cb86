"""Generate the tables and pictures that pages include, before the pages are read."""

from pathlib import Path

import data_flow
import equations
import report_fields


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
    _put(folder / "equations.md", equations.markdown(Path(app.srcdir).parent / "tests"))
    _put(folder / "report_fields.md", report_fields.markdown(schema()))
    _put(folder / "reason_codes.md", _reason_codes())
    draw(folder / "data_flow.png", data_flow.draw, width=9.2, height=3.1)
    _draw_demo(folder / "demo.png", Path(app.srcdir).parent / "src")


def _reason_codes():
    """Return a table of the codes of reasons and when each is given."""
    from graphtemper import ReasonCode

    rows = [f"| `{code.value}` | {code.meaning} |" for code in ReasonCode]
    return "\n".join(["| code | given when |", "| --- | --- |", *rows]) + "\n"


def _draw_demo(path, sources):
    """Run the demo for its picture, unless no code has changed since the last time."""
    from graphtemper.cli import demo_job as demo
    from graphtemper.recalibration.report.style import draw

    newest = max(file.stat().st_mtime for file in sources.rglob("*.py"))
    if not path.is_file() or path.stat().st_mtime < newest:
        result = demo.run()
        draw(path, lambda figure: demo.draw(figure, result))


def _put(path, text):
    """Write a part only if it changed, so that pages which include it are not rebuilt in vain."""
    if not path.is_file() or path.read_text("utf-8") != text:
        path.write_text(text, "utf-8")
