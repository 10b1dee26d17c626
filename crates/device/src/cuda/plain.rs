//! Text that other programs and other users wrote, made fit for one line of a terminal.

/// At most `most` characters, control characters and line breaks replaced.
#[must_use]
pub fn plain(text: &str, most: usize) -> String {
    let mut out: String = text
        .chars()
        .take(most)
        // Characters that change the direction of what follows mislead as well as escape codes do.
        .map(|c| {
            if c.is_control()
                || matches!(c, '\u{200e}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
            {
                '?'
            } else {
                c
            }
        })
        .collect();
    if text.chars().nth(most).is_some() {
        out.push('…');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::plain;
    use proptest::prelude::*;

    #[test]
    fn what_steers_a_terminal_is_gone() {
        assert_eq!(plain("a\x1b[2Jb\nc", 80), "a?[2Jb?c");
        assert_eq!(plain("left\u{202e}right", 80), "left?right");
        assert_eq!(plain("abcdef", 3), "abc…");
        assert_eq!(plain("äöü", 3), "äöü");
    }

    proptest! {
        #[test]
        fn any_text_becomes_one_short_line(text in ".*", most in 0_usize..50) {
            let tamed = plain(&text, most);
            prop_assert!(tamed.chars().count() <= most + 1);
            prop_assert!(!tamed.chars().any(char::is_control));
        }
    }
}
