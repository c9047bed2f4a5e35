"""Parses a bash command line: text in, simple commands out.

The line is parsed by tree-sitter-bash, and split into tokens by a reader of our own. A line that is parsed
with an error, whose tree does not account for each of its bytes, or of which the two differ, has a problem. Nothing is ever matched on the text of a line.
"""

from __future__ import annotations

import unicodedata

import tree_sitter_bash
from tree_sitter import Language, Node, Parser

from adh.shell.agreement import find_disagreement
from adh.shell.parsed_line import DEEPEST_LINE, LONGEST_LINE, ParsedLine
from adh.shell.statements import StatementReader
from adh.shell.word_nodes import get_text

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
    """Return why the text of a line cannot be judged whatever it means, or nothing."""
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
    r"""Whether a backslash at the end of a line makes one token of what the tree has as two, or is in one.

    In `x=a\⏎ls rm f` the tree has a program `ls`, and bash sets x to `als` and runs `rm`.
    """
    if CONTINUED in (leaf.text or b"") and leaf.type not in QUOTED_LEAVES:
        return True
    if before is None or not gap or gap.replace(CONTINUED, b""):
        return False
    stands_alone = before.type in WHOLE_OPERATORS and not before.is_named
    return not stands_alone or get_text(leaf)[:1] in OPERATOR_CHARACTERS


def begins_word(source: bytes, leaf: Node) -> bool:
    """Whether a sign of the grammar in the tree begins a word in bash: nothing parts it from what follows."""
    if leaf.parent is None or (leaf.type, leaf.parent.type) not in SIGNS_OF_WORDS:
        return False
    return source[leaf.end_byte : leaf.end_byte + 1] not in (b" ", b"\t", b"\n")
