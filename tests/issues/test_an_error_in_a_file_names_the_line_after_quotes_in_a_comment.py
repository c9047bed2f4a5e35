"""The error for a wrong setting of an agent's file names its line, whatever a comment above it holds."""

from pathlib import Path

import pytest

from holdfast import Agent, ConfigurationError
from holdfast.agent_file.toml_source import find_key_lines


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
