"""`config.json`: typed access in which every error names the file and the key. The file is untrusted."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeGuard, TypeVar

from colibri.checkpoint.files import Bytes, read_whole
from colibri.checkpoint.untrusted import json_kind, parse_object
from colibri.errors import BadInput, shown

_T = TypeVar("_T")

FILE_NAME = "config.json"
_MAX_BYTES = 8 << 20
_MAX_INTEGER = 2**31 - 1
_MAX_NUMBER = 3.4028234663852886e38  # the largest fp32


@dataclass(frozen=True)
class Config:
    """One table of a `config.json`.

    A key is given as one name or as alternatives in order of preference, ``"num_local_experts|num_experts"``;
    alternatives that are both present must agree. ``null`` counts as absent. An absent key gives `default` where
    one is given, None from the ``optional_`` accessors, and BadInput otherwise.

    Attributes:
        where: how errors name the file.
        table: the values as parsed.
        prefix: dotted path of this table in the file, with the dot at its end; empty for the file itself.
        asked: dotted paths of the keys that were asked for, in this table and in those inside it.
    """

    where: str
    table: Mapping[str, Any]
    prefix: str = ""
    asked: set[str] = field(default_factory=set, repr=False, compare=False)

    @classmethod
    def read(cls, file: Bytes) -> Config:
        """Read a JSON file of at most 8 MiB.

        Raises:
            BadInput: unreadable, too long, not JSON (with the line), a key twice, or not an object.
        """
        return cls(file.where, parse_object(read_whole(file, _MAX_BYTES), where=file.where))

    def error(self, key: str, what: str, hint: str = "") -> BadInput:
        """Return (not raise) the BadInput that says `what` of `key`: ``FILE: KEY what; hint``."""
        return BadInput(f"{shown(self.prefix + key)} {what}", where=self.where, hint=hint)

    def unread(self) -> tuple[str, ...]:
        """Return the keys of this table that nothing asked for so far and that are not null, sorted."""
        return tuple(
            sorted(
                key for key, value in self.table.items() if value is not None and self.prefix + key not in self.asked
            )
        )

    def has(self, key: str) -> bool:
        """Return whether `key` (or one of its alternatives) is present and not null."""
        return self._find(key) is not None

    def integer(self, key: str, *, minimum: int = 0, maximum: int = _MAX_INTEGER, default: int | None = None) -> int:
        """Return an integer in ``minimum..maximum``; 2.0 and true are not integers."""
        value = self.optional_integer(key, minimum=minimum, maximum=maximum)
        return self._required(key, default if value is None else value)

    def optional_integer(self, key: str, *, minimum: int = 0, maximum: int = _MAX_INTEGER) -> int | None:
        """Return an integer in ``minimum..maximum``, or None where absent."""
        found = self._find(key)
        if found is None:
            return None
        name, value = found
        return self._integer(name, value, minimum, maximum)

    def number(
        self, key: str, *, minimum: float = -_MAX_NUMBER, maximum: float = _MAX_NUMBER, default: float | None = None
    ) -> float:
        """Return a finite number in ``minimum..maximum`` (at most what fp32 holds)."""
        value = self.optional_number(key, minimum=minimum, maximum=maximum)
        return self._required(key, default if value is None else value)

    def optional_number(self, key: str, *, minimum: float = -_MAX_NUMBER, maximum: float = _MAX_NUMBER) -> float | None:
        """Return a finite number in ``minimum..maximum``, or None where absent."""
        found = self._find(key)
        if found is None:
            return None
        name, value = found
        return self._number(name, value, minimum, maximum)

    def boolean(self, key: str, *, default: bool | None = None) -> bool:
        """Return true or false; 0 and 1 are not booleans."""
        value = self.optional_boolean(key)
        return self._required(key, default if value is None else value)

    def optional_boolean(self, key: str) -> bool | None:
        """Return true or false, or None where absent."""
        found = self._find(key)
        if found is None:
            return None
        name, value = found
        if not isinstance(value, bool):
            raise self._unexpected(name, value, "true or false")
        return value

    def text(self, key: str, *, choices: Collection[str] = (), default: str | None = None) -> str:
        """Return a string; where `choices` are given, one of them."""
        value = self.optional_text(key, choices=choices)
        return self._required(key, default if value is None else value)

    def optional_text(self, key: str, *, choices: Collection[str] = ()) -> str | None:
        """Return a string (one of `choices` where given), or None where absent."""
        found = self._find(key)
        if found is None:
            return None
        name, value = found
        if not isinstance(value, str):
            raise self._unexpected(name, value, "a string")
        if choices and value not in choices:
            raise self.error(name, f"is '{shown(value)}', expected {_either(choices)}")
        return value

    def integers(self, key: str, *, minimum: int = 0, maximum: int = _MAX_INTEGER) -> tuple[int, ...]:
        """Return a list of integers, each in ``minimum..maximum``; empty where absent."""
        return tuple(self._integer(name, item, minimum, maximum) for name, item in self._items(key))

    def numbers(self, key: str) -> tuple[float, ...]:
        """Return a list of finite numbers (at most what fp32 holds); empty where absent."""
        return tuple(self._number(name, item, -_MAX_NUMBER, _MAX_NUMBER) for name, item in self._items(key))

    def texts(self, key: str) -> tuple[str, ...]:
        """Return a list of strings; empty where absent."""
        items = self._items(key)
        for name, item in items:
            if not isinstance(item, str):
                raise self._unexpected(name, item, "a string")
        return tuple(item for _, item in items)

    def section(self, key: str) -> Config:
        """Return a nested table; errors in it name its dotted path."""
        return self._required(key, self.optional_section(key))

    def optional_section(self, key: str) -> Config | None:
        """Return a nested table, or None where absent."""
        found = self._find(key)
        if found is None:
            return None
        name, value = found
        if not isinstance(value, dict):
            raise self._unexpected(name, value, "an object {…}")
        return Config(self.where, value, f"{self.prefix}{name}.", self.asked)

    def _find(self, key: str) -> tuple[str, Any] | None:
        names = key.split("|")
        self.asked.update(self.prefix + name for name in names)
        present = [(name, self.table[name]) for name in names if self.table.get(name) is not None]
        for name, value in present[1:]:
            if not _same(value, present[0][1]):
                raise self.error(
                    present[0][0],
                    f"is {_brief(present[0][1])} but {self.prefix}{name} is {_brief(value)}",
                    "the two mean the same: keep one",
                )
        return present[0] if present else None

    def _required(self, key: str, value: _T | None) -> _T:
        if value is None:
            names = [self.prefix + name for name in key.split("|")]
            raise BadInput(f"has no {_either(names)}", where=self.where)
        return value

    def _items(self, key: str) -> list[tuple[str, Any]]:
        found = self._find(key)
        if found is None:
            return []
        name, value = found
        if not isinstance(value, list):
            raise self._unexpected(name, value, "a list […]")
        return [(f"{name}[{index}]", item) for index, item in enumerate(value)]

    def _integer(self, name: str, value: object, minimum: int, maximum: int) -> int:
        if not _is_integer(value):
            raise self._unexpected(name, value, "an integer")
        if not minimum <= value <= maximum:
            raise self.error(name, f"is {value}, expected {_range(value, minimum, maximum, _MAX_INTEGER)}")
        return value

    def _number(self, name: str, value: object, minimum: float, maximum: float) -> float:
        if not (_is_integer(value) or isinstance(value, float)):
            raise self._unexpected(name, value, "a number")
        if not minimum <= value <= maximum:
            raise self.error(name, f"is {value}, expected {_range(value, minimum, maximum, _MAX_NUMBER)}")
        return float(value)

    def _unexpected(self, name: str, value: object, expected: str) -> BadInput:
        return self.error(name, f"is {_brief(value)}, expected {expected}")


@dataclass(frozen=True)
class Rope:
    """Rotary position embedding as the config asks for it.

    Attributes:
        theta: base of the frequencies.
        kind: ``default``, or the name of a scaling rule (``linear``, ``yarn``, ``llama3``, ``longrope``, …).
        settings: table that holds the parameters of that rule; the whole config where there is no such table.
    """

    theta: float
    kind: str
    settings: Config


def read_rope(config: Config, *, default_theta: float = 10000.0, default: Mapping[str, object] | None = None) -> Rope:
    """Read ``rope_parameters {rope_theta, rope_type, …}`` or the older ``rope_theta`` with ``rope_scaling``.

    Args:
        default_theta: where no ``rope_theta`` is given.
        default: table where there is neither; None means the kind ``default``.

    Raises:
        BadInput: a wrong type, both forms present and contradicting each other, or one table per layer type; or only a
            part of a head is to be turned.
    """
    tables = [
        table for name in ("rope_parameters", "rope_scaling") if (table := config.optional_section(name)) is not None
    ]
    for table in tables:
        for name, value in table.table.items():
            if isinstance(value, dict):
                raise table.error(name, "is a table of its own", "one rope for all layers is supported")
    if not tables and default is not None:
        tables = [Config(config.where, default, f"{config.prefix}rope_parameters.")]
    kinds = [table.text("rope_type|type", default="default") for table in tables]
    if len(set(kinds)) > 1:
        raise config.error("rope_scaling", f"has the type '{shown(kinds[1])}' but rope_parameters '{shown(kinds[0])}'")
    if len(tables) > 1:
        _refuse_difference(*tables)
    thetas = {
        table.prefix + "rope_theta": theta
        for table in (*tables, config)
        if (theta := table.optional_number("rope_theta", minimum=0.0)) is not None
    }
    if len(set(thetas.values())) > 1:
        (name, theta), (other, its) = next(iter(thetas.items())), list(thetas.items())[-1]
        raise config.error(other, f"is {its} but {name} is {theta}")
    for table in (*tables, config):
        part = table.number("partial_rotary_factor", default=1.0)
        if part != 1.0:
            raise table.error("partial_rotary_factor", f"is {part:g}; only whole heads are turned")
    return Rope(
        theta=next(iter(thetas.values()), default_theta),
        kind=kinds[0] if kinds else "default",
        settings=tables[0] if tables else config,
    )


def _refuse_difference(new: Config, old: Config) -> None:
    """The two tables mean the same, so none may say what the other does not; the base may stand in one of them."""
    for name in sorted({*new.table, *old.table} - {"rope_type", "type", "rope_theta"}):
        left, right = new.table.get(name), old.table.get(name)
        if not _same(left, right):
            what = f"is {_brief(right)} but {new.prefix}{name} is {_brief(left)}"
            raise old.error(name, what, "the two mean the same: keep one table")


def _is_integer(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _same(left: object, right: object) -> bool:
    return left == right and isinstance(left, bool) == isinstance(right, bool)


def _brief(value: object) -> str:
    if isinstance(value, (dict, list)):
        return f"a {json_kind(value)}"
    if isinstance(value, str):
        return f"'{shown(value)}'"
    return {True: "true", False: "false"}[value] if isinstance(value, bool) else str(value).replace("None", "null")


def _either(names: Collection[str]) -> str:
    quoted = [f"'{shown(name)}'" for name in names]
    return quoted[0] if len(quoted) == 1 else ", ".join(quoted[:-1]) + " or " + quoted[-1]


def _range(value: float, minimum: float, maximum: float, unlimited: float) -> str:
    if minimum > -unlimited and maximum < unlimited:
        return f"{minimum} to {maximum}"
    return f"at least {minimum}" if value < minimum else f"at most {maximum}"
