"""Finds the expansions whose value bash evaluates as code, and here-documents that end elsewhere.

It reads nodes. It never lets an expansion pass that it does not know.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from tree_sitter import Node

from adh.shell.quoting import QuotingError, read_double_quoted, read_plain
from adh.shell.word_nodes import get_text

PLAIN_OPERATORS = frozenset(
    ["${", "}", "#", "##", "%", "%%", "/", "//", "/#", "/%", "^", "^^", ",", ",,", ":-", "-", ":+", "+", ":?", "?", ":=", "=", '"', ":", "$"]
)  # fmt: skip
ARITHMETIC_TEST_OPERATORS = frozenset({"-eq", "-ne", "-lt", "-le", "-gt", "-ge"})
NAME_TEST_OPERATORS = frozenset({"-v", "-R"})
HARMLESS_SPECIALS = frozenset({"#", "?", "$", "!"})
UNQUOTED = frozenset({"simple_expansion", "expansion", "command_substitution"})
# The text that may follow the delimiter of a here-document without being a part of it.
HEREDOC_FOLLOWERS = frozenset([bytes([one]) for one in b" \t\n;&|<>()"])
# The text that may follow the value of an assignment without being a part of it; a backslash is checked elsewhere.
AFTER_ASSIGNMENT = frozenset([b"", *(bytes([one]) for one in b" \t\n;&|)<>`")])
CODE = "bash evaluates the value of a variable as an expression there"


def walk_nodes(root: Node) -> Iterator[Node]:
    """Yield a node and all nodes below it in order."""
    stack = [root]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(reversed(node.children))


def find_expansion_problem(node: Node) -> str:
    """Return why a `${...}` cannot be judged, or nothing."""
    offset = False
    for child in node.children:
        if child.type == ":":
            offset = True
        elif child.type == "subscript":
            if problem := find_subscript_problem(child):
                return problem
        elif not child.is_named and child.type not in PLAIN_OPERATORS:
            return f"{get_text(node)!r} is an expansion that only a run can tell"
        elif offset and child.type != "number" and child.is_named:
            return CODE
    return ""


def find_parted_problem(node: Node) -> str:
    """Return why a node is not as the tree shows it, since its parts do not touch; or nothing.

    In `x=$ rm` the tree has an expansion of `rm`, and bash sets x to a dollar and runs `rm`.
    """
    parted = any(before.end_byte != after.start_byte for before, after in pairwise(node.children))
    return f"a space within {get_text(node)!r}" if parted else ""


def find_assignment_problem(node: Node, source: bytes) -> str:
    """Return why an assignment is not as the tree shows it, or nothing."""
    if source[node.end_byte : node.end_byte + 1] not in AFTER_ASSIGNMENT:
        return "an assignment that goes on after its value"
    return find_parted_problem(node)


def find_subscript_problem(node: Node) -> str:
    """Return why the index of an array cannot be judged, or nothing."""
    for child in node.children[1:]:
        if child.is_named and child.type != "number" and get_text(child) not in ("@", "*"):
            return CODE
    return ""


def find_arithmetic_problem(node: Node) -> str:
    """Return why arithmetic cannot be judged, or nothing: a name's value is evaluated again."""
    for inner in walk_nodes(node):
        if inner.child_count or not inner.is_named:
            continue
        if inner.type == "special_variable_name" and get_text(inner) in HARMLESS_SPECIALS:
            continue
        if inner.type != "number" or not get_text(inner).isascii() or not get_text(inner).isalnum():
            return CODE
    return ""


def find_test_problem(node: Node) -> str:
    """Return why `[ ... ]` or `[[ ... ]]` cannot be judged, or nothing."""
    single = node.children[0].type == "["
    if node.children[0].end_byte == node.children[1].start_byte:
        return "a word that begins with a bracket is no test"
    for inner in walk_nodes(node):
        text = get_text(inner)
        if not single and inner.type in ("<", ">") and is_followed_by(inner, node, b"("):
            return f"'{text}(' within [[ ]]"
        if inner.type in ("test_operator", "word") and text in NAME_TEST_OPERATORS:
            return CODE
        if not single and text in ARITHMETIC_TEST_OPERATORS and inner.parent is not None:
            operands = [child for child in inner.parent.children if child.id != inner.id]
            if any(find_arithmetic_problem(operand) for operand in operands):
                return CODE
        if single and inner.type in UNQUOTED and not is_harmless_in_test(inner):
            return CODE
        # An operator in [[ is a redirection or another command in [.
        if single and inner.type in ("<", ">", "&&", "||", "(", ")", "<=", ">="):
            return f"{text!r} within [ ]"
    if single and "\n" in get_text(node):
        return "a line break within [ ]"
    return ""


def is_followed_by(inner: Node, node: Node, following: bytes) -> bool:
    """Whether this byte stands right after a node, within another one."""
    place = inner.end_byte - node.start_byte
    return (node.text or b"")[place : place + 1] == following


def is_harmless_in_test(node: Node) -> bool:
    """Whether an expansion in `[ ]` makes exactly one word, or a number."""
    if node.parent is not None and node.parent.type == "string":
        return True
    return get_text(node)[1:] in HARMLESS_SPECIALS


def find_text_leaf_problem(node: Node) -> str:
    """Return why a token that should be text is not, or nothing."""
    try:
        if node.type == "string_content":
            read_double_quoted(get_text(node))
        elif node.type in ("word", "number", "extglob_pattern"):
            read_plain(get_text(node))
        elif node.type == "regex" and any(c in get_text(node) for c in "$`"):
            return "an expansion within a pattern"
        elif node.type == "variable_name" and not get_text(node).isalnum():
            name = get_text(node).replace("_", "a")
            return "" if name.isidentifier() else "a name that was not recognized"
    except QuotingError as error:
        return str(error)
    return ""


def find_heredoc_problem(node: Node, source: bytes) -> str:
    """Return why a here-document does not end where the tree says, or runs something; or nothing."""
    parts = {child.type: child for child in node.children}
    start, end = parts.get("heredoc_start"), parts.get("heredoc_end")
    if is_in_substitution(node):
        return "a here-document within a substitution"
    if start is None or end is None:
        return "a here-document without its end"
    word = get_text(start)
    quoted = any(c in word for c in "'\"\\")
    delimiter = word.strip("'\"").encode()
    if not delimiter.replace(b"_", b"a").replace(b"-", b"a").isalnum() or word not in (
        delimiter.decode(), f"'{delimiter.decode()}'", f'"{delimiter.decode()}"'
    ):  # fmt: skip
        return "a here-document with an unusual end"
    if source[start.end_byte : start.end_byte + 1] not in HEREDOC_FOLLOWERS:
        return "a here-document with an unusual end"
    body_start = source.find(b"\n", start.end_byte) + 1
    body = find_heredoc_body(source[body_start:], delimiter, strip=get_text(node).startswith("<<-"))
    if body is None or not body_start or body_start + len(body) != find_line_start(source, end):
        return "a here-document that ends elsewhere"
    if sum(child.type == "<<" for child in node.children) > 1:
        return "two here-documents in one line"
    body_node = parts.get("heredoc_body")
    if body_node is not None and body_node.start_byte < body_start:
        return "a here-document that begins elsewhere"
    if not quoted and any(mark in body for mark in (b"`", b"$(", b"${", b"$[", b"\\\n")):
        return "a here-document with commands or expansions in it"
    return ""


def is_in_substitution(node: Node) -> bool:
    """Whether a node is within `$(...)` or `<(...)`, whose text bash reads in its own way."""
    above = node.parent
    while above is not None:
        if above.type in ("command_substitution", "process_substitution"):
            return True
        above = above.parent
    return False


def find_break_problem(node: Node, source: bytes) -> str:
    """Return why the parts of a command do not belong together, or nothing."""
    if node.type == "test_command" and node.children[0].type == "[[":
        return ""
    for before, after in pairwise(node.children):
        gap = source[before.end_byte : after.start_byte].replace(b"\\\n", b"")
        if b"\n" in gap or before.type == "comment":
            return "a command that goes on after the end of its line"
    return ""


def find_line_start(source: bytes, node: Node) -> int:
    """Return where the line of a node begins."""
    return source.rfind(b"\n", 0, node.start_byte) + 1


def find_heredoc_body(rest: bytes, delimiter: bytes, *, strip: bool) -> bytes | None:
    """Return the text before the first line that is the delimiter; None if there is no such line."""
    position = 0
    for line in rest.split(b"\n"):
        if (line.lstrip(b"\t") if strip else line) == delimiter:
            return rest[:position]
        position += len(line) + 1
    return None
