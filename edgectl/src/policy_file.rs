//! Policy files: TOML, or JSON by name; problems are given the line they are on.

use std::fs;
use std::io::Read as _;
use std::path::Path;

use protocol::admin::PolicyProblem;
use toml::Spanned;
use toml::de::{DeTable, DeValue};
use verifier::appraisal::{Policy, PolicyDocument};

use crate::failure::Failure;

/// A policy file that could be read.
#[derive(Debug)]
pub struct PolicyFile {
    /// For messages.
    pub name: String,
    /// What it says.
    pub document: PolicyDocument,
    text: String,
    is_json: bool,
}

impl PolicyFile {
    /// Reads a file; `-` is standard input. Syntax errors end it here.
    pub fn read(path: &Path) -> Result<Self, Failure> {
        let name = if path == Path::new("-") { "standard input".to_owned() } else { path.display().to_string() };
        let text = read_text(path).map_err(|error| Failure::Io { what: format!("read {name}"), error })?;
        let is_json = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("json"))
            || (path == Path::new("-") && text.trim_start().starts_with('{'));
        let parsed = if is_json {
            serde_json::from_str(&text).map_err(|error| error.to_string())
        } else {
            toml::from_str(&text).map_err(|error| error.to_string())
        };
        match parsed {
            Ok(document) => Ok(Self { name, document, text, is_json }),
            Err(error) => {
                let form = if is_json { "JSON" } else { "TOML" };
                Err(Failure::PolicySyntax { name, form, error: error.trim_end().to_owned() })
            }
        }
    }

    /// Validates.
    pub fn compile(&self) -> Result<Policy, Vec<PolicyProblem>> {
        Policy::compile(self.document.clone())
    }

    /// Line of a path such as `tenants[0].rules[1].role`, or of the nearest thing around it that is written.
    pub fn line_of(&self, path: &str) -> Option<usize> {
        if self.is_json {
            return None;
        }
        let table = DeTable::parse(&self.text).ok()?;
        let start = locate(&table, path)?;
        Some(self.text.get(..start)?.matches('\n').count() + 1)
    }
}

fn read_text(path: &Path) -> std::io::Result<String> {
    if path == Path::new("-") {
        let mut text = String::new();
        return std::io::stdin().read_to_string(&mut text).map(|_| text);
    }
    fs::read_to_string(path)
}

/// Octet at which the value of `path` starts; for what is missing, the innermost table there is.
fn locate(root: &Spanned<DeTable<'_>>, path: &str) -> Option<usize> {
    let mut found = None;
    let mut table = Some(root.get_ref());
    for segment in path.split('.') {
        let (name, indices) = segment.split_once('[').unwrap_or((segment, ""));
        let Some((key, mut value)) = table.and_then(|table| table.get_key_value(name)) else { break };
        found = Some(key.span().start);
        for index in indices.split(['[', ']']).filter(|index| !index.is_empty()) {
            let item = value.get_ref().as_array().zip(index.parse::<usize>().ok()).and_then(|(list, n)| list.get(n));
            let Some(item) = item else { return found };
            found = Some(item.span().start);
            value = item;
        }
        table = match value.get_ref() {
            DeValue::Table(table) => Some(table),
            _ => None,
        };
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_have_lines() {
        let text = "audience = \"a\"\n\n[aws_sts]\nregions = [\n  \"us-east-1\",\n  \"x\",\n]\n\n[[tenants]]\nid = \"acme\"\n\n[[tenants.rules]]\nmode = \"aws-sts\"\nrole = \"a/b\"\n";
        let file = PolicyFile {
            name: "policy.toml".to_owned(),
            document: toml::from_str(text).unwrap(),
            text: text.to_owned(),
            is_json: false,
        };
        for (path, line) in [
            ("audience", Some(1)),
            ("aws_sts.regions[1]", Some(6)),
            ("aws_sts.regions", Some(4)),
            ("tenants[0].id", Some(10)),
            ("tenants[0].rules[0].role", Some(14)),
            ("tenants[0].rules[0].account", Some(12)),
            ("trust_domain", None),
        ] {
            assert_eq!(file.line_of(path), line, "{path}");
        }
    }
}
