"""The catalogue as text for a terminal, as JSON, and as a page of the documentation."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from veristream.catalogue.entry import Entry, Ruling

Rulings = Mapping[str, Sequence[Ruling]]

PAGE = "docs/history-properties.md"


def render_list(entries: Sequence[Entry], rulings: Rulings) -> str:
    """Renders every entry with its meaning and how many models prove or refute it."""
    lines: list[str] = []
    for title, chosen in _halves(entries):
        lines += [title, ""]
        for entry in chosen:
            lines += [f"  {entry.name}", f"      {entry.meaning}", f"      {_tally(rulings[entry.name])}"]
        lines.append("")
    lines.append(
        "veristream properties NAME shows who promises one, its models, and what a recording needs"
    )
    return "\n".join(lines)


def _halves(entries: Sequence[Entry]) -> Iterator[tuple[str, list[Entry]]]:
    on_histories = [entry for entry in entries if entry.on_histories]
    others = [entry for entry in entries if not entry.on_histories]
    if on_histories:
        yield "on models and on histories:", on_histories
    if others:
        yield "on models only:", others


def _tally(rulings: Sequence[Ruling]) -> str:
    proving = sum(one.proves for one in rulings)
    systems = ", ".join(dict.fromkeys(one.system for one in rulings))
    return f"models of {systems}: {proving} prove it, {len(rulings) - proving} refute it"


def render_entry(entry: Entry, rulings: Sequence[Ruling]) -> str:
    """Renders all that the catalogue says of one property."""
    lines = [entry.name, f"  {entry.meaning}", "", "promised by"]
    width = max(len(one.system) for one in entry.promises)
    lines += [f"  {one.system:<{width}}  {one.when}" for one in entry.promises]
    if entry.on_histories:
        width = max(map(len, entry.anomalies))
        lines += ["", "violated on a history by"]
        lines += [f"  {kind:<{width}}  {meaning}" for kind, meaning in entry.anomalies.items()]
        lines += ["", "a recording needs", *(f"  - {need}" for need in entry.needs)]
    else:
        lines += ["", f"not checked on histories: {entry.instead}"]
    lines += ["", "on models (veristream check MODEL ...)"]
    for one in rulings:
        lines.append(f"  {_says(one):<7}  {file_of(one)} {_options(one)}")
        lines.append(f"           {one.system}: {one.source}")
    return "\n".join(lines)


def _says(ruling: Ruling) -> str:
    return "proved" if ruling.proves else "refuted"


def file_of(ruling: Ruling) -> str:
    """Returns the model's path from the folder that contains `models`."""
    path = ruling.model.path
    return f"models/{path.parent.name}/{path.name}"


def _options(ruling: Ruling) -> str:
    constants = [f"-D {name}={value}" for name, value in ruling.model.constants.items()]
    return " ".join([*constants, "-p", shlex.quote(ruling.property)])


def render_json(entries: Sequence[Entry], rulings: Rulings) -> str:
    """Renders the output of `veristream properties --json`."""
    document = {"properties": [_document(entry, rulings[entry.name]) for entry in entries]}
    return json.dumps(document, indent=2, ensure_ascii=False)


def _document(entry: Entry, rulings: Sequence[Ruling]) -> dict[str, Any]:
    return {
        "name": entry.name,
        "meaning": entry.meaning,
        "on_histories": entry.on_histories,
        "promised_by": [{"system": one.system, "when": one.when} for one in entry.promises],
        "anomalies": [{"kind": kind, "meaning": meaning} for kind, meaning in entry.anomalies.items()],
        "needs": list(entry.needs),
        "instead": entry.instead,
        "models": [
            {
                "system": one.system,
                "name": one.model.name,
                "file": file_of(one),
                "constants": dict(one.model.constants),
                "property": one.property,
                "verdict": one.verdict,
                "proves": one.proves,
                "source": one.source,
            }
            for one in rulings
        ],
    }


_PREAMBLE = """<!-- Made from the catalogue: `pytest --update tests/unit/catalogue` writes it again. -->
# Properties of messaging systems

One property, proved on a model, checked on a real broker: this is the catalogue that joins the two.
Each entry says what the property means, who promises it and under which settings, which models prove or
refute it, and what a recording needs so that `veristream audit` can decide it.
[What is checked on a history](history-checks.md) defines each check exactly.

```sh
veristream properties                                        # the catalogue
veristream properties 'acknowledged means delivered'         # one entry
```

A model proves or refutes a property with the constants given. Check one yourself with
`veristream check MODEL -D NAME=VALUE -p PROPERTY`.
"""


def render_page(entries: Sequence[Entry], rulings: Rulings) -> str:
    """Renders the page of the documentation."""
    blocks = [_PREAMBLE.rstrip()]
    titles = {
        "on models and on histories:": "## On models and on histories",
        "on models only:": "## On models only",
    }
    for title, chosen in _halves(entries):
        blocks.append(titles[title])
        blocks += [_section(entry, rulings[entry.name]) for entry in chosen]
    return "\n\n".join(blocks) + "\n"


def _section(entry: Entry, rulings: Sequence[Ruling]) -> str:
    parts = [f"### {entry.name}", entry.meaning]
    parts.append(_table(("promised by", "under"), [(one.system, one.when) for one in entry.promises]))
    if entry.on_histories:
        parts.append(_table(("on a history", "means"), [(f"*{k}*", v) for k, v in entry.anomalies.items()]))
        parts.append("A recording needs " + "; ".join(entry.needs) + ".")
    else:
        parts.append(f"Not checked on histories: {entry.instead}.")
    rows = [(one.system, _says(one), _model(one), f"`{one.property}`", one.source) for one in rulings]
    parts.append(_table(("system", "verdict", "model", "its property", "why"), rows))
    return "\n\n".join(parts)


def _model(ruling: Ruling) -> str:
    constants = ", ".join(f"{name}={value}" for name, value in ruling.model.constants.items())
    return f"`{file_of(ruling)}`" + (f", {constants}" if constants else "")


def _table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [titles, ["---"] * len(titles), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
