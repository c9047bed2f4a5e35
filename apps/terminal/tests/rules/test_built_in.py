"""Every row of the table of built-in rules."""

import pytest
from apps.terminal.tests.rules.calls import BUILT_IN, call, command, decide, line, use, words

from adh.rules.decision import Decision
from adh.rules.facts import CallFacts
from adh.rules.levels import Level, Risk
from adh.rules.rule import Rule


def outcome(decision: Decision) -> str:
    return f"{decision.level.word} {decision.risk.word}"


def deciding_rule(decision: Decision) -> Rule:
    assert decision.rule is not None
    return next(rule for rule in BUILT_IN.rules if rule.origin == decision.rule)


FILE_CALLS = [
    (call("read_file", use("a.py")), "automatic low"),
    (call("list_directory", use("src", "list")), "automatic low"),
    (call("get_file_info", use("a.py")), "automatic low"),
    (call("create_directory", use("a", "create")), "automatic low"),
    (call("write_file", use("a.py", "write")), "confirm medium"),
    (call("create_file", use("a.py", "create")), "confirm medium"),
    (call("edit_file", use("a.py", "write")), "confirm medium"),
    (call("modify_text", use("a.py", "write")), "confirm medium"),
    (call("delete_file", use("a.py", "delete")), "confirm high"),
    (call("remove_folder", use("a", "delete")), "confirm high"),
    (call("DELETE_File", use("a.py", "delete")), "confirm high"),
    (call("fetch_url", urls=["https://example.org/"]), "confirm medium"),
    (call("fetch_url", urls=["http://example.org/"]), "confirm medium"),
    (call("unknown_tool"), "confirm medium"),
]


@pytest.mark.parametrize(("facts", "expected"), FILE_CALLS, ids=lambda value: str(value)[:60])
def test_file_and_web_tools(facts: CallFacts, expected: str) -> None:
    assert outcome(decide(facts)) == expected


@pytest.mark.parametrize(
    "name", ["a.env", ".env", "conf/x.key", "x.pem", "id_rsa", "id_rsa.bak", "credentials.json"]
)
@pytest.mark.parametrize("tool", ["write_file", "edit_file"])
def test_secrets_are_not_written(tool: str, name: str) -> None:
    decision = decide(call(tool, use(name, "write")))
    assert decision.level is Level.DENY
    assert [one.restriction for one in decision.violations] == ["path_pattern"]
    assert decision.reason.startswith("path_pattern: ")


@pytest.mark.parametrize("folder", ["/etc", "/usr", "/System", "/private/etc", "/ETC"])
@pytest.mark.parametrize(
    ("tool", "access"),
    [
        ("write_file", "write"),
        ("create_directory", "create"),
        ("edit_file", "write"),
        ("delete_file", "delete"),
        ("remove_tree", "delete"),
        ("someones_tool", "write"),
        ("someones_tool", "delete"),
    ],
)
def test_system_folders_are_never_changed(folder: str, tool: str, access: str) -> None:
    for path in (folder, f"{folder}/a/b"):
        decision = decide(call(tool, use(path, access)))  # type: ignore[arg-type]
        assert outcome(decision) == "deny critical"
        assert deciding_rule(decision).priority == 100


@pytest.mark.parametrize("path", ["/etc/hostname", "/usr/share/a", "/System/a", "/q/a"])
def test_reading_outside_of_the_project_is_a_question(path: str) -> None:
    decision = decide(call("read_file", use(path)))
    assert outcome(decision) == "confirm medium"
    assert decision.reason == f"{path} is outside of the project"


@pytest.mark.parametrize(
    "url",
    [
        "ftp://example.org/",
        "file:///a",
        "http://localhost:8000/",
        "http://127.0.0.1/",
        "http://[::1]/",
        "http://169.254.169.254/latest",
        "http://10.1.2.3/",
        "http://192.168.1.1/",
        "http://0x7f.1/",
        "http://2130706433/",
        "http://[::ffff:10.0.0.1]/",
        "http://user@example.org/",
        "http://intranet/",
    ],
)
def test_addresses_that_are_not_public_are_not_fetched(url: str) -> None:
    decision = decide(call("fetch_url", urls=[url]))
    assert decision.level is Level.DENY
    assert [one.restriction for one in decision.violations] == ["url_scheme"]


def test_sizes_are_bounded() -> None:
    assert decide(call("read_file", use("a"))).max_bytes == 10_000_000
    urls = ["https://example.org/"]
    assert decide(call("fetch_url", urls=urls, max_bytes=10_000_000)).level is Level.CONFIRM
    too_large = decide(call("fetch_url", urls=urls, max_bytes=10_000_001))
    assert too_large.level is Level.DENY
    assert [one.restriction for one in too_large.violations] == ["size_limit"]


READING = [
    "ls",
    "pwd",
    "echo",
    "cat",
    "head",
    "tail",
    "grep",
    "find",
    "which",
    "whoami",
    "date",
    "uname",
]
ASKING = [
    *["git add .", "git commit -m x", "git push", "git pull", "git merge x"],
    *[
        "npm install",
        "npm uninstall x",
        "npm update",
        "pip install x",
        "pip uninstall x",
        "pip update",
    ],
    *["curl x", "wget x", "ssh h", "scp a h:", "rsync a b", "nc h 1"],
]
COMMANDS = [
    *[(name, "notify low", 10) for name in READING],
    *[(f"{name} a", "notify low", 10) for name in READING],
    *[(text, "confirm medium", 10) for text in ASKING],
    *[(f"{name} a b", "confirm medium", 5) for name in ("mv", "cp", "touch", "mkdir")],
    *[
        (f"{name} a", "manual high", 20)
        for name in ("rm", "rmdir", "dd", "mkfs", "mkfs.ext4", "format")
    ],
    *[
        (f"{name} a", "manual critical", 30)
        for name in ("sudo", "su", "chmod", "chown", "systemctl", "service")
    ],
    *[
        (text, "deny critical", 100)
        for text in ("rm -rf /", "rm -fr / -v", "rm -rf /*", "rm -r -f -- /")
    ],
    *[(text, "deny critical", 100) for text in ("dd of=/dev/sda", "dd if=x of=/dev/nvme0n1 bs=1M")],
    *[
        (text, "confirm medium", 0)
        for text in ("make", "python a.py", "lsof", "gitk", "./ls", "/tmp/ls")
    ],
    *[
        (f"find . {word}", "confirm medium", 0)
        for word in ("-delete", "-exec rm {} ;", "-fprint a")
    ],
    *[
        (f"find . {word}", "confirm medium", 0)
        for word in ("-execdir x", "-ok x", "-okdir x", "-fls a")
    ],
    *[(f"grep {word} a .", "confirm medium", 0) for word in ("-r", "-R", "-nr", "--recursive")],
]


def test_commands() -> None:
    found = []
    for text, _, _ in COMMANDS:
        decision = decide(line(words(text)))
        found.append((text, outcome(decision), deciding_rule(decision).priority))
        assert [part.text for part in decision.parts] == [text]
    assert found == list(COMMANDS)


@pytest.mark.parametrize("verb", ["status", "log", "diff", "branch --list", "remote -v", "show"])
def test_git_is_free_where_its_words_are_known_to_change_nothing(verb: str) -> None:
    assert outcome(decide(line(words(f"git {verb}", read_only=True)))) == "automatic low"
    assert outcome(decide(line(words(f"git {verb}")))) == "confirm medium"


@pytest.mark.parametrize(
    "text", [":(){ :|:& };:", ":() { : | : & } ; :", "bomb() { bomb | bomb & }; bomb"]
)
def test_a_fork_bomb_never_runs(text: str) -> None:
    parsed = line(command(":", problems=("a function",)), text=text)
    assert outcome(decide(parsed)) == "deny critical"
    assert outcome(decide(line(text=text, unparsed="a function"))) == "deny critical"


def test_a_function_that_pipes_is_no_fork_bomb() -> None:
    text = "f() { ls elf|fox; }; f"
    assert outcome(decide(line(words("ls elf"), words("fox"), text=text))) == "confirm medium"


@pytest.mark.parametrize("path", ["/dev/sda", "/dev/mapper/x"])
def test_devices_are_not_written(path: str) -> None:
    assert outcome(decide(line(words("cat a", use(path, "write"))))) == "deny critical"


def test_output_to_nowhere_is_free() -> None:
    quiet = words("ls", use("/dev/null", "write"), use("a", "list"))
    assert outcome(decide(line(quiet))) == "notify low"


def test_removing_the_root_by_another_name_is_denied() -> None:
    for text in ("rm -r /./", "rm -r ../../.."):
        assert outcome(decide(line(words(text, use("/", "delete"))))) == "deny critical"


@pytest.mark.parametrize("name", ["cat", "head", "tail", "grep x", "find"])
@pytest.mark.parametrize("path", [".env", "a/.env.local", "x.pem", "id_rsa", "/h/.ssh/config"])
def test_commands_that_read_obey_the_rules_of_read_file(name: str, path: str) -> None:
    decision = decide(line(words(f"{name} {path}", use(path))))
    assert outcome(decision) == "confirm high"
    assert str(decision.rule).startswith("files.read_secrets (built-in/files.yaml:")


def test_every_rule_has_a_place_and_none_is_hidden() -> None:
    assert all(rule.origin.line > 0 and rule.built_in and rule.enabled for rule in BUILT_IN.rules)
    assert {rule.risk for rule in BUILT_IN.rules} <= set(Risk)
