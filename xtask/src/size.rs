//! How large the worker bundle may be, and where its bytes are (PERFORMANCE P5).

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::Result;
use wasmparser::{KnownCustom, Name, Parser, Payload, TypeRef};

use crate::bundle::{self, Profile, kilobytes};
use crate::progress::{Step, note};
use crate::tools::Tools;

/// Most that wasm and JavaScript together may have as `gzip -9` has them, bytes. How it came to be: docs/performance.md.
const BUDGET: u64 = 480_000;

/// Whether the bundle keeps to [`BUDGET`]; says by how much it does, or does not.
pub fn keeps_to_budget(tools: &Tools, dir: &Path) -> Result<bool> {
    let step = Step::begin("Size of the worker bundle");
    let total = bundle::weigh(tools, dir)?.iter().map(|weight| weight.gzip).sum();
    if total <= BUDGET {
        step.end(&format!("{} of {} KB", kilobytes(total), kilobytes(BUDGET)));
        return Ok(true);
    }
    let over = kilobytes(total.saturating_sub(BUDGET));
    note(format_args!(
        "{over} KB over its budget (PERFORMANCE P5): `cargo xtask size` and docs/performance.md show where the bytes are"
    ));
    step.end("FAILED");
    Ok(false)
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
