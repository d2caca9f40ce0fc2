"""Logical forms of semantic parsing, compared as Dong & Lapata (2016) compare them: conjuncts may come in any order."""

from __future__ import annotations

ANY_ORDER = ("and", "or")  # operators whose arguments may come in any order


def normal(form: str) -> str:
    """A form of words and brackets with the arguments of `and` and `or` sorted.

    Closing brackets that are missing at the end are added, and those too many there are taken off, as the published
    evaluation does.
    """
    words = form.split()
    spare = words.count(")") - words.count("(")
    words = words[: len(words) - spare] if spare > 0 else words + [")"] * -spare
    open_lists: list[list[str]] = [[]]
    for word in words:
        if word == "(":
            open_lists.append([])
        elif word == ")" and len(open_lists) > 1:
            closed = open_lists.pop()
            open_lists[-1].append(f"( {' '.join(_sorted(closed))} )")
        else:
            open_lists[-1].append(word)
    return " ".join(word for items in open_lists for word in items)


def _sorted(items: list[str]) -> list[str]:
    return [items[0], *sorted(items[1:])] if items and items[0] in ANY_ORDER else items
