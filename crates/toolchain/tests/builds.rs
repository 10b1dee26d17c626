//! Builds with the machine's own compiler; skipped without one.

#![expect(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "helpers of tests fail by panicking and say what they skip"
)]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use kernelseek_inspect::{PathClass, Policy, facts, findings};
use kernelseek_toolchain::{
    Build, BuildCommand, BuildError, Builder, Cache, CommandOutput, Exit, Recipe, RecipeFile, RunnerError,
    SearchPlaces, Toolchain, discover,
};

fn toolchain() -> Option<&'static Toolchain> {
    static FOUND: OnceLock<Option<Toolchain>> = OnceLock::new();
    FOUND
        .get_or_init(|| {
            let path = std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()).collect();
            let found = discover(&SearchPlaces { path, ..SearchPlaces::default() });
            if let Err(error) = &found {
                eprintln!("skipped: {error}");
            }
            found.ok().filter(|t| t.cc.is_some() && t.cxx.is_some())
        })
        .as_ref()
}

/// Runs commands as they are, for tests only.
fn unconfined(command: &BuildCommand) -> Result<CommandOutput, RunnerError> {
    use std::os::unix::process::ExitStatusExt as _;
    let output = Command::new(&command.program)
        .args(&command.args)
        .current_dir(&command.cwd)
        .env_clear()
        .envs(command.env.iter().cloned())
        .stdin(Stdio::null())
        .output()
        .map_err(|e| RunnerError(e.into()))?;
    let exit = match output.status.code() {
        Some(code) => Exit::Code(code),
        None => Exit::Signal(output.status.signal().unwrap_or_default()),
    };
    Ok(CommandOutput { exit, stdout: output.stdout, stderr: output.stderr })
}

/// A workspace, a cache, and a count of the commands that ran.
struct Bench {
    folder: tempfile::TempDir,
    cache: Cache,
    runs: Arc<AtomicUsize>,
    toolchain: &'static Toolchain,
}

impl Bench {
    fn new(files: &[(&str, &str)]) -> Option<Self> {
        let toolchain = toolchain()?;
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::open(folder.path().join("cache")).unwrap();
        let bench = Self { folder, cache, runs: Arc::default(), toolchain };
        for (name, text) in files {
            bench.write(name, text);
        }
        Some(bench)
    }

    fn workspace(&self) -> PathBuf {
        self.folder.path().join("ws")
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.workspace().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn try_build(&self, recipe: &Recipe) -> Result<Build, BuildError> {
        let runs = Arc::clone(&self.runs);
        let counted = move |command: &BuildCommand| {
            runs.fetch_add(1, Ordering::SeqCst);
            unconfined(command)
        };
        Builder::new(counted).build(self.toolchain, recipe, &self.workspace(), &self.cache)
    }

    fn build(&self, recipe: &Recipe) -> Build {
        self.try_build(recipe).unwrap_or_else(|e| panic!("{e}: {e:?}"))
    }

    fn ran(&self) -> usize {
        self.runs.swap(0, Ordering::SeqCst)
    }
}

fn recipe(sources: &[&str]) -> Recipe {
    Recipe {
        sources: sources.iter().map(PathBuf::from).collect(),
        flags: vec!["-O2".into()],
        ..Recipe::default()
    }
}

const KERNEL: (&str, &str) =
    ("op.c", "#include <math.h>\n#include \"k.h\"\nint op(float x) { return (int)sinf(x) + K; }\n");

#[test]
fn a_build_is_made_once() {
    let Some(bench) = Bench::new(&[KERNEL, ("k.h", "#define K 1\n")]) else { return };
    let first = bench.build(&recipe(&["op.c"]));
    assert_eq!((first.cached, bench.ran()), (false, 2));
    let again = bench.build(&recipe(&["op.c"]));
    assert_eq!((again.cached, bench.ran()), (true, 0));
    assert_eq!(Build { cached: true, ..first.clone() }, again);

    let facts = facts(&std::fs::read(&first.artifact).unwrap()).unwrap();
    assert_eq!(findings(&facts, &first.closure, &Policy::cpu("op")), []);
    let names: Vec<_> = first.sources.iter().map(|f| f.name.as_str()).collect();
    assert_eq!(names, ["op.c", "k.h"]);
    assert!(first.closure.of(PathClass::System).any(|h| h.path.ends_with("math.h")));
    for name in names {
        let (copy, own) = (first.stored_sources.join("workspace").join(name), bench.workspace().join(name));
        assert_eq!(std::fs::read(copy).unwrap(), std::fs::read(own).unwrap());
    }
    let text = first.argv.concat().join(" ");
    for part in ["-shared", "-fPIC", "-MD", "-MF", "-fvisibility=default", "-O2"] {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert!(!text.contains(bench.folder.path().to_str().unwrap()), "{text}");
}

#[test]
fn a_header_is_part_of_the_candidate() {
    let Some(bench) = Bench::new(&[KERNEL, ("k.h", "#define K 1\n")]) else { return };
    let recipe = recipe(&["op.c"]);
    let one = bench.build(&recipe);
    bench.write("k.h", "#define K 2\n");
    let two = bench.build(&recipe);
    assert!(!two.cached && one.candidate != two.candidate && one.artifact_hash != two.artifact_hash);
    bench.ran();
    // Back and forth: both are known.
    for (text, build) in [("#define K 1\n", &one), ("#define K 2\n", &two)] {
        bench.write("k.h", text);
        let again = bench.build(&recipe);
        assert_eq!((again.cached, &again.candidate, bench.ran()), (true, &build.candidate, 0));
    }
    bench.write("op.c", &KERNEL.1.replace("+ K", "- K"));
    assert!(!bench.build(&recipe).cached);
    std::fs::remove_file(bench.workspace().join("k.h")).unwrap();
    assert!(matches!(bench.try_build(&recipe), Err(BuildError::Compile { .. })));
}

#[test]
fn a_header_that_would_be_found_first_is_a_miss() {
    let files = [("src/op.c", "#include <k.h>\nint op(void) { return K; }\n"), ("b/k.h", "#define K 1\n")];
    let Some(bench) = Bench::new(&files) else { return };
    std::fs::create_dir(bench.workspace().join("a")).unwrap();
    let recipe = Recipe { include_dirs: vec!["a".into(), "b".into()], ..recipe(&["src/op.c"]) };
    let one = bench.build(&recipe);
    assert!(bench.build(&recipe).cached);
    bench.write("a/k.h", "#define K 2\n");
    let two = bench.build(&recipe);
    assert!(!two.cached && one.candidate != two.candidate);
}

#[test]
fn every_part_of_the_recipe_counts() {
    let Some(bench) = Bench::new(&[("op.c", "int op(void) { return 1; }\n"), ("x.c", "int x;\n")]) else {
        return;
    };
    let base = recipe(&["op.c"]);
    let variants = [
        base.clone(),
        Recipe { defines: vec![("N".into(), Some("1".into()))], ..base.clone() },
        Recipe { defines: vec![("N".into(), None)], ..base.clone() },
        Recipe { flags: vec!["-O1".into()], ..base.clone() },
        Recipe { link: vec!["-lm".into()], ..base.clone() },
        Recipe { include_dirs: vec![".".into()], ..base },
        recipe(&["op.c", "x.c"]),
        recipe(&["x.c", "op.c"]),
    ];
    let mut seen = std::collections::HashSet::new();
    for variant in &variants {
        let build = bench.build(variant);
        assert!(!build.cached && seen.insert(build.candidate), "{variant:?}");
    }
    bench.ran();
    assert!(variants.iter().all(|v| bench.build(v).cached) && bench.ran() == 0);
}

#[test]
fn a_file_that_the_recipe_was_read_from_is_a_source_and_what_was_read_counts() {
    let Some(bench) = Bench::new(&[("op.c", "int op(void) { return 1; }\n"), ("op.toml", "one")]) else {
        return;
    };
    let with = |contents: &[u8]| Recipe {
        file: Some(RecipeFile { name: "op.toml".into(), contents: contents.to_vec() }),
        ..recipe(&["op.c"])
    };
    let (plain, one) = (bench.build(&recipe(&["op.c"])), bench.build(&with(b"one")));
    assert_ne!(plain.candidate, one.candidate);
    let names: Vec<_> = one.sources.iter().map(|f| f.name.as_str()).collect();
    assert_eq!(names, ["op.c", "op.toml"]);
    assert_eq!(std::fs::read(one.stored_sources.join("workspace/op.toml")).unwrap(), b"one");
    assert!(bench.build(&with(b"one")).cached);
    // Changed after it was read: the build is of what was read, and is not taken for one of what lies there now.
    bench.write("op.toml", "two");
    let raced = bench.build(&with(b"one"));
    assert_eq!((raced.cached, raced.candidate), (false, one.candidate.clone()));
    let two = bench.build(&with(b"two"));
    assert!(!two.cached && two.candidate != one.candidate);
    assert!(bench.build(&recipe(&["op.c"])).cached, "without it nothing has changed");
}

#[test]
fn the_place_of_the_workspace_does_not_count() {
    let files = [KERNEL, ("k.h", "#define K 1\n")];
    let (Some(a), Some(b)) = (Bench::new(&files), Bench::new(&files)) else { return };
    let (one, two) = (a.build(&recipe(&["op.c"])), b.build(&recipe(&["op.c"])));
    assert_eq!((one.candidate, one.artifact_hash), (two.candidate, two.artifact_hash));
    // The same files in another workspace over the same cache need no compiler.
    let moved = Bench { cache: a.cache, ..b };
    assert!(moved.build(&recipe(&["op.c"])).cached);
}

#[test]
fn offered_headers_count_but_not_their_place() {
    let source = ("op.c", "#include \"call.h\"\n#include <second.h>\nint op(void) { return K + L; }\n");
    let Some(bench) = Bench::new(&[source]) else { return };
    let offer = |name: &str, k: &str| {
        let folder = bench.folder.path().join(name);
        for (sub, file, text) in
            [("1", "call.h", k), ("2", "second.h", "#define L 1\n"), ("2", "call.h", "#error\n")]
        {
            std::fs::create_dir_all(folder.join(sub)).unwrap();
            std::fs::write(folder.join(sub).join(file), text).unwrap();
        }
        Recipe { include_dirs: vec![folder.join("1"), folder.join("2")], ..recipe(&["op.c"]) }
    };
    let one = bench.build(&offer("x", "#define K 1\n"));
    assert_eq!(one.closure.of(PathClass::Offered).count(), 2);
    assert_eq!(
        one.sources.iter().map(|f| f.name.as_str()).collect::<Vec<_>>(),
        ["op.c", "1/call.h", "2/second.h"]
    );
    assert_eq!(one.candidate, bench.build(&offer("y", "#define K 1\n")).candidate);
    let changed = bench.build(&offer("x", "#define K 2\n"));
    assert!(!changed.cached && changed.candidate != one.candidate);
    // A folder of the workspace given by its absolute path is the workspace's.
    bench.write("inc/call.h", "#define K 3\n#define L 3\n");
    bench.write("inc/second.h", "");
    let build =
        bench.build(&Recipe { include_dirs: vec![bench.workspace().join("inc")], ..recipe(&["op.c"]) });
    assert_eq!(build.closure.of(PathClass::Offered).count(), 0);
}

#[test]
fn what_lies_outside_is_seen() {
    let Some(bench) =
        Bench::new(&[("op.c", "#include \"../out/o.h\"\n#include \"link.h\"\nint op(void) { return K; }\n")])
    else {
        return;
    };
    bench.write("../out/o.h", "#define K 1\n");
    bench.write("../out/linked.h", "\n");
    std::os::unix::fs::symlink("../out/linked.h", bench.workspace().join("link.h")).unwrap();
    let build = bench.build(&recipe(&["op.c"]));
    let outside: Vec<_> = build.closure.of(PathClass::Outside).collect();
    assert_eq!(outside.len(), 2);
    let facts = facts(&std::fs::read(&build.artifact).unwrap()).unwrap();
    let found = findings(&facts, &build.closure, &Policy::cpu("op"));
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].defence, "allowed.header");
    // Project files all the same: a change is another candidate.
    bench.write("../out/o.h", "#define K 2\n");
    assert_ne!(bench.build(&recipe(&["op.c"])).candidate, build.candidate);
}

#[test]
fn a_file_that_only_the_assembler_reads_counts() {
    let source =
        "asm(\".section .rodata\\nblob: .incbin \\\"blob.bin\\\"\\n.text\");\nint op(void) { return 0; }\n";
    let Some(bench) = Bench::new(&[("op.c", source), ("blob.bin", "one")]) else { return };
    if bench.toolchain.cc.as_ref().unwrap().family != kernelseek_toolchain::Family::Gcc {
        return;
    }
    let one = bench.build(&recipe(&["op.c"]));
    assert!(one.sources.iter().any(|f| f.name == "blob.bin"), "{:?}", one.sources);
    bench.write("blob.bin", "two");
    assert_ne!(bench.build(&recipe(&["op.c"])).candidate, one.candidate);
}

#[test]
fn errors_point_into_the_source() {
    let Some(bench) = Bench::new(&[("sub/op.c", "int op(void) {\n    return missing;\n}\n")]) else { return };
    let error = bench.try_build(&recipe(&["sub/op.c"])).unwrap_err();
    assert!(error.to_string().starts_with("sub/op.c:2:12: 'missing' undeclared"), "{error}");
    let BuildError::Compile { first, text, argv } = error else { panic!("{error:?}") };
    assert_eq!(first.unwrap().line, 2);
    assert!(text.contains("missing") && argv[0] == "cc");
    // The linker's words too.
    bench.write("sub/op.c", "int op(void) { return 0; }\n");
    let link = Recipe { link: vec!["-lno-such-library".into()], ..recipe(&["sub/op.c"]) };
    let error = bench.try_build(&link).unwrap_err();
    assert!(error.to_string().contains("no-such-library"), "{error}");
    // Endless messages are cut.
    let mut flood = String::from("int op(void) {\n");
    for i in 0..5000 {
        flood += &format!("missing_name_number_{i};\n");
    }
    bench.write("sub/op.c", &(flood + "}\n"));
    let Err(BuildError::Compile { text, .. }) = bench.try_build(&recipe(&["sub/op.c"])) else { panic!() };
    assert!(text.len() <= kernelseek_toolchain::diagnostics::TEXT_LIMIT && text.contains("not shown"));
    // Warnings of a build that succeeds are kept, and come back from the cache.
    bench.write("sub/op.c", "int op(void) { int unused; return 0; }\n");
    let warned = Recipe { flags: vec!["-Wall".into()], ..recipe(&["sub/op.c"]) };
    assert!(bench.build(&warned).diagnostics.contains("unused"));
    assert!(bench.build(&warned).diagnostics.contains("unused"));
}

#[test]
fn sources_that_are_not_there_or_not_ours() {
    let Some(bench) = Bench::new(&[("op.c", "")]) else { return };
    assert!(matches!(bench.try_build(&recipe(&["no.c"])), Err(BuildError::Io { .. })));
    assert!(matches!(bench.try_build(&recipe(&["../op.c"])), Err(BuildError::OutsideWorkspace { .. })));
    assert!(matches!(
        bench.try_build(&recipe(&["op.rs"])),
        Err(BuildError::Unsupported { language: "Rust", .. })
    ));
    let error = bench.try_build(&recipe(&["op.cu"])).unwrap_err();
    assert!(error.to_string().contains("op.cu: no GPU architecture is named"), "{error}");
    assert_eq!(bench.ran(), 0);
    bench.write("-o.c", "int op(void) { return 0; }\n");
    bench.write("@a b.c", "int q;\n");
    assert_eq!(bench.build(&recipe(&["-o.c", "@a b.c"])).sources.len(), 2);
}

#[test]
fn languages_mix() {
    let files = [
        ("op.c", "int helper(int);\nint op(int x) { return helper(x); }\n"),
        (
            "helper.cpp",
            "#include <vector>\nextern \"C\" int helper(int x) { return (int)std::vector<int>(x).size(); }\n",
        ),
    ];
    let Some(bench) = Bench::new(&files) else { return };
    let build = bench.build(&recipe(&["op.c", "helper.cpp"]));
    let drivers: Vec<_> = build.argv.iter().map(|a| a[0].as_str()).collect();
    assert_eq!(drivers, ["cc", "c++", "c++"]);
    let facts = facts(&std::fs::read(&build.artifact).unwrap()).unwrap();
    assert_eq!(findings(&facts, &build.closure, &Policy::cpu("op")), []);
}

#[test]
fn native_is_resolved() {
    let Some(bench) = Bench::new(&[("op.c", "int op(void) { return 0; }\n")]) else { return };
    let flags = ["-O3", "-march=native", "-fno-math-errno"].map(String::from).to_vec();
    let native = Recipe { flags, ..recipe(&["op.c"]) };
    let one = bench.build(&native);
    let text = one.flags.join(" ");
    assert!(!text.contains("native") && text.contains("-march="), "{text}");
    assert!(!one.argv.concat().iter().any(|a| a.contains("native")));
    assert_eq!(
        (one.flags.first().unwrap().as_str(), one.flags.last().unwrap().as_str()),
        ("-O3", "-fno-math-errno")
    );
    // The resolved flags by themselves are the same build.
    let spelled = bench.build(&Recipe { flags: one.flags.clone(), ..native.clone() });
    assert_eq!((spelled.candidate, spelled.cached), (one.candidate.clone(), true));
    // And they mean the same to the compiler: the same macros.
    let macros = |flags: &[String]| {
        let cc = &bench.toolchain.cc.as_ref().unwrap().program;
        let out = Command::new(cc).args(flags).args(["-dM", "-E", "-x", "c", "/dev/null"]).output().unwrap();
        assert!(out.status.success());
        out.stdout
    };
    assert_eq!(macros(&native.flags), macros(&one.flags));
}

#[test]
fn damaged_entries_are_rebuilt() {
    let Some(bench) = Bench::new(&[KERNEL, ("k.h", "#define K 1\n")]) else { return };
    let recipe = recipe(&["op.c"]);
    let good = bench.build(&recipe);
    let folder = good.artifact.parent().unwrap().to_owned();
    let damages: [&dyn Fn(); 7] = [
        &|| std::fs::write(&good.artifact, "short").unwrap(),
        &|| std::fs::remove_file(&good.artifact).unwrap(),
        &|| std::fs::write(folder.join("build.json"), "{}").unwrap(),
        &|| std::fs::write(good.stored_sources.join("workspace/k.h"), "#define K 9\n").unwrap(),
        &|| std::fs::remove_dir_all(&folder).unwrap(),
        &|| {
            std::fs::remove_dir_all(&folder).unwrap();
            std::fs::write(&folder, "a file").unwrap();
        },
        &|| {
            for key in std::fs::read_dir(bench.cache.root().join("keys")).unwrap() {
                std::fs::write(key.unwrap().path(), "rubbish").unwrap();
            }
        },
    ];
    for (i, damage) in damages.iter().enumerate() {
        damage();
        let again = bench.build(&recipe);
        assert!(!again.cached, "{i}");
        assert_eq!(Build { cached: false, ..bench.build(&recipe) }, good, "{i}");
        bench.ran();
        assert!(bench.build(&recipe).cached && bench.ran() == 0, "{i}");
    }
    assert_eq!(std::fs::read_dir(bench.cache.root().join("staging")).unwrap().count(), 0, "nothing is left");
}

#[test]
fn builds_at_once_agree() {
    let Some(bench) = Bench::new(&[KERNEL, ("k.h", "#define K 1\n")]) else { return };
    let recipe = recipe(&["op.c"]);
    let builds: Vec<Build> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..6).map(|_| scope.spawn(|| bench.build(&recipe))).collect();
        threads.into_iter().map(|t| t.join().unwrap()).collect()
    });
    for build in &builds {
        assert_eq!(
            (&build.candidate, &build.artifact_hash),
            (&builds[0].candidate, &builds[0].artifact_hash)
        );
        assert!(build.artifact.exists());
    }
    bench.ran();
    assert!(bench.build(&recipe).cached && bench.ran() == 0);
}

#[test]
fn a_file_that_changes_under_the_compiler_is_noticed() {
    let Some(bench) = Bench::new(&[KERNEL, ("k.h", "#define K 1\n")]) else { return };
    let header = bench.workspace().join("k.h");
    let edit = |path: &Path, text: &str| {
        std::fs::write(path, text).unwrap();
        // Beyond the tick of any filesystem's clock.
        let file = std::fs::File::options().write(true).open(path).unwrap();
        file.set_modified(SystemTime::now() + Duration::from_secs(2)).unwrap();
    };
    // Once: the second attempt sees a file at rest, although its time lies in the future.
    let runs = AtomicUsize::new(0);
    let once = |command: &BuildCommand| {
        let output = unconfined(command);
        if runs.fetch_add(1, Ordering::SeqCst) == 0 {
            edit(&header, "#define K 2\n");
        }
        output
    };
    let build = Builder::new(once)
        .build(bench.toolchain, &recipe(&["op.c"]), &bench.workspace(), &bench.cache)
        .unwrap();
    assert_eq!(std::fs::read_to_string(build.stored_sources.join("workspace/k.h")).unwrap(), "#define K 2\n");
    assert_eq!(runs.load(Ordering::SeqCst), 4);
    // Always: an error that names it.
    let count = AtomicUsize::new(10);
    let always = |command: &BuildCommand| {
        edit(&header, &format!("#define K {}\n", count.fetch_add(1, Ordering::SeqCst)));
        let output = unconfined(command);
        edit(&header, &format!("#define K {}\n", count.fetch_add(1, Ordering::SeqCst)));
        output
    };
    bench.write("op.c", &KERNEL.1.replace("+ K", "* K"));
    let error =
        Builder::new(always).build(bench.toolchain, &recipe(&["op.c"]), &bench.workspace(), &bench.cache);
    let Err(BuildError::Changed { path }) = error else { panic!("{error:?}") };
    assert!(path.ends_with("k.h"));
}

#[test]
fn runners_that_end_or_refuse() {
    let Some(bench) = Bench::new(&[("op.c", "int op;\n")]) else { return };
    let with = |exit: Result<Exit, &'static str>| {
        let runner = move |_: &BuildCommand| match exit {
            Ok(exit) => Ok(CommandOutput { exit, stdout: Vec::new(), stderr: Vec::new() }),
            Err(why) => Err(RunnerError(why.into())),
        };
        Builder::new(runner)
            .with_deadline(Duration::from_secs(3))
            .build(bench.toolchain, &recipe(&["op.c"]), &bench.workspace(), &bench.cache)
            .unwrap_err()
    };
    assert!(with(Ok(Exit::Deadline)).to_string().contains("3 s"));
    assert!(with(Ok(Exit::Signal(11))).to_string().contains("signal 11"));
    assert!(matches!(with(Err("no sandbox")), BuildError::Runner { .. }));
    // Success without any output is no build.
    assert!(matches!(with(Ok(Exit::Code(0))), BuildError::Io { .. }));
}

#[test]
fn commands_say_what_they_touch() {
    let Some(bench) = Bench::new(&[("op.c", "int op;\n")]) else { return };
    let seen = std::sync::Mutex::new(Vec::new());
    let runner = |command: &BuildCommand| {
        seen.lock().unwrap().push(command.clone());
        unconfined(command)
    };
    let offered = bench.folder.path().join("offered");
    std::fs::create_dir(&offered).unwrap();
    let recipe = Recipe { include_dirs: vec![offered.clone()], ..recipe(&["op.c"]) };
    Builder::new(runner).build(bench.toolchain, &recipe, &bench.workspace(), &bench.cache).unwrap();
    for command in seen.into_inner().unwrap() {
        assert_eq!(command.cwd, bench.workspace().canonicalize().unwrap());
        assert!(
            command.readable.contains(&command.cwd)
                && command.readable.contains(&offered.canonicalize().unwrap())
        );
        assert!(command.readable.iter().any(|r| command.program.starts_with(r)));
        assert_eq!(command.writable.len(), 1);
        assert!(command.writable[0].starts_with(bench.cache.root()));
        assert!(
            command
                .env
                .iter()
                .all(|(k, _)| ["PATH", "LC_ALL", "TMPDIR", "SOURCE_DATE_EPOCH"].iter().any(|n| k == n))
        );
    }
}

#[test]
fn the_compiler_is_told_apart() {
    let Some(toolchain) = toolchain() else { return };
    let (cc, cxx) = (toolchain.cc.as_ref().unwrap(), toolchain.cxx.as_ref().unwrap());
    assert_ne!(cc.identity, cxx.identity);
    assert!(
        cc.include_dirs.iter().all(|d| d.is_absolute()) && !cc.machine.is_empty() && !cc.version.is_empty()
    );
    assert!(cc.own_dir.as_ref().is_some_and(|d| d.is_dir()));
    let named = SearchPlaces {
        cc: Some(cc.program.clone()),
        path: toolchain.path.clone(),
        ..SearchPlaces::default()
    };
    assert_eq!(discover(&named).unwrap().cc.unwrap().identity, cc.identity);
    assert!(toolchain.readable().iter().all(|p| p.exists()));
}
