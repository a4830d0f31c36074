//! `edgectl`: sets a verifier up and looks after it. See [`edgectl::cli`].

fn main() -> std::process::ExitCode {
    edgectl::main()
}
