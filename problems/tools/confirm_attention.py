#!/usr/bin/env python3
"""Holds the attention problem's reference and seed against attention in float64, on a machine with a GPU.

    python3 problems/tools/confirm_attention.py --header 'kernelseek header' --out OUT [--stages f64,seed,…]

Draws its own inputs (`attention/inputs.py`), answers them in float64 straight from the definition (`attention/exact.py`, with
the derivation of the bound), and judges:

    f64        the reference, every row of every scenario, by a bound on what its arithmetic may be off by
    seed       the seed by the scenario's tolerance, `attention_forward_model` being the yardstick; what each call takes; that
               sampled calls answer as full ones do
    cpu64      the reference against the CPU problem's reference.c, lengths divided by 16
    twins      f64 and seed on the scenarios of each --twin FILE
    semantics  small cases with an expectation of their own (`attention/semantics.py`), reference and seed

OUT is written as it grows and keeps what other calls put there for stages that this one does not run. Ends with 1 if anything
misses. Needs torch and compilers; a side may be given as a built .so. No GPU is needed with `--device cpu --reference FILE.c
--seed FILE.c --divide 16`.
"""

import argparse
import datetime
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import torch

from attention import cpu, semantics
from attention.exact import blocks
from attention.inputs import Inputs, Outputs
from attention.judge import Bounded, Errors, Shape, sampled
from attention.library import Contract
from attention.scenario import Scenario, divided

PROBLEMS = pathlib.Path(__file__).resolve().parents[1]
STAGES = ["cpu64", "semantics", "f64", "seed", "twins"]
KEYS = (0x9E3779B97F4A7C15, 0xD1B54A32D192ED03)
TWIN_SECONDS = 20.0
# Multiply-adds a second of the exact attention, until it is known.
FIRST_GUESS = {"cuda": 5e12, "cpu": 2e9}


def short(value):
    """Four digits are enough; JSON knows no NaN."""
    if isinstance(value, dict):
        return {k: short(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [short(v) for v in value]
    if isinstance(value, float):
        return float(f"{value:.4g}") if math.isfinite(value) else str(value)
    return value


class Record:
    """What is known so far, in a file at any time."""

    LISTS = ("scenarios", "cpu64", "semantics", "twins")

    def __init__(self, path, facts, fresh):
        self.path, self.data, self.written = path, {}, 0.0
        if path and path.is_file():
            self.data = json.loads(path.read_text())
        self.data.update(facts)
        for name in self.LISTS:
            self.data[name] = [] if name in fresh else self.data.get(name, [])
        self.data.setdefault("totals", {})

    def add(self, name, row):
        self.data[name].append(short(row))
        if time.perf_counter() - self.written > 1.0:
            self.write()

    def write(self):
        self.written = time.perf_counter()
        if not self.path:
            return
        parts = []
        for name, value in self.data.items():
            lines = ",\n".join(json.dumps(row) for row in value) if name in self.LISTS else None
            parts.append(f"{json.dumps(name)}: " + (json.dumps(value) if lines is None else f"[\n{lines}\n]" if lines else "[]"))
        part = self.path.with_name(self.path.name + ".part")
        part.write_text("{\n" + ",\n".join(parts) + "\n}\n")
        os.replace(part, self.path)


class Budget:
    """Shares seconds out over scenarios by their work, with the speed seen so far."""

    def __init__(self, seconds, lines, by, device):
        self.seconds, self.left = seconds, sum(Scenario(divided(line, by)).work() for line in lines) if seconds else 0.0
        self.spent, self.done, self.guess = 0.0, 0.0, FIRST_GUESS[torch.device(device).type]

    def share(self):
        if not self.seconds:
            return 1.0
        speed = self.done / self.spent if self.spent > 0.5 else self.guess
        return min(1.0, max(0.0, self.seconds - self.spent) * speed / max(1.0, self.left))

    def took(self, work, share, seconds):
        self.left, self.done, self.spent = self.left - work, self.done + work * share, self.spent + seconds


def one(line, libraries, device, budget, stages):
    """Inputs, every answer, and the exact attention beside them, once for all that is asked of a scenario."""
    s = Scenario(line)
    inputs, shape = Inputs(s, device), Shape(s, device)
    reference, seed = libraries["reference"], libraries.get("seed") if "seed" in stages or "twins" in stages else None
    repeat = "twins" not in stages
    answers, times, wrong = {}, {}, []
    for name, library, suffix in (("reference", reference, ""), ("model", reference, "_model"), ("seed", seed, "")):
        if library is None or (name == "model" and seed is None):
            continue
        answers[name] = Outputs(s, device)
        times[name] = library.bind(inputs, answers[name]).timed(suffix, again=repeat)
        wrong += [f"{name}: {line}" for line in shape.complaints(answers[name])]
    row = {"id": s.id}
    if "seed" in stages:
        row["sampled"] = {}
        for name, suffix, keys in (("reference", "_sampled", KEYS), ("model", "_model_sampled", KEYS[:1])):
            if not reference.has(suffix):
                row["sampled"][name] = "not exported"
                continue
            shares, times[name + "_sampled"], missed = sampled(reference, inputs, answers[name], suffix, keys)
            row["sampled"][name] = shares
            wrong += missed

    start, share, checked = time.perf_counter(), budget.share(), 0
    of_reference = Bounded(answers["reference"], device)
    of_others = {name: Errors(answers[name], s, device) for name in ("model", "seed") if name in answers}
    for block in blocks(inputs, share):
        checked += block.last - block.first
        of_reference.add(block)
        for errors in of_others.values():
            errors.add(block)
    result = of_reference.result()
    seconds = time.perf_counter() - start
    rows = sum(s.q_used)
    budget.took(s.work(), checked / max(1, rows), seconds)
    row.update(result, rows=rows, rows_checked=checked)
    wrong += [f"reference: {line}" for line in Bounded.complaints(result)]
    if of_others:
        own, model = of_others["seed"].result(), of_others["model"].result()
        missed = Errors.complaints(own, model, s.tolerance())
        row["seed"] = {**own, "model": {k: model[k] for k in ("max", "mean", "rel_rms", "lse")}, "pass": not missed}
        wrong += [f"seed: {line}" for line in missed]
    row.update(ms=times, exact_seconds=seconds, wrong=wrong)
    return row


def grid(lines, libraries, options, seconds, stages, into, note=None):
    """All scenarios of a file; `into` takes the rows."""
    budget = Budget(seconds, lines, options.divide, options.device)
    for line in lines:
        try:
            row = one(divided(line, options.divide), libraries, options.device, budget, stages)
        except RuntimeError as error:
            row = {"id": line["id"], "wrong": [str(error).splitlines()[0]]}
        if note:
            row["file"] = note
        into(row)
        say(options, row)
        if any("CUDA error" in text for text in row["wrong"]):
            raise SystemExit(f"{row['id']}: {row['wrong'][-1]}: nothing more can be asked of the GPU")


def say(options, row):
    name = " ".join(str(row[k]) for k in ("id", "case", "of") if k in row)
    if row["wrong"]:
        print(f"{name}: MISSES: {'; '.join(row['wrong'])}"[:400], file=sys.stderr, flush=True)
    elif options.verbose:
        shown = {k: row[k] for k in ("ratio", "lse_ratio", "bound_used", "rel_rms", "exact_seconds", "cpu_seconds") if k in row}
        if "ms" in row:
            shown.update(row["ms"])
        print(name, *(f"{k} {v:.3g}" for k, v in shown.items()), file=sys.stderr, flush=True)


def lines_of(path, ids):
    lines = [json.loads(text) for text in path.read_text().splitlines() if text.strip()]
    return [line for line in lines if not ids or line["id"] in ids]


def facts(options):
    def said(*command):
        try:
            return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
        except (OSError, subprocess.CalledProcessError):
            return None
    found = {"command": " ".join(["python3 problems/tools/confirm_attention.py", *sys.argv[1:]]),
             "commit": options.commit or said("git", "-C", str(PROBLEMS), "rev-parse", "HEAD"), "gpu": None}
    if torch.device(options.device).type == "cuda":
        found["gpu"] = torch.cuda.get_device_name()
        found["driver"] = (said("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader") or "").split("\n")[0]
    found.update(cuda=torch.version.cuda, torch=torch.__version__, date=datetime.datetime.now(datetime.timezone.utc).isoformat()[:19])
    return found


def totals(record):
    """Sums and extremes over what is recorded."""
    found = {}
    for name in Record.LISTS:
        rows = record.data[name]
        if not rows:
            continue
        found[name] = {"rows": len(rows), "misses": sum(bool(row["wrong"]) for row in rows)}
        for key in ("ratio", "lse_ratio", "lse_error", "bound_used", "rel_rms", "rounded_otherwise"):
            values = [float(row[key]) for row in rows if key in row]
            if values:
                found[name][key] = math.nan if any(math.isnan(v) for v in values) else max(values)
        for key in sorted({key for row in rows for key in row.get("ms", {})}):
            found[name][key + "_ms"] = round(sum(row.get("ms", {}).get(key, 0.0) for row in rows), 1)
        for key in ("rows_checked", "exact_seconds", "cpu_seconds"):
            if any(key in row for row in rows):
                found[name][key] = round(sum(row.get(key, 0) for row in rows), 1)
        if name == "scenarios":
            found[name]["query_rows"] = sum(row.get("rows", 0) for row in rows)
    return short(found)


def table(record):
    """The summary on standard output."""
    for name, values in record.data["totals"].items():
        if name != "seconds":
            print(f"{name}: {values['rows'] - values['misses']} of {values['rows']} hold", *(
                f"  {key:<22} {value}" for key, value in values.items() if key not in ("rows", "misses")), sep="\n")
    missing = [(name, row) for name in Record.LISTS for row in record.data[name] if row["wrong"]]
    for name, row in missing[:40]:
        print(f"{name} {row.get('id') or row.get('case')} {row.get('of', '')}: {'; '.join(row['wrong'])}"[:300])
    return bool(missing)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--header", default="kernelseek header", help="command that prints a problem's header")
    parser.add_argument("--header-file", help="the header itself, instead")
    parser.add_argument("--problem", type=pathlib.Path, default=PROBLEMS / "cuda/attention_forward", help="the problem's folder")
    parser.add_argument("--reference", type=pathlib.Path, help="source or library [default: the problem's reference.cu]")
    parser.add_argument("--seed", type=pathlib.Path, help="source or library [default: the problem's seed.cu]")
    parser.add_argument("--oracle", type=pathlib.Path, default=PROBLEMS / "attention_forward/reference.c", help="of the stage cpu64")
    parser.add_argument("--scenarios", type=pathlib.Path, help="[default: the problem's hopper182.jsonl]")
    parser.add_argument("--ids", help="only these scenarios, separated by commas")
    parser.add_argument("--twin", type=pathlib.Path, action="append", default=[], help="held-out scenarios; may repeat")
    parser.add_argument("--stages", default=",".join(STAGES))
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--divide", type=int, default=1, help="divide all lengths by this and cut batches to 4")
    parser.add_argument("--reference64-budget", type=float, default=0.0, help="seconds for the exact attention [default: all rows]")
    parser.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 2) - 1), help="threads of the stage cpu64")
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--commit")
    parser.add_argument("-v", "--verbose", action="store_true")
    options = parser.parse_args()
    options.stages = options.stages.split(",")
    unknown = set(options.stages) - set(STAGES)
    if unknown:
        parser.error(f"no such stage: {', '.join(sorted(unknown))}; there are {', '.join(STAGES)}")
    options.reference = options.reference or options.problem / "reference.cu"
    options.seed = options.seed or options.problem / "seed.cu"
    options.scenarios = options.scenarios or options.problem / "hopper182.jsonl"
    return options


def main():
    options, begun = arguments(), time.perf_counter()
    stages, lines = options.stages, lines_of(options.scenarios, set(filter(None, (options.ids or "").split(","))))
    fresh = {"scenarios": {"f64", "seed"}, "cpu64": {"cpu64"}, "semantics": {"semantics"}, "twins": {"twins"}}
    record = Record(options.out, facts(options), [name for name, of in fresh.items() if of & set(stages)])
    with tempfile.TemporaryDirectory() as scratch:
        contract = Contract(options.problem, pathlib.Path(scratch), options.header, options.header_file)
        wanted = {"reference": options.reference}
        if {"seed", "semantics", "twins"} & set(stages):
            wanted["seed"] = options.seed
        if "cpu64" in stages:
            wanted["oracle"] = options.oracle
        building = {name: contract.compile(source, name) for name, source in wanted.items()}
        libraries, seconds = {"reference": contract.load(building["reference"])}, {"building": time.perf_counter() - begun}

        def stage(name, work):
            start = time.perf_counter()
            try:
                work()
            finally:
                seconds[name] = time.perf_counter() - start
                record.data["totals"] = {"seconds": short(seconds), **totals(record)}
                record.write()

        def take(name, rows):
            for row in rows:
                record.add(name, row)
                say(options, row)

        # The C reference runs on the processor's other cores meanwhile.
        against = []
        if "cpu64" in stages:
            stage("cpu64 begun", lambda: against.append(cpu.Against(
                lines, max(16, options.divide), libraries["reference"], contract.load(building["oracle"]), options.device, options.jobs)))
        try:
            if "seed" in building:
                stage("waiting for the seed", lambda: libraries.update(seed=contract.load(building["seed"])))
            if "semantics" in stages:
                stage("semantics", lambda: take("semantics", semantics.results(libraries, options.device)))
            if {"f64", "seed"} & set(stages):
                only = [name for name in stages if name in ("f64", "seed")]
                stage("scenarios", lambda: grid(lines, libraries, options, options.reference64_budget, only,
                                                lambda row: record.add("scenarios", row)))
            for twin in options.twin if "twins" in stages else []:
                stage(f"twin {twin.name}", lambda: grid(lines_of(twin, None), libraries, options, TWIN_SECONDS, ["twins"],
                                                        lambda row: record.add("twins", row), twin.name))
            for started in against:
                stage("cpu64", lambda: take("cpu64", started.results()))
        finally:
            for started in against:
                started.close()
    seconds["all"] = time.perf_counter() - begun
    record.data["totals"]["seconds"] = short(seconds)
    record.write()
    missed = table(record)
    print(f"{seconds['all']:.0f} s: {'something MISSES' if missed else 'everything holds'}")
    sys.stdout.flush()
    # Threads that are still in the C reference cannot be stopped otherwise.
    os._exit(1 if missed else 0)


if __name__ == "__main__":
    main()
