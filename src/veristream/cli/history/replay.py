"""`veristream replay`: makes a counterexample of a model happen on a real broker."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

from veristream.cli.choices import look, read_constants, write_page
from veristream.cli.failure import Exit, failures
from veristream.cli.history.recording import needing, showing
from veristream.cli.options import ConstantOptions, HtmlOption, JsonOption
from veristream.cli.output import echo
from veristream.errors import ModelError

if TYPE_CHECKING:
    from veristream.replay.outcome import Replayed
    from veristream.replay.run import Request

EXTRAS = {"kafka": "kafka,spark", "rabbitmq": "rabbitmq,spark"}
"""What to install for each broker; NSQ needs no client."""

RunPath = Annotated[
    Path,
    typer.Argument(
        metavar="MODEL|TRACE",
        help="A model, or what `check --json` printed of one; a replay.toml stands beside the model.",
    ),
]
PropertyOption = Annotated[
    str,
    typer.Option("-p", "--property", metavar="NAME", help="The property whose counterexample is replayed."),
]
OnOption = Annotated[str, typer.Option("--on", metavar="BROKER", help="kafka, rabbitmq or nsq.")]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="PART.KEY=VALUE",
        help="A setting as of `record` (nsq: nsqd.KEY, nsqlookupd.KEY, client.channels-first), above those"
        " that the table has for the model's constants.",
    ),
]
WaitOption = Annotated[
    float,
    typer.Option(
        "--seconds", metavar="S", min=0.1, help="How long a step waits for what the run has next."
    ),
]
SteeredOption = Annotated[
    bool,
    typer.Option(
        "--steered/--unsteered",
        help="Unsteered, clients are called in the same order, and no message is held: what happens without"
        " the run's delays.",
    ),
]
ToOption = Annotated[
    Path | None,
    typer.Option(
        "--to", metavar="FOLDER", help="Keep the recording in this folder, which is empty or new."
    ),
]


def replay(
    run: RunPath,
    property_: PropertyOption = "",
    define: ConstantOptions = None,
    on: OnOption = "kafka",
    set_: SetOption = None,
    seconds: WaitOption = 30.0,
    steered: SteeredOption = True,
    to: ToOption = None,
    as_json: JsonOption = False,
    html: HtmlOption = None,
) -> None:
    """Make a counterexample of a model happen on a real broker, step by step.

    A broker is started on this machine. Clients are called in the run's order; each message that the run
    decides about waits at a proxy until the run delivers it. What happened is recorded and audited; what no
    history shows, such as the answers of nsqlookupd, is observed.

    \b
    veristream replay models/kafka_transactions/transactions.py -p no_hanging_transaction -D PRODUCERS=1
    veristream check MODEL -p NAME --json > trace.json; veristream replay trace.json -p NAME
    veristream replay MODEL -p NAME --html replay.html      the model's run beside the real one
    veristream replay MODEL -p NAME --unsteered             the same calls, and nothing is held
    veristream replay MODEL -p NAME --to run; veristream audit run/history
    veristream replay models/delivery/rabbitmq_clients.py -p handled_in_order -D REQUEUES=1 --on rabbitmq
    veristream replay models/delivery/nsq_lookup.py -p removed_stays_out --on nsq

    The outcome is `reproduced` (the same property is violated), `not reproduced` (with the step at which
    reality left the run, and what happened instead) or `not executable` (with the action that nothing real
    stands for).

    Exit code: 0 if it is reproduced, 1 if not, 4 if it cannot be executed, 2 if the model, the table or an
    option is wrong, 3 if the broker fails.
    """
    with failures():
        from veristream.cli.broker import read_settings

        with needing(on, EXTRAS.get(on, "spark")):
            from veristream.replay.run import Request
            from veristream.replay.run import replay as run_replay
            from veristream.replay.trace import find_run

            found = find_run(run, property_, read_constants(define))
            request = Request(found, on, read_settings(set_), seconds, steered)
            with _folder(to) as folder, showing() as say:
                replayed = run_replay(request, folder, lambda step: say(step.title), say)
        _show(request, replayed, as_json, html)


def _show(request: Request, replayed: Replayed, as_json: bool, html: Path | None) -> None:
    """Prints the replay and writes its page; exits with the outcome's code."""
    from veristream.replay.outcome import Outcome, outcome
    from veristream.replay.report import html as page
    from veristream.replay.report import json, text

    title = f"{request.run.model.name} {request.run.model_property}"
    echo(json.render_replay(replayed) if as_json else text.render_replay(replayed, look(False)))
    write_page(html, lambda: page.render_replay(title, request.run.trace, replayed))
    codes = {
        Outcome.REPRODUCED: Exit.HOLDS,
        Outcome.NOT_REPRODUCED: Exit.VIOLATED,
        Outcome.NOT_EXECUTABLE: Exit.UNKNOWN,
    }
    raise typer.Exit(codes[outcome(replayed.finding)])


@contextmanager
def _folder(to: Path | None) -> Iterator[Path]:
    if to is None:
        with TemporaryDirectory(prefix="veristream-replay-") as name:
            yield Path(name)
        return
    if to.exists() and any(to.iterdir()):
        raise ModelError(f"{to} is not empty", hint="name a new folder with --to")
    yield to
