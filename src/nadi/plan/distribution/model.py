"""What an app becomes when it is cut: groups, the channels between them, and the instances that run."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

KEY_GROUPS = 128


class Strategy(Enum):
    """How the instances of a group share a stream: each gets all of it, each event goes to one of them, or its key says to which. `told` says it to people."""

    told: str

    ALL = "ALL", "all of it in each instance"
    ROUND_ROBIN = "ROUND_ROBIN", "by turns"
    FIELD_GROUPING = "FIELD_GROUPING", "by key"

    def __new__(cls, value: str, told: str) -> Strategy:
        """The value is the name that partial apps have.

        >>> Strategy("ROUND_ROBIN").told
        'by turns'
        """
        made = object.__new__(cls)
        made._value_ = value
        made.told = told
        return made


def instance_name(group: str, number: int) -> str:
    """The name of a partial app, `number` from 1.

    >>> instance_name("A-g", 2)
    'A-g-2'
    """
    return f"{group}-{number}"


class Placement(Enum):
    """What runs the `parallel` parts of a group: as many instances of it, each on a worker; or the buckets of one instance, which a Spark cluster runs as one
    query."""

    INSTANCES = "instances"
    SPARK = "spark"


class Holder(Enum):
    """What a group touches."""

    STREAM = "stream"
    TRIGGER = "trigger"
    TABLE = "table"
    IN_MEMORY_TABLE = "in-memory table"
    WINDOW = "window"
    AGGREGATION = "aggregation"


@dataclass(frozen=True, slots=True)
class Key:
    """What a stream is split by: its name in channels, and the expression over an event, as text."""

    label: str
    text: str


@dataclass(frozen=True, slots=True)
class Input:
    """What a group reads. `channel` is None where it is not a channel that brings it; then nothing of the rest counts.

    `read_as` is the stream's name in the partial app: another one where a group reads a stream by two keys. `producers` are the groups that fill the channel.
    """

    name: str
    holder: Holder = Holder.STREAM
    user_given: bool = False
    strategy: Strategy = Strategy.ALL
    key: Key | None = None
    channel: Channel | None = None
    read_as: str = ""
    producers: tuple[str, ...] = ()

    @property
    def offered(self) -> int:
        """Into how many parts the channel is divided."""
        return self.channel.partitions if self.channel is not None else 1


@dataclass(frozen=True, slots=True)
class Publishing:
    """For whom a stream is published: a strategy and the number of instances that it is divided among (for a key: the most of all groups)."""

    strategy: Strategy
    parallel: int
    key: Key | None = None


@dataclass(frozen=True, slots=True)
class Output:
    """What a group writes. `channels` are those that it fills; `user_given` whether a sink of the app hangs on it."""

    name: str
    holder: Holder = Holder.STREAM
    user_given: bool = False
    publishing: tuple[Publishing, ...] = ()
    channels: tuple[Channel, ...] = ()


@dataclass(frozen=True, slots=True)
class Channel:
    """A log between groups, or from outside the app (`outside`: in text format, with nobody in the app that fills it).

    `name` is the topic of Kafka, or the subject of NATS, which a keyed channel completes by `_<partition>`.
    """

    stream: str
    name: str
    transport: str
    key: Key | None = None
    partitions: int = 1
    outside: bool = False
    producers: tuple[str, ...] = ()
    consumers: tuple[str, ...] = ()

    @property
    def places(self) -> tuple[str, ...]:
        """The subjects, or the topic.

        >>> Channel("S", "A_S_k", "nats", Key("k", "k"), 2).places
        ('A_S_k_0', 'A_S_k_1')
        """
        if self.transport == "kafka" or self.key is None:
            return (self.name,)
        return tuple(f"{self.name}_{i}" for i in range(self.partitions))


@dataclass(frozen=True, slots=True)
class Instance:
    """A partial app: its name, the half-open range of key-groups that are its own, and its text."""

    name: str
    number: int
    key_groups: range
    text: str


@dataclass(frozen=True, slots=True)
class Group:
    """An execution group. `receiver`: it only takes events in from outside. `kind` is "user", "default", "passthrough", "aggregation" or "trigger".

    `elements` are the ids of its queries, partitions and aggregations, in the order of the text. `parallel` is in how many parts it runs; `buckets` how many
    of them each instance has (0: its node decides).
    """

    name: str
    parallel: int
    kind: str
    elements: tuple[str, ...]
    inputs: tuple[Input, ...]
    outputs: tuple[Output, ...]
    instances: tuple[Instance, ...] = ()
    buckets: int = 0

    @property
    def receiver(self) -> bool:
        return self.kind == "passthrough"

    def input(self, name: str) -> Input:
        """The first input of a name. Raises KeyError."""
        return {i.name: i for i in reversed(self.inputs)}[name]

    def output(self, name: str) -> Output:
        """The output of a name. Raises KeyError."""
        return {o.name: o for o in self.outputs}[name]


@dataclass(frozen=True, slots=True)
class Topology:
    """An app, cut: receiver groups first, then groups in the order of their first elements, those of aggregations last.

    `creates_channels` is False where the app says that its channels exist. `topics` are those that Kafka sources of the app read, where the channels are.
    `notes` are sentences on what one should know.
    """

    app: str
    transport: str
    groups: tuple[Group, ...]
    channels: tuple[Channel, ...]
    creates_channels: bool = True
    topics: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    placement: Placement = Placement.INSTANCES

    def group(self, name: str) -> Group:
        """The group of a name, with or without the app's name in front. Raises KeyError."""
        groups = {g.name: g for g in self.groups}
        return groups[name] if name in groups else groups[f"{self.app}-{name}"]

    @property
    def instances(self) -> tuple[Instance, ...]:
        return tuple(i for g in self.groups for i in g.instances)

    @property
    def every_name(self) -> frozenset[str]:
        """The names that its instances have wherever their groups run: as instances, or on a Spark cluster."""
        return frozenset(instance_name(g.name, n) for g in self.groups for n in range(1, g.parallel + 1))
