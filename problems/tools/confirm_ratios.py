"""Confirms the evaluator's ratios with the independent timer: `python3 problems/tools/confirm_ratios.py KERNELSEEK OUT`.

For each problem: evaluates improved.c, builds seed and candidate, times a few scenarios with independent_timer.c, and
writes both ratios side by side as JSON. Needs only the standard library and a C compiler.
"""

import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
# Scenario id -> what the timer calls it. Fields are those of the problem's scenario lines.
SCENARIOS = {
    "gemm": ["square_96", "square_128", "odd_127_129_65", "prime_101_103_107"],
    "softmax": ["attention_128", "attention_256", "odd_127", "wide_8192"],
    "layernorm": ["bert_768", "model_1024", "model_4096", "odd_129"],
    "attention_forward": ["dense_128", "causal_127", "cross_203_113", "gqa_4"],
}


def run(*command):
    return subprocess.run([str(c) for c in command], check=True, capture_output=True, text=True).stdout


def main():
    kernelseek, out = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2])
    result = {"what": "seed time over candidate time, cold caches, by the evaluator and by a program that shares nothing with it", "problems": {}}
    with tempfile.TemporaryDirectory() as work:
        work = pathlib.Path(work)
        for problem in SCENARIOS:
            (work / f"{problem}.h").write_text(run(kernelseek, "header", ROOT / problem))
        timer = work / "timer"
        run("cc", "-O2", "-std=gnu11", "-I", work, ROOT / "tools/independent_timer.c", "-o", timer, "-ldl", "-lm")
        for problem, ids in SCENARIOS.items():
            for name in ("seed", "improved"):
                run(kernelseek, "build", ROOT / problem / f"{name}.c", "-o", work / f"{problem}-{name}.so", "-q")
            verdict = json.loads(run(kernelseek, "eval", ROOT / problem / "improved.c", "--json", "-q"))
            result.setdefault("device", verdict["device"])
            result.setdefault("compiler", verdict["compiler"])
            by_id = {s["id"]: s for s in verdict["scenarios"]}
            lines = {}
            for line in (ROOT / problem / "cpu.jsonl").read_text().splitlines():
                scenario = json.loads(line)
                lines[scenario["id"]] = ",".join(
                    f"{k}={int(v)}" for k, v in scenario.items() if isinstance(v, (int, bool)) and k != "id"
                )
            table = run(timer, problem, work / f"{problem}-seed.so", work / f"{problem}-improved.so", *[lines[i] for i in ids])
            rows = {}
            for identifier, row in zip(ids, table.splitlines()[1:]):
                ratio = next(float(word[:-1]) for word in row.split() if word.endswith("x") and word[0].isdigit())
                judged = by_id[identifier]["ratio"]
                rows[identifier] = {
                    "evaluator": [round(judged[k], 3) for k in ("point", "lo", "hi")],
                    "independent": ratio,
                    "independent_over_evaluator": round(ratio / judged["point"], 3),
                }
            result["problems"][problem] = {
                "word": verdict["word"],
                "scenarios": len(verdict["scenarios"]),
                "geomean": [round(verdict["geomean"][k], 3) for k in ("point", "lo", "hi")],
                "seconds": round(verdict["seconds"], 1),
                "confirmed": rows,
            }
    out.write_text(json.dumps(result, indent=2) + "\n")
    print(json.dumps(result["problems"], indent=1))


if __name__ == "__main__":
    main()
