"""Certificates of either kind: our validators' votes for a block, or CometBFT's for a header that names it.

Both show the same, that more than two thirds of the validators in the genesis decided the block with this
height and id, and both are verified with the genesis alone.
"""

from __future__ import annotations

from typing import assert_never

from veristream.kabis.protocol.codec import Reader, Writer
from veristream.kabis.protocol.cometbft_certificate import CometCertificate
from veristream.kabis.protocol.receipts import CommitCertificate

Certificate = CommitCertificate | CometCertificate

_OTHER_KIND = 0
"""A height that no block has: where one of ours has its height, this announces one of CometBFT's."""


def write_certificate(writer: Writer, certificate: Certificate) -> None:
    """Appends a certificate of either kind."""
    match certificate:
        case CommitCertificate():
            if certificate.height == _OTHER_KIND:
                raise ValueError("no block has height 0")
            certificate.write(writer)
        case CometCertificate():
            writer.u64(_OTHER_KIND)
            certificate.write(writer)
        case _:
            assert_never(certificate)


def read_certificate(reader: Reader) -> Certificate:
    """Takes a certificate of either kind."""
    height = reader.u64()
    if height == _OTHER_KIND:
        return CometCertificate.read(reader)
    return CommitCertificate.read_after_height(reader, height)
