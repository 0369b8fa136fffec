"""From a package to an export in one function."""

from __future__ import annotations

from pathlib import Path

from colibri.errors import UsageError
from colibri.export.folder import write_export
from colibri.export.form import Files, Form, Label
from colibri.export.forms import FORMS
from colibri.export.model import Model, read_model


def export(package: Path, form: str, label: Label, out: Path) -> Files:
    """Write the package in a form into the folder ``out``; returns what was written.

    Raises:
        BadInput: no package, or a damaged one; or ``out`` holds what no export wrote.
        UsageError: no such form, one for other boards, or nothing can be written there.
    """
    chosen = find_form(form)
    model = read_model(package)
    refuse_other_packages(chosen, model)
    files = chosen.files(model, label)
    write_export(out, form, files)
    return files


def find_form(name: str) -> Form:
    """The form of a name.

    Raises:
        UsageError: there is none.
    """
    for form in FORMS:
        if form.name == name:
            return form
    raise UsageError(f"no form '{name}'", where="--to", hint=f"there are {', '.join(one.name for one in FORMS)}")


def refuse_other_packages(form: Form, model: Model) -> None:
    """Raise UsageError when the form has nothing to do with the board, or with the kind of the model."""
    board = model.package.board
    if model.package.model.source and not form.encoders:
        others = [one.name for one in FORMS if board.kind in one.kinds and one.encoders]
        what = "has no call for the encoder of this model"
        raise UsageError(
            what, where=f"--to {form.name}", hint=f"for that there are {', '.join(others)}" if others else ""
        )
    if board.kind not in form.kinds:
        others = [one.name for one in FORMS if board.kind in one.kinds]
        what = f"is for {', '.join(form.kinds)} boards, this package is for {board.id} ({board.kind})"
        hint = f"for that there are {', '.join(others)}" if others else "generate it for another board"
        raise UsageError(what, where=f"--to {form.name}", hint=hint)
