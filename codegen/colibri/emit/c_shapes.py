"""Numbers in the code of kernels: as they are, or marked, so that kernels that differ in them alone become one.

Code for speed has a function for each shape. In code for size ops mark the numbers of a shape; once all of them have
written their calls, `Generics` makes one function of those that are alike. A number that all callers agree on stays in
it. One that is a multiple or a part of another one, such as the groups of a row, is computed from that. The others are
parameters.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

_MARK = re.compile("\x01([^\x01\x02|]*)\\|([^\x01\x02|]*)\\|([^\x01\x02|]*)\x02")
_CALL = re.compile("\x03(\\d+)\x04\\(")
_NAME = re.compile("(?:_(?:to|in|of))?_?\x01[^\x01\x02]*\x02(?:x\x01[^\x01\x02]*\x02)*")
_MOST = "most"  # in place of a type: the largest value of all, for the extent of an array


@dataclass(frozen=True)
class Instance:
    """A kernel as a C function: with constant shapes, or for all shapes of a kind."""

    name: str
    doc: str
    params: str
    body: tuple[str, ...]


def marked(name: str, value: str, kind: str = "") -> str:
    """A number of a shape.

    Args:
        name: of the parameter that it may become.
        value: of this caller, as C.
        kind: its C type; empty in comments and names.
    """
    return f"\x01{kind}|{name}|{value}\x02"


def most(name: str, value: int) -> str:
    """The extent of an array: that of the caller with the most."""
    return marked(name, str(value), _MOST)


@dataclass
class _Number:
    """A marked number of one function; ``values`` are its callers'."""

    kind: str
    values: list[str]
    text: str = ""  # in the body
    parameter: bool = False

    def numbers(self) -> list[int]:
        """The values, or nothing where not all are plain numbers."""
        return [int(one) for one in self.values] if all(one.isdigit() for one in self.values) else []


class Generics:
    """Kernels as ops ask for them, and what becomes of them."""

    def __init__(self) -> None:
        self._asked: list[Instance] = []
        self._names: list[str] = []  # of the function for each one asked for
        self._arguments: list[list[str]] = []
        self.made: list[Instance] = []

    def ask(self, instance: Instance) -> str:
        """What stands for the function's name until `finish`."""
        self._asked.append(instance)
        return f"\x03{len(self._asked) - 1}\x04"

    def finish(self) -> None:
        """Make the functions."""
        alike: dict[tuple[str, ...], list[int]] = {}
        for index, one in enumerate(self._asked):
            shape = (_NAME.sub("", one.name), one.params, *(_MARK.sub(r"\1|\2", line) for line in one.body))
            alike.setdefault(shape, []).append(index)
        self._names, self._arguments = [""] * len(self._asked), [[] for _ in self._asked]
        for (name, *_), indices in alike.items():
            known = {one.name for one in self.made}
            own, number = name, 1
            while own in known:
                number += 1
                own = f"{name}_{number}"
            self._make(own, indices)

    def called(self, names: Iterable[str]) -> list[str]:
        """What was asked for, by its function's name."""
        return [self._names[int(name[1:-1])] for name in names]

    def resolved(self, line: str) -> str:
        """A statement with the functions' names, and behind the arguments of calls those of their shapes."""
        while match := _CALL.search(line):
            index, end, depth = int(match[1]), match.end(), 1
            while depth:
                depth += (line[end] == "(") - (line[end] == ")")
                end += 1
            arguments = ", ".join([line[match.end() : end - 1], *self._arguments[index]])
            line = f"{line[: match.start()]}{self._names[index]}({arguments}){line[end:]}"
        return line

    def _make(self, name: str, indices: list[int]) -> None:
        first, numbers = self._asked[indices[0]], self._numbers(indices)
        parameters = {key: one for key, one in numbers.items() if one.parameter}
        for place, index in enumerate(indices):
            self._names[index] = name
            self._arguments[index] = [_argument(one.values[place], one.kind) for one in parameters.values()]
        shapes = "".join(f", {one.kind} {key}" for key, one in parameters.items())
        body = tuple(_with_numbers(line, numbers) for line in first.body)
        self.made.append(
            replace(first, name=name, doc=_with_numbers(first.doc, numbers), params=first.params + shapes, body=body)
        )

    def _numbers(self, indices: list[int]) -> dict[str, _Number]:
        """Numbers of a function in the order of its comment, then of its body."""
        found: dict[str, _Number] = {}
        for index in indices:
            one, own = self._asked[index], dict[str, str]()
            comment = [("", key, value) for _, key, value in _MARK.findall(one.doc)]
            for kind, key, value in [*comment, *_MARK.findall("\n".join(one.body))]:
                if own.setdefault(key, value) != value:
                    raise ValueError(f"{one.name} has two values of {key}: {own[key]} and {value}")
                number = found.setdefault(key, _Number(kind, []))
                number.kind = number.kind or kind
            for key, value in own.items():
                found[key].values.append(value)
        sources: dict[str, _Number] = {}
        for key, number in found.items():
            values = number.numbers()
            if number.kind == _MOST:
                number.text = str(max(values))
            elif values and len(set(values)) == 1:
                number.text = number.values[0]
            elif not number.kind:  # only the comment has it
                number.text = key
            elif not (values and (text := _derived(values, sources, number.kind))):
                number.text, number.parameter = key, True
                sources |= {key: number} if values else {}
            else:
                number.text = text
        return found


def _derived(values: list[int], sources: dict[str, _Number], kind: str) -> str:
    """The values as a multiple or a part of others of the same type; empty for neither."""
    for key, source in sources.items():
        pairs = list(zip(values, source.numbers(), strict=True))
        if source.kind != kind or any(other == 0 for _, other in pairs):
            continue
        if all(one == other for one, other in pairs):
            return key
        for dividend, divisor, sign in ((0, 1, "*"), (1, 0, "/")):
            ratios = {pair[dividend] // pair[divisor] for pair in pairs if pair[divisor]}
            whole = all(pair[divisor] and pair[dividend] % pair[divisor] == 0 for pair in pairs)
            if whole and len(ratios) == 1:
                return f"{key} {sign} {ratios.pop()}"
    return ""


def _argument(value: str, kind: str) -> str:
    """
    >>> _argument("rows", "int"), _argument("rows * 4", "int"), _argument("8", "int"), _argument("127", "float")
    ('(int)rows', '(int)(rows * 4)', '8', '127.0f')
    """
    if value.isdigit():
        return f"{value}.0f" if kind == "float" else value
    if kind == "uint32_t":
        return value
    return f"({kind})({value})" if " " in value else f"({kind}){value}"


def _with_numbers(line: str, numbers: dict[str, _Number]) -> str:
    def shown(match: re.Match[str]) -> str:
        kind, number = match[1], numbers[match[2]]
        text = number.text
        if text.isdigit():
            return f"{text}.0f" if kind == "float" else text
        before, behind = line[: match.start()].rstrip()[-1:], line[match.end() :].lstrip()[:1]
        whole = before in "(,[+=<" and behind in ",)+];"
        return text if " " not in text or whole or not kind else f"({text})"

    return _MARK.sub(shown, line)
