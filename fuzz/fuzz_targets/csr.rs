//! See [`edge_fuzz::csr`].
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    edge_fuzz::csr::check(input);
});
