//! The generated header, compiled by the real compilers and executed against a table.

#![expect(clippy::unwrap_used, reason = "a test program: a panic is a failed test")]

use kernelseek_core::kernel_file::{Choice, KernelFile, parse_kernel};
use kernelseek_core::problem::{Problem, parse_problem};
use kernelseek_tuning::known::{Feature, FeatureKind, Spot};
use kernelseek_tuning::routes::Routes;
use kernelseek_tuning::{Assignment, header};
use std::path::Path;
use std::process::Command;

const PROBLEM: &str = r#"
format = 1
name = "op"
summary = "test"
[scenarios]
default = "all"
quick = ["a"]
files = { all = "all.jsonl" }
[fields]
n = { type = "int" }
[[tensor]]
name = "x"
role = "varying"
dtype = "f32"
shape = ["n"]
generator = { kind = "normal", mean = 0.0, std = 1.0 }
[[tensor]]
name = "y"
role = "output"
dtype = "f32"
shape = ["n"]
[[attribute]]
name = "scale"
type = "f64"
value = "1.0"
[reference]
source = "r.c"
precision = "f64"
[seed]
source = "s.c"
"#;

const KERNEL: &str = r#"
format = 1
[[tunable]]
name = "tile"
values = [4, 8, 16, 32]
default = 8
[[tunable]]
name = "layout"
values = ["rows", "columns"]
default = "rows"
"#;

fn problem() -> Problem {
    parse_problem("problem.toml", PROBLEM).unwrap()
}

fn kernel() -> KernelFile {
    parse_kernel(&problem(), "kernel.toml", KERNEL).unwrap()
}

fn assignment(tile: i64, layout: &str) -> Assignment {
    [("tile".to_owned(), Choice::Int(tile)), ("layout".to_owned(), Choice::Word(layout.to_owned()))].into()
}

/// n, scale, arm.
const TABLE: [(f64, f64, usize); 6] =
    [(16.0, 0.5, 1), (64.0, 0.5, 1), (1024.0, 0.5, 0), (4096.0, 0.5, 2), (4096.0, 2.0, 3), (65536.0, 2.0, 3)];

fn routes() -> Routes {
    let arms =
        [assignment(8, "rows"), assignment(4, "rows"), assignment(32, "columns"), assignment(16, "columns")];
    let features = [("call->scale", FeatureKind::Float), ("call->x.shape[0]", FeatureKind::Int)]
        .map(|(e, kind)| Feature { expression: e.into(), kind });
    let spots: Vec<Spot> = TABLE
        .iter()
        .map(|(n, scale, _)| Spot { id: format!("n{n}_*/_{scale}"), values: vec![*scale, *n] })
        .collect();
    Routes::new(&features, &spots, &arms, &TABLE.map(|(.., arm)| arm))
}

/// Compiles a program that prints what each call of the table takes, and runs it.
fn run(compiler: &str, name: &str, header: &str, more: &[&str]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write("op.h", &kernelseek_core::header::header(&problem()));
    write("routes.h", header);
    let calls: String = TABLE
        .iter()
        .map(|(n, scale, _)| {
            format!(
                "    call.x.shape[0] = {n}; call.scale = {scale};\n    printf(\"%d %d\\n\", (int)KS_ROUTE_TILE(&call), \
                 (int)KS_ROUTE_LAYOUT(&call));\n"
            )
        })
        .collect();
    let program = format!(
        "#include \"routes.h\"\n#include <stdio.h>\n#include <string.h>\n#define ONE(v) static int f_##v(void) {{ return v; }}\n\
         KS_VALUES_TILE(ONE)\n#define CASE(v) case KS_LAYOUT_##v: return #v;\nstatic const char *name(int l) {{ switch (l) {{ \
         KS_VALUES_LAYOUT(CASE) }} return \"?\"; }}\nint main(void) {{\n    op_call call;\n    memset(&call, 0, sizeof call);\n\
         {calls}#define SUM(v) + f_##v()\n    printf(\"values %d layout %s\\n\", 0 KS_VALUES_TILE(SUM), \
         name((int)KS_ROUTE_LAYOUT(&call)));\n    return 0;\n}}\n"
    );
    write(name, &program);
    let out: &Path = &folder.path().join("program");
    let built = Command::new(compiler)
        .args(["-Wall", "-Wextra", "-Werror", "-O1"])
        .args(more)
        .arg("-o")
        .arg(out)
        .arg(folder.path().join(name))
        .output()
        .unwrap();
    assert!(built.status.success(), "{}\n{header}", String::from_utf8_lossy(&built.stderr));
    String::from_utf8(Command::new(out).output().unwrap().stdout).unwrap()
}

fn both(header: &str, more: &[&str]) -> String {
    let c = run("gcc", "t.c", header, more);
    assert_eq!(run("g++", "t.cc", header, more), c);
    c
}

#[test]
fn every_call_of_the_table_takes_what_was_chosen_for_it() {
    let text = header::routed("op", &kernel(), &routes());
    assert_eq!(text, header::routed("op", &kernel(), &routes()), "the same routes are the same text");
    let expected = "4 0\n4 0\n8 0\n32 1\n16 1\n16 1\nvalues 60 layout columns\n";
    assert_eq!(both(&text, &[]), expected);
    assert!(text.contains("if (call->scale <= 1.0) {"), "{text}");
    assert!(text.contains("call->x.shape[0] <= 256"), "a geometric mean: {text}");
}

#[test]
fn a_macro_forces_a_value_in_every_call() {
    let expected = "16 1\n".repeat(6) + "values 16 layout columns\n";
    let forced = ["-DKS_TILE=16", "-DKS_LAYOUT=columns"];
    assert_eq!(both(&header::routed("op", &kernel(), &routes()), &forced), expected);
    assert_eq!(both(&header::forced("op", &kernel()), &forced), expected);
}

#[test]
fn without_routes_and_macros_the_defaults_are_taken() {
    assert_eq!(both(&header::forced("op", &kernel()), &[]), "8 0\n".repeat(6) + "values 8 layout rows\n");
}
