"""Recognizes the forms of git that certainly only read, and how to run them so that they do.

Git runs programs that a repository names: hooks, pagers, monitors, filters. A read-only form is one
of a short list with options that are listed too, and is run in an environment that turns these off.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from adh.shell.option_forms import Form, read_arguments
from adh.shell.parsed_line import Word

LOG_OPTIONS = (
    "-0123456789pusztwbiEFPgmc -n:plain -U:plain -G:plain -S:plain -M?:plain -C?:plain "
    "-D --oneline --graph --all --decorate?=plain --no-decorate --stat?=plain --shortstat --numstat "
    "--dirstat?=plain --summary --name-only --name-status --patch --no-patch --raw --unified?=plain "
    "--abbrev-commit --no-abbrev-commit --abbrev?=plain --pretty?=plain --format=plain "
    "--date=plain --author=plain --committer=plain --grep=plain --all-match --invert-grep "
    "--since=plain --until=plain --after=plain --before=plain --max-count=plain --skip=plain "
    "--merges --no-merges --first-parent --reverse --follow --branches?=plain --tags?=plain "
    "--remotes?=plain --topo-order --date-order --author-date-order --color?=plain --no-color "
    "--word-diff?=plain --color-words --ignore-all-space --ignore-space-change --ignore-blank-lines "
    "--ignore-space-at-eol --find-renames?=plain --find-copies?=plain --no-renames "
    "--diff-filter=plain --patience --minimal --histogram --full-index --no-ext-diff --no-textconv "
    "--relative?=plain --cherry-pick --left-right --cc --source --no-prefix --text --exit-code "
    "--quiet --inter-hunk-context=plain --function-context --walk-reflogs --pickaxe-regex"
)
READ_ONLY_FORMS: Mapping[str, Form] = MappingProxyType(
    {
        "status": Form(
            "-sbuvz -u?:plain --short --branch --long --porcelain?=plain --show-stash --verbose "
            "--ahead-behind --no-ahead-behind --untracked-files?=plain --ignored?=plain "
            "--renames --no-renames --find-renames?=plain --column?=plain "
            "--no-column"
        ),
        "log": Form(LOG_OPTIONS),
        "diff": Form(LOG_OPTIONS + " --cached --staged --merge-base --check"),
        "show": Form(LOG_OPTIONS),
        "branch": Form(
            "-avrl --list --all --remotes --verbose --show-current --no-color --color?=plain "
            "--sort=plain --format=plain --column?=plain --no-column"
        ),
        "remote": Form("-v --verbose"),
    }
)
LISTING_BRANCHES = frozenset({"-l", "--list"})

SAFE_GIT_SETTINGS = (
    ("core.fsmonitor", "false"),
    ("core.attributesFile", "/dev/null"),
    ("core.hooksPath", "/dev/null"),
    ("core.pager", "cat"),
    ("core.editor", "false"),
    ("core.askPass", "false"),
    ("core.sshCommand", "false"),
    ("core.gitProxy", "false"),
    ("core.alternateRefsCommand", "false"),
    ("credential.helper", ""),
    ("diff.external", ""),
    ("gpg.program", "false"),
    ("gpg.ssh.program", "false"),
    ("gpg.x509.program", "false"),
    ("log.showSignature", "false"),
    ("protocol.allow", "never"),
    ("submodule.recurse", "false"),
    ("status.submoduleSummary", "false"),
    ("diff.submodule", "short"),
    ("diff.ignoreSubmodules", "all"),
    ("uploadpack.packObjectsHook", ""),
    ("maintenance.auto", "false"),
    ("gc.auto", "0"),
)
"""Settings that turn off the programs that a repository may have git run, by `-c` or by the environment."""

SAFE_GIT_ENVIRONMENT: Mapping[str, str] = MappingProxyType(
    {
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_PAGER": "cat",
        "GIT_EDITOR": "false",
        "GIT_SEQUENCE_EDITOR": "false",
        "GIT_ASKPASS": "false",
        "SSH_ASKPASS": "false",
        "GIT_SSH_COMMAND": "false",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_ALLOW_PROTOCOL": "",
        "GIT_CONFIG_COUNT": str(len(SAFE_GIT_SETTINGS)),
        **{f"GIT_CONFIG_KEY_{i}": name for i, (name, _) in enumerate(SAFE_GIT_SETTINGS)},
        **{f"GIT_CONFIG_VALUE_{i}": value for i, (_, value) in enumerate(SAFE_GIT_SETTINGS)},
    }
)
"""The variables with which git runs none of the programs that have a fixed setting.

Filters have names of their own: `make_git_program` turns them off too.
"""


# A repository names its filters as it likes, and `git status` runs them. `{git}` and `{forms}` are filled in.
_PROGRAM = """#!/bin/sh
count=$GIT_CONFIG_COUNT elsewhere=
turn_off() {{
    export "GIT_CONFIG_KEY_$count=$1" "GIT_CONFIG_VALUE_$count=$2"
    count=$((count + 1))
}}
while IFS= read -r name; do
    case $name in
    filter.*.required) turn_off "$name" false ;;
    filter.*.clean | filter.*.smudge | filter.*.process | \\
    diff.*.command | diff.*.textconv | merge.*.driver) turn_off "$name" "" ;;
    core.worktree) elsewhere=yes ;;
    esac
done <<END
$({git} config --includes --list --name-only)
END
export GIT_CONFIG_COUNT="$count"
refuse() {{
    echo "git: $1" >&2
    exit 128
}}
own=$({git} rev-parse --absolute-git-dir 2>/dev/null)
if [ "${{elsewhere-}}" ]; then
    # A repository must not name the folder of other files as its own: git diff would show them.
    top=$({git} rev-parse --show-toplevel) && [ "$({git} -C "$top" rev-parse --absolute-git-dir)" = "$own" ] ||
        refuse "core.worktree names a folder that is not that of the repository"
fi
# git status and git branch show lines of these.
for file in "$own"/BISECT_* "$own"/rebase-* "$own"/rebase-*/*; do
    [ ! -L "$file" ] || refuse "$file is a link"
done
[ "${{1-}}" != diff ] || [ "$own" ] || refuse "not a git repository, and diff compares any two files there"
case "${{1-}}" in
{forms}
*) exit 126 ;;
esac
"""


def is_read_only_git(argv: Sequence[str | None]) -> bool:
    """Whether the words are a listed form of git that only reads.

    Args:
        argv: the program and its words; None for a word that is known only at run time.

    >>> is_read_only_git(["git", "log", "--oneline"]), is_read_only_git(["git", "log", "--output=f"])
    (True, False)
    """
    if len(argv) < 2 or argv[0] != "git" or any(word is None for word in argv):
        return False
    form = READ_ONLY_FORMS.get(argv[1] or "")
    if form is None:
        return False
    words = [Word(word or "", word) for word in argv[2:]]
    found = read_arguments(form, words)
    if found.problems:
        return False
    if argv[1] == "branch":
        return not found.operands or bool(LISTING_BRANCHES & set(found.options))
    if argv[1] == "remote":
        return not found.operands
    return all(names_one_file(word.value or "") for word in found.operands)


def names_one_file(text: str) -> bool:
    r"""Whether an operand of git is a revision or one file below the folder, as far as its text shows.

    A pattern such as `.e*` or `\.env`, and one that begins with a colon, names files that no rule sees.
    """
    return not leaves_folder(text) and not text.startswith(":") and not set("*?[\\") & set(text)


def find_shown_file(text: str) -> str:
    """Return the file that an operand such as `HEAD:a.py` or `a.py` may name; empty if it names none.

    >>> find_shown_file("HEAD:a.py"), find_shown_file("a.py"), find_shown_file("HEAD:")
    ('a.py', 'a.py', '')
    """
    _, colon, path = text.partition(":")
    return path if colon else text


def leaves_folder(text: str) -> bool:
    """Whether a path is absolute or goes up, so that it may leave the repository."""
    return text.startswith(("/", "~")) or ".." in text.split("/")


def make_git_program(program: str) -> str:
    """Return a script that stands before git: it turns off the programs of a repository, and calls git.

    It refuses other forms, and `git diff` outside of a repository, which compares any two files.

    Args:
        program: the path of git.
    """
    git = shlex.quote(program)
    forms = [f'{form}) shift; exec {_quote(program, form)} "$@" ;;' for form in READ_ONLY_FORMS]
    return _PROGRAM.format(git=git, forms="\n".join(forms))


def _quote(program: str, form: str) -> str:
    _git, *others = make_git_arguments(["git", form])
    return shlex.join([program, *others])


def make_git_arguments(argv: Sequence[str]) -> tuple[str, ...]:
    """Return the words with which a read-only form of git runs no program of the repository.

    Args:
        argv: words for which `is_read_only_git` is true.

    >>> make_git_arguments(["git", "diff", "a.py"])
    ('git', '--no-pager', 'diff', '--no-ext-diff', '--no-textconv', '--ignore-submodules=all', 'a.py')
    """
    program, form, *rest = argv
    options: tuple[str, ...] = ()
    if form in ("log", "diff", "show"):
        options = ("--no-ext-diff", "--no-textconv", "--ignore-submodules=all")
    elif form == "status":
        # A submodule has settings of its own.
        options = ("--ignore-submodules=all",)
    return (program, "--no-pager", form, *options, *rest)
