"""What one should know of the sources and sinks of an app that a cluster runs: instances go to other workers, and one that was replaced may wake up late."""

from __future__ import annotations

from nadi.io.registry import sink_traits, source_traits
from nadi.lang import tree


def notes_on_moves(app: tree.SiddhiApp) -> tuple[str, ...]:
    """A sentence for each source and sink of which another worker does not find all, or whose target does not refuse a run that was replaced."""
    notes = []
    for definition in app.definitions:
        if not isinstance(definition, tree.StreamDefinition | tree.TriggerDefinition):
            continue
        key = definition.source.name if isinstance(definition, tree.StreamDefinition) else definition.name
        for annotation in definition.annotations:
            what, type_ = annotation.name.lower(), (annotation.get("type") or "").lower()
            traits = source_traits(type_) if what == "source" else sink_traits(type_) if what == "sink" else None
            if traits is not None and traits.moved:
                notes.append(f"the {type_} {what} of {key} {traits.moved}")
    return tuple(dict.fromkeys(notes))
