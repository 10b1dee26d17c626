//! Kernel files: what they say, what is wrong with them, and how a choice is written into them.

#![expect(clippy::unwrap_used, reason = "a test program: a panic is a failed test")]

use kernelseek_core::kernel_file::{
    Choice, Chosen, MOST_ASSIGNMENTS, beside, parse_kernel, routes_beside, text_of, with_choice,
};
use kernelseek_core::problem::{Problem, parse_problem};
use kernelseek_core::value::Value;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

fn problem() -> Problem {
    let text = std::fs::read_to_string(
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../kernelseek/tests/fixtures/tuning/tiles/problem.toml"),
    );
    parse_problem("problem.toml", &text.unwrap()).unwrap()
}

const KERNEL: &str = "format = 1\n\n# how wide\n[[tunable]]\nname = \"tile\"\nvalues = [8, 16, 32]\ndefault = 16\n\
                      where = \"value <= cols\"\n\n[[tunable]]\nname = \"order\"\nvalues = [\"row\", \"column\"]\n\
                      default = \"row\"\n\n[build]\nflags = [\"-O2\"] # slow\nset = { tile = 32 }\n";

#[test]
fn what_it_says_becomes_macros_and_flags() {
    let k = parse_kernel(&problem(), "kernel.toml", KERNEL).unwrap();
    let define = |n: &str, v: &str| (n.to_owned(), Some(v.to_owned()));
    assert_eq!(k.defines(), [define("KS_TILE", "32"), define("KS_ORDER", "row")]);
    assert_eq!(k.chosen.flags, ["-O2"]);
    assert_eq!(k.tuned(true).to_string(), "order=row tile=32 -O2");
    let routed = parse_kernel(&problem(), "kernel.toml", &format!("{KERNEL}routes = true\n")).unwrap();
    assert_eq!(routed.defines(), [define("KS_TILE", "32")]);
    assert_eq!(routed.tuned(true).to_string(), "tile=32 order routed -O2");
}

#[test]
fn a_condition_limits_where_a_value_is_tried() {
    let k = parse_kernel(&problem(), "kernel.toml", KERNEL).unwrap();
    let tile = k.tunable("tile").unwrap();
    let fields = BTreeMap::from([("cols".to_owned(), Value::Int(10))]);
    let permits = |v: i64| tile.permits(&k.source, &Choice::Int(v), &fields).unwrap();
    assert_eq!((permits(8), permits(16), permits(32)), (true, true, false), "the default is exempt");
    let odd = parse_kernel(&problem(), "kernel.toml", &KERNEL.replace("value <= cols", "cols + 1")).unwrap();
    let wrong = odd.tunables[0].permits(&odd.source, &Choice::Int(8), &fields).unwrap_err().to_string();
    assert!(wrong.starts_with("kernel.toml:8:") && wrong.contains("not a bool"), "{wrong}");
}

#[test]
fn what_is_wrong_is_shown_where_it_stands() {
    for (from, to, place, message) in [
        ("format = 1", "format = 3", "1:10", "format 3 is not known"),
        ("default = 16", "default = 17", "7:11", "not among the values"),
        ("[8, 16, 32]", "[8, 16, 16]", "6:18", "stands twice"),
        ("[8, 16, 32]", "[8, 16, \"x\"]", "6:18", "integers or words, not both"),
        ("[8, 16, 32]", "[]", "6:10", "is empty"),
        ("[8, 16, 32]", "[8, 1.5]", "6:14", "an integer or a word"),
        ("[8, 16, 32]", "[8, 99999999999]", "6:14", "an integer value is from"),
        ("\"tile\"", "\"Tile\"", "5:8", "not a lowercase name"),
        ("\"tile\"", "\"ok\"", "5:8", "a meaning of its own"),
        ("\"tile\"", "\"f32\"", "5:8", "a meaning of its own"),
        ("\"order\"", "\"tile\"", "11:8", "a second tunable `tile`"),
        ("\"column\"]", "\"while\"]", "12:18", "a word of C"),
        ("value <= cols", "value <= colz", "8:19", "did you mean `cols`?"),
        ("value <= cols", "value <=", "8:", ""),
        ("\"-O2\"", "\"-include\"", "16:10", "cannot be tuned"),
        ("\"-O2\"", "\"-O2\", \"-O2\"", "16:17", "stands twice"),
        ("{ tile = 32 }", "{ tile = 33 }", "17:16", "not among the values of `tile`"),
        ("{ tile = 32 }", "{ tiles = 32 }", "17:9", "did you mean `tile`?"),
        ("set =", "sett =", "17:1", "did you mean `set`?"),
        ("[build]", "[builds]", "15:2", "did you mean `build`?"),
        ("default = 16\n", "", "4:1", "has no `default`"),
        ("format = 1", "format = ", "1:", "not TOML"),
    ] {
        assert!(KERNEL.contains(from), "{from}");
        let shown =
            parse_kernel(&problem(), "kernel.toml", &KERNEL.replacen(from, to, 1)).unwrap_err().to_string();
        assert!(
            shown.contains(&format!("kernel.toml:{place}")) && shown.contains(message),
            "{from} → {to}: {shown}"
        );
    }
    let many: String = (0..5)
        .map(|i| format!("[[tunable]]\nname = \"t{i}\"\nvalues = [1, 2, 3, 4, 5, 6, 7, 8]\ndefault = 1\n"))
        .collect();
    let shown =
        parse_kernel(&problem(), "kernel.toml", &format!("format = 1\n{many}")).unwrap_err().to_string();
    assert!(shown.contains(&format!("with `t4` there are more than {MOST_ASSIGNMENTS}")), "{shown}");
}

#[test]
fn bytes_that_are_no_text_have_a_place_too() {
    assert!(
        text_of("kernel.toml", &vec![b' '; 300 << 10]).unwrap_err().to_string().contains("more than 262144")
    );
    let shown = text_of("kernel.toml", b"format = 1\n# \xff").unwrap_err().to_string();
    assert!(shown.starts_with("kernel.toml:2:3: not UTF-8"), "{shown}");
    assert_eq!(text_of("kernel.toml", b"a").unwrap(), "a");
}

#[test]
fn flags_that_are_not_on_the_list_are_named() {
    let k = parse_kernel(&problem(), "kernel.toml", KERNEL).unwrap();
    assert_eq!(k.refused_flags(&["-O2".to_owned()]), []);
    let refused = k.refused_flags(&["-O3".to_owned()]);
    assert!(
        refused[0].to_string().starts_with("kernel.toml:16:10: the flag `-O2` is not allowed"),
        "{}",
        refused[0]
    );
    assert!(refused[0].to_string().contains("allowed here: `-O3`"));
    assert!(k.refused_flags(&[])[0].to_string().contains("no flag is allowed"));
}

#[test]
fn it_lies_beside_the_candidate_and_takes_no_other_files_name() {
    assert_eq!(beside(Path::new("a/kernel.c")), Some(PathBuf::from("a/kernel.toml")));
    assert_eq!(routes_beside(Path::new("a/kernel.c")), PathBuf::from("a/kernel_routes.h"));
    for taken in ["campaign.c", "problem.cc", "x/Problem.c"] {
        assert_eq!(beside(Path::new(taken)), None, "{taken}");
    }
}

#[test]
fn a_choice_is_written_and_everything_else_stays() {
    let problem = problem();
    let bare = &KERNEL[..KERNEL.find("[build]").unwrap()];
    let chosen = Chosen {
        set: BTreeMap::from([("order".to_owned(), Choice::Word("column".to_owned()))]),
        routes: true,
        flags: vec!["-O3".to_owned(), "-funroll-loops".to_owned()],
    };
    for text in [
        KERNEL.to_owned(),
        bare.to_owned(),
        format!("{bare}[build]"),
        format!("{bare}[build]\nroutes = false"),
        format!("{bare}# a note\n[build]\n# none yet\n"),
    ] {
        let kernel = parse_kernel(&problem, "kernel.toml", &text).unwrap();
        let edited = with_choice(&problem, &kernel, &chosen).unwrap();
        let back = parse_kernel(&problem, "kernel.toml", &edited).unwrap();
        assert_eq!(back.chosen, chosen, "{edited}");
        for line in text.lines().filter(|l| l.starts_with('#')) {
            assert!(edited.contains(line), "{edited}");
        }
        let again = with_choice(&problem, &back, &kernel.chosen).unwrap();
        assert_eq!(parse_kernel(&problem, "kernel.toml", &again).unwrap().chosen, kernel.chosen);
    }
    let inline = parse_kernel(&problem, "kernel.toml", &format!("build = {{ flags = [] }}\n{bare}")).unwrap();
    let error = with_choice(&problem, &inline, &chosen).unwrap_err().to_string();
    assert!(error.contains("make `[build]` a table"), "{error}");
}

proptest! {
    #[test]
    fn a_mutated_file_never_panics(at in 0usize..400, byte in any::<u8>(), cut in 0usize..200) {
        let mut bytes = KERNEL.as_bytes().to_vec();
        let at = at % bytes.len();
        bytes[at] = byte;
        bytes.truncate(bytes.len().saturating_sub(cut % 80));
        if let Ok(text) = text_of("kernel.toml", &bytes)
            && let Ok(kernel) = parse_kernel(&problem(), "kernel.toml", &text)
        {
            let chosen = Chosen { routes: true, ..Chosen::default() };
            if let Ok(edited) = with_choice(&problem(), &kernel, &chosen) {
                prop_assert_eq!(parse_kernel(&problem(), "kernel.toml", &edited).unwrap().chosen, chosen);
            }
        }
    }
}
