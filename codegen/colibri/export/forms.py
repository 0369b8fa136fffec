"""All forms: to add one, write a file here and a folder in `templates/export/`, and name it in this list."""

from __future__ import annotations

from colibri.export import cmake, npm, pkg_config, python, rust, web_page
from colibri.export.form import Form

FORMS: tuple[Form, ...] = (
    cmake.FORM,
    npm.FORM,
    pkg_config.FORM,
    python.FORM,
    rust.FORM,
    web_page.FORM,
)
