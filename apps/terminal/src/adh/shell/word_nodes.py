"""Reads the words of a command from the nodes of its syntax tree.

It reads quotes and expansions. It never decides about a command.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from tree_sitter import Node

from adh.shell.parsed_line import Word
from adh.shell.quoting import (
    Piece,
    QuotingError,
    read_ansi_c,
    read_double_quoted,
    read_plain,
)
from adh.shell.words import make_words

DYNAMIC = frozenset(
    {"simple_expansion", "expansion", "command_substitution", "arithmetic_expansion"}
)
EXPANSIONS = DYNAMIC | {"process_substitution"}
# Where these stand in an expansion, lists of braces around it may end elsewhere.
CONFUSING = frozenset("{}'\"`\\")
PLAIN = frozenset({"word", "number", "extglob_pattern", "variable_name", "test_operator", "regex"})
QUOTED = frozenset({"string", "raw_string", "ansi_c_string", "translated_string"})
WORD_TYPES = (
    DYNAMIC | PLAIN | QUOTED | {"concatenation", "process_substitution", "brace_expression"}
)
PLAIN_TOKENS = frozenset({"==", "=~", "=", "!=", "!", "-", "+", "[", "]", "{", "}", ",", "..", "%"})


def get_text(node: Node) -> str:
    """Return the text of a node."""
    return (node.text or b"").decode(errors="replace")


def find_last_command(node: Node) -> Node | None:
    """Return the simple command that a redirection at the end of a statement belongs to."""
    while node.type in ("pipeline", "list", "negated_command"):
        named = [child for child in node.children if child.is_named and child.type != "comment"]
        if not named:
            return None
        node = named[-1]
    simple = ("command", "declaration_command", "unset_command", "test_command")
    return node if node.type in simple else None


def is_word(node: Node) -> bool:
    """Whether a node is a word or a part of one."""
    return node.type in WORD_TYPES or node.type == "$" or node.type in PLAIN_TOKENS


def group_words(nodes: Iterable[Node], source: bytes) -> list[list[Node]]:
    """Return the nodes of each word: nodes that touch each other are one word."""
    groups: list[list[Node]] = []
    for node in sorted(nodes, key=lambda node: node.start_byte):
        end = groups[-1][-1].end_byte if groups else -1
        if groups and not source[end : node.start_byte].replace(b"\\\n", b""):
            groups[-1].append(node)
        else:
            groups.append([node])
    return groups


def read_words(nodes: Sequence[Node]) -> tuple[Word, ...]:
    """Return the words of the nodes of one word, usually one.

    Raises:
        QuotingError: bash would read the text otherwise.
    """
    pieces = list(read_pieces(nodes))
    text = "".join(get_text(node) for node in nodes)
    if pieces and pieces[0].kind == "plain" and pieces[0].text.startswith("#"):
        raise QuotingError("a comment where a word was expected")
    for piece, following in pairwise(pieces):
        if piece.kind == "plain" and piece.text.endswith("$") and following.text[:1] != "/":
            raise QuotingError("a dollar within a word")
    if any(piece.kind == "plain" and "{" in piece.text for piece in pieces):
        check_expansions_in_braces(nodes)
    return make_words(text, pieces)


def check_expansions_in_braces(nodes: Sequence[Node]) -> None:
    """Raise QuotingError if bash may find quotes or braces within an expansion of a word with braces.

    It reads lists of braces before it knows where `${...}` or a substitution ends.
    """
    for node in nodes:
        if node.type not in EXPANSIONS:
            check_expansions_in_braces(node.children)
        elif CONFUSING & set(get_text(node).removeprefix("${").removesuffix("}").strip("`")):
            raise QuotingError("braces beside an expansion with braces or quotes in it")


def read_pieces(nodes: Sequence[Node]) -> Iterable[Piece]:
    """Yield the pieces of these nodes in order."""
    for index, node in enumerate(nodes):
        following = nodes[index + 1] if index + 1 < len(nodes) else None
        if node.type == "$":
            yield from read_dollar(following)
        elif node.type in ("concatenation", "translated_string"):
            check_covered(node)
            yield from read_pieces(node.children)
        elif node.type in ("string", "raw_string", "ansi_c_string"):
            yield from read_quoted(node)
        elif node.type in DYNAMIC:
            if node.type == "simple_expansion" and following and get_text(following)[:1] == "{":
                # A list of braces makes other names: `$x{a,b}` is `$xa $xb`.
                raise QuotingError("a brace right after the name of a variable")
            yield read_dynamic(node, quoted=False)
        elif node.type == "process_substitution":
            yield Piece("one", "/dev/fd/")
        elif node.type == "brace_expression":
            yield Piece("many")
        elif node.child_count == 0 or node.type in PLAIN:
            yield from read_plain(get_text(node))
        else:
            raise QuotingError(f"a {node.type.replace('_', ' ')} within a word")


def read_dollar(following: Node | None) -> Iterable[Piece]:
    """Yield a lone dollar, or nothing for that of `$"..."`, a string that may be translated."""
    if following is None:
        yield Piece("plain", "$")
    elif following.type != "string":
        raise QuotingError("a dollar within a word")


def check_covered(node: Node) -> None:
    """Raise QuotingError unless the children make the whole text of a node."""
    if sum(child.end_byte - child.start_byte for child in node.children) != (
        node.end_byte - node.start_byte
    ):
        raise QuotingError("a part of a word that was not recognized")


def read_quoted(node: Node) -> Iterable[Piece]:
    """Yield the pieces of a string in quotes."""
    if node.type == "raw_string":
        yield Piece("quoted", get_text(node)[1:-1])
    elif node.type == "ansi_c_string":
        yield Piece("quoted", read_ansi_c(get_text(node)[2:-1]))
    else:
        yield from read_string(node)


def read_string(node: Node) -> Iterable[Piece]:
    """Yield the pieces of a string in double quotes."""
    source = node.text or b""
    if len(source) < 2 or source[:1] != b'"' or source[-1:] != b'"':
        raise QuotingError("a string without its quotes")
    position = 1
    pieces: list[Piece] = []
    for child in node.children:
        if child.type not in DYNAMIC:
            continue
        start = child.start_byte - node.start_byte
        pieces.append(Piece("quoted", read_double_quoted(source[position:start].decode())))
        pieces.append(read_dynamic(child, quoted=True))
        position = child.end_byte - node.start_byte
    pieces.append(Piece("quoted", read_double_quoted(source[position:-1].decode())))
    # An empty piece matters only where nothing else makes a word.
    yield from [piece for piece in pieces if piece.text or piece.kind != "quoted"] or pieces[:1]


def read_dynamic(node: Node, *, quoted: bool) -> Piece:
    """Return the piece of an expansion. `$HOME` is known; `"$@"` makes many words."""
    text = get_text(node)
    if text in ("$HOME", "${HOME}"):
        return Piece("home")
    makes_many = node.type in ("simple_expansion", "expansion") and any(c in text for c in "@*!")
    return Piece("one" if quoted and not makes_many else "many")
