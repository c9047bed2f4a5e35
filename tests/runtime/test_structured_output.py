"""Typed answers of an agent: every form of type, the rungs, the validators, and what a failure tells."""

from __future__ import annotations

import asyncio
import enum
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field, field_validator
from typing_extensions import TypedDict

from holdfast import (
    Agent,
    ErrorCategory,
    LimitError,
    Limits,
    OutputContext,
    OutputError,
    OutputRejected,
    StructuredOutput,
    tool,
    user,
)
from holdfast.core.errors import ConfigurationError
from holdfast.core.messages import FinishReason, Reply, ReplyKind, Text, ToolCall, Usage
from holdfast.errors import TruncatedError, TruncatedOutputError, explain
from holdfast.models import ModelAt
from holdfast.testing import FakeClock, ScriptedModel


class Stop(BaseModel):
    city: str
    nights: int = Field(ge=1)


@dataclass
class Trip:
    city: str
    days: int


@dataclass
class Question:
    text: str


@dataclass
class Twin:
    city: str
    days: int


class Row(TypedDict):
    name: str
    size: int


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Node:
    name: str
    inside: list[Node] = field(default_factory=list)


def ask(output: object, *script: Any, **more: Any) -> Any:
    return asyncio.run(Agent(ScriptedModel(*script), output=output, **more).run("go"))  # type: ignore[arg-type]


def failure(output: object, *script: Any, **more: Any) -> OutputError:
    with pytest.raises(OutputError) as caught:
        ask(output, *script, **more)
    return caught.value


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (Stop, '{"city": "Porto", "nights": 2}', Stop(city="Porto", nights=2)),
        (Trip, '{"city": "Porto", "days": 2}', Trip("Porto", 2)),
        (Row, '{"name": "a", "size": 1}', {"name": "a", "size": 1}),
        (list[Trip], '[{"city": "Porto", "days": 2}]', [Trip("Porto", 2)]),
        (list[Trip], '{"answer": [{"city": "Porto", "days": 2}]}', [Trip("Porto", 2)]),
        (dict[str, int], '{"answer": 2}', {"answer": 2}),
        (Literal["yes", "no"], '"no"', "no"),
        (Literal["yes", "no"], '{"answer": "no"}', "no"),
        (Color, '"red"', Color.RED),
        (int, "42", 42),
        (int, '{"answer": 42}', 42),
        (bool, "true", True),
        (float | None, "null", None),
        (Trip | Question, '{"text": "When?"}', Question("When?")),
        ([Trip, Question], '{"city": "Porto", "days": 2}', Trip("Porto", 2)),
        ([Trip, Question], '{"Question": {"text": "When?"}}', Question("When?")),
        ([Trip, Twin], '{"Twin": {"city": "Porto", "days": 2}}', Twin("Porto", 2)),
        ([Trip, list[int]], '{"answer": [1]}', [1]),
        (Node, '{"name": "a", "inside": [{"name": "b"}]}', Node("a", [Node("b")])),
        (Annotated[int, Field(ge=3)], "3", 3),
    ],
)
def test_every_form_of_type(kind: object, text: str, value: object) -> None:
    result = ask(kind, text)
    assert result.output == value
    assert type(result.output) is type(value)
    assert result.parsed_by == "strict"


def test_a_dict_that_looks_like_a_tag_is_still_a_dict() -> None:
    assert ask([dict[str, int], Trip], '{"Trip": 3}').output == {"Trip": 3}


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (None, "not a type"),
        ([], "empty list"),
        (lambda: 1, "a lambda has no name"),
        (threading.Lock().acquire, "has no readable signature"),
        (Callable[[], int], "no JSON Schema"),
        (type("Odd", (), {}), "no JSON Schema"),
        (5, "no JSON Schema"),
        (["text"], "not a type"),
        (StructuredOutput(type("Odd", (), {})), "no JSON Schema"),
    ],
)
def test_what_can_be_no_schema_is_said_when_the_agent_is_made(kind: object, said: str) -> None:
    with pytest.raises(ConfigurationError, match="output: .*" + said) as caught:
        Agent(ScriptedModel(), output=kind)  # type: ignore[arg-type]
    assert caught.value.fix


class Crooked:
    @classmethod
    def __get_pydantic_core_schema__(cls, *_: object) -> object:
        raise KeyError("crooked")


def test_a_type_whose_schema_raises_is_named() -> None:
    with pytest.raises(ConfigurationError, match="Crooked"):
        Agent(ScriptedModel(), output=Crooked)


@pytest.mark.parametrize(
    ("given", "argument"),
    [
        ({"mode": "guess"}, "output.mode"),
        ({"attempts": 0}, "output.attempts"),
        ({"tokens": -1}, "output.tokens"),
        ({"seconds": float("nan")}, "output.seconds"),
        ({"lenient": 1}, "output.lenient"),
        ({"name": None}, "output.name"),
        ({"validators": print}, "output.validators"),
        ({"validators": ["x"]}, r"output.validators\[0\]"),
        ({"validators": [lambda a, b, c: None]}, r"output.validators\[0\]"),
    ],
)
def test_a_wrong_setting_names_itself(given: dict[str, Any], argument: str) -> None:
    with pytest.raises(ConfigurationError, match=argument):
        StructuredOutput(Trip, **given)


def test_a_tool_of_the_user_may_not_have_the_name_of_the_answer() -> None:
    @tool(name="final_answer")
    def mine() -> str:
        """Mine."""
        return ""

    with pytest.raises(ConfigurationError, match="final_answer"):
        Agent(ScriptedModel(), output=Trip, tools=[mine])


def test_every_rung_is_told() -> None:
    right = '{"city": "Porto", "days": 2}'
    assert ask(Trip, right).parsed_by == "strict"
    assert ask(Trip, f"So:\n```json\n{right}\n```").parsed_by == "embedded"
    lenient = StructuredOutput(Trip, lenient=True)
    assert ask(lenient, "{city: 'Porto', days: 2,}").parsed_by == "repaired"
    assert ask(lenient, right).parsed_by == "strict"
    raw = ask(StructuredOutput(Trip, raw_on_failure=True, attempts=2), "no", "never")
    assert (raw.parsed_by, raw.output, raw.iterations) == ("raw", "never", 2)
    assert ask(str, "text").parsed_by == ""


def test_nothing_is_mended_unasked() -> None:
    assert failure(StructuredOutput(Trip, attempts=1), "{city: 'Porto', days: 2}").problems


def test_the_end_of_a_reply_that_nobody_ended_is_not_made_up() -> None:
    wanted = StructuredOutput(Trip, lenient=True, attempts=1)
    text = '{"city": "Porto", "days": 2'
    assert ask(wanted, Reply((Text(text),))).parsed_by == "repaired"
    error = failure(wanted, Reply((Text(text),), finish=FinishReason.UNKNOWN))
    assert error.best == {"city": "Porto"}


def test_the_model_reads_every_problem() -> None:
    model = ScriptedModel('{"stops": [{"city": 1, "nights": 0}], "by": "boat"}', '{"stops": []}')

    class Tour(BaseModel):
        stops: list[Stop]
        by: Literal["train"] = "train"

    result = asyncio.run(Agent(model, output=Tour).run("go"))
    assert result.output == Tour(stops=[])
    said = model.requests[1].messages[-1].text
    for problem in (
        "- stops[0].city: must be a string; got 1\n",
        "- stops[0].nights: must be at least 1; got 0\n",
        '- by: must be "train"; got "boat"\n',
    ):
        assert problem in said


def test_a_failure_holds_the_text_the_best_part_and_every_problem() -> None:
    error = failure(StructuredOutput(Trip, attempts=2), "no", '{"city": 7, "days": "many"} ')
    assert error.raw == '{"city": 7, "days": "many"} '
    assert error.best == {"city": 7, "days": "many"}
    assert [(p.path, p.got) for p in error.problems] == [("city", "7"), ("days", '"many"')]
    assert error.partial is not None
    assert error.result.usage == Usage(20, 10)
    assert error.info.code == "output"


def test_a_thousand_problems_are_told_shortly_and_kept_whole() -> None:
    many = "[" + ",".join(['"x"'] * 500) + "]"
    model = ScriptedModel(many, many)
    with pytest.raises(OutputError) as caught:
        asyncio.run(Agent(model, output=StructuredOutput(list[int], attempts=2)).run("go"))
    assert len(caught.value.problems) == 500
    assert "and 481 more" in model.requests[1].messages[-1].text


def cut(*parts: Any) -> Reply:
    return Reply(parts, kind=ReplyKind.TRUNCATED, finish=FinishReason.LENGTH, usage=Usage(10, 50))


@pytest.mark.parametrize("mode", ["native", "tool", "prompt"])
def test_a_cut_answer_is_never_asked_for_again(mode: Any) -> None:
    text = '{"city": "Porto", "da'
    error: Any = TruncatedError("cut at the output limit", partial=cut(Text(text)))
    if mode == "tool":
        error = cut(ToolCall("a", "final_answer", text))
    model = ScriptedModel(error)
    with pytest.raises(TruncatedOutputError, match=r"settings\.max_tokens") as caught:
        asyncio.run(Agent(model, output=StructuredOutput(Trip, mode=mode)).run("go"))
    assert isinstance(caught.value, TruncatedError)
    assert caught.value.best == {"city": "Porto"}
    assert caught.value.raw == text
    assert caught.value.info.category is ErrorCategory.TRUNCATED
    assert len(model.requests) == 1


def test_an_answer_that_is_cut_after_a_wrong_one_has_none_of_its_problems() -> None:
    error = failure(Trip, '{"city": 1, "days": 2}', TruncatedError("cut", partial=cut(Text("{"))))
    assert isinstance(error, TruncatedOutputError)
    assert (error.raw, error.problems) == ("{", ())


async def test_validators_may_reject_an_answer_and_see_what_they_need() -> None:
    seen: list[OutputContext] = []

    def short(trip: Trip) -> None:
        if trip.days > 3:
            raise OutputRejected("At most 3 days.")

    async def known(trip: Trip, context: OutputContext) -> None:
        await asyncio.sleep(0)
        seen.append(context)
        if trip.city not in context.deps:
            raise OutputRejected("Only a city that we know.")

    model = ScriptedModel('{"city": "Rome", "days": 9}', '{"city": "Porto", "days": 3}')
    output = StructuredOutput(Trip, validators=[short, known])
    result = await Agent(model, output=output).run("go", deps={"Porto"})
    assert result.output == Trip("Porto", 3)
    said = model.requests[1].messages[-1].text
    assert "- At most 3 days.\n- Only a city that we know.\n" in said
    assert [(one.key, one.failures) for one in seen] == [("t1.i0.output", 0), ("t1.i1.output", 1)]
    assert seen[0].text == '{"city": "Rome", "days": 9}'


def test_what_else_a_validator_raises_is_no_word_to_the_model() -> None:
    def broken(trip: Trip) -> None:
        raise KeyError("password=hunter2")

    model = ScriptedModel('{"city": "Rome", "days": 9}')
    with pytest.raises(OutputError) as caught:
        asyncio.run(Agent(model, output=StructuredOutput(Trip, validators=[broken])).run("go"))
    assert "hunter2" not in str(caught.value)
    assert "hunter2" not in repr(caught.value.info)
    assert "KeyError" in str(caught.value)
    assert isinstance(caught.value.__cause__, KeyError)
    assert len(model.requests) == 1


def test_a_secret_in_a_rejection_is_taken_out() -> None:
    def leaky(trip: Trip) -> None:
        raise OutputRejected("The key sk-proj-abcdefghijklmnopqrstuvwxyz012345 is wrong.")

    error = failure(
        StructuredOutput(Trip, validators=[leaky], attempts=1), '{"city": "Rome", "days": 9}'
    )
    assert "abcdefghijklmnop" not in str(error.problems)


def test_what_a_validator_returns_is_not_lost_in_silence() -> None:
    output = StructuredOutput(Trip, validators=[lambda trip: trip.days < 3])
    error = failure(output, '{"city": "Rome", "days": 9}')
    assert "must return None" in str(error.__cause__)


def test_an_exception_of_a_validator_of_the_type_ends_the_turn_in_the_safe_form() -> None:
    class Broken(BaseModel):
        city: str

        @field_validator("city")
        @classmethod
        def known(cls, city: str) -> str:
            raise KeyError("hunter2")

    error = failure(Broken, '{"city": "Rome"}')
    assert "hunter2" not in str(error)


def test_the_caps_are_those_of_the_output_or_of_the_limits() -> None:
    for output, limits in (
        (StructuredOutput(Trip, attempts=2), Limits()),
        (Trip, Limits(output_repairs=1)),
        (StructuredOutput(Trip, tokens=15), Limits()),
        (Trip, Limits(output_repair_tokens=15)),
    ):
        error = failure(output, "no", "no", "no", limits=limits)
        assert "after 2 tries" in str(error)
        assert error.result.iterations == 2
    assert "after 1 tries" in str(failure(StructuredOutput(Trip, attempts=1), "no"))


def test_the_limits_of_one_turn_do_not_undo_what_the_output_says() -> None:
    agent = Agent(ScriptedModel("no", "no"), output=StructuredOutput(Trip, attempts=1))
    with pytest.raises(OutputError, match="after 1 tries"):
        asyncio.run(agent.run("go", limits=Limits(output_repairs=5)))


def test_no_other_answer_is_asked_for_when_the_time_is_over() -> None:
    clock = FakeClock()

    def late(_: object) -> str:
        clock.advance(20)
        return "no"

    error = failure(StructuredOutput(Trip, seconds=30, attempts=9), *[late] * 9, clock=clock)
    assert error.result.iterations == 3


def test_the_iterations_end_a_turn_that_would_be_asked_again() -> None:
    agent = Agent(ScriptedModel("no", "no"), output=Trip, limits=Limits(iterations=1))
    with pytest.raises(LimitError) as caught:
        asyncio.run(agent.run("go"))
    assert caught.value.partial is not None
    assert caught.value.partial.text == "no"


@pytest.mark.parametrize("limits", [Limits(iterations=1), Limits(tokens=15)])
def test_a_raw_answer_is_taken_when_any_limit_allows_no_other(limits: Limits) -> None:
    result = ask(StructuredOutput(Trip, raw_on_failure=True), "no", limits=limits)
    assert (result.output, result.parsed_by, result.iterations) == ("no", "raw", 1)


@pytest.mark.slow  # takes half a second or more
@pytest.mark.parametrize(
    "text",
    [
        "[" * 5_000_000,
        '{"name": "a", "inside": [' * 3000 + "]}" * 3000,
        '{"name": ' + "9" * 6000 + "}",
        '{"name": NaN}',
        '{"name": "a", "name": "b"}',
        '{"name": "\ud800"}',
        '{"name": "\\ud800"}',
        '{"name": "' + "x" * 5_000_000,
    ],
    ids=lambda text: text[:12].encode("ascii", "replace").decode(),
)
def test_hostile_answers_are_problems_and_never_crashes(text: str) -> None:
    error = failure(StructuredOutput(Node, attempts=1, lenient=True), text)
    assert error.problems
    assert len(str(error)) < 3000


def test_a_long_answer_is_read_in_a_thread() -> None:
    readers: list[threading.Thread] = []

    class Noted(BaseModel):
        name: str

        @field_validator("name")
        @classmethod
        def note(cls, name: str) -> str:
            readers.append(threading.current_thread())
            return name

    for length, beside in ((10, False), (200_000, True)):
        readers.clear()
        text = '{"name": "' + "x" * length + '"}'
        assert len(ask(Noted, text).output.name) == length
        assert (threading.current_thread() not in readers) is beside
        assert readers


def test_a_plain_agent_loads_nothing_of_typed_answers() -> None:
    import subprocess
    import sys

    code = (
        "import sys, asyncio; from holdfast import Agent; from holdfast.testing import ScriptedModel;"
        "asyncio.run(Agent(ScriptedModel('Hi')).run('Hi'));"
        "print([m for m in sys.modules if m == 'pydantic' or 'ladder' in m or 'checking' in m "
        "or 'answer_modes' in m])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


async def test_cancelling_a_check_leaves_the_answer_in_the_history() -> None:
    begun = asyncio.Event()

    async def slow(trip: Trip) -> None:
        begun.set()
        await asyncio.Event().wait()

    agent = Agent(
        ScriptedModel('{"city": "Rome", "days": 9}', '{"city": "Rome", "days": 1}'),
        output=StructuredOutput(Trip, validators=[slow]),
    )
    task = asyncio.create_task(agent.run("go", session="s"))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    other = Agent(ScriptedModel("text"))
    assert (await other.run("go")).output == "text"


def test_the_description_of_an_agent_says_how_it_asks() -> None:
    output = StructuredOutput(Trip, mode="tool", attempts=3, lenient=True, validators=[print])
    told = Agent(ScriptedModel(), output=output).describe()
    assert "  output: Trip, mode=tool, lenient=True, attempts=3, validators=1\n" in told
    assert "output:" not in Agent(ScriptedModel()).describe()
    agent = Agent(
        "openai:gpt-5.2", api_key="k", output=Trip, fallback=[ModelAt("groq:m", api_key="k")]
    )
    assert agent.describe().partition("  output: ")[2].splitlines()[:3] == [
        "Trip, mode=auto",
        "    openai:gpt-5.2: mode=native (OpenAI (strict) enforces the schema)",
        "    groq:m: mode=tool (the best mode of this provider)",
    ]


async def test_a_validator_that_hangs_ends_with_the_time_of_the_turn() -> None:
    async def stuck(trip: Trip) -> None:
        await asyncio.Event().wait()

    agent = Agent(
        ScriptedModel('{"city": "Rome", "days": 9}'),
        output=StructuredOutput(Trip, validators=[stuck]),
        limits=Limits(seconds=0.05),
    )
    with pytest.raises(LimitError) as caught:
        await agent.run("go")
    assert caught.value.result.text == '{"city": "Rome", "days": 9}'


async def test_a_sync_validator_blocks_no_other_run() -> None:
    free = threading.Event()

    def slow(trip: Trip) -> None:
        assert free.wait(20)

    wanted = StructuredOutput(Trip, validators=[slow])
    task = asyncio.create_task(
        Agent(ScriptedModel('{"city": "Rome", "days": 9}'), output=wanted).run("go")
    )
    assert (await Agent(ScriptedModel("Hi")).run("go")).output == "Hi"
    free.set()
    assert (await task).output == Trip("Rome", 9)


def test_the_advice_for_an_output_is_not_about_the_address() -> None:
    agent = Agent(ScriptedModel("a", "b", "c"), output=int)
    with pytest.raises(OutputError) as raised:
        agent.run_sync("How many?")
    assert explain(raised.value.info).endswith("what the answer must look like.")


@dataclass
class DatedTrip:
    """An answer."""

    city: str
    days: int


async def test_the_error_of_an_output_holds_its_last_text_and_every_problem() -> None:
    wrong = '{"city": 7, "days": "many"}'
    agent = Agent(ScriptedModel(wrong, wrong), output=DatedTrip, limits=Limits(output_repairs=1))
    with pytest.raises(OutputError) as caught:
        await agent.run("Where to?")
    error = caught.value
    assert error.raw == wrong
    assert len(error.problems) == 2
    assert error.result.text == wrong
    assert error.partial is not None
    assert error.result.messages == (user("Where to?"),)
