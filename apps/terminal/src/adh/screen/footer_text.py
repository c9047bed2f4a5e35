"""The line at the foot of the screen. It is pure."""

from __future__ import annotations

from rich.cells import cell_len, set_cell_size

from adh.screen.conversation_port import FooterFacts

_SEPARATOR = "  ·  "
_SHORTEST_FOLDER = 15


def describe_session(facts: FooterFacts, tokens: int, cost: float | None, width: int) -> str:
    """Return the facts of a session in one line; what matters less is left out where it does not fit.

    Args:
        facts: folder, branch, model, session.
        tokens: the tokens so far.
        cost: in dollars; None if it is unknown.
        width: of the line, in cells.

    >>> facts = FooterFacts(folder="~/shop", branch="main", model="gemini", session="s-1")
    >>> describe_session(facts, 12_345, 0.0312, 80)
    '~/shop  ·  main  ·  gemini  ·  s-1  ·  12,345 tokens  ·  $0.03'
    >>> describe_session(facts, 12_345, 0.0312, 40)
    '~/shop  ·  main  ·  gemini'
    >>> long = FooterFacts(folder="/srv/customers/north/shop", model="gemini")
    >>> describe_session(long, 0, None, 40)
    '…ers/north/shop  ·  gemini'
    """
    price = "" if cost is None else f"${cost:.2f}" if cost >= 0.005 or not cost else "<$0.01"
    parts = [
        (0, _cut_start(facts.folder, max(_SHORTEST_FOLDER, width // 3))),
        (1, facts.branch),
        (2, facts.model),
        (5, facts.session),
        (3, f"{tokens:,} tokens" if facts.session else ""),
        (4, price if facts.session else ""),
    ]
    shown = [part for part in parts if part[1]]
    while len(shown) > 1 and cell_len(_join(shown)) > width:
        shown.remove(max(shown))
    line = _join(shown)
    return line if cell_len(line) <= width else set_cell_size(line, max(0, width - 1)) + "…"


def _cut_start(text: str, cells: int) -> str:
    while cell_len(text) > cells:
        text = "…" + text.removeprefix("…")[1:]
    return text


def _join(parts: list[tuple[int, str]]) -> str:
    return _SEPARATOR.join(text for _, text in parts)


def describe_queue(texts: list[str], width: int) -> str:
    """Return one line about the messages that wait; empty for none.

    >>> describe_queue(["Run the tests", "Then commit"], 60)
    '2 messages wait: “Run the tests” · “Then commit”'
    """
    if not texts:
        return ""
    each = max(12, (width - 20) // len(texts))
    words = [" ".join(text.split()) for text in texts]
    cut = [
        word if cell_len(word) <= each else set_cell_size(word, each - 1) + "…" for word in words
    ]
    count = "1 message waits" if len(texts) == 1 else f"{len(texts)} messages wait"
    line = f"{count}: " + " · ".join(f"“{word}”" for word in cut)
    return line if cell_len(line) <= width else set_cell_size(line, max(0, width - 1)) + "…"
