"""Runs real brokers on this machine, for tests and demonstrations.

The programs are the published releases, pinned by version and checksum, downloaded with their ecosystem's
own client (Maven, Go) and run on loopback without containers.
"""
