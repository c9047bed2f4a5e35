"""Agents from TOML files: what is read, and what is said about each mistake, with its line."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import Agent, ConfigurationError, ErrorCategory, Limits, ModelSettings, RetryOptions
from holdfast.agent_file.load_agent import load_agent
from holdfast.agent_file.toml_source import find_key_lines
from holdfast.models import Prices
from holdfast.resilience.defaults import Resilience
from holdfast.transport.port import Timeouts

WHOLE = """\
# A comment with model = "wrong"
model = "ollama:llama3.2"
name = "scout"
instructions_file = "prompt.md"
base_url = "http://127.0.0.1:9/v1"
parallel_tools = 2
tools = [
    "tests.agents_for_files:weather",
]
output = "tests.agents_for_files:Trip"
fallback = ["ollama:other"]

[settings]
temperature = 0.5
stop = ["END"]

[limits]
iterations = 4
seconds = false

[timeouts]
total = 30

[retry]
max_retries = 1
custom_retry = "tests.agents_for_files:never"

[retry.max_retries_by_category]
server_error = 5

[resilience]
attempt_timeout = 20
breaker = false

[resilience.limiter]
concurrency = 3
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "agent.toml"
    path.write_text(dedent(text), "utf-8")
    return path


def problem(folder: Path, text: str) -> str:
    with pytest.raises(ConfigurationError) as caught:
        Agent.from_file(written(folder, text))
    return str(caught.value)


def test_every_key_becomes_the_keyword_of_its_name(tmp_path: Path) -> None:
    (tmp_path / "prompt.md").write_text("You scout.", "utf-8")
    found = load_agent(written(tmp_path, WHOLE), dict)
    from tests import agents_for_files as there

    assert found == {
        "model": "ollama:llama3.2",
        "name": "scout",
        "instructions": "You scout.",
        "base_url": "http://127.0.0.1:9/v1",
        "parallel_tools": 2,
        "tools": [there.weather],
        "output": there.Trip,
        "fallback": ["ollama:other"],
        "settings": ModelSettings(temperature=0.5, stop=("END",)),
        "limits": Limits(iterations=4, seconds=None),
        "timeouts": Timeouts(total=30),
        "retry": RetryOptions(
            max_retries=1,
            custom_retry=there.never,
            max_retries_by_category={ErrorCategory.SERVER_ERROR: 5},
        ),
        "resilience": found["resilience"],
    }
    resilience = found["resilience"]
    assert isinstance(resilience, Resilience)
    assert resilience.breaker is None
    assert resilience.attempt_timeout == 20
    assert resilience.limiter is not None
    assert resilience.limiter.concurrency == 3


def test_an_agent_is_made_of_it(tmp_path: Path) -> None:
    (tmp_path / "prompt.md").write_text("You scout.", "utf-8")
    agent = Agent.from_file(str(written(tmp_path, WHOLE)))
    assert "tools: weather" in agent.describe()
    assert repr(agent) == "Agent('ollama:llama3.2', name='scout')"


def test_a_file_names_toolsets(tmp_path: Path) -> None:
    text = 'model = "ollama:x"\ntoolsets = ["tests.agents_for_files:tea_tools"]'
    assert "tools: tea_weather" in Agent.from_file(written(tmp_path, text)).describe()
    wrong = 'model = "ollama:x"\ntoolsets = ["tests.agents_for_files:weather"]'
    assert problem(tmp_path, wrong).endswith(
        "agent.toml:2: toolsets[0]: must be Toolset, got function"
    )


def test_a_file_with_a_model_is_enough(tmp_path: Path) -> None:
    assert load_agent(written(tmp_path, 'model = "ollama:x"'), dict) == {"model": "ollama:x"}


MISTAKES = {
    "unknown key": (
        'model = "ollama:x"\ninstrutions = "Hi"',
        "agent.toml:2: instrutions: is not a setting. Did you mean instructions?",
    ),
    "unknown key in a table": (
        'model = "ollama:x"\n\n[limits]\n# so many\niteratons = 3',
        "agent.toml:5: limits.iteratons: is not a setting. Did you mean iterations?",
    ),
    "unknown key in a strategy": (
        'model = "ollama:x"\n[resilience.breaker]\nfailure_ration = 0.5',
        (
            "agent.toml:3: resilience.breaker.failure_ration: is not a setting. "
            "Did you mean failure_ratio?"
        ),
    ),
    "what no file can hold": (
        'model = "ollama:x"\n[resilience]\nmetrics = true',
        (
            "agent.toml:3: resilience.metrics: is not a setting. "
            "Known are attempt_timeout, breaker, budget, cache, continue_streams, deadline, hedge, limiter, reply_limits"
        ),
    ),
    "no model": ('name = "x"', 'agent.toml: model: is missing. Write model = "openai:gpt-5.2"'),
    "unknown provider": (
        '\nmodel = "openrooter:x"',
        "agent.toml:2: provider: unknown provider 'openrooter'. did you mean openrouter or openai?",
    ),
    "wrong type": ("model = 5", "agent.toml:1: model: expected str, got int"),
    "wrong type in a table": (
        'model = "ollama:x"\n[limits]\niterations = "3"',
        "agent.toml:3: limits.iterations: expected int | null, got str",
    ),
    "bool for a number": (
        'model = "ollama:x"\n[retry]\nmax_retries = true',
        "agent.toml:3: retry.max_retries: expected int, got bool",
    ),
    "bad value": (
        'model = "ollama:x"\n[limits]\niterations = 0',
        "agent.toml:3: limits.iterations: must be at least 1, got 0",
    ),
    "bad value in an inline table": (
        'model = "ollama:x"\nlimits = { iterations = 0 }',
        "agent.toml:2: limits.iterations: must be at least 1, got 0",
    ),
    "bad value by a dotted key": (
        'model = "ollama:x"\nlimits.iterations = 0',
        "agent.toml:2: limits.iterations: must be at least 1, got 0",
    ),
    "bad value in a strategy": (
        'model = "ollama:x"\n[resilience.breaker]\nfailure_ratio = 2',
        "agent.toml:3: resilience.breaker.failure_ratio: must be above 0 and at most 1, got 2.0",
    ),
    "no such category": (
        'model = "ollama:x"\n[retry.max_retries_by_category]\nserver = 1',
        "agent.toml:2: retry.max_retries_by_category: invalid enum value 'server'",
    ),
    "a value for a table": (
        'model = "ollama:x"\nlimits = 5',
        "agent.toml:2: limits: must be a table, got a number. Write [limits]",
    ),
    "bad number of parallel tools": (
        'model = "ollama:x"\nparallel_tools = 0',
        "agent.toml:2: parallel_tools: must be at least 1, got 0",
    ),
    "tools that are no list": (
        'model = "ollama:x"\ntools = "a:b"',
        "agent.toml:2: tools: expected array, got str",
    ),
    "no import string": (
        'model = "ollama:x"\ntools = ["weather"]',
        "agent.toml:2: tools: 'weather' is not a module and a name. Write \"package.module:name\"",
    ),
    "no such module": (
        'model = "ollama:x"\ntools = ["no_such_module_here:x"]',
        (
            "agent.toml:2: tools: 'no_such_module_here' cannot be imported: No module named "
            "'no_such_module_here'. Put it beside the agent's file, install it, or add its folder to PYTHONPATH"
        ),
    ),
    "no such name": (
        'model = "ollama:x"\ntools = ["tests.agents_for_files:wether"]',
        "agent.toml:2: tools: 'tests.agents_for_files' has no 'wether'. Did you mean weather?",
    ),
    "what is no function": (
        'model = "ollama:x"\nname = "a"\ntools = ["tests.agents_for_files:NUMBER"]',
        (
            "agent.toml:3: tool: must be a function, got int. "
            "Pass a function, a method or an object with __call__"
        ),
    ),
    "instructions twice": (
        'model = "ollama:x"\ninstructions = "a"\ninstructions_file = "b"',
        (
            "agent.toml:3: instructions_file: cannot be given together with instructions. "
            "Leave one of them out"
        ),
    ),
    "no such file of instructions": (
        'model = "ollama:x"\ninstructions_file = "no.md"',
        (
            "agent.toml:2: instructions_file: 'no.md' cannot be read: No such file or directory. "
            "The path is relative to the agent's file"
        ),
    ),
}


@pytest.mark.parametrize(("text", "said"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_told_with_file_line_key_and_fix(tmp_path: Path, text: str, said: str) -> None:
    assert problem(tmp_path, text) == said


def test_broken_toml_says_where(tmp_path: Path) -> None:
    assert problem(tmp_path, "model = ").startswith("agent.toml: is not TOML: Invalid value (at")


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"none\.toml: cannot be read: No such file"):
        Agent.from_file(tmp_path / "none.toml")
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigurationError, match=r"bytes\.toml: is not UTF-8 text"):
        Agent.from_file(tmp_path / "bytes.toml")


def test_a_table_changes_the_profile(tmp_path: Path) -> None:
    text = """
        model = "openai:x"
        base_url = "http://gpu:8000/v1"
        [profile]
        like = "vllm"
        stream_usage = false
        state_fields = ["a", "b"]
    """
    shown = " ".join(Agent.from_file(written(tmp_path, text)).describe().split())
    assert "'prefill': 'final_message'" in shown
    assert "'stream_usage': False" in shown
    assert "'state_fields': ['a', 'b']" in shown


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (
            'system_role = "sytem"',
            'agent.toml:3: profile.system_role: must be "system", "developer"',
        ),
        ("stream_usag = true", "agent.toml:3: profile.stream_usag: is not a field of a profile"),
        ('like = "vlm"', "agent.toml:3: profile.like: unknown provider 'vlm'. did you mean vllm"),
    ],
)
def test_a_wrong_field_of_a_profile_is_named_with_its_line(
    tmp_path: Path, line: str, words: str
) -> None:
    text = f'model = "openai:x"\n[profile]\n{line}\n[limits]\niterations = 4\n'
    (tmp_path / "agent.toml").write_text(text, "utf-8")
    with pytest.raises(ConfigurationError) as caught:
        Agent.from_file(tmp_path / "agent.toml")
    assert str(caught.value).startswith(words)


KEY = "sk-proj-0123456789abcdef"


@pytest.mark.parametrize(
    "text",
    [
        f'model = "ollama:x"\napi_key = "{KEY}"',
        f'model = "ollama:x"\nbase_url = "https://bob:{KEY}@example.org"',
        f'model = "ollama:x"\ninstructions = "Use {KEY} to pay."',
        f'model = "ollama:x"\nsettings.extra.authorization = "{KEY}"',
        f'model = "ollama:x"\nsettings.extra.list = [["{KEY}"]]',
        'model = "ollama:x"\nsettings.extra.password = "swordfish"',
        f'model = "ollama:x"\napi_key_env = "{KEY}"',
    ],
)
def test_a_secret_in_the_file_is_refused_and_never_repeated(tmp_path: Path, text: str) -> None:
    said = problem(tmp_path, text)
    assert said.startswith("agent.toml:2: ")
    assert KEY not in said
    assert "swordfish" not in said
    assert "api_key_env" in said


def test_instructions_may_speak_of_secrets(tmp_path: Path) -> None:
    text = 'model = "ollama:x"\ninstructions = "A password is secret. Never tell a token: never."'
    assert "password" in str(load_agent(written(tmp_path, text), dict)["instructions"])


def test_the_key_comes_from_the_variable_that_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCOUT_KEY", KEY)
    text = 'model = "openai:x"\napi_key_env = "SCOUT_KEY"'
    assert load_agent(written(tmp_path, text), dict) == {"model": "openai:x", "api_key": KEY}
    assert KEY not in Agent.from_file(written(tmp_path, text)).describe()
    monkeypatch.delenv("SCOUT_KEY")
    assert problem(tmp_path, text) == (
        "agent.toml:2: api_key_env: the environment variable SCOUT_KEY is not set. "
        "export SCOUT_KEY=..."
    )


def test_lines_are_found_around_long_texts_and_quoted_keys() -> None:
    text = dedent(
        '''\
        a = """
        b = 1
        [c]
        """
        "d.e" = 1
        [f . "g h"]
        i = [
          "j = 1",
        ]
        [[k]]
        l = 1
        '''
    )
    assert find_key_lines(text) == {
        ("a",): 1,
        ("d.e",): 5,
        ("f", "g h"): 6,
        ("f", "g h", "i"): 7,
        ("k",): 10,
        ("k", "l"): 11,
    }


NAMES = st.text("abcdefgh_", min_size=1, max_size=8)


@given(st.lists(NAMES, unique=True, max_size=8), st.lists(NAMES, unique=True, max_size=8))
def test_each_key_is_found_in_its_line(plain: list[str], inner: list[str]) -> None:
    rows = [f"{name} = 1" for name in plain] + ["[table-x]"] + [f"{name} = 2" for name in inner]
    found = find_key_lines("\n".join(rows))
    assert found[("table-x",)] == len(plain) + 1
    assert all(rows[found[(name,)] - 1] == f"{name} = 1" for name in plain)
    assert all(rows[found[("table-x", name)] - 1] == f"{name} = 2" for name in inner)


def test_a_journal_people_and_middlewares_can_be_named(tmp_path: Path) -> None:
    text = f"""
        model = "ollama:m"
        journal = "sqlite:///{tmp_path}/runs.db"
        on_wait = "suspend"
        on_busy = "refuse"
        middleware = ["tests.agents_for_files:guard"]
        observers = ["tests.agents_for_files:watch"]
        on_question = "tests.agents_for_files:nobody"
        """
    assert "RepetitionGuard" in Agent.from_file(written(tmp_path, text)).describe()
    assert (tmp_path / "runs.db").exists()


def test_prices_are_published_ones_or_a_file_beside_it(tmp_path: Path) -> None:
    (tmp_path / "prices.toml").write_text('["llama3.2"]\ninput = 0.1\noutput = 1\n')
    limits = "\n[limits]\ncost = 0.25\n"
    model = 'model = "ollama:llama3.2"\n'
    for named in ("known", "prices.toml"):
        path = written(tmp_path, f'{model}prices = "{named}"\n{limits}')
        keywords = load_agent(path, dict)
        assert isinstance(keywords["prices"], Prices)
        assert keywords["limits"] == Limits(cost="0.25")
        Agent.from_file(path)
    path = written(tmp_path, f'{model}prices = "none.toml"\n')
    with pytest.raises(
        ConfigurationError, match=r"agent.toml:2: prices: .*none.toml cannot be read"
    ):
        Agent.from_file(path)
    path = written(tmp_path, f"{model}{limits}")
    with pytest.raises(ConfigurationError, match=r"agent.toml:\d: limits.cost: needs prices"):
        Agent.from_file(path)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('journal = "mysql://db/x"', "agent.toml:2: journal"),
        ('journal = "postgresql://ada:hush@db/talk"', "agent.toml:2: journal"),
        ('on_wait = "sleep"', "agent.toml:2: on_wait"),
        ('on_busy = "sleep"', "agent.toml:2: on_busy"),
        ('middleware = ["tests.agents_for_files:NUMBER"]', "agent.toml:2: middleware"),
        ('on_question = "tests.agents_for_files:watch"', "agent.toml:2: on_question"),
    ],
)
def test_what_cannot_be_named_is_told_with_its_line(tmp_path: Path, line: str, said: str) -> None:
    path = tmp_path / "agent.toml"
    path.write_text(f'model = "ollama:m"\n{line}\n', "utf-8")
    with pytest.raises(ConfigurationError) as caught:
        Agent.from_file(path)
    assert str(caught.value).startswith(said)
    assert "hush" not in str(caught.value)


def test_middlewares_and_who_is_asked(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        """
        model = "ollama:llama3.2"
        middleware = ["tests.agents_for_files:POLITE", "tests.agents_for_files:SAFE"]
        observers = ["tests.agents_for_files:watch"]

        [permissions]
        allow = ["read_*"]
        ask = ["pay"]
        timeout = 60

        [continuation]
        iterations = 5
        """,
    )
    lines = [line.strip() for line in Agent.from_file(path).describe().splitlines()]
    assert "Polite" in lines
    assert (
        "RepetitionGuard: max_consecutive_calls=5, hint_at=None, withdraw_at=None, ask_at=None"
        in lines
    )
    assert "ToolPermission: ask=pay, allow=read_*, default=deny, timeout=60.0" in lines
    assert any(
        line.startswith("ContinuationPermission: iterations=5, extension=3") for line in lines
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            'middleware = ["tests.agents_for_files:Polite"]',
            "agent.toml:2: middleware[0]: must be Middleware, got the class Polite",
        ),
        (
            'middleware = ["tests.agents_for_files:NUMBER"]',
            "agent.toml:2: middleware[0]: must be Middleware, got int",
        ),
        ('observers = ["tests.agents_for_files:NUMBER"]', "agent.toml:2: observers[0]: must be"),
        ("permissions = 3", "agent.toml:2: permissions: must be a table"),
        ("[permissions]\nalow = []", "agent.toml:3: permissions.alow: is not a setting"),
        ('[permissions]\nallow = "x"', "agent.toml:3: permissions.allow: expected"),
        (
            '[permissions]\nallow = ["pay"]\ndeny = ["pay"]',
            'agent.toml:3: permissions.allow: "pay" contradicts deny "pay"',
        ),
        (
            "[continuation]\niterations = 0",
            "agent.toml:3: continuation.iterations: must be at least 1",
        ),
    ],
)
def test_mistakes_in_them_are_named_with_their_line(tmp_path: Path, text: str, said: str) -> None:
    path = written(tmp_path, f'model = "ollama:llama3.2"\n{text}\n')
    with pytest.raises(ConfigurationError) as caught:
        Agent.from_file(path)
    assert str(caught.value).startswith(said)


def test_a_number_of_five_thousand_digits_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "agent.toml"
    file.write_text('model = "ollama:a"\nparallel_tools = ' + "1" * 5_000)
    with pytest.raises(ConfigurationError, match=r"agent\.toml: cannot be read"):
        Agent.from_file(file)


@pytest.mark.parametrize(
    ("line", "choices"),
    [
        ('retry.backoff = "x"', ("exponential", "full_jitter", "pure", "decorrelated")),
        ('resilience.breaker.mode = "x"', ("ratio", "consecutive")),
        ('on_wait = "x"', ("hold", "suspend")),
        ('on_busy = "x"', ("queue", "refuse")),
    ],
)
def test_the_choices_are_named(tmp_path: Path, line: str, choices: tuple[str, ...]) -> None:
    path = tmp_path / "agent.toml"
    path.write_text(f'model = "ollama:x"\n{line}\n', "utf-8")
    with pytest.raises(ConfigurationError) as caught:
        Agent.from_file(path)
    assert str(caught.value).startswith("agent.toml:2: ")
    assert all(choice in str(caught.value) for choice in choices)


@pytest.mark.parametrize(
    "above",
    [
        "# do not use ''' here",
        'name = "a"  # nor """',
        "name = \"it's ''' \"",
        'name = \'"""\'',
        'name = "\\" \\"\\"\\" # "',
        "name = '''#'''",
        'name = """ \'\'\' """ # "',
        'name = ""',
    ],
)
def test_the_line_is_named(above: str, tmp_path: Path) -> None:
    path = tmp_path / "agent.toml"
    path.write_text(f'{above}\nmodel = "ollama:m"\n[limits]\niteration = 3\n')
    with pytest.raises(
        ConfigurationError, match=r"agent\.toml:4: limits\.iteration: is not a setting"
    ):
        Agent.from_file(path)


def test_what_stands_in_a_long_text_is_no_key() -> None:
    text = "a = \"\"\" # '''\nb = 1\n\"\"\"\nc = '''\n\"\"\"\nd = 2'''\ne = 3"
    assert find_key_lines(text) == {("a",): 1, ("c",): 4, ("e",): 7}
