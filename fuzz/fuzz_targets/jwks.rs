//! See [`edge_fuzz::jwks`].
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    edge_fuzz::jwks::check(input);
});
