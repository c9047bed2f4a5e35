"""Words alone: what the reader makes of a line of quotes is what bash makes of it, or the line is asked."""

from __future__ import annotations

import pytest
from apps.terminal.tests.shell.word_lines import (
    are_same_words,
    find_differences,
    read_commands,
    run_lines,
)

from adh.shell import parse_command_line

# The tree of the grammar has other quotes, words or commands in these than bash. The program that bash
# would run unasked is `z`.
READ_IN_TWO_WAYS = (
    "w $'\\\\'\nz\n#'", "w $'\\\\', z #'", "w 'q' $'\\\\'; z #'", 'w "$(w $\'\\\\\'; z #\')"', "w `w $'\\\\'; z #'`",
    "w <<q $'\\\\'; z #'\nq", "x=$'\\\\'; z #'", "w {q,$'\\\\'}; z #'", "w ${x#$'\\\\'}; z #'}", "[[ q == $'\\\\' ]]; z #' ]]",
    'w "${x%%\\}}"', 'w "${x#$(z)}"', "w ${x#'}'}\"; z #\"'", "w \"${x:-'}'; z\"", "w ${x%$(z)}",
    "w $\\\n(z)", 'w "$\\\n(z)"', "w $\\\n{x}", "w &\\\n& z", "w 2\\\n>q", "w q\\\nz", "i\\\nf w", "x\\\n=q z",
    "w a[q ]=z", "a[q z]=q", "x=(q)z", "x=(q; z)", "w {x}>q", "w $$(z)", "w `w \\`z\\``", "w @(z)", 'w $""', 'w $"\\\n"',
    "0x=q z", "\u00e9=q z", "w $HOME{q,z}", "w ;; z", "w $(w q;; z)", "w << 'q z'\nq z", "w $(w <<q\nz\nq\n)",
    "w <<q $(z\n)\nq", 'w <<q "\nq\n"; z\nq', "((w); z)", "w $((w); z)", "w ${ z; }", "w ${| z; }", "[z]", "{z; }", "w {z; }; }",
    "w <(w q", "w }; }", "w #\\\nz #\nw '", "w \\#' z", "w '\\'' z", 'w "\\" z', "w \"$(w ${x:-$'}; z '})\"", "time { z; }", "coproc { z; }",
)  # fmt: skip
READABLE = (
    "w $'q\\'z' \"'\" '\"' \\' \\\" \"\\\"\" '\\'", "w q#z '#' \\# \"#\" # z '", "w '\n' \"\n\" $'\\n' \\\n  q",
    "w \"$(w 'q)' # )\n)\" z", 'w "`w "q z"`"', "w {q,'x,z'}{1,\"2 3\"}", "w ~/q ~'/q' ~\"q\"/z \"~\"", 'w "$x" "${x:-q}z" q',
    "w 'q' && w \"z\" | w $'x'; w \\; & w !", 'w "$(( 1 + 2 ))" $((3)) $[1]', "w * 'q'*\\? [q\"z\"]", "w \"q\\\nz\" 'q\\\nz'",
    "w <<'q' z\n$(w x)'\nq\nw x", "w $(case q in q) w z;; (x|z) w x;; esac)", "w \"${x//\\\"/q}\" ${x:-'q z'}", "w a[1]=q [q] a[x]z",
)  # fmt: skip


def test_a_line_that_can_be_read_in_two_ways_is_asked() -> None:
    assert [line for line in READ_IN_TWO_WAYS if read_commands(line) is not None] == []


def test_the_words_of_every_way_of_quoting_are_those_of_bash() -> None:
    for line, commands in zip(READABLE, run_lines(READABLE), strict=True):
        read = read_commands(line)
        assert read is not None, (line, parse_command_line(line))
        assert commands, line
        for words in commands:
            assert any(are_same_words(one, words) for one in read), (line, words, read)


@pytest.mark.slow  # takes half a second or more
def test_no_word_is_read_otherwise_than_by_bash() -> None:
    differences, readable, ran = find_differences(seed=20, count=1_000)
    assert not differences
    assert ran > 250
    assert ran > readable * 0.9
