//! See [`edge_fuzz::caller_arn`].
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    edge_fuzz::caller_arn::check(input);
});
