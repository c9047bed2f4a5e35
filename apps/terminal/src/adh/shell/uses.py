"""Lists what a parsed line would run and touch: one use for each program, wrapped ones included.

It never runs or reads anything: links are resolved by the function that the caller gives.
"""

from __future__ import annotations

from collections.abc import Sequence

from adh.rules.facts import CommandUse
from adh.shell.command_line import parse_command_line
from adh.shell.operand_roles import assign_roles
from adh.shell.option_forms import read_arguments
from adh.shell.parsed_line import Folders, ParsedLine, SimpleCommand, Word
from adh.shell.program_names import check_program, is_system_program
from adh.shell.program_table import PROGRAMS
from adh.shell.reading import Reading
from adh.shell.special_programs import read_special
from adh.shell.started_programs import find_started_program
from adh.shell.touched_paths import PathResolver, Resolve, Touched, make_resolver
from adh.shell.variables import is_safe_value, is_safe_variable
from adh.shell.wrappers import read_wrapper

DEEPEST_WRAPPERS = 8
MOST_USES = 2_000


def find_uses(line: ParsedLine, folder: str, home: str, resolve: Resolve) -> tuple[CommandUse, ...]:
    """Return every program that a line would run, in order of the text, with what it touches.

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
    """Return what the words of a program say that it does.

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
