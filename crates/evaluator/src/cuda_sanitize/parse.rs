//! What compute-sanitizer prints, as entries: what is wrong, in which kernel, on which line, how often.
//!
//! Every line of the tool begins with `=========`. An entry begins with a line whose text is not indented; what belongs to
//! it is indented. The text is read from a file that the candidate's process could write to, so nothing here panics.

use std::fmt;

/// What begins every line.
const MARK: &str = "=========";
/// Different entries kept of one report; the rest is counted.
const MOST: usize = 64;

/// A place in device code.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Place {
    /// Kernel or device function, as the tool writes it.
    pub kernel: Option<String>,
    /// `file:line`, where the code was built with line numbers.
    pub line: Option<String>,
    /// Offset of the instruction, where there is no line: `+0x160`.
    pub offset: Option<String>,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kernel = self.kernel.as_deref().unwrap_or("an unnamed kernel");
        match (&self.line, &self.offset) {
            (Some(line), _) => write!(f, "{kernel} in {line}"),
            (None, Some(offset)) => write!(f, "{kernel}{offset}"),
            (None, None) => f.write_str(kernel),
        }
    }
}

/// One kind of error at one place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// What the tool says, without addresses.
    pub title: String,
    /// Where.
    pub place: Option<Place>,
    /// For races: the other access.
    pub other: Option<Place>,
    /// Thread and block of the first one.
    pub thread: Option<String>,
    /// What the tool says about the first address.
    pub address: Option<String>,
    /// How often.
    pub count: u64,
    /// Whether the tool calls it a warning.
    pub warning: bool,
    /// Whether it is a call of the host that failed, rather than device code.
    pub api: bool,
}

/// A report.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SanitizerReport {
    /// Entries, in the order of their first occurrence.
    pub entries: Vec<Entry>,
    /// Entries of other kinds or places that were left out.
    pub left_out: u64,
    /// The tool's own count; `None` if it did not come to its end.
    pub errors: Option<u64>,
    /// What the tool says about itself: it could not attach, an internal error.
    pub trouble: Option<String>,
}

/// Reads a report.
#[must_use]
pub fn parse(text: &str) -> SanitizerReport {
    let mut report = SanitizerReport::default();
    let mut open: Option<Entry> = None;
    for line in text.lines() {
        let Some(rest) = line.trim_end().strip_prefix(MARK) else { continue };
        let said = rest.trim_start();
        if said.is_empty() {
            report.close(open.take());
            continue;
        }
        // One blank separates the mark from a heading; details are further in.
        if rest.starts_with("  ") || rest.starts_with('\t') {
            if let Some(entry) = &mut open {
                entry.detail(said);
            }
            continue;
        }
        report.close(open.take());
        if let Some(errors) = summary(said) {
            report.errors = Some(report.errors.unwrap_or(0).saturating_add(errors));
        } else if let Some(trouble) = trouble(said) {
            report.trouble.get_or_insert(trouble);
        } else {
            open = begin(said);
        }
    }
    report.close(open);
    report
}

impl SanitizerReport {
    fn close(&mut self, entry: Option<Entry>) {
        let Some(entry) = entry else { return };
        let same = |known: &&mut Entry| {
            known.title == entry.title && known.place == entry.place && known.other == entry.other
        };
        if let Some(known) = self.entries.iter_mut().find(same) {
            known.count = known.count.saturating_add(entry.count);
        } else if self.entries.len() < MOST {
            self.entries.push(entry);
        } else {
            self.left_out = self.left_out.saturating_add(1);
        }
    }
}

/// The number in `ERROR SUMMARY: 3 errors` or `RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)`.
fn summary(said: &str) -> Option<u64> {
    let (_, rest) = said.split_once("ERROR SUMMARY:").or_else(|| said.split_once("RACECHECK SUMMARY:"))?;
    rest.split_whitespace().next()?.replace(',', "").parse().ok()
}

/// Headings that are about the tool.
fn trouble(said: &str) -> Option<String> {
    const SIGNS: [&str; 9] = [
        "No attachable process found",
        "Internal Sanitizer Error",
        "Internal Memcheck Error",
        "Target application terminated before first instrumented API call",
        "Error: process didn't terminate successfully",
        "Error: Could not",
        "Error: Failed",
        "Device not supported",
        "Unable to",
    ];
    SIGNS.iter().any(|sign| said.contains(sign)).then(|| said.trim_start_matches("Error: ").to_owned())
}

/// The entry that a heading begins, if it is the heading of one.
fn begin(said: &str) -> Option<Entry> {
    const NOT: [&str; 5] = [
        "COMPUTE-SANITIZER",
        "LEAK SUMMARY",
        "Target application returned",
        "This tool is deprecated",
        "Please use",
    ];
    if NOT.iter().any(|start| said.starts_with(start)) {
        return None;
    }
    let (warning, said) = match said.strip_prefix("Warning: ").or_else(|| said.strip_prefix("WARNING: ")) {
        Some(rest) => (true, rest),
        None => (false, said.strip_prefix("Error: ").unwrap_or(said)),
    };
    let api = said.starts_with("Program hit ") || said.starts_with("Host API");
    let mut entry = Entry {
        title: String::new(),
        place: None,
        other: None,
        thread: None,
        address: None,
        count: 1,
        warning,
        api,
    };
    if let Some((title, at)) = said.split_once(" access at ").filter(|(t, _)| t.starts_with("Race reported"))
    {
        entry.title = format!("{title} access");
        entry.place = place(at);
    } else {
        entry.title = without_numbers(said);
    }
    Some(entry)
}

impl Entry {
    fn detail(&mut self, said: &str) {
        if let Some(at) = said.strip_prefix("at ") {
            if self.place.is_none() {
                self.place = place(at);
            }
        } else if let Some((access, at)) =
            said.strip_prefix("and ").and_then(|rest| rest.split_once(" access at "))
        {
            let (at, count) = hazards(at);
            self.title.push_str(&format!(" and {access} access"));
            self.other = place(at);
            self.count = count.unwrap_or(1);
        } else if said.starts_with("by thread")
            || said.starts_with("Read Thread")
            || said.starts_with("Write Thread")
        {
            if self.place.is_none() {
                self.place = said.split_once(" at ").and_then(|(_, at)| place(at));
            }
            self.thread.get_or_insert_with(|| said.trim_start_matches("by ").to_owned());
        } else if said.starts_with("Address ") {
            self.address.get_or_insert_with(|| said.to_owned());
        } else if said.starts_with("and is ")
            && let Some(address) = &mut self.address
            && !address.contains(" and is ")
        {
            address.push(' ');
            address.push_str(said);
        }
    }
}

/// Splits `… [508 hazards]` off.
fn hazards(at: &str) -> (&str, Option<u64>) {
    let Some((at, rest)) = at.rsplit_once(" [") else { return (at, None) };
    (at, rest.split_whitespace().next().and_then(|n| n.replace(',', "").parse().ok()))
}

/// Reads where something is: `kernel(int *)+0x160 in k.cu:6`, `kernel():0x160 in k.cu:6`, `0x160 in k.cu:6:kernel(void)`
/// or the same without file and line. These are the forms of the versions that are in use.
fn place(at: &str) -> Option<Place> {
    let at = at.trim();
    let (code, line) = match at.rsplit_once(" in ") {
        Some((code, line)) => (code, Some(line)),
        None => (at, None),
    };
    let mut place = Place::default();
    let mut code = code.trim();
    for sign in ["+0x", ":0x"] {
        if let Some((before, digits)) = code.rsplit_once(sign)
            && digits.chars().all(|c| c.is_ascii_hexdigit())
        {
            place.offset = Some(format!("+0x{digits}"));
            code = before;
            break;
        }
    }
    if let Some(digits) = code.strip_prefix("0x").filter(|d| d.chars().all(|c| c.is_ascii_hexdigit())) {
        place.offset = Some(format!("+0x{digits}"));
    } else if !code.is_empty() {
        place.kernel = Some(code.to_owned());
    }
    if let Some(line) = line {
        let (file, behind) = file_and_line(line);
        place.line = file;
        if place.kernel.is_none() {
            place.kernel = behind.filter(|name| !name.is_empty()).map(str::to_owned);
        }
    }
    (place != Place::default()).then_some(place)
}

/// Splits `dir/k.cu:6:kernel(void)` into file with line, and what follows; text without a line number is all "what follows".
fn file_and_line(text: &str) -> (Option<String>, Option<&str>) {
    for (at, _) in text.match_indices(':') {
        let rest = &text[at + 1..];
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (number, behind) = rest.split_at(digits);
        if !number.is_empty() && (behind.is_empty() || behind.starts_with(':')) {
            return (Some(format!("{}:{number}", &text[..at])), behind.strip_prefix(':'));
        }
    }
    (None, Some(text))
}

/// A title without the addresses and thread numbers that would make every occurrence another one.
fn without_numbers(title: &str) -> String {
    let mut out = String::new();
    let (mut skip_tuple, mut skipped) = (false, false);
    for word in title.split_whitespace() {
        if word.starts_with("0x") {
            continue;
        }
        // `(0, 0, 0)` comes in one word or in three.
        if word.starts_with('(') && word[1..].starts_with(|c: char| c.is_ascii_digit()) {
            skip_tuple = !word.contains(')');
            skipped = true;
            continue;
        }
        if skip_tuple {
            skip_tuple = !word.contains(')');
            continue;
        }
        if !out.is_empty() {
            out.push(' ');
        }
        out.push_str(word);
    }
    let out = out.trim_end_matches([':', ' ', '.']);
    let out = out.strip_suffix(" in block").filter(|_| skipped).unwrap_or(out);
    out.trim_end_matches(" at").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MEMCHECK: &str = "\
========= COMPUTE-SANITIZER
========= Invalid __global__ write of size 4 bytes
=========     at scale(const float *, float *, long)+0x160 in kernel.cu:12
=========     by thread (96,0,0) in block (3,0,0)
=========     Address 0x7f33c1c00190 is out of bounds
=========     and is 1 bytes after the nearest allocation at 0x7f33c1c00000 of size 400 bytes
=========     Saved host backtrace up to driver entry point at kernel launch time
=========     Host Frame: [0x2774ec]
=========                in /usr/lib/x86_64-linux-gnu/libcuda.so.1
=========     Host Frame:__device_stub__Z5scalePKfPfl(float const*, float*, long) [0xd0fc]
=========
========= Invalid __global__ write of size 4 bytes
=========     at scale(const float *, float *, long)+0x160 in kernel.cu:12
=========     by thread (97,0,0) in block (3,0,0)
=========     Address 0x7f33c1c00194 is out of bounds
=========     and is 5 bytes after the nearest allocation at 0x7f33c1c00000 of size 400 bytes
=========
========= Program hit cudaErrorLaunchFailure (error 719) due to \"unspecified launch failure\" on CUDA API call to cudaDeviceSynchronize.
=========     Saved host backtrace up to driver entry point at error
=========
========= ERROR SUMMARY: 3 errors
";
    const RACES: &str = "\
========= COMPUTE-SANITIZER
========= Error: Race reported between Write access at sum(int *, int *)+0x90 in race.cu:13
=========     and Read access at sum(int *, int *)+0x150 in race.cu:22 [508 hazards]
=========
========= Warning: Race reported between Read access at sum(int *, int *)+0x70 in race.cu:9
=========     and Write access at sum(int *, int *)+0x90 in race.cu:13 [1,024 hazards]
=========
========= RACECHECK SUMMARY: 2 hazards displayed (1 error, 1 warning)
";
    const UNINITIALISED: &str = "\
========= COMPUTE-SANITIZER
========= Uninitialized __global__ memory read of size 4 bytes
=========     at add(int *, int *)+0x50 in init.cu:13
=========     by thread (4,0,0) in block (0,0,0)
=========     Address 0x7fb6f7400010
=========
========= ERROR SUMMARY: 1 error
";
    const BARRIER: &str = "\
========= COMPUTE-SANITIZER
========= Barrier error detected. Divergent thread(s) in block
=========     at 0x100 in sync.cu:38:my_kernel(int *)
=========     by thread (32,0,0) in block (0,0,0)
=========
========= ERROR SUMMARY: 1 error
";
    const HAZARD: &str = "\
========= Potential WAR hazard detected at __shared__ 0x3ec in block (0, 0, 0) :
=========     Read Thread (31, 0, 0) at 0x98 in race.cu:20:sum(int *)
=========     Write Thread (0, 0, 0) at 0x108 in race.cu:24:sum(int *)
=========     Current Value : 0, Incoming Value : 4
=========
========= Potential WAR hazard detected at __shared__ 0x3f0 in block (1, 0, 0) :
=========     Read Thread (31, 0, 0) at 0x98 in race.cu:20:sum(int *)
=========
========= RACECHECK SUMMARY: 2 hazards displayed (0 error, 2 warnings)
";

    fn told(entry: &Entry) -> String {
        let place = entry.place.as_ref().map_or_else(String::new, |p| format!(" @ {p}"));
        let other = entry.other.as_ref().map_or_else(String::new, |p| format!(" & {p}"));
        format!("{}{place}{other} x{}", entry.title, entry.count)
    }

    #[test]
    fn reports_of_the_four_tools() {
        let cases: [(&str, &[&str], Option<u64>); 5] = [
            (
                MEMCHECK,
                &[
                    "Invalid __global__ write of size 4 bytes @ scale(const float *, float *, long) in kernel.cu:12 x2",
                    "Program hit cudaErrorLaunchFailure due to \"unspecified launch failure\" on CUDA API call to cudaDeviceSynchronize x1",
                ],
                Some(3),
            ),
            (
                RACES,
                &[
                    "Race reported between Write access and Read access @ sum(int *, int *) in race.cu:13 & sum(int *, int *) in race.cu:22 x508",
                    "Race reported between Read access and Write access @ sum(int *, int *) in race.cu:9 & sum(int *, int *) in race.cu:13 x1024",
                ],
                Some(2),
            ),
            (
                UNINITIALISED,
                &[
                    "Uninitialized __global__ memory read of size 4 bytes @ add(int *, int *) in init.cu:13 x1",
                ],
                Some(1),
            ),
            (
                BARRIER,
                &["Barrier error detected. Divergent thread(s) in block @ my_kernel(int *) in sync.cu:38 x1"],
                Some(1),
            ),
            (HAZARD, &["Potential WAR hazard detected at __shared__ @ sum(int *) in race.cu:20 x2"], Some(2)),
        ];
        for (text, entries, errors) in cases {
            let report = parse(text);
            // A failed call carries its number in parentheses.
            let said: Vec<String> =
                report.entries.iter().map(|e| told(e).replace(" (error 719)", "")).collect();
            assert_eq!(said, entries);
            assert_eq!((report.errors, report.trouble), (errors, None));
        }
    }

    #[test]
    fn the_first_address_and_thread_are_kept() {
        let report = parse(MEMCHECK);
        let first = &report.entries[0];
        assert_eq!(
            first.address.as_deref(),
            Some(
                "Address 0x7f33c1c00190 is out of bounds and is 1 bytes after the nearest allocation at \
                 0x7f33c1c00000 of size 400 bytes"
            )
        );
        assert_eq!(first.thread.as_deref(), Some("thread (96,0,0) in block (3,0,0)"));
        assert!(!first.api && report.entries[1].api);
        let races = parse(RACES);
        assert_eq!(races.entries.iter().map(|e| e.warning).collect::<Vec<_>>(), [false, true]);
    }

    #[test]
    fn places_in_every_form() {
        for (text, says) in [
            ("k(int *)+0x160 in a/b.cu:6", "k(int *) in a/b.cu:6"),
            ("k<(int)3>(float *)+0x1a0", "k<(int)3>(float *)+0x1a0"),
            ("k():0x160 in b.cu:6", "k() in b.cu:6"),
            ("0x160 in b.cu:6:k(void)", "k(void) in b.cu:6"),
            ("0x160 in k(void)", "k(void)+0x160"),
            (
                "void ns::k<float>(ns::T<float>)+0x10 in /x y/b.cuh:106",
                "void ns::k<float>(ns::T<float>) in /x y/b.cuh:106",
            ),
        ] {
            assert_eq!(place(text).unwrap().to_string(), says);
        }
        assert_eq!(place(" "), None);
    }

    #[test]
    fn a_clean_report_and_a_tool_in_trouble() {
        let clean = parse("========= COMPUTE-SANITIZER\n========= ERROR SUMMARY: 0 errors\n");
        assert_eq!((clean.entries.len(), clean.errors), (0, Some(0)));
        let stuck = parse("========= Error: No attachable process found. compute-sanitizer timed-out.\n");
        assert_eq!(
            stuck.trouble.as_deref(),
            Some("No attachable process found. compute-sanitizer timed-out.")
        );
        assert_eq!((stuck.entries.len(), stuck.errors), (0, None));
        let early = parse(
            "========= COMPUTE-SANITIZER\n========= Error: Target application terminated before first instrumented API call\n",
        );
        assert!(early.trouble.unwrap().contains("before first instrumented"));
        assert_eq!(parse("nothing of the tool").errors, None);
    }

    #[test]
    fn a_flood_is_counted_and_not_kept() {
        let mut text = String::new();
        for line in 0..200 {
            text.push_str(&format!("========= Invalid __shared__ read of size 4 bytes\n=========     at k()+0x10 in k.cu:{line}\n=========\n"));
        }
        let report = parse(&text);
        assert_eq!((report.entries.len(), report.left_out), (64, 136));
    }

    proptest! {
        #[test]
        fn arbitrary_text_never_panics(text in "(=========( {0,5})?[ -~äß\\n]{0,60}\\n?){0,12}") {
            let report = parse(&text);
            prop_assert!(report.entries.len() <= 64);
        }

        #[test]
        fn arbitrary_places_never_panic(text in "[ -~é]{0,40}( in )?[a-z:0-9\\[\\] ]{0,20}") {
            let _ = place(&text);
            let _ = hazards(&text);
            let _ = without_numbers(&text);
        }
    }
}
