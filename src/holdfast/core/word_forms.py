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
from typing import Final, Literal, TypeAlias

_HUMP: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
# A name of code inside a text, such as createFile; GitHub is one word.
_NAME: Final = re.compile(r"\b[a-z]+[A-Z]\w*")
_WORD: Final = re.compile(r"[^\W_]+")
# Chinese, Japanese, Korean and Thai, which write words without spaces.
_UNSPACED: Final = re.compile(r"[\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+")

_STOP_TEXT: Final = (
    "a about all also am an and any are as at be been but by can cannot could d did do does doing "
    "done each else ever every for from had has have having he hence her here hers him his how i "
    "if in into is it its just kind let like ll m made may me might mine more most much must my "
    "need never no nor not of off on onto or our ours out over own perhaps please quite re really "
    "s shall she should so some somehow something such t than that the their theirs them then "
    "there these they thing things this those though thus to too upon us ve very want wants was "
    "we were what which while will wish with would yes yet you your yours"
)
_STOP_WORDS: Final = frozenset(_STOP_TEXT.split())

# What a phrase says, in one word. Each word of a phrase stands for all its forms.
_PHRASES: Final = """
get rid of: delete; throw away: delete; throw out: remove; kick out: remove; take away: remove; take off:
remove; take out: remove; cross out: delete; wipe out: delete; look up: find; look for: search; find out: get;
look at: view; look into: inspect; check out: view; set up: create; put up: create; make up: create; put in:
add; put on: add; put into: insert; put together: combine; put back: restore; put off: postpone; write down:
save; fill in: fill; fill out: fill; turn on: enable; switch on: enable; turn off: disable; switch off:
disable; shut down: stop; shut off: stop; call off: cancel; give up: abort; kick off: start; start over:
restart; log in: login; sign in: login; log out: logout; sign out: logout; sign up: register; go back: back;
go to: navigate; go over: review; go on: continue; go through: review; hold on: wait; hang on: wait; show up:
appear; turn up: appear; pop up: popup; go away: disappear; hand over: transfer; hand out: give; give back:
return; bring back: restore; bring up: open; pass on: forward; thumbs up: reaction; thumb up: reaction; pull
request: pull; merge request: pull; sum up: summarize; add up: sum; how many: count; how often: count; how
much: amount; how big: size; how large: size; how long: duration; how old: date; at once: simultaneous; at the
same time: simultaneous; one by one: sequential; in charge of: responsible; let know: notify; let us know:
notify; let me know: notify; keep an eye on: watch; up to date: update; in the end: finally
"""

_QUESTION_WORDS: Final = (
    "what which who whom whose when where why how is are was were did do does has have"
)
_READING_WORDS: Final = (
    "show list find get see view read look search check compare download fetch count tell display open"
    " lookup browse query retrieve describe inspect load"
)
_CHANGING_WORDS: Final = (
    "create make add write save delete remove erase update edit change set rename move copy send post say"
    " publish upload put give take start run stop cancel pause enable disable close lock unlock merge approve"
    " accept reject assign invite submit replace fix correct mark pin hide transfer throw let keep ask answer"
    " reply react press click type enter fill choose select drag switch turn hand restore reset register"
    " trigger deploy rerun repeat attach generate draw"
)

_IRREGULAR_FORMS: Final = """
person: people persons; child: children; man: men; woman: women; index: indices indexes; datum: data; medium:
media; add: adds added adding; bring: brought; build: built; buy: bought; catch: caught; choose: chose chosen
choosing; draw: drew drawn; find: found; forget: forgot forgotten; freeze: froze frozen; get: got gotten
getting gets; give: gave given giving gives; go: went gone goes going; hear: heard; hide: hid hidden; hold:
held; keep: kept; know: knew known; leave: left leaving; lose: lost losing; make: makes making; mean: meant;
meet: met; pay: paid; put: putting puts; read: reading reads; run: ran running runs; say: said; see: saw seen;
sell: sold; send: sent; show: shown showed; speak: spoke spoken; spend: spent; take: took taken taking takes;
teach: taught; tell: told; think: thought; throw: threw thrown; use: used using uses usage; write: wrote
written writing writes
"""

# Groups of words that may stand for each other, of people and of APIs. A word may be in several groups.
_RELATED: Final = """
create make add new generate produce start build insert establish open initialize compose; add put insert
append attach include assign apply; write save store put record keep set; delete remove erase drop destroy
discard clear wipe trash cancel purge; remove detach unassign exclude kick revoke expel throw; get fetch
retrieve read load show view see look display obtain inspect check open describe detail information info
return; list show see enumerate browse get overview; search find query locate lookup seek discover match;
update edit change modify alter adjust revise set replace correct fix amend patch; rename move; move transfer
relocate shift; copy duplicate clone replicate fork; send post publish deliver submit write share; say tell
send message inform notify comment post announce write; message chat text note mail dm; reply answer respond
comment thread; comment note remark review feedback; report submit file create issue; close end finish shut
resolve complete done; open launch start begin; start run execute trigger launch begin dispatch invoke
perform; rerun retry restart redo repeat again re rerequest; stop cancel abort halt end kill terminate; stop
prevent block forbid lock limit restrict; pause suspend; continue resume proceed; enable activate allow
permit; disable deactivate forbid block; block ban forbid mute lock; unblock unban unlock; lock freeze; merge
combine join unite integrate insert accept; compare diff difference versus; download export get fetch pull
save; upload import attach push send add; push commit; invite ask add; invite invitation; join enter; leave
quit exit; accept approve confirm agree grant allow; decline reject deny refuse dismiss; approve review; give
grant assign add; request ask demand; choose select pick; select option dropdown; type enter input fill write
key; fill enter form complete; click press tap push hit; hover point mouse pointer; drag move pull; drop
release; wait sleep delay pause until; appear show visible; disappear hide gone; navigate go visit open
browse; back return previous; forward next; refresh reload update renew; login authenticate credential
session; register enroll; star favorite favourite bookmark; follow subscribe watch observe track; unfollow
unsubscribe unwatch; subscription subscribe; mark flag set label; label tag; tag version release; release
version publish; publish release create; pin stick; schedule plan timetable cron; remind reminder alarm;
postpone reschedule delay; count number total amount sum statistic; statistic analytic metric insight figure
number traffic; use consumption billing cost quota; activity event history log timeline action; event whenever
trigger; log history record output trace; sum add total plus calculate compute math; subtract minus; multiply
product; calculate compute evaluate; average mean; echo repeat; convert transform translate; compress zip gzip
shrink; extract unzip decompress; archive zip tarball; encrypt secret; secret password token key credential;
key ssh deploy; variable setting environment config parameter; environment env stage; setting configuration
config preference option property; permission access right role privilege; access collaborator; person user
human someone somebody anyone anybody everyone everybody who whom people; user member account human someone
contributor collaborator colleague teammate customer; contributor work contribute author; everyone everybody
all team; nobody restrict protect forbid; nobody none; user member account profile login; profile account info
detail; myself self authenticated current own; owner author creator; team group staff crew; organization
organisation company org enterprise business firm; repository repo project codebase; project board; issue
ticket bug problem task defect; ticket card; milestone deadline goal; deadline due date; assignee assign
responsible person; pull pr change proposal; pull merge; branch line ref; ref reference branch tag; default
main master; commit change revision; change diff modification; file document attachment; disk drive file
filesystem storage; content text body inside contain; folder directory dir; directory tree structure folder;
tree hierarchy nested recursive structure; path location place; size big large; line row; picture image photo
media; screenshot capture snapshot image picture; video movie clip film; audio sound music song voice;
snapshot capture; page website site web url tab; tab window page; window browser; link url address; browser
page web; dialog popup alert prompt; popup modal; dark theme color scheme mode; cookie storage; network
request http traffic; console log message error output; error exception problem failure warning fail;
javascript script code; script code program function; code source; snippet gist code; gist paste; readme
documentation doc; channel room; channel chat; workspace team; thread conversation discussion; argue discuss
debate conversation discussion; discussion forum conversation topic; emoji reaction smiley; reaction like
thumbs emoji react; status state progress condition; check test status; test pass fail check success; result
outcome; alert warning vulnerability security; vulnerability security advisory weakness hole; advisory
security; workflow action pipeline ci job build; pipeline ci build; job task step; runner machine worker
agent; artifact build output; cache temporary; deployment deploy release; deploy publish rollout; package
library dependency module; dependency requirement; license licence; language translation; webhook hook
callback notify; hook webhook; notification alert inbox message; notify ping alert inform tell; email mail;
address street; time clock date when; date day time when; duration long length time; old earlier past previous
history; new latest recent; recent latest last newest lately; public visible open; private hidden; visibility
public private; archive backup; restore recover undo revert; revert undo rollback; protect protection guard
rule restrict; rule policy ruleset; limit restriction quota rate; quota limit; template pattern scaffold;
template boilerplate; topic subject tag keyword; keyword term; name title; title heading headline; description
summary text; summary overview abstract; summarize summary; first beginning head top start; last end tail
bottom; part section piece; several multiple many batch bulk; multiple two three four five both; simultaneous
multiple together parallel; sample example demo; health alive ping status; configure set setup; connect link
attach; disconnect unlink detach; resize size width height small; location place where; region area country;
weather forecast; money price cost payment; pay payment charge; refund reimburse; bill invoice receipt;
customer client buyer; order purchase buy; cart basket; product item article good; ship deliver shipment
delivery; meeting appointment event calendar; calendar agenda schedule; contact person phone; phone call
telephone mobile; task todo job; note memo; spreadsheet sheet table; table grid; column field; record row
entry; presentation slide; database db sql table; server instance machine host vm; container pod docker;
cluster node; volume disk storage; chart graph diagram plot; dashboard report; blame author history; parent
child sub nested; sort order priority prioritize position; visitor view traffic; upvote like vote; suggestion
proposal propose; follower fan; mention refer; why reason log error; broken break fail crash error; happen
occur event; idea feature wish issue proposal; surf navigate browse; talk communicate request message; online
publish site page host web; reachable available health ping status; introduction intro readme overview;
condition term license agreement; visitor referrer traffic view; domain dns host; space size storage; txt md
csv pdf doc file; box field input; word text string; idea suggestion; developer programmer engineer user; bot
app application integration; colour color; spelling typo mistake; information info; directory dir;
configuration config; application app; administrator admin; authentication auth; document doc; reference ref;
identifier id; repository repo; organization org; image img; message msg; database db; development dev;
production prod; temporary temp tmp; file pdf docx xlsx csv txt md png jpg jpeg gif mp3 mp4 song photo video
document; zip pack bundle compress; unzip unpack extract; bin trash rubbish delete; com org net www http https
url website site; room group channel; broadcast announce post; nick nickname profile name; heart like thumb
reaction; button link element; viewport window screen size; mobile phone; form field; scroll page; close
reopen update state; done finish close complete; give hand assign transfer; write access permission; touch
change modify access; look view visit read; newest latest recent; new create add open; own copy fork; suggest
propose; password secret; rerun again retry; output log result; language programming; work contribute; old
previous former; previous back last; forum discussion; wait until; star like; everything all; anything all;
detail specific info; list all; version tag; host server domain; key ssh; read get content; reachable online;
subscription notification watch; hear notification notify; mail message; calendar date; money billing; quick
fast; slow delay; safe secure security; danger risk security vulnerability; maximum max; minimum min
"""


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
    text = _HUMP.sub(" ", text) if is_name else _NAME.sub(_split_name, text)
    plain = _drop_accents(text).casefold()
    words = [part for word in _WORD.findall(plain) for part in _split_unspaced(word)]
    return _join_phrases(words, list(map(find_stem, words)))


def _split_name(name: re.Match[str]) -> str:
    return _HUMP.sub(" ", name[0])


Mood: TypeAlias = Literal["asks", "orders", ""]


def find_mood(query: str) -> Mood:
    """Return whether a query asks for something or orders a change; "" if it does not say.

    >>> find_mood("Which files are there"), find_mood("delete the file"), find_mood("file metadata")
    ('asks', 'orders', '')
    """
    words = _WORD.findall(query.casefold())
    if not words:
        return ""
    first = find_stem(words[0])
    if query.rstrip().endswith("?") or words[0] in _QUESTIONS or first in _READING:
        return "asks"
    return "orders" if first in _CHANGING else ""


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


def _join_phrases(words: list[str], stems: list[str]) -> list[str]:
    """Return the stems of words, with phrases such as "get rid of" replaced by one word."""
    joined: list[str] = []
    at = 0
    while at < len(words):
        for phrase, stem in _PHRASES_BY_FIRST.get(stems[at], ()):
            if tuple(stems[at : at + len(phrase)]) == phrase:
                joined.append(stem)
                at += len(phrase)
                break
            if phrase[-1] in _PARTICLES and (end := _find_particle(stems, at, phrase[-1])):
                # As in "turn the light off".
                joined.append(stem)
                del stems[end], words[end]
                at += 1
                break
        else:
            if words[at] not in _STOP_WORDS:
                joined.append(stems[at])
            at += 1
    return joined


_PARTICLE_WORDS: Final = "away back down in off on out over up"
_PARTICLES: Final = frozenset(_PARTICLE_WORDS.split())
_LONGEST_GAP: Final = 5


def _find_particle(stems: list[str], at: int, particle: str) -> int:
    """Return the place of a particle some words after its verb; 0 for none."""
    for end in range(at + 2, min(at + 2 + _LONGEST_GAP, len(stems))):
        if stems[end] == particle:
            return end
    return 0


def _read_forms() -> Mapping[str, str]:
    forms: dict[str, str] = {}
    for one in _IRREGULAR_FORMS.split(";"):
        word, _, others = one.partition(":")
        forms.update(dict.fromkeys(others.split(), word.strip()))
    return forms


_IRREGULAR: Final = _read_forms()
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


def _read_phrases() -> Mapping[str, list[tuple[tuple[str, ...], str]]]:
    phrases: dict[str, list[tuple[tuple[str, ...], str]]] = {}
    for one in _PHRASES.split(";"):
        phrase, _, word = one.partition(":")
        stems = tuple(map(find_stem, phrase.split()))
        phrases.setdefault(stems[0], []).append((stems, find_stem(word.strip())))
    return phrases


_PHRASES_BY_FIRST: Final = _read_phrases()
_QUESTIONS: Final = frozenset(_QUESTION_WORDS.split())
_READING: Final = frozenset(map(find_stem, _READING_WORDS.split()))
_CHANGING: Final = frozenset(map(find_stem, _CHANGING_WORDS.split()))


def _read_related() -> Mapping[str, frozenset[str]]:
    related: dict[str, set[str]] = {}
    for group in _RELATED.split(";"):
        stems = {find_stem(word) for word in group.split()}
        for stem in stems:
            related.setdefault(stem, set()).update(stems - {stem})
    return {stem: frozenset(others) for stem, others in related.items()}


_RELATED_STEMS: Final = _read_related()


_MAKING: Final = ("er", "or")
_LEAST_MAKING: Final = 5
_LIGHT_WORDS: Final = "bring come do get give go keep make need put take use"
_LIGHT_VERBS: Final = frozenset(map(find_stem, _LIGHT_WORDS.split()))


def is_light_verb(stem: str) -> bool:
    """Whether a word is a verb that says little without its object, such as "take"."""
    return stem in _LIGHT_VERBS


def find_related(stem: str) -> frozenset[str]:
    """Return the stems of words that may stand for this one: other words, and those made from it.

    >>> "directori" in find_related("folder"), "review" in find_related("reviewer")
    (True, True)
    """
    related = _RELATED_STEMS.get(stem, frozenset())
    if len(stem) < _LEAST_MAKING or not stem.isascii():
        return related
    made = [stem + ending for ending in _MAKING]
    made += [base for one in _MAKING if len(base := stem.removesuffix(one)) >= _LEAST_MAKING]
    return related.union(made) - {stem}
