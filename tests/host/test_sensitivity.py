# SPDX-License-Identifier: GPL-2.0
"""Which comparisons depend on the costs of a simulated machine.

Seen failing: with variants that keep what the one before has changed, and with ratios turned
upside down.
"""

from wqlab.ground.places import ROOT
from wqlab.measure.sim.machine import find_machine
from wqlab.measure.sim.sensitivity import conclusions, lines, variants
from wqlab.results.file import load
from wqlab.results.model import SCHEMA, Boot, Count, Kernel, Results

MACHINE = find_machine("grace-72")


def test_variants() -> None:
    """One cost at a time."""
    found = variants(MACHINE, ["insn", "wake"])
    assert list(found) == ["as it is", "insn x 0.5", "insn x 2", "wake x 0.5", "wake x 2"]
    assert found["as it is"] == MACHINE
    costs = found["wake x 2"].costs
    assert costs == MACHINE.costs | {"wake": 2 * MACHINE.costs["wake"]}


def test_conclusions() -> None:
    found = conclusions(["stock", "patched"], ["cpu", "cache"])
    assert (("patched", "cache"), ("stock", "cache")) in found
    assert (("patched", "cpu"), ("patched", "cache")) in found
    assert len(found) == 4


def boot(machine: str, kernel: Kernel, rates: dict[str, float]) -> Boot:
    return Boot(
        machine=machine,
        kernel=kernel.id,
        section="sim",
        flavour="bench",
        scenario="one-llc-72",
        append="",
        runs=[],
        number=1,
        seconds=None,
        verdict="pass",
        reason="",
        counts=[
            Count({"scope": scope}, {"steady_items_per_sec": rate}) for scope, rate in rates.items()
        ],
    )


def test_lines() -> None:
    """Stock has no shards; what changes the order is named."""
    stock, patched = (
        Kernel(f"id-{name}", name, "6.12", "6.12", None) for name in ("stock", "patched")
    )
    boots = [
        boot("a", stock, {"cache": 100}),
        boot("a", patched, {"cache": 120, "cache_shard": 300}),
        boot("b", stock, {"cache": 100}),
        boot("b", patched, {"cache": 90, "cache_shard": 360}),
    ]
    found = Results(SCHEMA, [], [], [stock, patched], boots)
    text = lines(found, {"as it is": "a", "wake x 2": "b"}, ["cache_shard", "cache"])
    words = [line.split() for line in text[1:]]
    assert (
        " ".join(words[0]) == "cache: patched/stock 1.20 0.90 (wake x 2) 1.20 (as it is) wake x 2"
    )
    assert " ".join(words[1]).startswith("patched: cache_shard/cache 2.50 2.50 (as it is) 4.00")
    assert words[1][-1] == "-" and len(words) == 2


def test_documentation_has_the_table() -> None:
    """docs/measuring.md has what `sim --vary` printed of results/sim-sensitivity.json."""
    found = load(ROOT / "results/sim-sensitivity.json")
    ids = {machine.emulation: machine.id for machine in found.machines}
    costs = found.made[0].command.split("--vary ")[1].split(",")
    hosts = {
        name: ids[f"simulated {machine.name} ({machine.says})"]
        for name, machine in variants(MACHINE, costs).items()
    }
    said = lines(found, hosts, ["cpu", "cache_shard", "cache"])
    assert "".join(f"    {line}\n" for line in said) in (ROOT / "docs/measuring.md").read_text()
