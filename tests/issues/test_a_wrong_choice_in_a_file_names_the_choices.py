"""A wrong choice in an agent's file was reported without the choices that there are."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast import Agent, ConfigurationError


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
