//! `aws-sts`: a `GetCallerIdentity` request, signed and not sent (PROTOCOL, Enroll).
//!
//! The request is signed with the SDK's own signer for the endpoint that the SDK's own rules name, over the binding to audience and
//! key. Its parts are the evidence: the control plane rebuilds and executes it. Credentials come from [`super::aws_credentials`].

use std::borrow::Cow;
use std::time::Duration;

use async_trait::async_trait;
use aws_credential_types::Credentials;
use aws_sdk_sts::config::endpoint::{DefaultResolver, Params, ResolveEndpoint as _};
use aws_sigv4::http_request::{SignableBody, SignableRequest, SigningSettings, sign};
use aws_sigv4::sign::v4;
use jiff::Timestamp;
use protocol::{Attestation, AwsStsEvidence, BINDING_HEADER, Mode, STS_BODY, binding_value};
use url::Url;

use super::aws_credentials::{self, Loaded};
use super::{Binding, Detail, Evidence, EvidenceSource, Facts, Fingerprint};
use crate::failure::Failure;
use crate::output::one_line;

const CONTENT_TYPE: &str = "application/x-www-form-urlencoded; charset=utf-8";

/// Source of [`Attestation::AwsSts`].
#[derive(Debug)]
pub struct AwsSts {
    region: String,
}

/// What is known about a signed request; nothing secret.
#[derive(Debug, Clone)]
pub struct StsFacts {
    /// Region signed for.
    pub region: String,
    /// Host signed for.
    pub host: String,
    /// Whether that host was chosen by configuration instead of the SDK's rules.
    pub custom_endpoint: bool,
    /// Access key id, which is no secret.
    pub access_key_id: String,
    /// Where the SDK found the credentials.
    pub source: String,
    /// When they end, where that is known.
    pub expires_at: Option<Timestamp>,
}

impl AwsSts {
    /// A source that signs for `region`.
    pub const fn new(region: String) -> Self {
        Self { region }
    }
}

#[async_trait]
impl EvidenceSource for AwsSts {
    fn mode(&self) -> Mode {
        Mode::AwsSts
    }

    async fn collect(&self, binding: Binding<'_>) -> Result<Evidence, Failure> {
        let loaded = aws_credentials::load(&self.region).await?;
        let endpoint = endpoint(&self.region, &loaded).await?;
        let attestation = signed_request(&self.region, &endpoint, &loaded.credentials, binding)?;
        let facts = StsFacts {
            region: self.region.clone(),
            host: host(&endpoint),
            custom_endpoint: loaded.endpoint_url.is_some(),
            access_key_id: loaded.credentials.access_key_id().to_owned(),
            source: loaded.source(),
            expires_at: loaded.credentials.expiry().and_then(|time| Timestamp::try_from(time).ok()),
        };
        Ok(Evidence {
            attestation: Attestation::AwsSts(attestation),
            facts: Facts {
                mode: Mode::AwsSts,
                audience: binding.audience.to_owned(),
                made_at: binding.now,
                fingerprint: Some(fingerprint(&loaded.credentials)),
                detail: Detail::AwsSts(facts),
            },
        })
    }

    async fn fingerprint(&self) -> Option<Fingerprint> {
        aws_credentials::load(&self.region).await.ok().map(|loaded| fingerprint(&loaded.credentials))
    }

    /// Each look runs the whole chain, which may ask AWS.
    fn pause(&self) -> Duration {
        Duration::from_secs(10)
    }
}

fn fingerprint(credentials: &Credentials) -> Fingerprint {
    Fingerprint::of(&[
        credentials.access_key_id().as_bytes(),
        credentials.secret_access_key().as_bytes(),
        credentials.session_token().unwrap_or_default().as_bytes(),
    ])
}

/// The STS endpoint of a region by the SDK's own rules: `AWS_ENDPOINT_URL_STS`, FIPS, dual stack, partition.
pub async fn endpoint(region: &str, loaded: &Loaded) -> Result<Url, Failure> {
    let wrong = |what: String| Failure::configuration(format!("no STS endpoint for AWS_REGION={region}: {what}"));
    let params = Params::builder()
        .region(region)
        .use_fips(loaded.use_fips)
        .use_dual_stack(loaded.use_dual_stack)
        .set_endpoint(loaded.endpoint_url.clone())
        .build()
        .map_err(|error| wrong(error.to_string()))?;
    let endpoint = DefaultResolver::new().resolve_endpoint(&params).await.map_err(|error| wrong(error.to_string()))?;
    let url = Url::parse(endpoint.url()).map_err(|_| wrong(format!("{} is not a URL", one_line(endpoint.url()))))?;
    if url.path() != "/" || url.query().is_some() || url.host().is_none() {
        return Err(wrong(format!("{} has more than scheme, host and port", one_line(endpoint.url())))
            .hint("AWS_ENDPOINT_URL_STS must name a host only: the control plane sends the request to the path /"));
    }
    Ok(url)
}

/// The value of the signed Host header: a port only where it is not the scheme's own.
fn host(endpoint: &Url) -> String {
    let name = endpoint.host_str().unwrap_or_default();
    endpoint.port().map_or_else(|| name.to_owned(), |port| format!("{name}:{port}"))
}

fn signed_request(
    region: &str,
    endpoint: &Url,
    credentials: &Credentials,
    binding: Binding<'_>,
) -> Result<AwsStsEvidence<'static>, Failure> {
    let failed = |what: &dyn std::fmt::Display| Failure::configuration(format!("cannot sign the STS request: {what}"));
    let bound = binding_value(binding.audience, &binding.key.spki_sha256());
    let identity = credentials.clone().into();
    let parameters = v4::SigningParams::builder()
        .identity(&identity)
        .region(region)
        .name("sts")
        .time(binding.now.into())
        .settings(SigningSettings::default())
        .build()
        .map_err(|error| failed(&error))?
        .into();
    let headers = [("content-type", CONTENT_TYPE), (BINDING_HEADER, bound.as_str())];
    let request =
        SignableRequest::new("POST", endpoint.as_str(), headers.into_iter(), SignableBody::Bytes(STS_BODY.as_bytes()))
            .map_err(|error| failed(&error))?;
    let (instructions, _) = sign(request, &parameters).map_err(|error| failed(&error))?.into_parts();
    let mut all: Vec<(Cow<'static, str>, Cow<'static, str>)> = headers
        .into_iter()
        .chain([("host", host(endpoint).as_str())])
        .chain(instructions.headers())
        .map(|(name, value)| (Cow::Owned(name.to_ascii_lowercase()), Cow::Owned(value.to_owned())))
        .collect();
    all.sort();
    Ok(AwsStsEvidence { region: Cow::Owned(region.to_owned()), headers: all, body: Cow::Borrowed(STS_BODY) })
}
