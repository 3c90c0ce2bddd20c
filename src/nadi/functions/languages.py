"""The languages of script functions, by name in small letters; in an app, capitals do not matter."""

from __future__ import annotations

from nadi.functions.javascript import JavaScript
from nadi.functions.pythonscripts import Python

Language = JavaScript | Python

LANGUAGES: dict[str, Language] = {language.name: language for language in (JavaScript(), Python())}
