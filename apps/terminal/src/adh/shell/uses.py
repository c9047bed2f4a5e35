"""Lists the programs and files of a parsed line: one use for each program, wrapped ones included.

It never runs or reads anything: links are resolved by the function that the caller gives. A program that is not
known may start another one that its words name: that one is judged beside the program itself, and frees nothing.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Sequence

from msgspec import Struct

from adh.rules.facts import Access, CommandUse, PathUse
from adh.rules.patterns import SYSTEM_FOLDERS
from adh.shell.command_line import parse_command_line
from adh.shell.interpreters import SHELLS
from adh.shell.operand_roles import assign_roles
from adh.shell.option_forms import read_arguments
from adh.shell.parsed_line import Folders, FolderStep, ParsedLine, Reading, SimpleCommand, Word
from adh.shell.program_names import check_program, is_system_program
from adh.shell.program_table import PROGRAMS
from adh.shell.special_programs import read_special
from adh.shell.variables import is_safe_value, is_safe_variable
from adh.shell.wrappers import read_wrapper

DEEPEST_WRAPPERS = 8
MOST_USES = 2_000


def find_uses(line: ParsedLine, folder: str, home: str, resolve: Resolve) -> tuple[CommandUse, ...]:
    """Return every program that a line would run, in order of the text, with the files that it touches.

    Args:
        line: the parsed line.
        folder: the folder that it runs in, absolute.
        home: the person's home folder, absolute.
        resolve: returns an absolute path without links, such as `os.path.realpath`.

    >>> line = parse_command_line("cd src && env A_1=x cat ../.env")
    >>> [use.argv for use in find_uses(line, "/p", "/h", str)]
    [('cd', 'src'), ('env', 'A_1=x', 'cat', '../.env'), ('cat', '../.env')]
    """
    finder = UseFinder(folder, home, resolve)
    for command in line.commands:
        finder.add_simple_command(command)
    return tuple(finder.uses)


class UseFinder:
    """Collects the uses of a line.

    Args:
        folder: the folder that the line runs in.
        home: the person's home folder.
        resolve: returns an absolute path without links.
    """

    def __init__(self, folder: str, home: str, resolve: Resolve) -> None:
        self.uses: list[CommandUse] = []
        self._folder = folder
        self._home = home
        self._resolve = resolve

    def add_simple_command(self, command: SimpleCommand, depth: int = 0) -> None:
        """Add the uses of one simple command of a line."""
        resolver = make_resolver(command.folders, self._folder, self._home, self._resolve)
        touched = Touched([], [], list(command.problems))
        for assignment in command.assignments:
            value = assignment.value.value if assignment.value is not None else None
            if not is_safe_variable(assignment.name) or not is_safe_value(assignment.name, value):
                touched.problems.append(
                    f"sets {assignment.name}, which may change what programs do"
                )
        for redirection in command.redirections:
            reads = redirection.operator in ("<", "<&")
            resolver.add(redirection.target, "read" if reads else "write", touched)
        if command.words:
            self._add_program(command.words, command.text, resolver, touched, depth)
        elif touched.problems or touched.paths or touched.urls:
            self._add_use((), command.text, touched)

    def _add_program(
        self,
        words: Sequence[Word],
        text: str,
        resolver: PathResolver,
        touched: Touched,
        depth: int,
    ) -> None:
        touched.problems.extend(check_program(words[0]))
        name = (words[0].value or "").rpartition("/")[2]
        if not is_system_program(words[0]):
            resolver.add(words[0], "run", touched)
        reading = read_program(name, words[1:]) if words[0].home is None else Reading()
        for access, word in reading.paths:
            resolver.add(word, access, touched)
        touched.problems.extend(reading.problems)
        touched.urls.extend(reading.urls)
        for variable in reading.variables:
            if not is_safe_variable(variable):
                touched.problems.append(f"sets {variable}, which may change what programs do")
        argv = tuple(self._get_argument(word) for word in words)
        self._add_use(argv, text, touched, read_only=reading.read_only)
        self._add_inner(reading, resolver, depth + 1)

    def _add_inner(self, reading: Reading, resolver: PathResolver, depth: int) -> None:
        if not reading.programs and not reading.lines:
            return
        if depth > DEEPEST_WRAPPERS or len(self.uses) > MOST_USES:
            self._add_use((), "...", Touched([], [], ["programs run others too deeply"]))
            return
        known = resolver.known and not reading.elsewhere
        inner = PathResolver(resolver.folders, known, resolver.home, resolver.resolve)
        for words in reading.programs:
            text = " ".join(word.text for word in words)
            self._add_program(words, text, inner, Touched([], [], []), depth)
        for line in reading.lines:
            self._add_line(line, inner, depth)

    def _add_line(self, text: str, resolver: PathResolver, depth: int) -> None:
        line = parse_command_line(text)
        if line.problem:
            self._add_use((), text, Touched([], [], [line.problem]))
        for folder in resolver.folders:
            finder = UseFinder(folder, self._home, self._resolve)
            for command in line.commands:
                folders: Folders = command.folders | (frozenset() if resolver.known else {None})
                moved = SimpleCommand(
                    text=command.text, words=command.words, redirections=command.redirections,
                    assignments=command.assignments, folders=folders, problems=command.problems,
                )  # fmt: skip
                finder.add_simple_command(moved, depth)
            self.uses.extend(finder.uses)

    def _add_use(
        self, argv: tuple[str | None, ...], text: str, touched: Touched, *, read_only: bool = False
    ) -> None:
        problems = tuple(dict.fromkeys(touched.problems))
        self.uses.append(
            CommandUse(
                argv,
                text,
                tuple(touched.paths),
                tuple(dict.fromkeys(touched.urls)),
                problems,
                read_only and not problems,
            )
        )

    def _get_argument(self, word: Word) -> str | None:
        if word.value is None or word.home:
            return None
        return word.value if word.home is None else self._home + word.value


def read_program(name: str, words: Sequence[Word]) -> Reading:
    """Return the effects of a program, as its words show them.

    Args:
        name: the name of the program without its folder.
        words: its words, without the program itself.
    """
    reading = read_wrapper(name, words) or read_special(name, words)
    if reading is not None:
        return reading
    form = PROGRAMS.get(name)
    if form is None:
        started = find_started_program(words)
        return Reading(programs=[started] if started else [])
    if form.operands == "anything":
        return Reading()
    roles = assign_roles(form, read_arguments(form, words))
    return Reading(paths=roles.paths, problems=roles.problems)


# These names are also ordinary words, such as the form of `docker rm`: an option must follow them.
WITH_OPTION = frozenset({"rm", "dd", "sudo", "su", "chmod", "chown", "mkfs", "shred"})
DD_WORDS = ("if=", "of=")


def find_started_program(words: Sequence[Word]) -> tuple[Word, ...]:
    """Return the first of the words that names a program, with the words after it; empty if none does.

    Args:
        words: the words after a program that is not known.

    >>> words = [Word("-x", "-x"), Word("rm", "rm"), Word("-rf", "-rf"), Word("/", "/")]
    >>> [word.value for word in find_started_program(words)]
    ['rm', '-rf', '/']
    """
    for at, word in enumerate(words):
        if names_program(word, words[at + 1 :]):
            return tuple(words[at:])
    return ()


def names_program(word: Word, following: Sequence[Word]) -> bool:
    """Whether a word, with the ones after it, looks like a program and its words."""
    folder, _, name = (word.value or "").rpartition("/")
    if word.value is None or word.home is not None:
        return False
    if folder in SYSTEM_FOLDERS or (name in SHELLS and not folder):
        return True
    after = (following[0].value or following[0].prefix) if following else ""
    return not folder and name in WITH_OPTION and after.startswith(("-", *DD_WORDS))


Resolve = Callable[[str], str]
UNRESTRICTED = frozenset({"/dev/null", "/dev/stdin", "/dev/stdout", "/dev/stderr", "/dev/tty"})
# A file that is open there was judged where it was opened.
DESCRIPTORS = re.compile(r"/(?:dev|proc/self)/fd/[0-9]+")
# Links that lead elsewhere for each process, such as /proc/self/cwd.
OF_PROCESS = re.compile(r"/proc/(?:self|thread-self|[0-9]+)/.*")
NETWORK_FOLDERS = ("/dev/tcp/", "/dev/udp/")
# How a pattern begins that fits the name of the folder above.
FIT_PARENT = (".*", ".?", ".[", "..*")
UNKNOWN_FOLDER = "its folder is known only when it runs"


class Touched(Struct):
    """The paths and addresses of a command, and the words that could not be resolved."""

    paths: list[PathUse]
    urls: list[str]
    problems: list[str]


class PathResolver(Struct, frozen=True):
    """Where the words of a command lead.

    Args:
        folders: the folders that the command may run in.
        known: whether these are all the folders that it may run in.
        home: the person's home folder.
        resolve: returns an absolute path without links.
    """

    folders: tuple[str, ...]
    known: bool
    home: str
    resolve: Resolve

    def add(self, word: Word, access: Access, touched: Touched) -> None:
        """Add the paths of a word.

        Args:
            word: the word as a path.
            access: the access of the command to it.
            touched: the lists that are added to.
        """
        is_input = word.value == "-" and access == "read"
        if (word.value == "" or is_input) and word.home is None:
            return
        if word.value is None and not self._is_bounded(word):
            if word.prefix.startswith("/dev/fd/"):
                return
            touched.problems.append(f"the path {word.text!r} is known only when it runs")
            return
        text = word.value if word.value is not None else word.prefix.rpartition("/")[0]
        if word.value is None and not text and word.prefix.startswith("/"):
            text = "/"
        # No file may fit a pattern: the program then receives the pattern itself.
        for written in (text,) if word.unmatched is None else (text, word.unmatched):
            if not self._add_network(written, touched):
                self._add_text(word, written, access, touched)

    def _is_bounded(self, word: Word) -> bool:
        goes_up = may_go_up(word.prefix if word.unmatched is None else word.unmatched)
        return word.pattern and not word.unknown and not goes_up

    def _add_network(self, text: str, touched: Touched) -> bool:
        normal = posixpath.normpath(text)
        for folder in NETWORK_FOLDERS:
            if normal.startswith(folder):
                host, _, port = normal[len(folder) :].partition("/")
                touched.urls.append(f"{folder[5:8]}://{host}:{port}")
                touched.problems.append("opens a network connection as a file")
                return True
        return False

    def _add_text(self, word: Word, text: str, access: Access, touched: Touched) -> None:
        if word.home is not None:
            if word.home:
                touched.problems.append(f"the home folder of {word.home} is not known")
                return
            starts: tuple[str, ...] = (self.home,)
            text = text.lstrip("/")
        else:
            starts = self.folders
            if not self.known and not text.startswith("/"):
                touched.problems.append(UNKNOWN_FOLDER)
        for start in starts:
            joined = posixpath.join(start, text) if text else start
            normal = "/" + posixpath.normpath(joined).lstrip("/")
            if normal in UNRESTRICTED or DESCRIPTORS.fullmatch(normal):
                continue
            if OF_PROCESS.fullmatch(normal):
                touched.problems.append(f"{normal} leads where only a run can tell")
            use = PathUse(self.resolve(joined), access, word.text)
            if use not in touched.paths:
                touched.paths.append(use)


def may_go_up(pattern: str) -> bool:
    """Whether a pattern may lead to a folder above the one that it begins in.

    In bash before 5.2 a pattern such as `.*` fits `..` too.

    >>> may_go_up("../*.py"), may_go_up("*/../x"), may_go_up("a/.*/x")
    (False, True, True)
    """
    names = pattern.split("/")
    return ".." in names[1:] or any(name.startswith(FIT_PARENT) for name in names)


def make_resolver(folders: Folders, folder: str, home: str, resolve: Resolve) -> PathResolver:
    """Return the resolver for a command that came to its folder in one of these ways."""
    found: list[str] = []
    known = True
    for way in sorted(folders, key=repr):
        if way is None:
            known = False
            continue
        for place in follow_folder_steps(way, folder, home, resolve):
            if place not in found:
                found.append(place)
    return PathResolver(tuple(found) or (folder,), known, home, resolve)


def follow_folder_steps(
    way: Sequence[FolderStep], folder: str, home: str, resolve: Resolve
) -> tuple[str, ...]:
    """Return the folders that a way of `cd` steps leads to: the logical and the physical one."""
    logical = physical = folder
    for step in way:
        target = step.target
        text = (target.value or "") if target is not None else ""
        if target is None or target.home is not None:
            text = posixpath.join(home, text.lstrip("/"))
        physical = resolve(posixpath.join(physical, text))
        logical = posixpath.normpath(posixpath.join(logical, text))
        if step.physical:
            logical = resolve(logical)
    return (logical,) if resolve(logical) == physical else (logical, physical)
