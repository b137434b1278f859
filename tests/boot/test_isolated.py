# SPDX-License-Identifier: GPL-2.0
"""CPUs that nohz_full= and cpuset partitions take from unbound workqueues: where strict workers are
confined to.

Seen failing: with nohz_full= taken for isolating CPUs on 7.3, and for not doing so on 6.12; and with
the CPUs of another partition.
"""

import pytest
from needs import DEBUG, Boot
from test_late import confined, pools

from wqlab.guests.scenario import SCOPES, find_scenario, parse_cpulist
from wqlab.guests.vm import Record

MACHINE, ISOLATED = "two-nodes-2x3x2", "2-3,7"
# Linux 7.1 took from nohz_full= that it narrows wq_unbound_cpumask.
NARROWED = ("6.12", "6.18")


def wanted(scope: str, isolated: str) -> list[str]:
    machine = find_scenario(MACHINE)
    cpus = frozenset(range(machine.cpus))
    return pools(machine, cpus, cpus, parse_cpulist(isolated) if isolated else frozenset(), scope)


@pytest.mark.needs(Boot(MACHINE, "isolate", DEBUG, append=f"nohz_full={ISOLATED}"))
@pytest.mark.parametrize("scope", SCOPES)
def test_nohz_full(record: Record, scope: str, pytestconfig: pytest.Config) -> None:
    narrowed = pytestconfig.option.base.name in NARROWED
    assert confined(record, scope) == [wanted(scope, ISOLATED if narrowed else "")]


@pytest.mark.needs(Boot(MACHINE, "isolate", DEBUG, append=f"isolate.cpus={ISOLATED}"))
@pytest.mark.parametrize("scope", SCOPES)
def test_partition(record: Record, scope: str) -> None:
    """While there is a partition, and before and after it."""
    whole = wanted(scope, "")
    assert confined(record, scope) == [whole, wanted(scope, ISOLATED), whole]
