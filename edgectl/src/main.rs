//! edgectl
fn main() {}
