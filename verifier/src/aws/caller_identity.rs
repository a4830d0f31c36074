//! Answer of `GetCallerIdentity`: one strict reader for JSON and one for XML, chosen by content type, never by sniffing (CHECKS S11),
//! and the meaning of every other answer, by status first and error code second (CHECKS S14).
//!
//! A lenient reader here is how attacker text of another STS action, reflected in its answer, became an identity (CVE-2020-16250):
//! root, namespace and path must be exact, each value there once, nothing else beside them. Out of scope: what the values mean
//! ([`super::arn`]).

use protocol::Object;
use roxmltree::{Document, Node, ParsingOptions};
use serde::Deserialize;
use serde::de::IgnoredAny;
use thiserror::Error;

/// Octets of an answer that are read at most (CHECKS S11).
pub const MAX_BODY: usize = 64 * 1024;

/// Namespace of every element of an STS answer.
const NAMESPACE: &str = "https://sts.amazonaws.com/doc/2011-06-15/";

/// Why a body is no text.
const NOT_UTF8: &str = "it is not UTF-8";

/// Nodes of an XML answer at most: a real one has about 20.
const MAX_NODES: u32 = 64;

/// Equals signs in an XML answer at most. Each attribute has one, and the parser's work grows with the square of the attributes and
/// namespace declarations in scope: without this bound, 64 KiB of them take seconds.
const MAX_EQUALS: usize = 256;

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
        Format::Json => {
            serde_json::from_str::<Object<ErrorAnswer>>(std::str::from_utf8(body).ok()?).ok()?.0.error.0.code
        }
        Format::Xml => error_code_from_xml(body)?,
    };
    let plain = (1..=64).contains(&code.len()) && code.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'.');
    plain.then_some(code)
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
    let text = std::str::from_utf8(body).map_err(|_| NOT_UTF8)?;
    let answer: Object<JsonAnswer> =
        serde_json::from_str(text).map_err(|_| "it is not the JSON of GetCallerIdentity")?;
    Ok(answer.0.get_caller_identity_response.0.get_caller_identity_result.0)
}

fn identity_from_xml(body: &[u8]) -> Result<CallerIdentity, &'static str> {
    let text = std::str::from_utf8(body).map_err(|_| NOT_UTF8)?;
    let document = parse_xml(text).ok_or("it is not well-formed XML without a document type")?;
    caller_identity(&document).ok_or("it is not the XML of GetCallerIdentity")
}

/// No document type, and bounds on the work; nesting costs no stack.
fn parse_xml(text: &str) -> Option<Document<'_>> {
    if text.bytes().filter(|byte| *byte == b'=').count() > MAX_EQUALS {
        return None;
    }
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const RESULT: &str =
        "<GetCallerIdentityResult><Arn>a</Arn><UserId>u</UserId><Account>1</Account></GetCallerIdentityResult>";
    const JSON_RESULT: &str = r#"{"Account":"1","Arn":"a","UserId":"u"}"#;

    fn xml(inside: &str) -> String {
        format!(r#"<GetCallerIdentityResponse xmlns="{NAMESPACE}">{inside}</GetCallerIdentityResponse>"#)
    }

    fn json(result: &str) -> String {
        format!(
            r#"{{"GetCallerIdentityResponse":{{"GetCallerIdentityResult":{result},"ResponseMetadata":{{"RequestId":"r"}}}}}}"#
        )
    }

    fn expected() -> CallerIdentity {
        CallerIdentity { account: "1".into(), arn: "a".into(), user_id: "u".into() }
    }

    #[track_caller]
    fn invalid(content_type: &str, body: &str) {
        let error = read(200, Some(content_type), body.as_bytes()).unwrap_err();
        assert!(matches!(error, AnswerError::Invalid { status: 200, .. }), "{body:.200}: {error:?}");
    }

    #[test]
    fn both_formats_read_the_same() {
        let metadata = "<ResponseMetadata><RequestId>r</RequestId><Other/></ResponseMetadata>";
        for body in [
            xml(RESULT),
            format!("\u{feff}<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n{}\n", xml(RESULT)),
            xml(&format!("\n {RESULT}\r\n\t{metadata}\n")),
            xml(&format!("{metadata}{RESULT}")),
            xml(RESULT).replace("<Arn>a</Arn>", "<Arn><![CDATA[a]]></Arn>").replace(">u<", ">&#117;<"),
            format!(
                r#"<s:GetCallerIdentityResponse xmlns:s="{NAMESPACE}">{}</s:GetCallerIdentityResponse>"#,
                RESULT.replace("</", "\0").replace('<', "<s:").replace('\0', "</s:")
            ),
        ] {
            assert_eq!(read(200, Some("text/xml"), body.as_bytes()), Ok(expected()), "{body}");
        }
        for body in [
            json(JSON_RESULT),
            format!(r#"{{"GetCallerIdentityResponse":{{"GetCallerIdentityResult":{JSON_RESULT}}}}}"#),
            json(&JSON_RESULT.replace(":\"a\"", ":\"\\u0061\"")),
        ] {
            assert_eq!(read(200, Some("application/json"), body.as_bytes()), Ok(expected()), "{body}");
        }
    }

    #[test]
    fn content_type_decides_and_nothing_else() {
        let (xml, json) = (xml(RESULT), json(JSON_RESULT));
        for content_type in
            ["text/xml", "text/xml;charset=utf-8", "Text/XML; charset=\"UTF-8\"", "text/xml ; charset=utf-8"]
        {
            assert_eq!(read(200, Some(content_type), xml.as_bytes()), Ok(expected()), "{content_type}");
            invalid(content_type, &json);
        }
        for content_type in ["application/json", "application/json; charset=utf-8"] {
            assert_eq!(read(200, Some(content_type), json.as_bytes()), Ok(expected()), "{content_type}");
            invalid(content_type, &xml);
        }
        for content_type in [
            "",
            "text/html",
            "text/xml, application/json",
            "text/xmlx",
            "text/xml; charset=utf-16",
            "text/xml; charset=utf-8; x=y",
            "text/xml;",
            "application/xml",
            "application/x-amz-json-1.1",
        ] {
            invalid(content_type, &xml);
            invalid(content_type, &json);
        }
        assert!(read(200, None, xml.as_bytes()).is_err());
    }

    /// CHECKS S11: root, path, namespace, one result, no document type, nothing before or after.
    #[test]
    fn xml_of_another_shape_is_refused() {
        let good = xml(RESULT);
        for body in [
            String::new(),
            " ".into(),
            RESULT.into(),
            good.replace(NAMESPACE, "https://sts.amazonaws.com/doc/2011-06-15"),
            good.replace(&format!(" xmlns=\"{NAMESPACE}\""), ""),
            good.replace("<Arn>", "<Arn xmlns=\"urn:x\">"),
            good.replace("<GetCallerIdentityResult>", "<GetCallerIdentityResult xmlns=\"\">"),
            good.replace("GetCallerIdentityResponse", "AssumeRoleResponse"),
            good.replace("GetCallerIdentityResult", "AssumeRoleResult"),
            good.replace("GetCallerIdentity", "getcalleridentity"),
            xml(&format!("{RESULT}{RESULT}")),
            xml(&format!("<x>{RESULT}</x>")),
            xml(&format!("<ResponseMetadata>{RESULT}</ResponseMetadata>")),
            xml(&format!("{RESULT}<ResponseMetadata/><ResponseMetadata/>")),
            xml(&format!("{RESULT}<Other/>")),
            xml(&format!("{RESULT}text")),
            xml(&format!("{RESULT}&#160;")),
            xml(&format!("{RESULT}<!-- -->")),
            xml(&format!("{RESULT}<?x y?>")),
            good.replace("<Arn>a</Arn>", ""),
            good.replace("<Arn>a</Arn>", "<Arn/>"),
            good.replace("<Arn>a</Arn>", "<Arn></Arn>"),
            good.replace("<Arn>a</Arn>", "<Arn>a</Arn><Arn>a</Arn>"),
            good.replace("<Arn>a</Arn>", "<Arn><b>a</b></Arn>"),
            good.replace("<Arn>a</Arn>", "<Arn>a<!-- -->b</Arn>"),
            good.replace("<Arn>a</Arn>", "<Arn>a<b/></Arn>"),
            good.replace("<Arn>a</Arn>", "<Arn x=\"y\">a</Arn>"),
            good.replace("<Arn>a</Arn>", "<Arn>a</Arn><Other>a</Other>"),
            good.replace("<Arn>a</Arn>", "<Arn>&x;</Arn>"),
            good.replace("<Arn>a</Arn>", "<Arn>a\0</Arn>"),
            good.replace("</Arn>", "</arn>"),
            format!("{good}{good}"),
            format!("{good}x"),
            format!("x{good}"),
            format!("{good}<!-- -->"),
            format!("<!-- -->{good}"),
            format!("<?x y?>{good}"),
            format!("<!DOCTYPE x>{good}"),
            format!("<?xml version=\"1.0\"?><!DOCTYPE x [<!ENTITY e \"a\">]>{}", good.replace(">a<", ">&e;<")),
            good[..good.len() - 1].into(),
        ] {
            invalid("text/xml", &body);
        }
        let mut latin1 = good.replace(">a<", ">#<").into_bytes();
        let at = latin1.iter().position(|byte| *byte == b'#').unwrap();
        latin1[at] = 0xe9;
        assert!(read(200, Some("text/xml"), &latin1).is_err());
    }

    #[test]
    fn json_of_another_shape_is_refused() {
        let good = json(JSON_RESULT);
        for body in [
            String::new(),
            "null".into(),
            "[]".into(),
            JSON_RESULT.into(),
            format!("[{good}]"),
            format!("\u{feff}{good}"),
            format!("{good}{good}"),
            format!("{good} x"),
            good[..good.len() - 1].into(),
            json(&format!("[{JSON_RESULT}]")),
            json(r#"["1","a","u"]"#),
            format!(r#"{{"GetCallerIdentityResponse":[{JSON_RESULT}]}}"#),
            format!("[[{JSON_RESULT}]]"),
            format!(r#"{{"GetCallerIdentityResult":{JSON_RESULT}}}"#),
            json(&JSON_RESULT.replace("\"Arn\"", "\"arn\"")),
            json(&JSON_RESULT.replace("\"Arn\":\"a\"", "\"Arn\":null")),
            json(&JSON_RESULT.replace("\"Arn\":\"a\"", "\"Arn\":[\"a\"]")),
            json(&JSON_RESULT.replace("\"1\"", "1")),
            json(&JSON_RESULT.replace("\"Arn\":\"a\",", "")),
            json(&JSON_RESULT.replace("\"Arn\":\"a\"", "\"Arn\":\"a\",\"Arn\":\"a\"")),
            json(&JSON_RESULT.replace("\"Arn\":\"a\"", "\"Arn\":\"a\",\"Other\":\"a\"")),
            json(&format!(r#"{JSON_RESULT},"GetCallerIdentityResult":{JSON_RESULT}"#)),
            json(&format!(r#"{JSON_RESULT},"AssumeRoleResult":{{}}"#)),
            good.replace("GetCallerIdentityResponse", "AssumeRoleResponse"),
            good.replacen('{', r#"{"Other":1,"#, 1),
        ] {
            invalid("application/json", &body);
        }
    }

    #[test]
    fn depth_and_size_are_bounded() {
        let deep = 20_000;
        let namespaces: Vec<String> = (0..4_000).map(|n| format!("xmlns:a{n}=\"\"")).collect();
        let attributes: Vec<String> = (0..6_000).map(|n| format!("a{n}=\"\"")).collect();
        let bearing = |count: usize| {
            xml(&format!("{RESULT}<ResponseMetadata><x {}/></ResponseMetadata>", attributes[..count].join(" ")))
        };
        assert!(read(200, Some("text/xml"), bearing(MAX_EQUALS - 1).as_bytes()).is_ok());
        for body in [
            xml(&format!("{}{}", "<a>".repeat(deep), "</a>".repeat(deep))),
            "<a>".repeat(deep),
            "<a>".repeat(MAX_BODY / 3),
            xml(&format!("{RESULT}<ResponseMetadata>{}</ResponseMetadata>", "<a/>".repeat(MAX_NODES as usize))),
            xml(&RESULT.replace(">a<", &format!(">{}<", "a".repeat(MAX_BODY)))),
            format!("<a {}/>", attributes.join(" ")),
            bearing(MAX_EQUALS),
            format!("<a {}>{}</a>", namespaces.join(" "), "<b xmlns=\"x\"/>".repeat(1_000)),
        ] {
            invalid("text/xml", &body);
        }
        for body in [
            json(&format!("{}{}", "[".repeat(deep), "]".repeat(deep))),
            "[".repeat(deep),
            r#"{"GetCallerIdentityResponse":"#.repeat(2_000),
            json(&JSON_RESULT.replace("\"a\"", &format!("\"{}\"", "a".repeat(MAX_BODY)))),
        ] {
            invalid("application/json", &body);
        }
        let nested = format!(
            r#"{{"GetCallerIdentityResponse":{{"GetCallerIdentityResult":{JSON_RESULT},"ResponseMetadata":{}{}}}}}"#,
            "[".repeat(deep),
            "]".repeat(deep)
        );
        let _ = read(200, Some("application/json"), nested.as_bytes());
        let at_limit = xml(&RESULT.replace(">a<", &format!(">{}<", "a".repeat(MAX_BODY - xml(RESULT).len() + 1))));
        assert_eq!(at_limit.len(), MAX_BODY);
        assert!(read(200, Some("text/xml"), at_limit.as_bytes()).is_ok());
    }

    #[test]
    fn error_codes_are_read_by_content_type() {
        let xml = |code: &str| {
            format!(
                "<ErrorResponse xmlns=\"{NAMESPACE}\"><Error><Type>Sender</Type><Code>{code}</Code><Message>m</Message></Error><RequestId>r</RequestId></ErrorResponse>"
            )
        };
        let json = |code: &str| format!(r#"{{"Error":{{"Code":"{code}","Message":"m"}},"RequestId":"r"}}"#);
        let code = |content_type: &str, body: &str| match read(403, Some(content_type), body.as_bytes()).unwrap_err() {
            AnswerError::Refused { status: 403, code } => code,
            other => panic!("{other:?}"),
        };
        for good in ["ExpiredToken", "Client.RequestExpired", &"a".repeat(64)] {
            assert_eq!(code("text/xml", &xml(good)).as_deref(), Some(good));
            assert_eq!(code("application/json", &json(good)).as_deref(), Some(good));
        }
        for bad in ["", "Expired Token", "Expired1", "Éxpired", "a\\u0000", &"a".repeat(65)] {
            assert_eq!(code("text/xml", &xml(bad)), None, "{bad}");
            assert_eq!(code("application/json", &json(bad)), None, "{bad}");
        }
        assert_eq!(code("text/xml", &json("ExpiredToken")), None);
        assert_eq!(code("application/json", &xml("ExpiredToken")), None);
        assert_eq!(code("text/xml", &xml("A</Code><Code>B")), None);
        assert_eq!(code("text/html", &xml("A")), None);
        let of_size =
            |size: usize, body: &str| body.replace(">m<", &format!(">{}<", "m".repeat(size + 1 - body.len())));
        assert_eq!(code("text/xml", &of_size(MAX_BODY, &xml("A"))).as_deref(), Some("A"));
        assert_eq!(code("text/xml", &of_size(MAX_BODY + 1, &xml("A"))), None);
        for throttling in THROTTLING {
            let error = read(400, Some("text/xml"), xml(throttling).as_bytes()).unwrap_err();
            assert_eq!(error, AnswerError::Throttled { status: 400 });
        }
    }

    #[test]
    fn refusal_names_status_and_code_only() {
        let refused =
            |code: Option<&str>| AnswerError::Refused { status: 403, code: code.map(str::to_owned) }.to_string();
        assert_eq!(refused(Some("ExpiredToken")), "STS refused the request (HTTP 403, ExpiredToken)");
        assert_eq!(refused(None), "STS refused the request (HTTP 403)");
    }

    #[test]
    fn what_is_no_answer_says_why() {
        for (status, why) in
            [(302, "it is a redirect"), (204, "its status means nothing here"), (200, "its content type")]
        {
            let error = read(status, None, b"").unwrap_err();
            assert!(matches!(error, AnswerError::Invalid { problem, .. } if problem.starts_with(why)), "{error:?}");
        }
    }

    proptest! {
        #[test]
        fn any_octets_are_decided(status in 0_u16..=999, content_type in "(text/xml|application/json)(; ?charset=utf-8)?|\\PC{0,20}",
            body in proptest::collection::vec(any::<u8>(), 0..300)) {
            prop_assert!(read(status, Some(&content_type), &body).is_err());
        }

        /// Elements of an answer in any order and number: an identity comes out only when each is there once.
        #[test]
        fn shuffled_elements(parts in proptest::collection::vec(prop_oneof!["<Arn>a</Arn>", "<UserId>u</UserId>", "<Account>1</Account>"], 0..6)) {
            let body = xml(&format!("<GetCallerIdentityResult>{}</GetCallerIdentityResult>", parts.concat()));
            let mut sorted = parts;
            sorted.sort();
            let whole = sorted == ["<Account>1</Account>", "<Arn>a</Arn>", "<UserId>u</UserId>"];
            prop_assert_eq!(read(200, Some("text/xml"), body.as_bytes()).ok(), whole.then(expected));
        }
    }
}
