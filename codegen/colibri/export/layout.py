"""What exports have in common: sources and weights in place, licences, the check against one golden vector."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from colibri import __version__
from colibri.emit.c_layout import lay_out
from colibri.emit.linker import block_section
from colibri.emit.templates import render
from colibri.export.form import Files, Label
from colibri.export.model import Model
from colibri.optimise import Optimise

_PER_LINE = 24


def library(model: Model, include: str = "include", src: str = "src") -> Files:
    """Headers and C sources of the model and its runtime.

    Args:
        include: folder of the public headers, which users have on their include path.
        src: folder of the sources; it must be on the include path of these alone.
    """
    return {
        **{f"{include}/{name}": text for name, text in model.headers.items()},
        **{f"{src}/{path}": text for path, text in model.sources.items()},
    }


def weights_as_assembler(model: Model, folder: str = "src") -> Files:
    """Each file of weights, and ``PREFIX_weights.S`` that links them in: the folder must be on the include path."""
    text = render("export/shared/weights.S.j2", values(model))
    files = {f"{folder}/{one.file}": one.data for one in model.weights}
    return {f"{folder}/{model.prefix}_weights.S": text.encode(), **files}


def weights_as_c(model: Model, folder: str = "src") -> Files:
    """``PREFIX_weights.c``: for builds that know no assembler, or do not pass it the include path."""
    arrays = {one.symbol: _rows(one.data) for one in model.weights}
    text = render("export/shared/weights.c.j2", {**values(model), "arrays": arrays})
    return {f"{folder}/{model.prefix}_weights.c": text.encode()}


def _rows(data: bytes) -> str:
    words = [str(byte) for byte in range(256)]
    rows = (data[start : start + _PER_LINE] for start in range(0, len(data), _PER_LINE))
    return "\n".join("    " + ", ".join([words[byte] for byte in row]) + "," for row in rows)


def check_header(model: Model, folder: str) -> Files:
    """``PREFIX_check.h``, for examples: runs one golden vector and compares the bits."""
    inputs = model.vector.words() if model.tokens else [f"{value:.9g}" for value in model.vector.floats()]
    numbers = [f"{word}u" if isinstance(word, int) else _float(word) for word in inputs]
    source = [f"{word}u" for word in model.vector.source_words()]
    vector = {
        "rows": _eights(numbers),
        "count": len(numbers),
        "source_rows": _eights(source),
        "source_count": len(source),
        "digest": model.vector.digest,
    }
    text = render("export/shared/check.h.j2", {**values(model), **vector})
    return {f"{folder}/{model.prefix}_check.h": lay_out(text).encode()}


def _eights(numbers: Sequence[str]) -> list[str]:
    return [", ".join(numbers[start : start + 8]) + "," for start in range(0, len(numbers), 8)]


def _float(digits: str) -> str:
    """Nine digits give back every fp32 value; C wants a point or an exponent."""
    return f"{digits}f" if any(c in digits for c in ".e") else f"{digits}.0f"


def licences(model: Model) -> Files:
    """``LICENSE``: of Colibri's C, and what is known of the weights."""
    text = render("export/shared/LICENSE.j2", values(model))
    return {"LICENSE": text.encode() + model.runtime_licence}


def page(template: str, model: Model, label: Label, extra: Mapping[str, object] | None = None) -> bytes:
    """A file of `templates/export/` with the values that all have."""
    text = render(f"export/{template}", {**values(model, label), **(extra or {})})
    return (lay_out(text) if template.endswith((".c.j2", ".h.j2")) else text).encode()


def values(model: Model, label: Label | None = None) -> dict[str, object]:
    """What templates may name, safe in C, CMake, make, YAML and JSON; but three are free texts.

    These, ``title``, ``summary`` and ``licence``, are printable ASCII on one line: for comments and plain text,
    elsewhere to be escaped.
    """
    package, prefix = model.package, model.prefix
    return {
        "p": prefix,
        "P": prefix.upper(),
        "name": model.name,
        "title": model.title,
        "summary": model.summary,
        "licence": model.licence,
        "label": label or Label(),
        "version": __version__,
        "board": package.board.id,
        "tokens": model.tokens,
        "source": package.model.source,
        "bare": model.bare,
        "portable": model.portable,
        "optimise": str(package.optimise),
        "level": package.optimise.level,
        "small": package.optimise is Optimise.SIZE,
        "flags": package.board.toolchain.flags,
        "tool": package.board.toolchain.prefix,
        "c_files": model.c_files,
        "headers": tuple(model.headers),
        "weights": model.weights,
        "blocks": package.memory.blocks,
        "block_section": block_section,
        "memory_arguments": ", ".join(
            f"{prefix}_{block.name}, sizeof {prefix}_{block.name}" for block in package.memory.blocks
        ),
        "model_arguments": ", ".join(f"{one.symbol}, {one.macro}" for one in model.weights),
        "memory_bytes": package.memory.total,
        "weight_bytes": sum(len(one.data) for one in model.weights),
    }
