"""Clients of OpenAI's APIs against the service: `openai` in Python and Node, litellm, LangChain and llm."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from conformance.client_programs import ClientPrograms, Drive
from conformance.conftest import serving
from conformance.node_clients import needs_node, node_command
from conformance.service import serving_agent

FOLDER = Path(__file__).parent / "python"
PYTHON = FOLDER / ".venv" / "bin" / "python"
TEXT = "You said: one two three four five six seven eight nine ten"

needs_python = pytest.mark.skipif(
    not PYTHON.is_file(), reason="THE CLIENTS ARE NOT INSTALLED: ./run conformance installs them"
)


def run_python(program: str, *arguments: str, seconds: float = 60) -> Any:
    """Run a program of `conformance/python`; return what it prints, as JSON."""
    done = subprocess.run(
        [str(PYTHON), program, *arguments],
        cwd=FOLDER,
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def service(emulator: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The base URL of OpenAI's protocols of a service, which all tests share."""
    with serving_agent(tmp_path_factory.mktemp("service"), emulator) as url:
        yield url


def _client(program: str, api: str, name: str) -> Any:
    needed = needs_node if program.endswith(".mjs") else needs_python
    return pytest.param(program, api, id=name, marks=needed)


OPENAI = _client("openai_client.py", "chat", "openai-chat")
RESPONSES = _client("openai_client.py", "responses", "openai-responses")
NODE = [
    _client("openai.mjs", "chat", "node-chat"),
    _client("openai.mjs", "responses", "node-responses"),
]
ALL = [
    OPENAI,
    RESPONSES,
    *NODE,
    _client("litellm_client.py", "chat", "litellm-chat"),
    _client("langchain_client.py", "chat", "langchain-chat"),
    _client("langchain_client.py", "responses", "langchain-responses"),
    _client("llm_client.py", "chat", "llm"),
]


def _find_command(program: str) -> tuple[Sequence[str], str]:
    if program.endswith(".mjs"):
        return node_command(program)
    return [str(PYTHON), program], str(FOLDER)


@pytest.fixture(scope="module")
def drive() -> Iterator[Drive]:
    """Run scenarios in programs with the clients."""
    with ClientPrograms(_find_command) as programs:
        yield programs.drive


@pytest.mark.parametrize(
    ("program", "api"), [*ALL, _client("litellm_client.py", "responses", "litellm-responses")]
)
def test_a_call(drive: Drive, program: str, api: str, service: str) -> None:
    happened = drive(program, api, "call", service)
    assert happened["text"] == TEXT
    assert happened["tokens"] > 0


@pytest.mark.parametrize(("program", "api"), ALL)
def test_a_tool_of_the_client(drive: Drive, program: str, api: str, service: str) -> None:
    happened = drive(program, api, "tool", service)
    assert happened["name"] == "weather"
    assert isinstance(happened["arguments"]["city"], str)
    assert "sunny" in happened["text"]


@pytest.mark.parametrize(("program", "api"), ALL)
def test_a_schema(drive: Drive, program: str, api: str, service: str) -> None:
    value = drive(program, api, "schema", service)["value"]
    assert (type(value["city"]), type(value["days"]), len(value)) == (str, int, 2)


@pytest.fixture(scope="module")
def slow_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The base URL of a service whose provider waits between the pieces of its text."""
    pauses = ["pace=0.02"] * 20
    folder = tmp_path_factory.mktemp("slow")
    with serving(("--fault", *pauses)) as emulator, serving_agent(folder, emulator) as url:
        yield url


@pytest.mark.parametrize(("program", "api"), ALL)
def test_a_stream(drive: Drive, program: str, api: str, slow_service: str) -> None:
    happened = drive(program, api, "stream", slow_service)
    assert happened["text"] == TEXT
    assert happened["pieces"] > 1


@needs_python
def test_what_is_not_supported_is_the_clients_own_error(drive: Drive, service: str) -> None:
    happened = drive("openai_client.py", "chat", "wrong", service)
    assert happened == {"error": "BadRequestError", "status": 400}


@needs_python
def test_agents_are_models(drive: Drive, service: str) -> None:
    assert drive("openai_client.py", "chat", "models", service) == {"names": ["demo"]}


@pytest.mark.parametrize(
    ("program", "api"), [RESPONSES, _client("openai_service.mjs", "responses", "node")]
)
def test_a_reader_leaves_a_background_response_and_comes_back(
    drive: Drive, program: str, api: str, service: str
) -> None:
    happened = drive(program, api, "background", service)
    assert happened == {"text": TEXT, "whole": TEXT, "status": "completed"}


@pytest.mark.parametrize(
    ("program", "api"), [RESPONSES, _client("openai_service.mjs", "responses", "node")]
)
def test_a_session_a_fork_and_a_conversation(
    drive: Drive, program: str, api: str, service: str
) -> None:
    happened = drive(program, api, "session", service)
    texts = [f"You said: {word}" for word in ("first", "second", "other", "named")]
    assert happened == {"texts": texts, "previous": True, "conversation": True}


_SEARCHED = """
[[reply]]
hosted = [{ name = "web_search", arguments = { query = "Porto" }, pages = ["https://porto.pt"] }]
text = "Six bridges."
source = { url = "https://porto.pt", title = "Porto" }
"""


@pytest.fixture
def searching_service(tmp_path: Path) -> Iterator[str]:
    """The base URL of a service whose provider searches the web, once."""
    script = tmp_path / "script.toml"
    script.write_text(_SEARCHED)
    with (
        serving(("--script", str(script))) as emulator,
        serving_agent(tmp_path, emulator, "openai-responses") as url,
    ):
        yield url


@pytest.mark.parametrize("api", ["chat", "responses"])
@pytest.mark.parametrize(
    "program",
    [
        pytest.param("openai_client.py", marks=needs_python),
        pytest.param("openai_service.mjs", marks=needs_node),
    ],
)
def test_the_sources_of_a_text(
    drive: Drive, program: str, api: str, searching_service: str
) -> None:
    happened = drive(program, api, "sources", searching_service)
    assert happened["sources"] == [["https://porto.pt", "Porto", "Six bridges."]]
    if api == "responses":
        assert happened["search"] == ["completed", "Porto", ["https://porto.pt"]]
