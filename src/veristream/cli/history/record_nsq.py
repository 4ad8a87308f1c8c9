"""`veristream record nsq`."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Annotated

import typer

from veristream.cli.failure import failures

INTERRUPTED = 130
"""The exit code after Ctrl-C, as shells have it."""

ToOption = Annotated[
    Path, typer.Option("--to", metavar="FOLDER", help="Where the history goes: an empty or new folder.")
]
NodesOption = Annotated[int, typer.Option("--nodes", metavar="N", min=1, help="Number of nsqd.")]
ChannelsOption = Annotated[
    str,
    typer.Option("--channels", metavar="NAME,…", help="The channels, each of which gets every message."),
]
MemoryOption = Annotated[
    int | None,
    typer.Option(
        "--mem-queue-size", metavar="N", min=0, help="Messages in memory. [default: nsqd's, 10000]"
    ),
]
SyncOption = Annotated[
    int | None,
    typer.Option("--sync-every", metavar="N", min=1, help="Messages per fsync. [default: nsqd's, 2500]"),
]
TimeoutOption = Annotated[
    int | None,
    typer.Option(
        "--msg-timeout", metavar="MS", min=1, help="Deliver again without FIN. [default: nsqd's, 60000]"
    ),
]
ReadyOption = Annotated[int, typer.Option("--rdy", metavar="N", min=1, help="Messages in flight (RDY).")]
HoldOption = Annotated[
    int, typer.Option("--hold", metavar="MS", min=0, help="How long a consumer works on a message.")
]
BatchOption = Annotated[
    int, typer.Option("--batch", metavar="N", min=1, help="Messages per command; several go with MPUB.")
]
FaultsOption = Annotated[
    str, typer.Option("--faults", metavar="KIND,…", help="What happens to nodes: kill, pause, or none.")
]
SecondsOption = Annotated[
    float, typer.Option("--seconds", metavar="S", min=0.1, help="How long clients publish.")
]
RateOption = Annotated[
    float,
    typer.Option(
        "--rate", metavar="R", min=0, help="Commands per second of each of two publishers; 0 is no limit."
    ),
]
SeedOption = Annotated[int, typer.Option("--seed", metavar="N", help="Determines the faults.")]
AttemptsOption = Annotated[
    int | None,
    typer.Option("--max-attempts", metavar="N", min=1, help="Let the audit report deliveries above N."),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Another option of nsqd; repeatable."),
]
LookupdOption = Annotated[
    str,
    typer.Option(
        "--lookupd", metavar="HOST:PORT", help="Use the nsqd that this nsqlookupd knows (HTTP address)."
    ),
]


def nsq(
    to: ToOption = Path("nsq-history"),
    nodes: NodesOption = 2,
    channels: ChannelsOption = "billing",
    mem_queue_size: MemoryOption = None,
    sync_every: SyncOption = None,
    msg_timeout: TimeoutOption = None,
    rdy: ReadyOption = 5,
    hold: HoldOption = 50,
    batch: BatchOption = 1,
    faults: FaultsOption = "none",
    seconds: SecondsOption = 10.0,
    rate: RateOption = 200.0,
    seed: SeedOption = 0,
    max_attempts: AttemptsOption = None,
    set_: SetOption = None,
    lookupd: LookupdOption = "",
) -> None:
    """Record publishers and consumers of NSQ, while nodes are killed or paused.

    At the end all faults are over, and each channel is read to its end at each node.

    \b
    veristream record nsq --faults kill                                  messages in memory are lost
    veristream record nsq --faults kill --mem-queue-size 0 --sync-every 1
    veristream record nsq --msg-timeout 1000 --hold 1500                 deliveries after a timeout
    veristream record nsq --lookupd 127.0.0.1:4161                       nsqd that run already

    Exit code: 0, 2 if an option is wrong, 3 if NSQ fails, 130 after Ctrl-C, which leaves a history that
    is not complete.
    """
    with failures():
        from veristream.cli.broker import read_settings
        from veristream.recording.faults import read_kinds
        from veristream.recording.nsq.record import Settings, record_nsq
        from veristream.recording.nsq.workload import Plan

        settings = Settings(
            nodes=nodes,
            mem_queue_size=mem_queue_size,
            sync_every=sync_every,
            msg_timeout_ms=msg_timeout,
            options=read_settings(set_),
            lookupd=lookupd,
            plan=Plan(channels=_split(channels), batch=batch, ready=rdy, hold_s=hold / 1000),
            seconds=seconds,
            rate=rate,
            faults=read_kinds(faults),
            seed=seed,
            attempts_max=max_attempts,
        )
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C: nsqd must not be left
        try:
            events = record_nsq(to, settings)
        except KeyboardInterrupt:
            if (to / "history.json").exists():
                typer.echo(f"interrupted: {to} is a history, but not complete", err=True)
            raise typer.Exit(INTERRUPTED) from None
        typer.echo(f"{events} events in {to}")
        typer.echo(f"audit them with: veristream audit {to}")


def _split(names: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in names.split(",") if name.strip())
