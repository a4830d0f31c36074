//! See [`edge_fuzz::enroll_body`].
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    edge_fuzz::enroll_body::check(input);
});
