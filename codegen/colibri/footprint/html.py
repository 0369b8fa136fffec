"""The report as one HTML page that needs nothing else: no network, no font, no script but its own."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from colibri.boards.profile import MemoryKind
from colibri.emit.templates import render
from colibri.errors import in_bytes
from colibri.footprint.bars import make_bar
from colibri.footprint.expert_map import expert_map
from colibri.footprint.heat_table import heat_regions
from colibri.footprint.lifetime import HEIGHT, LEFT, PLOT_HEIGHT, PLOT_WIDTH, TOP, WIDTH, Lifetimes, lifetimes
from colibri.footprint.profile_view import profile_view
from colibri.footprint.report import Report, make_report
from colibri.footprint.tiles import MOST_ROWS, Role, Tile, region_tile, thin
from colibri.footprint.treemap import HEIGHT as MAP_HEIGHT
from colibri.footprint.treemap import WIDTH as MAP_WIDTH
from colibri.footprint.treemap import Placed, view
from colibri.package import Package, load_package
from colibri.paths import data_folder
from colibri.profile.model import Profile

if TYPE_CHECKING:
    from markupsafe import Markup

FILE_NAME = "report.html"
_SAFE_IN_SCRIPT = {ord(sign): f"\\u{ord(sign):04x}" for sign in "<>&\u2028\u2029"}


@dataclass(frozen=True)
class Card:
    """A figure that one looks for first."""

    title: str
    figure: str
    unit: str
    note: str
    level: str = ""


@dataclass(frozen=True)
class Fact:
    """A line of the head."""

    name: str
    value: str
    code: bool = False


@dataclass(frozen=True)
class FirstView:
    """A tile of the first view, as the page shows it before its script runs."""

    placed: Placed
    about: str

    @property
    def legible(self) -> bool:
        """Whether a name has room in it."""
        return self.placed.box.width > 26 and self.placed.box.height > 12


def render_html(folder: Path, *, report: Report | None = None, profile: Profile | None = None) -> str:
    """The page of a built package; byte-identical for the same input.

    Args:
        report: of this package, with what a run has shown; None measures the package.
        profile: of this package; None leaves the sections of instructions and experts out.

    Raises:
        BadInput: not a package, or not built.
        ColibriError: the rows do not add up.
    """
    report = make_report(folder) if report is None else report
    return render_page(report, load_package(folder), image=folder / report.image, profile=profile)


def render_page(
    report: Report,
    package: Package | None = None,
    *,
    image: Path | None = None,
    profile: Profile | None = None,
) -> str:
    """The page of a report; without its package there is no picture of lifetimes and less of a head.

    Args:
        image: the ELF file, to name its digest.
        profile: as in `render_html`.
    """
    from markupsafe import Markup

    whole = [region_tile(region) for region in report.regions if region.groups]
    tiles = thin(whole)
    regions = [region for region in report.regions if region.groups]
    bars = [make_bar(region, tile) for region, tile in zip(regions, whole, strict=True)]
    pictures = lifetimes(package) if package else ()
    sources = data_folder("templates") / "report"
    script = (sources / "page.js").read_text(encoding="utf-8")
    data = {
        "map": (MAP_WIDTH, MAP_HEIGHT),
        "regions": [_node(tile) for tile in tiles],
        "lifetimes": _lifetime_data(package, pictures),
    }
    page = render(
        "report/page.html.j2",
        {
            "report": report,
            "package": package,
            "style": Markup((sources / "page.css").read_text(encoding="utf-8")),
            "script": Markup(script),
            "script_digest": base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
            "data": _in_script(data),
            "facts": _facts(report, package, image),
            "cards": _cards(report, whole, pictures, profile),
            "bars": bars,
            "unused": [region for region in report.regions if not region.groups and region.limit],
            "roles": _roles(whole),
            "tiles": tiles,
            "thinned": sum(_size(tile) for tile in whole) > MOST_ROWS,
            "observed": any(part.observed is not None for tile in tiles for part in tile.parts),
            "rows": _rows(package) if package else "",
            "first_view": _first_view(tiles),
            "map_size": (MAP_WIDTH, MAP_HEIGHT),
            "pictures": pictures,
            "frame": {
                "width": WIDTH,
                "height": HEIGHT,
                "left": LEFT,
                "top": TOP,
                "across": PLOT_WIDTH,
                "down": PLOT_HEIGHT,
            },
            "heat": heat_regions(package) if package else (),
            "view": profile_view(profile) if profile else None,
            "use": expert_map(report, profile) if profile else None,
        },
    )
    # A name in a program may be no text at all.
    return page.encode("utf-8", "replace").decode("utf-8")


def _in_script(data: object) -> Markup:
    """JSON that no HTML parser takes for markup, whatever the names in it are."""
    from markupsafe import Markup

    return Markup(msgspec.json.encode(data).decode().translate(_SAFE_IN_SCRIPT))


def _node(tile: Tile) -> dict[str, object]:
    """A tile for the script: name, bytes, role, predicted, parts, and its place in the views of its ancestors."""
    places: dict[int, list[list[float] | None]] = {}
    _collect(tile, places)
    return _with_places(tile, places)


def _collect(tile: Tile, places: dict[int, list[list[float] | None]]) -> None:
    for placed in view(tile):
        levels = places.setdefault(id(placed.tile), [])
        level, box = len(placed.path), placed.box
        levels.extend([None] * (level - len(levels)))
        sides = (box.left, box.top, box.width, box.height)
        levels[level - 1] = [*(round(side, 1) for side in sides), int(placed.opened)]
    for part in tile.parts:
        _collect(part, places)


def _with_places(tile: Tile, places: dict[int, list[list[float] | None]]) -> dict[str, object]:
    node: dict[str, object] = {"n": tile.name, "b": tile.bytes, "c": tile.role.value, "v": places.get(id(tile), [])}
    if tile.short != tile.name:
        node["s"] = tile.short
    if tile.parts:
        node["k"] = [_with_places(part, places) for part in tile.parts]
    return node


def _first_view(tiles: list[Tile]) -> list[FirstView]:
    if not tiles:
        return []
    root = tiles[0]
    views = []
    for placed in view(root):
        name = _trail(root, placed.path)
        share = 100 * placed.tile.bytes / max(root.bytes, 1)
        about = f"{name}: {in_bytes(placed.tile.bytes)}, {share:.1f} % of {root.name}"
        views.append(FirstView(placed, about))
    return views


def _trail(root: Tile, path: Iterable[int]) -> str:
    names, tile = [root.name], root
    for index in path:
        tile = tile.parts[index]
        names.append(tile.name)
    return " › ".join(names)


def _lifetime_data(package: Package | None, pictures: Sequence[Lifetimes]) -> dict[str, object] | None:
    if package is None or not pictures:
        return None
    return {
        "ops": [[op.name, op.layer, op.kind] for op in package.ops],
        "plot": (LEFT, PLOT_WIDTH, WIDTH),
        "blocks": [
            {
                "arena": picture.arena,
                "live": picture.live,
                "buffers": [
                    [shape.span.name, shape.span.offset - picture.base, shape.span.bytes, shape.span.live]
                    for shape in picture.shapes
                ],
            }
            for picture in pictures
        ],
    }


def _size(tile: Tile) -> int:
    return 1 + sum(_size(part) for part in tile.parts)


def _roles(tiles: list[Tile]) -> list[Role]:
    """Roles that occur, in their order."""
    seen = {role for tile in tiles for role in tile.by_role()}
    return [role for role in Role if role in seen]


def _cards(report: Report, tiles: list[Tile], pictures: Sequence[Lifetimes], profile: Profile | None) -> list[Card]:
    cards = []
    for kind, title in ((MemoryKind.FLASH, "Flash"), (MemoryKind.RAM, "RAM")):
        regions = [region for region in report.regions if region.kind is kind and region.groups]
        if not regions:
            continue
        reserve = sum(region.reserve for region in regions)
        used = sum(region.used for region in regions) + reserve
        names = " + ".join(region.name for region in regions)
        limits = [region.limit for region in regions]
        note, over = f"in {names}", any(region.over for region in regions)
        if all(limits):
            note = f"{100 * used / sum(limits):.1f} % of {names}"
        if reserve:
            note += f", with {reserve:,} reserved"
        cards.append(Card(title, f"{used:,}", "bytes", note, "over" if over else ""))
    experts = [tile for root in tiles for tile in _experts(root)]
    if experts:
        low, high = min(tile.bytes for tile in experts), max(tile.bytes for tile in experts)
        figure = f"{low:,}" if low == high else f"{low:,}–{high:,}"
        weights = sum(group.bytes for region in report.regions for group in region.groups if group.kind == "weights")
        share = 100 * sum(tile.bytes for tile in experts) / max(weights, 1)
        cards.append(Card("One expert", figure, "bytes", f"× {len(experts)}: {share:.1f} % of weights"))
    if pictures:
        gap = sum(picture.gap for picture in pictures)
        note = "at its lower bound" if not gap else f"lower bound + {gap:,}"
        if gap and all(picture.proven for picture in pictures):
            note += ", proven least"
        cards.append(Card("Working memory", f"{sum(picture.arena for picture in pictures):,}", "bytes", note))
    stack = report.stack
    if stack is not None and stack.program.bytes is not None:
        note = f"of {stack.reserve:,} reserved" if stack.reserve else "at most"
        level = "over" if stack.overflows else ""
        cards.append(Card("Stack bound", f"{stack.program.bytes + stack.exception:,}", "bytes", note, level))
    if profile is not None:
        cost = profile.positions[-1]
        note = f"for a {profile.unit}" + (f" at position {cost.position:,}" if profile.unit == "token" else "")
        if cost.macs:
            note += f", {cost.instructions / cost.macs:.2f} per multiply-add"
        cards.append(Card("Instructions", f"{cost.instructions:,}", "", note))
    return cards


def _experts(tile: Tile) -> list[Tile]:
    """Whole experts of a tree."""
    if tile.role is Role.EXPERTS and tile.name.startswith("expert "):
        return [tile]
    return [found for part in tile.parts for found in _experts(part)]


def _facts(report: Report, package: Package | None, image: Path | None) -> list[Fact]:
    facts = [Fact("scheme", report.scheme)] if report.scheme else []
    if report.optimise:
        facts.append(Fact("code made for", report.optimise))
    if report.board:
        facts.append(Fact("board", report.board))
    if package is not None:
        model = package.model
        facts += [
            Fact("core", package.board.cpu.core),
            Fact("model", f"{model.family}, {model.parameters:,} weights"),
            Fact("experts", _expert_counts(package)),
        ]
        if package.context:
            facts.append(Fact("context", f"{package.context:,} positions in {package.kv}"))
        facts.append(Fact("prefill" if package.context else "batch", f"{_rows(package)} at once"))
        facts.append(Fact("generator", package.generator))
        facts.append(Fact("layout hash", package.abi_hash, code=True))
        facts.append(Fact("recipe hash", package.recipe_hash, code=True))
    facts.append(Fact("image", report.image, code=True))
    if image is not None and image.is_file():
        with image.open("rb") as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
        facts.append(Fact("image's SHA-256", digest[:32], code=True))
    return facts


def _rows(package: Package) -> str:
    """How much the arena is planned for."""
    count, what = (package.prefill, "token") if package.context else (package.batch, "sample")
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _expert_counts(package: Package) -> str:
    counts = package.model.experts
    each = f"{counts[0]}" if len(set(counts)) == 1 else f"{min(counts)}–{max(counts)}"
    layers = f"{len(counts)} layer{'s' if len(counts) > 1 else ''}"
    return f"{each} in {layers}, top {package.model.top_k}"
