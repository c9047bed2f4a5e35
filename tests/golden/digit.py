"""The wanted type of the golden journal `answer-by-type`, with words that no library can change."""

from __future__ import annotations

from holdfast.core.model_request import OutputSchema
from holdfast.core.output import Invalid, OutputType, ParseResult, Valid
from holdfast.core.problems import Problem


class Digit:
    """One digit, as a JSON number."""

    schema = OutputSchema("digit", {"type": "integer"})

    def check(self, json_text: str) -> ParseResult:
        if len(json_text) == 1 and json_text in "0123456789":
            return Valid(int(json_text))
        return Invalid((Problem("the answer", "is no digit"), Problem("the answer", "try 0 to 9")))


DIGIT: OutputType = Digit()
