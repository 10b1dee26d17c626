#!/usr/bin/env python3
"""Makes the record of the attention problem on a machine with a GPU: what its reference, its seed and its grid are worth.

    python3 problems/tools/record_attention.py kernelseek OUT.json [--stages smoke,smoke_again,check,core26,hopper182,confirm,bugs]

    smoke, core26, hopper182   the seed evaluated against itself (`eval --quick` of the smoke set; the others as they are)
    smoke_again                as smoke: whether a first run on a machine takes longer
    check                      `kernelseek check`: trivial answers, precision model, the seed's tie with itself
    confirm                    `confirm_attention.py`: against float64, torch and the CPU's reference; on two held-out twins of the grid
    bugs                       `attention_bugs.py`

The sets are evaluated after `check`, which calibrates the seed where nothing was kept: once for a seed and a machine, and on the
whole grid as long as an evaluation. Every stage replaces what OUT had of it, so that a record is made in several calls; each says which commit it is of. Ends with 1 if
a stage misses what it shows.
"""

import argparse
import datetime
import json
import pathlib
import shlex
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PROBLEM = "problems/cuda/attention_forward"
STAGES = ["smoke", "smoke_again", "check", "core26", "hopper182", "confirm", "bugs"]
TWINS = (7, 8)


def run(command):
    """Standard output, and how long it took. The record shows the command with the tool's own name."""
    start = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    return done, time.monotonic() - start


def said(command):
    return shlex.join("kernelseek" if pathlib.Path(word).name == "kernelseek" else word for word in command)


def evaluated(tool, arguments):
    command = [*tool, "eval", f"{PROBLEM}/seed.cu", "-p", PROBLEM, *arguments, "--json"]
    done, wall = run(command)
    if done.returncode != 0:
        raise SystemExit(done.stderr[-2000:])
    verdict = json.loads(done.stdout)
    ratio = lambda s: [s["ratio"][k] for k in ("point", "lo", "hi")] if s.get("ratio") else None
    rows = [[s["id"], s["word"], s.get("seed_ns"), ratio(s), s["contents"], s["referenced"]] for s in verdict["scenarios"]]
    words = {}
    for row in rows:
        words[row[1]] = words.get(row[1], 0) + 1
    return {"command": said(command), "word": verdict["word"], "words": words, "seconds": verdict["seconds"], "wall_s": wall,
            "geomean": verdict["geomean"], "aa_spread": verdict["aa_spread"], "notes": verdict["notes"], "trust": verdict["trust"],
            "columns": ["id", "word", "seed_ns", "ratio", "contents", "referenced"], "scenarios": sorted(rows)}


def checked(tool):
    command = [*tool, "check", PROBLEM, "--json"]
    done, wall = run(command)
    if done.returncode not in (0, 1):
        raise SystemExit(done.stderr[-2000:])
    report = json.loads(done.stdout)
    report = report.get("report", report)
    rows = [[s["id"], s["seed_error"], s["model_error"], s["accepted"], s["aa_spread"], [f["defence"] for f in s["findings"]]]
            for s in report["scenarios"]]
    return {"command": said(command), "word": report["word"], "wall_s": wall, "seed_to_itself": report["seed_to_itself"],
            "findings": report["findings"], "columns": ["id", "seed_error", "model_error", "accepted", "aa_spread", "findings"],
            "scenarios": rows}


def confirmed(tool, scratch):
    twins = []
    for seed in TWINS:
        done, _ = run([*tool, "draw", PROBLEM, "--share", "1", "--seed", str(seed)])
        (scratch / f"twin{seed}.jsonl").write_text(done.stdout)
        twins += ["--twin", str(scratch / f"twin{seed}.jsonl")]
    out = scratch / "confirm.json"
    header = shlex.join([*tool, "header"])
    command = ["python3", str(HERE / "confirm_attention.py"), "--header", header, "--out", str(out), *twins]
    done, wall = run(command)
    if not out.exists():
        raise SystemExit(done.stderr[-2000:])
    shown = ["python3 problems/tools/confirm_attention.py --header 'kernelseek header' --out OUT.json --twin twin7.jsonl --twin twin8.jsonl",
             *(f"kernelseek draw {PROBLEM} --share 1 --seed {seed} > twin{seed}.jsonl" for seed in TWINS)]
    return {**json.loads(out.read_text()), "command": shown, "wall_s": wall, "ok": done.returncode == 0}


def planted(tool, kept, commit, more):
    # Beside the record: what was found stays if this is interrupted, and is gone on from.
    out = kept
    of = ["--commit", commit] if commit else []
    command = ["python3", str(HERE / "attention_bugs.py"), *tool, str(out), *of, *more]
    done, wall = run(command)
    sys.stdout.write(done.stdout)
    if not out.exists():
        raise SystemExit(done.stderr[-2000:])
    shown = shlex.join(["python3", "problems/tools/attention_bugs.py", "kernelseek", "OUT.json", *more])
    return {**json.loads(out.read_text()), "command": shown, "wall_s": wall, "ok": done.returncode == 0}


def gpu():
    query = "name,driver_version,clocks.current.sm,clocks.max.sm,power.limit"
    text, _ = run(["nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader,nounits"])
    values = [v.strip() for v in text.stdout.strip().split("\n")[0].split(",")]
    return dict(zip(("gpu", "driver", "sm_mhz", "sm_mhz_max", "power_limit_w"), values))


def fine(stage, record):
    if "ok" in record:
        return record["ok"]
    return record["word"].upper() == "PASS"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kernelseek")
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--stages", default=",".join(STAGES))
    parser.add_argument("--commit", help="commit of these sources, where they came without their history")
    parser.add_argument("--bugs", default="", help="further arguments of attention_bugs.py")
    arguments = parser.parse_args()
    commit = arguments.commit or run(["git", "rev-parse", "--short=7", "HEAD"])[0].stdout.strip() or None
    record = json.loads(arguments.out.read_text()) if arguments.out.exists() else {}
    record.update(gpu(), cuda=run(["nvcc", "--version"])[0].stdout.strip().split("\n")[-1])
    wrong = []
    tool = [str(pathlib.Path(arguments.kernelseek).resolve())]
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        make = {
            "smoke": lambda: evaluated(tool, ["--quick"]),
            "smoke_again": lambda: evaluated(tool, ["--quick"]),
            "core26": lambda: evaluated(tool, ["--set", "core26"]),
            "hopper182": lambda: evaluated(tool, []),
            "check": lambda: checked(tool),
            "confirm": lambda: confirmed(tool, scratch),
            "bugs": lambda: planted(tool, arguments.out.resolve().with_suffix(".bugs.json"), commit, shlex.split(arguments.bugs)),
        }
        for stage in arguments.stages.split(","):
            made = make[stage]()
            record[stage] = {**made, "commit": commit, "date": datetime.datetime.now().isoformat(timespec="seconds")}
            if not fine(stage, made):
                wrong.append(stage)
            arguments.out.write_text(compact(record))
            print(f"{stage}: {'ok' if fine(stage, made) else 'MISSES'}, {made['wall_s']:.1f} s", flush=True)
    return 1 if wrong else 0


def short(value):
    """Five digits say all that was measured."""
    if isinstance(value, dict):
        return {k: short(v) for k, v in value.items()}
    if isinstance(value, list):
        return [short(v) for v in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value


def compact(record):
    """JSON with one row of a list a line."""
    def write(value, depth):
        if isinstance(value, dict) and depth < 2:
            rows = ",\n".join(f"{json.dumps(k)}: {write(v, depth + 1)}" for k, v in value.items())
            return "{\n" + rows + "\n}"
        if isinstance(value, list) and value and depth < 3 and isinstance(value[0], (dict, list)):
            return "[\n" + ",\n".join(json.dumps(row) for row in value) + "\n]"
        return json.dumps(value)
    return write(short(record), 0) + "\n"


if __name__ == "__main__":
    sys.exit(main())
