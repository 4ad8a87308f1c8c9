"""The plain checker: every property as `docs/history-checks.md` defines it, slowly and obviously."""
