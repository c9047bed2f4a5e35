"""What type checkers must see of typed answers. Checked by mypy, never run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, assert_type

from holdfast import Agent, OutputContext, OutputRejected, StructuredOutput
from holdfast.compat import AgentBuilder


@dataclass
class Trip:
    city: str


@dataclass
class Question:
    text: str


def short(trip: Trip, context: OutputContext) -> None:
    if len(trip.city) > context.failures:
        raise OutputRejected("Shorter, please.")


async def use() -> None:
    plain = await Agent("ollama:qwen3").run("Hi")
    assert_type(plain.output, str)
    trip = await Agent("ollama:qwen3", output=Trip).run("Hi")
    assert_type(trip.output, Trip)
    assert_type(trip.parsed_by, Literal["strict", "embedded", "repaired", "raw", ""])
    listed = await Agent("ollama:qwen3", output=list[Trip]).run("Hi")
    assert_type(listed.output, list[Trip])
    tuned = await Agent("ollama:qwen3", output=StructuredOutput(Trip, validators=[short])).run("Hi")
    assert_type(tuned.output, Trip)
    raw = StructuredOutput(Trip, raw_on_failure=True)
    assert_type(raw, StructuredOutput[Trip | str])
    assert_type((await Agent("ollama:qwen3", output=raw).run("Hi")).output, Trip | str)
    several = await Agent[Trip | Question]("ollama:qwen3", output=[Trip, Question]).run("Hi")
    assert_type(several.output, Trip | Question)
    union = StructuredOutput[Trip | Question](Trip | Question, mode="tool")
    assert_type((await Agent("ollama:qwen3", output=union).run("Hi")).output, Trip | Question)
    one = StructuredOutput[Literal["yes", "no"]](Literal["yes", "no"])
    assert_type((await Agent("ollama:qwen3", output=one).run("Hi")).output, Literal["yes", "no"])
    built = AgentBuilder().with_model("ollama:qwen3").with_output(Trip).build()
    assert_type((await built.run("Hi")).output, Trip)
    StructuredOutput(Trip, mode="guess")  # type: ignore[call-overload]
    async with Agent("ollama:qwen3", output=Trip).stream("Hi") as run:
        async for partial in run.partials():
            assert_type(partial, object)
