//! Arguments of `gpu`, and of the hidden entry that tries the driver.

use clap::Args;
use std::ffi::OsString;
use std::time::Duration;

/// `gpu`.
#[derive(Debug, Args)]
#[command(
    after_help = "Without CMD, lists the GPUs: memory, clocks, processes, and who holds the lease. With CMD, the \
                        lease is held while CMD runs; its exit code is passed on (128 + N if signal N ended it, 127 if \
                        there is no such program, 126 if it cannot be executed). Which GPU: --gpu, or else the first."
)]
pub struct Gpu {
    /// How long to wait for the lease: 90s, 10m, 1h; 0 does not wait
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = duration)]
    pub wait: Duration,
    /// How long CMD is meant to take, for those who wait meanwhile; nobody is stopped
    #[arg(long, value_name = "DURATION", value_parser = duration, requires = "command")]
    pub lasts: Option<Duration>,
    /// The command, with its arguments
    #[arg(last = true, value_name = "CMD")]
    pub command: Vec<OsString>,
}

/// The hidden entry.
#[derive(Debug, Args)]
pub struct GpuTrial {
    /// What is tried, as JSON.
    pub trial: String,
}

/// A number with a unit: `s`, `m` or `h`; without one it is seconds.
fn duration(text: &str) -> Result<Duration, String> {
    let (number, unit) = match text.find(|c: char| !c.is_ascii_digit()) {
        Some(at) => text.split_at(at),
        None => (text, "s"),
    };
    let factor = match unit {
        "s" => 1,
        "m" | "min" => 60,
        "h" => 3600,
        _ => return Err("a number and s, m or h, such as 90s, 10m or 1h".to_owned()),
    };
    let number: u64 = number.parse().map_err(|_| "a number and s, m or h, such as 10m".to_owned())?;
    number.checked_mul(factor).map(Duration::from_secs).ok_or_else(|| "too long".to_owned())
}

#[cfg(test)]
mod tests {
    use super::duration;

    #[test]
    fn durations_have_a_unit_or_are_seconds() {
        for (text, seconds) in [("0", 0), ("45", 45), ("90s", 90), ("10m", 600), ("10min", 600), ("2h", 7200)]
        {
            assert_eq!(duration(text).map(|d| d.as_secs()), Ok(seconds), "{text}");
        }
        for bad in ["", "m", "-1s", "1.5h", "10 m", "3d", "18446744073709551615h", "99999999999999999999"] {
            assert!(duration(bad).is_err(), "{bad}");
        }
    }
}
