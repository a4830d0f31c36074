//! See [`edge_fuzz::sts_answer`].
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    edge_fuzz::sts_answer::check(input);
});
