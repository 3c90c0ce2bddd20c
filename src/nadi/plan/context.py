"""What binding knows at a moment: the catalog, the text, and everything that is defined so far."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from nadi.errors import NOWHERE, Diagnostic, NadiError, Span, diagnostic, did_you_mean, error
from nadi.lang.tree import Source, Type
from nadi.plan.catalog import Catalog
from nadi.plan.nodes import (
    Aggregation,
    Column,
    NamedWindow,
    Schema,
    Script,
    Stream,
    Table,
    Trigger,
)

TRIGGER_SCHEMA = Schema((Column("triggered_time", Type.LONG),))


@dataclass(slots=True)
class Context:
    """Definitions grow while statements are bound in the order of the text. `partition` is the id of the partition being bound.

    `unknown` holds the keys of streams whose producer could not be bound: what reads them is not reported again. `warnings` are about what
    is taken, and looks like a mistake.
    """

    catalog: Catalog
    text: str = ""
    file: str = ""
    compat: int = 5
    streams: dict[str, Stream] = field(default_factory=dict)
    tables: dict[str, Table] = field(default_factory=dict)
    windows: dict[str, NamedWindow] = field(default_factory=dict)
    triggers: dict[str, Trigger] = field(default_factory=dict)
    scripts: dict[str, Script] = field(default_factory=dict)
    aggregations: dict[str, Aggregation] = field(default_factory=dict)
    partition: str | None = None
    unknown: set[str] = field(default_factory=set)
    warnings: list[Diagnostic] = field(default_factory=list)

    def fail(self, condition: str, span: Span = NOWHERE, /, **parameters: object) -> NadiError:
        """The exception for a condition at a place of this text."""
        return error(condition, span, self.text, self.file, **parameters)

    def warn(self, condition: str, span: Span, /, **parameters: object) -> None:
        """Note a condition at a place of this text that keeps nothing from running."""
        self.warnings.append(replace(diagnostic(condition, span, self.text, self.file, **parameters), warning=True))

    def follows(self, problem: NadiError) -> bool:
        """Whether an error only says that there is no such name, where one of that name could not be bound."""
        missing = problem.condition in ("STREAM_NOT_DEFINED", "TABLE_NOT_DEFINED")
        return missing and problem.parameters.get("name") in self.unknown

    def key(self, source: Source) -> str:
        """The key of the stream that a source names, whether it exists or not."""
        if source.inner:
            return f"#{source.name}@{self.partition}"
        return f"!{source.name}" if source.fault else source.name

    def readable(self) -> Iterable[str]:
        """The names that may stand after `from` here."""
        inner = (f"#{s.name}" for s in self.streams.values() if s.partition and s.partition == self.partition)
        return [*(k for k, s in self.streams.items() if not s.partition), *self.windows, *inner]

    def taken(self, name: str) -> str:
        """What a name is defined as, in words; empty where it is free."""
        kinds: tuple[tuple[str, dict[str, Schema]], ...] = (
            ("trigger", dict.fromkeys(self.triggers, TRIGGER_SCHEMA)),
            ("stream", {k: s.schema for k, s in self.streams.items()}),
            ("table", {k: t.schema for k, t in self.tables.items()}),
            ("window", {k: w.schema for k, w in self.windows.items()}),
            ("aggregation", {k: a.schema for k, a in self.aggregations.items()}),
        )
        return next((f"the {kind} {described(known[name])}" for kind, known in kinds if name in known), "")

    def schema_of(self, source: Source) -> Schema:
        """The schema of a stream or named window that is read.

        Raises:
            STREAM_NOT_DEFINED: there is none (yet), or it is a table or aggregation, which cannot be read so.
        """
        key = self.key(source)
        if source.inner and self.partition is None:
            raise self.fail(
                "INVALID_QUERY", source.span, reason=f"the inner stream '{source}' exists only in a partition"
            )
        if key in self.streams:
            return self.streams[key].schema
        if key in self.windows:
            return self.windows[key].schema
        if key in self.tables or key in self.aggregations:
            kind = "table" if key in self.tables else "aggregation"
            hint = f"it is {'a' if kind == 'table' else 'an'} {kind}: join a stream with it"
            raise self.fail("STREAM_NOT_DEFINED", source.span, name=f"stream {source}", hint=hint)
        raise self.fail("STREAM_NOT_DEFINED", source.span, name=str(source), hint=self._hint(source))

    def _hint(self, source: Source) -> str:
        if source.fault and source.name in self.streams:
            return f"give the stream '{source.name}' the annotation @OnError(action='STREAM')"
        return did_you_mean(str(source), self.readable())


def described(schema: Schema) -> str:
    """A schema as it is written in a definition.

    >>> described(Schema((Column("a", Type.INT), Column("b", Type.STRING))))
    '(a int, b string)'
    """
    return "(" + ", ".join(f"{c.name} {c.type}" for c in schema.columns) + ")"
