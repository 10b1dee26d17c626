#!/usr/bin/env bash
# Runs the GPU tests of this archive on a machine without cargo: ./run.sh [helpers|isolation|check|cheats|selftest]...
# Without a name: all of them. Options after `--` go to selftest. Output lies in $OUT (default: out beside this script).
# Needs an NVIDIA driver, nvcc and a C++ compiler; `check` also python3 and ncu.
set -u
here=$(cd "$(dirname "$0")" && pwd)
parts=()
more=()
while [ $# -gt 0 ]; do
  case $1 in
    helpers|isolation|check|cheats|selftest) parts+=("$1") ;;
    --) shift; more=("$@"); break ;;
    *) echo "usage: run.sh [helpers|isolation|check|cheats|selftest]... [-- SELFTEST-OPTIONS]" >&2; exit 2 ;;
  esac
  shift
done
[ ${#parts[@]} -gt 0 ] || parts=(helpers isolation check cheats selftest)

out=${OUT:-$here/out}
mkdir -p "$out"
out=$(cd "$out" && pwd)
cd "$here" || exit 2
[ -n "${HOME:-}" ] || export XDG_STATE_HOME="${XDG_STATE_HOME:-/tmp/kernelseek-state}"
# Records of earlier calls go on.
if [ -d records ]; then
  cp -n records/*.json "$out"/ 2>/dev/null || true
fi
commit=$(cat COMMIT)
summary=()
failed=0

# run NAME COMMAND...: says what came of it, keeps its output.
run() {
  local name=$1 start=$SECONDS code
  shift
  echo "== $name: $*"
  "$@" >"$out/$name.log" 2>&1
  code=$?
  tail -n 25 "$out/$name.log"
  if [ $code -eq 0 ]; then
    summary+=("ok    $name ($((SECONDS - start)) s)")
  else
    summary+=("FAIL  $name, exit code $code ($((SECONDS - start)) s), see $out/$name.log")
    failed=1
  fi
}

# Tests of one executable, one after the other: they share the GPU.
tests() {
  if [ -x "tests/$1" ]; then
    run "$1" "tests/$1" --ignored --nocapture --test-threads=1
  else
    summary+=("none  $1: not in this archive")
  fi
}

for part in "${parts[@]}"; do
  case $part in
  helpers) tests gpu_helpers ;;
  isolation)
    # Whatever else is marked as needing a GPU.
    for file in tests/gpu_*; do
      [ "$file" = tests/gpu_helpers ] || tests "$(basename "$file")"
    done
    ;;
  check)
    for problem in softmax layernorm gemm reduce; do
      run "check-$problem" ./kernelseek check "problems/cuda/$problem"
    done
    run confirm env KS_COMMIT="$commit" python3 problems/tools/confirm_gpu.py ./kernelseek "$out/honest.json"
    ;;
  cheats)
    run cheats ./kernelseek selftest -p problems/cuda/softmax --section hostile --commit "$commit" \
      --record "$out/hostile.json" ${more[@]+"${more[@]}"}
    ;;
  selftest)
    run selftest ./kernelseek selftest -p problems/cuda/softmax --commit "$commit" \
      --record "$out/selftest.json" ${more[@]+"${more[@]}"}
    ;;
  esac
done

echo "== summary of commit $commit"
printf '%s\n' "${summary[@]}"
exit $failed
