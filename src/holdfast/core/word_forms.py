"""Words of texts, names and queries in one form, so that those that mean the same can be compared.

A word is in lower case, without accents and without its English ending. `find_related` gives the words that
people and authors of tools use for the same thing. The tables name common verbs and nouns of English and of
APIs; none of them may be there for a certain tool.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Final

_HUMP: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_WORD: Final = re.compile(r"[^\W_]+")
# Chinese, Japanese, Korean and Thai, which write words without spaces.
_UNSPACED: Final = re.compile(r"[\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+")

_STOP_WORDS: Final = frozenset(
    "a about again all also am an and any anyone anything are as at be been but by can cannot could did do does"
    " done each else every everything for from had has have he her here him his how i if in into is it its just"
    " kind let like may me might mine more much must my need no of off on onto or our ours out over own please"
    " really she should so some somebody someone something sort such than that the their them then there these"
    " they thing things this those to too us very want was we were what when where which who whom whose why will"
    " with would you your".split()
)

# The first words of a phrase are said in its last one.
_PHRASES: Final = (
    ("get rid of", "delete"),
    ("throw away", "delete"),
    ("take away", "remove"),
    ("take off", "remove"),
    ("look up", "find"),
    ("look for", "search"),
    ("find out", "get"),
    ("look at", "view"),
    ("set up", "create"),
    ("put up", "create"),
    ("put in", "add"),
    ("write down", "save"),
    ("fill in", "fill"),
    ("fill out", "fill"),
    ("turn on", "enable"),
    ("switch on", "enable"),
    ("turn off", "disable"),
    ("switch off", "disable"),
    ("shut down", "stop"),
    ("call off", "cancel"),
    ("kick off", "start"),
    ("log in", "login"),
    ("sign in", "login"),
    ("sign up", "register"),
    ("go back", "back"),
    ("hand over", "transfer"),
    ("hand out", "give"),
    ("give back", "return"),
    ("bring back", "restore"),
    ("pull request", "pull"),
    ("merge request", "pull"),
    ("sum up", "summarize"),
    ("how many", "count"),
    ("how much", "amount"),
)

_IRREGULAR: Final = {
    "people": "person",
    "children": "child",
    "men": "man",
    "women": "woman",
    "data": "data",
    "sent": "send",
    "wrote": "write",
    "written": "write",
    "made": "make",
    "got": "get",
    "gone": "go",
    "went": "go",
    "ran": "run",
    "said": "say",
    "told": "tell",
    "took": "take",
    "taken": "take",
    "found": "find",
    "gave": "give",
    "given": "give",
    "saw": "see",
    "seen": "see",
    "kept": "keep",
    "left": "leave",
    "shown": "show",
    "chosen": "choose",
    "built": "build",
    "bought": "buy",
    "paid": "pay",
    "held": "hold",
    "put": "put",
    "hidden": "hide",
    "index": "index",
    "indices": "index",
    "indexes": "index",
}

# Each line has words that may stand for each other. A word may be in several lines.
_RELATED: Final = """
create make add new generate produce start build insert establish open initialize
add put insert append attach include assign
write save store put record
delete remove erase drop destroy discard clear wipe trash cancel
remove detach unassign exclude kick revoke
get fetch retrieve read load show view see look display obtain inspect check open describe detail information info
list show see enumerate browse get overview
search find query locate lookup seek discover match
update edit change modify alter adjust revise set replace correct fix amend patch
rename move
move transfer relocate shift
copy duplicate clone replicate fork
send post publish deliver submit write
say tell send message inform notify
message chat text note mail
reply answer respond comment thread
comment note remark review feedback
close end finish shut resolve complete
open launch start begin
start run execute trigger launch begin dispatch invoke perform
rerun retry restart redo repeat
stop cancel abort halt end kill terminate pause
enable activate allow permit
disable deactivate forbid block
block ban forbid mute lock
unblock unban unlock
lock freeze
merge combine join unite integrate
compare diff difference versus
download export get fetch pull save
upload import attach push send
invite ask add
invite invitation
join enter
leave quit exit
accept approve confirm agree grant allow
decline reject deny refuse dismiss
approve review
request ask demand
choose select pick
select option dropdown
type enter input fill write key
fill enter form complete
click press tap push hit
hover point mouse pointer
drag move pull
drop release
scroll page
wait sleep delay pause
navigate go visit open browse
back return previous
forward next
refresh reload update renew
login authenticate credential session
register enroll
star favorite favourite bookmark
follow subscribe watch observe track
unfollow unsubscribe unwatch
subscription subscribe
mark flag set label
label tag
tag version release
release version publish
pin stick fix
schedule plan timetable cron
count number total amount sum statistic
statistic analytic metric insight figure number traffic
usage consumption billing cost
activity event history log timeline action
log history record output trace
sum add total plus calculate compute math
calculate compute evaluate
echo repeat
convert transform
encrypt secret
secret password token key credential
key ssh deploy
variable setting environment config parameter
setting configuration config preference option property
permission access right role privilege
access collaborator
person user people member account human someone contributor collaborator colleague teammate
user member account profile login
profile account info detail
me myself self authenticated current own
owner author creator
team group
organization organisation company org enterprise business
repository repo project codebase
project board
issue ticket bug problem task
ticket card
milestone deadline goal
assignee assign responsible person
pull pr
branch line
default main master
commit change revision
change diff modification
file document content
content text body
folder directory
directory tree structure
tree hierarchy nested recursive
path location place
size big large
line row
picture image photo screenshot media
screenshot capture snapshot image picture
snapshot capture
page website site web url tab
tab window page
window browser
link url address
browser page web
dialog popup alert prompt
popup modal
cookie storage
network request http traffic
console log message error output
error exception problem failure warning
javascript script code
script code program function
code source
snippet gist code
gist paste
readme documentation doc
channel room
thread conversation discussion
discussion forum conversation topic
emoji reaction smiley
reaction like thumbs emoji react
status state progress condition
check test status
alert warning vulnerability security
vulnerability security advisory weakness hole
advisory security
workflow action pipeline ci job build
pipeline ci build
job task step
runner machine worker agent
artifact build output
cache temporary
environment stage
deployment deploy release
deploy publish
package library dependency module
dependency requirement
license licence
language translation
webhook hook callback
hook webhook
notification alert inbox message
notify ping alert
email mail address
time clock date when
date day time
old earlier past previous history
new latest recent
recent latest last newest
public visible open
private hidden
visibility public private
archive backup
restore recover undo revert
revert undo rollback
protect protection guard rule
rule policy ruleset
limit restriction quota rate
quota limit
template pattern scaffold
template boilerplate
topic subject tag keyword
keyword term
name title
title heading headline
description summary text
summary overview abstract
first beginning head top start
last end tail bottom
part section piece
several multiple many batch bulk
sample example demo
random lucky
health alive ping status
configure set setup
connect link attach
resize size width height
location place where
region area
weather forecast
money price cost payment
blame author history
parent child sub nested
order sort priority prioritize position
visitor view traffic
upvote like vote
suggestion proposal
follower fan
mention refer
""".strip().splitlines()


def split_words(text: str, *, is_name: bool = False) -> list[str]:
    """Return the words of a text or a name in their common form, without words such as "the".

    Words of languages without spaces are pairs of letters.

    Args:
        text: the text.
        is_name: whether it is a name of code, in which a capital letter may begin a word.

    >>> split_words("Creates a new pull request for the repositories")
    ['creat', 'new', 'pull', 'repositori']
    >>> split_words("getFile_contents", is_name=True)
    ['get', 'fil', 'content']
    >>> split_words("Dateien löschen"), split_words("创建文件")
    (['dateien', 'loschen'], ['创建', '建文', '文件'])
    """
    # The time of what follows grows with the text, and not with its square.
    plain = _drop_accents(_HUMP.sub(" ", text) if is_name else text).casefold()
    words = [part for word in _WORD.findall(plain) for part in _split_unspaced(word)]
    return [find_stem(word) for word in _join_phrases(words) if word not in _STOP_WORDS]


def _drop_accents(text: str) -> str:
    if text.isascii():
        return text
    parts = unicodedata.normalize("NFKD", text)
    kept = "".join([one for one in parts if unicodedata.category(one) != "Mn"])
    return unicodedata.normalize("NFC", kept)


def _split_unspaced(word: str) -> Iterator[str]:
    if word.isascii() or not _UNSPACED.search(word):
        yield word
        return
    at = 0
    for run in _UNSPACED.finditer(word):
        if run.start() > at:
            yield word[at : run.start()]
        letters, at = run[0], run.end()
        yield from (letters[one : one + 2] for one in range(max(1, len(letters) - 1)))
    if at < len(word):
        yield word[at:]


def _join_phrases(words: list[str]) -> list[str]:
    """Replace phrases such as "get rid of" by one word."""
    joined: list[str] = []
    at = 0
    while at < len(words):
        for phrase, word in _PHRASES_BY_FIRST.get(words[at], ()):
            if tuple(words[at : at + len(phrase)]) == phrase:
                joined.append(word)
                at += len(phrase)
                break
        else:
            joined.append(words[at])
            at += 1
    return joined


_VOWEL: Final = re.compile(r"[aeiouy]")
_DOUBLE: Final = re.compile(r"([bdfgklmnprtz])\1$")
_LEAST: Final = 3


@lru_cache(maxsize=20_000)
def find_stem(word: str) -> str:
    """Return an English word without its ending; other words mostly stay as they are.

    >>> [find_stem(word) for word in ("creates", "creating", "creation", "replies", "stopped", "boxes")]
    ['creat', 'creat', 'creat', 'repli', 'stop', 'box']
    """
    word = _IRREGULAR.get(word, word)
    if len(word) <= _LEAST or not word.isascii() or not word.isalpha():
        return word
    word = _cut_plural(word)
    word = _cut_verb(word)
    for ending, least in (("ation", 3), ("ition", 4), ("ion", 4), ("ment", 5), ("ly", 4)):
        if word.endswith(ending) and len(word) - len(ending) >= least:
            word = word[: -len(ending)] + ("at" if ending == "ation" else "")
            break
    if word.endswith("e") and len(word) > _LEAST:
        word = word[:-1]
    if word.endswith("y") and len(word) > _LEAST and word[-2] not in "aeiou":
        word = word[:-1] + "i"
    return word


def _cut_plural(word: str) -> str:
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    if word.endswith(("sses", "xes", "ches", "shes", "zes")):
        return word[:-2]
    if word.endswith("s") and not word.endswith(("ss", "us", "is")):
        return word[:-1]
    return word


def _cut_verb(word: str) -> str:
    if word.endswith("ied") and len(word) > 4:
        return word[:-3] + "y"
    for ending in ("ing", "ed"):
        rest = word[: -len(ending)]
        if word.endswith(ending) and len(rest) >= _LEAST and _VOWEL.search(rest):
            return rest[:-1] if _DOUBLE.search(rest) else rest
    return word


_PHRASES_BY_FIRST: Final[dict[str, list[tuple[tuple[str, ...], str]]]] = {}
for _phrase, _word in _PHRASES:
    _PHRASES_BY_FIRST.setdefault(_phrase.split()[0], []).append((tuple(_phrase.split()), _word))


def _read_related() -> Mapping[str, frozenset[str]]:
    related: dict[str, set[str]] = {}
    for line in _RELATED:
        stems = {find_stem(word) for word in line.split()}
        for stem in stems:
            related.setdefault(stem, set()).update(stems - {stem})
    return {stem: frozenset(others) for stem, others in related.items()}


_RELATED_STEMS: Final = _read_related()


def find_related(stem: str) -> frozenset[str]:
    """Return the stems of words that may stand for this one.

    >>> "directori" in find_related("folder")
    True
    """
    return _RELATED_STEMS.get(stem, frozenset())
