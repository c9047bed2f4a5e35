"""Programs that can be made to run code by their words, and the words that do it, as data.

A program that is not here may run code too: the rules ask a person about it.
"""

from __future__ import annotations

from collections.abc import Sequence

from adh.shell.parsed_line import Reading, Word

ALWAYS = "*"
"""The program runs code from its input, a file or any of its words."""

SHORTEST_ABBREVIATION = 4
EDITOR = "-c -S -s -u -e -E -t -q -i --cmd --startuptime --listen --remote-expr --remote-send +"

# `--name` also means its abbreviations, `-x` the letter in a cluster, `-name` its beginning, and a
# word without a dash that word anywhere.
CODE_OPTIONS = {
    "tar": "--to-command --checkpoint-action --use-compress-program --info-script --new-volume-script --rsh-command --rmt-command -I -F",
    "bsdtar": "--use-compress-program --checkpoint-action",
    "cpio": "--rsh-command --rmt-command",
    "zip": "-T --test --unzip-command",
    "rsync": "-e --rsh --rsync-path",
    "scp": "-S -o -F -D",
    "sftp": "-S -o -F -D -b",
    "vim": EDITOR,
    "vi": EDITOR,
    "nvim": EDITOR,
    "view": EDITOR,
    "vimdiff": EDITOR,
    "gvim": EDITOR,
    "rvim": EDITOR,
    "ex": ALWAYS,
    "ed": ALWAYS,
    "emacs": "--eval -eval --execute --load --funcall --batch --script -batch -script -l -f",
    "nano": "-s --speller",
    "pico": "-s",
    "less": "-k -o -O -K + --lesskey-file --lesskey-src --lesskey-content --log-file --LOG-FILE",
    "more": "+",
    "man": "-P -H -C -l --pager --html --config-file --local-file --preprocessor --gxditview",
    "gdb": ALWAYS,
    "lldb": ALWAYS,
    "sqlite3": ALWAYS,
    "psql": ALWAYS,
    "mysql": ALWAYS,
    "mariadb": ALWAYS,
    "redis-cli": "eval script module config",
    "ftp": ALWAYS,
    "lftp": ALWAYS,
    "telnet": ALWAYS,
    "dc": ALWAYS,
    "irb": ALWAYS,
    "pry": ALWAYS,
    "ghci": ALWAYS,
    "ipython": ALWAYS,
    "iex": ALWAYS,
    "jshell": ALWAYS,
    "jrunscript": ALWAYS,
    "expect": ALWAYS,
    "tclsh": ALWAYS,
    "wish": ALWAYS,
    "guile": ALWAYS,
    "osascript": ALWAYS,
    "octave": ALWAYS,
    "R": ALWAYS,
    "Rscript": "-e",
    "julia": "-e -E -L --eval --print --load",
    "lua": "-e -l -i -",
    "luajit": "-e -l -i -",
    "groovy": "-e",
    "scala": "-e",
    "ghc": "-e --interactive -pgmF -F",
    "runghc": "-e",
    "deno": "eval repl -",
    "bun": "-e --eval -p --print repl -r --preload",
    "erl": "-eval -s -run",
    "elixir": "-e --eval -r",
    "swift": "-e repl",
    "gcc": "-wrapper -fplugin -specs --specs -B",
    "cc": "-wrapper -fplugin -specs --specs -B",
    "g++": "-wrapper -fplugin -specs --specs -B",
    "c++": "-wrapper -fplugin -specs --specs -B",
    "clang": "-wrapper -fplugin -Xclang --config",
    "rustc": "-C --codegen -Z",
    "cargo": "--config -Z",
    "go": "-exec -toolexec -vettool generate",
    "make": "--eval -E SHELL= MAKEFLAGS= .SHELLFLAGS=",
    "gmake": "--eval -E SHELL= MAKEFLAGS= .SHELLFLAGS=",
    "ninja": "-t",
    "cmake": "-P -E",
    "apt": "-o -c --option --config-file",
    "apt-get": "-o -c --option --config-file",
    "aptitude": "-o",
    "dpkg": "--pre-invoke --post-invoke --status-logger -i --install --unpack --configure",
    "dpkg-deb": "-R",
    "rpm": "-E -i -U --eval --pipe --define --install --upgrade --import",
    "yum": "-c --config --setopt localinstall",
    "dnf": "-c --config --setopt",
    "crontab": ALWAYS,
    "at": ALWAYS,
    "batch": ALWAYS,
    "systemd-run": ALWAYS,
    "nsenter": ALWAYS,
    "start-stop-daemon": ALWAYS,
    "script": ALWAYS,
    "screen": ALWAYS,
    "tmux": ALWAYS,
    "zellij": ALWAYS,
    "byobu": ALWAYS,
    "hyperfine": ALWAYS,
    "parallel": ALWAYS,
    "sem": ALWAYS,
    "entr": ALWAYS,
    "watchexec": ALWAYS,
    "nodemon": "-x --exec -e --eval --config",
    "valgrind": ALWAYS,
    "perf": ALWAYS,
    "rr": ALWAYS,
    "bpftrace": ALWAYS,
    "stap": ALWAYS,
    "proot": ALWAYS,
    "bwrap": ALWAYS,
    "socat": ALWAYS,
    "openssl": "-engine engine -provider -provider-path s_server s_client req_engine",
    "tcpdump": "-z -Z -w -V -F",
    "tshark": "-X -w",
    "nmap": "--script --interactive --datadir -o",
    "ip": "-b -batch -force exec",
    "svn": "--config-option --diff-cmd --diff3-cmd --editor-cmd --config-dir",
    "hg": "--config --config-file --cwd -R extdiff",
    "bzr": "--using",
    "pdflatex": "-shell-escape --shell-escape -enable-write18 --enable-write18 -output-directory",
    "latex": "-shell-escape --shell-escape -enable-write18 --enable-write18",
    "xelatex": "-shell-escape --shell-escape -enable-write18 --enable-write18",
    "lualatex": ALWAYS,
    "latexmk": "-e -r -pdflatex -latex --shell-escape -shell-escape",
    "ghostscript": ALWAYS,
    "gs": ALWAYS,
    "convert": ALWAYS,
    "magick": ALWAYS,
    "ffmpeg": "-filter_complex_script -f",
    "mail": ALWAYS,
    "mailx": ALWAYS,
    "mutt": "-e -F",
    "sendmail": ALWAYS,
    "ssh-keygen": "-D -w",
    "ssh-agent": ALWAYS,
    "ssh-add": "-s -S",
    "aria2c": "--on-download-complete --on-download-start --on-download-error --on-download-stop --on-download-pause --on-bt-download-complete --conf-path",
    "nix-shell": "--run --command -p -E",
    "nix": "run shell develop eval -E --expr",
    "docker": "exec --privileged -v --volume --mount",
    "kubectl": "exec debug",
    "ansible": ALWAYS,
    "jq": "-L --library-path --from-file -f",
    "logrotate": ALWAYS,
    "run-parts": ALWAYS,
    "anacron": ALWAYS,
    "capsh": ALWAYS,
    "ld.so": ALWAYS,
    "ld-linux-x86-64.so.2": ALWAYS,
    "run-mailcap": ALWAYS,
    "xdg-open": ALWAYS,
    "open": ALWAYS,
    "busctl": ALWAYS,
    "dbus-send": ALWAYS,
    "gdbus": ALWAYS,
    "cpan": ALWAYS,
    "pwsh": ALWAYS,
    "powershell": ALWAYS,
    "cmd.exe": ALWAYS,
    "bee": "eval php:eval scr",
    "borg": "--rsh",
    "certbot": "--pre-hook --post-hook --deploy-hook --manual-auth-hook --manual-cleanup-hook",
    "clisp": ALWAYS,
    "cowsay": "-f",
    "cowthink": "-f",
    "dhclient": "-sf -cf",
    "dmsetup": "--exec",
    "dnsmasq": "--conf-script --dhcp-script",
    "dvips": "-R0",
    "enscript": "-I --filter",
    "exiftool": "-if -p -config",
    "fzf": "--bind --preview --listen --with-shell",
    "genie": ALWAYS,
    "gimp": "-b --batch --batch-interpreter",
    "gnuplot": "-e",
    "ksu": ALWAYS,
    "luatex": ALWAYS,
    "m4": ALWAYS,
    "msgfilter": ALWAYS,
    "octave-cli": ALWAYS,
    "openvpn": "--up --down --script-security --plugin --route-up --ipchange --tls-verify",
    "openvt": ALWAYS,
    "pandoc": "-F -L --filter --lua-filter --pdf-engine --extract-media",
    "pdftex": "-shell-escape --shell-escape -enable-write18 --enable-write18",
    "pidstat": "-e",
    "pip": "--editor --python",
    "plymouth": "--command",
    "podman": "exec --privileged -v --volume --mount",
    "puppet": "-e --execute",
    "rake": "-e -E -p --execute --execute-print --execute-continue",
    "restic": "--password-command -o --option",
    "rpmdb": "-E --eval",
    "rpmquery": "-E --eval --pipe",
    "rpmverify": "-E --eval --pipe",
    "scrot": "-e --exec",
    "sg": ALWAYS,
    "slsh": "-e",
    "socket": ALWAYS,
    "sqlmap": "--eval --os-cmd --os-shell",
    "sshfs": "-o -F",
    "tex": "-shell-escape --shell-escape -enable-write18 --enable-write18",
    "tmate": ALWAYS,
    "xdotool": "exec",
    "yt-dlp": "--exec --exec-before-download --netrc-cmd --downloader --external-downloader --config-locations",
    "zic": "-y",
    "wsl.exe": ALWAYS,
}  # fmt: skip


def read_code_options(name: str, words: Sequence[Word]) -> Reading | None:
    """Return the reading of a program of this table; None if the program is not in it.

    Args:
        name: the name of the program.
        words: its words, without the program itself.

    >>> read_code_options("tar", [Word("", "-cf"), Word("", "--to-com=sh")]).problems
    ['an argument of tar is code']
    """
    options = CODE_OPTIONS.get(name)
    if options is None:
        return None
    if options == ALWAYS:
        return Reading(problems=[f"{name} runs what its input or its words say"])
    listed = options.split()
    for word in words:
        if any(is_code_option(word, option) for option in listed):
            return Reading(problems=[f"an argument of {name} is code"])
    return Reading()


def is_code_option(word: Word, option: str) -> bool:
    """Whether a word is, or may be, the option."""
    text = word.value if word.value is not None else word.prefix
    if word.value is None and not text and word.home is None:
        return True
    name = text.partition("=")[0]
    if option.startswith("--"):
        long_enough = len(name) >= SHORTEST_ABBREVIATION
        return long_enough and option.startswith(name) and name.startswith("--")
    if option.startswith("-") and len(option) == 2:
        return text[:1] == "-" and text[:2] != "--" and option[1] in text[1:]
    if option.startswith(("-", "+")) or option.endswith("="):
        return text.startswith(option)
    return text == option
