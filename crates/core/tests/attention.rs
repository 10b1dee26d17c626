//! The attention problem: its grid resolves, and its cost model agrees with the grid's own numbers.

#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use kernelseek_core::case::{AttributeValue, Case, Generator, Role};
use kernelseek_core::dtype::DType;
use kernelseek_core::held_out::draw;
use kernelseek_core::problem::{Problem, parse_problem};
use kernelseek_core::resolve::resolve;
use kernelseek_core::scenario::{Scenario, of_set, parse_scenarios};
use kernelseek_core::value::Value;
use std::path::PathBuf;

/// Where the problem of a GPU is.
const GPU: &str = "cuda/attention_forward/";

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../problems")
}

fn read(name: &str) -> String {
    std::fs::read_to_string(folder().join(name)).unwrap()
}

fn problem_in(folder: &str) -> Problem {
    let file = format!("{folder}problem.toml");
    parse_problem(&file, &read(&file)).unwrap_or_else(|e| panic!("{e}"))
}

/// The problem of the CPU, which the grid is no part of.
fn on_cpu() -> Problem {
    problem_in("attention_forward/")
}

/// That of a GPU.
fn problem() -> Problem {
    problem_in(GPU)
}

fn grid(problem: &Problem) -> Vec<Scenario> {
    let name = format!("{GPU}hopper182.jsonl");
    parse_scenarios(problem, &name, &read(&name)).unwrap_or_else(|e| panic!("{e}"))
}

fn attribute(case: &Case, name: &str) -> AttributeValue {
    case.attributes.iter().find(|(n, _)| n == name).unwrap().1
}

#[test]
fn the_grid_resolves_and_its_cost_is_the_expected_one() {
    let problem = problem();
    let scenarios = grid(&problem);
    assert_eq!(scenarios.len(), 182);
    assert_eq!(scenarios.iter().filter(|s| s.tags.iter().any(|t| t == "core26")).count(), 26);
    let expected: serde_json::Value =
        serde_json::from_str(&read(&format!("{GPU}hopper182.expected.json"))).unwrap();
    for (scenario, expected) in scenarios.iter().zip(expected.as_array().unwrap()) {
        assert_eq!(scenario.id, expected["id"]);
        let case = resolve(&problem, scenario).unwrap_or_else(|e| panic!("{e}"));
        let flops: f64 = format!("{:.3e}", case.flops.unwrap()).parse().unwrap();
        assert_eq!(flops, expected["flops"].as_f64().unwrap(), "flops of {}", case.id);
        assert_eq!(case.bytes, expected["bytes"].as_f64(), "bytes of {}", case.id);
        let total_q = expected["total_q"].as_i64().unwrap();
        assert_eq!(attribute(&case, "total_q"), AttributeValue::I64(total_q), "total_q of {}", case.id);
        let heads = case.tensor("out").unwrap();
        assert_eq!(heads.shape[..heads.shape.len() - 2].iter().product::<i64>(), total_q);
        if case.tensor("page_table").unwrap().storage.is_none() {
            let k = case.tensor("k").unwrap();
            let total_k = k.shape[..k.shape.len() - 2].iter().product::<i64>();
            assert_eq!(total_k, expected["total_k"].as_i64().unwrap(), "total_k of {}", case.id);
        }
    }
}

/// The scenario with every length divided by `n`, rounded up, so that a reference can compute it.
fn shrunk(scenario: &Scenario, n: i64) -> Scenario {
    let divided = |v: &Value| match v {
        Value::Int(i) => Value::Int((i + n - 1) / n),
        Value::List(items) => Value::List(
            items
                .iter()
                .map(|v| match v {
                    Value::Int(i) => Value::Int((i + n - 1) / n),
                    other => other.clone(),
                })
                .collect(),
        ),
        other => other.clone(),
    };
    let mut small = scenario.clone();
    for name in ["Sq", "Skv", "q_lens", "kv_lens", "leftpad"] {
        let value = divided(&small.values[name]);
        small.values.insert(name.to_owned(), value);
    }
    // A sequence keeps at least one key where it had one.
    if let (Value::List(keys), Value::List(pad)) =
        (small.values["kv_lens"].clone(), &mut small.values.get_mut("leftpad").unwrap())
    {
        for (pad, keys) in pad.iter_mut().zip(&keys) {
            if let (Value::Int(p), Value::Int(k)) = (&mut *pad, keys) {
                *p = (*p).min((k - 1).max(0));
            }
        }
    }
    small
}

#[test]
fn the_grid_resolves_at_a_sixteenth_of_the_lengths() {
    let problem = problem();
    for scenario in grid(&problem) {
        let case = resolve(&problem, &shrunk(&scenario, 16)).unwrap_or_else(|e| panic!("{e}"));
        let full = resolve(&problem, &scenario).unwrap();
        assert!(case.slot_bytes() <= full.slot_bytes());
        assert!(case.slot_bytes() < 1 << 28, "{} takes {}", case.id, case.slot_bytes());
    }
}

#[test]
fn layouts_become_the_tensors_they_promise() {
    let problem = problem();
    let scenarios = grid(&problem);
    let case = |id: &str| resolve(&problem, scenarios.iter().find(|s| s.id == id).unwrap()).unwrap();
    let present = |case: &Case| -> Vec<String> {
        case.tensors.iter().filter(|t| t.is_present()).map(|t| t.name.clone()).collect()
    };

    let dense = case("H001");
    assert_eq!(present(&dense), ["q", "k", "v", "out", "lse"]);
    assert_eq!(dense.tensor("q").unwrap().shape, [32, 512, 16, 128]);
    assert_eq!(dense.tensor("lse").unwrap().shape, [32, 16, 512]);
    assert_eq!(dense.tolerance[0], None);
    let out = dense.tolerance[13].as_ref().unwrap();
    assert_eq!((out.k, out.rms_k, out.floor_abs, out.rel_rms_max), (2.0, 1.5, 1e-5, Some(5e-3)));
    let lse = dense.tolerance[14].as_ref().unwrap();
    assert!(lse.nonfinite_matches && lse.rel_rms_max.is_none() && lse.floor_abs == 1e-3);

    let varlen = case("H094");
    assert_eq!(present(&varlen), ["q", "k", "v", "cu_seqlens_q", "cu_seqlens_k", "out", "lse"]);
    assert_eq!(varlen.tensor("lse").unwrap().shape, [16, 4106]);
    assert_eq!(
        varlen.tensor("cu_seqlens_q").unwrap().generator,
        Some(Generator::RowOffsets { lengths: vec![0, 700, 1, 0, 1024, 333, 0, 2048] })
    );

    let padded = case("H102");
    assert_eq!(present(&padded), ["q", "k", "v", "seqused_q", "seqused_k", "out", "lse"]);

    let leftpad = case("H120");
    assert_eq!(present(&leftpad), ["q", "k", "v", "seqused_k", "leftpad_k", "out", "lse"]);
    let garbage = leftpad.tensor("k").unwrap().garbage.clone().unwrap();
    assert_eq!((garbage.start[1], garbage.end[1], garbage.value, garbage.table), (279, 1024, 1e4, None));

    let paged = case("H178");
    assert_eq!(present(&paged), ["q", "k", "v", "seqused_k", "page_table", "out", "lse"]);
    let k = paged.tensor("k").unwrap();
    let Some(Generator::PageTable { pool, used }) = &paged.tensor("page_table").unwrap().generator else {
        panic!()
    };
    assert!(*pool as f64 >= 1.25 * used.iter().sum::<i64>() as f64);
    assert_eq!(k.shape, [*pool, 4, 2, 128]);
    assert_eq!(k.garbage.as_ref().unwrap().table.as_deref(), Some("page_table"));
    assert_eq!(used, &[0, 1, 2, 128, 0, 32, 32, 33]);

    let packed = case("H179");
    assert_eq!(packed.storages[0].name, "qkv");
    assert_eq!(packed.storages[0].elements, 4 * 1000 * 3 * 12 * 64);
    let k = packed.tensor("k").unwrap();
    assert_eq!((k.storage, k.offset, k.stride.clone()), (Some(0), 768, vec![2_304_000, 2304, 64, 1]));

    let fp8 = case("H181");
    assert_eq!(fp8.tensor("q").unwrap().dtype, DType::F8E4m3);
    assert_eq!(fp8.tensor("out").unwrap().dtype, DType::Bf16);
    assert_eq!(fp8.tensor("k_descale").unwrap().shape, [2, 2]);

    // q, k and v: deviation and outliers where the grid names them; eight-bit caches have heavy keys and values that do not cancel.
    let normal = |mean, std, outliers| Some(Generator::Normal { mean, std, outliers });
    for (id, [q, k, v]) in [
        ("H043", [normal(0.0, 1.0, None), normal(0.0, 1.0, None), normal(0.0, 1.0, None)]),
        ("H160", [normal(0.0, 1.0, None), normal(0.0, 1.0, Some(20.0)), normal(1.0, 1.0, None)]),
        ("H162", [normal(0.0, 1.0, None), normal(0.0, 1.0, Some(20.0)), normal(1.0, 1.0, None)]),
        ("H180", [normal(0.0, 8.0, None), normal(0.0, 1.0, Some(20.0)), normal(0.0, 1.0, None)]),
        ("H181", [normal(0.0, 1.0, Some(20.0)), normal(0.0, 1.0, Some(20.0)), normal(0.0, 1.0, Some(20.0))]),
    ] {
        let case = case(id);
        let drawn = ["q", "k", "v"].map(|name| case.tensor(name).unwrap().generator.clone());
        assert_eq!(drawn, [q, k, v], "{id}");
    }

    let sink = case("H182");
    assert_eq!(sink.tensor("sink").unwrap().generator, Some(Generator::Uniform { lo: 4.0, hi: 12.0 }));
}

/// A kernel that runs one is called as the other calls it, and their scenarios cost the same.
#[test]
fn both_targets_have_one_signature_and_one_cost() {
    let (cpu, gpu) = (on_cpu(), problem());
    let members = |problem: &Problem| -> Vec<(String, Role, String)> {
        let tensors = problem.tensors.iter().map(|t| (t.name.clone(), t.role, t.shape.to_string()));
        let scalars = problem
            .attributes
            .iter()
            .map(|a| (a.name.clone(), Role::Constant, format!("{:?} {}", a.kind, a.value.text())));
        tensors.chain(scalars).collect()
    };
    assert_eq!(members(&cpu), members(&gpu));
    for scenario in &grid(&gpu) {
        let (a, b) = (resolve(&cpu, scenario).unwrap(), resolve(&gpu, scenario).unwrap());
        assert_eq!((a.flops, a.bytes), (b.flops, b.bytes), "{}", scenario.id);
        assert_eq!(a.attributes, b.attributes, "{}", scenario.id);
        for (x, y) in a.tensors.iter().zip(&b.tensors) {
            assert_eq!((x.dtype, &x.shape, &x.stride, x.offset), (y.dtype, &y.shape, &y.stride, y.offset));
            assert_eq!((&x.generator, &x.garbage), (&y.generator, &y.garbage), "{} {}", scenario.id, x.name);
        }
    }
}

#[test]
fn sets_are_the_scenarios_with_their_tag() {
    let problem = problem();
    let set = |name: &str| {
        let (_, file) = problem.scenarios.files.iter().find(|(n, _)| n == name).unwrap();
        of_set(&problem, file, &file.path, &read(&format!("{GPU}{}", file.path))).unwrap()
    };
    assert_eq!((set("hopper182").len(), set("core26").len(), set("smoke").len()), (182, 26, 12));
    // The quick scenarios are the smoke set: every layout, dtype and mask in a few milliseconds.
    let mut quick: Vec<String> = problem.scenarios.quick.iter().map(|q| q.id.clone()).collect();
    quick.sort();
    assert_eq!(quick, set("smoke").iter().map(|s| s.id.clone()).collect::<Vec<_>>());
    let smoke = set("smoke");
    let all = |name: &str| smoke.iter().map(|s| s.values[name].clone()).collect::<Vec<_>>();
    for layout in ["dense", "varlen", "kvcache", "paged"] {
        assert!(all("layout").contains(&Value::String(layout.into())), "{layout}");
    }
    for dtype in ["bf16", "f16", "f8e4m3"] {
        assert!(all("dtype").contains(&Value::String(dtype.into())), "{dtype}");
    }
    for given in ["leftpad", "window", "q_lens"] {
        assert!(all(given).iter().any(|v| *v != Value::Null), "{given}");
    }
}

/// A twin of the grid: every scenario once, in other lengths that no tile divides.
#[test]
fn a_twin_of_the_grid_keeps_its_features() {
    let problem = problem();
    let base = grid(&problem);
    for seed in [1, 2] {
        let twin = draw(&problem, &base, seed, 1.0).unwrap();
        let origin = |s: &Scenario| s.note.clone().unwrap().split(' ').next_back().unwrap().to_owned();
        let mut origins: Vec<String> = twin.iter().map(origin).collect();
        origins.sort();
        assert_eq!(origins, base.iter().map(|s| s.id.clone()).collect::<Vec<_>>());
        for drawn in &twin {
            let old = base.iter().find(|s| s.id == origin(drawn)).unwrap();
            let int = |s: &Scenario, name: &str| s.values[name].as_int().unwrap();
            assert!((int(drawn, "B") - int(old, "B")).abs() <= 1, "{}", drawn.id);
            for name in ["Sq", "Skv"] {
                let (new, was) = (int(drawn, name), int(old, name));
                assert!(new % 2 == 1 && (new - was).abs() as f64 <= 0.1 * was as f64 + 1.5, "{new} of {was}");
            }
            if old.values["Sq"] == old.values["Skv"] {
                assert_eq!(drawn.values["Sq"], drawn.values["Skv"]);
            }
            for name in ["q_lens", "kv_lens", "leftpad"] {
                assert_eq!(
                    drawn.values[name] == Value::Null,
                    old.values[name] == Value::Null,
                    "{}",
                    drawn.id
                );
                if let Some(list) = drawn.values[name].as_int_list() {
                    assert_eq!(list.len() as i64, int(drawn, "B"), "{} {name}", drawn.id);
                }
            }
            if old.values["q_lens"] == old.values["kv_lens"] {
                assert_eq!(drawn.values["q_lens"], drawn.values["kv_lens"], "{}", drawn.id);
            }
            assert!(resolve(&problem, drawn).unwrap().slot_bytes() < 6 << 30, "{}", drawn.id);
        }
    }
}

#[test]
fn a_short_line_means_a_dense_f32_scenario() {
    let problem = on_cpu();
    let line = r#"{"id":"dense_128","B":1,"Hq":4,"Hkv":2,"Sq":128,"Skv":128,"D":64,"causal":true}"#;
    let scenario = &parse_scenarios(&problem, "cpu.jsonl", line).unwrap()[0];
    let case = resolve(&problem, scenario).unwrap();
    assert_eq!(case.tensor("q").unwrap().dtype, DType::F32);
    assert_eq!(attribute(&case, "softmax_scale"), AttributeValue::F64(0.125));
    assert_eq!(attribute(&case, "window_left"), AttributeValue::I64(-1));
    assert_eq!(case.flops, Some(2.0 * (128.0 * 129.0 / 2.0) * 4.0 * 128.0));
    assert_eq!(case.bytes, Some(f64::from(128 * 2 * 128 * 4 + 128 * 4 * (64 * 4 + 64 * 4 + 4))));
    let tolerance = case.tolerance[13].as_ref().unwrap();
    assert_eq!(
        (tolerance.k, tolerance.rms_k, tolerance.floor_ulps, tolerance.rel_rms_max),
        (4.0, 3.0, 4.0, None)
    );
}

#[test]
fn held_out_lines_are_drawn_from_every_layout() {
    let problem = on_cpu();
    let lines = [
        r#"{"id":"dense_128","B":1,"Hq":4,"Hkv":2,"Sq":128,"Skv":128,"D":64,"causal":true}"#,
        r#"{"id":"window","B":1,"Hq":2,"Hkv":2,"Sq":113,"Skv":203,"D":40,"causal":true,"window":[64,0]}"#,
        r#"{"id":"ragged","B":4,"Hq":4,"Hkv":1,"Sq":90,"Skv":90,"D":64,"layout":"varlen","q_lens":[90,0,7,33],"kv_lens":[90,0,7,33]}"#,
        r#"{"id":"decode","B":3,"Hq":4,"Hkv":2,"Sq":1,"Skv":256,"D":80,"layout":"kvcache","kv_lens":[256,100,31]}"#,
    ];
    let base = parse_scenarios(&problem, "cpu.jsonl", &lines.join("\n")).unwrap();
    let drawn = draw(&problem, &base, 11, 3.0).unwrap();
    assert_eq!(drawn.len(), 12);
    for s in &drawn {
        let case = resolve(&problem, s).unwrap();
        if s.note.as_deref() == Some("drawn from ragged") {
            assert_eq!(s.values["q_lens"].as_int_list().unwrap()[1], 0, "an empty sequence stays empty");
        }
        if s.note.as_deref() == Some("drawn from decode") {
            assert_eq!(case.tensor("q").unwrap().shape[1], 1);
        }
    }
}

#[test]
fn lengths_that_leave_the_padding_are_refused() {
    let problem = problem();
    for (line, part) in [
        (r#""Sq":4,"Skv":8,"q_lens":[3,5],"kv_lens":[8,8]"#, "`q`: garbage: row 1 uses [0, 5) of [0, 4)"),
        (r#""Sq":4,"Skv":8,"q_lens":[3,4],"kv_lens":[8,9]"#, "`k`: garbage: row 1 uses [0, 9) of [0, 8)"),
    ] {
        let line = format!(r#"{{"id":"s","B":2,"Hq":1,"Hkv":1,"D":8,"layout":"kvcache",{line}}}"#);
        let scenarios = parse_scenarios(&problem, "cpu.jsonl", &line).unwrap();
        let error = resolve(&problem, &scenarios[0]).unwrap_err();
        assert!(error.message.starts_with(part), "{error}");
    }
}
