"""The path of a newcomer in the page about simulated events: every command is run, in order, and prints what is shown."""

from __future__ import annotations

import json
import secrets
from pathlib import Path

import pytest
import yaml
from docpages import ROOT, blocks
from servers.ports import free_ports
from test_docs_worker import Shell, replaced, walk

from nadi.lang.tree import Type
from nadi.plan.nodes import Column, Schema
from nadi.server.simulation.chance import makers
from nadi.server.simulation.configuration import RandomSource, configuration_of
from nadi.server.simulation.people import PROPERTIES

PAGE = ROOT / "docs" / "operations" / "simulate.md"


@pytest.mark.spark
def test_the_way_from_zero_to_a_feed_is_as_it_is_shown(tmp_path: Path):
    rest, query = free_ports(2)
    home = f"home-{secrets.token_hex(4)}"
    ports = {
        "wso2.transport.http": {"listenerConfigurations": [{"id": "a", "port": rest}]},
        "siddhi.stores.query.api": {"listenerConfigurations": [{"id": "q", "port": query}]},
    }
    (tmp_path / "ports.yaml").write_text(yaml.safe_dump(ports))

    def changed(command: str) -> str:
        changes = {"--home nadi-home 2>": f"--home {home} --conf ports.yaml 2>", "nadi-home": home, "9090": str(rest)}
        command = replaced(command, changes)
        return (
            f"{command} --url http://127.0.0.1:{rest}" if command.startswith(("nadi simulate", "nadi app")) else command
        )

    shell = Shell(tmp_path)
    try:
        ran = walk(PAGE, shell, tmp_path, changed)
    finally:
        shell.run(f"pkill -INT -f 'nadi worker --home {home}'; wait")
        shell.close()
    assert ran >= 14
    assert "stopped" in (tmp_path / "worker.log").read_text()


def test_the_simulation_that_is_shown_is_one():
    (block,) = (b for b in blocks(PAGE) if b.kind == "json")
    wanted = configuration_of(json.dumps(json.loads(block.text)).encode())
    assert (wanted.interval, wanted.count, wanted.seed) == (10, 5_000, 7)
    (source,) = wanted.sources
    assert isinstance(source, RandomSource)
    schema = Schema((Column("name", Type.STRING), Column("amount", Type.LONG)))
    assert len(makers(source.attributes, schema, wanted.seed)) == 2


def test_all_properties_are_named():
    text = PAGE.read_text()
    assert [name for name in PROPERTIES if name not in text] == []
