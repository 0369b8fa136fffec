"""The Jinja environment: templates hold text, every decision is made before."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING

from colibri.paths import data_folder

if TYPE_CHECKING:
    import jinja2


def render(template: str, values: Mapping[str, object]) -> str:
    """Render a file of `templates/`; an undefined name is an error, never an empty string. HTML is escaped."""
    return _environment().get_template(template).render(**values)


@cache
def _environment() -> jinja2.Environment:
    """One for all, since it keeps what it has compiled: a package is made of a dozen templates."""
    import jinja2

    from colibri.emit.c_layout import lay_out
    from colibri.emit.markdown import plain

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(data_folder("templates")),
        undefined=jinja2.StrictUndefined,
        autoescape=lambda name: name is not None and name.endswith(".html.j2"),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["c_layout"] = lay_out
    environment.filters["markdown"] = plain
    return environment
