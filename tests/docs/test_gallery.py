"""The examples of the gallery are run and shown."""

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
