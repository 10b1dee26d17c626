//! Frames of the worker protocol, as a hostile worker would write them: `cargo fuzz run frames`.
#![no_main]

use kernelseek_device::protocol::{MAX_FRAME, Reply, Request, decode, encode};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    // A whole frame around the bytes, so that the payload is reached, then the bytes as a stream of their own.
    let mut framed = (bytes.len() as u32).to_le_bytes().to_vec();
    framed.extend_from_slice(bytes);
    for stream in [framed, bytes.to_vec()] {
        let mut buffer = stream.clone();
        while let Ok(Some(reply)) = decode::<Reply>(&mut buffer) {
            let again = encode(&reply).expect("what was read can be written");
            assert!(again.len() <= MAX_FRAME + 4);
        }
        assert!(buffer.len() <= stream.len());
        let mut buffer = stream;
        while let Ok(Some(_)) = decode::<Request>(&mut buffer) {}
    }
});
