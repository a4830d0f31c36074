//! `aws-sts`: a signed `GetCallerIdentity` request, rebuilt by the verifier and sent to STS, which alone can judge its signature
//! (CHECKS S).
//!
//! The parts of the request are validated only to refuse early with a clear reason: method, path, query, body and address of the call
//! are the verifier's own constants, and each forwarded header has a fixed or a bounded value. [`CheckedRequest`] exists only when S1
//! to S9 passed, and only its [`CheckedRequest::call`] makes a [`VerifiedIdentity`]. Out of scope: which tenant the identity belongs
//! to, and whether this evidence was used before.

mod headers;

use std::borrow::Cow;

use protocol::{AwsStsEvidence, BINDING_HEADER, Code, Reason, STS_BODY, limits};

use self::headers::{Headers, duplicate};
use super::identity::{AwsPrincipal, EvidenceUse, Principal, PrincipalKind, VerifiedIdentity};
use crate::appraisal::AwsStsSettings;
use crate::aws::arn::{ArnError, Caller, CallerArn, is_account};
use crate::aws::caller_identity::{self, AnswerError, CallerIdentity};
use crate::aws::endpoint::Endpoint;
use crate::aws::partition::{self, Region};
use crate::aws::sigv4::Authorization;
use crate::checks::Check;
use crate::encoding::{b64url, hex, sha256, shown};
use crate::ports::{HttpClient, HttpError, HttpRequest};
use crate::trace::Trace;
use crate::{Denial, UnixTime};

/// Whole time of one call to STS, milliseconds (CHECKS S10).
pub const TIMEOUT_MS: u32 = 10_000;
/// Age that a request may have, seconds (CHECKS S9).
const MAX_AGE: i64 = 15 * 60;
/// How far ahead of the verifier's clock a request may be dated, seconds (CHECKS S9).
const MAX_AHEAD: i64 = 5 * 60;
/// How long after its date a request is remembered, seconds (PROTOCOL, Serials).
const REMEMBERED: i64 = 20 * 60;

/// A request that passed CHECKS S1 to S9 and is ready to be sent.
#[derive(Debug)]
pub struct CheckedRequest {
    region: Region,
    request: HttpRequest,
    evidence: EvidenceUse,
}

/// Field limits (PROTOCOL, Limits): `malformed_request`, before anything else of the evidence or the CSR is looked at.
pub fn check_limits(evidence: &AwsStsEvidence<'_>) -> Result<(), Denial> {
    if evidence.headers.len() > limits::HEADERS {
        return Err(Denial::malformed("`attestation.headers` has more than 16 headers"));
    }
    let mut total = 0_usize;
    for (name, value) in &evidence.headers {
        let limit =
            if name.eq_ignore_ascii_case("x-amz-security-token") { limits::SECURITY_TOKEN } else { limits::HEADER };
        if name.len() > limits::HEADER || value.len() > limit {
            let name = shown(name.get(..64).unwrap_or(name));
            return Err(Denial::malformed(format!("header `{name}` is longer than {limit} octets")));
        }
        total = total.saturating_add(name.len()).saturating_add(value.len());
    }
    if total > limits::HEADERS_TOTAL {
        return Err(Denial::malformed("`attestation.headers` is larger than 24 KiB"));
    }
    Ok(())
}

impl CheckedRequest {
    /// CHECKS S1 to S9, in this order; nothing is sent.
    pub fn check(
        evidence: &AwsStsEvidence<'_>,
        settings: &AwsStsSettings,
        audience: &str,
        spki_sha256: &[u8; 32],
        now: UnixTime,
        trace: &mut Trace,
    ) -> Result<Self, Denial> {
        check_limits(evidence)?;
        check_body(&evidence.body, trace)?;
        let region = check_region(&evidence.region, settings, trace)?;
        let endpoint = check_host(&evidence.headers, region, settings, trace)?;
        let headers = Headers::check(&evidence.headers, trace)?;
        let authorization = check_authorization(&headers, trace)?;
        check_scope(&authorization, &headers, region, trace)?;
        check_signed(&authorization, &headers, trace)?;
        check_binding(&headers, audience, spki_sha256, trace)?;
        let date = check_date(&headers, now, trace)?;
        let signature = [b"aws-sts\0", authorization.signature.as_bytes()].concat();
        Ok(Self {
            region,
            request: HttpRequest {
                url: endpoint.url(),
                body: Some(STS_BODY),
                headers: headers.forwarded(),
                timeout_ms: TIMEOUT_MS,
                max_body: caller_identity::MAX_BODY,
            },
            evidence: EvidenceUse {
                digest: hex(&sha256(&signature)),
                until: date.plus(REMEMBERED),
                reason: Reason::TokenReused,
            },
        })
    }

    /// Region whose STS will be called.
    pub const fn region(&self) -> &'static str {
        self.region.name()
    }

    /// Sends the request and reads the answer: CHECKS S10 to S14.
    pub async fn call(self, http: &impl HttpClient, trace: &mut Trace) -> Result<VerifiedIdentity, Denial> {
        let answer = match http.send(&self.request).await {
            Err(HttpError::Connect) => http.send(&self.request).await,
            answer => answer,
        };
        let read = match answer {
            Ok(answer) => caller_identity::read(answer.status, answer.content_type.as_deref(), &answer.body),
            Err(HttpError::TooLarge { status: 200 }) => {
                Err(AnswerError::Invalid { status: 200, problem: "it is larger than 64 KiB" })
            }
            Err(HttpError::TooLarge { status }) => caller_identity::read(status, None, &[]),
            Err(error) => return Err(no_answer(error)),
        };
        if matches!(read, Ok(_) | Err(AnswerError::Invalid { status: 200, .. })) {
            trace.pass(Check::S10, || (format!("HTTP 200 from {}", self.request.url), "HTTP 200".to_owned()));
        }
        let identity = read.map_err(|error| answer_denial(&error))?;
        let principal = principal(&identity, self.region, trace)?;
        Ok(VerifiedIdentity::new(Principal::Aws(principal), self.evidence))
    }
}

/// CHECKS S1.
fn check_body(body: &str, trace: &mut Trace) -> Result<(), Denial> {
    if body != STS_BODY {
        return Err(Denial::evidence(
            Check::S1,
            Reason::BodyNotAllowed,
            format!("`attestation.body` must be exactly `{STS_BODY}`"),
        )
        .compared(STS_BODY, shown(body)));
    }
    trace.pass(Check::S1, || (STS_BODY.to_owned(), STS_BODY.to_owned()));
    Ok(())
}

/// CHECKS S2.
fn check_region(region: &str, settings: &AwsStsSettings, trace: &mut Trace) -> Result<Region, Denial> {
    let listed = settings.regions.iter().any(|allowed| allowed == region);
    let Some(found) = partition::region(region).filter(|_| listed) else {
        let allowed = list(&settings.regions);
        let detail = format!("region `{}` is not allowed; allowed: {allowed}", shown(region));
        return Err(Denial::evidence(Check::S2, Reason::RegionNotAllowed, detail)
            .compared(format!("one of {allowed}"), shown(region)));
    };
    trace.pass(Check::S2, || (format!("one of {}", list(&settings.regions)), region.to_owned()));
    Ok(found)
}

/// Endpoints of a region: its own, or the one that the policy has in their place.
fn endpoints(region: Region, settings: &AwsStsSettings) -> Vec<Endpoint> {
    match settings.endpoints.iter().find(|(name, _)| name == region.name()) {
        Some((_, written)) => Endpoint::parse(written).into_iter().collect(),
        None => region.hosts(settings.fips).into_iter().map(Endpoint::of_host).collect(),
    }
}

/// CHECKS S3. Twins by case are no host of their own: CHECKS S4 names them.
fn check_host(
    headers: &[(Cow<'_, str>, Cow<'_, str>)],
    region: Region,
    settings: &AwsStsSettings,
    trace: &mut Trace,
) -> Result<Endpoint, Denial> {
    let mut hosts = headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case("host")).map(|(_, value)| value);
    let sent = hosts.next();
    if let Some(twin) = hosts.next() {
        return Err(duplicate("host").compared("one host header", shown(twin)));
    }
    let endpoints = endpoints(region, settings);
    let allowed = list(endpoints.iter().map(Endpoint::authority));
    let Some(endpoint) = endpoints.into_iter().find(|endpoint| sent.is_some_and(|sent| sent == endpoint.authority()))
    else {
        let named = sent.map_or_else(|| "no host header".to_owned(), |sent| format!("host `{}`", shown(sent)));
        let detail = format!("{named} is not an STS host of region `{}`; allowed: {allowed}", region.name());
        return Err(Denial::evidence(Check::S3, Reason::HostNotAllowed, detail)
            .compared(format!("one of {allowed}"), sent.map_or_else(|| "none".to_owned(), |sent| shown(sent))));
    };
    trace.pass(Check::S3, || (format!("one of {allowed}"), endpoint.authority().to_owned()));
    Ok(endpoint)
}

/// CHECKS S5.
fn check_authorization<'a>(headers: &Headers<'a>, trace: &mut Trace) -> Result<Authorization<'a>, Denial> {
    const WANTED: &str = "one AWS4-HMAC-SHA256 Authorization";
    let refuse = |detail: String| Denial::evidence(Check::S5, Reason::AuthorizationInvalid, detail);
    let value = headers
        .authorization
        .ok_or_else(|| refuse("there is no authorization header".to_owned()).compared(WANTED, "none"))?;
    let authorization = Authorization::parse(value).map_err(|error| {
        refuse(format!("the authorization header is not the usual one: {error}")).compared(WANTED, error.to_string())
    })?;
    trace.pass(Check::S5, || (WANTED.to_owned(), "one of this form".to_owned()));
    Ok(authorization)
}

/// CHECKS S6. Without a readable `x-amz-date` there is no day to compare: S7 or S9 refuses then.
fn check_scope(
    authorization: &Authorization<'_>,
    headers: &Headers<'_>,
    region: Region,
    trace: &mut Trace,
) -> Result<(), Denial> {
    if authorization.service != "sts" {
        let detail = format!("the credential scope is for service `{}`, not `sts`", shown(authorization.service));
        return Err(
            Denial::evidence(Check::S6, Reason::ScopeInvalid, detail).compared("sts", shown(authorization.service))
        );
    }
    if authorization.region != region.name() {
        let detail = format!(
            "the request names region `{}`, but its credential scope is for `{}`",
            region.name(),
            shown(authorization.region)
        );
        return Err(Denial::evidence(Check::S6, Reason::RegionMismatch, detail)
            .compared(region.name(), shown(authorization.region)));
    }
    let day = headers.date.filter(|date| UnixTime::from_amz_date(date).is_some()).and_then(|date| date.get(..8));
    if let Some(day) = day
        && day != authorization.day
    {
        let detail = format!("the credential scope is of day `{}`, x-amz-date of `{day}`", shown(authorization.day));
        return Err(Denial::evidence(Check::S6, Reason::ScopeInvalid, detail).compared(day, shown(authorization.day)));
    }
    trace.pass(Check::S6, || {
        let scope = |day: &str, region: &str| format!("{day}/{region}/sts");
        (scope(day.unwrap_or("any day"), region.name()), scope(authorization.day, authorization.region))
    });
    Ok(())
}

/// CHECKS S7.
fn check_signed(authorization: &Authorization<'_>, headers: &Headers<'_>, trace: &mut Trace) -> Result<(), Denial> {
    let refuse = |detail: String, actual: &str| {
        Denial::evidence(Check::S7, Reason::HeaderNotSigned, detail).compared("every header sent and signed", actual)
    };
    for name in ["host", "x-amz-date", BINDING_HEADER] {
        if !authorization.signs(name) {
            return Err(refuse(format!("header `{name}` must be signed"), &format!("{name} is not signed")));
        }
    }
    for name in &authorization.signed_headers {
        if !headers.sent().any(|(sent, _)| sent == *name) {
            let name = shown(name);
            return Err(refuse(format!("header `{name}` is signed but was not sent"), &format!("{name} is missing")));
        }
    }
    for (name, _) in headers.sent() {
        if !matches!(name, "accept" | "content-type") && !authorization.signs(name) {
            return Err(refuse(format!("header `{name}` must be signed"), &format!("{name} is not signed")));
        }
    }
    trace.pass(Check::S7, || {
        (format!("host, x-amz-date, {BINDING_HEADER} and all others sent"), list(&authorization.signed_headers))
    });
    Ok(())
}

/// CHECKS S8. An empty audience refuses everything (CHECKS A4).
fn check_binding(
    headers: &Headers<'_>,
    audience: &str,
    spki_sha256: &[u8; 32],
    trace: &mut Trace,
) -> Result<(), Denial> {
    let expected = protocol::binding_value(audience, &b64url(spki_sha256));
    let sent = headers.binding.unwrap_or_default();
    if sent != expected || audience.is_empty() {
        let detail = format!(
            "{BINDING_HEADER} is `{}`, but this audience and the key of the CSR need `{}`",
            shown(sent),
            shown(&expected)
        );
        return Err(Denial::evidence(Check::S8, Reason::BindingMismatch, detail).compared(expected, shown(sent)));
    }
    trace.pass(Check::S8, || (expected.clone(), sent.to_owned()));
    Ok(())
}

/// CHECKS S9.
fn check_date(headers: &Headers<'_>, now: UnixTime, trace: &mut Trace) -> Result<UnixTime, Denial> {
    let wanted = || format!("at most {MAX_AGE} s before and {MAX_AHEAD} s after {}", now.to_rfc3339());
    let refuse = |detail: String, actual: String| {
        Denial::evidence(Check::S9, Reason::DateOutOfRange, detail).compared(wanted(), actual)
    };
    let sent = headers.date.unwrap_or_default();
    let Some(date) = UnixTime::from_amz_date(sent) else {
        return Err(refuse(format!("x-amz-date `{}` has not the form YYYYMMDDThhmmssZ", shown(sent)), shown(sent)));
    };
    let age = now.since(date);
    let off = if age < 0 { format!("{} s ahead of", age.unsigned_abs()) } else { format!("{age} s behind") };
    if !(-MAX_AHEAD..=MAX_AGE).contains(&age) {
        let detail = format!("x-amz-date `{sent}` is {off} the server's time {}", now.to_rfc3339());
        return Err(refuse(detail, format!("{sent}, {off}")));
    }
    trace.pass(Check::S9, || (wanted(), format!("{sent}, {off}")));
    Ok(date)
}

/// CHECKS S14: STS did not answer, so the evidence was not judged.
fn no_answer(error: HttpError) -> Denial {
    Denial::new(Code::UpstreamUnavailable, format!("STS did not answer: {error}"))
        .at(Check::S10)
        .compared("an answer of STS", error.to_string())
}

/// CHECKS S14.
fn answer_denial(error: &AnswerError) -> Denial {
    let text = error.to_string();
    match error {
        AnswerError::Throttled { .. } => {
            Denial::new(Code::UpstreamThrottled, &text).at(Check::S10).compared("HTTP 200", text)
        }
        AnswerError::Unavailable { .. } => {
            Denial::new(Code::UpstreamUnavailable, &text).at(Check::S10).compared("HTTP 200", text)
        }
        AnswerError::Refused { code, .. } => {
            let denial = Denial::evidence(Check::S10, Reason::StsRefused, &text).compared("HTTP 200", text);
            Denial { aws_error_code: code.clone(), ..denial }
        }
        AnswerError::Invalid { status: 200, .. } => answer_invalid(Check::S11, text),
        AnswerError::Invalid { .. } => answer_invalid(Check::S10, text),
    }
}

fn answer_invalid(check: Check, detail: impl Into<String>) -> Denial {
    let detail = detail.into();
    Denial::evidence(check, Reason::StsResponseInvalid, &detail).compared("an answer of GetCallerIdentity", detail)
}

/// CHECKS S11 (values), S12 and S13.
fn principal(identity: &CallerIdentity, region: Region, trace: &mut Trace) -> Result<AwsPrincipal, Denial> {
    let arn = CallerArn::parse(&identity.arn).map_err(|error| answer_invalid(Check::S11, format!("Arn is {error}")))?;
    let expected = (region.partition().id, identity.account.as_str());
    if !is_account(&identity.account) || (arn.partition, arn.account) != expected {
        return Err(Denial::evidence(
            Check::S11,
            Reason::StsResponseInvalid,
            "Account is not one, or account or partition of Arn is another one",
        )
        .compared(
            format!("{}, {}", expected.0, shown(expected.1)),
            format!("{}, {}", shown(arn.partition), arn.account),
        ));
    }
    trace.pass(Check::S11, || {
        (format!("{}, {}", expected.0, expected.1), format!("{}, {}", arn.partition, arn.account))
    });
    let caller = arn.caller().map_err(|error: ArnError| {
        Denial::evidence(Check::S12, Reason::ArnUnsupported, format!("`{}` is {error}", shown(&identity.arn)))
            .compared("an assumed role or an IAM user", shown(&identity.arn))
    })?;
    trace.pass(Check::S12, || ("an assumed role or an IAM user".to_owned(), identity.arn.clone()));
    let unique_id = unique_id(&identity.user_id, caller)
        .ok_or_else(|| answer_invalid(Check::S13, "UserId does not fit its Arn"))?;
    let (kind, name, session) = match caller {
        Caller::AssumedRole { role, session } => (PrincipalKind::Role, role, Some(session.to_owned())),
        Caller::User { name } => (PrincipalKind::User, name, None),
    };
    let principal = AwsPrincipal {
        partition: arn.partition.to_owned(),
        account: arn.account.to_owned(),
        kind,
        name: name.to_owned(),
        session,
        unique_id: unique_id.to_owned(),
        user_id: identity.user_id.clone(),
    };
    trace.pass(Check::S13, || {
        ("partition, account, kind, name, session, unique id".to_owned(), Principal::Aws(principal.clone()).identity())
    });
    Ok(principal)
}

/// The part of `UserId` before the colon; a role's has one, a user's has none (CHECKS S13).
fn unique_id<'a>(user_id: &'a str, caller: Caller<'_>) -> Option<&'a str> {
    let unique_id = match caller {
        Caller::AssumedRole { .. } => {
            let (unique_id, session) = user_id.split_once(':')?;
            let named = (1..=128).contains(&session.len()) && session.bytes().all(|byte| byte.is_ascii_graphic());
            named.then_some(unique_id)?
        }
        Caller::User { .. } => user_id,
    };
    let form = (1..=128).contains(&unique_id.len())
        && unique_id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    form.then_some(unique_id)
}

fn list<T: AsRef<str>>(items: impl IntoIterator<Item = T>) -> String {
    let items: Vec<T> = items.into_iter().collect();
    if items.is_empty() {
        return "none".to_owned();
    }
    items.iter().map(AsRef::as_ref).collect::<Vec<&str>>().join(", ")
}

#[cfg(test)]
mod tests;
