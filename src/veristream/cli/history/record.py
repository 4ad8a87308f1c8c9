"""`veristream record`: each kind of broker is a subcommand."""

from __future__ import annotations

import typer

from veristream.cli.history.record_kafka import kafka
from veristream.cli.history.record_nsq import nsq
from veristream.cli.history.record_rabbitmq import rabbitmq

app = typer.Typer(add_completion=False, no_args_is_help=True, rich_markup_mode=None)
app.command()(kafka)
app.command()(rabbitmq)
app.command()(nsq)


@app.callback()
def record() -> None:
    """Record what clients of a real broker do and see, as a history for `veristream audit`.

    \b
    veristream record kafka --faults kill        brokers on this machine that are killed and restarted
    veristream record rabbitmq --faults kill     RabbitMQ nodes on this machine
    veristream record nsq --faults kill          nsqd on this machine that lose messages

    The brokers are started on loopback and stopped at the end, unless you name ones that run.
    """
