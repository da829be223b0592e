"""Sphinx configuration of the documentation site (`make docs`). Nothing is fetched from the network."""

from __future__ import annotations

import sys
from importlib.metadata import version as installed_version
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project = "interlace"
author = "the authors of interlace"
copyright = f"{author}, MIT licence"
release = version = installed_version("interlace")

extensions = ["myst_parser", "sphinx.ext.autodoc", "numpydoc", "notebooks", "repository"]
exclude_patterns = ["_ext", "_static"]
source_suffix = {".md": "markdown", ".ipynb": "markdown"}  # see _ext/notebooks.py

myst_enable_extensions = ["attrs_block", "deflist"]
myst_heading_anchors = 4

autodoc_member_order = "groupwise"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
autosummary_generate = False  # numpydoc loads autosummary
numpydoc_show_class_members = False
python_maximum_signature_line_length = 100
python_use_unqualified_type_names = True
add_module_names = False
toc_object_entries_show_parents = "hide"

html_theme = "pydata_sphinx_theme"
html_title = "interlace"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = html_show_sourcelink = False
html_theme_options = {
    "logo": {"text": "interlace"},
    "navbar_align": "left",
    "navbar_end": ["theme-switcher"],
    "navigation_with_keys": False,
    "header_links_before_dropdown": 8,
    "show_toc_level": 2,
    "footer_start": ["copyright"],
    "footer_end": [],
    "secondary_sidebar_items": ["page-toc"],
}
html_sidebars = {"index": [], "quickstart": [], "faq": [], "changelog": [], "benchmarks": []}
