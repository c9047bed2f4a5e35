"""Reads the programs that reach other machines: the addresses, and the files that are read and written here."""

from __future__ import annotations

from collections.abc import Sequence

from adh.shell.code_options import read_code_options
from adh.shell.option_forms import Arguments, Form, read_arguments
from adh.shell.parsed_line import Reading, Word
from adh.shell.wrappers import add_line, take_values

CURL = Form(
    "-#0123469aBfgGiIjkJLlMNOpqRsSvVZ -A:plain -b:cookie -c:write -C:plain -d:data -D:write -e:plain "
    "-E:read -F:data -h:plain -H:data -K:code -m:plain -o:write -P:plain -Q:plain -r:plain -t:plain "
    "-T:read -u:plain -U:plain -w:data -x:url -X:plain -y:plain -Y:plain -z:plain "
    "--location --silent --show-error --fail --fail-with-body --include --head --insecure --compressed "
    "--verbose --output=write --remote-name --remote-header-name --remote-name-all --request=plain "
    "--header=data --data=data --data-raw=plain --data-binary=data --data-urlencode=data --json=data "
    "--form=data --form-string=plain --user=plain --user-agent=plain --referer=plain --cookie=cookie "
    "--cookie-jar=write --max-time=plain --connect-timeout=plain --retry=plain --retry-delay=plain "
    "--retry-all-errors --url=url --get --upload-file=read --create-dirs --output-dir=write "
    "--write-out=data --dump-header=write --http1.1 --http2 --ipv4 --ipv6 --no-progress-meter "
    "--progress-bar --range=plain --continue-at=plain --max-redirs=plain --globoff --version --help "
    "--cacert=read --cert=read --key=read --limit-rate=plain --resolve=plain --proxy=url --no-buffer "
    "--path-as-is --remote-time --tlsv1.2 --proto=plain"
)
WGET = Form(
    "-bcdFhHkKLmnNpqrSvVx46 -a:write -A:plain -B:url -D:plain -e:code -i:read -I:plain -l:plain "
    "-o:write -O:write -P:write -Q:plain -R:plain -t:plain -T:plain -U:plain -w:plain -X:plain "
    "--quiet --verbose --no-verbose --output-document=write --directory-prefix=write --continue "
    "--recursive --level=plain --no-parent --no-clobber --tries=plain --timeout=plain --user-agent=plain "
    "--header=plain --no-check-certificate --spider --server-response --timestamping --mirror "
    "--post-data=plain --post-file=read --body-data=plain --body-file=read --method=plain "
    "--input-file=read --output-file=write --show-progress --progress=plain --page-requisites "
    "--convert-links --content-disposition --max-redirect=plain --user=plain --password=plain --help "
    "--version --wait=plain --limit-rate=plain --accept=plain --reject=plain"
)
SSH = Form(
    "-46AaCfGgKkMNnqsTtVvXxYy -B:plain -b:plain -c:plain -D:plain -E:write -e:plain -F:code -I:code "
    "-i:read -J:host -L:plain -l:plain -m:plain -O:plain -o:code -p:plain -Q:plain -R:plain -S:code "
    "-W:plain -w:plain",
    stops=True,
)
NC = Form(
    "-46bCDdFhklNnrStUuvZz -c:code -e:code -I:plain -i:plain -M:plain -m:plain -O:plain -P:plain "
    "-p:plain -q:plain -s:plain -T:plain -V:plain -W:plain -w:plain -X:plain -x:plain "
    "--exec=code --sh-exec=code --lua-exec=code --ssl --verbose --listen"
)
SENDERS = frozenset({"data", "cookie"})


def read_curl(words: Sequence[Word]) -> Reading:
    """Read `curl`: `@file` in the data that it sends is read."""
    found = read_arguments(CURL, words)
    reading = take_transfer(found)
    options = set(found.options)
    if options & {"-O", "--remote-name", "--remote-name-all", "-J", "--remote-header-name"}:
        folder = [word for role, word in found.values if role == "write"] or [Word(".", ".")]
        reading.paths.append(("write", folder[-1]))
    for role, word in found.values:
        add_sent_file(role, word, reading)
    return reading


def add_sent_file(role: str, word: Word, reading: Reading) -> None:
    """Add the file that the value of an option of `curl` names, such as `@file` or `a=@file`."""
    if role not in SENDERS:
        return
    if word.value is None:
        if word.prefix[:1] in ("", "@") or "=" in word.prefix:
            reading.problems.append(f"{word.text!r} may name a file to send")
        return
    value = word.value
    if role == "cookie":
        if "=" not in value:
            reading.paths.append(("read", Word(word.text, value)))
        return
    for mark in ("@", "<"):
        before, found, file = value.partition(mark)
        if found and (not before or before.endswith("=") or before.isidentifier()):
            reading.paths.append(("read", Word(word.text, file.partition(";")[0])))


def read_wget(words: Sequence[Word]) -> Reading:
    """Read `wget`, which writes into its folder unless an option names another one."""
    found = read_arguments(WGET, words)
    reading = take_transfer(found)
    if not any(role == "write" for role, _ in found.values):
        reading.paths.append(("write", Word(".", ".")))
    return reading


def read_ssh(words: Sequence[Word]) -> Reading:
    """Read `ssh`: its command runs on the other machine, and is judged as if it were here."""
    found = read_arguments(SSH, words)
    reading = take_values(found)
    host, *others = found.operands or [Word("", None, unknown=True)]
    if host.value is None:
        reading.problems.append("the host is known only when it runs")
    else:
        reading.urls.append(f"ssh://{host.value}")
    reading.urls.extend(f"ssh://{word.value}" for role, word in found.values if role == "host")
    if others:
        again = read_arguments(SSH, others)
        # Options may follow the host too.
        reading.problems.extend(take_values(again).problems if again.options else [])
        add_line(reading, again.operands if again.options else others)
    elif not {"-N", "-V", "-G"} & set(found.options):
        reading.problems.append("ssh runs the lines of its input on another machine")
    reading.elsewhere = True
    return reading


def read_nc(words: Sequence[Word]) -> Reading:
    """Read `nc` and its like: a host and a port."""
    found = read_arguments(NC, words)
    reading = take_values(found)
    known = [word.value for word in found.operands if word.value is not None]
    if len(known) != len(found.operands):
        reading.problems.append("the host is known only when it runs")
    if known:
        reading.urls.append("tcp://" + ":".join(known))
    return reading


def read_remote_copy(name: str, words: Sequence[Word]) -> Reading:
    """Read `scp`, `sftp` and `rsync`: local files and addresses, the last of which is written."""
    reading = read_code_options(name, words) or Reading()
    operands = [word for word in words if not (word.value or word.prefix).startswith("-")]
    for word in operands:
        is_last = word is operands[-1] and len(operands) > 1
        text = word.value if word.value is not None else word.prefix
        if "://" in text or is_remote_path(text):
            reading.urls.append(text if "://" in text else f"ssh://{text}")
        else:
            reading.paths.append(("write" if is_last and name != "sftp" else "read", word))
    if name == "rsync" and any(
        (w.value or w.prefix).startswith(("--del", "--remove")) for w in words
    ):
        reading.paths.extend([("delete", word) for _, word in reading.paths])
    return reading


def is_remote_path(text: str) -> bool:
    """Whether a text is `host:path` in the manner of scp."""
    host, colon, _ = text.partition(":")
    return bool(colon and host) and "/" not in host


def take_transfer(found: Arguments) -> Reading:
    """Return the reading of a program whose operands are addresses."""
    reading = take_values(found)
    addresses = [word for role, word in found.values if role == "url"] + found.operands
    for word in addresses:
        if word.value is None:
            known = "://" in word.prefix and "/" in word.prefix.partition("://")[2]
            reading.urls.extend([word.prefix] if word.prefix else [])
            if not known:
                reading.problems.append(f"the address {word.text!r} is known only when it runs")
        else:
            reading.urls.append(word.value if "://" in word.value else f"http://{word.value}")
    return reading
