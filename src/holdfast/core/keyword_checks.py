"""The check of the keywords of a constructor, which Python itself answers with a bare TypeError."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import wraps
from typing import TypeVar, cast

F = TypeVar("F", bound=Callable[..., None])


def name_wrong_keywords(
    explain: Callable[[Collection[str], Collection[str]], None],
) -> Callable[[F], F]:
    """Decorate an `__init__`, so that a wrong keyword raises ConfigurationError.

    Args:
        explain: called with the names of a wrong call and the known names; raises the error.
    """

    def decorate(init: F) -> F:
        @wraps(init)
        def check_and_init(self: object, *args: object, **keywords: object) -> None:
            known = {*(init.__kwdefaults__ or {}), "model"}
            if not keywords.keys() <= known:
                explain(keywords, known)
            init(self, *args, **keywords)

        return cast("F", check_and_init)

    return decorate


_OTHER_ATTRIBUTES = {
    "Agent": {
        "arun": "await agent.run(...)",
        "astream": "agent.stream(...)",
        "invoke": "agent.run_sync(...)",
        "ainvoke": "await agent.run(...)",
        "iter": "agent.stream(...)",
        "output_validator": "output=StructuredOutput(..., validators=[...])",
        "override": "agent.run(..., model=...), or another Agent",
        "run_async": "await agent.run(...)",
        "run_stream": "agent.stream(...)",
        "run_streamed": "agent.stream(...)",
        "run_stream_sync": "agent.stream(...)",
        "stream_async": "agent.stream(...)",
        "system_prompt": "Agent(..., instructions=...), which also takes a function",
        "tool": "@tool from holdfast, and Agent(..., tools=[...])",
        "tool_plain": "@tool from holdfast, and Agent(..., tools=[...])",
        "to_cli": "holdfast chat",
        "to_web": "holdfast serve",
    },
    "Result": {
        "all_messages": "result.messages",
        "content": "result.text",
        "data": "result.output",
        "final_output": "result.output",
        "message": "result.messages[-1]",
        "new_messages": "result.messages",
        "response": "result.text",
        "structured_output": "result.output",
        "to_input_list": "result.history",
        "value": "result.output",
    },
}
"""The name to write instead of an attribute that other libraries have, by the class."""


def explain_attribute(kind: str, name: str) -> str:
    """Return the message of the AttributeError for an attribute that a class does not have.

    Args:
        kind: the name of the class.
        name: the name of the attribute.

    >>> explain_attribute("Result", "data")
    "'Result' has no attribute 'data'. Write result.output"
    """
    written = _OTHER_ATTRIBUTES[kind].get(name)
    return f"{kind!r} has no attribute {name!r}" + (f". Write {written}" if written else "")
