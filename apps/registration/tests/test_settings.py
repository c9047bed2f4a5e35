"""Settings are read from variables and arguments, and a bad one is named with its fix."""

from pathlib import Path
from typing import get_args

import pytest

from registration.settings import (
    Endpoint,
    Secret,
    Settings,
    SettingsError,
    list_settings,
    read_settings,
    write_page,
)

KEY = "k3y-of-sixteen-characters"
NEEDED = {
    setting.variable: f"http://127.0.0.1:1/{setting.name}" if setting.path[-1] == "address" else KEY
    for setting in list_settings()
    if setting.required
}


def test_what_must_be_set_is_enough() -> None:
    settings = read_settings(NEEDED)
    assert settings.signing_fee == 4500
    assert settings.monthly_fee == 2750
    assert settings.sibling_monthly_fee == 2475
    assert settings.season == "2526"
    assert settings.photo_folder == Path("photos")
    assert settings.database.reveal() == "sqlite:///registration.db"
    assert settings.sms == Endpoint(
        address="http://127.0.0.1:1/sms_address", token=Secret(KEY), total_seconds=5.0
    )


@pytest.mark.parametrize("variable", sorted(NEEDED))
@pytest.mark.parametrize("empty", [None, "", "  "])
def test_what_is_missing_is_named_with_an_example(variable: str, empty: str | None) -> None:
    given = {name: value for name, value in NEEDED.items() if name != variable}
    if empty is not None:
        given[variable] = empty
    with pytest.raises(SettingsError, match=r"is not set\. Set it to .+, such as ") as raised:
        read_settings(given)
    assert raised.value.variable == variable


def test_an_argument_wins_over_a_variable() -> None:
    given = {**NEEDED, "REGISTRATION_SMS_TOTAL_SECONDS": "9", "REGISTRATION_SEASON": "2627"}
    settings = read_settings(given, {"sms_total_seconds": "2.5"})
    assert settings.sms.total_seconds == 2.5
    assert settings.season == "2627"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("signing_fee", "45.00"),  # pounds
        ("signing_fee", "£45"),
        ("signing_fee", "-1"),
        ("signing_fee", "0"),
        ("signing_fee", "4_500"),
        ("sms_total_seconds", "nan"),
        ("sms_total_seconds", "inf"),
        ("sms_total_seconds", "0"),
        ("turn_seconds", "soon"),
        ("season", "25/26"),
        ("club_mail", "admin"),
        ("database", "mysql://hunter2@host/db"),
        ("payments_address", "pay.example"),
        ("payments_address", "https://hunter2@pay.example"),
        ("payments_address", "https://pay.example/?token=hunter2"),
        ("payments_token", "hunter2"),
        ("admin_key", "hunter2 with spaces in it"),
    ],
)
def test_a_bad_value_is_named_and_never_shown(name: str, value: str) -> None:
    with pytest.raises(SettingsError, match="cannot be used") as raised:
        read_settings(NEEDED, {name: value})
    assert raised.value.variable == f"REGISTRATION_{name.upper()}"
    assert raised.value.fix.startswith("Set it to ")
    assert "hunter2" not in f"{raised.value} {raised.value!r} {raised.value.__cause__}"


def test_a_misspelled_name_is_corrected() -> None:
    with pytest.raises(SettingsError, match=r"Use REGISTRATION_SIGNING_FEE\.$"):
        read_settings({**NEEDED, "REGISTRATION_SIGNING_FEES": "4500"})
    with pytest.raises(SettingsError, match=r"REGISTRATION_XYZZY is not a setting\. Remove it\.$"):
        read_settings(NEEDED, {"xyzzy": "1"})
    assert isinstance(read_settings({**NEEDED, "HOME": "/root"}), Settings)


def test_no_secret_is_shown() -> None:
    given = {**NEEDED, "REGISTRATION_DATABASE": "postgresql://club:hunter2@host/db"}
    settings = read_settings(given)
    assert settings.database.reveal() == "postgresql://club:hunter2@host/db"
    shown = f"{settings} {settings!r} {settings.payments} {settings.admin_key}"
    assert "hunter2" not in shown
    assert KEY not in shown


def test_an_address_has_no_slash_at_its_end() -> None:
    settings = read_settings(NEEDED, {"public_address": "https://club.example/join/"})
    assert settings.public_address == "https://club.example/join"


def test_each_example_can_be_used() -> None:
    for setting in list_settings():
        _, meta = get_args(setting.rule)
        read_settings(NEEDED, {setting.name: str(meta.examples[0])})


def test_the_page_lists_every_setting_as_it_is() -> None:
    page = Path(__file__).parents[1] / "docs" / "settings.md"
    assert page.read_text("utf-8") == write_page(), "it has drifted; run: ./run generate"
