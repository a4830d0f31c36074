//! Answer of `GetCallerIdentity`: one strict reader for JSON and one for XML, chosen by content type, never by sniffing (CHECKS S11),
//! and the meaning of every other answer, by status first and error code second (CHECKS S14).
//!
//! A lenient reader here is how attacker text of another STS action, reflected in its answer, became an identity (CVE-2020-16250):
//! root, namespace and path must be exact, each value there once, nothing else beside them. Out of scope: what the values mean
//! ([`super::arn`]).

use std::fmt;
use std::marker::PhantomData;

use roxmltree::{Document, Node, ParsingOptions};
use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeOwned, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use thiserror::Error;

/// Octets of an answer that are read at most (CHECKS S11).
pub const MAX_BODY: usize = 64 * 1024;

/// Namespace of every element of an STS answer.
const NAMESPACE: &str = "https://sts.amazonaws.com/doc/2011-06-15/";

/// Nodes of an XML answer at most: a real one has about 20.
const MAX_NODES: u32 = 128;

/// Error codes that mean throttling whatever the status (CHECKS S14).
const THROTTLING: [&str; 7] = [
    "Throttling",
    "ThrottlingException",
    "ThrottledException",
    "RequestThrottled",
    "RequestThrottledException",
    "RequestLimitExceeded",
    "TooManyRequestsException",
];

/// What STS says of the caller, as text.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
pub struct CallerIdentity {
    /// `Account`.
    pub account: String,
    /// `Arn`.
    pub arn: String,
    /// `UserId`.
    pub user_id: String,
}

/// An answer that names no caller.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum AnswerError {
    /// STS throttles: the evidence was not judged.
    #[error("STS throttles (HTTP {status})")]
    Throttled {
        /// HTTP status.
        status: u16,
    },
    /// STS failed: the evidence was not judged.
    #[error("STS failed (HTTP {status})")]
    Unavailable {
        /// HTTP status.
        status: u16,
    },
    /// STS refused the request.
    #[error("STS refused the request (HTTP {status}{})", code.as_deref().map(|code| format!(", {code}")).unwrap_or_default())]
    Refused {
        /// HTTP status.
        status: u16,
        /// AWS's error code, where the answer could be read; matches `[A-Za-z.]{1,64}`.
        code: Option<String>,
    },
    /// Neither an identity nor an error.
    #[error("the answer of STS (HTTP {status}) is not one: {problem}")]
    Invalid {
        /// HTTP status.
        status: u16,
        /// What is wrong with it.
        problem: &'static str,
    },
}

/// Reads a whole answer.
pub fn read(status: u16, content_type: Option<&str>, body: &[u8]) -> Result<CallerIdentity, AnswerError> {
    let invalid = |problem| AnswerError::Invalid { status, problem };
    match status {
        200 => identity(content_type, body).map_err(invalid),
        429 | 503 => Err(AnswerError::Throttled { status }),
        400..=499 => {
            let code = error_code(content_type, body);
            if code.as_deref().is_some_and(|code| THROTTLING.contains(&code)) {
                return Err(AnswerError::Throttled { status });
            }
            Err(AnswerError::Refused { status, code })
        }
        500..=599 => Err(AnswerError::Unavailable { status }),
        300..=399 => Err(invalid("it is a redirect")),
        _ => Err(invalid("its status means nothing here")),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Json,
    Xml,
}

/// `application/json` or `text/xml`, alone or in UTF-8.
fn format(content_type: &str) -> Option<Format> {
    let (essence, parameter) = content_type.split_once(';').map_or((content_type, None), |(a, b)| (a, Some(b)));
    let utf8 = |parameter: &str| {
        let parameter = parameter.trim_matches(' ');
        parameter.eq_ignore_ascii_case("charset=utf-8") || parameter.eq_ignore_ascii_case("charset=\"utf-8\"")
    };
    if !parameter.is_none_or(utf8) {
        return None;
    }
    let essence = essence.trim_matches(' ');
    if essence.eq_ignore_ascii_case("application/json") {
        Some(Format::Json)
    } else if essence.eq_ignore_ascii_case("text/xml") {
        Some(Format::Xml)
    } else {
        None
    }
}

fn identity(content_type: Option<&str>, body: &[u8]) -> Result<CallerIdentity, &'static str> {
    if body.len() > MAX_BODY {
        return Err("it is larger than 64 KiB");
    }
    match content_type.and_then(format).ok_or("its content type is neither application/json nor text/xml")? {
        Format::Json => identity_from_json(body),
        Format::Xml => identity_from_xml(body),
    }
}

/// AWS's error code, where the body is an error document with one code.
fn error_code(content_type: Option<&str>, body: &[u8]) -> Option<String> {
    if body.len() > MAX_BODY {
        return None;
    }
    let code = match format(content_type?)? {
        Format::Json => serde_json::from_slice::<Object<ErrorAnswer>>(body).ok()?.0.error.0.code,
        Format::Xml => error_code_from_xml(body)?,
    };
    let plain = (1..=64).contains(&code.len()) && code.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'.');
    plain.then_some(code)
}

/// A JSON object: the array form that serde reads into a struct as well is refused.
struct Object<T>(T);

impl<'de, T: DeserializeOwned> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ObjectVisitor<T>(PhantomData<T>);
        impl<'de, T: DeserializeOwned> Visitor<'de> for ObjectVisitor<T> {
            type Value = Object<T>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(Object)
            }
        }
        deserializer.deserialize_map(ObjectVisitor(PhantomData))
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
struct JsonAnswer {
    get_caller_identity_response: Object<JsonResponse>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
struct JsonResponse {
    get_caller_identity_result: Object<CallerIdentity>,
    #[serde(default, rename = "ResponseMetadata")]
    _metadata: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct ErrorAnswer {
    #[serde(rename = "Error")]
    error: Object<ErrorBody>,
}

#[derive(Deserialize)]
struct ErrorBody {
    #[serde(rename = "Code")]
    code: String,
}

fn identity_from_json(body: &[u8]) -> Result<CallerIdentity, &'static str> {
    let answer: Object<JsonAnswer> =
        serde_json::from_slice(body).map_err(|_| "it is not the JSON of GetCallerIdentity")?;
    Ok(answer.0.get_caller_identity_response.0.get_caller_identity_result.0)
}

fn identity_from_xml(body: &[u8]) -> Result<CallerIdentity, &'static str> {
    let text = std::str::from_utf8(body).map_err(|_| "it is not UTF-8")?;
    let document = parse_xml(text).ok_or("it is not well-formed XML without a document type")?;
    caller_identity(&document).ok_or("it is not the XML of GetCallerIdentity")
}

/// No document type, and a bound on nodes; nesting costs no stack.
fn parse_xml(text: &str) -> Option<Document<'_>> {
    let options = ParsingOptions { allow_dtd: false, nodes_limit: MAX_NODES, entity_resolver: None };
    Document::parse_with_options(text, options).ok()
}

fn caller_identity(document: &Document<'_>) -> Option<CallerIdentity> {
    let response = root(document, "GetCallerIdentityResponse")?;
    let mut result = None;
    let mut metadata = None;
    for child in elements(response)? {
        match child.tag_name().name() {
            "GetCallerIdentityResult" => set_once(&mut result, child)?,
            "ResponseMetadata" => set_once(&mut metadata, child)?,
            _ => return None,
        }
    }
    let (mut account, mut arn, mut user_id) = (None, None, None);
    for child in elements(result?)? {
        let slot = match child.tag_name().name() {
            "Account" => &mut account,
            "Arn" => &mut arn,
            "UserId" => &mut user_id,
            _ => return None,
        };
        set_once(slot, text_of(child)?)?;
    }
    Some(CallerIdentity { account: account?, arn: arn?, user_id: user_id? })
}

fn error_code_from_xml(body: &[u8]) -> Option<String> {
    let document = parse_xml(std::str::from_utf8(body).ok()?)?;
    let mut code = None;
    for error in
        elements(root(&document, "ErrorResponse")?)?.into_iter().filter(|node| node.tag_name().name() == "Error")
    {
        for child in elements(error)?.into_iter().filter(|node| node.tag_name().name() == "Code") {
            set_once(&mut code, text_of(child)?)?;
        }
    }
    code
}

/// The root element of this name in the namespace of STS, with no comment or instruction before or after it.
fn root<'a, 'input>(document: &'a Document<'input>, name: &str) -> Option<Node<'a, 'input>> {
    let root = elements(document.root())?.into_iter().next()?;
    (root.tag_name().name() == name).then_some(root)
}

/// The child elements, all in the namespace of STS and bare of attributes; between them only white space.
fn elements<'a, 'input>(node: Node<'a, 'input>) -> Option<Vec<Node<'a, 'input>>> {
    let mut elements = Vec::new();
    for child in node.children() {
        let blank = |text: &str| text.bytes().all(|byte| byte.is_ascii_whitespace());
        if child.is_element() {
            if child.tag_name().namespace() != Some(NAMESPACE) || child.attributes().len() != 0 {
                return None;
            }
            elements.push(child);
        } else if !(child.is_text() && child.text().is_some_and(blank)) {
            return None;
        }
    }
    Some(elements)
}

/// The text of an element that holds nothing but one text.
fn text_of(node: Node<'_, '_>) -> Option<String> {
    let mut children = node.children();
    let text = children.next().filter(Node::is_text)?;
    children.next().is_none().then(|| text.text().unwrap_or_default().to_owned())
}

fn set_once<T>(slot: &mut Option<T>, value: T) -> Option<()> {
    slot.replace(value).is_none().then_some(())
}
