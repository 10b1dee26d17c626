//! The Python worker's part of the CUDA target, without a GPU: `python_worker_cuda.py` runs it against a driver and a
//! torch that only keep record.

use std::path::Path;
use std::process::Command;

#[test]
fn the_cuda_part_of_the_python_worker_holds() {
    let python = std::env::var_os("KERNELSEEK_PYTHON").unwrap_or_else(|| "python3".into());
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python_worker_cuda.py");
    let output = Command::new(&python).arg(&script).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    assert!(text.contains("Ran 9 tests"), "{text}");
}
