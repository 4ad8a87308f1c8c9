"""What every party's process has: settings, logs, metrics and a health page."""
