//! See [`edge_fuzz::policy`].
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    edge_fuzz::policy::check(input);
});
