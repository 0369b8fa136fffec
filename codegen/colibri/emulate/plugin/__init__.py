"""The QEMU plugin that counts instructions and checks memory accesses: build it, ask it, read its results."""

from colibri.emulate.plugin.build import build_plugin
from colibri.emulate.plugin.request import AddressRange, Plugin, WatchedCall, memory_check
from colibri.emulate.plugin.results import (
    CallUse,
    Finding,
    Mark,
    MemoryUse,
    Observation,
    Snapshot,
    Traffic,
    read_observation,
)

__all__ = [
    "AddressRange",
    "CallUse",
    "Finding",
    "Mark",
    "MemoryUse",
    "Observation",
    "Plugin",
    "Snapshot",
    "Traffic",
    "WatchedCall",
    "build_plugin",
    "memory_check",
    "read_observation",
]
