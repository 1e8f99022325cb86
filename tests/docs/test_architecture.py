"""The architecture page names the packages that exist, and tests that exist."""

import re

import pytest


@pytest.fixture(scope="module")
def page(docs):
    return (docs / "architecture.md").read_text("utf-8")


def described(page, heading):
    """Return the names that a section of the page has a paragraph for."""
    section = page.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    return set(re.findall(r"^`(\w+)`\n:", section, flags=re.M))


def packages(folder):
    """Return the packages and modules of a folder, without entry points."""
    return {
        path.stem
        for path in folder.iterdir()
        if (path / "__init__.py").is_file() or path.suffix == ".py"
    } - {"__init__", "__main__"}


@pytest.mark.parametrize(
    ("heading", "folder"),
    [
        ("The library", "src/graphtemper"),
        ("The research package", "research/src/graphtemper_research"),
    ],
)
def test_every_package_has_a_paragraph(page, docs, heading, folder):
    assert described(page, heading) == packages(docs.parent / folder)


def test_the_layers_are_those_of_the_contract(page, docs):
    import tomllib

    config = tomllib.loads((docs.parent / "pyproject.toml").read_text("utf-8"))
    contracts = config["tool"].get("importlinter", {}).get("contracts", [])
    layers = [contract["layers"] for contract in contracts if contract["type"] == "layers"]
    if not layers:
        pytest.skip("there is no layers contract")
    printed = re.findall(r"^ {6}(\w[\w |]*)$", page, flags=re.M)
    assert [printed] == [[layer for layer in chain if layer != "__main__"] for chain in layers]


def test_files_that_the_page_names_exist(page, docs):
    named = set(re.findall(r"`((?:tests|docs|research|scripts)/[\w/.]+)`", page))
    assert len(named) > 5
    for path in named:
        assert (docs.parent / path).exists(), path
    for path in set(re.findall(r"`(\w+/\w+\.py)`", page)) - named:
        assert (docs.parent / "src" / "graphtemper" / path).is_file(), path


def test_the_words_of_the_main_path_are_where_the_page_says(page, docs):
    table = page.partition("## The words of the main path\n")[2].partition("\n## ")[0]
    rows = [line.split("|")[1:3] for line in table.splitlines() if line.startswith("| `")]
    words = 0
    for names, files in rows:
        texts = [
            (docs.parent / "src" / "graphtemper" / file).read_text("utf-8")
            for file in re.findall(r"`([\w/]+\.py)`", files)
        ]
        for name in re.findall(r"`(\w+)`", names):
            words += 1
            assert any(re.search(rf"^(class {name}\b|{name} = )", text, re.M) for text in texts)
    assert 20 <= words <= 32
