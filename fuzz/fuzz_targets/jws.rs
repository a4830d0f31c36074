//! See [`edge_fuzz::jws`].
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    edge_fuzz::jws::check(input);
});
