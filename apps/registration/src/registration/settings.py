"""Settings of the service: read from environment variables `REGISTRATION_*` and from arguments."""

from __future__ import annotations

import difflib
import inspect
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, NamedTuple, get_args, get_type_hints

import msgspec
from msgspec import NODEFAULT, Meta, Struct
from msgspec.structs import fields

PREFIX = "REGISTRATION_"
PURPOSE = re.compile(r"^    (\w+): (.+)\.$", re.MULTILINE)  # a line of Args in a docstring
PAGE_HEAD = """\
# Settings

This page is written from `settings.py` by `./run generate`. Each setting is an environment variable. An argument of the
program wins over it.

| variable | what it is for | value | if it is not set |
|---|---|---|---|
"""


class Secret(Struct, frozen=True):
    """A text that is never shown: neither by `repr` nor by `str`."""

    text: str

    def __repr__(self) -> str:
        return "Secret('***')"

    def reveal(self) -> str:
        """Return the text itself."""
        return self.text


class SettingsError(ValueError):
    """A setting cannot be used.

    Args:
        variable: the environment variable, such as `REGISTRATION_SIGNING_FEE`.
        problem: the problem; never the value.
        fix: the instruction that solves it.
    """

    def __init__(self, variable: str, problem: str, fix: str) -> None:
        super().__init__(variable, problem, fix)
        self.variable = variable
        self.problem = problem
        self.fix = fix

    def __str__(self) -> str:
        return f"{self.variable} {self.problem}. {self.fix}."


def _text(pattern: str, description: str, example: str) -> Meta:
    return Meta(pattern=pattern, description=description, examples=[example])


def _number(least: float, most: float, description: str, example: float) -> Meta:
    return Meta(ge=least, le=most, description=description, examples=[example])


_ADDRESS = _text(
    r"^https?://[^\s/?#@]+(/[^\s?#@]*)?$", "an http or https address", "https://provider.example"
)
_KEY = _text(r"^\S{16,}$", "at least 16 characters without spaces", "0f1e2d3c4b5a69788796a5b4")
_MODEL_KEY = _text(r"^\S+$", "a key without spaces", "sk-0f1e2d3c4b5a")
_DATABASE = _text(
    r"^(sqlite:///|postgres(ql)?://)\S+$",
    "the URL of a SQLite file or of a PostgreSQL database",
    "sqlite:///registration.db",
)
_MAIL = _text(r"^[^@\s]+@[^@\s]+\.[^@\s]+$", "an e-mail address", "admin@club.example")
_SEASON = _text(r"^[0-9]{4}$", "the four digits of a season", "2526")

Words = Annotated[str, _text(r"\S", "a text", "Holdfast Juniors")]
Folder = Annotated[Path, _text(r"\S", "the path of a folder", "photos")]
Pence = Annotated[int, _number(1, 1_000_000, "an amount in pence", 4500)]
Count = Annotated[int, _number(1, 1_000_000, "a whole number from 1", 10)]
Bytes = Annotated[int, _number(1_000, 100_000_000, "a number of bytes", 10_000_000)]
Seconds = Annotated[float, _number(0.05, 600, "a number of seconds from 0.05 to 600", 5)]
Days = Annotated[int, _number(1, 3_650, "a number of days", 30)]


class Endpoint(Struct, frozen=True, kw_only=True):
    """Where a provider is reached, and how long to wait for it.

    Args:
        address: the address before the paths of its API, without a slash at the end.
        token: the token that authorises the service there.
        connect_seconds: how long opening a connection may take.
        total_seconds: how long the whole request may take, with the connection.
    """

    address: Annotated[str, _ADDRESS]
    token: Annotated[Secret, _KEY]
    connect_seconds: Seconds = 2.0
    total_seconds: Seconds = 5.0


class Settings(Struct, frozen=True, kw_only=True):
    """Everything that differs between two installations of the service.

    Each field is an environment variable: `signing_fee` is `REGISTRATION_SIGNING_FEE`, and
    `payments.token` is `REGISTRATION_PAYMENTS_TOKEN`. Amounts are pence.

    Args:
        admin_key: opens the office page.
        webhook_secret: signs the webhooks of the payment provider.
        link_secret: signs the links that the service makes itself.
        payments: the payment provider.
        sms: the SMS provider.
        mail: the mail provider.
        addresses: the address book.
        mcp_address: an MCP server with the tool `address_lookup`; empty for none.
        mcp_token: the token that authorises the service at the MCP server; empty for none.
        public_address: where parents reach the service; the links in messages begin with it.
        database: the database of the service.
        photo_folder: the object store for photos.
        journal: where the conversations are saved while they go on.
        model: the model, such as `openai:gpt-4.1`.
        model_address: another address of the model's provider.
        model_key: the API key of the model's provider; empty for its own variable.
        club_name: the name of the club in messages.
        club_mail: where the club reads its e-mails.
        season: the season that codes are for.
        signing_fee: the fee that is paid once, for a season.
        monthly_fee: the fee of each month.
        sibling_monthly_fee: the fee of each month for a sibling.
        message_characters: the longest message of a parent.
        requests_per_window: how many requests of a session are answered in a window.
        sessions_per_window: how many conversations an address may begin in a window.
        window_seconds: how long the window of these limits is.
        event_streams: how many event streams a process keeps open.
        session_event_streams: how many of them belong to one session.
        body_bytes: the longest body of a request.
        photo_bytes: the largest photo.
        turn_seconds: how long a turn may take, with all attempts at the model.
        busy_seconds: how long a second message waits for the turn of the first one.
        job_wait_seconds: how long after its first attempt a job is tried again; later ones wait longer.
        open_session_days: when an unfinished registration is deleted.
        finished_session_days: when the conversation of a finished registration is deleted.
        registration_days: when a registration is deleted in which nothing changes any more.
    """

    admin_key: Annotated[Secret, _KEY]
    webhook_secret: Annotated[Secret, _KEY]
    link_secret: Annotated[Secret, _KEY]
    payments: Endpoint
    sms: Endpoint
    mail: Endpoint
    addresses: Endpoint
    mcp_address: Annotated[str, _ADDRESS] = ""
    mcp_token: Annotated[Secret, _MODEL_KEY] = Secret("")
    public_address: Annotated[str, _ADDRESS] = "http://127.0.0.1:8000"
    database: Annotated[Secret, _DATABASE] = Secret("sqlite:///registration.db")
    photo_folder: Folder = Path("photos")
    journal: Annotated[Secret, _DATABASE] = Secret("sqlite:///conversations.db")
    model: Words = "openai:gpt-4.1"
    model_address: Annotated[str, _ADDRESS] = ""
    model_key: Annotated[Secret, _MODEL_KEY] = Secret("")
    club_name: Words = "Holdfast Juniors"
    club_mail: Annotated[str, _MAIL] = "admin@club.example"
    season: Annotated[str, _SEASON] = "2526"
    signing_fee: Pence = 4500
    monthly_fee: Pence = 2750
    sibling_monthly_fee: Pence = 2475
    message_characters: Count = 4000
    requests_per_window: Count = 10
    sessions_per_window: Count = 100
    window_seconds: Seconds = 10.0
    event_streams: Count = 2000
    session_event_streams: Count = 8
    body_bytes: Bytes = 11_000_000
    photo_bytes: Bytes = 10_000_000
    turn_seconds: Seconds = 25.0
    busy_seconds: Seconds = 2.0
    job_wait_seconds: Seconds = 60.0
    open_session_days: Days = 30
    finished_session_days: Days = 90
    registration_days: Days = 1095

    @property
    def model_seconds(self) -> float:
        """The part of a turn within which models must have answered; the rest is for saving it."""
        return self.turn_seconds - min(1.0, self.turn_seconds / 10)


class Setting(NamedTuple):
    """One variable.

    Args:
        path: the names of its field, from the outside in.
        rule: its type, annotated with the accepted values.
        default: its value if it is not set; `NODEFAULT` if it must be set.
        purpose: its purpose, in a few words.
    """

    path: tuple[str, ...]
    rule: object
    default: object
    purpose: str

    @property
    def required(self) -> bool:
        """Whether it must be set."""
        return self.default is NODEFAULT

    @property
    def name(self) -> str:
        """The name of the argument, such as `payments_token`."""
        return "_".join(self.path)

    @property
    def variable(self) -> str:
        """The name of the environment variable."""
        return PREFIX + self.name.upper()


def list_settings() -> list[Setting]:
    """Return every setting, in the order of the fields."""
    found: list[Setting] = []
    for one in _list_fields(Settings, ()):
        if one.rule is Endpoint:
            parts = _list_fields(Endpoint, one.path)
            found += [part._replace(purpose=f"{one.purpose}: {part.purpose}") for part in parts]
        else:
            found.append(one)
    return found


def _list_fields(of: type[Struct], above: tuple[str, ...]) -> list[Setting]:
    rules = get_type_hints(of, include_extras=True)
    # Python drops docstrings with -OO; only the page needs them.
    purposes = dict(PURPOSE.findall(inspect.getdoc(of) or ""))
    return [
        Setting(
            (*above, field.name), rules[field.name], field.default, purposes.get(field.name, "")
        )
        for field in fields(of)
    ]


def read_settings(
    environment: Mapping[str, str], arguments: Mapping[str, str] | None = None
) -> Settings:
    """Read the settings.

    Args:
        environment: such as `os.environ`. An empty value counts as not set.
        arguments: values by name, such as `{"signing_fee": "4500"}`; they win over variables.

    Raises:
        SettingsError: a value is missing or cannot be used, or a name is unknown.

    >>> read_settings({})
    Traceback (most recent call last):
    registration.settings.SettingsError: REGISTRATION_ADMIN_KEY is not set. Set it to at least 16 characters without spaces, such as 0f1e2d3c4b5a69788796a5b4.
    """
    settings = list_settings()
    given = {key: value for key, value in environment.items() if key.startswith(PREFIX)}
    given |= {PREFIX + name.upper(): value for name, value in (arguments or {}).items()}
    _check_names(given, {setting.variable for setting in settings})
    values: dict[str, Any] = {}
    endpoints: dict[str, dict[str, Any]] = {}
    for setting in settings:
        text = given.get(setting.variable, "").strip()
        if not text and not setting.required:
            continue
        into = values if len(setting.path) == 1 else endpoints.setdefault(setting.path[0], {})
        into[setting.path[-1]] = _read_value(setting, text)
    values |= {name: Endpoint(**parts) for name, parts in endpoints.items()}
    return Settings(**values)


def _check_names(given: Mapping[str, str], known: set[str]) -> None:
    for variable in given:
        if variable in known:
            continue
        names = [name.removeprefix(PREFIX) for name in known]
        near = difflib.get_close_matches(variable.removeprefix(PREFIX), names, n=1)
        fix = f"Use {PREFIX}{near[0]}" if near else "Remove it"
        raise SettingsError(variable, "is not a setting", fix)


def _read_value(setting: Setting, text: str) -> object:
    inner, meta = get_args(setting.rule)
    fix = f"Set it to {meta.description}, such as {(meta.examples or [''])[0]}"
    if not text:
        raise SettingsError(setting.variable, "is not set", fix)
    plain = str if inner in (Secret, Path) else inner
    try:
        # A lax conversion would read 45.00 pounds as 45 pence.
        if inner is int and not text.isdecimal():
            raise msgspec.ValidationError
        value: object = msgspec.convert(text, Annotated[plain, meta], strict=False)
    except msgspec.ValidationError:
        raise SettingsError(setting.variable, "cannot be used", fix) from None
    if inner is Secret:
        return Secret(text)
    if inner is Path:
        return Path(text)
    return text.rstrip("/") if meta is _ADDRESS else value


def write_page() -> str:
    """Return the page of Markdown that lists every setting."""
    rows = [
        f"| `{setting.variable}` | {setting.purpose} | {_read_meta(setting).description} "
        f"| {'must be set' if setting.required else f'`{_show_default(setting)}`'} |"
        for setting in list_settings()
    ]
    return PAGE_HEAD + "\n".join(rows) + "\n"


def _read_meta(setting: Setting) -> Meta:
    meta: Meta = get_args(setting.rule)[1]
    return meta


def _show_default(setting: Setting) -> object:
    default = setting.default
    return default.reveal() if isinstance(default, Secret) else default


if __name__ == "__main__":
    sys.stdout.write(write_page())
