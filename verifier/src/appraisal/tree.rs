//! The policy text as a tree in which every mistake of shape can be collected, instead of ending at the first.
//!
//! Out of scope: syntax and equal keys. Those are the text's own faults and end the reading at once.

use std::fmt;

use protocol::admin::PolicyProblem;
use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::{Serialize, Serializer};

use super::keyed::Keyed;

/// Problems and warnings found so far.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Report {
    pub(super) problems: Vec<PolicyProblem>,
    pub(super) warnings: Vec<PolicyProblem>,
    /// Paths of the problems.
    faulty: Keyed<()>,
    /// Paths where something else stands in place of a table: what it lacks is not worth saying.
    no_tables: Keyed<()>,
}

impl Report {
    pub(super) fn problem(&mut self, path: impl Into<String>, message: impl Into<String>) {
        let path = path.into();
        self.faulty.insert(path.clone(), ());
        self.problems.push(PolicyProblem { path, message: message.into() });
    }

    pub(super) fn warning(&mut self, path: impl Into<String>, message: impl Into<String>) {
        self.warnings.push(PolicyProblem { path: path.into(), message: message.into() });
    }

    /// Says that a field is missing, unless it or its table is there with another fault.
    pub(super) fn missing(&mut self, path: &str, message: impl Into<String>) {
        let table = path.rsplit_once('.').map_or("", |(table, _)| table);
        if self.no_tables.get(table).is_none() && self.faulty.get(path).is_none() {
            self.problem(path, message);
        }
    }
}

/// Any value of JSON or TOML. Tables keep their order and have no equal keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Node {
    Null,
    Flag(bool),
    Number(serde_json::Number),
    Text(String),
    List(Vec<Node>),
    Table(Vec<(String, Node)>),
}

impl Node {
    const fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Flag(_) => "a boolean",
            Self::Number(_) => "a number",
            Self::Text(_) => "text",
            Self::List(_) => "a list",
            Self::Table(_) => "a table",
        }
    }

    /// The same with the members of its tables in order of their names, as far down as there are any.
    fn sorted(self) -> Self {
        match self {
            Self::List(items) => Self::List(items.into_iter().map(Self::sorted).collect()),
            Self::Table(entries) => Self::Table(sorted(entries.into_iter().map(|(name, node)| (name, node.sorted())))),
            other => other,
        }
    }
}

fn sorted(entries: impl Iterator<Item = (String, Node)>) -> Vec<(String, Node)> {
    let mut entries: Vec<_> = entries.collect();
    entries.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
    entries
}

impl Serialize for Node {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => serializer.serialize_unit(),
            Self::Flag(flag) => serializer.serialize_bool(*flag),
            Self::Number(number) => number.serialize(serializer),
            Self::Text(text) => serializer.serialize_str(text),
            Self::List(items) => serializer.collect_seq(items),
            Self::Table(entries) => serializer.collect_map(entries.iter().map(|(name, node)| (name, node))),
        }
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NodeVisitor)
    }
}

struct NodeVisitor;

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E: de::Error>(self) -> Result<Node, E> {
        Ok(Node::Null)
    }

    fn visit_bool<E: de::Error>(self, flag: bool) -> Result<Node, E> {
        Ok(Node::Flag(flag))
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Node, E> {
        Ok(Node::Number(number.into()))
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Node, E> {
        Ok(Node::Number(number.into()))
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<Node, E> {
        serde_json::Number::from_f64(number).map(Node::Number).ok_or_else(|| E::custom("a number that is not finite"))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Node, E> {
        Ok(Node::Text(text.to_owned()))
    }

    fn visit_string<E: de::Error>(self, text: String) -> Result<Node, E> {
        Ok(Node::Text(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Node, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Node::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Node, A::Error> {
        let mut entries: Vec<(String, Node)> = Vec::new();
        let mut seen = Keyed::default();
        while let Some((name, node)) = map.next_entry::<String, Node>()? {
            if seen.insert(name.clone(), ()).is_some() {
                return Err(de::Error::custom(format_args!("duplicate field `{}`", crate::encoding::shown(&name))));
            }
            entries.push((name, node));
        }
        Ok(Node::Table(entries))
    }
}

/// A table being read field by field; what is left at the end is unknown.
#[derive(Debug)]
pub(super) struct Table {
    path: String,
    entries: Vec<(String, Node)>,
    known: Vec<&'static str>,
}

impl Table {
    /// `node` as a table; anything else is a problem and reads as an empty one.
    pub(super) fn of(path: String, node: Node, report: &mut Report) -> Self {
        let entries = match node {
            Node::Table(entries) => entries,
            other => {
                report.problem(path.clone(), format!("must be a table, not {}", other.kind()));
                report.no_tables.insert(path.clone(), ());
                Vec::new()
            }
        };
        Self { path, entries, known: Vec::new() }
    }

    fn path_of(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { [&self.path, ".", name].concat() }
    }

    /// The value of a field; `null` is the same as absent.
    pub(super) fn take(&mut self, name: &'static str) -> Option<Node> {
        self.known.push(name);
        let at = self.entries.iter().position(|(key, _)| key == name)?;
        Some(self.entries.remove(at).1).filter(|node| !matches!(node, Node::Null))
    }

    fn wrong(&self, name: &str, wanted: &str, node: &Node, report: &mut Report) {
        report.problem(self.path_of(name), format!("must be {wanted}, not {}", node.kind()));
    }

    pub(super) fn text(&mut self, name: &'static str, report: &mut Report) -> Option<String> {
        match self.take(name)? {
            Node::Text(text) => Some(text),
            other => {
                self.wrong(name, "text", &other, report);
                None
            }
        }
    }

    pub(super) fn flag(&mut self, name: &'static str, report: &mut Report) -> Option<bool> {
        match self.take(name)? {
            Node::Flag(flag) => Some(flag),
            other => {
                self.wrong(name, "true or false", &other, report);
                None
            }
        }
    }

    /// A list with the path of each item.
    pub(super) fn list(&mut self, name: &'static str, report: &mut Report) -> Option<Vec<(String, Node)>> {
        let path = self.path_of(name);
        match self.take(name)? {
            Node::List(items) => {
                Some(items.into_iter().enumerate().map(|(n, item)| (format!("{path}[{n}]"), item)).collect())
            }
            other => {
                self.wrong(name, "a list", &other, report);
                None
            }
        }
    }

    /// A list of texts; items of another kind are problems.
    pub(super) fn texts(&mut self, name: &'static str, report: &mut Report) -> Option<Vec<String>> {
        let items = self.list(name, report)?;
        let texts = items.into_iter().filter_map(|(path, item)| match item {
            Node::Text(text) => Some(text),
            other => {
                report.problem(path, format!("must be text, not {}", other.kind()));
                None
            }
        });
        Some(texts.collect())
    }

    pub(super) fn table(&mut self, name: &'static str, report: &mut Report) -> Option<Self> {
        let path = self.path_of(name);
        self.take(name).map(|node| Self::of(path, node, report))
    }

    /// Any value. What it says does not depend on the order of members, so neither do its text and what it equals.
    pub(super) fn json(&mut self, name: &'static str) -> Option<Node> {
        self.take(name).map(Node::sorted)
    }

    /// A table with free names and text values, sorted.
    pub(super) fn text_table(&mut self, name: &'static str, report: &mut Report) -> Option<Vec<(String, String)>> {
        let table = self.table(name, report)?;
        let mut texts = Vec::new();
        for (key, node) in sorted(table.entries.into_iter()) {
            if let Node::Text(text) = node {
                texts.push((key, text));
            } else {
                let path = [&table.path, ".", &crate::encoding::shown(&key)].concat();
                report.problem(path, format!("must be text, not {}", node.kind()));
            }
        }
        Some(texts)
    }

    /// Fields that nobody asked for are problems.
    pub(super) fn finish(self, report: &mut Report) {
        for (name, _) in &self.entries {
            let known = self.known.join(", ");
            report.problem(
                self.path_of(&crate::encoding::shown(name)),
                format!("is no field of this table; its fields are {known}"),
            );
        }
    }
}
