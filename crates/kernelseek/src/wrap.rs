//! Breaking lines for a width.

/// Breaks at spaces; existing line breaks stay. Escape codes are not counted.
pub(crate) fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut out = Vec::new();
    for line in text.lines() {
        let mut here = String::new();
        for word in line.split(' ') {
            if !here.is_empty() && visible(&here) + 1 + visible(word) > width {
                out.push(std::mem::take(&mut here));
            }
            if !here.is_empty() {
                here.push(' ');
            }
            here.push_str(word);
        }
        out.push(here);
    }
    out
}

fn visible(text: &str) -> usize {
    let mut count = 0;
    let mut escape = false;
    for c in text.chars() {
        match c {
            '\x1b' => escape = true,
            'm' if escape => escape = false,
            _ if escape => {}
            _ => count += 1,
        }
    }
    count
}

/// `text` with `first` before its first line and as many spaces before the others, each ended by a line break.
pub(crate) fn hanging(first: &str, text: &str, width: usize) -> String {
    let margin = visible(first);
    let mut out = String::new();
    for (i, line) in wrap(text, width.saturating_sub(margin).max(30)).into_iter().enumerate() {
        if i == 0 {
            out.push_str(first);
        } else {
            out.push_str(&" ".repeat(margin));
        }
        out.push_str(&line);
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_at_spaces_and_colours_take_no_room() {
        assert_eq!(wrap("one two three", 8), ["one two", "three"]);
        assert_eq!(wrap("a\nb c", 8), ["a", "b c"]);
        assert_eq!(wrap("\x1b[32mone\x1b[0m two", 7), ["\x1b[32mone\x1b[0m two"]);
        let words = "ten words that are too long for one line of thirty";
        assert_eq!(hanging("- ", words, 32), "- ten words that are too long\n  for one line of thirty\n");
    }
}
