"""What `veristream reproduce --real` does: runs real brokers beside the verdicts of the models."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from veristream.cli.choices import look, write_page
from veristream.cli.failure import Exit, failures
from veristream.cli.output import echo
from veristream.errors import ModelError

if TYPE_CHECKING:
    from veristream.replay.listed import Compared, Listed
    from veristream.replay.plan import Planned
    from veristream.trials.comparison import Tried
    from veristream.trials.intruders.comparison import Attacked
    from veristream.trials.intruders.outcomes import Configuration
    from veristream.trials.listed import Chosen
    from veristream.trials.trial import Trial

REPLAY = "replay"
"""What the replays of counterexamples are called where brokers are chosen."""


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


@dataclass(slots=True)
class Done:
    """What has been run so far."""

    tried: list[Tried] = field(default_factory=list)
    attacked: list[Attacked] = field(default_factory=list)
    replayed: list[Compared] = field(default_factory=list)

    def add(self, one: Tried | Attacked | Compared) -> None:
        """Adds a trial, an attacked configuration or a replay."""
        from veristream.replay.listed import Compared
        from veristream.trials.comparison import Tried

        match one:
            case Tried():
                self.tried.append(one)
            case Compared():
                self.replayed.append(one)
            case _:
                self.attacked.append(one)

    @property
    def is_unexplained(self) -> bool:
        """Whether something differs, or happened, that nobody explains."""
        compared = (one for each in self.tried for one in each.comparisons)
        cells = (one for each in self.attacked for one in each.cells)
        return (
            any(one.is_unexplained for one in compared)
            or any(one.is_unexplained for one in cells)
            or any(one.differences for one in self.replayed)
        )


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
        chosen, listed = _choose(asked)
        done = Done()
        try:
            with _folder(asked.keep) as folder:
                for each in chain(_run(chosen, folder, asked.models), _replay(listed, folder)):
                    done.add(each)
        finally:
            if done.tried or done.attacked or done.replayed:  # those before a failure are worth as much
                _show(done, asked)
        if done.is_unexplained:
            raise SystemExit(int(Exit.VIOLATED))


def _choose(asked: Asked) -> tuple[Chosen, tuple[Listed, ...]]:
    """Returns what the named brokers have, or all; a name of a trial may be that of a replay."""
    from veristream.known import find_shipped
    from veristream.replay.listed import find_replays
    from veristream.trials.listed import Chosen, choose

    models = find_shipped() if asked.models is None else asked.models
    all_replays = find_replays(models)
    named = {one.name for one in all_replays} & set(asked.trials)
    brokers = [one for one in asked.brokers if one != REPLAY]
    trials = [one for one in asked.trials if one not in named]
    wants_replays = REPLAY in asked.brokers or (not asked.brokers and (bool(named) or not asked.trials))
    replays = [one for one in all_replays if wants_replays and (not asked.trials or one.name in named)]
    if named and not wants_replays:
        trials = list(asked.trials)  # an error that names what these brokers have
    only_replays = (REPLAY in asked.brokers and not brokers) or (bool(named) and not trials)
    if only_replays and not trials:
        return Chosen((), ()), tuple(replays)
    return choose(brokers, trials), tuple(replays)


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


def _run(chosen: Chosen, folder: Path, models: Path | None) -> Iterator[Tried | Attacked]:
    from veristream.trials.intruders.outcomes import BROKER
    from veristream.trials.intruders.run import run as attack
    from veristream.trials.run import find_models, run
    from veristream.trials.stages.opened import audit, observe, open_stage

    titles = [*(one.title for one in chosen.trials), *(one.title for one in chosen.configurations)]

    def tell(one: Trial | Configuration, what: str) -> None:
        echo(f"[{titles.index(one.title) + 1}/{len(titles)}] {one.title}: {what}", err=True)

    known = find_models(models)
    yield from run(chosen.trials, folder, known, open_stage, audit, tell)
    yield from attack(chosen.configurations, folder / "brokers" / BROKER, known, observe, tell)


def _replay(listed: Sequence[Listed], folder: Path) -> Iterator[Compared]:
    from veristream.replay.listed import run_listed

    names = [one.name for one in listed]

    def tell(one: Listed) -> Callable[[Planned], None]:
        echo(f"[{names.index(one.name) + 1}/{len(names)}] {REPLAY} {one.name}", err=True)
        return lambda step: None

    yield from run_listed(listed, folder / REPLAY, tell)


def _show(done: Done, asked: Asked) -> None:
    from veristream.replay.report.html import show_listed as show_replays
    from veristream.replay.report.json import show_listed
    from veristream.replay.report.text import render_listed
    from veristream.trials import html, json, text
    from veristream.trials.intruders.text import render_attacks

    if asked.as_json:
        echo(json.render_trials(done.tried, done.attacked, [show_listed(one) for one in done.replayed]))
    else:
        drawing = look(full_trace=False)
        if done.tried:
            echo(text.render_trials(done.tried, drawing))
        if done.attacked:
            echo(render_attacks(done.attacked, drawing))
        if done.replayed:
            echo(render_listed(done.replayed, drawing))
    replays = list(show_replays(done.replayed)) if done.replayed else []
    write_page(asked.html_page, lambda: html.render_trials(done.tried, done.attacked, replays))
