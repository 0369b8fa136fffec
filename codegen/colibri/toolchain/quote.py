"""Words of command lines as build files take them: whatever is in a path stays a path."""

from __future__ import annotations

import shlex
from collections.abc import Sequence


def ninja_words(words: Sequence[str]) -> str:
    """Words of a shell's command line in a value of build.ninja.

    >>> ninja_words(["-O2", "--sysroot=/opt/a b/$x"])
    "-O2 '--sysroot=/opt/a b/$$x'"
    """
    return " ".join(map(shlex.quote, words)).replace("$", "$$")


def cmake_text(text: str) -> str:
    r"""Text between the quotes of a CMake argument.

    >>> print(cmake_text('/opt/a;b/$x"'))
    /opt/a\;b/\$x\"
    """
    return "".join(f"\\{one}" if one in '\\"$;' else one for one in text)
