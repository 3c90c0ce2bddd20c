"""What planning and the pipeline must know of a type of source or sink beside its options: each type says all of it, and no other module keeps names of types.

Every field of `SourceTraits` and `SinkTraits` must be given: what is forgotten is an error where the type is declared. The types stand far above the plan
(`nadi.io.registry`); it is handed a `ConnectorCatalog`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import Protocol

from nadi.lang.tree import Annotation


class Divided(Enum):
    """How several instances of a group share a source."""

    WHOLE = auto()  # not at all: one of them reads all of it
    SHARES = auto()  # each reads a share of the log, as the option `share` says
    SENT = auto()  # events are sent to them, and each gets different ones by itself


@dataclass(frozen=True, slots=True)
class ListensAt:
    """The option that says at which URL a source listens, and that URL where it is left out, with `{app}` and `{stream}`.

    >>> ListensAt("receiver.url", "http://127.0.0.1:9763/{app}/{stream}").at("Prices", "Ticks")
    'http://127.0.0.1:9763/Prices/Ticks'
    """

    option: str
    url: str

    def at(self, app: str, stream: str) -> str:
        """The URL where the option is left out."""
        return self.url.format(app=app, stream=stream)


@dataclass(frozen=True, slots=True)
class Topics:
    """The options that name topics of Kafka, with commas between them; of several the first that is given counts. `where` is an option and what it has to say
    for the names to be those of topics (None: they always are)."""

    options: tuple[str, ...]
    where: tuple[str, str] | None = None

    def named(self, connector: Annotation) -> str:
        """The topics that a source or sink names, as it does; "" where it names none.

        >>> from nadi.lang.tree import Element
        >>> Topics(("topic.list", "topic")).named(Annotation("source", (Element("topic", "a, b"),)))
        'a, b'
        """
        if self.where is not None and connector.get(self.where[0]) != self.where[1]:
            return ""
        return next((names for option in self.options if (names := connector.get(option))), "")


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceTraits:
    """What the plan and the pipeline ask of a type of source.

    `endless`: more may always come; else its log says when nothing will (`Log.finished`). `divided`: how instances of a group share it. `centres`: several
    data centres bring the same messages, in orders of their own. `owned`: what it holds belongs to the app alone, so that the app has to take all of it
    before it ends. `listens`: where it listens, None where events are not sent to it. `journal`: it needs the node's journal. `parted`: its log can be
    entered anywhere at no cost, so that several hosts may read parts of a long stretch side by side. `local`: it needs files that all who read it share.
    `header`: its messages may begin with a line of names. `topics`: which topics of Kafka it reads, None where it reads none. `moved`: what one should know
    where another node goes on with the app, as a sentence that begins with the source ("": nothing).
    """

    endless: bool
    divided: Divided
    centres: bool
    owned: bool
    listens: ListensAt | None
    journal: bool
    parted: bool
    local: bool
    header: bool
    topics: Topics | None
    moved: str


class Guarantee(Enum):
    """How often a row arrives, whatever crashes."""

    EXACTLY_ONCE = "exactly once"
    AT_LEAST_ONCE = "at least once, with numbers"


EXACTLY_ONCE = Guarantee.EXACTLY_ONCE
AT_LEAST_ONCE = Guarantee.AT_LEAST_ONCE


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkTraits:
    """What the plan and the pipeline ask of a type of sink.

    `guarantee`, and `why` it can be given, or what a receiver can do with repeated rows. `refuses`: what the target refuses for ever, so that `on.error` says
    what becomes of it ("": nothing). `announces`: it tells its readers how far the app has come (`nadi.io.contract.Announcing`). `journal`, `local`, `header`
    and `topics` as of a source. `moved` as of a source; it also says what a run can still do that was replaced, where the target does not refuse it. `alone`:
    the options whose value one instance alone can have, each with what would become of several.
    """

    guarantee: Guarantee
    why: str
    refuses: str
    announces: bool
    journal: bool
    local: bool
    header: bool
    topics: Topics | None
    moved: str
    alone: tuple[tuple[str, str], ...]


class ConnectorCatalog(Protocol):
    """Look-up by type, in lower case; None where there is no such type. Errors: CLIENT_MISSING."""

    def source_traits(self, name: str, /) -> SourceTraits | None: ...
    def sink_traits(self, name: str, /) -> SinkTraits | None: ...


@dataclass(frozen=True, slots=True)
class Shown:
    """What an @source or @sink says, for people: the type of its mapper, its options, and those of which the default counts. No value is secret."""

    mapper: str
    options: tuple[tuple[str, str], ...]
    defaults: tuple[tuple[str, str], ...]


class ConnectorDescriptions(ConnectorCatalog, Protocol):
    """A catalogue that knows options, too."""

    def shown(self, kind: str, connector: Annotation, /) -> Shown:
        """What an annotation of a kind ("source" or "sink") says."""
        ...
