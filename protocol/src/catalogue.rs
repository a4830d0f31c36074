//! What every code and reason means and what to do about it, for people: the source of `docs/errors.md`.
//!
//! `tests/errors_doc.rs` renders the page from here and fails when the two differ. What was wrong with one particular call stands in that
//! call's `detail`; nothing here repeats it.

use crate::{Code, Reason};

impl Code {
    /// What the verifier says by it.
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::MalformedRequest => {
                "The body is not the documented JSON: a field is missing, unknown, repeated, of the wrong type or over its limit; or the mode belongs to another route."
            }
            Self::CsrInvalid => {
                "The certificate signing request is not one PKCS#10 request, its own signature does not hold, or its key is of a kind or size that is not certified (P-256, P-384, Ed25519, RSA 2048 to 4096 with e = 65537 are)."
            }
            Self::AttestationInvalid => {
                "The evidence does not prove an identity. `reason` names the check that refused it; nothing was changed or used up."
            }
            Self::IdentityNotMapped => {
                "The evidence is genuine, and `detail` names the identity that it proved; but no rule of the policy gives this identity to a tenant. At a renewal: the rule that once did is gone."
            }
            Self::RunnerBanned => "An operator has banned this runner, or the instance behind it.",
            Self::MustReattest => {
                "A renewal is not enough any more: the time for a full attestation has come, or the runner is suspect because a certificate that it had already replaced was used again."
            }
            Self::CertificateSuperseded => {
                "The presented certificate was replaced and the replacement has been used. Somebody holds an old copy: the runner is suspect from now on."
            }
            Self::IdentityInUse => {
                "The instance already has an active runner under another key, and the policy has `one_key_per_instance = true`."
            }
            Self::Unauthorized => {
                "An admin or service route was called without a bearer token, or with one that the verifier does not know."
            }
            Self::Forbidden => {
                "The bearer token is of the other role (admin and service tokens do not stand in for each other), or the policy forbids what was asked, such as minting for a tenant with `bootstrap_tokens = false`."
            }
            Self::NotFound => "No such route, tenant, token or runner, or no policy yet.",
            Self::MethodNotAllowed => "The route exists; `Allow` lists the methods that it takes.",
            Self::EtagMismatch => {
                "`If-Match` names another version of the policy than the one in force. Nothing was changed."
            }
            Self::PayloadTooLarge => "The body is larger than 64 KiB.",
            Self::UnsupportedMediaType => "The body is not announced as `application/json`.",
            Self::PolicyInvalid => {
                "The policy has problems; `errors` lists every one of them with its place. The policy in force stays."
            }
            Self::EtagRequired => "A policy is in force already: replacing it needs `If-Match`.",
            Self::RateLimited => {
                "Too many requests, or too many refused ones, from this client address; or the runner holds a thousand certificates that have not ended. It says nothing about the evidence."
            }
            Self::UpstreamUnavailable => {
                "AWS STS, the host of the cluster's keys, or the verifier's own storage did not answer in time. The evidence was not judged."
            }
            Self::UpstreamThrottled => "AWS STS throttles the verifier's calls. The evidence was not judged.",
            Self::NotConfigured => {
                "The verifier lacks secrets or a policy, or its issuing CA has ended; `detail` lists what is missing."
            }
            Self::Internal => "A fault of the verifier. Its cause is in the verifier's log, never in the answer.",
        }
    }

    /// What to do.
    pub const fn remedy(self) -> &'static str {
        match self {
            Self::MalformedRequest => {
                "`detail` names the field. From an unchanged runner: runner and verifier are of different versions, or something on the way rewrites bodies."
            }
            Self::CsrInvalid => "Make the request anew with a key of the list. The runner always uses P-256.",
            Self::AttestationInvalid => {
                "Look the reason up below. `runner attest --reveal | edgectl explain -` shows every check with the values compared."
            }
            Self::IdentityNotMapped => {
                "Add a rule for the identity (`edgectl policy apply`). A rule that names a role with its path never matches: STS leaves the path out."
            }
            Self::RunnerBanned => {
                "`edgectl runner show` and `edgectl audit` say who banned it and why; `edgectl runner unban` lifts it. The runner attests anew afterwards."
            }
            Self::MustReattest => "The runner does so by itself. A bootstrap runner needs a new token.",
            Self::CertificateSuperseded => {
                "The runner attests by itself. Find out who else holds its state directory: a copied disk image, a restored backup, or a thief. `edgectl audit` has the event `suspect`."
            }
            Self::IdentityInUse => {
                "Stop the other runner, wait until its certificate has ended, or `edgectl runner evict` it. Was the state directory lost? Put it on a disk that outlives the process."
            }
            Self::Unauthorized => {
                "Send `Authorization: Bearer …` with the admin token, or the service token on `/v1/verify`; their SHA-256 must be among the worker's secrets."
            }
            Self::Forbidden => "Use the token of the right role, or change the policy.",
            Self::NotFound => {
                "Check the address: paths are exact, without a slash at the end. `edgectl token list` and `runner list` show ids, `edgectl policy show` tenants."
            }
            Self::MethodNotAllowed => "Use one of them.",
            Self::EtagMismatch => {
                "Somebody applied a policy in between. Read it (`edgectl policy diff`), then apply again."
            }
            Self::PayloadTooLarge => {
                "No runner sends that much; a policy that large has to be made smaller (a trailing `*` in role names helps)."
            }
            Self::UnsupportedMediaType => "Send `Content-Type: application/json`.",
            Self::PolicyInvalid => "`edgectl policy validate` says the same offline, with line numbers.",
            Self::EtagRequired => "Send the `ETag` of the version that you have read. `edgectl policy apply` does.",
            Self::RateLimited => "Wait as long as `Retry-After` says. The runner does.",
            Self::UpstreamUnavailable | Self::UpstreamThrottled => {
                "Wait as long as `Retry-After` says and try again. The runner does, and keeps its certificate meanwhile."
            }
            Self::NotConfigured => "The operator sets what is listed: see deploy.md. Runners keep trying.",
            Self::Internal => "Look for the `request_id` in the verifier's log.",
        }
    }
}

impl Reason {
    /// Numbers of the checks that refuse with it, for `attestation_invalid` of [`Code`].
    pub const fn checks(self) -> &'static str {
        match self {
            Self::BodyNotAllowed => "S1",
            Self::RegionNotAllowed => "S2",
            Self::HostNotAllowed => "S3",
            Self::HeaderNotAllowed | Self::DuplicateHeader => "S4",
            Self::AuthorizationInvalid => "S5",
            Self::ScopeInvalid | Self::RegionMismatch => "S6",
            Self::HeaderNotSigned => "S7",
            Self::BindingMismatch => "S8",
            Self::DateOutOfRange => "S9",
            Self::StsRefused => "S10, S14",
            Self::StsResponseInvalid => "S11, S13, S14",
            Self::ArnUnsupported => "S12",
            Self::TokenMalformed => "K1",
            Self::AlgNotAllowed => "K2, K4",
            Self::IssuerUnknown => "K3, K9",
            Self::KeyUnknown | Self::SignatureInvalid => "K4",
            Self::AudienceMismatch | Self::TokenExpired | Self::TokenNotYetValid | Self::TokenLifetime => "K5",
            Self::ClaimsInvalid => "K5, K6",
            Self::TokenReused => "K7",
            Self::BootstrapTokenRefused => "B1 to B5",
            Self::CertificateInvalid => "I4, I6, I8",
            Self::ProofInvalid => "I4",
        }
    }

    /// What the verifier says by it.
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::BodyNotAllowed => {
                "The body of the signed request is not the one and only body of a `GetCallerIdentity` call."
            }
            Self::RegionNotAllowed => {
                "The region is not in the policy's `aws_sts.regions`. No call was made; the credentials were not looked at."
            }
            Self::HostNotAllowed => {
                "The `host` header is not the STS host that the policy has for this region. `detail` names both."
            }
            Self::HeaderNotAllowed => {
                "A header that is not on the closed list, or a value that a header of the list must not have."
            }
            Self::DuplicateHeader => "The same header twice, in different letter case.",
            Self::AuthorizationInvalid => {
                "`authorization` is not exactly one SigV4 authorization with SHA-256 (SigV4A, SigV2 and joined values are not)."
            }
            Self::ScopeInvalid => {
                "The credential scope is for another service than `sts`, or for another day than `x-amz-date`."
            }
            Self::RegionMismatch => "The request names one region and was signed for another. `detail` names both.",
            Self::HeaderNotSigned => {
                "A header that must be covered by the signature is not, or one that was signed is missing."
            }
            Self::BindingMismatch => {
                "The signed `x-rootpilot-binding` is for another verifier or another key than this call's. `detail` names both values: when they differ in the middle part, it is the audience; in the last part, the key."
            }
            Self::DateOutOfRange => {
                "The request was signed more than 15 minutes ago, or is dated more than 5 minutes ahead of the verifier's clock."
            }
            Self::StsRefused => {
                "AWS itself refuses the signed request; `aws_error_code` is its own code, where it gave one."
            }
            Self::StsResponseInvalid => {
                "What came back from the STS address is not a well-formed answer of STS, or contradicts itself. It is not believed."
            }
            Self::ArnUnsupported => {
                "AWS proved an identity of a kind that has no rule: root, a federated user, a service."
            }
            Self::TokenMalformed => {
                "The text is not a compact JWS: three base64url parts with JSON objects in the first two."
            }
            Self::AlgNotAllowed => {
                "The token is not signed with RS256 or ES256, or its key is for another algorithm, or its header asks for an extension that is never honoured."
            }
            Self::IssuerUnknown => {
                "No rule and no `[[oidc_issuers]]` of the policy trusts the token's `iss`; or, under a `cluster = \"*\"` rule, Google knows no such cluster."
            }
            Self::KeyUnknown => "The issuer publishes no key with this `kid`, also after its keys were fetched again.",
            Self::SignatureInvalid => "The signature is not by the issuer's key.",
            Self::AudienceMismatch => "The token was made for somebody else. `detail` names both audiences.",
            Self::TokenExpired => "The token's `exp` has passed.",
            Self::TokenNotYetValid => "The token's `nbf` or `iat` lies ahead.",
            Self::TokenLifetime => "The token lives longer than the issuer's `max_token_lifetime` (1h unless set).",
            Self::ClaimsInvalid => {
                "A claim is missing, of the wrong type, or contradicts another; or the token is not bound to a pod."
            }
            Self::TokenReused => {
                "The evidence has been used: by another key, or before the runner was evicted or became suspect, or before its time for a full attestation came."
            }
            Self::BootstrapTokenRefused => {
                "The bootstrap token is not accepted. Unknown, wrong secret, expired, used up and revoked are answered alike, so that nobody can probe for tokens."
            }
            Self::CertificateInvalid => {
                "The presented certificate is not one of this verifier's, is out of date, revoked or unknown to the record, or not the one of the TLS connection."
            }
            Self::ProofInvalid => {
                "The signature is not by the certificate's key over this very call, or its timestamp is more than 5 minutes off."
            }
        }
    }

    /// What to do.
    pub const fn remedy(self) -> &'static str {
        match self {
            Self::BodyNotAllowed
            | Self::HeaderNotAllowed
            | Self::DuplicateHeader
            | Self::AuthorizationInvalid
            | Self::ScopeInvalid
            | Self::HeaderNotSigned => {
                "The runner never makes such a request: use a runner of the verifier's version, or compare your own client with `runner attest`."
            }
            Self::RegionNotAllowed => "Set `AWS_REGION` to a region of the list, or add this one to the policy.",
            Self::HostNotAllowed => {
                "Unset `AWS_ENDPOINT_URL_STS` and the FIPS or dual-stack settings of the AWS SDK on the runner; or set `aws_sts.fips` or `aws_sts.endpoints` in the policy."
            }
            Self::RegionMismatch => "Sign for the region that is sent. The runner takes both from `AWS_REGION`.",
            Self::BindingMismatch => {
                "Set `RUNNER_AUDIENCE` to the policy's `audience`. If the key differs, the request was made for another CSR: a replay, or a client that mixes attempts up."
            }
            Self::DateOutOfRange => {
                "Set the clock of the runner's machine; `server_time` in the answer is the right time."
            }
            Self::StsRefused => {
                "`ExpiredToken`: renew the credentials (`aws sso login`). `InvalidClientTokenId`: the key is gone, or the region is not enabled for the account. `SignatureDoesNotMatch`: wrong secret key or clock. `AccessDenied`: a service control or endpoint policy forbids the call."
            }
            Self::StsResponseInvalid => "Check `aws_sts.endpoints`: something that is not STS answers there.",
            Self::ArnUnsupported => "Attest as an assumed role or as an IAM user.",
            Self::TokenMalformed => "Name the token file itself, not its folder or another file.",
            Self::AlgNotAllowed => "Use the token that the kubelet projects.",
            Self::IssuerUnknown => "Add a rule that names the cluster. On EKS, aws-sts is the other way.",
            Self::KeyUnknown => {
                "Is the token of another cluster of the same name, or older than the cluster's last key rotation? The kubelet writes a new one; deleting the pod gets one at once."
            }
            Self::SignatureInvalid => {
                "Use the token that the kubelet projects, unchanged. With `jwks` or `jwks_uri` in the policy: are these the cluster's keys?"
            }
            Self::AudienceMismatch => "Set `audience` of the `serviceAccountToken` volume to the policy's `audience`.",
            Self::TokenExpired => {
                "The kubelet renews a projected token in time; a copied one is never renewed. The runner waits for a new one."
            }
            Self::TokenNotYetValid => {
                "The clocks of cluster and verifier differ. The runner tries again with the next token."
            }
            Self::TokenLifetime => {
                "Lower `expirationSeconds` of the volume, or raise `max_token_lifetime` (up to 24h)."
            }
            Self::ClaimsInvalid => {
                "Mount a `serviceAccountToken` volume. Tokens of `kubectl create token` and of ServiceAccount secrets name no pod and are refused."
            }
            Self::TokenReused => {
                "The runner waits for new evidence. One token serves one key: do not share a token volume between runners."
            }
            Self::BootstrapTokenRefused => {
                "Check that the token was copied whole, or mint another (`edgectl token mint`). `edgectl audit <tenant>` tells the cause."
            }
            Self::CertificateInvalid => "The runner attests again by itself.",
            Self::ProofInvalid => {
                "Set the clock and `RUNNER_AUDIENCE`. The runner corrects a wrong clock once, by the verifier's time."
            }
        }
    }
}
