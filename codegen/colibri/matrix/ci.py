"""The same matrix as a job of a continuous integration, to be kept in one's own repository."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path

from colibri.boards.load import load_board
from colibri.boards.profile import CompilerFamily
from colibri.emit.templates import render
from colibri.errors import UsageError, shown
from colibri.matrix.model import Cell
from colibri.toolchain.find import CLANG_APT

_FILES = ["--junit", "junit.xml", "--markdown", "matrix.md"]


class Service(StrEnum):
    """Who runs it."""

    GITHUB = "github"
    GITLAB = "gitlab"


def ci_file(service: Service, words: Sequence[str], out: Path, cells: Sequence[Cell]) -> str:
    """The text of ``.github/workflows/NAME.yml`` or ``.gitlab-ci.yml``.

    Args:
        words: checkpoints and options of the command line that choose the cells; paths are of the repository.
        out: folder of the matrix.
        cells: what they choose, for the Debian packages that it takes.

    Raises:
        UsageError: a path that the service would not take as it is.
    """
    for word in (*words, str(out)):
        if word.startswith("/"):
            hint = "give it from the top of the repository"
            raise UsageError("is a path of this machine alone", where=shown(word), hint=hint)
        if not word.isprintable() or "${{" in word or "$[[" in word:
            raise UsageError("is nothing that such a file can hold", where=f"'{shown(word)}'")
    boards = [load_board(name) for name in dict.fromkeys(cell.board for cell in cells)]
    packages = [name for board in boards for name in board.toolchain.apt]
    packages += [name for board in boards for emulator in board.emulators for name in emulator.apt]
    packages += CLANG_APT if any(cell.toolchain == CompilerFamily.CLANG for cell in cells) else ()
    values = {
        "packages": shlex.join(sorted(set(packages))),
        "command": shlex.join(["colibri", "matrix", *words, "-o", str(out), *_FILES]),
        "folder": str(out),
        "budgets": _budgets(service, out),
    }
    return render(f"ci/{service}.yml.j2", values)


def _budgets(service: Service, out: Path) -> list[str]:
    """A loop over the budgets that are there; all are looked at, and the last exit code that was not 0 counts."""
    annotate = " --annotate" if service is Service.GITHUB else ""
    package = f'{shlex.quote(str(out))}/"$(basename "$budget" .toml)"/package'
    return [
        *(["failed=0"] if service is Service.GITHUB else []),
        "for budget in budgets/*.toml; do",
        f'  if [ -e "$budget" ]; then colibri report {package} --budget "$budget"{annotate} || failed=$?; fi',
        "done",
        'exit "$failed"',
    ]
