"""Reads `find`: the files that it lists, deletes and writes, and the programs that it runs."""

from __future__ import annotations

from collections.abc import Sequence

from adh.shell.parsed_line import Reading, Word

LEADING = frozenset({"-H", "-L", "-P", "-O0", "-O1", "-O2", "-O3"})
PLAIN = frozenset(
    [
        "-a",
        "-and",
        "-o",
        "-or",
        "-not",
        "!",
        "(",
        ")",
        ",",
        "-true",
        "-false",
        "-print",
        "-print0",
        "-ls",
        "-prune",
        "-quit",
        "-depth",
        "-d",
        "-mount",
        "-xdev",
        "-daystart",
        "-follow",
        "-noleaf",
        "-warn",
        "-nowarn",
        "-ignore_readdir_race",
        "-noignore_readdir_race",
        "-empty",
        "-executable",
        "-readable",
        "-writable",
        "-nogroup",
        "-nouser",
    ]
)
WITH_VALUE = frozenset(
    [
        "-name",
        "-iname",
        "-path",
        "-ipath",
        "-wholename",
        "-iwholename",
        "-regex",
        "-iregex",
        "-regextype",
        "-lname",
        "-ilname",
        "-type",
        "-xtype",
        "-size",
        "-perm",
        "-user",
        "-group",
        "-uid",
        "-gid",
        "-links",
        "-inum",
        "-fstype",
        "-context",
        "-maxdepth",
        "-mindepth",
        "-mtime",
        "-atime",
        "-ctime",
        "-mmin",
        "-amin",
        "-cmin",
        "-used",
        "-printf",
    ]
)
LISTED_VALUE = frozenset({"-newer", "-anewer", "-cnewer", "-samefile"})
RUNS = frozenset({"-exec", "-execdir", "-ok", "-okdir"})
WRITES = {"-fprint": 1, "-fprint0": 1, "-fls": 1, "-fprintf": 2}
FOUND = "{}"


def read_find(words: Sequence[Word]) -> Reading:
    """Return the uses of `find` below its folders.

    Args:
        words: its words, without the program itself.
    """
    reading = Reading()
    rest = list(words)
    while rest and rest[0].value in LEADING:
        rest.pop(0)
    folders: list[Word] = []
    while rest and not starts_expression(rest[0]):
        folders.append(rest.pop(0))
    folders = folders or [Word(".", ".")]
    reading.paths.extend(("list", folder) for folder in folders)
    while rest:
        read_predicate(rest, folders, reading)
    return reading


def starts_expression(word: Word) -> bool:
    """Whether the folders of `find` end before this word."""
    text = word.value if word.value is not None else word.prefix
    return word.home is None and (text[:1] == "-" or text in ("(", "!", ","))


def read_predicate(rest: list[Word], folders: list[Word], reading: Reading) -> None:
    """Take one test or action, with its values, from the words."""
    word = rest.pop(0)
    name = word.value
    if name in PLAIN:
        return
    if name in WITH_VALUE or (name or "").startswith("-newer"):
        if rest and rest[0].many:
            reading.problems.append(f"the value of {name} is known only when it runs")
        values = rest[:1]
        del rest[:1]
        if name in LISTED_VALUE:
            reading.paths.extend(("list", value) for value in values)
    elif name == "-delete":
        reading.paths.extend(("delete", folder) for folder in folders)
    elif name in WRITES:
        reading.paths.extend(("write", value) for value in rest[:1])
        del rest[: WRITES[name]]
    elif name in RUNS:
        read_run(name, rest, folders, reading)
    else:
        reading.problems.append(f"{word.text!r} of find is not known")


def read_run(name: str, rest: list[Word], folders: list[Word], reading: Reading) -> None:
    """Take the program that `find` runs for each file, up to `;` or `+`."""
    end = next((i for i, word in enumerate(rest) if ends_run(rest, i)), None)
    if end is None:
        reading.problems.append(f"{name} of find has no end")
        rest.clear()
        return
    program, rest[:] = rest[:end], rest[end + 1 :]
    if not program or program[0].value is None or FOUND in program[0].value:
        reading.problems.append("find runs a program that is known only when it runs")
    made: list[Word] = []
    for word in program:
        made.extend(replace_found(word, folders))
    if made:
        reading.programs.append(tuple(made))
    if name in ("-execdir", "-okdir"):
        reading.elsewhere = True


def ends_run(words: list[Word], index: int) -> bool:
    """Whether the program that `find` runs ends at this word."""
    value = words[index].value
    return value == ";" or (value == "+" and index > 0 and words[index - 1].value == FOUND)


def replace_found(word: Word, folders: list[Word]) -> list[Word]:
    """Return a word as the program receives it: for `{}` any file below the folders."""
    if word.pattern:
        # A name that the shell puts there, or the pattern itself, may hold `{}`.
        return [Word(word.text, None, many=True, unknown=True)]
    if word.value is None or FOUND not in word.value:
        return [word]
    if word.value != FOUND:
        return [Word(word.text, None, unknown=True)]
    found: list[Word] = []
    for folder in folders:
        known = folder.value if folder.value is not None else None
        if known is None:
            found.append(Word(word.text, None, unknown=True, many=True))
        else:
            prefix = known.rstrip("/") + "/"
            found.append(
                Word(word.text, None, prefix, folder.home, pattern=True, many=True, unknown=False)
            )
    return found
