//! See [`edge_fuzz::token_claims`].
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    edge_fuzz::token_claims::check(input);
});
