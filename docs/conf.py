"""How the pages are built: ``make docs``, or ``sphinx-build docs docs/_build/html``.

Nothing is asked of the network, neither here nor by the pages: no other project's index is linked,
formulas are plain text, and :mod:`offline` fails a build whose pages would load anything.
"""

import sys
from importlib.metadata import version as version_of
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "extensions"))

project = "kstoolkit"
author = "the authors of kstoolkit"
project_copyright = author
version = release = version_of(project)

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    # This project's own, in extensions/.
    "public_names",
    "commands",
    "house",
    "kept",
    "drawn",
    "linking",
    "offline",
]
exclude_patterns = ["_build", "extensions"]
nitpicky = True

# Pages in Markdown; a link to a heading is checked like any other.
myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence", "attrs_block"]

# Notebooks are shown as they are kept. The tests run them, a build does not.
nb_execution_mode = "off"
# A panel's own view needs scripts from elsewhere: its picture stands beside it, and is taken.
nb_ipywidgets_js = {}
nb_mime_priority_overrides = [
    ("html", "application/vnd.jupyter.widget-view+json", None),
    ("html", "application/javascript", None),
]
nb_merge_streams = True

# Docstrings are NumPy's. Types stand in signatures, as the source writes them.
napoleon_google_docstring = False
napoleon_use_rtype = False
autodoc_class_signature = "mixed"
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
python_maximum_signature_line_length = 88
add_module_names = False

html_theme = "furo"
html_title = f"kstoolkit {release}"
html_static_path = ["_static"]
html_css_files = ["kstoolkit.css"]
html_copy_source = False
html_show_sphinx = False
pygments_style = "friendly"
pygments_dark_style = "monokai"
