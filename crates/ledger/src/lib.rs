//! The ledger: what happened in a campaign, kept so that nothing is lost and nothing is changed unseen.
//!
//! Duty: rows that are chained by hash, artefacts that are named by hash, one SQLite file for each campaign (WAL,
//! `synchronous=FULL`) outside every workspace, the seal, and the form in which a campaign travels. It knows what a row
//! *is*, and never decides what should happen next.

mod anchor;
pub mod artefact;
pub mod entry;
mod error;
mod lock;
mod place;
pub mod registry;
mod retention;
mod row;
pub mod seal;
mod store;
mod transfer;

pub use entry::Entry;
pub use error::LedgerError;
pub use lock::{Busy, EvaluationLock};
pub use place::refuse_network;
pub use row::Row;
pub use store::{Access, Batch, FORMAT, Ledger};
pub use transfer::{Imported, check_export, export, import};
