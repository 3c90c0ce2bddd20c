"""The exception classes, named as Siddhi names them.

    NadiError
     ├─ SiddhiParserException                 the text is not SiddhiQL
     ├─ SiddhiAppValidationException          the text is SiddhiQL, and contradicts itself
     │   └─ SiddhiAppCreationException        no app can be made of it
     │       ├─ AttributeNotExistException
     │       ├─ DuplicateAnnotationException
     │       ├─ DuplicateAttributeException
     │       ├─ DuplicateDefinitionException
     │       ├─ DefinitionNotExistException
     │       ├─ ExtensionNotFoundException
     │       ├─ OperationNotSupportedException
     │       ├─ StoreQueryCreationException
     │       │   └─ OnDemandQueryCreationException
     │       ├─ QueryNotExistException
     │       ├─ CannotLoadConfigurationException
     │       └─ NoPersistenceStoreException
     └─ SiddhiAppRuntimeException             an app that runs met something it cannot handle
         ├─ ClassCastException
         ├─ OnDemandQueryRuntimeException
         ├─ ConnectionUnavailableException    a source, sink or store cannot reach its other side
         ├─ MappingFailedException            a message cannot be decoded or encoded
         ├─ CannotRestoreSiddhiAppStateException
         └─ PersistenceStoreException

Do not raise these by hand: `nadi.errors.error("CONDITION", …)` makes them from the catalogue.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nadi.errors.diagnostics import Diagnostic


class NadiError(Exception):
    """Base of every error that nadi raises on purpose.

    `condition` is the name in the catalogue, `parameters` what its template was filled with, `diagnostic` the
    same with the place in the text (line, column, excerpt) where there is one.
    """

    def __init__(self, diagnostic: Diagnostic, parameters: dict[str, object]) -> None:
        super().__init__(diagnostic.render())
        self.diagnostic = diagnostic
        self.condition = diagnostic.condition
        self.parameters = parameters

    @property
    def siddhi_class(self) -> str:
        """The simple name of the Java exception class that Siddhi raises here."""
        return type(self).__name__

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (self.diagnostic, self.parameters))


class SiddhiParserException(NadiError):
    """The text is not SiddhiQL."""


class SiddhiAppValidationException(NadiError):
    """The text is SiddhiQL, and contradicts itself."""


class SiddhiAppCreationException(SiddhiAppValidationException):
    """No app can be made of the text."""


class AttributeNotExistException(SiddhiAppCreationException):
    """A name is not an attribute of what it refers to."""


class DuplicateAnnotationException(SiddhiAppCreationException):
    """An annotation that may be given once is given twice."""


class DuplicateAttributeException(SiddhiAppCreationException):
    """An attribute name is used twice."""


class DuplicateDefinitionException(SiddhiAppCreationException):
    """Two definitions of one name do not agree."""


class DefinitionNotExistException(SiddhiAppCreationException):
    """A stream, table or window is not defined."""


class ExtensionNotFoundException(SiddhiAppCreationException):
    """A function, window, source, sink or mapper does not exist."""


class OperationNotSupportedException(SiddhiAppCreationException):
    """The element exists and cannot do what is asked of it."""


class StoreQueryCreationException(SiddhiAppCreationException):
    """The 4.x name of the next one."""


class OnDemandQueryCreationException(StoreQueryCreationException):
    """An on-demand query cannot be made."""


class QueryNotExistException(SiddhiAppCreationException):
    """No query of this name can be listened to."""


class CannotLoadConfigurationException(SiddhiAppCreationException):
    """A configuration value is missing or malformed."""


class NoPersistenceStoreException(SiddhiAppCreationException):
    """State is to be kept, and no place to keep it is configured."""


class SiddhiAppRuntimeException(NadiError):
    """An app that runs met something that it cannot handle."""


class ClassCastException(SiddhiAppRuntimeException):
    """A value is not of the type that its place needs."""


class OnDemandQueryRuntimeException(SiddhiAppRuntimeException):
    """An on-demand query failed while it ran."""


class ConnectionUnavailableException(SiddhiAppRuntimeException):
    """A source, sink or store cannot reach its other side; trying again may help."""


class MappingFailedException(SiddhiAppRuntimeException):
    """A message cannot be decoded or encoded."""


class CannotRestoreSiddhiAppStateException(SiddhiAppRuntimeException):
    """Stored state cannot be put back."""


class PersistenceStoreException(SiddhiAppRuntimeException):
    """A place that keeps state failed."""
