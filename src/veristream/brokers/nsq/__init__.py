"""NSQ on this machine: nsqd and nsqlookupd, built from pinned sources."""
