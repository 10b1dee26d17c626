//! `ncu --csv --page raw` as a table of launches.
//!
//! The first row names the columns, the second their units, every further row is one launch. Lines before the header
//! (`==PROF==` …) are the tool's talk. The text comes from a file made while foreign code ran: nothing here panics.

use serde::{Deserialize, Serialize};

/// Launches that are kept.
const MOST: usize = 512;

/// One launch of a kernel, as the profiler saw it. What the chosen set does not hold is `None`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct KernelLaunch {
    /// Name with its arguments.
    pub kernel: String,
    /// Grid, as the tool writes it.
    pub grid: String,
    /// Block, as the tool writes it.
    pub block: String,
    /// Duration under the profiler, nanoseconds.
    pub duration_ns: Option<f64>,
    /// Use of the multiprocessors, percent of peak.
    pub sm_percent: Option<f64>,
    /// Use of the memory system, percent of peak.
    pub memory_percent: Option<f64>,
    /// Warps that were active, percent of what a multiprocessor holds.
    pub occupancy_percent: Option<f64>,
    /// Registers of a thread.
    pub registers: Option<f64>,
    /// Shared memory of a block, bytes.
    pub shared_bytes: Option<f64>,
    /// Bytes read from device memory.
    pub dram_read_bytes: Option<f64>,
    /// Bytes written to device memory.
    pub dram_write_bytes: Option<f64>,
}

/// Reads the table.
#[must_use]
pub fn launches(text: &str) -> Vec<KernelLaunch> {
    let mut rows = rows(text).into_iter().skip_while(|row| !row.iter().any(|cell| cell == "Kernel Name"));
    let Some(header) = rows.next() else { return Vec::new() };
    let mut rows = rows.peekable();
    // The row of units has no launch id.
    let units = rows.next_if(|row| row.first().is_none_or(String::is_empty)).unwrap_or_default();
    let column = |name: &str| header.iter().position(|cell| cell == name);
    let text = |row: &[String], names: &[&str]| {
        names.iter().find_map(|n| row.get(column(n)?)).cloned().unwrap_or_default()
    };
    let number = |row: &[String], names: &[&str]| {
        names.iter().find_map(|name| {
            let at = column(name)?;
            let value: f64 = row.get(at)?.replace(',', "").trim().parse().ok()?;
            value.is_finite().then(|| value * factor(units.get(at).map_or("", String::as_str)))
        })
    };
    rows.take(MOST)
        .map(|row| KernelLaunch {
            kernel: text(&row, &["Kernel Name"]),
            grid: text(&row, &["Grid Size", "launch__grid_size"]),
            block: text(&row, &["Block Size", "launch__block_size"]),
            duration_ns: number(&row, &["gpu__time_duration.sum", "gpu__time_duration.avg"]),
            sm_percent: number(&row, &["sm__throughput.avg.pct_of_peak_sustained_elapsed"]),
            memory_percent: number(
                &row,
                &[
                    "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed",
                    "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
                ],
            ),
            occupancy_percent: number(&row, &["sm__warps_active.avg.pct_of_peak_sustained_active"]),
            registers: number(&row, &["launch__registers_per_thread"]),
            shared_bytes: number(&row, &["launch__shared_mem_per_block"]).or_else(|| {
                let parts = ["launch__shared_mem_per_block_static", "launch__shared_mem_per_block_dynamic"];
                let found: Vec<f64> = parts.iter().filter_map(|name| number(&row, &[name])).collect();
                (!found.is_empty()).then(|| found.iter().sum())
            }),
            dram_read_bytes: number(&row, &["dram__bytes_read.sum"]),
            dram_write_bytes: number(&row, &["dram__bytes_write.sum"]),
        })
        .collect()
}

/// The launches of one call out of those of `calls` calls that did the same: each with the median of its durations, after the
/// first `warm_up` calls. `None` where the calls did not all launch as much, or a duration is missing.
#[must_use]
pub fn typical(launches: &[KernelLaunch], calls: usize, warm_up: usize) -> Option<Vec<KernelLaunch>> {
    if calls <= warm_up || launches.is_empty() || !launches.len().is_multiple_of(calls) {
        return None;
    }
    let each = launches.len() / calls;
    (0..each)
        .map(|at| {
            let same: Vec<&KernelLaunch> = launches.iter().skip(at).step_by(each).collect();
            let alike = same.iter().all(|l| l.kernel == same[0].kernel);
            let durations: Option<Vec<f64>> = same.iter().skip(warm_up).map(|l| l.duration_ns).collect();
            let median = kernelseek_numerics::stats::median(&durations?)?;
            alike.then(|| KernelLaunch { duration_ns: Some(median), ..same[0].clone() })
        })
        .collect()
}

/// What a unit is worth in nanoseconds or bytes; 1 for every other.
fn factor(unit: &str) -> f64 {
    match unit.split('/').next().unwrap_or_default() {
        "us" | "usecond" => 1e3,
        "ms" | "msecond" => 1e6,
        "s" | "second" => 1e9,
        "Kbyte" => 1e3,
        "Mbyte" => 1e6,
        "Gbyte" => 1e9,
        _ => 1.0,
    }
}

/// Rows of comma-separated values: quotes protect commas, doubled quotes are quotes, line breaks end a row.
fn rows(text: &str) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    let mut row = Vec::new();
    let mut cell = String::new();
    let mut quoted = false;
    let mut characters = text.chars().peekable();
    while let Some(c) = characters.next() {
        match c {
            '"' if quoted && characters.peek() == Some(&'"') => {
                characters.next();
                cell.push('"');
            }
            '"' => quoted = !quoted,
            ',' if !quoted => row.push(std::mem::take(&mut cell)),
            '\r' if !quoted => {}
            '\n' if !quoted => {
                row.push(std::mem::take(&mut cell));
                rows.push(std::mem::take(&mut row));
            }
            c => cell.push(c),
        }
    }
    if !cell.is_empty() || !row.is_empty() {
        row.push(cell);
        rows.push(row);
    }
    rows.retain(|row| row.iter().any(|cell| !cell.is_empty()));
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const RAW: &str = r#"==PROF== Connected to process 4711 (/usr/bin/kernelseek)
"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size","Device","CC","dram__bytes_read.sum","dram__bytes_write.sum","gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed","gpu__time_duration.sum","launch__registers_per_thread","launch__shared_mem_per_block_dynamic","launch__shared_mem_per_block_static","sm__throughput.avg.pct_of_peak_sustained_elapsed","sm__warps_active.avg.pct_of_peak_sustained_active"
"","","","","","","","","","","","Mbyte","byte","%","ns","register/thread","Kbyte/block","byte/block","%","%"
"0","4711","kernelseek","127.0.0.1","softmax(const float *, float *, ""x"")","1","13","(256, 1, 1)","(4096, 1, 1)","0","9.0","16.78","1,024","71.5","12,352","32","1.5","64","22.25","88.1"
"1","4711","kernelseek","127.0.0.1","tail","1","13","(32, 1, 1)","(1, 1, 1)","0","9.0","n/a","","","900","16","0","0","0.1",""
"#;

    #[test]
    fn the_later_calls_say_what_is_typical() {
        let launch = |kernel: &str, ns: Option<f64>| KernelLaunch {
            kernel: kernel.to_owned(),
            duration_ns: ns,
            ..KernelLaunch::default()
        };
        let calls = |times: &[f64]| -> Vec<KernelLaunch> {
            times.iter().flat_map(|t| [launch("a", Some(*t)), launch("b", Some(10.0 * t))]).collect()
        };
        let all = calls(&[9.0, 9.0, 3.0, 1.0, 2.0]);
        let typical_of = |launches: &[KernelLaunch]| {
            let found = typical(launches, 5, 2)?;
            Some(found.iter().map(|l| (l.kernel.clone(), l.duration_ns.unwrap())).collect::<Vec<_>>())
        };
        assert_eq!(typical_of(&all), Some(vec![("a".to_owned(), 2.0), ("b".to_owned(), 20.0)]));
        // A launch too many, other kernels in one call, a duration that is missing, nothing at all.
        assert_eq!(typical_of(&all[1..]), None);
        let mut other = all.clone();
        other[4].kernel = "c".to_owned();
        assert_eq!(typical_of(&other), None);
        let mut missing = all.clone();
        missing[9].duration_ns = None;
        assert_eq!(typical_of(&missing), None);
        assert_eq!(typical_of(&[]), None);
        assert_eq!(typical(&all, 5, 5), None);
    }

    #[test]
    fn launches_with_units() {
        let found = launches(RAW);
        assert_eq!(found.len(), 2);
        assert_eq!(
            found[0],
            KernelLaunch {
                kernel: "softmax(const float *, float *, \"x\")".into(),
                grid: "(4096, 1, 1)".into(),
                block: "(256, 1, 1)".into(),
                duration_ns: Some(12352.0),
                sm_percent: Some(22.25),
                memory_percent: Some(71.5),
                occupancy_percent: Some(88.1),
                registers: Some(32.0),
                shared_bytes: Some(1564.0),
                dram_read_bytes: Some(16.78e6),
                dram_write_bytes: Some(1024.0),
            }
        );
        assert_eq!(
            (found[1].duration_ns, found[1].dram_read_bytes, found[1].memory_percent),
            (Some(900.0), None, None)
        );
    }

    #[test]
    fn a_table_without_units_or_without_anything() {
        let text = "\"ID\",\"Kernel Name\",\"gpu__time_duration.sum\"\n\"0\",\"k\",\"5\"\n";
        assert_eq!(launches(text)[0].duration_ns, Some(5.0));
        assert_eq!(launches("==ERROR== nothing"), []);
        assert_eq!(launches(""), []);
    }

    proptest! {
        #[test]
        fn arbitrary_text_never_panics(text in "(\"ID\",\"Kernel Name\",\"x\"\\n)?[\",a-z0-9é\\n\\r.]{0,200}") {
            let _ = launches(&text);
        }
    }
}
