"""Confirms the evaluator's ratios with Nsight Compute: `python3 problems/tools/confirm_gpu.py KERNELSEEK OUT [PROBLEM …]`.

For each CUDA problem: evaluates improved.cu, which must PASS. Takes the scenario with the longest calls, from the set `huge`
where there is one: a profiler begins with an empty cache, an evaluation with what the call before has left to be written back.
Evaluates it once more in a copy of the problem without stress contents: a profile has one nominal content, and some kernels
take longer on others (softmax's seed divides, and a division of tiny numbers is a slow one). Profiles the seed and the
candidate on it (durations only, clocks left alone, the median of several calls) and writes both ratios side by side as JSON.

OUT is written after each problem, and what it holds of other problems stays. With KS_COMMIT set, each says its commit. Ends
with 1 if a verdict is not PASS, or the two ratios differ by more than 3 %. Needs ncu and the standard library.
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1] / "cuda"
PROBLEMS = ["softmax", "layernorm", "gemm", "reduce"]
ALLOWED = 0.03
LEAST_NS = 50_000
HUGE = "huge"


def run(*command):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, command))}: exit code {done.returncode}\n{done.stderr.strip()}")
    return json.loads(done.stdout)


def longest(scenarios):
    """The scenario whose faster side takes longest."""
    timed = [s for s in scenarios if s.get("ratio") and s.get("seed_ns") and s.get("candidate_ns")]
    return max(timed, key=lambda s: min(s["seed_ns"], s["candidate_ns"]))


def without_stress(folder, copy):
    """A copy of a problem whose inputs are drawn from their generators and nothing else."""
    shutil.copytree(folder, copy)
    file = copy / "problem.toml"
    head, *tensors = re.split(r"(?m)^(?=\[)", file.read_text())
    for index, section in enumerate(tensors):
        if section.startswith("[[tensor]]") and "generator" in section:
            section = re.sub(r"(?m)^stress *=.*\n", "", section)
            tensors[index] = section.replace("[[tensor]]\n", "[[tensor]]\nstress = []\n", 1)
    file.write_text(head + "".join(tensors))
    return copy


def duration(kernelseek, source, scenario, work):
    """Nanoseconds of all kernels of one call by ncu, and how many kernels that are."""
    said = run(kernelseek, "profile", source, "-s", scenario, "--set", "duration", "-o", work, "--json")
    launches = said["profile"]["launches"]
    if not launches or any(not launch["duration_ns"] for launch in launches):
        raise RuntimeError(f"{source}: ncu names no duration of some kernel")
    return sum(launch["duration_ns"] for launch in launches), len(launches)


def one(kernelseek, problem, work):
    folder = ROOT / problem
    verdict = run(kernelseek, "eval", folder / "improved.cu", "--json", "-q")
    options = ["--set", HUGE] if (folder / f"{HUGE}.jsonl").is_file() else []
    if not options:
        options = ["--scenario", longest(verdict["scenarios"])["id"]]
    nominal = without_stress(folder, pathlib.Path(work) / problem)
    scenario = longest(run(kernelseek, "eval", nominal / "improved.cu", *options, "--json", "-q")["scenarios"])
    sides = {name: duration(kernelseek, folder / f"{name}.cu", scenario["id"], work) for name in ("seed", "improved")}
    by_ncu = sides["seed"][0] / sides["improved"][0]
    ratio = scenario["ratio"]
    commit = {"commit": os.environ["KS_COMMIT"]} if "KS_COMMIT" in os.environ else {}
    return {
        **commit,
        "word": verdict["word"],
        "scenarios": len(verdict["scenarios"]),
        "geomean": {k: round(verdict["geomean"][k], 4) for k in ("point", "lo", "hi")},
        "seconds": round(verdict["seconds"], 1),
        "scenario": scenario["id"],
        "seed_us": round(scenario["seed_ns"] / 1e3, 2),
        "candidate_us": round(scenario["candidate_ns"] / 1e3, 2),
        "long_enough": min(scenario["seed_ns"], scenario["candidate_ns"]) >= LEAST_NS,
        "evaluator": {k: round(ratio[k], 4) for k in ("point", "lo", "hi")},
        "ncu_seed_us": round(sides["seed"][0] / 1e3, 2),
        "ncu_candidate_us": round(sides["improved"][0] / 1e3, 2),
        "kernels": {name: count for name, (_, count) in sides.items()},
        "ncu": round(by_ncu, 4),
        "ncu_over_evaluator": round(by_ncu / ratio["point"], 4),
    }, verdict


def wrong_with(name, row):
    """What misses its bar, a line each."""
    if "error" in row:
        return [f"{name}: {row['error']}"]
    lines = []
    if row["word"] != "PASS":
        lines.append(f"{name}: the verdict is {row['word']}")
    if not row["long_enough"]:
        lines.append(f"{name}: no scenario whose calls take {LEAST_NS / 1e3:.0f} µs on both sides")
    off = abs(row["ncu_over_evaluator"] - 1)
    if not off <= ALLOWED:
        lines.append(f"{name}: {100 * off:.1f} % apart on {row['scenario']}")
    return lines


def main():
    kernelseek, out = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2])
    result = {
        "what": "seed time over candidate time by the evaluator and by Nsight Compute, clocks left alone",
        "command": "python3 problems/tools/confirm_gpu.py",
        "problems": {},
    }
    if out.is_file():
        result = json.loads(out.read_text())
    for problem in sys.argv[3:] or PROBLEMS:
        with tempfile.TemporaryDirectory() as work:
            try:
                row, verdict = one(kernelseek, problem, work)
            except (RuntimeError, ValueError, KeyError, ZeroDivisionError, json.JSONDecodeError) as error:
                row, verdict = {"error": str(error)}, {}
        if verdict.get("gpu"):
            # Of the model: rows of other calls may come from another GPU of it.
            result.setdefault("gpu", {k: v for k, v in verdict["gpu"].items() if k != "uuid"})
        if verdict.get("compiler"):
            result.setdefault("compiler", verdict["compiler"])
        result["problems"][problem] = row
        result["wrong"] = [line for name, each in result["problems"].items() for line in wrong_with(name, each)]
        out.write_text(json.dumps(result, indent=2) + "\n")
        if "error" not in row:
            print(f"{problem}: {row['word']}, {row['scenario']}: {row['evaluator']['point']} by the evaluator, {row['ncu']} by ncu")
    for line in result["wrong"]:
        print(line)
    sys.exit(1 if result["wrong"] else 0)


if __name__ == "__main__":
    main()
