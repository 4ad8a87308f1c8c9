"""The verbs of recorded histories: what is checked on them, recording, auditing."""
