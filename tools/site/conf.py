# SPDX-License-Identifier: Apache-2.0
"""Sphinx with MyST: the pages are Markdown that is read in a checkout, too, with the anchors that
it has there.
"""

import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
project = "kith"
copyright = "the authors of kith, Apache-2.0"
release = ".".join(
    re.findall(r"#define KITH_VERSION_\w+ (\d+)", (ROOT / "include/kith/kith.h").read_text())
)

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_copybutton"]
source_suffix = {".md": "markdown"}
nitpicky = True
myst_heading_anchors = 5
myst_enable_extensions = ["attrs_inline"]

autodoc_typehints = "none"
autodoc_member_order = "bysource"
napoleon_google_docstring = False
napoleon_custom_sections = [("Attributes", "params_style")]
napoleon_use_param = False  # types of parameters are words, not links
napoleon_use_rtype = False
default_role = "code"
python_maximum_signature_line_length = 90
add_module_names = False

html_theme = "furo"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_title = f"kith {release}"
html_copy_source = False
html_show_sphinx = False
html_theme_options = {"navigation_with_keys": True}
copybutton_exclude = ".linenos, .gp"


# What the package's own modules call of each other.
INNER = {"of_matrix", "search"}


def skip_member(app, what, name, member, skip, options):
    """Members that come from scikit-learn or a tuple are described where they come from."""
    member = getattr(member, "fget", None) or member
    module = getattr(member, "__module__", None) or ""
    return skip or name in INNER or name.startswith("_") or not module.startswith("kith")


def setup(app):
    app.connect("autodoc-skip-member", skip_member)
