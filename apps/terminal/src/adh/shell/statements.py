"""Reads the statements of a syntax tree and lists every simple command in them.

It follows the working folder through `cd` and `pushd`, as far as the words show it, and never looks at the disk:
a `cd` may fail, so both folders are possible afterwards. It never skips a node that it does not know: such a node
is a problem of the line.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tree_sitter import Node

from adh.shell.parsed_line import (
    START,
    Assignment,
    Folders,
    FolderStep,
    Redirection,
    SimpleCommand,
    Word,
)
from adh.shell.quoting import QuotingError
from adh.shell.tree_checks import (
    find_arithmetic_problem,
    find_assignment_problem,
    find_break_problem,
    find_expansion_problem,
    find_heredoc_problem,
    find_parted_problem,
    find_subscript_problem,
    find_test_problem,
    find_text_leaf_problem,
    is_in_substitution,
    walk_nodes,
)
from adh.shell.word_nodes import find_last_command, get_text, group_words, is_word, read_words
from adh.shell.wrappers import UNKNOWN_OPERANDS

REDIRECTS = frozenset({"file_redirect", "heredoc_redirect", "herestring_redirect"})
FILE_OPERATORS = frozenset({"<", ">", ">>", "&>", "&>>", ">&", "<&", ">|", "<&-", ">&-"})
TOKENS = frozenset(
    [
        ";", "&", "&&", "||", "|", "|&", "(", ")", "{", "}", "!", ";;", ";&", ";;&", "if", "then",
        "elif", "else", "fi", "for", "select", "in", "do", "done", "while", "until", "case", "esac", "[[", "]]", "[", "]", "function", "\n",
    ]
)  # fmt: skip
SEQUENCES = frozenset(
    [
        "program",
        "compound_statement",
        "do_group",
        "else_clause",
        "elif_clause",
        "if_statement",
        "case_statement",
        "case_item",
        "ERROR",
    ]
)
SUBSHELLS = frozenset({"subshell", "pipeline", "command_substitution", "process_substitution"})
# Statements whose parts stand in one line, unless the line is continued.
ONE_LINE = frozenset(
    {"command", "redirected_statement", "declaration_command", "unset_command", "test_command"}
)
LOOPS = frozenset({"for_statement", "while_statement"})
NAMED_TEXT = frozenset({"comment", "heredoc_start", "heredoc_end", "file_descriptor"})


class StatementReader:
    """Collects the simple commands of a tree.

    Args:
        source: the line.
    """

    def __init__(self, source: bytes) -> None:
        self.commands: list[SimpleCommand] = []
        self.problem = ""
        self._source = source
        self._folders: Folders = START
        # The folders if the last statement succeeded, which `&&` continues with.
        self._success: Folders = START
        self._redirects: dict[int, list[Node]] = {}
        self._handlers: dict[str, Callable[[Node], None]] = {
            "list": self._read_list,
            "redirected_statement": self._read_redirected,
            "negated_command": self._read_children,
            "command": self._read_command,
            "declaration_command": self._read_declaration,
            "unset_command": self._read_declaration,
            "test_command": self._read_test,
            "variable_assignment": self._read_bare_assignment,
            "variable_assignments": self._read_children,
            "function_definition": self._read_function,
            "c_style_for_statement": self._read_c_style_for,
            **dict.fromkeys(SEQUENCES, self._read_children),
            **dict.fromkeys(SUBSHELLS, self._read_subshell),
            **dict.fromkeys(LOOPS, self._read_loop),
        }

    def read_program(self, root: Node) -> None:
        """Collect the commands of a whole tree."""
        self._read(root)

    def _read(self, node: Node) -> None:
        if node.type in ONE_LINE:
            self._record_problem(find_break_problem(node, self._source))
        handler = self._handlers.get(node.type)
        if handler is None:
            self._scan(node)
        else:
            handler(node)
        if node.type not in ("list", "command", "redirected_statement"):
            self._success = self._folders

    def _record_problem(self, problem: str) -> None:
        self.problem = self.problem or problem

    def _add(
        self,
        node: Node,
        words: Sequence[Word],
        *,
        redirections: Sequence[Redirection] = (),
        assignments: Sequence[Assignment] = (),
        problems: Sequence[str] = (),
    ) -> None:
        self.commands.append(
            SimpleCommand(
                text=get_text(node),
                words=tuple(words),
                redirections=tuple(redirections),
                assignments=tuple(assignments),
                folders=self._folders,
                problems=tuple(filter(None, problems)),
            )
        )

    def _read_children(self, node: Node) -> None:
        if node.children and node.children[0].type == "((":
            self._add(node, (), problems=(find_arithmetic_problem(node),))
            self._scan_children(node)
            return
        for child in node.children:
            self._read_child(child)

    def _read_child(self, child: Node) -> None:
        if child.type in self._handlers:
            self._read(child)
        elif child.type in TOKENS or child.type in NAMED_TEXT:
            if child.type == "comment":
                self._check_comment(child)
        else:
            self._scan(child)

    def _check_comment(self, node: Node) -> None:
        before = self._source[: node.start_byte].replace(b"\\\n", b"")[-1:]
        if before and before not in b" \t\n;&|()<>`":
            self._record_problem("a comment within a word")

    def _read_list(self, node: Node) -> None:
        left, *others = [child for child in node.children if child.type != "comment"]
        self._read(left)
        any_end, success = self._folders, self._success
        operator = ""
        for child in others:
            if child.type in ("&&", "||"):
                operator = child.type
                continue
            if child.type in TOKENS:
                continue
            self._folders = success if operator == "&&" else any_end
            self._read(child)
            success = self._success if operator == "&&" else success | self._success
            any_end |= self._folders
        self._folders, self._success = any_end, success

    def _read_subshell(self, node: Node) -> None:
        before = self._folders
        for child in node.children:
            if node.type == "pipeline":
                self._folders = before
            if child.type == "`" and ("\\" in get_text(node) or get_text(node).count("`") > 2):
                # The first backquote ends it for bash, in any quotes.
                self._record_problem("a backslash or a quoted backquote within backquotes")
            if child.type in ("$(", "`", "<(", ">(", "|", "|&") or get_text(child).strip() == "`":
                continue
            if node.type == "command_substitution" and child.type in ("file_redirect", "$"):
                self._read_bare_redirects(node, [child])
                continue
            self._read_child(child)
        self._folders = before

    def _read_loop(self, node: Node) -> None:
        if may_change_folder(node):
            self._folders |= {None}
        for child in node.children:
            if child.type == "variable_name":
                self._add(node, (), assignments=(Assignment(get_text(child), None),))
            else:
                self._read_child(child)

    def _read_c_style_for(self, node: Node) -> None:
        self._add(node, (), problems=("a loop that evaluates expressions",))
        self._read_loop_body(node)

    def _read_loop_body(self, node: Node) -> None:
        if may_change_folder(node):
            self._folders |= {None}
        for child in node.children:
            if child.type in self._handlers and child.type != "variable_assignment":
                self._read(child)
            elif child.is_named:
                self._scan(child)

    def _read_function(self, node: Node) -> None:
        name = get_text(node.children[1 if node.children[0].type == "function" else 0])
        problem = f"the function {name} may stand for another program"
        calls = [get_text(inner) for inner in walk_nodes(node) if inner.type == "command_name"]
        again = f"the function {name} runs itself" if name in calls else ""
        words = (Word("function", "function"), Word(name, name))
        self._add(node, words, problems=(problem, again))
        before = self._folders
        if may_change_folder(node):
            before = self._folders = self._folders | {None}
        for child in node.children:
            if child.type in REDIRECTS:
                self._read_bare_redirects(node, [child])
            elif child.type in self._handlers:
                self._read(child)
        self._folders = before

    def _read_redirected(self, node: Node) -> None:
        redirects = [child for child in node.children if child.type in REDIRECTS]
        bodies = [child for child in node.children if child.type not in REDIRECTS]
        target = find_last_command(bodies[0]) if bodies else None
        if target is not None:
            self._redirects.setdefault(target.id, []).extend(redirects)
        else:
            self._read_bare_redirects(node, redirects)
        for body in bodies:
            self._read_child(body)
        if not bodies:
            self._success = self._folders

    def _read_bare_redirects(self, node: Node, redirects: list[Node]) -> None:
        files, extra, problems = self._read_redirects(redirects)
        if extra:
            problems.append("words after a redirection of a group")
        if files or problems:
            self._add(node, (), redirections=tuple(files), problems=tuple(problems))
        self._scan_redirects(redirects)

    def _read_redirects(
        self, redirects: Sequence[Node]
    ) -> tuple[list[Redirection], list[Node], list[str]]:
        files: list[Redirection] = []
        extra: list[Node] = []
        problems: list[str] = []
        for node in redirects:
            before = self._source[max(0, node.start_byte - 1) : node.start_byte]
            if before == b"}" or before.isdigit():
                problems.append("a redirection of a descriptor that was not recognized")
            if node.type != "heredoc_redirect":
                problems.append(find_break_problem(node, self._source))
            if node.type == "heredoc_redirect":
                problems.append(find_heredoc_problem(node, self._source))
                nested = [child for child in node.children if child.type in REDIRECTS]
                inner_files, inner_extra, inner_problems = self._read_redirects(nested)
                files += inner_files
                extra += inner_extra + [child for child in node.children if is_word(child)]
                problems += inner_problems
            elif node.type == "file_redirect":
                self._read_file_redirect(node, files, extra, problems)
            else:
                words = [child for child in node.children if is_word(child)]
                extra += [n for group in group_words(words, self._source)[1:] for n in group]
        return files, extra, [problem for problem in problems if problem]

    def _read_file_redirect(
        self, node: Node, files: list[Redirection], extra: list[Node], problems: list[str]
    ) -> None:
        operators = [child.type for child in node.children if child.type in FILE_OPERATORS]
        words = [child for child in node.children if is_word(child) and child.type != "-"]
        others = len(node.children) - len(operators) - len(words)
        if node.children and node.children[0].type == "file_descriptor":
            others -= 1
        if len(operators) != 1 or others:
            problems.append("a redirection that was not recognized")
            return
        groups = group_words(words, self._source)
        for group in groups[1:]:
            extra.extend(group)
        if not groups:
            if operators[0] not in ("<&-", ">&-"):
                problems.append("a redirection without its file")
            return
        if operators[0] in ("<&-", ">&-"):
            extra.extend(groups[0])
            return
        targets, problem = self._read_word(groups[0])
        if problem or len(targets) != 1 or targets[0].pattern:
            problems.append(problem or "a redirection to a pattern")
            return
        target = targets[0]
        is_descriptor = operators[0] in (">&", "<&") and target.value is not None
        if is_descriptor and (target.value or "").rstrip("-").isdigit():
            return
        if operators[0] in (">&", "<&") and target.value == "-":
            return
        files.append(Redirection(operators[0], target))

    def _read_word(self, nodes: Sequence[Node]) -> tuple[tuple[Word, ...], str]:
        try:
            return read_words(nodes), ""
        except QuotingError as error:
            text = "".join(get_text(node) for node in nodes)
            return (Word(text, None, many=True),), f"{text!r} was not understood: {error}"

    def _read_command(self, node: Node) -> None:
        redirects = [child for child in node.children if child.type in REDIRECTS]
        redirects += self._redirects.pop(node.id, [])
        files, extra, problems = self._read_redirects(redirects)
        names = [c for c in node.children if c.type == "command_name"]
        parts = [inner for name in names for inner in name.children] + extra
        assignments: list[Assignment] = []
        for child in node.children:
            if child.type == "variable_assignment":
                assignments.append(self._read_assignment(child, problems))
            elif is_word(child):
                parts.append(child)
            elif child.type not in REDIRECTS and child.type not in ("command_name", "comment"):
                problems.append(f"a {child.type} among the words of a command")
        words: list[Word] = []
        groups = group_words(parts, self._source)
        for group in groups:
            made, problem = self._read_word(group)
            words.extend(made)
            problems.append(problem)
        if not assignments:
            problems.append(find_keyword_problem(words, groups, redirects))
        if words and words[0].value == "coproc" and is_in_substitution(node):
            # Some versions of bash run a program named COPROC there.
            problems.append("a coprocess within a substitution")
        self._add(
            node, words, redirections=tuple(files), assignments=tuple(assignments),
            problems=tuple(problems),
        )  # fmt: skip
        self._scan_children(node, skip=REDIRECTS)
        self._scan_redirects(redirects)
        self._folders, self._success = change_folders(words, self._folders)

    def _read_assignment(self, node: Node, problems: list[str]) -> Assignment:
        target, *rest = node.children
        problems.append(find_assignment_problem(node, self._source))
        if target.type == "subscript":
            problems.append(find_subscript_problem(target))
            name = get_text(target.children[0])
        else:
            name = get_text(target)
        if not (name.isascii() and name.isidentifier()):
            problems.append(f"{name!r} is no name of a variable, and so no assignment")
        values = [child for child in rest[1:] if is_word(child)]
        if not values or len(values) != len(rest[1:]):
            return Assignment(name, None if rest[1:] else Word("", ""))
        made, problem = self._read_word(values)
        problems.append(problem)
        return Assignment(name, made[0] if len(made) == 1 else None)

    def _read_bare_assignment(self, node: Node) -> None:
        problems: list[str] = []
        assignment = self._read_assignment(node, problems)
        self._add(node, (), assignments=(assignment,), problems=tuple(problems))
        self._scan_children(node)

    def _read_declaration(self, node: Node) -> None:
        redirects = self._redirects.pop(node.id, [])
        files, extra, problems = self._read_redirects(redirects)
        first, *others = node.children
        assignments: list[Assignment] = []
        parts = list(extra)
        for child in others:
            if child.type == "variable_assignment":
                assignments.append(self._read_assignment(child, problems))
            elif is_word(child):
                parts.append(child)
            else:
                problems.append(f"a {child.type} among the words of a command")
        words = [Word(get_text(first), get_text(first))]
        for group in group_words(parts, self._source):
            made, problem = self._read_word(group)
            words.extend(made)
            problems.append(problem)
        self._add(
            node, words, redirections=tuple(files), assignments=tuple(assignments),
            problems=tuple(problems),
        )  # fmt: skip
        self._scan_children(node)
        self._scan_redirects(redirects)

    def _read_test(self, node: Node) -> None:
        redirects = self._redirects.pop(node.id, [])
        files, extra, problems = self._read_redirects(redirects)
        problems.append(find_test_problem(node))
        if extra:
            problems.append("words after a test")
        name = get_text(node.children[0])
        words = (Word(name, name), UNKNOWN_OPERANDS) if name in ("[", "[[") else ()
        self._add(node, words, redirections=tuple(files), problems=tuple(problems))
        self._scan_children(node)
        self._scan_redirects(redirects)

    def _scan_redirects(self, redirects: Sequence[Node]) -> None:
        for redirect in redirects:
            for child in redirect.children:
                if child.type in REDIRECTS:
                    self._scan_redirects([child])
                elif child.type in self._handlers:
                    self._read(child)
                elif child.type == "heredoc_body":
                    self._scan_heredoc(child)
                elif child.is_named and child.type not in NAMED_TEXT:
                    self._scan(child)

    def _scan_heredoc(self, node: Node) -> None:
        for child in node.children:
            if child.type != "heredoc_content":
                self._scan(child)

    def _scan_children(self, node: Node, skip: frozenset[str] = frozenset()) -> None:
        for child in node.children:
            if child.type not in skip:
                self._scan(child)

    def _scan(self, node: Node) -> None:
        """Collect the commands within a word or an expression."""
        if node.type in ("command_substitution", "process_substitution"):
            self._read_subshell(node)
            return
        if node.type in self._handlers and node.type != "variable_assignment":
            self._read(node)
            return
        problem = ""
        if node.type == "simple_expansion":
            problem = find_parted_problem(node)
        elif node.type == "expansion":
            problem = find_expansion_problem(node)
            self._check_assigning(node)
        elif node.type == "arithmetic_expansion":
            problem = find_arithmetic_problem(node)
        elif node.child_count == 0 and node.is_named:
            problem = find_text_leaf_problem(node)
        if problem:
            self._add(node, (), problems=(problem,))
        self._scan_children(node)

    def _check_assigning(self, node: Node) -> None:
        if any(child.type in (":=", "=") for child in node.children):
            name = next((c for c in node.children if c.type == "variable_name"), None)
            if name is not None:
                self._add(node, (), assignments=(Assignment(get_text(name), None),))


OPTIONS = {"time": ("-p", "--"), "coproc": ()}
"""The options of bash after each word of its grammar, in this order and without quotes."""


def find_keyword_problem(
    words: Sequence[Word], groups: Sequence[Sequence[Node]], redirects: Sequence[Node]
) -> str:
    """Return why the program after bash's word `time` or `coproc` is not certain, or nothing.

    After these, a word that begins with a dash is itself the program: `time -p -p` runs `-p`. The program
    `time`, which bash runs after a pipe, has other options.

    Args:
        words: the words of a command that sets no variables.
        groups: the nodes of its words.
        redirects: the nodes of its redirections.
    """
    taken = 0
    while taken < len(words) and words[taken].text in OPTIONS:
        options = OPTIONS[words[taken].text]
        taken += 1
        for option in options:
            taken += taken < len(words) and words[taken].text == option
    starts = [group[0].start_byte for group in groups]
    places = [redirect.start_byte for redirect in redirects]
    if not taken or any(place < starts[0] for place in places):
        # After a redirection it is a program, as any other word.
        return ""
    following = words[taken : taken + 1]
    if following and (following[0].value or following[0].prefix).startswith("-"):
        return f"{following[0].text!r} is an option or the program that is run"
    if any(place < starts[taken - 1] for place in places):
        return "a redirection before an option of the shell's grammar"
    return ""


CHANGING = frozenset({"cd", "pushd", "popd"})
PASSING = frozenset({"builtin", "command", "eval", "source", "."})
MOST_FOLDERS = 16


def may_change_folder(node: Node) -> bool:
    """Whether a command below the node changes the folder; a name in quotes counts as one."""
    for inner in walk_nodes(node):
        if inner.type == "command_name":
            text = get_text(inner).replace("\\", "").strip("'\"")
            if text in CHANGING or text in PASSING or not text.replace("_", "a").isalnum():
                return True
    return False


def change_folders(words: Sequence[Word], folders: Folders) -> tuple[Folders, Folders]:
    """Return the possible folders after a command, and those after its success."""
    if not words:
        return folders, folders
    name, rest = words[0].value, list(words[1:])
    if name in ("builtin", "command") and rest and rest[0].value in CHANGING:
        name, rest = rest[0].value, rest[1:]
    if name in ("eval", "source", ".", "popd"):
        return folders | {None}, folders | {None}
    if name not in CHANGING:
        return folders, folders
    step = read_change(name or "", rest)
    changed: Folders = frozenset(
        None if step is None or way is None else (*way, step) for way in folders
    )
    if len(folders | changed) > MOST_FOLDERS:
        return frozenset({None}), frozenset({None})
    return folders | changed, changed


def read_change(name: str, words: list[Word]) -> FolderStep | None:
    """Return the change that the words of `cd` or `pushd` make; None if it is known only at run time."""
    physical = False
    while words and words[0].value in ("-P", "-L", "-e", "--", "-"):
        option = words.pop(0).value
        if option == "-":
            return None
        physical = physical or option == "-P"
        if option == "--":
            break
    if not words:
        return FolderStep(None, physical) if name == "cd" else None
    target = words[0]
    if len(words) > 1 or target.value is None:
        return None
    if target.home:
        return None
    if target.home is None and target.value[:1] in ("-", "+", ""):
        return None
    return FolderStep(target, physical)
