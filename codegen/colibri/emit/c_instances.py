"""Kernels of a module: the functions with their shapes, each once, and the headers that they include."""

from __future__ import annotations

from dataclasses import replace

from colibri.emit.c_shapes import Generics, Instance
from colibri.passes.kernels import KernelSet


class Instances:
    """Kernel instances and the kernel headers they include, shared by all blocks of a module.

    Args:
        generics: takes them for code for size; None for a function for each shape.
        loops: whether all kernels take rows as a parameter, since calls differ in their number.
    """

    def __init__(self, kernels: KernelSet, generics: Generics | None = None, *, loops: bool = False) -> None:
        self.kernels = kernels
        self.generics = generics
        self.loops = loops
        self.headers: dict[str, str] = {}
        self.inner: set[str] = set()
        self.made: dict[str, Instance] = {}

    def kernel(self, stem: str, *, inner: bool = False) -> None:
        """Include the header of a kernel; an inner one stands before those that call it."""
        self.headers[stem] = f"kernels/{self.kernels.folder(stem)}/{stem}.h"
        self.inner |= {stem} if inner else set()

    def order(self) -> list[str]:
        """The headers as they are included: folder by folder, as the board prefers them. A header includes portable
        ones that it needs, and finds there already what another folder has of that name."""
        folders = self.kernels.folders

        def place(stem: str) -> tuple[bool, int, str]:
            return stem not in self.inner, folders.index(self.kernels.folder(stem)), stem

        return [self.headers[stem] for stem in sorted(self.headers, key=place)]

    def add(self, instance: Instance) -> str:
        """Register an instance; one that differs in a constant alone, such as the epsilon of a norm, gets a number."""
        if self.generics is not None:
            return self.generics.ask(instance)
        name, number = instance.name, 1
        while self.made.setdefault(name, replace(instance, name=name)) != replace(instance, name=name):
            number += 1
            name = f"{instance.name}_{number}"
        return name
