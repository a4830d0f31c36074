//! What a start of the worker bundle may cost in bytes, and where they are (PERFORMANCE P5, P6).

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use wasmparser::{KnownCustom, Name, Parser, Payload, TypeRef};

use crate::bundle::{self, Profile, kilobytes};
use crate::progress::{Step, note};
use crate::tools::Tools;

/// Most that the bundle may have of each, in this order. How the figures came to be: docs/performance.md.
const BUDGETS: [Budget; 3] = [
    Budget { what: "download, gzip -9", most: 350_000, of: |start| start.download },
    Budget { what: "code to compile", most: 870_000, of: |start| start.code },
    Budget { what: "memory to begin with", most: 1_180_000, of: |start| start.memory },
];

/// Something that an isolate's start costs, bytes.
struct Budget {
    what: &'static str,
    most: u64,
    of: fn(&Start) -> u64,
}

/// What an isolate must fetch, compile and fill before it serves (PERFORMANCE P5, P6); exact, where a time would be the machine's.
struct Start {
    /// Wasm and JavaScript together, as `gzip -9` has them.
    download: u64,
    /// Bodies of the module's functions.
    code: u64,
    /// The module's memory when it is instantiated.
    memory: u64,
}

impl Start {
    fn of(tools: &Tools, dir: &Path) -> Result<Self> {
        let download = bundle::weigh(tools, dir)?.iter().map(|weight| weight.gzip).sum();
        let module = fs::read(dir.join(bundle::WASM))?;
        let code = functions(&module)?.iter().map(|(_, bytes)| bytes).sum();
        Ok(Self { download, code, memory: initial_memory(&module)? })
    }
}

/// Octets of memory that the module begins with.
fn initial_memory(module: &[u8]) -> Result<u64> {
    const PAGE: u64 = 64 * 1024;
    for payload in Parser::new(0).parse_all(module) {
        if let Payload::MemorySection(memories) = payload? {
            let memory = memories.into_iter().next().context("no memory")??;
            return Ok(memory.initial * PAGE);
        }
    }
    bail!("the module has no memory of its own")
}

/// Whether the bundle keeps to [`BUDGETS`]; says by how much it does, or does not.
pub fn keeps_to_budget(tools: &Tools, dir: &Path) -> Result<bool> {
    let step = Step::begin("Size of the worker bundle");
    let start = Start::of(tools, dir)?;
    let mut said = Vec::new();
    for Budget { what, most, of } in BUDGETS {
        let is = of(&start);
        said.push(format!("{what} {} of {} KB", kilobytes(is), kilobytes(most)));
        if is > most {
            note(format_args!(
                "{what}: {} KB over budget: `cargo xtask size` and docs/performance.md show where the bytes are",
                kilobytes(is - most)
            ));
        }
    }
    let kept = BUDGETS.iter().all(|budget| (budget.of)(&start) <= budget.most);
    step.end(&if kept { said.join(", ") } else { format!("FAILED: {}", said.join(", ")) });
    Ok(kept)
}

/// Prints the code's bytes by crate, as they are before gzip. What the optimiser inlines counts where it ends up.
pub fn by_crate(tools: &Tools) -> Result<()> {
    bundle::build(tools, Profile::Release)?;
    let module = fs::read(bundle::named(tools)?)?;
    let mut crates: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for (name, bytes) in functions(&module)? {
        let (functions, total) = crates.entry(crate_of(&name).to_owned()).or_default();
        *functions += 1;
        *total += bytes;
    }
    let mut rows: Vec<_> = crates.into_iter().collect();
    rows.sort_by_key(|(_, (_, bytes))| Reverse(*bytes));
    println!("{:>9} {:>9}  crate", "bytes", "functions");
    for (name, (functions, bytes)) in rows {
        println!("{bytes:>9} {functions:>9}  {name}");
    }
    Ok(())
}

/// Name and size of every function that has a body.
fn functions(module: &[u8]) -> Result<Vec<(String, u64)>> {
    let mut imported = 0_u32;
    let mut bodies = Vec::new();
    let mut names: BTreeMap<u32, String> = BTreeMap::new();
    for payload in Parser::new(0).parse_all(module) {
        match payload? {
            Payload::ImportSection(imports) => {
                for import in imports.into_imports() {
                    imported += u32::from(matches!(import?.ty, TypeRef::Func(_)));
                }
            }
            Payload::CodeSectionEntry(body) => bodies.push(body.range().end - body.range().start),
            Payload::CustomSection(section) => {
                let KnownCustom::Name(sections) = section.as_known() else { continue };
                for section in sections {
                    let Name::Function(functions) = section? else { continue };
                    for function in functions {
                        let function = function?;
                        names.insert(function.index, function.name.to_owned());
                    }
                }
            }
            _ => {}
        }
    }
    Ok((imported..).zip(bodies).map(|(index, bytes)| (names.remove(&index).unwrap_or_default(), bytes)).collect())
}

/// The crate that a function belongs to: that of the type for a method, that of the trait where the type is any or none of a crate.
fn crate_of(name: &str) -> &str {
    let (kind, of_trait) = name.strip_prefix('<').and_then(|inner| inner.split_once(" as ")).unwrap_or((name, ""));
    let start = |path: &str| -> usize {
        let plain = path.trim_start_matches(|c: char| !c.is_alphanumeric() && c != '_');
        let plain = plain.strip_prefix("mut ").or_else(|| plain.strip_prefix("dyn ")).unwrap_or(plain);
        path.len() - plain.len()
    };
    [kind, of_trait]
        .into_iter()
        .find_map(|path| path[start(path)..].split_once("::").map(|(first, _)| first))
        .unwrap_or("(glue)")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_and_memory_of_a_module() {
        // (module (memory 3) (func) (func nop))
        let module = [
            &b"\0asm\x01\0\0\0"[..],
            &[1, 4, 1, 0x60, 0, 0],
            &[3, 3, 2, 0, 0],
            &[5, 3, 1, 0, 3],
            &[10, 8, 2, 2, 0, 0x0b, 3, 0, 0x01, 0x0b],
        ]
        .concat();
        let bodies: Vec<u64> = functions(&module).unwrap().iter().map(|(_, bytes)| *bytes).collect();
        assert_eq!(bodies, [2, 3]);
        assert_eq!(initial_memory(&module).unwrap(), 3 * 65_536);
        assert!(initial_memory(&module[..8]).is_err());
    }

    #[test]
    fn functions_belong_to_crates() {
        for (name, expected) in [
            ("verifier::flow::Call<P,K>::appraise::{{closure}}", "verifier"),
            ("<serde_json::de::MapAccess<R> as serde_core::de::MapAccess>::next_key_seed", "serde_json"),
            (
                "<&mut serde_json::de::Deserializer<R> as serde_core::de::Deserializer>::deserialize_struct",
                "serde_json",
            ),
            ("<T as alloc::string::ToString>::to_string", "alloc"),
            ("<f64 as core::fmt::Display>::fmt", "core"),
            ("memcpy", "(glue)"),
            ("", "(glue)"),
        ] {
            assert_eq!(crate_of(name), expected, "{name}");
        }
    }
}
