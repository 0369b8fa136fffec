"""A real browser without a window, driven over WebDriver's HTTP with nothing but the standard library."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

PROGRAMS = ("chromium", "chromedriver")
_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
)
_KEYS = {
    "Backspace": "\ue003",
    "Tab": "\ue004",
    "Enter": "\ue007",
    "Escape": "\ue00c",
    "End": "\ue010",
    "Home": "\ue011",
    "ArrowLeft": "\ue012",
    "ArrowUp": "\ue013",
    "ArrowRight": "\ue014",
    "ArrowDown": "\ue015",
}


def missing() -> str:
    """What of the browser is not installed; empty when all is."""
    return " and ".join(name for name in PROGRAMS if shutil.which(name) is None)


class Browser:
    """One window; a page's errors and what it asks of the network are kept from `open` on."""

    def __init__(self, profile: Path) -> None:
        self._driver = subprocess.Popen(
            ["chromedriver", "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self._base = f"http://127.0.0.1:{self._port()}"
        wanted = {
            "browserName": "chrome",
            "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
            "goog:chromeOptions": {
                "binary": shutil.which("chromium"),
                "args": [*_FLAGS, f"--user-data-dir={profile}"],
            },
        }
        made = self._call("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})
        self._base += f"/session/{made['sessionId']}"

    def _port(self) -> int:
        assert self._driver.stdout is not None
        for line in self._driver.stdout:
            words = line.strip().rstrip(".").split()
            if "successfully" in words and words[-1].isdigit():
                return int(words[-1])
        raise RuntimeError("chromedriver did not start")

    def _call(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        request = urllib.request.Request(
            self._base + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise RuntimeError(error.read().decode()[:500]) from None

    def close(self) -> None:
        """End the browser, then its driver."""
        try:
            self._call("DELETE", "")
        finally:
            self._driver.terminate()
            self._driver.wait(20)

    def devtools(self, command: str, **parameters: Any) -> Any:
        """Send a command of the devtools protocol."""
        return self._call("POST", "/goog/cdp/execute", {"cmd": command, "params": parameters})

    def open(
        self, page: Path, *, width: int = 1180, height: int = 900, dark: bool = False, script: bool = True
    ) -> None:
        """Show a file."""
        self.devtools(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        still = {"name": "prefers-reduced-motion", "value": "reduce"}
        self.devtools("Emulation.setEmulatedMedia", media="", features=[scheme, still])
        self.devtools("Emulation.setScriptExecutionDisabled", value=not script)
        self.log("browser"), self.log("performance")
        self._call("POST", "/url", {"url": page.resolve().as_uri()})

    def log(self, kind: str) -> list[str]:
        """Messages since the last time: ``browser`` (errors of the page) or ``performance`` (among them requests)."""
        return [entry["message"] for entry in self._call("POST", "/se/log", {"type": kind})]

    def requests(self) -> list[str]:
        """Addresses that the page asked for."""
        events = [json.loads(message)["message"] for message in self.log("performance")]
        return [event["params"]["request"]["url"] for event in events if event["method"] == "Network.requestWillBeSent"]

    def run(self, script: str, *arguments: Any) -> Any:
        """What a function body returns in the page."""
        return self._call("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def press(self, *keys: str) -> None:
        """Strike keys by their names or letters, each down and up."""
        strokes = [_KEYS.get(key, key) for key in keys]
        actions = [{"type": kind, "value": key} for key in strokes for kind in ("keyDown", "keyUp")]
        self._call("POST", "/actions", {"actions": [{"type": "key", "id": "keyboard", "actions": actions}]})

    def point(self, x: float, y: float, *, click: bool = False) -> None:
        """Move the pointer to a place in the window, and wait until the page was told.

        The browser tells of a move with the next frame, and only if it is one: hence the step from beside.
        """
        beside = {"type": "pointerMove", "duration": 0, "x": round(x) - 1, "y": round(y)}
        moves: list[dict[str, Any]] = [beside, {**beside, "x": round(x)}]
        if click:
            moves += [{"type": "pointerDown", "button": 0}, {"type": "pointerUp", "button": 0}]
        self._call("POST", "/actions", {"actions": [{"type": "pointer", "id": "mouse", "actions": moves}]})
        frames = "const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(() => done()))"
        self._call("POST", "/execute/async", {"script": frames, "args": []})

    def picture(self, path: Path, *, whole: bool = False) -> None:
        """Save what is seen, or the whole page, as PNG."""
        if whole:
            height = self.run("return document.documentElement.scrollHeight")
            width = self.run("return innerWidth")
            self.devtools(
                "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False
            )
            time.sleep(0.1)
        path.write_bytes(base64.b64decode(self._call("GET", "/screenshot")))

    def part(self, path: Path, name: str) -> None:
        """Save the element with an id, over the whole width, as PNG."""
        top, height, width = self.run(
            "const box = document.getElementById(arguments[0]).getBoundingClientRect();"
            "return [box.top + scrollY, box.height, innerWidth]",
            name,
        )
        clip = {"x": 0, "y": top - 12, "width": width, "height": height + 24, "scale": 1}
        shot = self.devtools("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)
        path.write_bytes(base64.b64decode(shot["data"]))
