//! Reports of recorded ledgers, and of ledgers that mean harm.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "this is a test, helpers included")]

mod corpus;
mod days;
mod recorded;
mod structure;
