//! `check` accepts a sound problem and refuses weakened ones, with the reason.

use crate::context;

#[test]
fn a_sound_problem_passes() {
    let c = context("rowscale");
    let ran = c.run(&["check", ".", "--json"]).unwrap();
    assert_eq!(ran.code, 0, "{}", ran.snapshot());
    let report = ran.json().unwrap();
    for s in report["scenarios"].as_array().unwrap() {
        assert_eq!(s["accepted"].as_array().unwrap().len(), 0, "{s:#}");
        assert!(s["seed_error"].as_f64().unwrap() > 0.0);
    }
}

#[test]
fn weakened_problems_are_refused_with_the_reason() {
    for (file, from, to, trivial, reason) in [
        // Zero inputs: the right answer is zero.
        (
            "problem.toml",
            "generator = { kind = \"normal\", mean = 0.0, std = 1.0 }",
            "generator = { kind = \"constant\", value = 0.0 }",
            "zeros",
            "the outputs are zero",
        ),
        // A tolerance that swallows the outputs.
        (
            "problem.toml",
            "[cost]",
            "[tolerance]\nfloor_abs = 10.0\n\n[cost]",
            "zeros",
            "the tolerance is larger",
        ),
        // Noise far above the seed's own error is let through.
        ("problem.toml", "[cost]", "[tolerance]\nk = 1e4\nrms_k = 1e4\n\n[cost]", "noise", "far looser than"),
    ] {
        let c = context("rowscale");
        c.edit(file, from, to).unwrap();
        let ran = c.run(&["check", "."]).unwrap();
        assert_eq!(ran.code, 1, "{to}: {}", ran.snapshot());
        assert!(ran.stdout.starts_with("FAIL"), "{}", ran.stdout);
        assert!(ran.stdout.contains(&format!("accepts `{trivial}`")), "{to}: {}", ran.stdout);
        assert!(ran.stdout.contains(reason), "{to}: {}", ran.stdout);
    }
}

#[test]
fn an_output_that_ignores_its_input_is_refused() {
    let c = context("rowscale");
    for (file, value) in [
        ("seed.c", "tanhf(x[r * cols + c]) * w[r]"),
        ("reference.c", "(float)(tanh((double)x[r * cols + c]) * (double)w[r])"),
    ] {
        c.edit(file, value, "(float)(1 + r + c)").unwrap();
        c.edit(file, "const float *x = call->x.data, *w = call->w.data;", "").unwrap();
    }
    let ran = c.run(&["check", "."]).unwrap();
    assert_eq!(ran.code, 1, "{}", ran.snapshot());
    assert!(ran.stdout.contains("the outputs do not depend on the inputs"), "{}", ran.stdout);
}

#[test]
fn a_broken_seed_is_named() {
    let c = context("rowscale");
    c.edit("seed.c", "c < cols", "c + 1 < cols").unwrap();
    let ran = c.run(&["check", "."]).unwrap();
    assert_eq!(ran.code, 5, "{}", ran.snapshot());
    assert!(ran.stderr.contains("the seed fails as its own candidate"), "{}", ran.stderr);
    assert!(ran.stderr.contains("correct.unwritten"), "{}", ran.stderr);
}

#[test]
fn an_output_that_hides_behind_another_is_refused() {
    let c = context("rowscale");
    // The seed leaves `z` as it was and the reference turns its sign: an error twice the output, which allows anything.
    c.edit(
        "problem.toml",
        "[cost]",
        "[[tensor]]\nname = \"z\"\nrole = \"inout\"\ndtype = \"f32\"\nshape = [\"rows\"]\n\
         generator = { kind = \"normal\", mean = 0.0, std = 1.0 }\n\n[cost]",
    )
    .unwrap();
    c.edit(
        "reference.c",
        "return KS_OK;",
        "for (int64_t r = 0; r < call->z.shape[0]; r++) ((float *)call->z.data)[r] *= -1.0f;\n    return KS_OK;",
    )
    .unwrap();
    let ran = c.run(&["check", "."]).unwrap();
    assert_eq!(ran.code, 1, "{}", ran.snapshot());
    assert!(ran.stdout.contains("`z` may be anything"), "{}", ran.stdout);
    assert!(!ran.stdout.contains("`y` may be anything"), "{}", ran.stdout);
}

#[test]
fn a_yardstick_that_is_too_short_or_too_long_is_pointed_out() {
    // (the seed's value, what is said)
    for (value, said) in [
        ("(float)(tanh((double)x[r * cols + c]) * (double)w[r])", Some("check.exact-seed")),
        ("tanhf(x[r * cols + c]) * w[r] * 1.01f", Some("check.coarse-seed")),
        ("tanhf(x[r * cols + c]) * w[r]", None),
    ] {
        let c = context("rowscale");
        c.edit("problem.toml", "flops = \"rows * cols * 2\"", "flops = \"rows * cols * 20\"").unwrap();
        if said.is_some() {
            c.edit("seed.c", "tanhf(x[r * cols + c]) * w[r]", value).unwrap();
        }
        let ran = c.run(&["check", ".", "--json"]).unwrap();
        assert_eq!(ran.code, 0, "{}", ran.snapshot());
        let report = ran.json().unwrap();
        for s in report["scenarios"].as_array().unwrap() {
            let ids: Vec<&str> =
                s["findings"].as_array().unwrap().iter().filter_map(|f| f["defence"].as_str()).collect();
            assert_eq!(ids, said.into_iter().collect::<Vec<_>>(), "{value}: {s:#}");
        }
    }
}

#[test]
fn held_out_scenarios_can_be_looked_at() {
    let c = context("rowscale");
    let drawn = |args: &[&str]| c.run(&[&["draw"], args].concat()).unwrap();
    let first = drawn(&["--seed", "3", "--share", "2"]);
    assert_eq!((first.code, first.stdout.lines().count()), (0, 6), "{}", first.snapshot());
    assert!(
        first.stdout.lines().all(|l| l.contains("\"held_out\"") && l.contains("drawn from ")),
        "{}",
        first.snapshot()
    );
    assert_eq!(first.stdout, drawn(&["--seed", "3", "--share", "2"]).stdout, "the same seed");
    assert_ne!(first.stdout, drawn(&["--seed", "4", "--share", "2"]).stdout, "another seed");
    let json = drawn(&["--seed", "3", "--share", "2", "--json"]).json().unwrap();
    assert_eq!(json["scenarios"].as_array().unwrap().len(), 6);
    assert_eq!(json["seed"], 3);
    c.edit("problem.toml", "[held_out]", "[held_out_no_more]").unwrap();
    assert_eq!(drawn(&["--seed", "3"]).code, 3);
}
