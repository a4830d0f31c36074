//! verifier-wasm
