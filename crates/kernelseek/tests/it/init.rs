//! `init`: from a kernel that nobody prepared to a problem that `check` takes, and a verdict on the kernel as it is.

use crate::context;
use kernelseek_testkit::TestContext;
use serde_json::Value;

/// Makes the campaign of a kernel.
fn init(c: &TestContext, args: &[&str], code: i32) -> Value {
    let ran = c.run(&[&["init", "--json"], args].concat()).unwrap();
    assert_eq!(ran.code, code, "{}", ran.snapshot());
    ran.json().unwrap()
}

/// A busy machine may leave a check of the seed against itself unproven; nothing may be wrong.
fn nothing_is_wrong(check: &Value) {
    assert!(matches!(check["word"].as_str(), Some("PASS" | "UNPROVEN")), "{check:#}");
    for s in check["scenarios"].as_array().unwrap() {
        assert_eq!(s["accepted"].as_array().unwrap().len(), 0, "{s:#}");
    }
}

/// The kernel as it is gets a verdict, and no word against it.
fn has_a_verdict(c: &TestContext, kernel: &str) {
    let ran = c.run(&["eval", kernel, "--quick", "--json"]).unwrap();
    assert_eq!(ran.code, 0, "{}", ran.snapshot());
    let verdict = ran.json().unwrap();
    assert_ne!(verdict["word"], "FAIL", "{verdict:#}");
    let scenarios = verdict["scenarios"].as_array().unwrap();
    assert!(!scenarios.is_empty());
    for s in scenarios {
        assert!(s["referenced"].as_u64().unwrap() > 0, "{s:#}");
    }
}

/// From the file to the verdict, with what the guesses must hold.
fn goes_through(file: &str, folder: &str, kernel: &str, guesses: &[&str]) {
    let c = context("init");
    let made = init(&c, &[file], 0);
    nothing_is_wrong(&made["check"]);
    assert_eq!(made["error"], Value::Null);
    let texts: Vec<&str> =
        made["guesses"].as_array().unwrap().iter().map(|g| g["text"].as_str().unwrap()).collect();
    for expected in guesses {
        assert!(texts.iter().any(|t| t.contains(expected)), "{expected}: {texts:#?}");
    }
    for guess in made["guesses"].as_array().unwrap() {
        let path = c.problem().join(folder).join(guess["file"].as_str().unwrap());
        let text = std::fs::read_to_string(path).unwrap();
        let line = text.lines().nth(guess["line"].as_u64().unwrap() as usize - 1).unwrap();
        assert!(line.contains(guess["text"].as_str().unwrap()), "{guess}: {line}");
    }
    has_a_verdict(&c, &format!("{folder}/{kernel}"));
}

#[test]
fn pointers_and_sizes() {
    goes_through(
        "blur.c",
        "blur",
        "kernel.c",
        &["strength: a floating-point parameter", "your own code in double"],
    );
}

#[test]
fn a_struct_argument_with_a_local_header() {
    goes_through("drift.c", "drift", "kernel.c", &["taken for a status", "inout: the body reads"]);
}

#[test]
fn a_template_in_a_namespace() {
    goes_through(
        "dense.cc",
        "dense",
        "kernel.cc",
        &["template parameter T: taken to be float", "`layers::dense` is taken"],
    );
}

#[test]
fn in_place() {
    goes_through(
        "scan.c",
        "scan",
        "kernel.c",
        &["`main` (scan.c:13) is left out", "every scenario keeps pitch >= cols"],
    );
}

#[test]
fn several_outputs() {
    goes_through(
        "moments.c",
        "moments",
        "kernel.c",
        &["what the function returns", "integers are compared exactly"],
    );
}

#[test]
fn a_reference_that_cannot_be_derived_is_asked_for_and_then_it_passes() {
    let c = context("init");
    let ran = c.run(&["init", "fastnorm.c"]).unwrap();
    assert_eq!(ran.code, 3, "{}", ran.snapshot());
    assert!(ran.stderr.contains("reference.c:"), "{}", ran.snapshot());
    assert!(ran.stderr.contains("write here what `fastnorm.c` computes"), "{}", ran.snapshot());
    assert!(
        ran.stdout.contains("next: write the reference, fastnorm/problem/reference.c"),
        "{}",
        ran.snapshot()
    );
    c.edit("fastnorm/problem/reference.c", "#error \"write here what `fastnorm.c` computes\"", FASTNORM)
        .unwrap();
    let ran = c.run(&["check", "fastnorm/problem", "--json"]).unwrap();
    assert_eq!(ran.code, 0, "{}", ran.snapshot());
    nothing_is_wrong(&ran.json().unwrap());
    has_a_verdict(&c, "fastnorm/kernel.c");
}

const FASTNORM: &str = "    for (int64_t r = 0; r < rows; r++) {
        double sum = 1e-6f;
        for (int64_t c = 0; c < cols; c++)
            sum += (double)x[r * cols + c] * x[r * cols + c];
        y[r] = (float)(1.0 / sqrt(sum));
    }";

#[test]
fn a_python_skeleton_fails_before_it_is_written() {
    let c = context("init");
    let ran = c.run(&["init", "blur.c", "--reference", "python", "--into", "py"]).unwrap();
    assert_ne!(ran.code, 0, "{}", ran.snapshot());
    assert!(ran.stderr.contains("write the formula here"), "{}", ran.snapshot());
    assert!(ran.stdout.contains("py/problem/reference.py"), "{}", ran.snapshot());
}

#[test]
fn a_wrong_guess_is_found_by_the_check() {
    let c = context("init");
    c.write(
        "fill.c",
        "void fill(const float *x, float *y, int n) { for (int i = 0; i < n; i++) y[i] = 1.0f; (void)x; }",
    )
    .unwrap();
    let ran = c.run(&["init", "fill.c"]).unwrap();
    assert_eq!(ran.code, 1, "{}", ran.snapshot());
    assert!(ran.stdout.contains("the outputs do not depend on the inputs"), "{}", ran.snapshot());
    assert!(ran.stdout.contains("kernelseek check fill/problem"), "{}", ran.snapshot());
}

#[test]
fn a_size_of_one_that_proves_nothing_is_left_out() {
    let c = context("init");
    c.write(
        "rowsum.c",
        "void rowsum(int m, int n, const float a[m][n], float s[m]) { for (int i = 0; i < m; i++) { s[i] = 0;
            for (int j = 0; j < n; j++) s[i] += a[i][j]; } }",
    )
    .unwrap();
    let made = init(&c, &["rowsum.c"], 0);
    nothing_is_wrong(&made["check"]);
    assert!(made["left_out"].as_array().unwrap().iter().any(|id| id == "one_n"), "{}", made["left_out"]);
    let lines = std::fs::read_to_string(c.problem().join("rowsum/problem/cpu.jsonl")).unwrap();
    assert!(!lines.contains("one_n") && lines.contains("one_m"), "{lines}");
}

#[test]
fn what_cannot_be_read_is_named_with_the_way_out() {
    let c = context("init");
    for (name, text) in [
        ("none.c", "static int x;\n"),
        ("several.c", "void a(float *x, int n) {}\nvoid b(float *x, int n) {}\n"),
        ("callback.c", "void f(float *x, int n, float (*g)(float)) {}\n"),
        ("stream.c", "#include <stdio.h>\nvoid f(float *x, int n, FILE *log) {}\n"),
        ("broken.c", "void f(float *x, int n) {\n    for (int i = 0; i < n; i++ {\n        x[i] = 0;\n}\n"),
        ("kernel.cu", "__global__ void f(float *x) {}\n"),
        ("owned.cc", "#include <vector>\nvoid f(std::vector<float> &x) {}\n"),
    ] {
        c.write(name, text).unwrap();
    }
    let mut text = String::new();
    for name in [
        "none.c",
        "several.c",
        "callback.c",
        "stream.c",
        "broken.c",
        "kernel.cu",
        "owned.cc",
        "missing.c",
        ".",
    ] {
        let ran = c.run(&["init", name]).unwrap();
        assert_eq!(ran.code, 3, "{}", ran.snapshot());
        text.push_str(&format!("$ kernelseek init {name}\n{}\n", ran.stderr));
    }
    let ran = c.run(&["init", "dense.cc", "--type", "T"]).unwrap();
    assert_eq!(ran.code, 2, "{}", ran.snapshot());
    text.push_str(&format!("$ kernelseek init dense.cc --type T\n{}\n", ran.stderr));
    insta::assert_snapshot!(text);
}

#[test]
fn nothing_that_exists_is_overwritten_unasked() {
    let c = context("init");
    std::fs::create_dir_all(c.problem().join("blur/problem")).unwrap();
    c.write("blur/kernel.c", "mine\n").unwrap();
    let ran = c.run(&["init", "blur.c"]).unwrap();
    assert_eq!(ran.code, 2, "{}", ran.snapshot());
    assert!(ran.stderr.contains("blur/kernel.c") && ran.stderr.contains("--force"), "{}", ran.stderr);
    assert!(!c.problem().join("blur/campaign.toml").exists(), "all files or none");
    assert_eq!(std::fs::read_to_string(c.problem().join("blur/kernel.c")).unwrap(), "mine\n");
    // The kernel's own file is never a target, whatever is said.
    std::fs::copy(c.problem().join("blur.c"), c.problem().join("kernel.c")).unwrap();
    let ran = c.run(&["init", "kernel.c", "--into", ".", "--force"]).unwrap();
    assert_eq!(ran.code, 2, "{}", ran.snapshot());
    assert!(ran.stderr.contains("the kernel's own source"), "{}", ran.stderr);
}
