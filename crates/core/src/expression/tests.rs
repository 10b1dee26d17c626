use super::*;

fn evaluator() -> Evaluator {
    let mut e = Evaluator::new().unwrap();
    e.set("n", &Value::Int(7));
    e.set("x", &Value::Float(2.5));
    e.set("s", &Value::String("bf16".into()));
    e.set("b", &Value::Bool(true));
    e.set("none", &Value::Null);
    e.set("lens", &Value::List([3, 0, 5].map(Value::Int).to_vec()));
    e
}

fn run(text: &str) -> Result<Value, String> {
    let parsed = Expression::parse(text, 0..text.len())
        .map_err(|f| format!("{}..{}: {}{}", f.at.start, f.at.end, f.message, hint(f.hint)))?;
    evaluator().evaluate(&parsed).map_err(|e| format!("{}{}", e.message, hint(e.hint)))
}

fn hint(h: Option<String>) -> String {
    h.map_or_else(String::new, |h| format!(" | {h}"))
}

#[test]
fn values() {
    let ints = |v: &[i64]| Value::List(v.iter().copied().map(Value::Int).collect());
    let table: Vec<(&str, Value)> = vec![
        ("n * 2 + 1", Value::Int(15)),
        ("double(n) / 2.0", Value::Float(3.5)),
        ("s == 'bf16' ? 2 : 4", Value::Int(2)),
        ("none == null ? 'f32' : 'f16'", Value::String("f32".into())),
        ("none != null && n > 3", Value::Bool(false)),
        ("sum(lens)", Value::Int(8)),
        ("sum([1.5, 2])", Value::Float(3.5)),
        ("sum([])", Value::Int(0)),
        ("max(lens)", Value::Int(5)),
        ("min(lens)", Value::Int(0)),
        ("max(n, 9)", Value::Int(9)),
        ("min(1.5, 2)", Value::Float(1.5)),
        ("cumsum(lens)", ints(&[0, 3, 3, 8])),
        ("ceil_div(n, 4)", Value::Int(2)),
        ("ceil_div(8, 4)", Value::Int(2)),
        ("ceil_div(-7, 4)", Value::Int(-1)),
        ("fill(3, n)", ints(&[7, 7, 7])),
        ("range(3)", ints(&[0, 1, 2])),
        ("sqrt(double(16))", Value::Float(4.0)),
        ("1.0 / sqrt(4)", Value::Float(0.5)),
        ("pow(2, 10)", Value::Float(1024.0)),
        ("log2(8)", Value::Float(3.0)),
        ("abs(-2)", Value::Float(2.0)),
        ("clamp(12, 0, 9)", Value::Int(9)),
        ("clamp(-2, 0, 9)", Value::Int(0)),
        ("clamp_sum(-1, 4, 0, 2)", Value::Int(3)),
        ("clamp_sum(0, 1000000000, 0, 1000000000)", Value::Int(499_999_999_500_000_000)),
        ("lens.map(l, l * 2)", ints(&[6, 0, 10])),
        ("lens.filter(l, l > 0)", ints(&[3, 5])),
        ("lens.all(l, l >= 0) && lens.exists(l, l == 5)", Value::Bool(true)),
        ("range(size(lens)).map(i, lens[i] + i)", ints(&[3, 1, 7])),
        ("sum(lens.map(l, ceil_div(l, 2)))", Value::Int(5)),
        ("lens.map(a, sum(lens.map(b, a * b)))", ints(&[24, 0, 40])),
        ("3 in lens", Value::Bool(true)),
        ("{'bf16': 2, 'f32': 4}[s]", Value::Int(2)),
        ("int(x) + (b ? 1 : 0)", Value::Int(3)),
        ("s.startsWith('b') && s.contains('16') && s.endsWith('6') && s.size() == 4", Value::Bool(true)),
        ("string(n) + 'x'", Value::String("7x".into())),
        ("bool('true')", Value::Bool(true)),
        ("lens + [1]", ints(&[3, 0, 5, 1])),
        ("-n % 4", Value::Int(-3)),
        ("null", Value::Null),
        ("1e4", Value::Float(1e4)),
        ("b ? [1, 2][0] : 0", Value::Int(1)),
    ];
    for (text, expected) in table {
        assert_eq!(run(text), Ok(expected), "{text}");
    }
}

#[test]
fn faults() {
    let deep = format!("{}1{}", "(".repeat(65), ")".repeat(65));
    let chain = vec!["1"; 300].join(" + ");
    let long = format!("{}1", " ".repeat(2000));
    let table: Vec<(&str, &str)> = vec![
        ("", "0..0: an empty expression"),
        ("n +", "3..3: not an expression: mismatched input 'the end'"),
        ("n * (2", "6..6: not an expression"),
        ("n $ 2", "2..3: not an expression"),
        ("sun(lens)", "0..3: unknown function `sun` | did you mean `sum`?"),
        ("n + fil(3, 1)", "4..7: unknown function `fil` | did you mean `fill`?"),
        ("lens.sum()", "5..8: `sum` is called as `sum(x)`"),
        ("contains('a', 'b')", "0..8: `contains` is called as `x.contains(y)`"),
        ("n.rows", "2..6: `.rows`: values have no fields"),
        ("1u", "0..2: unsigned and bytes literals are not supported"),
        ("max([])", "max: of an empty list"),
        ("max()", "max: is called as `max(list) or max(a, b)`"),
        ("ceil_div(1)", "ceil_div: is called as `ceil_div(a, b)`"),
        ("ceil_div(1, 0)", "ceil_div: wants a positive divisor, not 0"),
        ("sum(n)", "sum: wants a list, not int"),
        ("n * 2.0", "`*` does not take int and double | ints and doubles do not mix: `double(x)` converts"),
        (
            "none + 1",
            "`+` does not take null and int | an optional field is null when the scenario does not give it: test with `== null`",
        ),
        ("n / 0", "division by zero"),
        ("n % 0", "remainder by zero"),
        ("9223372036854775807 + 1", "integer overflow"),
        ("lens[9]", "index out of bounds"),
        ("undefined + 1", "`undefined` has no value here"),
        ("fill(-1, 0)", "fill: wants a length from 0 to 1000000, not -1"),
        ("fill(1000000000000, 0)", "fill: wants a length from 0 to 1000000, not 1000000000000"),
        ("{1: 2}", "an expression must yield a number, bool, string, null or a list of them"),
        (&deep, "64..65: brackets nested more than 64 deep | move parts of it to [let]"),
        (&chain, "0..1197: more than 100 operations nested | move parts of it to [let]"),
        (&long, "0..2001: an expression of 2001 characters | at most 2000; move parts of it to [let]"),
    ];
    for (text, expected) in table {
        let got = run(text).unwrap_err();
        assert!(got.starts_with(expected), "{text}\n  got      {got}\n  expected {expected}");
    }
}

#[test]
fn work_is_bounded() {
    for text in [
        "range(1000000).map(a, range(1000000).map(b, a * b))",
        "range(1000000).map(a, fill(1000000, a))",
        "fill(1000, fill(1000, fill(1000, fill(1000, 0))))",
        "range(100000).map(a, sum(range(1000)))",
        "range(1000).map(a, range(1000).map(b, range(1000).map(c, 1)))",
        "range(1000000).all(a, range(1000000).all(b, true))",
    ] {
        let got = run(text).unwrap_err();
        assert!(got.contains("too much work"), "{text}: {got}");
    }
    assert_eq!(run("fill(1000000, 0) + [1]").unwrap_err(), "a list of more than 1000000 elements");
    assert_eq!(run("size(range(1000000).map(x, x * 2))"), Ok(Value::Int(1_000_000)));
}

#[test]
fn variables_are_collected_without_loop_variables() {
    let e = Expression::parse("lens.map(l, l * n) == [] ? other : 'word n' == s", 0..1).unwrap();
    assert_eq!(e.names().collect::<Vec<_>>(), ["lens", "n", "other", "s"]);
    assert_eq!(find_name("'n' + xn + n", "n"), 11..12);
}

proptest::proptest! {
    #![proptest_config(proptest::test_runner::Config::with_cases(300))]
    #[test]
    fn no_text_panics(parts in proptest::collection::vec(
        proptest::sample::select(vec![
            "n", "lens", "x", "none", "s", "+", "-", "*", "/", "%", "(", ")", "[", "]", "{", "}", "?", ":", ",", ".", "map",
            "filter", "all", "exists", "has", "==", "in", "!", "&&", "||", "1", "0.5", "'a'", "\"", "'", "sum(", "fill(", "range(",
            "max(", "cumsum(", "size(", " ", "\\", "ü", "9999999999999999999", "b'x'", "1u", "null", "<", "@result", "`", "//", "r'",
        ]), 0..24))
    {
        let _ = run(&parts.concat());
    }
}
