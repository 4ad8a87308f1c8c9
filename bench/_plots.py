"""The plots of `bench/kabis.py`, like figures 4 and 5 of the Kabis paper: throughput by payload."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from _runs import Figures
from matplotlib.axes import Axes
from matplotlib.figure import Figure

SHARES = {"none": ":", "half": "--", "all": "-"}
COLOURS = ("#4269d0", "#ff725c", "#3ca951")
PLAIN_COLOUR = "#555555"


def draw(found: Sequence[Figures], folder: Path) -> list[Path]:
    """Draws consumer and producer throughput, each as SVG and PNG; returns the files."""
    folder.mkdir(exist_ok=True)
    return [
        *_draw(found, folder / "kabis-consumer", "Consumer", lambda each: each.consumed_per_s),
        *_draw(found, folder / "kabis-producer", "Producer", lambda each: each.produced_per_s),
    ]


def _draw(found: Sequence[Figures], base: Path, whose: str, rate: Callable[[Figures], float]) -> list[Path]:
    figure = Figure(figsize=(8, 5), layout="constrained")
    axes = figure.add_subplot()
    stacks = list(dict.fromkeys(each.on for each in found))
    ours = [on for on in stacks if any(_share(each) for each in found if each.on == on)]
    for on, colour in zip(ours, COLOURS, strict=False):
        for share, style in SHARES.items():
            line = [each for each in found if each.on == on and _share(each) == share]
            _line(axes, line, rate, label=f"{on}, {share} validated", color=colour, linestyle=style)
    plain = [each for each in found if each.on not in ours and each.setting.reports]
    _line(axes, plain, rate, label="plain confluent-kafka", color=PLAIN_COLOUR, linestyle="-")
    axes.set(xscale="log", yscale="log", xlabel="payload, bytes", ylabel="events/s")
    axes.set_title(f"{whose} throughput by payload: 3 producers, 1 consumer, F = 1")
    axes.grid(visible=True, which="major", alpha=0.3)
    axes.legend(fontsize="small", ncols=2)
    paths = [base.with_suffix(suffix) for suffix in (".svg", ".png")]
    for path in paths:
        figure.savefig(path, dpi=150)
    return paths


def _share(figures: Figures) -> str | None:
    """Returns the share of validated topics if the setting belongs to the grid."""
    share = figures.setting.name.rpartition(", ")[2]
    return share if share in SHARES else None


def _line(axes: Axes, line: Sequence[Figures], rate: Callable[[Figures], float], **look: str) -> None:
    points = sorted((each.setting.size_bytes, rate(each)) for each in line)
    if points:
        axes.plot(*zip(*points, strict=True), marker="o", markersize=4, **look)
