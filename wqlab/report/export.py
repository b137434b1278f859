# SPDX-License-Identifier: GPL-2.0
"""The figures of all boots that passed, for other programs: as CSV."""

import csv
from collections.abc import Iterator
from typing import TextIO

from wqlab.results.metrics import FIGURES, METRICS, instructions, value
from wqlab.results.model import Boot, Number, Results, Run
from wqlab.results.module import words

Labels = dict[str, str | int]
Line = tuple[Boot, Run, Labels, dict[str, Number]]  # figures of a boot that have the same labels


def lines(results: Results) -> Iterator[Line]:
    """Each set of figures of the boots that passed."""
    for boot in results.boots:  # those that did not pass have no figures
        for count in boot.counts:
            scope = count.labels.get("scope")  # where each run has one, it tells runs apart
            its = [run for run in boot.runs if run.get("scopes", [None]) == [scope]]
            run = count.run or (its[0] if len(its) == 1 else {})
            yield boot, run, count.labels, count.figures
        for run, row in boot.by_run():
            if row.missing:
                continue
            labels: Labels = {"mode": row.mode, "scope": row.scope}
            if boot.size is not None:
                labels["size"] = boot.size
            known = {key: value(row, key) for key in METRICS}
            figures = {key: figure for key, figure in known.items() if figure is not None}
            yield boot, run, labels, figures
        for scope in dict.fromkeys(row.scope for row in boot.rows):
            if boot.section == "icount" and (each := instructions(boot, scope)) is not None:
                labels = {"mode": "serial", "scope": scope}
                yield boot, {}, labels, {"instructions": each}


def kernel_name(results: Results, boot: Boot) -> str:
    """Its name, or its id where the name is not the only one."""
    kernel = results.kernel(boot.kernel)
    names = [other.name for other in results.kernels]
    return kernel.name if names.count(kernel.name) == 1 else kernel.id


def write_csv(results: Results, out: TextIO) -> None:
    """A row for each figure, with its unit and all that tells it from others."""
    found = list(lines(results))
    labels = list(dict.fromkeys(key for _, _, its, _ in found for key in its))
    head = ["kernel", "release", "machine", "cpu_model", "emulation", "section", "flavour"]
    head += ["scenario", "append", "boot", "run", *labels, "figure", "unit", "value"]
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(head)
    for boot, run, its, figures in found:
        machine = results.machine(boot.machine)
        about: list[str | int | None] = [kernel_name(results, boot)]
        about += [results.kernel(boot.kernel).release, machine.id, machine.cpu_model]
        about += [machine.emulation, boot.section, boot.flavour, boot.scenario, boot.append]
        about += [boot.number, words(run)]
        about += [its.get(label) for label in labels]
        for key, figure in figures.items():
            writer.writerow([*about, key, (METRICS | FIGURES)[key].unit, figure])
