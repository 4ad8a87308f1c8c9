"""What the tests of documentation pages share: their blocks, and how a shown output is compared."""

from __future__ import annotations

import re
from pathlib import Path

DOCS = Path(__file__).resolve().parents[1] / "docs"


def read_blocks(page: str, *languages: str) -> list[tuple[str, str]]:
    """The code blocks of a page in these languages, each with its language."""
    text = (DOCS / page).read_text(encoding="utf-8")
    return re.findall(rf"^```({'|'.join(languages)})\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


def comparable(output: str) -> list[str]:
    """The output's lines; in the table, times and memory differ from run to run, and so do its columns."""
    table, _, rest = output.rstrip().partition("\n\n")
    if "property" in table:
        table = re.sub(r"[\d.]+ (ms|s|min|MiB|GiB)\b", "SOME", table)
        table = "\n".join(" ".join(re.sub("─+", "─", line).split()) for line in table.splitlines())
    return [*table.splitlines(), *rest.splitlines()]


def differences(printed: str, shown: str) -> list[str]:
    """What was printed otherwise than the page shows it; a page may cut lines as a terminal does."""
    found, expected = comparable(printed), comparable(shown)
    if len(found) != len(expected):
        return [f"{len(found)} lines, and the page has {len(expected)}"]
    return [one for one, other in zip(found, expected, strict=True) if not _agrees(one, other)]


def _agrees(printed: str, shown: str) -> bool:
    cut = shown.removesuffix("…")
    return printed == shown or (cut != shown and printed.startswith(cut))
