r"""Splits a command line into tokens by the rules of bash, character by character.

It is the second reader of a line, beside the grammar, and knows nothing of the first one. A text that it
cannot split for certain raises TokenError. It never decides about a command.
"""

from __future__ import annotations

import re
from typing import Literal

from msgspec import Struct

from adh.shell.word_scanner import CONTINUED, ENDS_WORD, TokenError, WordScanner

TokenKind = Literal[
    "word", "keyword", "operator", "redirection", "descriptor", "newline", "comment", "document"
]
BLANKS = " \t"
OPERATORS = (";;&", "&&", "||", "|&", ";;", ";&", ";", "&", "|", "(", ")")
REDIRECTIONS = ("&>>", "&>", "<<<", "<<-", "<<", "<&", "<>", "<", ">>", ">&", ">|", ">")
# After these a command begins.
OPENING_KEYWORDS = frozenset(
    ["if", "then", "elif", "else", "while", "until", "do", "{", "!"]
)  # fmt: skip
CLOSING_KEYWORDS = frozenset(["fi", "done", "esac", "}"])
KEYWORDS = OPENING_KEYWORDS | CLOSING_KEYWORDS | {"case", "for", "select", "function", "[["}
# Words of bash's grammar that the tree has as words of a command: a command begins after them too.
KEYWORDS_AS_WORDS = frozenset(["time", "coproc", "-p", "--"])
HEADS: dict[str, Literal["variable", "name"]] = {
    "for": "variable", "select": "variable", "function": "name",
}  # fmt: skip
ASSIGNED = re.compile(r"[A-Za-z_]\w*(?:\[[^]\s'\"\\`$]*\])?\+?=", re.ASCII)
NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
DELIMITER = re.compile(r"'[\w-]+'|\"[\w-]+\"|[\w-]+", re.ASCII)


class Token(Struct, frozen=True):
    """A token of a line.

    Args:
        kind: its kind; a "document" is the text of a here-document with its end.
        start: where it begins, in bytes.
        end: where it ends.
        level: a number that all tokens share that bash reads in one go, such as those within one `$(...)`.
    """

    kind: TokenKind
    start: int
    end: int
    level: int


class Case(Struct):
    """A `case` that is open.

    Args:
        state: the next part: its word, `in`, a pattern or commands.
    """

    state: Literal["word", "in", "pattern", "body"] = "word"


class CommandLevel(Struct):
    """The commands that bash reads in one go.

    Args:
        number: the number of the level.
        begins: whether a command may begin here, so that a word may be a keyword.
        opened: the open parentheses and cases.
        head: the next part in the head of a loop or a function.
        after_redirection: whether the next word is the target of a redirection.
    """

    number: int
    begins: bool = True
    opened: list[Case | None] = []
    head: Literal["", "variable", "in", "name"] = ""
    after_redirection: bool = False


class Tokenizer(WordScanner):
    """Splits one line.

    Args:
        source: the line.
    """

    def __init__(self, source: bytes) -> None:
        super().__init__(source)
        self._levels = 0
        self._documents: list[tuple[str, bool, int]] = []
        self.tokens: list[Token] = []

    def read_line(self) -> None:
        """Collect the tokens and quotes of the whole line.

        Raises:
            TokenError: bash may split the line in another way, or not at all.
        """
        self._read_commands("")
        if self._documents:
            raise TokenError("a here-document without its end")

    def _add(self, kind: TokenKind, start: int, level: CommandLevel) -> None:
        self.tokens.append(Token(kind, start, self._position, level.number))

    def _read_commands(self, close: str) -> None:
        """Read tokens up to the parenthesis that closes them, or to the end; the closing one is not taken."""
        self._enter()
        self._levels += 1
        level = CommandLevel(self._levels, opened=[])
        start = self._position
        documents, self._documents = self._documents, []
        while self._position < self._end:
            if self._skip_blanks(level):
                continue
            if close and self._looks_at(close) and not level.opened:
                break
            self._read_token(level)
        if level.opened:
            raise TokenError("a parenthesis or a case that is not closed")
        if level.after_redirection:
            raise TokenError("a redirection without its file")
        if close:
            self._check_documents(documents, start)
            self._documents = documents
        self._depth -= 1

    def _check_documents(self, pending: list[tuple[str, bool, int]], start: int) -> None:
        """Raise TokenError for a here-document whose place depends on the version of bash."""
        if self._documents or (pending and "\n" in self._text[start : self._position]):
            raise TokenError("a here-document beside or within a substitution")

    def _skip_blanks(self, level: CommandLevel) -> bool:
        """Pass over blanks, continued lines and a comment. Returns whether anything was there."""
        start = self._position
        while (self._peek() and self._peek() in BLANKS) or self._looks_at(CONTINUED):
            self._position += 2 if self._peek() == "\\" else 1
        if self._peek() == "#":
            comment = self._position
            end = self._text.find("\n", comment, self._end)
            self._position = end if end >= 0 else self._end
            self._add("comment", comment, level)
        return self._position > start

    def _read_token(self, level: CommandLevel) -> None:
        if self._peek() == "\n":
            self._read_newline(level)
        elif self._looks_at("((") and (level.begins or level.head == "variable"):
            self._read_arithmetic_command(level)
        elif self._looks_at("<(") or self._looks_at(">("):
            self._read_word(level)
        elif (operator := self._find_operator(REDIRECTIONS)) is not None:
            self._read_redirection(operator, level)
        elif (operator := self._find_operator(OPERATORS)) is not None:
            self._read_operator(operator, level)
        else:
            self._read_word(level)

    def _find_operator(self, operators: tuple[str, ...]) -> str | None:
        """Return the longest operator that stands here."""
        if self._peek() not in "&|;()<>":
            return None
        found = next((one for one in operators if self._looks_at(one)), None)
        after = self._position + len(found or "")
        following = self._find_after_continuation(after)
        if found and following != after and self._text[following : following + 1] in [*"&|;<>()-"]:
            raise TokenError("an operator that goes on after the end of its line")
        return found

    def _read_newline(self, level: CommandLevel) -> None:
        self._position += 1
        self._add("newline", self._position - 1, level)
        level.begins = True
        if level.after_redirection:
            raise TokenError("a redirection without its file")
        for delimiter, strip, number in self._documents:
            start = self._position
            self._position = self._find_document_end(delimiter, strip=strip)
            self.tokens.append(Token("document", start, self._position, number))
        self._documents.clear()

    def _find_document_end(self, delimiter: str, *, strip: bool) -> int:
        position = self._position
        while position < self._end:
            end = self._text.find("\n", position, self._end)
            end = self._end if end < 0 else end
            line = self._text[position:end]
            if (line.lstrip("\t") if strip else line) == delimiter:
                return end
            position = end + 1
        raise TokenError("a here-document without its end")

    def _read_redirection(self, operator: str, level: CommandLevel) -> None:
        if level.after_redirection:
            raise TokenError("a redirection without its file")
        start = self._position
        self._position += len(operator)
        self._add("redirection", start, level)
        # After it no word is a keyword of the grammar.
        level.begins = False
        if operator in ("<<", "<<-"):
            self._read_delimiter(level, strip=operator == "<<-")
        else:
            level.after_redirection = True

    def _read_delimiter(self, level: CommandLevel, *, strip: bool) -> None:
        while self._peek() and self._peek() in BLANKS:
            self._position += 1
        found = DELIMITER.match(self._text, self._position, self._end)
        if found is None:
            raise TokenError("a here-document with an unusual end")
        start = self._position
        self._position = found.end()
        if self._peek() and self._peek() not in ENDS_WORD:
            raise TokenError("a here-document with an unusual end")
        self._add("word", start, level)
        self._documents.append((found.group().strip("'\""), strip, level.number))

    def _read_operator(self, operator: str, level: CommandLevel) -> None:
        if level.after_redirection:
            raise TokenError("a redirection without its file")
        start = self._position
        self._position += len(operator)
        self._add("operator", start, level)
        innermost = level.opened[-1] if level.opened else None
        if innermost is not None and innermost.state == "pattern":
            if operator not in ("(", ")", "|"):
                raise TokenError("a case without its pattern")
            innermost.state = "body" if operator == ")" else "pattern"
            level.begins = operator == ")"
            return
        level.begins, level.head = True, level.head if operator == ";" else ""
        if operator == "(":
            level.opened.append(None)
        elif operator == ")":
            if not level.opened or innermost is not None:
                raise TokenError("a parenthesis that closes nothing")
            level.opened.pop()
        elif operator in (";;", ";&", ";;&"):
            if innermost is None:
                raise TokenError(f"{operator!r} without a case")
            innermost.state = "pattern"

    def _read_arithmetic_command(self, level: CommandLevel) -> None:
        start = self._position
        self._position += 2
        is_loop = level.head == "variable"
        self._pass_arithmetic("))", separator=";" if is_loop else "")
        self._add("word", start, level)
        level.begins, level.head = False, "in" if is_loop else ""

    def _read_word(self, level: CommandLevel) -> None:
        start = self._position
        self._pass_word()
        if self._position == start:
            raise TokenError(f"{self._peek()!r} was not expected")
        text = self._text[start : self._position]
        is_before = self._peek() != "" and self._peek() in "<>"
        if is_before and text.isdigit() and not level.after_redirection:
            self._add("descriptor", start, level)
            return
        if is_before and text[0] == "{" and text[-1] == "}":
            raise TokenError("a redirection of a descriptor with a name")
        is_target, level.after_redirection = level.after_redirection, False
        if is_target:
            self._add("word", start, level)
            return
        if self._read_keyword(text, start, level):
            return
        self._add("word", start, level)
        self._move_on(text, level)

    def _move_on(self, text: str, level: CommandLevel) -> None:
        """Record the tokens that may follow a word that is no keyword."""
        innermost = level.opened[-1] if level.opened else None
        if innermost is not None and innermost.state == "word":
            innermost.state = "in"
            level.begins = False
        elif level.head in ("variable", "name"):
            level.begins = level.head == "name"
            level.head = "in" if level.head == "variable" else ""
        elif level.begins and text in KEYWORDS_AS_WORDS:
            level.begins = True
        else:
            level.begins = False

    def _read_keyword(self, text: str, start: int, level: CommandLevel) -> bool:
        """Take a word as a keyword of the grammar if it is one here."""
        innermost = level.opened[-1] if level.opened else None
        if innermost is not None and innermost.state == "in":
            if text != "in":
                raise TokenError("a case without its 'in'")
            innermost.state = "pattern"
        elif innermost is not None and innermost.state == "pattern":
            if text != "esac":
                return False
            level.opened.pop()
            level.begins = True
        elif level.head == "in" and text == "in":
            level.head, level.begins = "", False
        elif level.head in ("variable", "name"):
            return False
        elif (level.begins or level.head) and text in KEYWORDS:
            self._enter_keyword(text, innermost, level)
            if text == "[[":
                self._add("keyword", start, level)
                self._read_test(level)
                return True
        else:
            return False
        self._add("keyword", start, level)
        return True

    def _enter_keyword(self, text: str, innermost: Case | None, level: CommandLevel) -> None:
        level.begins = text in OPENING_KEYWORDS or text in CLOSING_KEYWORDS
        level.head = HEADS.get(text, "")
        if text == "case":
            level.opened.append(Case())
        elif text == "esac":
            if innermost is None:
                raise TokenError("'esac' without a case")
            level.opened.pop()

    def _read_test(self, level: CommandLevel) -> None:
        """Read the condition after `[[` up to its `]]`."""
        self._levels += 1
        inner = CommandLevel(self._levels, begins=False, opened=[])
        is_pattern = False
        while not (self._looks_at("]]") and (self._peek(2) or " ") in ENDS_WORD):
            if self._position >= self._end:
                raise TokenError("a '[[' without its ']]'")
            if self._skip_blanks(inner):
                continue
            start = self._position
            if self._peek() == "\n":
                self._position += 1
                self._add("newline", start, inner)
            elif self._peek() in "&|()<>" and not (is_pattern and self._peek() in "(|"):
                self._read_test_operator(inner)
            else:
                self._pass_test_word(is_pattern=is_pattern)
                self._add("word", start, inner)
                is_pattern = self._text[start : self._position] == "=~"
        start = self._position
        self._position += 2
        self._add("keyword", start, level)
        level.begins = False

    def _read_test_operator(self, level: CommandLevel) -> None:
        start = self._position
        operator = next(
            (one for one in ("&&", "||", "(", ")", "<", ">") if self._looks_at(one)), ""
        )
        if not operator or (operator in "<>" and self._peek(1) in ("(", "<", ">", "&", "|")):
            raise TokenError("an operator within [[ ]] that was not recognized")
        self._position += len(operator)
        self._add("operator", start, level)

    def _pass_test_word(self, *, is_pattern: bool) -> None:
        start = self._position
        if not is_pattern:
            self._pass_word()
            if self._peek() == "(":
                raise TokenError("a parenthesis within a pattern")
            return
        opened = 0
        while self._position < self._end:
            character = self._peek()
            if character in " \t\n" and not opened:
                break
            if character in "\n;&<>#":
                raise TokenError(f"{character!r} within a regular expression")
            if character in "'\"\\`$" and not self._looks_at(CONTINUED):
                self._pass_piece(inner=False)
                continue
            opened += (character == "(") - (character == ")")
            if opened < 0:
                break
            self._position += 1
        if self._position == start or opened > 0:
            raise TokenError("a regular expression that was not recognized")

    def _pass_word(self, *, in_array: bool = False) -> None:
        """Pass over one word."""
        start = self._position
        while self._position < self._end:
            character = self._peek()
            if character in "<>" and self._peek(1) == "(":
                self._pass_commands("process_substitution", 2, ")", inner=False)
            elif character == "(" and self._is_array(start):
                self._pass_array()
                if self._peek() and self._peek() not in ENDS_WORD:
                    raise TokenError("an array that goes on after its end")
                return
            elif character in ENDS_WORD:
                break
            elif self._looks_at(CONTINUED):
                if self._ends_at_continuation():
                    break
            elif character == "[" and (
                NAME.fullmatch(self._text, start, self._position)
                or (in_array and start == self._position)
            ):
                self._pass_subscript()
            else:
                self._pass_piece(inner=False)

    def _ends_at_continuation(self) -> bool:
        """Whether a word ends where its line goes on; else it goes on itself."""
        after = self._find_after_continuation(self._position)
        following = self._text[after : min(after + 1, self._end)]
        if not following or following in " \t\n":
            return True
        raise TokenError("a word or an operator goes on after the end of its line")

    def _is_array(self, start: int) -> bool:
        return ASSIGNED.fullmatch(self._text, start, self._position) is not None

    def _pass_array(self) -> None:
        """Pass over the words of an array."""
        self._take("(")
        self._levels += 1
        level = CommandLevel(self._levels, begins=False, opened=[])
        while self._peek() != ")":
            if self._position >= self._end:
                raise TokenError("an array without its end")
            if self._skip_blanks(level):
                continue
            start = self._position
            if self._peek() == "\n":
                self._position += 1
                self._add("newline", start, level)
                continue
            self._pass_word(in_array=True)
            if self._position == start:
                raise TokenError("an operator within an array")
            self._add("word", start, level)
        self._take(")")
