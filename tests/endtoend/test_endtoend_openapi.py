"""Requests made from the OpenAPI documents of a running worker: whatever comes, no path answers 5xx but where its document says so, and the worker goes on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import schemathesis
from hypothesis import settings
from ordersworker import Worker, working
from schemathesis import Case
from schemathesis.schemas import BaseSchema

from tests.generate.budget import GENERATED

pytestmark = [pytest.mark.spark, pytest.mark.slow]
EXAMPLES = 20  # requests of each operation and run; the dice are others in each run
MANY = settings(GENERATED, max_examples=EXAMPLES, derandomize=False)


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    with working(tmp_path_factory.mktemp("worker")) as made:
        assert made.ask("POST", "/siddhi-apps", content=made.text()).status_code == 201
        made.node.until(lambda: made.active("Orders"))
        yield made
        assert made.is_ready(), made.node.said()
        assert "Traceback" not in made.node.said()


@pytest.fixture(scope="module")
def rest(worker: Worker) -> BaseSchema:
    return described(worker, "http")


@pytest.fixture(scope="module")
def queries(worker: Worker) -> BaseSchema:
    return described(worker, "query")


def described(worker: Worker, kind: str) -> BaseSchema:
    """What the document of a server describes."""
    return schemathesis.openapi.from_url(worker.url("/openapi.json", kind), auth=("admin", worker.password))


def sent(worker: Worker, case: Case) -> None:
    answer = case.call(auth=("admin", worker.password), timeout=60)
    declared = case.operation.definition.raw.get("responses", {})
    assert answer.status_code < 500 or str(answer.status_code) in declared, f"{case.method} {case.path}: {answer.text}"


@schemathesis.pytest.from_fixture("rest").parametrize()
@MANY
def test_no_request_to_a_rest_path_is_too_much_for_it(worker: Worker, case: Case):
    sent(worker, case)


@schemathesis.pytest.from_fixture("queries").parametrize()
@MANY
def test_no_request_to_a_path_of_on_demand_queries_is_too_much_for_it(worker: Worker, case: Case):
    sent(worker, case)
