"""What `veristream reproduce --real` does: runs real brokers beside the verdicts of the models."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from veristream.cli.choices import look, write_page
from veristream.cli.failure import Exit, failures
from veristream.cli.output import echo
from veristream.errors import ModelError

if TYPE_CHECKING:
    from veristream.trials.comparison import Tried
    from veristream.trials.trial import Trial


@dataclass(frozen=True, slots=True)
class Asked:
    """The options of a run; `real` is whether it was asked for at all."""

    real: bool
    brokers: Sequence[str] = ()
    trials: Sequence[str] = ()
    keep: Path | None = None
    models: Path | None = None
    as_json: bool = False
    html_page: Path | None = None


def run_real(asked: Asked, of_searches: Sequence[str] = ()) -> None:
    """Runs the trials, prints the table, and exits with 1 if a difference has no explanation.

    Raises ModelError if options `of_searches` were given.
    """
    with failures():
        if not asked.real:
            raise ModelError("--trial and --keep belong to real brokers", hint="add --real")
        if of_searches:
            option = "--" + of_searches[0].replace("_", "-")
            raise ModelError(
                f"{option} belongs to searches, and real brokers are not searched",
                hint="leave it out, or leave out --real",
            )
        from veristream.trials.listed import find_trials

        trials = find_trials(asked.brokers, asked.trials)
        tried: list[Tried] = []
        try:
            with _folder(asked.keep) as folder:
                tried.extend(_run(trials, folder, asked.models))
        finally:
            if tried:  # those before a failure are worth as much without it
                _show(tried, asked)
        if any(one.is_unexplained for each in tried for one in each.comparisons):
            raise SystemExit(int(Exit.VIOLATED))


@contextmanager
def _folder(keep: Path | None) -> Iterator[Path]:
    """Yields the folder of brokers and recordings, which is deleted unless it was named."""
    if keep is not None:
        if keep.exists() and any(keep.iterdir()):
            raise ModelError(f"{keep} is not empty", hint="name a new folder to keep the recordings in")
        yield keep
        return
    with TemporaryDirectory(prefix="veristream-trials-") as name:
        yield Path(name)


def _run(trials: Sequence[Trial], folder: Path, models: Path | None) -> Iterator[Tried]:
    from veristream.trials.run import find_models, run
    from veristream.trials.stages.opened import audit, open_stage

    places = {one.title: number for number, one in enumerate(trials, start=1)}

    def tell(trial: Trial, what: str) -> None:
        echo(f"[{places[trial.title]}/{len(trials)}] {trial.title}: {what}", err=True)

    yield from run(trials, folder, find_models(models), open_stage, audit, tell)


def _show(tried: Sequence[Tried], asked: Asked) -> None:
    from veristream.trials import html, json, text

    if asked.as_json:
        echo(json.render_trials(tried))
    else:
        echo(text.render_trials(tried, look(full_trace=False)))
    write_page(asked.html_page, lambda: html.render_trials(tried))
