"""The examples of the gallery and the screenshots: run, shown, and absent without a browser."""

import pytest

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
    with pytest.raises(NameError, match="unknown"):
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


@pytest.mark.parametrize("picture", [False, True])
def test_a_screenshot_is_a_figure_or_a_note(extension, picture, tmp_path, monkeypatch):
    application = pytest.importorskip("sphinx.application")
    screenshots = extension("screenshots")
    monkeypatch.setattr(screenshots.shutil, "which", lambda name: None)
    (tmp_path / "conf.py").write_text("extensions = ['myst_parser', 'screenshots']")
    (tmp_path / "index.md").write_text(
        "# Page\n\n```{screenshot} report\n:alt: words\n\nCaption.\n```\n"
    )
    if picture:
        folder = tmp_path / screenshots.FOLDER
        folder.mkdir(parents=True)
        (folder / "report.png").write_bytes(b"\x89PNG")
    out = tmp_path / "out"
    app = application.Sphinx(
        tmp_path, tmp_path, out, tmp_path / "trees", "html", status=None, warningiserror=True
    )
    app.build()
    page = (out / "index.html").read_text("utf-8")
    assert (screenshots.NO_BROWSER in page) != picture
    assert ('alt="words"' in page) == picture
