"""How the documentation is built: Markdown pages, and a reference made from the docstrings.

`./scripts/test` builds it with `sphinx-build -nW`: a broken reference is an error. Nothing is fetched, so names of
other projects are not links; `nitpick_ignore_regex` lists them.
"""

import tomllib
from pathlib import Path
from typing import Any

project = "Juncture"
copyright = "the Juncture authors"
author = "the Juncture authors"
with (Path(__file__).parent.parent / "pyproject.toml").open("rb") as _file:
    release = version = tomllib.load(_file)["project"]["version"]

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["build"]

html_theme = "furo"
html_title = "Juncture"
html_copy_source = False

myst_enable_extensions = ["colon_fence", "deflist", "fieldlist"]
myst_heading_anchors = 3

default_role = "py:obj"  # `name` in a docstring is a name
autodoc_typehints = "signature"
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
autodoc_default_options = {"members": True, "show-inheritance": True}
python_use_unqualified_type_names = True
napoleon_numpy_docstring = False

nitpick_ignore_regex = [
    # Python's own and other projects' names.
    (r"py:.*", r"(?!juncture\b).*"),
    # Type variables, which say nothing by themselves.
    (r"py:.*", r"juncture\.types\.\w+T"),
    (
        r"py:.*",
        r"juncture\.(persistence\.registry\.C|functional\.task\.P|functional\.gather\.T\d?|functional\.entrypoint\.([RSI]|_\w+T)|graph\.overall_state\.[TD])",
    ),
    # Markers behind a public alias, and modules that are named but have no page.
    (r"py:.*", r"juncture\.channels\.managed\.\w+Manager"),
    (r"py:.*", r"juncture\.persistence"),
    # What annotations name and users don't need to.
    (r"py:.*", r"juncture\.(functional\.task\.Decorator|drivers\.context\.TaskContext|types\.Span)"),
    # Bases of the compiled graph, whose methods stand there.
    (r"py:.*", r"juncture\.graph\.(answering\.Answerable|operations\.ThreadPrograms)"),
]


def check_public_names(app: Any, env: Any) -> None:
    """Warns, and so fails the build, where the reference lacks a public name."""
    from sphinx.util import logging

    import juncture

    known = {name for name, *_ in env.get_domain("py").get_objects()}
    for name in juncture.__all__:
        public = getattr(juncture, name)
        defined = f"{getattr(public, '__module__', '')}.{getattr(public, '__qualname__', '')}"
        if not known & {f"juncture.{name}", defined}:
            logging.getLogger(__name__).warning("juncture.%s is public and isn't in the reference", name)


def mend_attributes(app: Any, what: str, name: str, found: Any, options: Any, lines: list[str]) -> None:
    """Keeps what is said of attributes as it is.

    Napoleon takes "text: more" for a type and its text, unless something stands before it: an empty comment. And the
    fields of a named tuple that nobody described are said to be aliases for their numbers.
    """
    if what not in ("attribute", "data", "property") or not lines:
        return
    if lines[0].startswith("Alias for field number"):
        lines.clear()
    else:
        lines[:0] = ["..", ""]


def setup(app: Any) -> None:
    app.connect("autodoc-process-docstring", mend_attributes, priority=400)  # before napoleon, at 500
    app.connect("env-check-consistency", check_public_names)
