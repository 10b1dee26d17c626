//! `solo` on a driver that is none: its calls are the C library's, so that the whole way is seen on every machine.

use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;

const DRIVER: &str = include_str!("solo_driver.c");
const KERNEL: &str = "#include <stdint.h>
#include <stddef.h>
typedef struct { void *data; int32_t dtype, rank; int64_t shape[8], stride[8]; } tensor;
typedef struct { uint32_t size, abi; tensor x, y; double a; void *workspace; size_t bytes; void *stream; int32_t device; } call;
size_t k_workspace(const call *c) { return 64; }
int k(const call *c) {
    if (c->stream != (void *)7 || c->bytes != 64 || ((char *)c->workspace)[63] != 0)
        return 2;
    if ((uintptr_t)c->x.data % 256 != 4 || (uintptr_t)c->y.data % 256 != 0)
        return 3;
    for (int64_t i = 0; i < c->y.shape[0]; i++)
        ((float *)c->y.data)[i] += (float)c->a * ((float *)c->x.data)[i];
    return 0;
}
";

fn built(folder: &Path, name: &str, text: &str) {
    let source = folder.join(format!("{name}.c"));
    std::fs::write(&source, text).unwrap();
    let ran = Command::new("cc")
        .args(["-shared", "-fPIC", "-w", "-o"])
        .arg(folder.join(name))
        .arg(&source)
        .status();
    assert!(ran.unwrap().success());
}

fn solo(folder: &Path, spec: &Value) -> (Option<i32>, Value) {
    let file = folder.join("solo.json");
    std::fs::write(&file, spec.to_string()).unwrap();
    let ran = Command::new(env!("CARGO_BIN_EXE_kernelseek"))
        .arg("solo")
        .arg(&file)
        .env("LD_LIBRARY_PATH", folder)
        .output()
        .unwrap();
    (ran.status.code(), serde_json::from_slice(&ran.stdout).unwrap())
}

#[test]
fn a_case_is_called_on_allocations_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    built(folder.path(), "libcuda.so.1", DRIVER);
    std::fs::copy(folder.path().join("libcuda.so.1"), folder.path().join("libcuda.so")).unwrap();
    built(folder.path(), "k.so", KERNEL);
    let x: Vec<u8> = [1f32, 2.0, 3.0].iter().flat_map(|v| v.to_le_bytes()).collect();
    std::fs::write(folder.path().join("x.bin"), x).unwrap();
    let region = |data: usize| json!({ "offset": 0, "size": 8192, "data": data, "bytes": 12 });
    let tensor = |name: &str, storage: usize, writes: bool| json!({ "name": name, "dtype": 0, "shape": [3], "stride": [1], "storage": storage, "offset": 0, "writes": writes });
    let input = json!({ "file": folder.path().join("x.bin") });
    let mut spec = json!({
        "version": 1,
        "artifact": folder.path().join("k.so"),
        "entry": "k",
        "gpu": null,
        "plan": {
            "layout": { "slots": 1, "regions": [[region(4100), region(4096)]], "constant": [false, false], "bytes": 16384 },
            "tensors": [tensor("x", 0, false), tensor("y", 1, true)],
            "attributes": [["a", { "f64": 2.5 }]],
        },
        // The second call finds what the first one left.
        "rounds": [[input, "zeros"], ["untouched", "untouched"]],
        "save": folder.path(),
    });
    let (code, report) = solo(folder.path(), &spec);
    assert_eq!((code, &report["statuses"]), (Some(0), &json!(["ok", "ok"])), "{report}");
    assert_eq!(report["workspace_bytes"], 64);
    let saved = std::fs::read(folder.path().join("storage-1.bin")).unwrap();
    let y: Vec<f32> = saved.chunks_exact(4).map(|c| f32::from_le_bytes(c.try_into().unwrap())).collect();
    assert_eq!(y, [5.0, 10.0, 15.0]);
    assert!(!folder.path().join("storage-0.bin").exists());

    spec["entry"] = json!("other");
    let (code, report) = solo(folder.path(), &spec);
    assert_eq!((code, &report["ok"]), (Some(1), &json!(false)));
    assert!(report["error"].as_str().unwrap().contains("does not export `other`"), "{report}");
}

#[test]
fn apart_there_is_no_network_but_a_loopback() {
    let ran = Command::new(env!("CARGO_BIN_EXE_kernelseek"))
        .args(["solo", "--apart", "--", "/bin/sh", "-c", "cat /proc/net/dev"])
        .output()
        .unwrap();
    let (said, complained) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    if ran.status.code() == Some(125) {
        assert!(complained.contains("no namespaces to give"), "{complained}");
        return;
    }
    let devices: Vec<&str> =
        said.lines().filter_map(|l| l.split_once(':')).map(|(name, _)| name.trim()).collect();
    assert_eq!(devices, ["lo"], "{said}");
}
