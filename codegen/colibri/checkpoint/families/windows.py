"""Which layers of a decoder see a window only, as configs say it."""

from __future__ import annotations

from collections.abc import Callable

from colibri.checkpoint.config import Config


def one_window(config: Config, absent: int = 0) -> Callable[[int], int]:
    """The same window in every layer, 0 for none.

    Args:
        absent: where the key is absent; null means none.

    Raises:
        BadInput: a key is wrong, or two contradict each other.
    """
    size = config.optional_integer("sliding_window", minimum=1) or (0 if "sliding_window" in config.table else absent)
    if size and config.optional_boolean("use_sliding_window") is False:
        what = f"is false, but sliding_window is {size}, which this model type always has"
        raise config.error("use_sliding_window", what, "set sliding_window to null, or remove use_sliding_window")
    return lambda layer: size


def upper_windows(config: Config) -> Callable[[int], int]:
    """Windows of the layers from ``max_window_layers`` on, or of those that ``layer_types`` names.

    Raises:
        BadInput: a key is wrong.
    """
    first = config.integer("max_window_layers", default=28)
    return windows(config, lambda layer: layer >= first)


def windows(config: Config, sliding: Callable[[int], bool]) -> Callable[[int], int]:
    """Window of each layer, 0 for none, of a family that has ``use_sliding_window``.

    Args:
        sliding: whether a layer has one, where ``layer_types`` does not say it.

    Raises:
        BadInput: a key is wrong.
    """
    if not config.boolean("use_sliding_window", default=False):
        return lambda layer: 0
    size = config.optional_integer("sliding_window", minimum=1) or 0
    if "sliding_window" not in config.table:
        size = 4096
    kinds = layer_types(config)
    return lambda layer: size if (kinds[layer] == "sliding_attention" if kinds else sliding(layer)) else 0


def layer_types(config: Config) -> tuple[str, ...]:
    """One of ``full_attention`` and ``sliding_attention`` for each layer; empty where the config has no such list.

    Raises:
        BadInput: another kind, or another number than there are layers.
    """
    kinds, layers = config.texts("layer_types"), config.integer("num_hidden_layers", minimum=1)
    if kinds and len(kinds) != layers:
        raise config.error("layer_types", f"names {len(kinds)} layers, but there are {layers}")
    for index, kind in enumerate(kinds):
        if kind not in ("full_attention", "sliding_attention"):
            what = f"is {kind!r}, expected 'full_attention' or 'sliding_attention'"
            raise config.error(f"layer_types[{index}]", what)
    return kinds
