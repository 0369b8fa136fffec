"""What Zephyr takes in its YAML files, in the parts that exports write; other keys are errors, as in Zephyr 3.5.

Read from its scripts/zephyr_module.py and scripts/schemas/twister/testsuite-schema.yaml, and from module-schema.yaml
and testsuite-schema.yaml of Zephyr 4.4, which take tags and arch_allow as a text or a list.
"""

from __future__ import annotations

from typing import Any

TEXT = {"type": "string", "minLength": 1}
COUNT = {"type": "integer", "minimum": 0}


def closed(required: tuple[str, ...] = (), **properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


def several(item: Any) -> dict[str, Any]:
    return {"type": "array", "items": item, "minItems": 1}


MODULE = closed(
    ("name", "build"),
    name={"type": "string", "pattern": "^[A-Za-z0-9_-]+$"},
    build=closed(("cmake", "kconfig"), cmake=TEXT, kconfig=TEXT, depends=several(TEXT)),
    samples=several(TEXT),
    tests=several(TEXT),
)

SCENARIO = closed(
    ("harness", "harness_config"),
    tags={"anyOf": [TEXT, several(TEXT)]},
    arch_allow={"anyOf": [TEXT, several(TEXT)]},
    min_ram=COUNT,
    min_flash=COUNT,
    timeout=COUNT,
    harness={"enum": ["console", "ztest", "pytest"]},
    harness_config=closed(("type", "regex"), type={"enum": ["one_line", "multi_line"]}, regex=several(TEXT)),
)

SAMPLE = closed(
    ("sample", "tests"),
    sample=closed(("name",), name=TEXT, description=TEXT),
    tests={
        "type": "object",
        "minProperties": 1,
        "patternProperties": {"^[A-Za-z0-9_.-]+$": SCENARIO},  # a word, and two or more of them joined by dots
        "additionalProperties": False,
    },
)
