"""Java classes of some lines, compiled in the JVM when it starts: nothing has to be built or shipped.

Janino does it, the compiler that Spark brings for the code it generates.
"""

from __future__ import annotations

from typing import Any


def compiled(jvm: Any, name: str, source: str) -> Any:
    """The class of a source, loaded. Name the types it uses by imports: Janino looks a name with dots up in each archive, once for each way to read it."""
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(jvm.java.lang.Thread.currentThread().getContextClassLoader())
    compiler.cook(source)
    return compiler.getClassLoader().loadClass(name)


def replace_field(owner: Any, of: Any, name: str, value: Any) -> None:
    """Set a private field that the class `owner` declares, of an object (None: of the class)."""
    field = owner.getDeclaredField(name)
    field.setAccessible(True)
    field.set(of, value)


def field_of(owner: Any, of: Any, name: str) -> Any:
    """The value of a private field."""
    field = owner.getDeclaredField(name)
    field.setAccessible(True)
    return field.get(of)
