"""Checks the appearance of a page in Chromium: wide and narrow, light and dark.

    python -m tests.browser.look report.html [FOLDER]

prints what is wrong with a page, and puts pictures of it into the folder.
"""

from __future__ import annotations

import base64
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Literal

from tests.browser.chromium import ChromiumError, Tab, find_chromium, open_chromium

SCRIPT = Path(__file__).with_name("look.js")
HEIGHT = 900
PICTURE_HEIGHT_MAX = 16_000

Scheme = Literal["light", "dark"]


@dataclass(frozen=True, slots=True)
class View:
    """The screen width and colour scheme of a check."""

    width: int
    scheme: Scheme


VIEWS = tuple(View(width, scheme) for width, scheme in product((400, 1280), ("light", "dark")))


def look_at(tab: Tab, page: Path, view: View) -> list[str]:
    """Opens the page, unfolds it, and returns its defects, each as `kind: what`."""
    tab.told.clear()
    for domain in ("Page", "Runtime", "Log", "Network"):
        tab.ask(f"{domain}.enable")
    tab.ask(
        "Emulation.setDeviceMetricsOverride",
        width=view.width, height=HEIGHT, deviceScaleFactor=1, mobile=view.width < 600,
    )  # fmt: skip
    scheme = {"name": "prefers-color-scheme", "value": view.scheme}
    tab.ask("Emulation.setEmulatedMedia", features=[scheme])
    address = page.resolve().as_uri()
    answer = tab.ask("Page.navigate", url=address)
    if "errorText" in answer:
        raise ChromiumError(f"{page} does not open: {answer['errorText']}")
    tab.wait_for("Page.loadEventFired")
    measured = tab.evaluate(SCRIPT.read_text(encoding="utf-8"))
    return [*_complaints(tab, address), *measured]


def _complaints(tab: Tab, address: str) -> Iterator[str]:
    """Returns the browser's console errors, and the external resources that the page requested."""
    for message in tab.told:
        told = message.get("params", {})
        match message.get("method"):
            case "Log.entryAdded" if told["entry"]["level"] in ("error", "warning"):
                yield f"console: {told['entry']['text']}"
            case "Runtime.consoleAPICalled" if told["type"] in ("error", "warning", "assert"):
                yield f"console: {' '.join(str(part.get('value')) for part in told['args'])}"
            case "Runtime.exceptionThrown":
                yield f"console: {told['exceptionDetails']['exception']['description'].splitlines()[0]}"
            case "Network.requestWillBeSent" if told["request"]["url"] != address:
                yield f"elsewhere: the page asks for {told['request']['url']}"


def take_picture(tab: Tab, path: Path) -> None:
    """Takes a screenshot of the whole page as PNG."""
    width, height = tab.evaluate("[innerWidth, document.documentElement.scrollHeight]")
    clip = {"x": 0, "y": 0, "width": width, "height": min(height, PICTURE_HEIGHT_MAX), "scale": 1}
    answer = tab.ask("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)
    path.write_bytes(base64.b64decode(answer["data"]))


def main(page: Path, folder: Path | None) -> int:
    """Prints the defects of a page in all views; returns 1 if there are any."""
    command = find_chromium()
    if command is None:
        sys.exit("Chromium is not installed; Debian's package is chromium")
    found = 0
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile,
        open_chromium(command, Path(profile)) as tab,
    ):
        for view in VIEWS:
            for defect in look_at(tab, page, view):
                found += 1
                sys.stdout.write(f"{view.width} px, {view.scheme}: {defect}\n")
            if folder is not None:
                folder.mkdir(parents=True, exist_ok=True)
                take_picture(tab, folder / f"{page.stem}-{view.width}-{view.scheme}.png")
    return int(found > 0)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2]) if len(sys.argv) > 2 else None))
