"""`veristream record`: each kind of broker is a subcommand."""

from __future__ import annotations

import typer

from veristream.cli.history.record_kafka import kafka
from veristream.cli.history.record_nsq import nsq
from veristream.cli.history.record_rabbitmq import rabbitmq

app = typer.Typer(add_completion=False, no_args_is_help=True, rich_markup_mode=None)
app.command(short_help="Record producers and consumers of Kafka.")(kafka)
app.command(short_help="Record producers and consumers of RabbitMQ.")(rabbitmq)
app.command(short_help="Record producers and consumers of NSQ.")(nsq)


@app.callback()
def record() -> None:
    """Record what clients of a real broker do and see, as a history for `veristream audit`.

    \b
    veristream record kafka --faults kill        Kafka brokers are killed and started again
    veristream record rabbitmq --faults kill     the same with RabbitMQ, or --url for one that runs
    veristream record nsq --faults kill          the same with NSQ, whose messages in memory are lost
    veristream audit nsq-history                 what held, what did not

    Brokers are started on loopback and stopped at the end, unless you name ones that run.
    """
