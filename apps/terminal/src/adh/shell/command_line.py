"""Parses a bash command line: text in, simple commands out.

The line is parsed by tree-sitter-bash, and split into tokens by a reader of our own, each in its own way. A line
that is parsed with an error, whose tree does not account for each of its bytes, or of which the two differ, has a
problem: only bash knows which of them is right. Nothing is ever matched on the text of a line.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator

import tree_sitter_bash
from msgspec import Struct
from tree_sitter import Language, Node, Parser

from adh.shell.parsed_line import DEEPEST_LINE, LONGEST_LINE, ParsedLine
from adh.shell.statements import StatementReader
from adh.shell.tokens import Token, Tokenizer
from adh.shell.word_nodes import QUOTED, find_last_command, get_text
from adh.shell.word_scanner import TokenError

LANGUAGE = Language(tree_sitter_bash.language())
HARMLESS_CONTROLS = "\t\n"
HIDDEN_CATEGORIES = {"Cc", "Cf", "Cs", "Co", "Zl", "Zp", "Zs"}
# The parser needs time in the square of these.
MOST_OPERATORS = {"|": 1_000, "=(": 1_000, "<<": 500}
CONTINUED = b"\\\n"
# Where a backslash at the end of a line is text, or is removed as text.
QUOTED_LEAVES = frozenset(
    ["string_content", "raw_string", "ansi_c_string", "heredoc_body", "heredoc_content", "comment"]
)
WHOLE_OPERATORS = frozenset(["&&", "||", "|", "|&", ";", "&", "(", "{", ">", ">>", "<", "$("])
SIGNS_OF_WORDS = frozenset([("{", "compound_statement"), ("!", "negated_command")])
OPERATOR_CHARACTERS = "&|;<>()=+"
DEEPEST_TREE = DEEPEST_LINE * 5


def parse_command_line(text: str) -> ParsedLine:
    """Return every simple command of a bash command line.

    Args:
        text: the line, or several, as `bash -c` would receive it.

    >>> [command.text for command in parse_command_line("ls; echo $(rm -r x)").commands]
    ['ls', 'echo $(rm -r x)', 'rm -r x']
    >>> parse_command_line("ls 'a").problem
    'the line is not complete or not valid bash'
    """
    if problem := find_text_problem(text):
        return ParsedLine(problem=problem)
    source = text.encode()
    # A parser is not shared: two threads may parse at once.
    root = Parser(LANGUAGE).parse(source).root_node
    problem, leaves = collect_leaves(root)
    if problem:
        return ParsedLine(problem=problem)
    if not root.has_error:
        problem = find_gap(source, leaves) or find_disagreement(source, root)
    else:
        problem = "the line is not complete or not valid bash"
    reader = StatementReader(source)
    reader.read_program(root)
    return ParsedLine(tuple(reader.commands), problem or reader.problem)


def find_text_problem(text: str) -> str:
    """Return why the text of a line cannot be judged under any reading, or nothing."""
    if len(text) > LONGEST_LINE or len(text.encode(errors="replace")) > LONGEST_LINE:
        return f"the line is longer than {LONGEST_LINE} bytes"
    for operator, most in MOST_OPERATORS.items():
        if text.count(operator) > most:
            return f"the line has more than {most} times {operator!r}"
    for character in text:
        if character in HARMLESS_CONTROLS or " " <= character <= "~":
            continue
        if unicodedata.category(character) in HIDDEN_CATEGORIES:
            return f"the line has a character that cannot be seen (U+{ord(character):04X})"
    return ""


def collect_leaves(root: Node) -> tuple[str, list[Node]]:
    """Return the tokens of a tree in order, or why the tree is too deep to read."""
    leaves: list[Node] = []
    stack = [(root, 0)]
    while stack:
        node, depth = stack.pop()
        if depth > DEEPEST_TREE:
            return "the line is nested too deeply", []
        if node.child_count == 0:
            leaves.append(node)
        stack.extend((child, depth + 1) for child in reversed(node.children))
    return "", leaves


def find_gap(source: bytes, leaves: list[Node]) -> str:
    """Return where the tree does not account for a byte of the line, or nothing.

    A parser that recovers from an error in silence leaves such a gap.
    """
    end = 0
    before: Node | None = None
    for leaf in leaves:
        if is_joined(source[end : leaf.start_byte], before, leaf):
            return "a word or an operator goes on after the end of its line"
        if begins_word(source, leaf):
            return f"a word that begins with {get_text(leaf)!r} was not understood"
        before = leaf
        gap = source[end : leaf.start_byte].replace(b"\\\n", b"")
        if gap.strip(b" \t\n"):
            return f"{gap.decode(errors='replace').strip()!r} could not be parsed"
        if not leaf.is_named and get_text(leaf).strip() != leaf.type.strip():
            return f"{get_text(leaf)!r} could not be parsed"
        end = max(end, leaf.end_byte)
    return (
        f"{source[end:].decode(errors='replace')!r} could not be parsed"
        if source[end:].strip()
        else ""
    )


def is_joined(gap: bytes, before: Node | None, leaf: Node) -> bool:
    r"""Whether a backslash at the end of a line makes one token of two tokens of the tree, or is in one.

    In `x=a\⏎ls rm f` the tree has a program `ls`, and bash sets x to `als` and runs `rm`.
    """
    if CONTINUED in (leaf.text or b"") and leaf.type not in QUOTED_LEAVES:
        return True
    if before is None or not gap or gap.replace(CONTINUED, b""):
        return False
    stands_alone = before.type in WHOLE_OPERATORS and not before.is_named
    return not stands_alone or get_text(leaf)[:1] in OPERATOR_CHARACTERS


def begins_word(source: bytes, leaf: Node) -> bool:
    """Whether a sign of the grammar in the tree begins a word in bash: nothing separates it from the next character."""
    if leaf.parent is None or (leaf.type, leaf.parent.type) not in SIGNS_OF_WORDS:
        return False
    return source[leaf.end_byte : leaf.end_byte + 1] not in (b" ", b"\t", b"\n")


SUBSTITUTIONS = frozenset({"command_substitution", "process_substitution"})
EXPANDED = SUBSTITUTIONS | {"expansion", "arithmetic_expansion"}
QUOTES = EXPANDED | (QUOTED - {"translated_string"})
# A simple command ends where its line ends, or at an operator.
SIMPLE = frozenset({"command", "declaration_command", "unset_command", "variable_assignments"})
COMPOUND = frozenset(
    [
        "program", "compound_statement", "subshell", "if_statement", "elif_clause", "else_clause", "for_statement",
        "c_style_for_statement", "while_statement", "do_group", "case_statement", "case_item", "negated_command",
        "pipeline", "list", "test_command", "function_definition",
    ]
)  # fmt: skip
REDIRECTS = frozenset({"file_redirect", "heredoc_redirect", "herestring_redirect"})
OWNERS = SIMPLE | COMPOUND | SUBSTITUTIONS
DOCUMENTS = frozenset({"heredoc_body", "heredoc_end"})
# The grammar has two tokens of bash as one there.
CLOSED_DESCRIPTORS = frozenset({">&-", "<&-"})
NOT_IN_WORDS = frozenset({"keyword", "operator", "redirection", "newline", "descriptor", "comment"})
DIFFERENCE = "the line can be read in two ways"


class Place(Struct):
    """A node of the tree, and where it stands.

    Args:
        node: the node.
        owner: the statement that it belongs to.
        inner: whether it stands within `${...}` and in no command there.
        document: whether it is a part of the text of a here-document.
    """

    node: Node
    owner: Node
    inner: bool = False
    document: bool = False


def find_disagreement(source: bytes, root: Node) -> str:
    """Return where the tree of a line and its tokens differ, or nothing.

    Args:
        source: the line.
        root: its tree, without an error.
    """
    tokenizer = Tokenizer(source)
    try:
        tokenizer.read_line()
    except TokenError as error:
        return str(error)
    places = list(walk_places(root))
    quotes = {
        (quote.kind, quote.start, quote.end)
        for quote in tokenizer.quotes
        if not quote.inner or quote.kind in SUBSTITUTIONS
    }
    if quotes != set(find_quotes(places)):
        return f"{DIFFERENCE}: its quotes and expansions"
    tokens = sorted(tokenizer.tokens, key=lambda token: (token.start, -token.end))
    leaves = [place for place in places if place.node.child_count == 0]
    owners: dict[Token, list[Node]] = {}
    token_at = find_token_at(tokens, len(source))
    for place in leaves:
        problem = find_leaf_problem(place, source, token_at, owners)
        if problem:
            return f"{DIFFERENCE}: {problem}"
    problem = find_token_problem(tokens, owners, source) or find_statement_problem(tokens, owners)
    return f"{DIFFERENCE}: {problem}" if problem else ""


def walk_places(root: Node) -> Iterator[Place]:
    """Yield the nodes of a tree in order, each with where it stands."""
    stack = [Place(root, root)]
    while stack:
        place = stack.pop()
        yield place
        stack.extend(place_child(place, child) for child in reversed(place.node.children))


def place_child(place: Place, child: Node) -> Place:
    """Return where a child of a node stands."""
    node = place.node
    owner = node if node.type in OWNERS else place.owner
    if node.type in SUBSTITUTIONS and not child.is_named and child.type != ";":
        owner = place.owner  # the signs of a substitution belong to the word around it
    elif node.type == "redirected_statement" and child.type in REDIRECTS:
        owner = find_last_command(node.children[0]) or node
    inner = node.type == "expansion" or (place.inner and node.type not in SUBSTITUTIONS)
    return Place(child, owner, inner, place.document or child.type in DOCUMENTS)


def find_quotes(places: list[Place]) -> Iterator[tuple[str, int, int]]:
    """Yield the quotes and expansions of a tree as the tokenizer has them."""
    for place in places:
        node = place.node
        if node.type not in QUOTES or place.document:
            continue
        if not place.inner or node.type in SUBSTITUTIONS:
            # The grammar adds the blanks before an expansion in quotes to it.
            text = node.text or b""
            yield node.type, node.end_byte - len(text.lstrip(b" \t\n")), node.end_byte


def find_token_at(tokens: list[Token], length: int) -> list[Token | None]:
    """Return the innermost token at each byte. An outer token comes before those within it."""
    token_at: list[Token | None] = [None] * length
    for token in tokens:
        token_at[token.start : token.end] = [token] * (token.end - token.start)
    return token_at


def find_leaf_problem(
    place: Place, source: bytes, token_at: list[Token | None], owners: dict[Token, list[Node]]
) -> str:
    """Return how a leaf of the tree differs from the tokens, or nothing; and note whose its token is."""
    node = place.node
    start, end = node.start_byte, node.end_byte
    while start < end and source[start : start + 1] in (b" ", b"\t", b"\n") and not node.is_named:
        start += 1
    if start == end:
        return ""
    token = token_at[start]
    if token is None:
        return f"{get_text(node)!r} is no word"
    if place.document or token.kind == "document":
        return "" if place.document and token.kind == "document" else "a here-document"
    if get_text(node) in CLOSED_DESCRIPTORS and token.kind == "redirection":
        owners.setdefault(token, []).append(place.owner)
        closing = token_at[end - 1]
        return "" if closing is not None and closing.end == end else get_text(node)
    if any(token_at[place] is not token for place in range(start, end)):
        return f"{get_text(node)!r} is no word"
    if is_sign(node, token, source) and (start, end) != (token.start, token.end):
        return f"{get_text(node)!r} is a part of a word"
    if token.kind in NOT_IN_WORDS and (start, end) != (token.start, token.end):
        return f"{get_text(node)!r}"
    owners.setdefault(token, []).append(place.owner)
    return find_kind_problem(node, token)


def is_sign(node: Node, token: Token, source: bytes) -> bool:
    """Whether a leaf is a keyword or an operator of the grammar, and so is a whole token."""
    if node.is_named or node.parent is None or source.startswith(b"((", token.start):
        return False
    return node.parent.type in COMPOUND or node.parent.type in REDIRECTS


def find_kind_problem(node: Node, token: Token) -> str:
    """Return how a leaf that is a whole token differs from it in kind, or nothing."""
    text = get_text(node)
    if token.kind == "comment" or node.type == "comment":
        return "" if token.kind == node.type else "a comment"
    if token.kind == "descriptor" or node.type == "file_descriptor":
        return "" if node.type == "file_descriptor" and token.kind == "descriptor" else text
    if token.kind in NOT_IN_WORDS and node.is_named:
        return f"{text!r} is no word"
    is_statement = node.parent is not None and node.parent.type in COMPOUND and not node.is_named
    if is_statement and token.kind == "word" and text not in ("[", "]", "((", "))", ";"):
        return f"{text!r} is a word"
    return ""


def find_token_problem(tokens: list[Token], owners: dict[Token, list[Node]], source: bytes) -> str:
    """Return a token that the tree does not have as a whole, or nothing."""
    for token in tokens:
        found = owners.get(token, [])
        text = source[token.start : token.end].decode(errors="replace")
        if token.kind in ("keyword", "operator", "redirection", "comment") and not found:
            return f"{text!r}"
        if token.kind == "word" and len({owner.id for owner in found}) > 1:
            return f"{text!r} is one word"
    return ""


def find_statement_problem(tokens: list[Token], owners: dict[Token, list[Node]]) -> str:
    """Return where a command of the tree ends elsewhere than among the tokens, or nothing."""
    levels: dict[int, list[Token]] = {}
    for token in tokens:
        if token.kind not in ("redirection", "descriptor", "comment", "document"):
            levels.setdefault(token.level, []).append(token)
    for level in levels.values():
        parted = False
        last: Token | None = None
        for token in level:
            if token.kind in ("operator", "newline"):
                parted = True
                continue
            if token not in owners:
                continue
            if last is not None and not are_together(last, token, owners, parted=parted):
                return "where a command ends"
            last, parted = token, False
    return ""


def are_together(
    first: Token, second: Token, owners: dict[Token, list[Node]], *, parted: bool
) -> bool:
    """Whether two words next to each other may belong to these statements.

    Args:
        first: the first word.
        second: the next one in the same level.
        owners: the statements of both.
        parted: whether an operator or the end of a line stands between.
    """
    one, other = owners[first][0], owners[second][0]
    is_simple = one.type in SIMPLE or (one.type == "test_command" and get_text(one)[:2] != "[[")
    if one.id == other.id:
        return not (parted and is_simple)
    return parted or "keyword" in (first.kind, second.kind)
