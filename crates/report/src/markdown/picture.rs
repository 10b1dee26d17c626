//! The incumbent's aggregate over attempts, drawn in text: it shows the same on a page, in a mail and in a terminal, where
//! a chart language would show its source.

use super::{heading, paragraph};
use crate::model::{Point, Report};
use crate::words::{BARS, count};

/// Columns of the picture.
const COLUMNS: usize = 72;
/// Lines of the picture.
const LINES: usize = 6;

/// What a column stands for.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Column {
    incumbent: f64,
    mark: char,
}

pub(super) fn render(report: &Report) -> String {
    let points = &report.course;
    if points.is_empty() {
        return String::new();
    }
    let mut text = heading("Course");
    let best = report.best();
    if !(best.is_finite() && best > 1.0) {
        text.push_str(&paragraph(&format!(
            "{} of the whole grid, none promoted: the incumbent is the seed, 1.000×.",
            count(points.len() as u64, "attempt")
        )));
        return text;
    }
    let (each, columns) = columns(points);
    text.push_str("```text\n");
    text.push_str(&drawn(&columns, best));
    text.push_str("```\n\n");
    let each = match each {
        1 => "A column is an attempt of the whole grid".to_owned(),
        n => format!("A column is {n} attempts of the whole grid"),
    };
    text.push_str(&paragraph(&format!(
        "{each}, its height the incumbent's aggregate after it, on a logarithmic scale from the seed's 1. ▲ promoted, · not, \
         × wrong or not proven."
    )));
    text
}

/// How many attempts a column stands for, and the columns.
fn columns(points: &[Point]) -> (usize, Vec<Column>) {
    let each = points.len().div_ceil(COLUMNS).max(1);
    let column = |group: &[Point]| Column {
        incumbent: group.last().map_or(1.0, |p| p.incumbent),
        mark: if group.iter().any(|p| p.promoted) {
            '▲'
        } else if group.iter().all(|p| p.attempt.is_none()) {
            '×'
        } else {
            '·'
        },
    };
    (each, points.chunks(each).map(column).collect())
}

fn drawn(columns: &[Column], best: f64) -> String {
    let top = columns.iter().map(|c| c.incumbent).filter(|x| x.is_finite()).fold(best, f64::max);
    // Eighths of a line; the seed has none.
    let full = (LINES * BARS.len()) as f64;
    let heights: Vec<usize> = columns
        .iter()
        .map(|c| (c.incumbent.max(1.0).ln() / top.ln() * full).round().clamp(0.0, full) as usize)
        .collect();
    let mut text = String::new();
    for line in (0..LINES).rev() {
        let scale = match line {
            _ if line + 1 == LINES => format!("{top:.2}×"),
            _ if line == LINES / 2 - 1 => format!("{:.2}×", top.powf(0.5)),
            _ => String::new(),
        };
        let bars: String = heights
            .iter()
            .map(|h| match h.saturating_sub(line * BARS.len()) {
                0 => ' ',
                n => BARS[n.min(BARS.len()) - 1],
            })
            .collect();
        text.push_str(format!("{scale:>9} │{bars}").trim_end());
        text.push('\n');
    }
    let marks: String = columns.iter().map(|c| c.mark).collect();
    text.push_str(&format!("{:>9} └{}\n{:>9}  {marks}\n", "1.00×", "─".repeat(columns.len()), ""));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(row: u64, attempt: Option<f64>, promoted: bool, incumbent: f64) -> Point {
        Point { row, attempt, promoted, incumbent }
    }

    #[test]
    fn heights_are_logarithms() {
        let points = [
            point(1, Some(0.9), false, 1.0),
            point(2, None, false, 1.0),
            point(3, Some(2.0), true, 2.0),
            point(4, Some(4.0), true, 4.0),
        ];
        let (each, columns) = columns(&points);
        assert_eq!(each, 1);
        let lines = [
            "    4.00× │   █",
            "          │   █",
            "          │   █",
            "    2.00× │  ██",
            "          │  ██",
            "          │  ██",
            "    1.00× └────",
            "           ·×▲▲",
        ];
        assert_eq!(drawn(&columns, 4.0).lines().collect::<Vec<_>>(), lines);
    }

    #[test]
    fn many_attempts_share_columns() {
        let points: Vec<Point> = (0..1000_u64).map(|i| point(i, None, i == 500, 1.0 + i as f64)).collect();
        let (each, columns) = columns(&points);
        assert!(columns.len() <= COLUMNS && each == 14);
        assert_eq!(columns.iter().filter(|c| c.mark == '▲').count(), 1);
        assert!(drawn(&columns, 1000.0).lines().all(|l| l.chars().count() <= 84));
    }
}
