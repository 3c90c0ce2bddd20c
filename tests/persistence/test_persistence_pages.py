"""All apps that the documentation shows: a restore into the same text changes nothing, and the plan knows whatever their kernels keep."""

from __future__ import annotations

import pytest

from nadi.errors import NadiError
from nadi.kernel.rows.engine import RowsKernel
from nadi.plan import plan_app, plan_restore, stateful
from nadi.plan.nodes import App
from tests.docs.docpages import of_kind
from tests.persistence.restorerig import REGISTRY


def _apps() -> list[App]:
    """Those that are whole apps."""
    found = []
    for block in of_kind("sql"):
        try:
            found.append(plan_app(block.text, REGISTRY))
        except NadiError:
            continue
    return found


APPS = _apps()


def test_there_are_apps_with_every_kind_of_state():
    kinds = {e.kind for app in APPS for e in stateful(app)}
    assert kinds == {*("rate", "selector", "function", "trigger", "table", "aggregation", "keys", "window", "pattern")}


def test_a_restore_into_the_same_text_changes_nothing():
    plans = [plan_restore(app, app, REGISTRY) for app in APPS]
    assert [f for plan in plans for f in plan.fates if f.fate != "kept"] == []
    assert all(plan.unchanged for plan in plans)


def test_the_plan_knows_whatever_the_kernel_keeps():
    unknown = []
    for app in APPS:
        try:
            kernel = RowsKernel(app, REGISTRY)
        except NadiError:  # what the page says that it needs is not there
            continue
        ids = {e.id for e in stateful(app)}
        for element in kernel.size():
            head = element
            while head and head not in ids:
                head = head.rpartition("/")[0]
            if not head and not element.startswith("app/"):
                unknown.append((app.name, element))
    assert unknown == []


@pytest.mark.parametrize("text", ["@app:name('Other') ", "/* a comment */ "])
def test_what_does_not_shape_state_does_not_matter(text):
    for app in APPS:
        try:
            other = plan_app(text + app.text, REGISTRY)
        except NadiError:
            continue
        assert {f.fate for f in plan_restore(app, other, REGISTRY).fates} <= {"kept"}
