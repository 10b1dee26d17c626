//! The pipeline build → inspect → check → time → judge.
//!
//! Duty: turn a problem and a candidate into a verdict. Emits events, prints nothing; what decides is pure
//! (`judge`, `plausible`, `compare`), what drives does the I/O (`session`, `measure`, `oracle`).

mod alike;
pub mod audit;
pub mod bench;
mod blank;
mod building;
mod calibrating;
pub mod calibration;
pub mod call_class;
pub mod check;
mod check_outputs;
mod closure;
pub mod compare;
pub mod cuda_profile;
pub mod cuda_sanitize;
pub mod device_code;
pub mod device_data;
pub mod dice;
pub mod evaluate;
pub mod event;
pub mod fault;
pub mod gpu_hold;
pub mod gpu_slots;
pub mod gpu_staging;
pub mod held_out;
pub mod judge;
mod keeping_peaks;
pub mod kernel_files;
pub mod measure;
mod measure_error;
pub mod oracle;
pub mod outputs;
pub mod plausible;
pub mod problem_files;
pub mod record;
pub mod request;
mod requests;
pub mod runner;
pub mod sanitize;
pub mod scenario_state;
pub mod selftest;
pub mod session;
pub mod settings;
mod settle;
mod sides;
pub mod solo;
pub mod staging;
pub mod stand;
pub mod sweep;
pub mod trivial;
mod views;
pub mod work;
