//! What `inspect` says of GPU code, with a disassembler and without.

use std::os::unix::fs::PermissionsExt as _;

use kernelseek_inspect::device;
use kernelseek_testkit::TestContext;

use crate::context;

/// The cubin inside of the fixture that nvcc made.
fn with_cubin() -> TestContext {
    let c = context("rowscale");
    let fatbin = concat!(env!("CARGO_MANIFEST_DIR"), "/../inspect/tests/fixtures/one.fatbin");
    let bytes = std::fs::read(fatbin).unwrap();
    let facts = device::facts(&bytes);
    let entry = &facts.containers[0].entries[0];
    std::fs::write(c.problem().join("one.cubin"), &bytes[entry.offset..entry.offset + entry.size]).unwrap();
    c
}

/// A toolkit's folder with a disassembler that prints `text`.
fn toolkit(c: &TestContext, text: &str) -> std::path::PathBuf {
    let folder = c.problem().join("toolkit");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("text"), text).unwrap();
    for (name, body) in
        [("nvcc", "exit 1".to_owned()), ("cuobjdump", format!("cat '{}'", folder.join("text").display()))]
    {
        let path = folder.join(name);
        std::fs::write(&path, format!("#!/bin/sh\n{body}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    folder.join("nvcc")
}

const TEXT: &str = "\t.target\tsm_90a\n\t\tFunction : _Z3oneP6float4PKS_\n\
    /*0000*/ LDC R1, c[0x0][0x28] ;\n/*0010*/ S2R R0, SR_TID.X ;\n/*0020*/ IMAD.WIDE R4, R0, 0x10, R4 ;\n\
    /*0030*/ LDG.E.128 R4, desc[UR6][R4.64] ;\n/*0040*/ STS.128 [R0+UR4], R4 ;\n\
    /*0050*/ BAR.SYNC.DEFER_BLOCKING 0x0 ;\n/*0060*/ LDS.128 R8, [R8+UR4] ;\n\
    /*0070*/ @!P0 HGMMA.64x8x16.F32 R24, gdesc[UR4], R24, gsb0 ;\n/*0080*/ STG.E [R2.64], R8 ;\n/*0090*/ EXIT ;\n/*00a0*/ NOP ;\n";

#[test]
fn a_cubin_is_shown_with_its_instructions() {
    let c = with_cubin();
    let nvcc = toolkit(&c, TEXT);
    let env = [("KERNELSEEK_NVCC", nvcc.to_str().unwrap())];
    let ran = c.run_with(&["inspect", "one.cubin"], &env).unwrap();
    assert_eq!(ran.code, 0, "{}", ran.snapshot());
    insta::assert_snapshot!(ran.stdout);
    let ran = c.run_with(&["inspect", "one.cubin", "--json"], &env).unwrap();
    let value: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(value["sass"]["functions"][0]["classes"]["tensor"], 1);
    assert_eq!(value["device"]["cubin"]["functions"][0]["shared_bytes"], 2048);
    assert!(value["findings"].is_null());
}

#[test]
fn without_a_disassembler_it_says_how_to_get_one() {
    let c = with_cubin();
    let env = [("PATH", "/nowhere"), ("CUDA_HOME", "/nowhere"), ("KERNELSEEK_NVCC", "/nowhere/nvcc")];
    let ran = c.run_with(&["inspect", "one.cubin"], &env).unwrap();
    assert_eq!(ran.code, 0, "{}", ran.snapshot());
    // A toolkit in the usual place is found all the same.
    if !std::path::Path::new("/usr/local/cuda/bin").exists() {
        insta::assert_snapshot!(ran.stdout);
    }
}

#[test]
fn a_disassembler_that_fails_is_named() {
    let c = with_cubin();
    let nvcc = toolkit(&c, "");
    let env = [("KERNELSEEK_NVCC", nvcc.to_str().unwrap()), ("PATH", "/bin:/usr/bin")];
    let ran = c.run_with(&["inspect", "one.cubin"], &env).unwrap();
    let text = ran.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("cuobjdump failed: it printed no function"), "{text}");
}
