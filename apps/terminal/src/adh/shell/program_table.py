"""The programs whose words name files, as data: their options, and their access to each file.

A program that is not here has no known files. An option that is not here is a problem.
"""

from __future__ import annotations

from adh.shell.option_forms import Form

HELP = " --help --version"
COPY_OPTIONS = (
    "-abdfiHlLnPpRrsTuvxZ -t:folder -S:plain --archive --attributes-only --backup?=plain --force "
    "--interactive --link --dereference --no-clobber --no-dereference --preserve?=plain "
    "--no-preserve=plain --parents --recursive --reflink?=plain --remove-destination "
    "--sparse=plain --strip-trailing-slashes --symbolic-link --suffix=plain "
    "--target-directory=folder --no-target-directory --update?=plain --verbose --one-file-system"
)
GREP_OPTIONS = (
    "-0123456789EFGPiywxzsvVbnHhoqaIrRUTclLZ -e:pattern -f:patternfile -m:plain -A:plain -B:plain "
    "-C:plain -d:plain -D:plain --extended-regexp --fixed-strings --basic-regexp --perl-regexp "
    "--regexp=pattern --file=patternfile --ignore-case --no-ignore-case --word-regexp "
    "--line-regexp --null-data --no-messages --invert-match --max-count=plain --byte-offset "
    "--line-number --line-buffered --with-filename --no-filename --label=plain --only-matching "
    "--quiet --silent --binary-files=plain --text --directories=plain --devices=plain --recursive "
    "--dereference-recursive --include=plain --exclude=plain --exclude-from=read "
    "--exclude-dir=plain --files-without-match --files-with-matches --count --initial-tab --null "
    "--before-context=plain --after-context=plain --context=plain --color?=plain --colour?=plain "
    "--binary"
)
LS_OPTIONS = (
    "-aAbBcCdDfFgGhHiklLmnNopqQrRsStuUvxXZ1 -I:plain -w:plain -T:plain --all --almost-all --author "
    "--escape --block-size=plain --ignore-backups --color?=plain --directory --dired --classify?=plain "
    "--file-type --format=plain --full-time --group-directories-first --no-group --human-readable "
    "--si --dereference-command-line --hide=plain --hyperlink?=plain --indicator-style=plain --inode "
    "--ignore=plain --kibibytes --dereference --numeric-uid-gid --literal --hide-control-chars "
    "--quote-name --quoting-style=plain --reverse --recursive --size --sort=plain --time=plain "
    "--time-style=plain --tabsize=plain --width=plain --zero --context"
)
SORT_OPTIONS = (
    "-bdfgiMhnRrVcCmsuz -k:plain -t:plain -S:plain -T:write -o:write --ignore-leading-blanks "
    "--dictionary-order --ignore-case --general-numeric-sort --ignore-nonprinting --month-sort "
    "--human-numeric-sort --numeric-sort --random-sort --random-source=read --reverse --sort=plain "
    "--version-sort --batch-size=plain --check?=plain --compress-program=code --debug "
    "--files0-from=names --key=plain --merge --output=write --stable --buffer-size=plain "
    "--field-separator=plain --temporary-directory=write --parallel=plain --unique --zero-terminated"
)
DIFF_OPTIONS = (
    "-0123456789qsceuynptTlrNPEZbwBiaHd -C:plain -U:plain -W:plain -F:plain -x:plain -X:read "
    "-S:plain -I:plain -D:plain --normal --brief --report-identical-files --context?=plain "
    "--unified?=plain --ed --rcs --side-by-side --width=plain --left-column "
    "--suppress-common-lines --show-c-function --show-function-line=plain --label=plain "
    "--expand-tabs --initial-tab --tabsize=plain --suppress-blank-empty --recursive "
    "--no-dereference --new-file --unidirectional-new-file --ignore-file-name-case "
    "--exclude=plain --exclude-from=read --starting-file=plain --from-file=read --to-file=read "
    "--ignore-case --ignore-tab-expansion --ignore-trailing-space --ignore-space-change "
    "--ignore-all-space --ignore-blank-lines --ignore-matching-lines=plain --text "
    "--strip-trailing-cr --minimal --speed-large-files --color?=plain"
)
DIGEST_OPTIONS = (
    "-btcwz --binary --check --tag --text --zero --ignore-missing --quiet --status --strict --warn"
)
STAT_OPTIONS = (
    "-Lft -c:plain --dereference --file-system --cached=plain --format=plain --printf=plain --terse"
)
RG_OPTIONS = (
    "-0123456789abcFhHiILlnNoPpqSsTuUvwxz. -A:plain -B:plain -C:plain -e:pattern -f:patternfile "
    "-g:plain -m:plain -M:plain -r:plain -t:plain -d:plain -j:plain --files --hidden --no-ignore "
    "--glob=plain --type=plain --type-not=plain --ignore-case --smart-case --fixed-strings "
    "--count --files-with-matches --line-number --no-line-number --word-regexp --json --sort=plain "
    "--color=plain --heading --no-heading --max-count=plain --max-depth=plain --context=plain "
    "--multiline --pcre2 --stats --type-list --trim --vimgrep --replace=plain --regexp=pattern"
)

READERS = {
    "cat": Form("-AbeEnstTuv --show-all --number-nonblank --show-ends --number --squeeze-blank --show-tabs --show-nonprinting", "read"),
    "tac": Form("-br -s:plain --before --regex --separator=plain", "read"),
    "nl": Form("-p -b:plain -d:plain -f:plain -h:plain -i:plain -l:plain -n:plain -s:plain -v:plain -w:plain", "read"),
    "head": Form("-0123456789qvz -c:plain -n:plain --bytes=plain --lines=plain --quiet --silent --verbose --zero-terminated", "read"),
    "tail": Form("-0123456789fFqvz -c:plain -n:plain -s:plain --bytes=plain --lines=plain --follow?=plain --pid=plain --quiet --silent --retry --sleep-interval=plain --max-unchanged-stats=plain --verbose --zero-terminated", "read"),
    "wc": Form("-cmlLw --bytes --chars --lines --max-line-length --words --total=plain --files0-from=names", "read"),
    "grep": Form(GREP_OPTIONS, "pattern", "."),
    "egrep": Form(GREP_OPTIONS, "pattern", "."),
    "fgrep": Form(GREP_OPTIONS, "pattern", "."),
    "rg": Form(RG_OPTIONS, "pattern-tree", "."),
    "diff": Form(DIFF_OPTIONS, "read"),
    "cmp": Form("-bls -i:plain -n:plain --print-bytes --ignore-initial=plain --verbose --bytes=plain --quiet --silent", "read"),
    "comm": Form("-123z --check-order --nocheck-order --output-delimiter=plain --total --zero-terminated", "read"),
    "sort": Form(SORT_OPTIONS, "read"),
    "uniq": Form("-cdDiuz -f:plain -s:plain -w:plain --count --repeated --unique --ignore-case --skip-fields=plain --skip-chars=plain --check-chars=plain --zero-terminated --all-repeated?=plain --group?=plain", "read_write"),
    "cut": Form("-nsz -b:plain -c:plain -d:plain -f:plain --bytes=plain --characters=plain --delimiter=plain --fields=plain --complement --only-delimited --output-delimiter=plain --zero-terminated", "read"),
    "paste": Form("-sz -d:plain --delimiters=plain --serial --zero-terminated", "read"),
    "join": Form("-iz -a:plain -e:plain -j:plain -o:plain -t:plain -v:plain -1:plain -2:plain --check-order --nocheck-order --header", "read"),
    "fold": Form("-bs -w:plain --bytes --spaces --width=plain", "read"),
    "fmt": Form("-cstu -p:plain -w:plain -g:plain --width=plain", "read"),
    "expand": Form("-i -t:plain --initial --tabs=plain", "read"),
    "unexpand": Form("-a -t:plain --all --first-only --tabs=plain", "read"),
    "rev": Form("", "read"),
    "column": Form("-tenxLJ -s:plain -o:plain -c:plain -N:plain -R:plain --table --separator=plain --output-separator=plain", "read"),
    "od": Form("-abcdfilosxv -A:plain -j:plain -N:plain -S:plain -t:plain -w?:plain --address-radix=plain --format=plain --skip-bytes=plain --read-bytes=plain", "read"),
    "hexdump": Form("-bcCdovx -e:plain -f:read -n:plain -s:plain", "read"),
    "xxd": Form("-abCdeEiprRu -c:plain -g:plain -l:plain -n:plain -o:plain -s:plain", "read_write"),
    "strings": Form("-afow -n:plain -t:plain -e:plain --all --print-file-name --bytes=plain --radix=plain --encoding=plain", "read"),
    "stat": Form(STAT_OPTIONS, "list"),
    "file": Form("-bckiLhNnprsSvzZ0 -F:plain -P:plain -e:plain -f:names --brief --mime --mime-type --mime-encoding --dereference --separator=plain --no-pad", "list"),
    "ls": Form(LS_OPTIONS, "list", "."),
    "dir": Form(LS_OPTIONS, "list", "."),
    "vdir": Form(LS_OPTIONS, "list", "."),
    "du": Form("-0abcDhHklLmsSx -d:plain -B:plain -t:plain -X:read --all --apparent-size --block-size=plain --bytes --total --max-depth=plain --human-readable --summarize --exclude=plain --exclude-from=read --files0-from=names --null --one-file-system --threshold=plain --time?=plain", "list", "."),
    "df": Form("-aBhHiklPTv -t:plain -x:plain -B:plain --all --human-readable --inodes --local --total --type=plain --output?=plain", "list"),
    "readlink": Form("-femnqsvz --canonicalize --canonicalize-existing --canonicalize-missing --no-newline --quiet --silent --verbose --zero", "list"),
    "realpath": Form("-emLPqsz --canonicalize-existing --canonicalize-missing --logical --physical --quiet --relative-to=list --relative-base=list --strip --no-symlinks --zero", "list"),
    "md5sum": Form(DIGEST_OPTIONS, "read"),
    "sha1sum": Form(DIGEST_OPTIONS, "read"),
    "sha256sum": Form(DIGEST_OPTIONS, "read"),
    "sha512sum": Form(DIGEST_OPTIONS, "read"),
    "b2sum": Form(DIGEST_OPTIONS + " -l:plain --length=plain", "read"),
    "cksum": Form("-a:plain --algorithm=plain", "read"),
    "base64": Form("-di -w:plain --decode --ignore-garbage --wrap=plain", "read"),
    "base32": Form("-di -w:plain --decode --ignore-garbage --wrap=plain", "read"),
    "zcat": Form("-f", "read"),
    "bat": Form("-Apn -l:plain -r:plain --plain --number --language=plain --line-range=plain --style=plain --color=plain --paging=plain", "read"),
}  # fmt: skip

WRITERS = {
    "cp": Form(COPY_OPTIONS, "copy"),
    "mv": Form("-bfinTuvZ -t:folder -S:plain --backup?=plain --force --interactive --no-clobber --no-copy --strip-trailing-slashes --suffix=plain --target-directory=folder --no-target-directory --update?=plain --verbose", "move"),
    "ln": Form("-bdfFiLnPrsTv -t:folder -S:plain --backup?=plain --directory --force --interactive --logical --no-dereference --physical --relative --symbolic --suffix=plain --target-directory=folder --no-target-directory --verbose", "link"),
    "install": Form("-bcCdDpTsv -g:plain -m:plain -o:plain -t:folder -S:plain --backup?=plain --compare --directory --group=plain --mode=plain --owner=plain --preserve-timestamps --strip --strip-program=code --target-directory=folder --no-target-directory --verbose", "copy"),
    "tee": Form("-aip --append --ignore-interrupts --output-error?=plain", "write"),
    "touch": Form("-acfhm -d:plain -r:list -t:plain --no-create --date=plain --no-dereference --reference=list --time=plain", "create"),
    "truncate": Form("-co -r:list -s:plain --no-create --io-blocks --reference=list --size=plain", "write"),
    "shred": Form("-fuvxz -n:plain -s:plain --force --iterations=plain --random-source=read --size=plain --remove?=plain --verbose --exact --zero", "delete"),
    "rm": Form("-fiIrRdv --force --interactive?=plain --one-file-system --no-preserve-root --preserve-root?=plain --recursive --dir --verbose", "delete"),
    "rmdir": Form("-pv --ignore-fail-on-non-empty --parents --verbose", "delete"),
    "unlink": Form("", "delete"),
    "mkdir": Form("-pvZ -m:plain --mode=plain --parents --verbose", "create"),
    "mkfifo": Form("-Z -m:plain --mode=plain", "create"),
    "chmod": Form("-cfvR --changes --silent --quiet --verbose --no-preserve-root --preserve-root --reference=list --recursive", "mode"),
    "chown": Form("-cfvhRHLP --changes --silent --quiet --verbose --dereference --no-dereference --from=plain --no-preserve-root --preserve-root --reference=list --recursive", "mode"),
    "chgrp": Form("-cfvhRHLP --changes --silent --quiet --verbose --dereference --no-dereference --no-preserve-root --preserve-root --reference=list --recursive", "mode"),
    "split": Form("-dexu -a:plain -b:plain -C:plain -l:plain -n:plain -t:plain --filter=code --additional-suffix=plain --bytes=plain --lines=plain --number=plain --verbose --numeric-suffixes?=plain", "read_write"),
    "gzip": Form("-123456789cdfhklLnNqrtv -S:plain --stdout --decompress --force --keep --list --recursive --test --verbose --fast --best", "write"),
    "gunzip": Form("-cfhklLnNqrtv -S:plain --stdout --force --keep --list --recursive --test --verbose", "write"),
    "bzip2": Form("-123456789cdfkqstvz --stdout --decompress --force --keep", "write"),
    "xz": Form("-0123456789cdefklqtvz -T:plain --stdout --decompress --force --keep --list", "write"),
    "patch": Form("-bcefilnNRstTuZ -p:plain -d:folder -i:read -o:write -r:write --dry-run --batch --forward --reverse --strip=plain --directory=folder --input=read --output=write --reject-file=write", "write"),
}  # fmt: skip

QUIET = {
    "echo": Form("", "anything"),
    "true": Form("", "anything"),
    "false": Form("", "anything"),
    ":": Form("", "anything"),
    "pwd": Form("-LP --logical --physical", "plain"),
    "whoami": Form("", "plain"),
    "id": Form("-agGnruzZ", "plain"),
    "groups": Form("", "plain"),
    "tty": Form("-s", "plain"),
    "nproc": Form("--all --ignore=plain", "plain"),
    "uptime": Form("-ps", "plain"),
    "uname": Form("-asnrvmpio --all --kernel-name --nodename --kernel-release --kernel-version --machine --processor --hardware-platform --operating-system", "plain"),
    "hostname": Form("-aAdfiIsy", "none"),
    "printf": Form("-v:name", "plain", stops=True),
    "date": Form("-Ru -d:plain -f:read -I?:plain -r:list --date=plain --file=read --iso-8601?=plain --reference=list --rfc-3339=plain --rfc-email --utc --universal --debug", "date"),
    "which": Form("-as --all", "plain"),
    "type": Form("-afptP", "plain"),
    "basename": Form("-az -s:plain --multiple --suffix=plain --zero", "plain"),
    "dirname": Form("-z --zero", "plain"),
    "seq": Form("-w -f:plain -s:plain --format=plain --separator=plain --equal-width", "plain"),
    "sleep": Form("", "plain"),
    "cal": Form("-13jmsyY", "plain"),
    "tr": Form("-cCdst --complement --delete --squeeze-repeats --truncate-set1", "plain"),
    "expr": Form("", "anything"),
    "[[": Form("", "anything"),
    "cd": Form("-LPe", "list"),
    "pushd": Form("-n", "list"),
    "popd": Form("-n", "plain"),
    "exit": Form("", "plain"),
    "return": Form("", "plain"),
    "break": Form("", "plain"),
    "continue": Form("", "plain"),
    "shift": Form("", "plain"),
    "wait": Form("-fn", "plain"),
    "jobs": Form("-lnprs", "plain"),
    "umask": Form("-pS", "plain"),
    "read": Form("-ers -a:name -d:plain -i:plain -n:plain -N:plain -p:plain -t:plain -u:plain", "name"),
    "mapfile": Form("-t -d:plain -n:plain -O:plain -s:plain -u:plain -C:code -c:plain", "name"),
    "readarray": Form("-t -d:plain -n:plain -O:plain -s:plain -u:plain -C:code -c:plain", "name"),
    "getopts": Form("", "name"),
    "export": Form("-p", "name"),
    "readonly": Form("-p", "name"),
    "local": Form("-rx", "name"),
    "declare": Form("-rxgp", "name"),
    "typeset": Form("-rxgp", "name"),
    "unset": Form("-v", "name"),
    "unsetenv": Form("", "name"),
}  # fmt: skip

PROGRAMS = {
    name: Form(form.options + HELP, form.operands, form.default)
    for name, form in {**READERS, **WRITERS}.items()
} | QUIET
