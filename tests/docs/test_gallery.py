"""The examples of the gallery and the screenshots: run, shown, and absent without a browser."""

import os
import subprocess
import sys

import pytest

EXTENSIONS = ["myst_parser", "screenshots"]
SCRIPT = '''"""A title.

What it shows.
"""

# %%
# Text of the *first* cell.

value = 6 * 7
print(value)

# %%
# A figure.

import matplotlib.pyplot as plt

plt.plot([0, value])
'''


@pytest.fixture
def executed(extension):
    pytest.importorskip("matplotlib")
    return extension("executed")


def test_a_script_becomes_a_page(executed, tmp_path):
    script = tmp_path / "example.py"
    script.write_text(SCRIPT)
    docstring, cells = executed.run_script(script, tmp_path)
    assert [cell.output for cell in cells] == ["42", ""]
    assert [len(cell.figures) for cell in cells] == [0, 1]
    assert cells[1].figures[0].read_bytes().startswith(b"\x89PNG")
    page = executed.page(script, docstring, cells, tmp_path)
    assert page.startswith("# A title\n\nWhat it shows.\n\nText of the *first* cell.\n")
    assert ":class: output\n\n42\n```" in page
    assert "![A title](/example_1_1.png)" in page


def test_a_script_that_fails_stops_the_build(executed, tmp_path):
    script = tmp_path / "example.py"
    script.write_text(SCRIPT.replace("6 * 7", "unknown"))
    with pytest.raises(NameError):
        executed.run_script(script, tmp_path)


def test_examples_are_shown_with_output_and_figure(extension, docs, site):
    examples = extension("gallery").EXAMPLES
    assert 8 <= len(examples) <= 10
    assert {path.stem for path in (docs / "gallery").glob("*.py")} == set(examples)
    index = (site / "gallery" / "index.html").read_text("utf-8")
    for name in examples:
        page = (site / "gallery" / "generated" / f"{name}.html").read_text("utf-8")
        assert 'class="output' in page, name
        assert "_images/" in page, name
        assert f'href="generated/{name}.html"' in index, name


def test_without_a_browser_a_note_stands_in_for_a_screenshot(extension, docs, tmp_path):
    pytest.importorskip("sphinx", reason="sphinx is not installed")
    screenshots = extension("screenshots")
    conf = f"import sys; sys.path.insert(0, {str(docs / '_ext')!r})\nextensions = {EXTENSIONS}"
    (tmp_path / "conf.py").write_text(conf)
    block = "```{{screenshot}} {name}\n:alt: picture of {name}\n\nCaption.\n```\n"
    blocks = [block.format(name=name) for name in ("report", "watch")]
    text = "\n".join(["# Page", *blocks, "It is {methodpdf}`printed`."])
    (tmp_path / "index.md").write_text(text)
    folder = tmp_path / screenshots.FOLDER
    folder.mkdir(parents=True)
    (folder / "report.png").write_bytes(b"\x89PNG")
    words = [sys.executable, "-m", "sphinx", "-W", "-q", tmp_path, tmp_path / "out"]
    subprocess.run(words, check=True, env={**os.environ, "PATH": ""})
    page = (tmp_path / "out" / "index.html").read_text("utf-8")
    assert page.count(screenshots.NO_BROWSER) == 1
    assert 'alt="picture of report"' in page
    assert "picture of watch" not in page
    assert "printed if the site is built with Chromium" in page
