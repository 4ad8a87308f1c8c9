"""The one intermediate representation that languages and engines share."""
