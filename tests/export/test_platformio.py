"""The PlatformIO library: its example built by `pio run` with a stand-in for a platform, run; packed by `pio pkg`."""

from __future__ import annotations

import json
import os
import re
import sys
import tarfile
from pathlib import Path

import pytest
from exporting import DEVICE, EQUAL, LANGUAGE, SENSOR, make_export, run_on_board, succeed
from platformio.dependencies import get_core_dependencies

from colibri.export.form import Label

STAND_IN = Path(__file__).parent / "platformio"
PIO = [sys.executable, "-m", "platformio"]

# The list of licences is fetched from the network; the manifest names one that is in it.
PACK = """
import sys
from platformio.package.manifest.schema import ManifestSchema
ManifestSchema.load_spdx_licenses = staticmethod(lambda: {"licenses": [{"licenseId": "Apache-2.0"}]})
from platformio.__main__ import main
sys.exit(main(["platformio", "pkg", "pack", sys.argv[1], "-o", sys.argv[2]]))
"""


def environment(home: Path) -> dict[str, str]:
    scons = home / "core/packages/tool-scons"
    scons.mkdir(parents=True)
    # In place of the SCons of PlatformIO's registry: that of the Python package.
    tool = {"type": "tool", "name": "tool-scons", "version": get_core_dependencies()["tool-scons"].removeprefix("~")}
    origin = {"owner": "platformio", "id": None, "name": "tool-scons", "requirements": None, "uri": None}
    (scons / "package.json").write_text(json.dumps({**tool, "description": "SCons"}))
    (scons / ".piopm").write_text(json.dumps({**tool, "spec": origin}))
    (scons / "scons.py").write_text("from SCons.Script.Main import main\nmain()\n")
    return {
        **os.environ,
        "HOME": str(home),
        "PLATFORMIO_CORE_DIR": str(home / "core"),
        "PLATFORMIO_SETTING_ENABLE_TELEMETRY": "no",
        "PLATFORMIO_SETTING_CHECK_PLATFORMIO_INTERVAL": "9999",
    }


@pytest.mark.parametrize("source", [SENSOR, LANGUAGE], ids=lambda path: path.name)
def test_pio_run_builds_the_example(tmp_path: Path, source: Path) -> None:
    folder = make_export(tmp_path, "platformio", source)
    project = folder / "examples/check"
    text = (project / "platformio.ini").read_text()
    own = f"[env:board]\nplatform = symlink://{STAND_IN}\nbuild_flags = -isystem {DEVICE}\n"
    (project / "platformio.ini").write_text(text.split("[env:native]")[0] + own)
    said = succeed(*PIO, "run", "-v", "-d", project, env=environment(tmp_path))
    assert re.search(r"-Os.* -ffp-contract=off.*_model\.c", said)
    image = project / ".pio/build/board/program.o"
    assert EQUAL in run_on_board(tmp_path / "package", [image], tmp_path)


def test_pio_packs_it(tmp_path: Path) -> None:
    label = Label("1.2.3", "Example-Motors", "https://example.com/model")
    folder = make_export(tmp_path, "platformio", label=label)
    out = tmp_path / "out.tar.gz"
    succeed(sys.executable, "-c", PACK, folder, out, env=environment(tmp_path))
    with tarfile.open(out) as archive:
        manifest = archive.extractfile("library.json")
        assert manifest is not None
        packed = json.load(manifest)
        names = set(archive.getnames())
    assert packed["version"] == "1.2.3" and packed["homepage"] == label.url
    assert packed["headers"] == "top1_e3_tiny_model.h" and f"include/{packed['headers']}" in names
    assert {file for one in packed["examples"] for file in one["files"]} <= {
        name.removeprefix("examples/check/") for name in names
    }
