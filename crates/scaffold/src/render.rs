//! A plan as files.

pub(crate) mod cuda;
pub(crate) mod problem;
pub(crate) mod reference;
pub(crate) mod seed;

const CAMPAIGN: &str = include_str!("templates/campaign.toml");

/// `campaign.toml` for a campaign of this name whose candidate is `kernel`.
#[must_use]
pub fn campaign(name: &str, kernel: &str) -> String {
    CAMPAIGN.replace("@NAME@", name).replace("@KERNEL@", kernel)
}

/// Text that can stand in a comment of C.
pub(crate) fn comment(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace("*/", "* /").replace("/*", "/ *")
}
