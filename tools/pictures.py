"""Takes the pictures of docs/index.md: runs the commands of that page, and photographs what they make.

    python -m tools.pictures

It needs Chromium, and starts a cluster of Kabis on loopback in a temporary folder, which it stops again.
"""

from __future__ import annotations

import base64
import html
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.browser.chromium import Tab, find_chromium, open_chromium
from tests.browser.look import View, look_at

ROOT = Path(__file__).resolve().parent.parent
IMAGES = ROOT / "docs" / "images"
SCALE = 1.5
MARGIN = 12

TERMINAL = """<!doctype html><meta charset="utf-8"><title>Terminal</title><style>
body { margin: 0; padding: 20px; background: #1e2127 }
pre { margin: 0; font: 14px/1.45 "DejaVu Sans Mono", monospace; color: #d7dae0 }
b { color: #8fd28f } .liar { color: #ff8f80 }
</style><pre>%s</pre>"""


def run(words: Sequence[str], folder: Path, given: str = "") -> str:
    """Runs `veristream` in the folder; returns what it prints, on both streams."""
    command = [sys.executable, "-m", "veristream.cli", *words]
    done = subprocess.run(
        command,
        cwd=folder,
        input=given,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,  # an audit that finds the liar exits with 1
    )
    return done.stdout


def prove(folder: Path) -> None:
    """Writes inbox.html: the README's model and the run that breaks its property."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    begin = text.index("```python\n") + len("```python\n")
    (folder / "inbox.py").write_text(text[begin : text.index("```", begin)], encoding="utf-8")
    run(["check", "inbox.py", "--html", "inbox.html"], folder)


def run_and_audit(folder: Path) -> None:
    """Writes cluster.html, a session with a lying storage party, and audit.html."""
    orders = "".join(f"order {number}\n" for number in range(1, 201))
    shown: list[str] = []

    def say(line: str, words: Sequence[str], given: str = "", last: int | None = None) -> None:
        told = run(["kabis", *words], folder, given).splitlines()
        shown.extend([f"$ {line}", *(told if last is None else told[-last:])])

    try:
        say(
            "veristream kabis up --detach --fault storage-1=alter",
            ["up", "--detach", "--fault", "storage-1=alter"],
        )
        say("veristream kabis topic create orders", ["topic", "create", "orders"])
        say("seq -f 'order %g' 200 | veristream kabis produce orders", ["produce", "orders"], orders)
        reading = ["consume", "orders", "--from-beginning", "--max", "200", "--nearest", "storage-1"]
        say(f"veristream kabis {' '.join(reading)} | tail -1", reading, last=2)
        say("veristream kabis status", ["status"])
        run(["kabis", "audit", "--html", "audit.html"], folder)
    finally:
        run(["kabis", "down"], folder)
    lines = map(_mark, shown)
    (folder / "cluster.html").write_text(TERMINAL % "\n".join(lines), encoding="utf-8")


def _mark(line: str) -> str:
    text = html.escape(line)
    if line.startswith("$ "):
        return f"<b>{text}</b>"
    return f'<span class="liar">{text}</span>' if line.startswith(("note:", "suspicion:")) else text


def photograph(tab: Tab, page: Path, picture: str, element: str = "html", height_max: int = 2000) -> None:
    """Writes a picture of one element of a page."""
    look_at(tab, page, View(900, "light"))
    box: list[Any] = tab.evaluate(
        f"(() => {{ const box = document.querySelector('{element}').getBoundingClientRect();"
        " return [box.x + scrollX, box.y + scrollY, box.width, box.height] })()"
    )
    around = 0 if element == "html" else MARGIN
    clip = {
        "x": max(0, box[0] - around),
        "y": max(0, box[1] - around),
        "width": box[2] + 2 * around,
        "height": min(box[3] + 2 * around, height_max),
        "scale": SCALE,
    }
    answer = tab.ask("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)
    (IMAGES / picture).write_bytes(base64.b64decode(answer["data"]))


def main() -> int:
    """Writes the three pictures."""
    chromium = find_chromium()
    if chromium is None:
        sys.exit("Chromium is not installed; Debian's package is chromium")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as place:
        folder = Path(place)
        prove(folder)
        run_and_audit(folder)
        profile = folder / "profile"
        profile.mkdir()
        with open_chromium(chromium, profile) as tab:
            photograph(tab, folder / "inbox.html", "prove.png", "svg")
            photograph(tab, folder / "cluster.html", "run.png")
            photograph(tab, folder / "audit.html", "audit.png", height_max=360)
    return 0


if __name__ == "__main__":
    sys.exit(main())
