//! Assuming roles: by web identity, as IRSA does, and by another principal.

use super::*;
use crate::emulators::oidc::{IssuerConfig, OidcIssuer, TokenOptions, eks_issuer};

const CLUSTER_ID: &str = "EXAMPLED539D4633E53DE1B716D3041E";

struct Irsa {
    sts: StsEmulator,
    oidc: OidcIssuer,
    issuer: String,
    role: Role,
}

impl Irsa {
    fn start() -> Self {
        let (sts, oidc) = (super::start(), OidcIssuer::start(IssuerConfig::default()).unwrap());
        let issuer = eks_issuer(REGION, CLUSTER_ID);
        let mut role = Role::new(ACCOUNT, "irsa-runner");
        role.path = "/teams/a/".to_owned();
        role.web_identity = vec![WebIdentityTrust {
            issuer: issuer.clone(),
            jwks_uri: oidc.jwks_uri(&issuer),
            audience: "sts.amazonaws.com".to_owned(),
            subjects: vec!["system:serviceaccount:rootpilot:runner".to_owned()],
        }];
        sts.put_role(role.clone());
        Self { sts, oidc, issuer, role }
    }

    fn options(&self) -> TokenOptions {
        TokenOptions {
            issuer: Some(self.issuer.clone()),
            audience: vec!["sts.amazonaws.com".to_owned()],
            ..TokenOptions::default()
        }
    }

    async fn assume(&self, token: &str) -> (u16, Value) {
        let body = form_urlencoded::Serializer::new(String::new())
            .extend_pairs([
                ("Action", "AssumeRoleWithWebIdentity"),
                ("Version", "2011-06-15"),
                ("RoleArn", &self.role.arn()),
                ("RoleSessionName", "runner-1"),
                ("WebIdentityToken", token),
            ])
            .finish();
        let draft = Draft {
            body,
            headers: vec![("content-type".to_owned(), FORM.to_owned())],
            ..Draft::caller_identity(&self.sts)
        };
        let (status, text) = draft.header("accept", "application/json").send().await;
        (status, serde_json::from_str(&text).unwrap())
    }

    async fn refusal(&self, token: &str) -> (u16, String) {
        let (status, answer) = self.assume(token).await;
        (status, answer["Error"]["Code"].as_str().unwrap_or_default().to_owned())
    }
}

fn credentials_of(answer: &Value, action: &str) -> Credentials {
    let result = &answer[format!("{action}Response")][format!("{action}Result")];
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    Credentials {
        access_key_id: text(&result["Credentials"]["AccessKeyId"]),
        secret_access_key: text(&result["Credentials"]["SecretAccessKey"]),
        session_token: Some(text(&result["Credentials"]["SessionToken"])),
        expires_at: result["Credentials"]["Expiration"].as_i64(),
        arn: text(&result["AssumedRoleUser"]["Arn"]),
        user_id: text(&result["AssumedRoleUser"]["AssumedRoleId"]),
        account: ACCOUNT.to_owned(),
    }
}

#[tokio::test]
async fn a_projected_token_gets_credentials_that_sign() {
    let irsa = Irsa::start();
    let (status, answer) = irsa.assume(&irsa.oidc.token(&irsa.options())).await;
    assert_eq!(status, 200, "{answer}");
    let credentials = credentials_of(&answer, "AssumeRoleWithWebIdentity");
    // STS leaves the path out of a session's ARN.
    assert_eq!(credentials.arn, "arn:aws:sts::111122223333:assumed-role/irsa-runner/runner-1");
    let result = &answer["AssumeRoleWithWebIdentityResponse"]["AssumeRoleWithWebIdentityResult"];
    assert_eq!(result["SubjectFromWebIdentityToken"], "system:serviceaccount:rootpilot:runner");
    assert_eq!(
        result["Provider"],
        format!("arn:aws:iam::{ACCOUNT}:oidc-provider/oidc.eks.eu-west-1.amazonaws.com/id/{CLUSTER_ID}")
    );
    let call = Draft::caller_identity(&irsa.sts).signed(&credentials).code().await;
    assert_eq!(call, (200, String::new()));
}

#[tokio::test]
async fn a_token_that_does_not_prove_it_gets_none() {
    let irsa = Irsa::start();
    let mint = |change: &dyn Fn(&mut TokenOptions)| {
        let mut options = irsa.options();
        change(&mut options);
        irsa.oidc.token(&options)
    };
    let invalid = (400, "InvalidIdentityToken".to_owned());
    assert_eq!(irsa.refusal("no.jwt").await, invalid);
    assert_eq!(irsa.refusal(&mint(&|o| o.signature = crate::emulators::oidc::SignatureKind::Stranger)).await, invalid);
    assert_eq!(irsa.refusal(&mint(&|o| o.audience = vec!["edge.example.com".to_owned()])).await, invalid);
    assert_eq!(irsa.refusal(&mint(&|o| o.issuer = Some(eks_issuer("eu-west-1", "0")))).await, invalid);
    let expired = mint(&|o| o.issued_at = Some(1_700_000_000));
    assert_eq!(irsa.refusal(&expired).await, (400, "ExpiredTokenException".to_owned()));
    let other = mint(&|o| "other".clone_into(&mut o.service_account));
    assert_eq!(irsa.refusal(&other).await, (403, "AccessDenied".to_owned()));
    irsa.oidc.set_fault(Fault::status(500));
    let good = irsa.oidc.token(&irsa.options());
    assert_eq!(irsa.refusal(&good).await, invalid);
    irsa.oidc.clear_faults();
    assert_eq!(irsa.refusal(&good).await.0, 200);
}

#[tokio::test]
async fn roles_are_assumed_by_those_they_trust() {
    let sts = start();
    let friend = sts.add_user(ACCOUNT, "friend");
    let stranger = sts.add_user(ACCOUNT, "stranger");
    let mut role = Role::new("444455556666", "target");
    role.trusted_arns = vec![friend.arn.clone()];
    sts.put_role(role);
    let assume = async |credentials: &Credentials| {
        let body = "Action=AssumeRole&Version=2011-06-15&RoleArn=arn%3Aaws%3Aiam%3A%3A444455556666%3Arole%2Ftarget&RoleSessionName=s1&DurationSeconds=900";
        let draft = Draft { body: body.to_owned(), ..Draft::caller_identity(&sts) }.signed(credentials);
        let (status, text) = draft.header("accept", "application/json").send().await;
        (status, serde_json::from_str::<Value>(&text).unwrap())
    };
    let (status, answer) = assume(&friend).await;
    assert_eq!(status, 200, "{answer}");
    let made = credentials_of(&answer, "AssumeRole");
    assert_eq!(made.arn, "arn:aws:sts::444455556666:assumed-role/target/s1");
    let (status, answer) = assume(&stranger).await;
    assert_eq!((status, answer["Error"]["Code"].as_str()), (403, Some("AccessDenied")));
}

#[tokio::test]
async fn what_is_not_asked_properly_is_refused_properly() {
    let sts = start();
    let user = sts.add_user(ACCOUNT, "ci");
    let ask = async |body: &str| {
        let draft = Draft { body: body.to_owned(), ..Draft::caller_identity(&sts) };
        draft.signed(&user).code().await
    };
    for (body, status, code) in [
        ("Action=GetCallerIdentit&Version=2011-06-15", 400, "InvalidAction"),
        ("Action=GetCallerIdentity&Version=2012-01-01", 400, "InvalidAction"),
        ("Action=GetCallerIdentity", 400, "InvalidAction"),
        ("Version=2011-06-15", 400, "MissingAction"),
        ("Action=AssumeRole&Version=2011-06-15", 400, "ValidationError"),
        ("Action=AssumeRoleWithWebIdentity&Version=2011-06-15", 400, "ValidationError"),
    ] {
        assert_eq!(ask(body).await, (status, code.to_owned()), "{body}");
    }
}
