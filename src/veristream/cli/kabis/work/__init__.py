"""Implementation of the Kabis commands, imported when one of them runs."""
