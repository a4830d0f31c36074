//! See [`edge_fuzz::aws_sts_evidence`].
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    edge_fuzz::aws_sts_evidence::check(input);
});
