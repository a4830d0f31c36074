//! See [`edge_fuzz::authorization`].
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    edge_fuzz::authorization::check(input);
});
