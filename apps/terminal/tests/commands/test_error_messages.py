from __future__ import annotations

import pytest

from adh.commands.error_messages import describe_error
from adh.commands.exit_statuses import CommandError, ExitStatus
from holdfast import ConfigurationError, HoldfastError


@pytest.mark.parametrize(
    ("error", "status", "first"),
    [
        (CommandError("no session x"), ExitStatus.BLOCKED, "adh: no session x"),
        (CommandError("full", status=ExitStatus.FAILED), ExitStatus.FAILED, "adh: full"),
        (
            PermissionError(13, "Permission denied", "/x"),
            ExitStatus.FAILED,
            "adh: /x: Permission denied",
        ),
        (HoldfastError("gone"), ExitStatus.FAILED, "adh: gone"),
        (KeyError("x"), ExitStatus.FAILED, "adh: an unexpected error: KeyError: 'x'"),
    ],
)
def test_each_error_has_one_message_and_status(
    error: Exception, status: ExitStatus, first: str
) -> None:
    message = describe_error(error)
    assert message.status is status
    assert message.lines[0] == first


def test_a_configuration_error_names_the_fix() -> None:
    message = describe_error(ConfigurationError("model", "is unknown", fix="Use adh config"))
    assert message.status is ExitStatus.BLOCKED
    assert "Use adh config" in "\n".join(message.lines)


def test_a_fix_is_a_line_of_its_own() -> None:
    assert describe_error(CommandError("no screen", fix="Use adh run")).lines == (
        "adh: no screen",
        "     Use adh run",
    )


def test_secrets_and_control_characters_are_not_printed() -> None:
    message = describe_error(ValueError("password=hunter2 \x1b[2J"))
    assert "hunter2" not in "".join(message.lines)
    assert "\x1b" not in "".join(message.lines)
