"""Certificates of either kind: our validators' votes for a block, or CometBFT's for a header that names it.

Both show that more than two thirds of the validators in the genesis decided the block with this height and
id, and both are verified with the genesis alone.
"""

from __future__ import annotations

from typing import Annotated, assert_never

from veristream.kabis.protocol.codec import Reader, Writer
from veristream.kabis.protocol.cometbft_certificate import CometCertificate
from veristream.kabis.protocol.fields import by
from veristream.kabis.protocol.receipts import CommitCertificate

_NO_HEIGHT = bytes(8)
"""Height 0, which no block has. In place of our certificate's height, it announces one of CometBFT's."""


def write_certificate(writer: Writer, certificate: CommitCertificate | CometCertificate) -> None:
    """Appends a certificate of either kind."""
    match certificate:
        case CommitCertificate():
            if certificate.height == 0:
                raise ValueError("no block has height 0")
        case CometCertificate():
            writer.raw(_NO_HEIGHT)
        case _:
            assert_never(certificate)
    certificate.write(writer)


def read_certificate(reader: Reader) -> CommitCertificate | CometCertificate:
    """Takes a certificate of either kind."""
    return CometCertificate.read(reader) if reader.skip(_NO_HEIGHT) else CommitCertificate.read(reader)


Certificate = Annotated[CommitCertificate | CometCertificate, by(write_certificate, read_certificate)]
