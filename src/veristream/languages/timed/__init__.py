"""Timed automata in UPPAAL's languages: reads XML, XTA and query files, and lowers them to Networks."""
