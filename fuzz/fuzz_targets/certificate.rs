//! See [`edge_fuzz::certificate`].
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    edge_fuzz::certificate::check(input);
});
