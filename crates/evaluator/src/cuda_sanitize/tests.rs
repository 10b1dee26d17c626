use super::*;
use kernelseek_core::case::{Generator, Role, Storage, TensorCase};
use kernelseek_core::dtype::DType;
use std::os::unix::fs::PermissionsExt;

fn case() -> Case {
    let tensor = |name: &str, role, storage| TensorCase {
        name: name.into(),
        role,
        dtype: DType::F32,
        shape: vec![100],
        stride: vec![1],
        offset: 0,
        storage: Some(storage),
        generator: (role != Role::Output).then_some(Generator::Constant { value: 1.0 }),
        stress: vec![],
        extreme: 1.0,
        garbage: None,
    };
    let storage = |name: &str| Storage { name: name.into(), dtype: DType::F32, elements: 100, misalign: 0 };
    Case {
        id: "small".into(),
        tags: vec![],
        tensors: vec![
            tensor("x", Role::Varying, 0),
            tensor("w", Role::Constant, 1),
            tensor("y", Role::Output, 2),
        ],
        storages: vec![storage("x"), storage("w"), storage("y")],
        attributes: vec![],
        flops: None,
        bytes: None,
        tolerance: vec![None, None, None],
    }
}

const WELL: &str = r#"{"ok":true,"prepare":null,"statuses":["ok","ok"],"workspace_bytes":0,"error":null}"#;

/// A tool that writes `report` to its log file, then says `says`. What follows `solo` must be a specification.
fn bench(folder: &Path, report: &str, says: &str) -> (SoloBench, PathBuf) {
    std::fs::write(folder.join("canned"), report).unwrap();
    let program = folder.join("compute-sanitizer");
    let script = format!(
        "#!/bin/sh\necho \"$@\" >> {0}/args\nwhile [ $# -gt 0 ]; do\n case $1 in\n --log-file) cp {0}/canned \"$2\";;\n solo) cp \"$2\" {0}/spec.json;;\n esac\n shift\ndone\necho '{says}'\n",
        folder.display()
    );
    std::fs::write(&program, script).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let bench = SoloBench {
        helper: "/bin/false".into(),
        artifact: "/k.so".into(),
        entry: "k".into(),
        gpu: None,
        secret: [7; 32],
        libraries: vec!["/lib/cuda".into()],
        namespaces: false,
        scratch: folder.to_owned(),
        deadline: Duration::from_secs(20),
    };
    (bench, program)
}

fn outcome(report: &str, says: &str, tools: &[Tool]) -> Outcome {
    let folder = tempfile::tempdir().unwrap();
    let (bench, program) = bench(folder.path(), report, says);
    run(&bench, &program, tools, &[case()], &mut |_: &Event| {})
}

#[test]
fn a_clean_tool_is_a_note() {
    let outcome =
        outcome("========= COMPUTE-SANITIZER\n========= ERROR SUMMARY: 0 errors\n", WELL, &[Tool::Memcheck]);
    assert_eq!(outcome.findings, []);
    assert_eq!(
        outcome.notes,
        ["memcheck: clean on small", "the sanitizers ran without namespaces of their own: switched off"]
    );
}

#[test]
fn a_report_is_a_failure_with_place_and_next_step() {
    let report = "========= Invalid __global__ write of size 4 bytes\n=========     at k(float *)+0x160 in k.cu:12\n\
                  =========     by thread (96,0,0) in block (3,0,0)\n=========     Address 0x7f0190 is out of bounds\n=========\n\
                  ========= Program hit cudaErrorLaunchFailure (error 719) on CUDA API call to cudaDeviceSynchronize.\n\
                  ========= ERROR SUMMARY: 2 errors\n";
    let says = r#"{"ok":false,"prepare":null,"statuses":["ok"],"workspace_bytes":0,"error":"call 1 ended with a device error"}"#;
    let outcome = outcome(report, says, &[Tool::Memcheck]);
    let [finding] = &outcome.findings[..] else { panic!("{outcome:?}") };
    assert_eq!((finding.defence.as_str(), finding.severity), ("sanitize.memcheck", Severity::Fail));
    assert_eq!(finding.message, "Invalid __global__ write of size 4 bytes, on scenario `small`");
    assert_eq!(
        finding.evidence,
        [
            "at k(float *) in k.cu:12",
            "first by thread (96,0,0) in block (3,0,0)",
            "Address 0x7f0190 is out of bounds"
        ]
    );
    assert!(finding.next.as_ref().unwrap().starts_with("check the index"));
}

#[test]
fn what_did_not_run_is_never_clean() {
    let summary = "========= ERROR SUMMARY: 0 errors\n";
    let lost = r#"{"ok":false,"prepare":null,"statuses":[],"workspace_bytes":0,"error":"libcuda.so.1 was not found"}"#;
    for (report, says, why) in [
        ("", WELL, "ok"),
        (summary, lost, "libcuda.so.1 was not found"),
        (summary, "nothing", "the calls did not come to their end"),
        ("========= Error: No attachable process found.\n", "", "No attachable process found."),
    ] {
        let outcome = outcome(report, says, &[Tool::Racecheck]);
        assert_eq!(outcome.findings, []);
        assert!(outcome.notes[0].starts_with("racecheck could not run on `small`"), "{:?}", outcome.notes);
        assert!(outcome.notes[0].contains(why), "{:?}", outcome.notes);
    }
    let unknown = outcome("========= ERROR SUMMARY: 4 errors\n", WELL, &[Tool::Synccheck]);
    assert_eq!(unknown.findings[0].severity, Severity::Fail);
}

#[test]
fn warnings_and_failed_calls_weigh_less() {
    let warned = "========= Warning: Race reported between Read access at k()+0x70\n=========     and Write access at k()+0x90 [9 hazards]\n\
                  ========= RACECHECK SUMMARY: 1 hazard displayed (0 error, 1 warning)\n";
    let finding = outcome(warned, WELL, &[Tool::Racecheck]).findings.remove(0);
    assert_eq!(finding.severity, Severity::Unproven);
    assert!(finding.next.unwrap().starts_with("add `-lineinfo`"));
    let failed = "========= Program hit cudaErrorInvalidValue (error 1) due to \"invalid argument\" on CUDA API call to cudaMemcpy.\n\
                  ========= ERROR SUMMARY: 1 error\n";
    assert_eq!(outcome(failed, WELL, &[Tool::Memcheck]).findings[0].severity, Severity::Warning);
}

#[test]
fn outputs_are_left_untouched_and_constants_are_loaded_once() {
    use kernelseek_device::cuda::solo::{Contents, SoloSpec};
    let folder = tempfile::tempdir().unwrap();
    let (bench, program) = bench(folder.path(), "========= ERROR SUMMARY: 0 errors\n", WELL);
    let _ = run(&bench, &program, &[Tool::Initcheck, Tool::Memcheck], &[case()], &mut |_: &Event| {});
    let spec: SoloSpec =
        serde_json::from_slice(&std::fs::read(folder.path().join("spec.json")).unwrap()).unwrap();
    spec.check().unwrap();
    let kinds: Vec<Vec<bool>> =
        spec.rounds.iter().map(|r| r.iter().map(|c| matches!(c, Contents::File(_))).collect()).collect();
    assert_eq!(kinds, [[true, true, false], [true, false, false]]);
    let args = std::fs::read_to_string(folder.path().join("args")).unwrap();
    let lines: Vec<&str> = args.lines().collect();
    assert!(lines[0].contains("--tool initcheck") && !lines[0].contains("--padding"));
    assert!(lines[1].contains("--tool memcheck") && lines[1].contains("--padding 4096"));
    let left: Vec<_> = std::fs::read_dir(folder.path())
        .unwrap()
        .filter(|e| e.as_ref().unwrap().file_name().to_string_lossy().starts_with("solo-"))
        .collect();
    assert!(left.is_empty(), "the cases' folders are removed");
}
