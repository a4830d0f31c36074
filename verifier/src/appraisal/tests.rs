//! The policy as a whole: the documented example, every problem with its path, and the properties of overlap.

use protocol::admin::PolicyProblem;
use protocol::{Code, Mode, Reason};

use super::*;
use crate::UnixTime;
use crate::evidence::{
    AwsPrincipal, BootstrapClaim, EvidenceUse, KubernetesPrincipal, PrincipalKind, VerifiedIdentity,
};

const EXAMPLE: &str = include_str!("testdata/example.toml");
const GKE: &str = "https://container.googleapis.com/v1/projects/acme-prod/locations/europe-west1/clusters/runners";
const EKS: &str = "https://oidc.eks.eu-west-1.amazonaws.com/id/EXAMPLED539D4633E53DE1B716D3041E";

fn document(toml: &str) -> PolicyDocument {
    toml::from_str(toml).unwrap()
}

fn compile(toml: &str) -> Result<Policy, Vec<PolicyProblem>> {
    Policy::compile(document(toml))
}

fn policy(toml: &str) -> Policy {
    compile(toml).unwrap_or_else(|problems| panic!("{problems:#?}"))
}

/// A policy of names and `rest`.
fn minimal(rest: &str) -> String {
    format!("trust_domain = \"edge.example.com\"\naudience = \"edge.example.com\"\n{rest}")
}

fn aws(account: &str, name: &str) -> AwsPrincipal {
    AwsPrincipal {
        partition: "aws".to_owned(),
        account: account.to_owned(),
        kind: PrincipalKind::Role,
        name: name.to_owned(),
        session: Some("i-0abc".to_owned()),
        unique_id: "AROAEXAMPLEEXAMPLE".to_owned(),
        user_id: "AROAEXAMPLEEXAMPLE:i-0abc".to_owned(),
    }
}

fn pod(mode: Mode, issuer: &str, namespace: &str) -> Principal {
    Principal::Kubernetes(KubernetesPrincipal {
        mode,
        issuer: issuer.to_owned(),
        namespace: namespace.to_owned(),
        service_account: "runner".to_owned(),
        pod_name: "runner-0".to_owned(),
        pod_uid: "7d0b7e3e-0000-0000-0000-000000000000".to_owned(),
    })
}

#[test]
fn the_documented_example_is_in_force_as_written() {
    let policy = policy(EXAMPLE);
    assert_eq!(policy.warnings(), []);
    assert_eq!((policy.trust_domain(), policy.audience()), ("edge.example.com", "edge.example.com"));
    assert_eq!(policy.crl_url(), None);
    let terms = policy.terms(UnixTime::from_secs(9));
    assert_eq!((terms.ttl, terms.reattest_after, terms.bootstrap_reattest_after), (3600, 86_400, None));
    assert_eq!((terms.issuer_not_after, terms.one_key_per_instance), (UnixTime::from_secs(9), false));
    assert_eq!(policy.aws_sts().regions, ["us-east-1", "eu-west-1"]);
    let issuers: Vec<_> = policy.oidc().issuers.iter().map(|issuer| (issuer.mode, issuer.issuer.as_str())).collect();
    assert_eq!(issuers, [(Mode::GkeOidc, GKE), (Mode::EksOidc, EKS)]);
    let keys: Vec<_> = policy.oidc().issuers.iter().map(|issuer| &issuer.keys).collect();
    assert_eq!(
        keys,
        [&KeySource::Fetch { jwks_uri: format!("{GKE}/jwks") }, &KeySource::Fetch { jwks_uri: format!("{EKS}/keys") },]
    );
    assert_eq!(policy.tenants().collect::<Vec<_>>(), ["acme"]);
    assert_eq!(policy.rules_of("acme").unwrap().len(), 3);
    assert_eq!(policy.rules_of("globex"), None);
    assert!(policy.bootstrap_allowed("acme") && !policy.bootstrap_allowed("globex"));
    for principal in [
        Principal::Aws(aws("111122223333", "rootpilot-runner")),
        pod(Mode::GkeOidc, GKE, "rootpilot"),
        pod(Mode::EksOidc, EKS, "rootpilot"),
    ] {
        assert_eq!(policy.tenant_of(&principal), Some("acme"), "{principal:?}");
    }
    for principal in [
        Principal::Aws(aws("111122223334", "rootpilot-runner")),
        Principal::Aws(aws("111122223333", "rootpilot-runner2")),
        pod(Mode::GkeOidc, GKE, "default"),
        pod(Mode::EksOidc, GKE, "rootpilot"),
        pod(Mode::GkeOidc, &GKE.replace("europe-west1", "europe-west2"), "rootpilot"),
        Principal::Bootstrap { token_id: "a".to_owned() },
    ] {
        assert_eq!(policy.tenant_of(&principal), None, "{principal:?}");
    }
}

#[test]
fn json_and_toml_have_one_shape_and_keep_the_text() {
    let from_toml = document(EXAMPLE);
    let json = serde_json::to_string(&from_toml).unwrap();
    assert!(json.contains(r#""ttl":"1h""#), "{json}");
    let from_json: PolicyDocument = serde_json::from_str(&json).unwrap();
    assert_eq!(from_json, from_toml);
    let toml = toml::to_string(&from_json).unwrap();
    assert_eq!(document(&toml), from_toml);
    assert_eq!(policy(&toml).document(), &from_toml);
}

#[test]
fn syntax_and_equal_keys_end_the_reading() {
    for bad in ["{", "{}x", r#"{"audience":"a","audience":"b"}"#, r#"{"tenants":[{"id":"a","id":"b"}]}"#, "1e999"] {
        assert!(serde_json::from_str::<PolicyDocument>(bad).is_err(), "{bad}");
    }
    let deep = format!("{{\"tenants\":{}{}}}", "[".repeat(20_000), "]".repeat(20_000));
    assert!(serde_json::from_str::<PolicyDocument>(&deep).is_err());
}

/// (rest of a policy, path and part of the message of its only problem)
const PROBLEMS: &[(&str, &str, &str)] = &[
    ("x = 1", "x", "is no field of this table; its fields are trust_domain, audience"),
    ("one_key_per_instance = \"yes\"", "one_key_per_instance", "must be true or false, not text"),
    ("tenants = \"acme\"", "tenants", "must be a list, not text"),
    ("tenants = [\"acme\"]", "tenants[0]", "must be a table, not text"),
    ("certificates = []", "certificates", "must be a table, not a list"),
    ("certificates.ttl = 3600", "certificates.ttl", "must be text, not a number"),
    ("certificates.ttl = 2024-01-01T00:00:00Z", "certificates.ttl", "must be text"),
    ("certificates.ttl = \"1 fortnight\"", "certificates.ttl", "must be a duration such as"),
    ("certificates.ttl = \"299s\"", "certificates.ttl", "from 5m to 24h"),
    ("certificates.ttl = \"25h\"", "certificates.ttl", "from 5m to 24h"),
    ("certificates.ttl = \"2h\"\ncertificates.reattest_after = \"1h\"", "certificates.reattest_after", "to 30d"),
    ("certificates.reattest_after = \"31d\"", "certificates.reattest_after", "to 30d"),
    ("certificates.bootstrap_reattest_after = \"5m\"", "certificates.bootstrap_reattest_after", "to 30d"),
    ("certificates.crl_url = \"ldap://x/y\"", "certificates.crl_url", "must start with http"),
    ("aws_sts.regions = [\"us-east-1\", 7]", "aws_sts.regions[1]", "must be text, not a number"),
    ("aws_sts.regions = [\"us-east-1@evil\"]", "aws_sts.regions[0]", "is no AWS region known"),
    ("aws_sts.regions = [\"aws-global\"]", "aws_sts.regions[0]", "is no AWS region known"),
    ("aws_sts.regions = [\"us-east-1\", \"us-east-1\"]", "aws_sts.regions[1]", "is listed twice"),
    ("aws_sts.endpoints.us-east-1 = \"https://sts.test\"", "aws_sts.endpoints.us-east-1", "does not list"),
    (
        "aws_sts.regions = [\"us-east-1\"]\naws_sts.endpoints.us-east-1 = \"http://10.0.0.1\"",
        "aws_sts.endpoints.us-east-1",
        "loopback",
    ),
    ("tenants = [{}]", "tenants[0].id", "is required"),
    ("tenants = [{ id = 7 }]", "tenants[0].id", "must be text"),
    ("tenants = [{ id = \"Acme\" }]", "tenants[0].id", "a-z, 0-9"),
    ("tenants = [{ id = \"acme-\" }]", "tenants[0].id", "a-z, 0-9"),
    ("tenants = [{ id = \"a\" }, { id = \"a\" }]", "tenants[1].id", "is the id of tenants[0] too"),
    ("tenants = [{ id = \"a\", name = \"A\" }]", "tenants[0].name", "is no field"),
    ("tenants = [{ id = \"a\", rules = [{}] }]", "tenants[0].rules[0].mode", "is required"),
    ("tenants = [{ id = \"a\", rules = [{ mode = \"saml\" }] }]", "tenants[0].rules[0].mode", "is not one of aws-sts"),
    (
        "tenants = [{ id = \"a\", rules = [{ mode = \"bootstrap-token\" }] }]",
        "tenants[0].rules[0].mode",
        "need no rule",
    ),
];

/// What a document says does not depend on the order of members, so neither does what it equals, nor the text that is stored.
#[test]
fn order_of_members_means_nothing() {
    let key = r#"{"kty":"EC","use":"sig","kid":"k","crv":"P-256","x":"a","y":"b"}"#;
    let members: serde_json::Map<String, serde_json::Value> = serde_json::from_str(key).unwrap();
    let backwards: Vec<String> = members.iter().rev().map(|(name, value)| format!("\"{name}\":{value}")).collect();
    let policy = |key: &str, endpoints: &str| {
        let issuer = format!(r#"{{"mode":"gke-oidc","issuer":"{GKE}","jwks":{{"keys":[{key}]}}}}"#);
        let sts = format!(r#"{{"regions":["eu-west-1","eu-west-2"],"endpoints":{{{endpoints}}}}}"#);
        let text = format!(
            r#"{{"trust_domain":"e.example","audience":"e.example","aws_sts":{sts},"oidc_issuers":[{issuer}],"tenants":[]}}"#
        );
        serde_json::from_str::<PolicyDocument>(&text).unwrap()
    };
    let (one, two) = (r#""eu-west-1":"http://127.0.0.1:1""#, r#""eu-west-2":"http://127.0.0.1:2""#);
    let first = policy(key, &format!("{one},{two}"));
    let second = policy(&format!("{{{}}}", backwards.join(",")), &format!("{two},{one}"));
    assert_eq!(first, second);
    assert_eq!(serde_json::to_string(&first).unwrap(), serde_json::to_string(&second).unwrap());
}

#[test]
fn each_problem_has_its_path_and_says_what_is_wanted() {
    for (rest, path, message) in PROBLEMS {
        let problems = compile(&minimal(rest)).unwrap_err();
        let [problem] = problems.as_slice() else { panic!("{rest}: {problems:#?}") };
        assert_eq!(problem.path, *path, "{rest}: {problem:?}");
        assert!(problem.message.contains(message), "{rest}: {problem:?}");
    }
}

/// (fields of a rule, field and part of the message of its only problem)
const RULE_PROBLEMS: &[(&str, &str, &str)] = &[
    ("mode = \"aws-sts\", role = \"r\"", ".account", "is required"),
    ("mode = \"aws-sts\", account = \"1234\", role = \"r\"", ".account", "12 digits"),
    ("mode = \"aws-sts\", account = 111122223333, role = \"r\"", ".account", "must be text, not a number"),
    ("mode = \"aws-sts\", account = \"111122223333\"", ".role", "is required (or user)"),
    ("mode = \"aws-sts\", account = \"111122223333\", role = true", ".role", "must be text, not a boolean"),
    ("mode = \"aws-sts\", account = \"111122223333\", user = 1", ".user", "must be text"),
    ("mode = \"aws-sts\", account = \"111122223333\", role = \"r\", user = \"u\"", "", "one rule for each"),
    ("mode = \"aws-sts\", account = \"111122223333\", role = \"team/r\"", ".role", "STS leaves the path out"),
    ("mode = \"aws-sts\", account = \"111122223333\", role = \"*\"", ".role", "after at least one character"),
    ("mode = \"aws-sts\", account = \"111122223333\", role = \"a*b\"", ".role", "at its end"),
    ("mode = \"aws-sts\", account = \"111122223333\", role = \"r\", partition = \"aws-iso\"", ".partition", "aws-eusc"),
    ("mode = \"aws-sts\", account = \"111122223333\", role = \"r\", session = \"i-*\"", ".session", "whole session"),
    ("mode = \"aws-sts\", account = \"111122223333\", user = \"u\", session = \"i-0\"", ".session", "no session"),
    (
        "mode = \"aws-sts\", account = \"111122223333\", role = \"r\", unique_id = \"AIDAEXAMPLEEXAMPLE\"",
        ".unique_id",
        "AROA",
    ),
    (
        "mode = \"aws-sts\", account = \"111122223333\", user = \"u\", unique_id = \"AROAEXAMPLEEXAMPLE\"",
        ".unique_id",
        "AIDA",
    ),
    (
        "mode = \"aws-sts\", account = \"111122223333\", role = \"r\", namespace = \"n\"",
        ".namespace",
        "no field of an aws-sts rule",
    ),
    (
        "mode = \"gke-oidc\", project = \"p\", location = \"l\", namespace = \"n\", service_account = \"s\"",
        ".cluster",
        "is required",
    ),
    (
        "mode = \"gke-oidc\", project = \"p\", location = \"*\", cluster = \"c\", namespace = \"n\", service_account = \"s\"",
        ".location",
        "only where cluster",
    ),
    (
        "mode = \"gke-oidc\", project = \"p/q\", location = \"l\", cluster = \"c\", namespace = \"n\", service_account = \"s\"",
        ".project",
        "Google Cloud project",
    ),
    (
        "mode = \"gke-oidc\", project = \"*\", location = \"l\", cluster = \"c\", namespace = \"n\", service_account = \"s\"",
        ".project",
        "Google Cloud project",
    ),
    (
        "mode = \"gke-oidc\", project = \"p\", location = \"l\", cluster = \"c*\", namespace = \"n\", service_account = \"s\"",
        ".cluster",
        "GKE cluster",
    ),
    (
        "mode = \"gke-oidc\", project = \"p\", location = \"l\", cluster = \"c\", namespace = \"*\", service_account = \"s\"",
        ".namespace",
        "exactly",
    ),
    (
        "mode = \"gke-oidc\", project = \"p\", location = \"l\", cluster = \"c\", namespace = \"n\"",
        ".service_account",
        "is required",
    ),
    (
        "mode = \"gke-oidc\", project = \"p\", location = \"l\", cluster = \"c\", namespace = \"n\", service_account = \"s\", role = \"r\"",
        ".role",
        "no field of a gke-oidc rule",
    ),
    (
        "mode = \"eks-oidc\", issuer = \"https://evil.example.com\", namespace = \"n\", service_account = \"s\"",
        ".issuer",
        "oidc.eks.",
    ),
    ("mode = \"eks-oidc\", namespace = \"n\", service_account = \"s\"", ".issuer", "is required"),
];

#[test]
fn each_problem_of_a_rule_has_its_path() {
    for (fields, field, message) in RULE_PROBLEMS {
        let rest = format!("aws_sts.regions = [\"us-east-1\"]\ntenants = [{{ id = \"a\", rules = [{{ {fields} }}] }}]");
        let problems = compile(&minimal(&rest)).unwrap_err();
        let [problem] = problems.as_slice() else { panic!("{fields}: {problems:#?}") };
        assert_eq!(problem.path, format!("tenants[0].rules[0]{field}"), "{fields}: {problem:?}");
        assert!(problem.message.contains(message), "{fields}: {problem:?}");
    }
}

#[test]
fn each_problem_of_an_issuer_has_its_path() {
    let gke = format!("mode = \"gke-oidc\", issuer = \"{GKE}\"");
    for (fields, field, message) in [
        ("issuer = \"x\"".to_owned(), ".mode", "is required"),
        ("mode = \"aws-sts\", issuer = \"x\"".to_owned(), ".mode", "is not one of"),
        ("mode = \"gke-oidc\"".to_owned(), ".issuer", "is required"),
        (format!("mode = \"gke-oidc\", issuer = \"{EKS}\""), ".issuer", "container.googleapis.com"),
        (format!("mode = \"eks-oidc\", issuer = \"{GKE}\""), ".issuer", "oidc.eks."),
        ("mode = \"gke-oidc\", issuer = \"http://127.0.0.1:1/\"".to_owned(), ".issuer", "emulators sign"),
        (format!("{gke}, jwks_uri = \"http://keys.example.com/\""), ".jwks_uri", "loopback"),
        (format!("{gke}, jwks = {{ keys = [] }}"), ".jwks", "usable key"),
        (format!("{gke}, jwks = \"x\""), ".jwks", "not a JWK set"),
        (format!("{gke}, max_token_lifetime = \"25h\""), ".max_token_lifetime", "at most 24h"),
        (format!("{gke}, max_token_lifetime = \"0s\""), ".max_token_lifetime", "more than nothing"),
        (format!("{gke}, max_token_lifetime = 3600"), ".max_token_lifetime", "must be text"),
        (format!("{gke}, jwks_url = \"x\""), ".jwks_url", "no field"),
    ] {
        let problems = compile(&minimal(&format!("oidc_issuers = [{{ {fields} }}]"))).unwrap_err();
        let [problem] = problems.as_slice() else { panic!("{fields}: {problems:#?}") };
        assert_eq!(problem.path, format!("oidc_issuers[0]{field}"), "{fields}: {problem:?}");
        assert!(problem.message.contains(message), "{fields}: {problem:?}");
    }
    let twice = format!("oidc_issuers = [{{ {gke} }}, {{ {gke} }}]");
    assert_eq!(compile(&minimal(&twice)).unwrap_err()[0].path, "oidc_issuers[1].issuer");
}

#[test]
fn names_are_checked() {
    let problem = |trust_domain: &str, audience: &str| {
        let text = format!("trust_domain = \"{trust_domain}\"\naudience = \"{audience}\"");
        compile(&text).map_err(|problems| problems.into_iter().map(|problem| problem.path).collect::<Vec<_>>())
    };
    assert!(problem("edge_1.example-2.com", "Edge:1/2.x_y-z").is_ok());
    for bad in ["", "Edge.example.com", "spiffe://edge", "edge:1", "edge/x", "édge", &"a".repeat(256)] {
        assert_eq!(problem(bad, "a").unwrap_err(), ["trust_domain"], "{bad}");
    }
    for bad in ["", "a b", "sts.amazonaws.com", "https://sts.amazonaws.com", GKE, EKS, &"a".repeat(256)] {
        assert_eq!(problem("a", bad).unwrap_err(), ["audience"], "{bad}");
    }
    let paths: Vec<_> = compile("").unwrap_err().into_iter().map(|problem| problem.path).collect();
    assert_eq!(paths, ["trust_domain", "audience"]);
    let paths: Vec<_> = compile("audience = 7").unwrap_err().into_iter().map(|problem| problem.path).collect();
    assert_eq!(paths, ["audience", "trust_domain"]);
}

#[test]
fn everything_wrong_is_said_at_once() {
    let problems = compile(include_str!("testdata/broken.toml")).unwrap_err();
    let paths: Vec<&str> = problems.iter().map(|problem| problem.path.as_str()).collect();
    assert_eq!(
        paths,
        [
            "certificates.crl",
            "tenants[1].bootstrap_tokens",
            "colour",
            "audience",
            "certificates.ttl",
            "aws_sts.regions[1]",
            "tenants[0].rules[0].role",
            "tenants[0].rules[1].account",
            "tenants[0].rules[1].unique_id",
            "tenants[1].rules[0].cluster",
            "tenants[2].id",
            "tenants[2].rules[0]",
            "oidc_issuers[0].issuer",
            "oidc_issuers[0].jwks_uri",
        ]
    );
}

/// CHECKS A4: an empty expectation stands, and refuses everything.
#[test]
fn a4_aws_rules_without_a_region_stand_with_a_warning_and_match_nothing() {
    let rest = "tenants = [{ id = \"a\", rules = [{ mode = \"aws-sts\", account = \"111122223333\", role = \"r\" }] }]";
    let policy = policy(&minimal(rest));
    let [warning] = policy.warnings() else { panic!("{:#?}", policy.warnings()) };
    assert_eq!(warning.path, "tenants[0].rules[0]");
    assert!(warning.message.contains("allows no region"), "{warning:?}");
    let evidence = protocol::AwsStsEvidence {
        region: "us-east-1".into(),
        headers: vec![("host".into(), "sts.us-east-1.amazonaws.com".into())],
        body: protocol::STS_BODY.into(),
    };
    let check = crate::evidence::aws_sts::CheckedRequest::check;
    let denial =
        check(&evidence, policy.aws_sts(), policy.audience(), &[0; 32], UnixTime::MAX, &mut Trace::off()).unwrap_err();
    assert_eq!(denial.reason, Some(Reason::RegionNotAllowed));
}

/// A look at every earlier problem for each missing field would take minutes here.
#[test]
fn fifty_thousand_missing_fields_are_all_named() {
    let json = serde_json::json!({"trust_domain": "e.example", "audience": "e.example", "tenants": vec![serde_json::json!({}); 50_000]});
    let problems = Policy::compile(serde_json::from_value(json).unwrap()).unwrap_err();
    assert_eq!(problems.len(), 50_000);
    assert_eq!(problems[49_999].path, "tenants[49999].id");
}

fn two_tenants(one: &str, two: &str) -> String {
    minimal(&format!(
        "aws_sts.regions = [\"us-east-1\", \"cn-north-1\"]\ntenants = [{{ id = \"a\", rules = [{{ {one} }}] }}, {{ id = \"b\", rules = [{{ {two} }}] }}]"
    ))
}

#[test]
fn overlap_is_decided_field_by_field() {
    let role = |more: &str| format!("mode = \"aws-sts\", account = \"111122223333\", {more}");
    let gke = |location: &str, cluster: &str, namespace: &str| {
        format!(
            "mode = \"gke-oidc\", project = \"p\", location = \"{location}\", cluster = \"{cluster}\", namespace = \"{namespace}\", service_account = \"s\""
        )
    };
    for (one, two, overlap) in [
        (role("role = \"r\""), role("role = \"r\""), true),
        (role("role = \"r\""), role("role = \"q\""), false),
        (role("role = \"r\""), role("user = \"r\""), false),
        (role("role = \"r*\""), role("role = \"r\""), true),
        (role("role = \"ru*\""), role("role = \"r*\""), true),
        (role("role = \"ra*\""), role("role = \"rb*\""), false),
        (role("role = \"ra*\""), role("role = \"r\""), false),
        (role("role = \"r\", partition = \"aws\""), role("role = \"r\""), true),
        (role("role = \"r\", partition = \"aws\""), role("role = \"r\", partition = \"aws-cn\""), false),
        (role("role = \"r\", session = \"s1\""), role("role = \"r\""), true),
        (role("role = \"r\", session = \"s1\""), role("role = \"r\", session = \"s2\""), false),
        (role("role = \"r\", unique_id = \"AROAEXAMPLEEXAMPLE1\""), role("role = \"r*\""), true),
        (
            role("role = \"r\", unique_id = \"AROAEXAMPLEEXAMPLE1\""),
            role("role = \"r*\", unique_id = \"AROAEXAMPLEEXAMPLE2\""),
            false,
        ),
        (gke("l", "c", "n"), gke("l", "c", "n"), true),
        (gke("l", "c", "n"), gke("l", "c", "m"), false),
        (gke("l", "c", "n"), gke("l", "*", "n"), true),
        (gke("l", "c", "n"), gke("*", "*", "n"), true),
        (gke("l", "c", "n"), gke("m", "*", "n"), false),
        (gke("l", "c", "n"), gke("l", "d", "n"), false),
    ] {
        for (one, two) in [(&one, &two), (&two, &one)] {
            let result = compile(&two_tenants(one, two));
            assert_eq!(result.is_err(), overlap, "{one} | {two}: {result:?}");
            if let Err(problems) = result {
                assert_eq!((problems.len(), problems[0].path.as_str()), (1, "tenants[1].rules[0]"), "{problems:?}");
                assert!(problems[0].message.starts_with("overlaps tenants[0].rules[0] of tenant `a`"), "{problems:?}");
            }
        }
    }
}

#[test]
fn what_is_allowed_but_risky_is_a_warning() {
    let warnings = |rest: &str| -> Vec<(String, String)> {
        policy(&minimal(rest)).warnings().iter().map(|w| (w.path.clone(), w.message.clone())).collect()
    };
    for (rest, path, message) in [
        (
            "aws_sts.regions = [\"us-east-1\"]\naws_sts.endpoints.us-east-1 = \"http://127.0.0.1:4566\"\ntenants = [{ id = \"a\" }]".to_owned(),
            "aws_sts.endpoints.us-east-1",
            "whoever runs it can claim any identity",
        ),
        (String::new(), "tenants", "no runner can enrol"),
        ("tenants = [{ id = \"a\", bootstrap_tokens = false }]".to_owned(), "tenants[0]", "no runner can enrol"),
        (
            "tenants = [{ id = \"a\", rules = [{ mode = \"gke-oidc\", project = \"p\", location = \"*\", cluster = \"*\", namespace = \"n\", service_account = \"s\" }] }]".to_owned(),
            "tenants[0].rules[0].cluster",
            "every administrator",
        ),
        (
            "aws_sts.regions = [\"us-east-1\"]\ntenants = [{ id = \"a\", rules = [{ mode = \"aws-sts\", account = \"111122223333\", role = \"r\", session = \"s1\" }] }]".to_owned(),
            "tenants[0].rules[0].session",
            "chosen by whoever",
        ),
        (
            "aws_sts.regions = [\"us-east-1\"]\ntenants = [{ id = \"a\", rules = [{ mode = \"aws-sts\", account = \"111122223333\", role = \"r\", partition = \"aws-cn\" }] }]".to_owned(),
            "tenants[0].rules[0].partition",
            "no region of aws-cn",
        ),
        (format!("tenants = [{{ id = \"a\" }}]\noidc_issuers = [{{ mode = \"gke-oidc\", issuer = \"{GKE}\" }}]"), "oidc_issuers[0]", "not used"),
    ] {
        let found = warnings(&rest);
        let [(at, text)] = found.as_slice() else { panic!("{rest}: {found:#?}") };
        assert!(at == path && text.contains(message), "{rest}: {found:?}");
    }
    let by_session = two_tenants(
        "mode = \"aws-sts\", account = \"111122223333\", role = \"r\", session = \"s1\"",
        "mode = \"aws-sts\", account = \"111122223333\", role = \"r\", session = \"s2\"",
    );
    let apart = policy(&by_session);
    let last = apart.warnings().last().unwrap();
    assert!(last.path == "tenants[1].rules[0]" && last.message.contains("by session name only"), "{last:?}");
}

#[test]
fn written_issuers_override_implied_ones() {
    let rest = format!(
        "oidc_issuers = [{{ mode = \"gke-oidc\", issuer = \"{GKE}\", jwks_uri = \"http://127.0.0.1:8081/jwks\", max_token_lifetime = \"2h\" }}]\n\
         tenants = [{{ id = \"a\", rules = [{{ mode = \"gke-oidc\", project = \"acme-prod\", location = \"europe-west1\", cluster = \"runners\", namespace = \"n\", service_account = \"s\" }}, \
         {{ mode = \"gke-oidc\", project = \"other\", location = \"*\", cluster = \"*\", namespace = \"n\", service_account = \"s\" }}] }}]"
    );
    let policy = policy(&minimal(&rest));
    assert_eq!(
        policy.oidc().issuers,
        [TrustedIssuer {
            mode: Mode::GkeOidc,
            issuer: GKE.to_owned(),
            keys: KeySource::Fetch { jwks_uri: "http://127.0.0.1:8081/jwks".to_owned() },
            max_token_lifetime: 7200,
        }]
    );
    assert_eq!(policy.oidc().wildcard_projects, [("other".to_owned(), "*".to_owned())]);
}

#[test]
fn m1_appraisal_maps_or_names_the_identity() {
    let policy = policy(EXAMPLE);
    let evidence = EvidenceUse { digest: "d".to_owned(), until: UnixTime::MAX, reason: Reason::TokenReused };
    let proven = |name: &str| {
        let principal = Principal::Aws(aws("111122223333", name));
        VerifiedEvidence::Identity(VerifiedIdentity::for_tests(principal, evidence.clone()))
    };
    let mut trace = Trace::on();
    let appraised = appraise(&policy, proven("rootpilot-runner"), &mut trace).unwrap();
    assert_eq!(appraised.tenant(), "acme");
    let trace = trace.finish(Mode::AwsSts, None);
    assert!(trace.iter().any(|entry| entry.check == "M1" && entry.outcome == protocol::TraceOutcome::Pass));
    let denial = appraise(&policy, proven("other"), &mut Trace::off()).unwrap_err();
    assert_eq!((denial.code, denial.reason), (Code::IdentityNotMapped, None));
    assert!(denial.detail.contains("arn:aws:iam::111122223333:role/other"), "{denial:?}");
}

#[test]
fn b1_tokens_of_tenants_outside_the_policy_are_refused() {
    let policy = policy(&minimal("tenants = [{ id = \"a\" }, { id = \"b\", bootstrap_tokens = false }]"));
    let claim = |tenant: &str| {
        let claim = BootstrapClaim { tenant: tenant.to_owned(), id: "i".to_owned(), secret_sha256: "s".to_owned() };
        appraise(&policy, VerifiedEvidence::Bootstrap(claim), &mut Trace::off())
    };
    assert_eq!(claim("a").unwrap().tenant(), "a");
    assert_eq!(claim("b"), claim("c"));
    assert_eq!(claim("c").unwrap_err(), bootstrap_token::refused(Check::B1));
}

mod properties {
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::*;
    use crate::appraisal::rule::{AwsRule, EksRule, GkeRule, NamePattern, index_key, index_keys_of};

    const NAMES: [&str; 7] = ["a", "b", "ab", "aba", "a*", "ab*", "b*"];

    fn text(from: &'static [&'static str]) -> impl Strategy<Value = String> {
        select(from).prop_map(str::to_owned)
    }

    fn aws_rule() -> impl Strategy<Value = Rule> {
        let kind = select(&[PrincipalKind::Role, PrincipalKind::User][..]);
        let partition = proptest::option::of(text(&["aws", "aws-cn"]));
        let (session, unique_id) =
            (proptest::option::of(text(&["s1", "s2"])), proptest::option::of(text(&["u1", "u2"])));
        (partition, text(&["1", "2"]), kind, text(&NAMES), session, unique_id).prop_map(
            |(partition, account, kind, name, session, unique_id)| {
                let name = NamePattern(name);
                Rule::Aws(AwsRule { partition, account, kind, name, session, unique_id })
            },
        )
    }

    fn gke_rule() -> impl Strategy<Value = Rule> {
        (text(&["p", "q"]), text(&["l", "m", "*"]), text(&["c", "d", "*"]), text(&["n", "o"])).prop_map(
            |(project, location, cluster, namespace)| {
                let location = if cluster == "*" || location != "*" { location } else { "l".to_owned() };
                Rule::Gke(GkeRule { project, location, cluster, namespace, service_account: "runner".to_owned() })
            },
        )
    }

    fn eks_rule() -> impl Strategy<Value = Rule> {
        (text(&["e", "f"]), text(&["n", "o"])).prop_map(|(issuer, namespace)| {
            Rule::Eks(EksRule { issuer, namespace, service_account: "runner".to_owned() })
        })
    }

    fn rule() -> impl Strategy<Value = Rule> {
        prop_oneof![3 => aws_rule(), 2 => gke_rule(), 1 => eks_rule()]
    }

    fn aws_principal() -> impl Strategy<Value = Principal> {
        let kind = select(&[PrincipalKind::Role, PrincipalKind::User][..]);
        let session = proptest::option::of(text(&["s1", "s2", "s3"]));
        (
            text(&["aws", "aws-cn"]),
            text(&["1", "2"]),
            kind,
            text(&["a", "b", "ab", "aba", "bb"]),
            session,
            text(&["u1", "u2"]),
        )
            .prop_map(|(partition, account, kind, name, session, unique_id)| {
                let user_id = unique_id.clone();
                Principal::Aws(AwsPrincipal { partition, account, kind, name, session, unique_id, user_id })
            })
    }

    fn pod_principal() -> impl Strategy<Value = Principal> {
        let gke =
            (text(&["p", "q"]), text(&["l", "m"]), text(&["c", "d"]), text(&["n", "o"])).prop_map(|(p, l, c, n)| {
                let issuer = format!("https://container.googleapis.com/v1/projects/{p}/locations/{l}/clusters/{c}");
                pod(Mode::GkeOidc, &issuer, &n)
            });
        let eks = (text(&["e", "f"]), text(&["n", "o"])).prop_map(|(issuer, n)| pod(Mode::EksOidc, &issuer, &n));
        prop_oneof![gke, eks]
    }

    proptest! {
        #[test]
        fn overlap_is_symmetric_and_true_of_a_rule_and_itself(one in rule(), two in rule()) {
            prop_assert_eq!(one.overlaps(&two), two.overlaps(&one));
            prop_assert!(one.overlaps(&one));
            prop_assert!(!one.overlaps(&two) || one.scope() == two.scope());
        }

        #[test]
        fn rules_that_do_not_overlap_share_no_principal(
            one in rule(), two in rule(), principal in prop_oneof![aws_principal(), pod_principal()],
        ) {
            prop_assert!(!(one.matches(&principal) && two.matches(&principal)) || one.overlaps(&two));
        }

        #[test]
        fn the_index_finds_every_rule_that_matches(
            rule in rule(), principal in prop_oneof![aws_principal(), pod_principal()],
        ) {
            prop_assert!(!rule.matches(&principal) || index_keys_of(&principal).contains(&index_key(&rule)));
        }

        #[test]
        fn rules_cross_the_object_boundary_unchanged(rule in rule()) {
            let json = serde_json::to_string(&rule).unwrap();
            prop_assert_eq!(serde_json::from_str::<Rule>(&json).unwrap(), rule);
        }

        #[test]
        fn no_json_makes_validation_panic(text in "[\\[\\]{}:,\"a-z0-9*. ]{0,60}") {
            if let Ok(document) = serde_json::from_str::<PolicyDocument>(&text) {
                prop_assert!(Policy::compile(document).is_err());
            }
        }
    }
}
