"""Timed automata as UPPAAL writes them: XML, XTA and query files to Networks."""
