//! The kernels' element logic, compiled as C++, against its twin in the numerics crate, bit for bit.

mod cases;
mod contents;
mod emulator;
mod outputs;
