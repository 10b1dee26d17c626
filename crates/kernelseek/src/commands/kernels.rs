//! What GPU kernels take, as a table.

use crate::table;
use kernelseek_toolchain::KernelResources;

/// Rows of the table at most; `--json` has all.
const MOST: usize = 40;
/// Characters of a kernel's name at most.
const NAME: usize = 120;

/// One row a kernel; empty without kernels.
pub(super) fn table(kernels: &[KernelResources], width: usize) -> String {
    if kernels.is_empty() {
        return String::new();
    }
    let header = ["kernel", "arch", "registers", "shared", "stack", "spilled", "barriers"];
    let mut drawn = table::plain(width, &header, &[false, false, true, true, true, true, true]);
    for kernel in kernels.iter().take(MOST) {
        let bytes = |n: u32| if n == 0 { "0".to_owned() } else { table::bytes(f64::from(n)) };
        let spilled = match (kernel.spill_stores, kernel.spill_loads) {
            (0, 0) => "0".to_owned(),
            (stores, loads) => format!("{stores}+{loads} B"),
        };
        let name = shortened(&kernel.readable);
        drawn.add_row(vec![
            if kernel.entry { name } else { format!("{name} (called)") },
            kernel.arch.clone(),
            kernel.registers.map_or_else(|| "?".to_owned(), |n| n.to_string()),
            bytes(kernel.shared_bytes),
            bytes(kernel.stack_bytes),
            spilled,
            kernel.barriers.to_string(),
        ]);
    }
    let mut text = table::lines(&drawn);
    if kernels.len() > MOST {
        text.push_str(&format!("  and {} more\n", kernels.len() - MOST));
    }
    text
}

fn shortened(name: &str) -> String {
    let mut text: String = name.strip_prefix("void ").unwrap_or(name).chars().take(NAME).collect();
    if text.len() < name.len().saturating_sub("void ".len()) {
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_fit_into_eighty_columns() {
        let kernel = KernelResources {
            readable: "void (anonymous namespace)::scale<128>(float const*, float*, int)".into(),
            arch: "sm_90a".into(),
            entry: true,
            registers: Some(32),
            shared_bytes: 512,
            stack_bytes: 288,
            spill_stores: 560,
            spill_loads: 604,
            ..KernelResources::default()
        };
        let called = KernelResources { readable: "f(int)".into(), ..KernelResources::default() };
        let text = table(&[kernel, called], 80);
        assert!(text.lines().all(|l| l.chars().count() <= 80), "{text}");
        for expected in ["560+604 B", "512 B", "sm_90a", "f(int) (called)"] {
            assert!(text.contains(expected), "{expected}: {text}");
        }
        assert_eq!(table(&[], 80), "");
    }
}
