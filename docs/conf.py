"""Configuration of the documentation site, which `make docs` builds."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_ext"))

import generated_parts  # noqa: E402

import graphtemper  # noqa: E402
from graphtemper_research import numbers  # noqa: E402

project = "graphtemper"
author = "The graphtemper authors"
project_copyright = author
version = release = graphtemper.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "docstring_text",
    "generated_parts",
    "gallery",
    "mathml",
    "whole_pages",
]
exclude_patterns = ["_build", "_generated", "_ext"]
templates_path = ["_templates"]

# Headings can be linked as on GitHub; formulas between dollars become MathML.
myst_heading_anchors = 3
myst_enable_extensions = ["attrs_inline", "deflist", "dollarmath", "substitution"]
# Numbers come from the committed results, and lists of names from the code.
myst_substitutions = numbers.values(HERE / "results") | generated_parts.values(HERE.parent)
myst_dmath_allow_labels = False

# A name in single backquotes is a link if it is documented here, and code otherwise.
default_role = "py:obj"
# Attributes of several classes have the same name, and docstrings list them without their class.
suppress_warnings = ["ref.python"]
autodoc_member_order = "bysource"
autodoc_typehints = "none"
autosummary_generate = True
autosummary_imported_members = False
# Some public names are aliases: the page of a module needs the module's real name. Objects that
# the package exports itself have pages of their own.
autosummary_context = {
    "real_modules": graphtemper._MODULES,
    "own_pages": sorted(graphtemper._OBJECTS),
}
napoleon_google_docstring = False
napoleon_use_ivar = True
napoleon_use_rtype = False
add_module_names = False
python_display_short_literal_types = True
toc_object_entries = True
toc_object_entries_show_parents = "hide"

html_theme = "furo"
html_title = f"graphtemper {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_use_index = False
html_domain_indices = False
html_show_sourcelink = False
html_show_sphinx = False
# Search summaries would have to be fetched, which pages opened from disk cannot do.
html_show_search_summary = False
html_theme_options = {"navigation_with_keys": True, "top_of_page_buttons": []}
html_math_renderer = "mathml"
pygments_style = "a11y-light"
pygments_dark_style = "a11y-dark"
