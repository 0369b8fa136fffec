"""Which compiler options may be added to those of Colibri: by a board file, and by the command line."""

from __future__ import annotations

import re

from colibri.errors import BadInput, shown

_WORD = re.compile(r"-[A-Za-z0-9_.,:=+/-]+")
_OTHER_BITS = re.compile(
    r"-Ofast|-ffast-math|-funsafe-math-optimizations|-fassociative-math|-freciprocal-math|-ffinite-math-only"
    r"|-fno-signed-zeros|-fapprox-func|-ffp-contract=(?!off$).*|-ffp-model=(?!strict$|precise$).*|-fdenormal-fp-math.*"
    r"|-fexcess-precision=.*|-fsingle-precision-constant|-mrecip.*|-mdaz-ftz|-mfpmath=.*387.*|-mpc(32|64|80)"
)
_LAYOUT = re.compile(r"-fpack-struct.*|-fno-short-enums|-fshort-enums|-fshort-wchar|-fcommon")
# What is compiled and what comes out.
_OF_THE_BUILD = re.compile(r"-(c|S|E|M.*|o.*|x.*|include.*|imacros.*|save-temps.*|fsyntax-only|flto.*)")


def option_fault(option: str, where: str) -> BadInput | None:
    """Why an option may not be added; None when it may. The error is returned, not raised."""
    if not _WORD.fullmatch(option):
        hint = "one option each, of letters, digits and .,:=+/_-"
        return BadInput(f"'{shown(option)}' is no compiler option", where=where, hint=hint)
    if _OTHER_BITS.fullmatch(option):
        return BadInput(f"{option} changes results", where=where, hint="the bits of every float are part of the model")
    if _LAYOUT.fullmatch(option):
        hint = "the library would not fit the firmware that includes its header"
        return BadInput(f"{option} changes how C lays out types", where=where, hint=hint)
    if _OF_THE_BUILD.fullmatch(option):
        return BadInput(f"{option} is for the build files to say", where=where, hint="leave it out")
    return None
