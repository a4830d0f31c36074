//! Headers of the signed request: the closed list of CHECKS S4, and what of it is forwarded.

use std::borrow::Cow;

use protocol::{BINDING_HEADER, Reason, STS_BODY};

use crate::Denial;
use crate::checks::Check;
use crate::encoding::{hex, sha256, shown};
use crate::trace::Trace;

pub(super) const FORM: &str = "application/x-www-form-urlencoded";
pub(super) const JSON: &str = "application/json";

/// The headers of the closed list (CHECKS S4).
#[derive(Debug, Default)]
pub(super) struct Headers<'a> {
    pub(super) authorization: Option<&'a str>,
    host: Option<&'a str>,
    content_type: Option<&'a str>,
    accept: Option<&'a str>,
    pub(super) date: Option<&'a str>,
    security_token: Option<&'a str>,
    content_sha256: Option<&'a str>,
    pub(super) binding: Option<&'a str>,
}

impl<'a> Headers<'a> {
    /// CHECKS S4.
    pub(super) fn check(headers: &'a [(Cow<'a, str>, Cow<'a, str>)], trace: &mut Trace) -> Result<Self, Denial> {
        let mut checked = Self::default();
        for (name, value) in headers {
            let lower = name.to_ascii_lowercase();
            let Some(slot) = checked.slot(&lower) else {
                return Err(not_allowed(
                    format!("header `{}` is not allowed", shown(name)),
                    "a header of the list",
                    name,
                ));
            };
            if slot.is_some() {
                return Err(duplicate(&lower));
            }
            if !value.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic()) {
                let detail = format!("the value of header `{lower}` is not visible ASCII");
                return Err(not_allowed(detail, "visible ASCII", &lower));
            }
            *slot = Some(value);
        }
        checked.check_values()?;
        trace.pass(Check::S4, || {
            let names: Vec<String> = headers.iter().map(|(name, _)| name.to_ascii_lowercase()).collect();
            ("headers of the list only".to_owned(), super::list(names))
        });
        Ok(checked)
    }

    fn slot(&mut self, name: &str) -> Option<&mut Option<&'a str>> {
        Some(match name {
            "authorization" => &mut self.authorization,
            "host" => &mut self.host,
            "content-type" => &mut self.content_type,
            "accept" => &mut self.accept,
            "x-amz-date" => &mut self.date,
            "x-amz-security-token" => &mut self.security_token,
            "x-amz-content-sha256" => &mut self.content_sha256,
            BINDING_HEADER => &mut self.binding,
            _ => return None,
        })
    }

    /// The three headers that may have one value only, give or take `charset`.
    fn check_values(&self) -> Result<(), Denial> {
        let refuse = |name: &str, wanted: &str, sent: &str| {
            not_allowed(format!("header `{name}` must be `{wanted}`, not `{}`", shown(sent)), wanted, sent)
        };
        if let Some(sent) = self.content_type
            && !is_form(sent)
        {
            return Err(refuse("content-type", FORM, sent));
        }
        if let Some(sent) = self.accept
            && sent != JSON
        {
            return Err(refuse("accept", JSON, sent));
        }
        if let Some(sent) = self.content_sha256 {
            let wanted = hex(&sha256(STS_BODY.as_bytes()));
            if sent != wanted {
                return Err(refuse("x-amz-content-sha256", &wanted, sent));
            }
        }
        Ok(())
    }

    /// Name and value of what was sent, `authorization` left out.
    pub(super) fn sent(&self) -> impl Iterator<Item = (&'static str, &'a str)> {
        [
            ("host", self.host),
            ("content-type", self.content_type),
            ("accept", self.accept),
            ("x-amz-date", self.date),
            ("x-amz-security-token", self.security_token),
            ("x-amz-content-sha256", self.content_sha256),
            (BINDING_HEADER, self.binding),
        ]
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)))
    }

    /// Headers of the call. `host` is that of its URL; `content-type` and `accept` are there even if they were not sent.
    pub(super) fn forwarded(&self) -> Vec<(String, String)> {
        let set = [
            ("authorization", self.authorization),
            ("content-type", self.content_type.or(Some(FORM))),
            ("accept", Some(JSON)),
        ];
        set.into_iter()
            .filter_map(|(name, value)| Some((name, value?)))
            .chain(self.sent().filter(|(name, _)| !matches!(*name, "host" | "content-type" | "accept")))
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect()
    }
}

/// Form-urlencoded, with or without `charset=utf-8`.
fn is_form(value: &str) -> bool {
    let (essence, parameter) = value.split_once(';').map_or((value, None), |(a, b)| (a, Some(b)));
    let utf8 = |parameter: &str| parameter.strip_prefix(' ').unwrap_or(parameter).eq_ignore_ascii_case("charset=utf-8");
    essence.eq_ignore_ascii_case(FORM) && parameter.is_none_or(utf8)
}

fn not_allowed(detail: String, expected: &str, actual: &str) -> Denial {
    Denial::evidence(Check::S4, Reason::HeaderNotAllowed, detail).compared(expected, shown(actual))
}

pub(super) fn duplicate(name: &str) -> Denial {
    let detail = format!("header `{name}` is there twice, in different cases");
    Denial::evidence(Check::S4, Reason::DuplicateHeader, detail)
}
