#!/usr/bin/env python3
"""Proves cudasnoop on this machine's GPU: what it says, beside what others say of the same calls.

Needs root, an NVIDIA driver and PyTorch; nvcc is used where it is there. Writes to --out:
validation.md (the table), validation.json (the same), artefacts.tar.gz (what it was read from).
"""

import argparse
import json
import sys
import tarfile
import tempfile
import traceback
from pathlib import Path

from checks import (
    allocations, attach, children, copies, count, families, findings, graph, held, launches, native, oom, overhead,
    snapshot, torch_memory, twogpus, vllm, vllm_sleep, vllm_speed,
)
from gpu_check import machine, process
from gpu_check.bench import FOLDER, Bench, OutOfTime

SCENARIOS = {
    "launches": launches.check,
    "cublas": launches.check,
    "compiled": launches.check,
    "fft": launches.check,
    "fft_plans": launches.check_reused,
    "graph": graph.check,
    "allocations": allocations.check,
    "held": held.check,
    "copies": copies.check,
    "families": families.check,
    "findings": findings.check,
    "findings_failing": findings.check_failing,
    "torch_memory": torch_memory.check,
    "torch_memory_expandable": torch_memory.check_expandable,
    "snapshot": snapshot.check,
    "snapshot_expandable": snapshot.check_expandable,
    "oom": oom.check,
    "native": native.check,
    "count": count.check,
    "attach": attach.check,
    "attached_names": attach.check_names,
    "children": children.check,
    "overhead": overhead.check,
    "twogpus": twogpus.check,
    "vllm": vllm.check,
    "vllm_sleep": vllm_sleep.check,
    "vllm_speed_graphs": vllm_speed.check_graphs,
    "vllm_speed_eager": vllm_speed.check_eager,
    "vllm_speed_exact": vllm_speed.check_exact,
}


def options():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--out", type=Path, default=Path("gpu-check-results"), help="folder for the results")
    parser.add_argument("--vllm", type=Path, metavar="SITE", help="a folder with vLLM's packages: records an engine too")
    parser.add_argument("--only", nargs="+", choices=SCENARIOS, metavar="SCENARIO", help=f"some of: {', '.join(SCENARIOS)}")
    parser.add_argument("--seconds", type=float, default=450, help="time for all scenarios together (%(default)s)")
    parser.add_argument("--keep", action="store_true", help="keep the recordings, in OUT/recordings")
    parser.add_argument("--cudasnoop", type=Path, default=FOLDER / "cudasnoop", help="the program to prove")
    return parser.parse_args()


def run(bench, scenarios):
    """Runs the scenarios, one after the other. What goes wrong in one is a row of its own."""
    for name in scenarios:
        print(f"{name} ...", file=sys.stderr, flush=True)
        before = len(bench.table.rows)
        try:
            SCENARIOS[name](bench, name)
        except (process.CommandFailed, OutOfTime) as error:
            bench.table.failed(name, "", str(error))
        except Exception as error:  # One scenario must not take the others with it.
            bench.keep(f"{name}-error.txt", traceback.format_exc())
            bench.table.failed(name, "", f"{type(error).__name__}: {error}")
        for row in bench.table.rows[before:]:
            print(f"  {row.equal:8} {row.claim}", file=sys.stderr, flush=True)


def document(facts, version, table):
    """validation.md."""
    head = "\n".join(f"- {key}: {value}" for key, value in {"cudasnoop": version, **facts}.items())
    return (
        f"# cudasnoop on a GPU\n\n{head}\n\nResult: {table.summary()}.\n\n"
        "`equal`: yes and no compare cudasnoop with the truth; - is information. An unequal row "
        "stays here with its cause.\n\n" + table.markdown()
    )


def main():
    chosen = options()
    chosen.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="gpu-check-") as folder:
        work = chosen.out / "recordings" if chosen.keep else Path(folder)
        bench = Bench(
            chosen.cudasnoop.resolve(), work.resolve(), seconds=chosen.seconds,
            keep_recordings=chosen.keep, vllm=chosen.vllm and chosen.vllm.resolve(),
        )
        version = process.run([bench.program, "--version"], 30).check().stdout.strip()
        if (FOLDER / "COMMIT").exists():
            version += f" ({(FOLDER / 'COMMIT').read_text(encoding='utf-8').strip()})"
        facts = machine.describe()
        run(bench, chosen.only or SCENARIOS)
        text = document(facts, version, bench.table)
        (chosen.out / "validation.md").write_text(text, encoding="utf-8")
        rows = {"cudasnoop": version, "machine": facts, "rows": bench.table.json()}
        (chosen.out / "validation.json").write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
        with tarfile.open(chosen.out / "artefacts.tar.gz", "w:gz") as archive:
            archive.add(bench.artefacts, "artefacts")
    print(text)
    return 0 if bench.table.passed() else 1


if __name__ == "__main__":
    sys.exit(main())
