"""Weights that somebody quantised before: which of it is read, and what is refused by the name of its scheme."""

from __future__ import annotations

from collections.abc import Iterable

from colibri.checkpoint.config import Config
from colibri.errors import BadInput, shown

_BEFORE = "give the model before it was quantised; Colibri quantises it itself"
_HINTS = {
    "bitsandbytes": "where it runs, dequantize() and save_pretrained() of transformers save it in full",
}
_MARKS = {  # ends of tensors' names
    ".qweight": "gptq or awq",
    ".qzeros": "gptq or awq",
    ".weight_packed": "compressed-tensors",
    ".weight.absmax": "bitsandbytes",
    ".SCB": "bitsandbytes",
    ".W_q": "hqq",
    ".weight._data": "quanto",
}


def block_of_scales(config: Config) -> tuple[int, int] | None:
    """Return rows and columns that share a scale, where weights are 8-bit floats; None where they are plain or MXFP4.

    Source: transformers' `FineGrainedFP8Config`, the form in which DeepSeek-V3 was released, and `Mxfp4Config`.

    Raises:
        BadInput: weights are quantised in another way.
    """
    for key in ("quantization_config", "compression_config"):
        if not config.has(key):
            continue
        settings = config.section(key)
        method = settings.text("quant_method", default="of an unnamed method")
        block = settings.integers("weight_block_size", minimum=1, maximum=1 << 16)
        if method == "mxfp4":  # which tensors are so is said by their names
            return None
        if method == "fp8" and settings.text("fmt", default="e4m3") == "e4m3" and len(block) == 2:
            return block[0], block[1]
        what = f"{shown(method)} is not readable as plain weights"
        raise config.error(key, what, _HINTS.get(method, _BEFORE))
    return None


def refuse_packed(names: Iterable[str], where: str) -> None:
    """Look for tensors of a scheme that the config does not name.

    Raises:
        BadInput: there is one.
    """
    for name in names:
        scheme = next((scheme for mark, scheme in _MARKS.items() if name.endswith(mark)), None)
        if scheme is not None:
            what = f"tensor '{shown(name)}' is packed as {scheme} does, which is not readable as plain weights"
            raise BadInput(what, where=where, hint=_HINTS.get(scheme, _BEFORE))
