"""Mutations of models: each keeps most of a text's structure, so that many mutants get past the parser."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from random import Random

from veristream_testing.mutants.samples import Sample, all_samples
from veristream_testing.mutants.tokens import (
    Part,
    Token,
    classes_of,
    groups_of,
    items_of,
    operands_of,
    role_of,
    tokenise,
    untokenise,
)

Tokens = list[Token]

NUMBERS = (
    *("0", "1", "2", "3", "7", "8", "31", "32", "63", "64", "100", "255", "256", "1000", "32767", "32768"),
    *("65536", "1000000", "2147483647", "2147483648", "4294967296", "9223372036854775807"),
    *("9223372036854775808", "1" + "0" * 40),
)
"""Those where something begins or ends: bits, words, and what is beyond every word."""
MUTATIONS_MAX = 4


def mutant(number: int) -> Sample:
    """Returns the mutant of this number; the same one each time, in the same checkout."""
    chance = Random(f"mutant {number}")
    sample = chance.choice(all_samples())
    for _ in range(chance.choice((1, 1, 1, 1, 2, 2, MUTATIONS_MAX))):
        if sample.queries is not None and chance.random() < 0.25:
            sample = replace(sample, queries=mutate(sample.queries, "q", chance))
        else:
            sample = replace(sample, text=mutate(sample.text, sample.language, chance))
    return sample


def mutate(text: str, language: str, chance: Random) -> str:
    """Returns the text with one mutation; the first one drawn that changes it."""
    tokens = tokenise(text)
    for _ in range(20):
        change = chance.choices(list(_CHANGES), list(_CHANGES.values()))[0]
        changed = change(list(tokens), language, chance)
        if changed is not None and changed != tokens:
            return untokenise(changed)
    return text


@cache
def _pool(language: str) -> tuple[tuple[Token, ...], ...]:
    """Returns the tokens of all texts in a language: where parts of others come from."""
    texts = [one.text for one in all_samples() if one.language == language]
    if language == "q":
        texts = [one.queries for one in all_samples() if one.queries is not None]
    return tuple(tuple(tokenise(text)) for text in texts)


def _find(chance: Random) -> Callable[[Sequence[Token]], list[Part]]:
    return chance.choice((groups_of, items_of, items_of, operands_of, operands_of))


def _pair(tokens: Tokens, chance: Random) -> tuple[Part, Part] | None:
    """Returns two parts of one shape in a random order, or None if the first one drawn is alone."""
    found = _find(chance)(tokens)
    if not found:
        return None
    first = chance.choice(found)
    others = [part for part in found if part.shape == first.shape and part != first]
    return (first, chance.choice(others)) if others else None


def _one_token(tokens: Tokens, language: str, chance: Random) -> Tokens | None:
    """Deletes a token, or writes it twice."""
    if not tokens:
        return None
    at = chance.randrange(len(tokens))
    return tokens[:at] + [tokens[at]] * (2 * chance.randrange(2)) + tokens[at + 1 :]


def _delete(tokens: Tokens, language: str, chance: Random) -> Tokens | None:
    """Deletes a group or an item, the latter with what divides it from its neighbour."""
    found = chance.choice((groups_of, items_of, items_of))(tokens)
    if not found:
        return None
    part = chance.choice(found)
    start, end = part.start, part.end
    if part.divider and end < len(tokens) and tokens[end].text == part.divider:
        end += 1
    elif part.divider and start and tokens[start - 1].text == part.divider:
        start -= 1
    return tokens[:start] + tokens[end:]


def _duplicate(tokens: Tokens, language: str, chance: Random) -> Tokens | None:
    """Writes an item a second time, after another of its shape."""
    found = items_of(tokens)
    if not found:
        return None
    part = chance.choice(found)
    beside = chance.choice([other for other in found if other.shape == part.shape])
    divider = [Token("operator", part.divider)] if part.divider else []
    copy = tokens[part.start : part.end]
    return tokens[: beside.end] + divider + copy + tokens[beside.end :]


def _swap(tokens: Tokens, language: str, chance: Random) -> Tokens | None:
    """Exchanges two parts of one shape, or puts one in the place of another that contains it."""
    found = _pair(tokens, chance)
    if found is None:
        return None
    one, other = sorted(found)
    if other.start < one.end:
        return tokens[: one.start] + tokens[other.start : other.end] + tokens[one.end :]
    between = tokens[one.end : other.start]
    return [
        *tokens[: one.start],
        *tokens[other.start : other.end],
        *between,
        *tokens[one.start : one.end],
        *tokens[other.end :],
    ]


def _nest(tokens: Tokens, language: str, chance: Random) -> Tokens | None:
    """Puts a part in the place of another one, also of one that it contains."""
    found = _pair(tokens, chance)
    if found is None:
        return None
    one, other = found
    return tokens[: other.start] + tokens[one.start : one.end] + tokens[other.end :]


def _foreign(tokens: Tokens, language: str, chance: Random) -> Tokens | None:
    """Puts a part of another text of the language in the place of one of its shape."""
    find = _find(chance)
    other = chance.choice(_pool(language))
    here = find(tokens)
    if not here:
        return None
    place = chance.choice(here)
    there = [part for part in find(other) if part.shape == place.shape]
    if not there:
        return None
    part = chance.choice(there)
    return tokens[: place.start] + list(other[part.start : part.end]) + tokens[place.end :]


def _replace_of_kind(kind: str) -> Callable[[Tokens, str, Random], Tokens | None]:
    def change(tokens: Tokens, language: str, chance: Random) -> Tokens | None:
        places = [at for at, token in enumerate(tokens) if token.kind == kind]
        if not places:
            return None
        at = chance.choice(places)
        role = role_of(tokens, at)
        same = [place for place in places if role_of(tokens, place) == role]
        text = tokens[chance.choice(same if chance.random() < 0.8 else places)].text
        if kind == "number" and chance.random() < 0.6:
            text = chance.choice(NUMBERS)
        if kind == "number" and chance.random() < 0.1:
            text = f"-{text}"
        return [*tokens[:at], replace(tokens[at], text=text), *tokens[at + 1 :]]

    return change


def _operator(tokens: Tokens, language: str, chance: Random) -> Tokens | None:
    """Replaces an operator or a keyword by another of its class that texts of the language have."""
    places = [at for at, token in enumerate(tokens) if classes_of(token, language)]
    if not places:
        return None
    at = chance.choice(places)
    known = [text for text in chance.choice(classes_of(tokens[at], language)) if text in _words(language)]
    return [
        *tokens[:at],
        replace(tokens[at], text=chance.choice([tokens[at].text, *known])),
        *tokens[at + 1 :],
    ]


@cache
def _words(language: str) -> frozenset[str]:
    return frozenset(token.text for tokens in _pool(language) for token in tokens)


def _token_of_another(tokens: Tokens, language: str, chance: Random) -> Tokens | None:
    """Replaces a token by one of its kind in another text."""
    at = chance.randrange(len(tokens)) if tokens else 0
    found = [token for token in chance.choice(_pool(language)) if tokens and token.kind == tokens[at].kind]
    if not found:
        return None
    return [*tokens[:at], replace(tokens[at], text=chance.choice(found).text), *tokens[at + 1 :]]


_CHANGES: dict[Callable[[Tokens, str, Random], Tokens | None], int] = {
    _one_token: 1,
    _delete: 3,
    _duplicate: 3,
    _swap: 4,
    _nest: 4,
    _foreign: 5,
    _replace_of_kind("name"): 4,
    _replace_of_kind("number"): 7,
    _replace_of_kind("string"): 1,
    _operator: 9,
    _token_of_another: 1,
}
"""The mutations, and how often each is drawn."""
