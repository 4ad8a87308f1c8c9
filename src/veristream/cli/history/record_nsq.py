"""`veristream record nsq`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from veristream.cli.failure import failures
from veristream.cli.history.recording import (
    RateOption,
    SecondsOption,
    SeedOption,
    ToOption,
    needing,
    run_recording,
)

if TYPE_CHECKING:
    from veristream.recording.nsq.record import Settings

LookupdOption = Annotated[
    str,
    typer.Option(
        "--lookupd",
        metavar="HOST:PORT",
        help="Use the nsqd that run, without faults, as nsqlookupd knows them at this HTTP address.",
    ),
]
NodesOption = Annotated[int, typer.Option("--nodes", metavar="N", min=1, help="Start N nsqd.")]
ChannelsOption = Annotated[
    str,
    typer.Option("--channels", metavar="NAME,…", help="Channels of the topic; each gets every message."),
]
MemoryOption = Annotated[
    int | None,
    typer.Option(
        "--mem-queue-size",
        metavar="N",
        min=0,
        help="Messages that nsqd keeps in memory. [default: nsqd's, 10000]",
    ),
]
SyncOption = Annotated[
    int | None,
    typer.Option(
        "--sync-every", metavar="N", min=1, help="Messages per fsync of nsqd. [default: nsqd's, 2500]"
    ),
]
TimeoutOption = Annotated[
    int | None,
    typer.Option(
        "--msg-timeout",
        metavar="MS",
        min=1,
        help="After how long nsqd delivers again without FIN. [default: nsqd's, 60000]",
    ),
]
ReadyOption = Annotated[
    int, typer.Option("--rdy", metavar="N", min=1, help="Messages in flight to each consumer (RDY).")
]
HoldOption = Annotated[
    int, typer.Option("--hold", metavar="MS", min=0, help="How long a consumer keeps a message in flight.")
]
BatchOption = Annotated[
    int,
    typer.Option(
        "--batch", metavar="N", min=1, help="Messages that a producer sends at once, with MPUB if several."
    ),
]
FaultsOption = Annotated[
    str,
    typer.Option(
        "--faults",
        metavar="KIND,…",
        help="What happens to nodes, one fault after the other, each for up to 3 s: kill, pause; or none.",
    ),
]
AttemptsOption = Annotated[
    int | None,
    typer.Option(
        "--max-attempts",
        metavar="N",
        min=1,
        help="Let the audit report a message that is delivered more than N times; nsqd has no limit.",
    ),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="KEY=VALUE", help="Another option of nsqd, such as sync-timeout=1s; repeatable."
    ),
]


def nsq(
    to: ToOption = Path("nsq-history"),
    lookupd: LookupdOption = "",
    nodes: NodesOption = 2,
    mem_queue_size: MemoryOption = None,
    sync_every: SyncOption = None,
    msg_timeout: TimeoutOption = None,
    channels: ChannelsOption = "billing",
    rdy: ReadyOption = 5,
    hold: HoldOption = 50,
    batch: BatchOption = 1,
    max_attempts: AttemptsOption = None,
    faults: FaultsOption = "none",
    seconds: SecondsOption = 30.0,
    rate: RateOption = 400.0,
    set_: SetOption = None,
    seed: SeedOption = 0,
) -> None:
    """Record producers and consumers of NSQ, while nodes are killed or paused.

    Two nsqd are started on loopback; this needs Go the first time. When the time is up, all faults end, and
    a reader empties each channel at each node: without that, nobody can say what is lost.

    \b
    veristream record nsq --faults kill                                  messages in memory are lost
    veristream record nsq --faults kill --mem-queue-size 0 --sync-every 1
    veristream record nsq --msg-timeout 1000 --hold 1500                 deliveries after a timeout
    veristream record nsq --lookupd 127.0.0.1:4161                       no faults, nsqd that run already
    veristream audit nsq-history                                         what held, what did not

    Exit code: 0, 2 if an option is wrong, 3 if NSQ fails, 130 after Ctrl-C, which leaves a history that
    is not complete.
    """
    with failures():
        from veristream.cli.broker import read_settings

        with needing("NSQ", "spark"):
            from veristream.recording.faults import read_kinds
            from veristream.recording.nsq.record import Settings
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
        run_recording(to, lambda tell: _record(to, settings, tell))


def _record(to: Path, settings: Settings, tell: Callable[[str], None]) -> int:
    from veristream.recording.nsq.record import record_nsq

    def watch(seconds: float) -> None:
        left = max(0.0, settings.seconds - seconds)
        tell(f"{left:.0f} s to go" if left else "ending")

    tell("connecting" if settings.lookupd else "starting nodes")
    return record_nsq(to, settings, watch)


def _split(names: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in names.split(",") if name.strip())
