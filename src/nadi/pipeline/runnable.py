"""Whether an app can run: what `nadi run` asks of a text before it starts anything, and what `nadi check` tells of it.

Nothing is opened here, and no server is asked: what a server refuses is known when it is reached.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from importlib import import_module

from nadi.config.settings import KERNEL
from nadi.errors import NOWHERE, Diagnostic, NadiError, Span, placed
from nadi.functions.registry import default_registry
from nadi.io.reach import Reach
from nadi.io.registry import check_reach, examined
from nadi.io.stores.checks import beyond_reach
from nadi.kernel.columns.choosing import check_mode
from nadi.kernel.rows.stores import made_store, wrong_store_options
from nadi.lang import parse_collecting, settled_collecting
from nadi.lang.refs import Refs, expanded, places_of
from nadi.pipeline.apart import check_cluster
from nadi.pipeline.node import AppText, NodeOptions, needed_outputs
from nadi.pipeline.spec import Connectors, Engine
from nadi.plan import bind_as_far
from nadi.plan.nodes import App

Further = Callable[[App, AppText], object]
"""What else those ask who are to run an app. Errors: NadiError."""

KINDS = ("source", "sink")
BEYOND_REACH = (
    "PATH_NOT_ALLOWED",
    "FILE_NOT_ALLOWED",
    "DATABASE_NOT_ALLOWED",
    "HOST_NOT_ALLOWED",
    "CERTIFICATE_UNUSABLE",
    "KEY_STORE_OF_JAVA",
)


def runnable(
    text: AppText, engine: Engine, registry: Connectors, properties: Mapping[str, str], reach: Reach | None
) -> App:
    """The plan of an app that can run on a node whose kernels have these properties (`Settings.of_kernels`), and whose connectors may `reach` so much outside
    (None: nobody knows).

    Errors: those of the text, its connectors, its scripts and stores, with their places; NOT_SUPPORTED where columns are asked for and cannot be;
    those of BEYOND_REACH.
    """
    try:
        app = text.planned(engine)
        for kind in KINDS:
            for connector in registry.connectors(app, kind):
                if reach is not None:
                    check_reach(connector, kind, reach)
        check_mode(app, properties.get(KERNEL, "rows"))
        # columns have loops to compile
        engine.make_kernel(app, needed_outputs(app), 0, {**properties, KERNEL: "rows"})
        for refusal in () if reach is None else beyond_reach(app, reach):
            raise refusal
    except NadiError as problem:
        told = placed(problem, source=text.text, file=text.file)
        if told is problem:
            raise
        raise told from problem
    return app


def remarks(
    text: str,
    variables: Mapping[str, str],
    file: str = "",
    refs: Refs | None = None,
    options: NodeOptions | None = None,
    further: Further = lambda _app, _text: None,
) -> tuple[Diagnostic, ...]:
    """Errors and warnings of an app as its author wrote it, in the order of the text; no error exactly where it is `runnable` on a node with these options,
    and `further` has none.

    Where it cannot be read, its meaning is not looked at. What fails only because something else did is left out.
    """
    kept, connections, unset = settled_collecting(text, variables, file=file)
    _tree, unread = parse_collecting(kept, file=file, connections=connections)
    if unset or unread:
        return (*(e.diagnostic for e in unset), *unread)
    named, values = places_of(refs or {})
    written = expanded(kept, named)
    found = [placed(e, source=kept, file=file).diagnostic for e in written.errors]
    for diagnostic in _meaning(AppText(written.text, file, connections | values), options or NodeOptions(), further):
        if diagnostic.source == written.text:
            diagnostic = replace(diagnostic, span=written.back(diagnostic.span), source=kept)
        if not any(_within(diagnostic.span, annotation) for annotation in written.unknown):
            found.append(diagnostic)
    return tuple(sorted(found, key=lambda d: d.span))


def _within(span: Span, outer: Span) -> bool:
    return span != NOWHERE and outer.start <= span.start and span.end <= outer.end


def _meaning(text: AppText, options: NodeOptions, further: Further) -> tuple[Diagnostic, ...]:
    """What is to be said of a text that can be read: what keeps it from running, what would do so next, and warnings."""
    engine, registry = import_module(options.engine), import_module(options.connectors)
    try:
        app = runnable(text, engine, registry, options.settings().of_kernels(), options.reach())
        check_cluster(app, registry, options)
        warnings = tuple(replace(d, file=text.file) for d in app.warnings)
        return (*_further(app, text, further, ()), *warnings)
    except NadiError as problem:
        found = _collected(text, options.reach(), further)
        return found if problem.diagnostic in found else (problem.diagnostic, *found)


def _further(app: App, text: AppText, further: Further, known: Collection[Span]) -> Iterator[Diagnostic]:
    """What else is wrong, where that is not known by its place."""
    try:
        further(app, text)
    except NadiError as problem:
        told = placed(problem, source=text.text, file=text.file).diagnostic
        if told.span == NOWHERE or told.span not in known:
            yield told


def _collected(text: AppText, reach: Reach, further: Further) -> tuple[Diagnostic, ...]:
    tree, _unread = parse_collecting(text.text, file=text.file, connections=text.variables)
    app, wrong = bind_as_far(tree, default_registry(), text=text.text, file=text.file)
    known = {d.span for d in wrong}
    unbound = (e for e in _outside(app, reach) if e.diagnostic.span == NOWHERE or e.diagnostic.span not in known)
    outside = tuple(placed(e, source=text.text, file=text.file).diagnostic for e in unbound)
    more = () if wrong else tuple(_further(app, text, further, {d.span for d in outside}))
    return (*wrong, *outside, *more, *app.warnings)


def _outside(app: App, reach: Reach) -> Iterator[NadiError]:
    """What is wrong with what an app says of the world around it."""
    for kind in KINDS:
        connectors, faults = examined(app, kind)
        yield from faults
        for connector in connectors:
            try:
                check_reach(connector, kind, reach)
            except NadiError as problem:
                if problem.condition in BEYOND_REACH:  # what else is wrong with it was told
                    yield problem
    registry, wrong = default_registry(), set()
    for table in app.tables.values():
        unfit = list(wrong_store_options(table, registry))
        yield from unfit
        if table.storage is not None and not unfit:
            try:
                made_store(app.name, table, registry)
            except NadiError as problem:
                wrong.add(table.name)
                yield problem
    right = {name: table for name, table in app.tables.items() if name not in wrong}
    yield from beyond_reach(replace(app, tables=right), reach)
