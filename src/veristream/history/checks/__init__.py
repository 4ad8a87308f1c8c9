"""The fast checker: a history in columns, a bucket at a time, by the rules of `docs/history-checks.md`."""
