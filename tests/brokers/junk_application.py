"""The application of a faulty validator: proposes everything and votes for everything."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from veristream.kabis.cometbft import abci, process
from veristream.kabis.cometbft.application import Application


@dataclass(slots=True)
class JunkApplication(Application):
    """Adds a transaction without effect to each proposal."""

    def handle(self, request: abci.Request) -> abci.Response:
        match request:
            case abci.Prepare(candidates):
                return abci.Prepared((*candidates.transactions, b"junk of " + candidates.proposer))
            case abci.Process():
                return abci.Processed(good=True)
            case _:
                return super(JunkApplication, self).handle(request)


if __name__ == "__main__":
    sys.exit(process.main(make_application=JunkApplication))
