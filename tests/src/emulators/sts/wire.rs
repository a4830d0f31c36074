//! Answers in the two formats STS speaks: XML of the query protocol, and JSON when the caller
//! accepts `application/json`. One tree is rendered either way, so the two cannot differ.

use axum::http::{HeaderName, StatusCode};
use quick_xml::Writer;
use quick_xml::events::BytesText;
use serde_json::{Map, Value, json};

use crate::emulators::fault::Answer;

const NAMESPACE: &str = "https://sts.amazonaws.com/doc/2011-06-15/";
const REQUEST_ID: HeaderName = HeaderName::from_static("x-amzn-requestid");

/// What the caller asked to get.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// `text/xml`
    Xml,
    /// `application/json`
    Json,
}

/// Part of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Node {
    /// An element with text.
    Text(&'static str, String),
    /// An element with a point in time, Unix seconds: text in XML, a number in JSON.
    Time(&'static str, i64),
    /// An element with elements.
    Group(&'static str, Vec<Node>),
}

/// Who is at fault, in AWS's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Party {
    /// The caller.
    Sender,
    /// AWS.
    Receiver,
}

/// A refusal as STS makes it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{status} {code}: {message}")]
pub struct StsError {
    /// HTTP status.
    pub status: u16,
    /// AWS error code.
    pub code: String,
    /// AWS message.
    pub message: String,
}

impl StsError {
    /// An error with a status of its own.
    pub fn new(status: u16, code: &str, message: impl Into<String>) -> Self {
        Self { status, code: code.to_owned(), message: message.into() }
    }

    fn party(&self) -> Party {
        if self.status >= 500 { Party::Receiver } else { Party::Sender }
    }
}

/// Renders the success of `action`: `<action>Response` with `<action>Result` holding `result`.
pub fn success(format: Format, action: &str, result: &[Node], request_id: &str) -> Answer {
    let body = match format {
        Format::Json => {
            let mut root = Map::new();
            root.insert(
                format!("{action}Response"),
                json!({
                    format!("{action}Result"): json_object(result),
                    "ResponseMetadata": {"RequestId": request_id},
                }),
            );
            Value::Object(root).to_string()
        }
        Format::Xml => document(&format!("{action}Response"), |writer| {
            writer
                .create_element(format!("{action}Result"))
                .write_inner_content(|writer| write_nodes(writer, result))?;
            let metadata = [Node::Text("RequestId", request_id.to_owned())];
            write_nodes(writer, &[Node::Group("ResponseMetadata", metadata.into())])
        }),
    };
    answer(StatusCode::OK, format, body, request_id)
}

/// Renders a refusal.
pub fn failure(format: Format, error: &StsError, request_id: &str) -> Answer {
    let party = match error.party() {
        Party::Sender => "Sender",
        Party::Receiver => "Receiver",
    };
    let body = match format {
        Format::Json => json!({
            "Error": {"Code": error.code, "Message": error.message, "Type": party},
            "RequestId": request_id,
        })
        .to_string(),
        Format::Xml => document("ErrorResponse", |writer| {
            let error = vec![
                Node::Text("Type", party.to_owned()),
                Node::Text("Code", error.code.clone()),
                Node::Text("Message", error.message.clone()),
            ];
            let request_id = Node::Text("RequestId", request_id.to_owned());
            write_nodes(writer, &[Node::Group("Error", error), request_id])
        }),
    };
    let status = StatusCode::from_u16(error.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    answer(status, format, body, request_id)
}

fn answer(status: StatusCode, format: Format, body: String, request_id: &str) -> Answer {
    let content_type = match format {
        Format::Xml => "text/xml",
        Format::Json => "application/json",
    };
    let mut answer = Answer::new(status, content_type, body);
    answer.headers.push((REQUEST_ID, request_id.to_owned()));
    answer
}

type Xml = Writer<Vec<u8>>;

fn document(root: &str, content: impl FnOnce(&mut Xml) -> std::io::Result<()>) -> String {
    let mut writer = Writer::new_with_indent(Vec::new(), b' ', 2);
    writer
        .create_element(root)
        .with_attribute(("xmlns", NAMESPACE))
        .write_inner_content(content)
        .expect("writing to memory");
    let mut text = String::from_utf8(writer.into_inner()).expect("made of strings");
    text.push('\n');
    text
}

fn write_nodes(writer: &mut Xml, nodes: &[Node]) -> std::io::Result<()> {
    for node in nodes {
        match node {
            Node::Text(name, text) => write_text(writer, name, text)?,
            Node::Time(name, seconds) => write_text(writer, name, &rfc3339(*seconds))?,
            Node::Group(name, children) => {
                writer.create_element(*name).write_inner_content(|writer| write_nodes(writer, children))?;
            }
        }
    }
    Ok(())
}

fn write_text(writer: &mut Xml, name: &str, text: &str) -> std::io::Result<()> {
    writer.create_element(name).write_text_content(BytesText::new(text))?;
    Ok(())
}

fn json_object(nodes: &[Node]) -> Value {
    let members = nodes.iter().map(|node| match node {
        Node::Text(name, text) => ((*name).to_owned(), Value::from(text.as_str())),
        Node::Time(name, seconds) => ((*name).to_owned(), Value::from(*seconds)),
        Node::Group(name, children) => ((*name).to_owned(), json_object(children)),
    });
    Value::Object(members.collect())
}

fn rfc3339(seconds: i64) -> String {
    jiff::Timestamp::from_second(seconds).map_or_else(|_| seconds.to_string(), |time| time.to_string())
}
