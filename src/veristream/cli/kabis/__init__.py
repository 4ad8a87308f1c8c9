"""`veristream kabis`: event streaming with a choice of trust for each topic.

The commands import only typer until one of them runs, so the other verbs start without loading Kabis. The
module of the same name in `work` implements each command.
"""

from __future__ import annotations

import typer

from veristream.cli.kabis.audit import audit
from veristream.cli.kabis.backup import backup, restore
from veristream.cli.kabis.chaos import chaos
from veristream.cli.kabis.client import access, client
from veristream.cli.kabis.config import config
from veristream.cli.kabis.consume import consume
from veristream.cli.kabis.doctor import doctor
from veristream.cli.kabis.key import key
from veristream.cli.kabis.member import member
from veristream.cli.kabis.produce import produce
from veristream.cli.kabis.receipt import receipt
from veristream.cli.kabis.seal import seal
from veristream.cli.kabis.status import status
from veristream.cli.kabis.topic import topic
from veristream.cli.kabis.units import units
from veristream.cli.kabis.up import down, up
from veristream.cli.kabis.upgrade import upgrade

app = typer.Typer(add_completion=False, no_args_is_help=True, rich_markup_mode=None)
app.command()(up)
app.command()(down)
app.command()(status)
app.command()(config)
app.command()(doctor)
app.command()(backup)
app.command()(restore)
app.command()(units)
app.command()(upgrade)
app.add_typer(member, name="member")
app.add_typer(topic, name="topic")
app.command()(produce)
app.command()(consume)
app.add_typer(receipt, name="receipt")
app.add_typer(client, name="client")
app.add_typer(key, name="key")
app.add_typer(access, name="access")
app.add_typer(seal, name="seal")
app.command()(audit)
app.command()(chaos)


@app.callback()
def kabis() -> None:
    """Event streaming with a choice for each topic: Kafka's guarantees, or Byzantine fault tolerance.

    \b
    veristream kabis up --detach                          four validators, three storage parties
    veristream kabis topic create orders                  a validated topic
    echo 'two pears' | veristream kabis produce orders    an event, signed and ordered
    veristream kabis consume orders --from-beginning --max 1
    veristream kabis receipt export orders 0 --out pears.json
    veristream kabis receipt verify pears.json            offline, with only the public keys
    veristream kabis down

    All data is kept in ./kabis-data; use --data or the environment variable KABIS_DATA for another folder.
    """
