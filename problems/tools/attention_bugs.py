#!/usr/bin/env python3
"""Plants bugs in the seed of problems/cuda/attention_forward, one at a time, and has the grid find them.

    python3 problems/tools/attention_bugs.py KERNELSEEK OUT.json [--set hopper182] [--apply FOLDER] [BUG …]

Each bug is an edit of `seed.cu` and a rule that says which scenarios it can touch. `kernelseek eval --untimed` judges it on the
whole grid. It is found if some scenario fails; what fails must be what the rule names, so that a reader who sees the failing
scenarios knows where to look. Edits that an honest kernel makes (weights rounded to the input's dtype) stand beside them and must
fail nowhere. Goes on where OUT.json stops. `--apply` only writes the sources: every edit must apply.
"""

import argparse
import concurrent.futures
import dataclasses
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
from typing import Callable

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PROBLEM = ROOT / "problems/cuda/attention_forward"


def lengths(s):
    """Queries and keys of each sequence, as the mask counts them."""
    q = s.get("q_lens") or [s["Sq"]] * s["B"]
    k = s.get("kv_lens") or [s["Skv"]] * s["B"]
    pad = s.get("leftpad") or [0] * s["B"]
    return [(a, max(0, b - p)) for a, b, p in zip(q, k, pad)]


def group(s):
    return s["Hq"] // s["Hkv"]


def window(s):
    return s.get("window", [-1, -1])


def right(s):
    return 0 if s.get("causal") else window(s)[1]


def masked(s):
    return right(s) >= 0 or window(s)[0] >= 0


def empty_rows(s):
    """Rows that see no key, unused ones among them."""
    behind = s.get("layout") in ("kvcache", "paged") and min(q for q, _ in lengths(s)) < s["Sq"]
    return behind or any(q > 0 and (k == 0 or right(s) >= 0 and q > k + right(s)) for q, k in lengths(s))


def fp8(s):
    return s["dtype"] == "f8e4m3"


def paged(s):
    return s.get("layout") == "paged"


@dataclasses.dataclass
class Bug:
    name: str
    does: str
    edits: list[tuple[str, str]]
    touches: Callable[[dict], bool]
    honest: bool = False
    emulated: bool = True # whether `emulate_attention.py` can run it


WEIGHT = "                const float weight = expf(s[r][c] - origin);\n                added += weight;\n"


def rounded(to):
    """The weight is rounded after it has been added to the sum."""
    return [(WEIGHT, f"                float weight = expf(s[r][c] - origin);\n                added += weight;\n                {to}\n")]


CAP = """                if (call.softcap > 0.0)
                    s[r][c] = (float)call.softcap * tanhf(s[r][c] / (float)call.softcap);
"""
MASK = """                if (j < low[r] || j >= high[r])
                    s[r][c] = -INFINITY;
"""

BUGS = [
    Bug("top_left_mask", "the causal mask begins at the top left corner",
        [("i + k_count - q_count + right + 1)", "i + right + 1)")],
        lambda s: right(s) >= 0 and any(q != k for q, k in lengths(s))),
    Bug("window_off_by_one", "a window shows one key less on its left",
        [("i + k_count - q_count - left)", "i + k_count - q_count - left + 1)")], lambda s: window(s)[0] >= 0),
    Bug("window_right_off_by_one", "a window shows one key less on its right",
        [("right = call.causal ? 0 : (int)call.window_right;", "right = call.causal ? 0 : (int)call.window_right - (call.window_right > 0);")],
        lambda s: not s.get("causal") and window(s)[1] > 0),
    Bug("cap_after_mask", "the soft cap comes after the mask and makes hidden keys visible",
        [(CAP, ""), (MASK, MASK + CAP)], lambda s: s.get("softcap", 0) > 0),
    Bug("cap_before_scale", "the soft cap comes before the scale",
        [("                s[r][c] *= scale;\n", ""), (CAP, CAP + "                s[r][c] *= scale;\n")],
        lambda s: s.get("softcap", 0) > 0),
    Bug("sink_scaled", "the sink is scaled like a logit",
        [("const float sink = value(((const __nv_bfloat16 *)call.sink.data)[h]),", "const float sink = scale * value(((const __nv_bfloat16 *)call.sink.data)[h]),")],
        lambda s: s.get("sink")),
    Bug("sink_of_key_head", "the sink is that of the key head", [("(const __nv_bfloat16 *)call.sink.data)[h]", "(const __nv_bfloat16 *)call.sink.data)[hk]")],
        lambda s: s.get("sink") and group(s) > 1),
    Bug("empty_row_without_sink", "a row without keys has lse = -inf although there is a sink",
        [("if (call.sink.data && i < q_count) {", "if (call.sink.data && i < q_count && sum[r] > 0.0f) {")],
        lambda s: s.get("sink") and empty_rows(s)),
    Bug("lse_base_2", "the log-sum-exp has base 2", [("top[r] + logf(sum[r]) : -INFINITY", "(top[r] + logf(sum[r])) * 1.44269504f : -INFINITY")],
        lambda s: True),
    Bug("empty_row_lse_zero", "a row without keys has lse = 0", [("top[r] + logf(sum[r]) : -INFINITY", "top[r] + logf(sum[r]) : 0.0f")],
        empty_rows),
    Bug("left_pad_not_in_mask", "the mask counts the left pad among the keys",
        [("low_of = [&](int i) { return left < 0 ? 0 : max(0, i + k_count - q_count - left); }", "low_of = [&](int i) { return left < 0 ? 0 : max(0, i + k_count + (call.leftpad_k.data ? (int)rows.k_first : 0) - q_count - left); }"),
         ("min(k_count, i + k_count - q_count + right + 1)", "min(k_count, i + k_count + (call.leftpad_k.data ? (int)rows.k_first : 0) - q_count + right + 1)")],
        lambda s: s.get("leftpad") and masked(s)),
    Bug("left_pad_ignored", "keys of the left pad are used", [("r.k_first = call.leftpad_k.data ? ((const int *)call.leftpad_k.data)[b] : 0;", "r.k_first = 0;")],
        lambda s: s.get("leftpad")),
    Bug("descale_by_query_head", "descales are looked up by query head",
        [("const int at = b * (int)call.q_descale.stride[0] + hk;", "const int at = (b * (int)call.q_descale.stride[0] + hk * group) % (int)(call.q_descale.shape[0] * call.q_descale.shape[1]);")],
        lambda s: fp8(s) and group(s) > 1 and s["Hkv"] > 1),
    Bug("weights_not_shifted", "eight-bit weights are rounded without the shift that uses their range",
        rounded("if (sizeof(T) == 1) weight = (float)__nv_fp8_e4m3(weight);"), fp8),
    Bug("stale_page", "page tables are kept from the first call",
        [("static ks_status launch(const attention_forward_call &call)\n{\n", """static ks_status launch(const attention_forward_call &given)
{
    static void *kept;
    attention_forward_call call = given;
    if (call.page_table.data) {
        const size_t size = sizeof(int) * (size_t)(call.page_table.shape[0] * call.page_table.shape[1]);
        static size_t known;
        if (known != size) {
            known = size;
            cudaMalloc(&kept, size);
            cudaMemcpyAsync(kept, call.page_table.data, size, cudaMemcpyDeviceToDevice, (cudaStream_t)call.stream);
        }
        call.page_table.data = kept;
    }
""")], paged, emulated=False),
    Bug("page_tail", "keys behind the end of the last page's rows are used",
        [("        r.pages = (const int *)call.page_table.data + b * call.page_table.stride[0];\n",
          "        r.pages = (const int *)call.page_table.data + b * call.page_table.stride[0];\n        r.k_count = (r.k_count + call.k.shape[1] - 1) / call.k.shape[1] * call.k.shape[1];\n")],
        lambda s: paged(s) and any(k % s["page_size"] for _, k in lengths(s))),
    Bug("used_length_ignored", "the cache is read to its end",
        [("const int64_t end = call.seqused_k.data ? ((const int *)call.seqused_k.data)[b] : call.k.shape[1];",
          "const int64_t end = call.page_table.data ? ((const int *)call.seqused_k.data)[b] : call.k.shape[1];")],
        lambda s: s.get("layout") == "kvcache" and min(s.get("kv_lens") or [s["Skv"]]) < s["Skv"]),
    Bug("unused_rows_unwritten", "query rows behind the used ones are left as they are",
        [("        if (first + mine + r >= count)\n", "        if (first + mine + r >= count || (first + mine + r) / group >= q_count)\n")],
        lambda s: s.get("layout") in ("kvcache", "paged") and min(q for q, _ in lengths(s)) < s["Sq"]),
    Bug("keys_start_at_queries", "packed keys are looked for where the queries begin",
        [("r.k_first = k_starts[b];", "r.k_first = min(q_starts[b], k_starts[b]);")],
        lambda s: s.get("layout") == "varlen" and s["q_lens"] != s["kv_lens"]),
    Bug("power_of_two_groups", "the group's size is taken for a power of two",
        [("const int group = (int)(call.q.shape[call.q.rank - 2] / call.k.shape[call.k.rank - 2]);",
          "const int size = (int)(call.q.shape[call.q.rank - 2] / call.k.shape[call.k.rank - 2]), group = size < 2 ? 1 : size < 4 ? 2 : size < 8 ? 4 : size < 16 ? 8 : 16;")],
        lambda s: group(s) & (group(s) - 1)),
    Bug("heads_interleaved", "query head h reads key head h mod Hkv",
        [("fill(q, pitch, ROWS, (const T *)call.q.data, dim, [&](int r) {\n        const int i = (first + r) / group, h = hk * group + (first + r) % group;",
          "fill(q, pitch, ROWS, (const T *)call.q.data, dim, [&](int r) {\n        const int i = (first + r) / group, h = hk + (first + r) % group * (int)call.k.shape[call.k.rank - 2];")],
        lambda s: group(s) > 1 and s["Hkv"] > 1),
    Bug("scale_of_head_dim", "the scale is 1/sqrt(D) whatever the call says",
        [("(call, pitch, (float)call.softmax_scale)", "(call, pitch, rsqrtf((float)dim))")], lambda s: s.get("softmax_scale")),
    Bug("strides_ignored", "a view of a packed tensor is read as if it were one of its own",
        [("rows.q + i * call.q.stride[q_axis] +", "rows.q + i * call.q.shape[q_axis + 1] * call.q.shape[q_axis + 2] +")],
        lambda s: s.get("packed_qkv")),
    Bug("honest_weights_16", "weights are rounded to the dtype of 16-bit values",
        rounded("if constexpr (sizeof(T) == 2) { T kept; put(&kept, weight); weight = value(kept); }"), lambda s: False, honest=True),
    Bug("honest_weights_8", "eight-bit weights are rounded after a shift by 2^8",
        rounded("if (sizeof(T) == 1) weight = (float)__nv_fp8_e4m3(weight * 256.0f) / 256.0f;"), lambda s: False, honest=True),
]


def planted(bug, source):
    for old, new in bug.edits:
        if source.count(old) != 1:
            raise SystemExit(f"{bug.name}: {source.count(old)} places in seed.cu read `{old.strip()}`; one is wanted")
        source = source.replace(old, new)
    return f"/* Planted: {bug.does}. */\n" + source


def judge(bug, verdict, scenarios):
    """What a verdict says about a bug."""
    failing = sorted(s["id"] for s in verdict["scenarios"] if s["word"] == "FAIL")
    touched = sorted(i for i, s in scenarios.items() if bug.touches(s))
    # What a scenario's findings name: the output tensors that are off.
    wrong = lambda s: {e.split(":")[0].split("[")[0] for f in s["findings"] if f["severity"] == "fail" for e in f["evidence"]}
    tensors = sorted(set().union(*(wrong(s) for s in verdict["scenarios"]), set()) & {"out", "lse"})
    elsewhere = [i for i in failing if i not in touched]
    ok = not failing if bug.honest else bool(failing) and not elsewhere
    return {"bug": bug.name, "does": bug.does, "honest": bug.honest, "ok": ok, "failing": len(failing), "touched": len(touched),
            "elsewhere": elsewhere, "unnoticed": [i for i in touched if i not in failing], "tensors": tensors,
            "evaluated": len(verdict["scenarios"]), "seconds": verdict.get("seconds")}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kernelseek", nargs="?")
    parser.add_argument("out", nargs="?", type=pathlib.Path)
    parser.add_argument("bug", nargs="*", help="which [default: all]")
    parser.add_argument("--set", default="hopper182")
    parser.add_argument("--apply", type=pathlib.Path, help="write the sources into this folder and end")
    parser.add_argument("--seconds", type=float, default=1e9, help="begin no other bug after so long")
    parser.add_argument("--commit", help="commit of these sources, kept with every bug")
    parser.add_argument("--most-flops", type=float, help="only scenarios that cost no more than this")
    arguments = parser.parse_intermixed_args() # options may stand before BUG
    seed = (PROBLEM / "seed.cu").read_text()
    lines = (PROBLEM / "hopper182.jsonl").read_text().splitlines()
    scenarios = {s["id"]: s for s in map(json.loads, lines)}
    only = []
    if arguments.most_flops:
        cost = {s["id"]: s["flops"] for s in json.loads((PROBLEM / "hopper182.expected.json").read_text())}
        scenarios = {i: s for i, s in scenarios.items() if cost[i] <= arguments.most_flops}
        only = [word for i in scenarios for word in ("--scenario", i)]
    if arguments.apply:
        for bug in BUGS:
            (arguments.apply / f"{bug.name}.cu").write_text(planted(bug, seed))
        return 0
    record = json.loads(arguments.out.read_text()) if arguments.out.exists() else {"bugs": []}
    known = {b["bug"] for b in record["bugs"]}
    named = {b.name: b for b in BUGS}
    unknown = [name for name in arguments.bug if name not in named]
    if unknown:
        parser.error(f"no bug is called {', '.join(unknown)}; there are {', '.join(named)}")
    wanted = [named[name] for name in arguments.bug or named if name not in known]
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        # A folder each: a candidate's workspace is its own.
        files = {}
        for bug in wanted:
            files[bug.name] = pathlib.Path(scratch) / bug.name / f"{bug.name}.cu"
            files[bug.name].parent.mkdir()
            files[bug.name].write_text(planted(bug, seed))
        tool = [str(pathlib.Path(arguments.kernelseek).resolve())]
        build = lambda f: subprocess.run([*tool, "build", str(f), "-p", str(PROBLEM)], capture_output=True, text=True)
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            for name, done in zip(files, pool.map(build, files.values())):
                if done.returncode != 0:
                    raise SystemExit(f"{name} does not build: {done.stdout[-2000:]}{done.stderr[-2000:]}")
        for bug in wanted:
            if time.monotonic() - start > arguments.seconds:
                break
            command = [*tool, "eval", str(files[bug.name]), "-p", str(PROBLEM), "--set", arguments.set, *only, "--untimed", "--json"]
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode != 0:
                print(f"BAD {bug.name}: {done.stderr[-2000:]}", flush=True)
                continue
            result = {**judge(bug, json.loads(done.stdout), scenarios), "commit": arguments.commit}
            record["bugs"].append(result)
            arguments.out.write_text(json.dumps(record) + "\n")
            print(f"{'ok ' if result['ok'] else 'BAD'} {bug.name}: {result['failing']} of {result['touched']} fail, "
                  f"{len(result['elsewhere'])} elsewhere, {result['seconds']} s", flush=True)
    return 0 if all(b["ok"] for b in record["bugs"]) else 1


if __name__ == "__main__":
    sys.exit(main())
