//! The generated header compiles, and the C compiler lays the call struct out as `CallLayout` says.

#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use kernelseek_core::dtype::DType;
use kernelseek_core::header::header;
use kernelseek_core::layout::{self, CallLayout};
use kernelseek_core::problem::{Problem, parse_problem};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

fn problems() -> Vec<Problem> {
    let attention =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../problems/attention_forward/problem.toml");
    let texts = [include_str!("refusals/base.toml").to_owned(), std::fs::read_to_string(attention).unwrap()];
    texts.iter().map(|t| parse_problem("problem.toml", t).unwrap()).collect()
}

/// A compiler of this machine, if there is one.
fn compiler(names: &[&str]) -> Option<String> {
    let found = names
        .iter()
        .find(|name| Command::new(name).arg("--version").output().is_ok_and(|o| o.status.success()));
    found.map(|name| (*name).to_owned())
}

fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

fn compile(compiler: &str, arguments: &[&str], folder: &Path) {
    let output = Command::new(compiler).args(arguments).current_dir(folder).output().unwrap();
    assert!(output.status.success(), "{compiler} {arguments:?}\n{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn the_compiler_agrees_with_the_layout() {
    let Some(cc) = compiler(&["cc", "gcc", "clang"]) else { return };
    let folder = folder("layout");
    for problem in problems() {
        let name = &problem.name;
        std::fs::write(folder.join(format!("{name}.h")), header(&problem)).unwrap();
        let mut fields = vec!["struct_size".to_owned(), "abi".to_owned()];
        fields.extend(problem.tensors.iter().map(|t| t.name.clone()));
        fields.extend(problem.attributes.iter().map(|a| a.name.clone()));
        fields.extend(["workspace", "workspace_bytes", "stream", "device"].map(String::from));
        let mut source = format!("#include \"{name}.h\"\n#include <stdio.h>\nint main(void) {{\n");
        for field in &fields {
            let _ = writeln!(source, "printf(\"%zu\\n\", offsetof({name}_call, {field}));");
        }
        let _ = writeln!(source, "printf(\"%zu\\n\", sizeof({name}_call));");
        for field in ["data", "dtype", "rank", "shape", "stride"] {
            let _ = writeln!(source, "printf(\"%zu\\n\", offsetof(ks_tensor, {field}));");
        }
        source.push_str("printf(\"%zu\\n%d\\n\", sizeof(ks_tensor), KS_ABI);\n");
        for dtype in DType::ALL {
            let _ = writeln!(source, "printf(\"%d\\n\", KS_{});", dtype.name().to_uppercase());
        }
        source.push_str("return KS_OK;\n}\n");
        std::fs::write(folder.join("print.c"), source).unwrap();
        compile(
            &cc,
            &["-std=c11", "-Wall", "-Wextra", "-Werror", "-pedantic", "print.c", "-o", "print"],
            &folder,
        );
        let output = Command::new(folder.join("print")).output().unwrap();
        let printed: Vec<usize> =
            String::from_utf8(output.stdout).unwrap().lines().map(|l| l.parse().unwrap()).collect();

        let layout = CallLayout::of(&problem);
        let mut expected = vec![0, 4];
        expected.extend(&layout.tensors);
        expected.extend(&layout.attributes);
        expected.extend([
            layout.workspace,
            layout.workspace_bytes,
            layout.stream,
            layout.device,
            layout.size,
        ]);
        expected.extend([
            layout::TENSOR_DATA,
            layout::TENSOR_DTYPE,
            layout::TENSOR_RANK,
            layout::TENSOR_SHAPE,
            layout::TENSOR_STRIDE,
            layout::TENSOR_SIZE,
            layout::ABI as usize,
        ]);
        expected.extend(DType::ALL.map(|d| d as usize));
        assert_eq!(printed, expected, "{name}");
        assert!(layout.tensors.iter().chain(&layout.attributes).all(|at| at % 8 == 0));
    }
}

#[test]
fn one_file_may_include_several_headers_in_c_and_cxx() {
    let (Some(cc), Some(cxx)) = (compiler(&["cc", "gcc", "clang"]), compiler(&["c++", "g++", "clang++"]))
    else {
        return;
    };
    let folder = folder("several");
    let mut source = String::new();
    for problem in problems() {
        let name = &problem.name;
        std::fs::write(folder.join(format!("{name}.h")), header(&problem)).unwrap();
        let _ = writeln!(source, "#include \"{name}.h\"\n#include \"{name}.h\"");
        let _ = writeln!(
            source,
            "ks_status {name}(const {name}_call *call) {{ return call->workspace ? KS_OK : KS_ERROR; }}"
        );
    }
    for (compiler, file, standard) in [(&cc, "all.c", "-std=c99"), (&cxx, "all.cc", "-std=c++14")] {
        std::fs::write(folder.join(file), &source).unwrap();
        compile(
            compiler,
            &[standard, "-Wall", "-Wextra", "-Werror", "-pedantic", "-c", file, "-o", "all.o"],
            &folder,
        );
    }
}

#[test]
fn the_header_of_the_base_problem() {
    let text = header(&problems()[0]);
    for part in [
        "/* scale_rows: y = a * x, row by row\n",
        "#ifndef KS_PROBLEM_SCALE_ROWS_H\n",
        "    /* input; mode; (rows, width) */\n    ks_tensor x;\n",
        "    /* constant input; f32; (rows) */\n    ks_tensor a;\n",
        "    /* output; mode; (rows, width) */\n    ks_tensor y;\n",
        "    double gain; /* 1.0 / sqrt(width) */\n",
        "ks_status scale_rows(const scale_rows_call *call);\n",
        "size_t scale_rows_workspace(const scale_rows_call *call);\n",
        "ks_status scale_rows_prepare(const scale_rows_call *call);\n",
        "KS_F8E4M3 = 5, ",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
}

#[test]
fn text_of_the_problem_cannot_leave_its_comment() {
    let text = include_str!("refusals/base.toml")
        .replace("y = a * x, row by row", "a */ int evil; /* b")
        .replace("\"1.0 / sqrt(width)\"", "\"1.0 / sqrt(width) + ('*/' == '/*' ? 1.0 : 0.0)\"");
    let header = header(&parse_problem("problem.toml", &text).unwrap());
    assert!(header.contains("a * / int evil; / * b"));
    assert_eq!(header.matches("/*").count(), header.matches("*/").count());
}
