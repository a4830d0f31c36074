//! `edgectl ca init`, `ca rotate` and `ca revoke`: everything a verifier needs to be configured, as files.
//!
//! The root's key stays with the operator: the worker gets the issuing CA's key only.

use std::fs;
use std::path::Path;

use jiff::Timestamp;
use serde::Serialize;
use verifier::UnixTime;
use verifier::encoding::{hex, sha256};
use verifier::issuance::{CaCertificate, RootCrl};
use zeroize::Zeroizing;

use crate::authority::{self, Bearer, CertificateAuthority};
use crate::cli::{CaCommand, CaInit, CaRevoke, CaRotate};
use crate::failure::{Failure, Outcome};
use crate::output::Output;
use crate::private_files::{new_directory, write_private, write_public};

const ROOT_KEY: &str = "root.key.pem";
const ROOT: &str = "root.pem";
const ROOT_CRL: &str = "root.crl.pem";
const ISSUING_KEY: &str = "issuing.key.pem";
/// The issuing CA first, former ones after it.
const ISSUING: &str = "issuing.pem";
const ADMIN_TOKEN: &str = "admin.token";
const SERVICE_TOKEN: &str = "service.token";
const WORKER_VARS: &str = "worker.vars";
const WORKER_SECRETS: &str = "worker-secrets.json";
const SECRETS_DIRECTORY: &str = "secrets";

/// Runs the command.
pub fn run(command: &CaCommand, output: Output) -> Result<Outcome, Failure> {
    let now = UnixTime::from_secs(Timestamp::now().as_second());
    match command {
        CaCommand::Init(arguments) => init(arguments, now, output),
        CaCommand::Rotate(arguments) => rotate(arguments, now, output),
        CaCommand::Revoke(arguments) => revoke(arguments, now, output),
    }
}

/// The worker's secrets by name.
type Secrets = Vec<(&'static str, Zeroizing<String>)>;

/// What was made, without secrets.
#[derive(Serialize)]
struct Made<'a> {
    directory: &'a Path,
    root: Certificate,
    issuing: Certificate,
    revoked: Vec<Certificate>,
    root_key: Option<&'a str>,
    admin_token: Option<&'a str>,
    service_token: Option<&'a str>,
    worker_vars: &'a str,
    worker_secrets: &'a str,
}

impl<'a> Made<'a> {
    /// What comes after `ca init`: the root's key and the tokens are where they were.
    fn without_keys(
        directory: &'a Path,
        root: &CaCertificate,
        issuing: &CaCertificate,
        revoked: &[CaCertificate],
    ) -> Self {
        Self {
            directory,
            root: Certificate::of(root),
            issuing: Certificate::of(issuing),
            revoked: revoked.iter().map(Certificate::of).collect(),
            root_key: None,
            admin_token: None,
            service_token: None,
            worker_vars: WORKER_VARS,
            worker_secrets: WORKER_SECRETS,
        }
    }
}

#[derive(Serialize)]
struct Certificate {
    subject: String,
    not_after: String,
    sha256: String,
}

impl Certificate {
    fn of(certificate: &CaCertificate) -> Self {
        Self {
            subject: certificate.subject(),
            not_after: certificate.not_after().to_rfc3339(),
            sha256: hex(&sha256(certificate.der())),
        }
    }
}

fn init(arguments: &CaInit, now: UnixTime, output: Output) -> Result<Outcome, Failure> {
    let root = CertificateAuthority::root(&arguments.organization, now)?;
    let issuing = root.issuing(&arguments.organization, now)?;
    let crl = root.sign_crl(&RootCrl::default(), now)?;
    let (root_pem, issuing_pem) = (root.certificate.to_pem(), issuing.certificate.to_pem());
    authority::check_secrets(&issuing_pem, &root_pem)?;
    let (admin, service) = (Bearer::generate("rpadmin")?, Bearer::generate("rpservice")?);

    let out = &arguments.out;
    new_directory(out)?;
    write_private(out, ROOT_KEY, &root.key.pem)?;
    write_public(out, ROOT, &root_pem)?;
    write_public(out, ROOT_CRL, &crl.pem)?;
    write_private(out, ISSUING_KEY, &issuing.key.pem)?;
    write_public(out, ISSUING, &issuing_pem)?;
    write_private(out, ADMIN_TOKEN, &admin.token)?;
    write_private(out, SERVICE_TOKEN, &service.token)?;
    let secrets = vec![
        ("CA_PRIVATE_KEY", issuing.key.pem.clone()),
        ("CA_CERTIFICATE", Zeroizing::new(issuing_pem)),
        ("CA_ROOTS", Zeroizing::new(root_pem)),
        ("CA_ROOT_CRL", Zeroizing::new(crl.pem)),
        ("ADMIN_TOKEN_SHA256", Zeroizing::new(admin.sha256)),
        ("SERVICE_TOKEN_SHA256", Zeroizing::new(service.sha256)),
    ];
    write_worker_secrets(out, &secrets)?;

    let made = Made {
        directory: out,
        root: Certificate::of(&root.certificate),
        issuing: Certificate::of(&issuing.certificate),
        revoked: Vec::new(),
        root_key: Some(ROOT_KEY),
        admin_token: Some(ADMIN_TOKEN),
        service_token: Some(SERVICE_TOKEN),
        worker_vars: WORKER_VARS,
        worker_secrets: WORKER_SECRETS,
    };
    output.data(&made, || describe(&made))?;
    output.note(next_steps(out));
    output.note(format!(
        "\nThen move {} to a safe place offline: it is needed again only for `edgectl ca rotate`,\nbefore {}, and for `edgectl ca revoke`.",
        out.join(ROOT_KEY).display(),
        made.issuing.not_after,
    ));
    Ok(Outcome::Done)
}

/// What a directory of `ca init`, `ca rotate` or `ca revoke` says, with the root's key put into it.
struct Present {
    root: CertificateAuthority,
    root_pem: Zeroizing<String>,
    /// The CA that signs now, and the former ones.
    listed: Vec<CaCertificate>,
    crl: RootCrl,
}

impl Present {
    fn read(directory: &Path) -> Result<Self, Failure> {
        let root_pem = read(directory, ROOT)?;
        let root = CertificateAuthority::load(read(directory, ROOT_KEY)?, &root_pem)?;
        let listed = all_certificates(&read(directory, ISSUING)?)?;
        let crl = root.read_crl(&read(directory, ROOT_CRL)?)?;
        Ok(Self { root, root_pem, listed, crl })
    }
}

fn rotate(arguments: &CaRotate, now: UnixTime, output: Output) -> Result<Outcome, Failure> {
    let Present { root, root_pem, listed: former, mut crl } = Present::read(&arguments.from)?;
    let issuing = root.issuing(&organization(&root.certificate)?, now)?;
    let (revoked, kept) = if arguments.revoke_former { (former, Vec::new()) } else { (Vec::new(), former) };
    for certificate in &revoked {
        root.revoke(&mut crl, certificate, now)?;
    }
    let live = kept.iter().filter(|certificate| certificate.not_after() > now);
    let listed: String = std::iter::once(&issuing.certificate).chain(live).map(CaCertificate::to_pem).collect();
    authority::check_secrets(&listed, &root_pem)?;
    let crl = root.sign_crl(&crl, now)?;

    let out = &arguments.out;
    new_directory(out)?;
    write_public(out, ROOT, &root_pem)?;
    write_public(out, ROOT_CRL, &crl.pem)?;
    write_private(out, ISSUING_KEY, &issuing.key.pem)?;
    write_public(out, ISSUING, &listed)?;
    let secrets = vec![
        ("CA_PRIVATE_KEY", issuing.key.pem.clone()),
        ("CA_CERTIFICATE", Zeroizing::new(listed)),
        ("CA_ROOTS", root_pem),
        ("CA_ROOT_CRL", Zeroizing::new(crl.pem)),
    ];
    write_worker_secrets(out, &secrets)?;
    let made = Made::without_keys(out, &root.certificate, &issuing.certificate, &revoked);
    output.data(&made, || describe(&made))?;
    output.note(bulk(out));
    Ok(Outcome::Done)
}

fn revoke(arguments: &CaRevoke, now: UnixTime, output: Output) -> Result<Outcome, Failure> {
    let Present { root, root_pem, listed, mut crl } = Present::read(&arguments.from)?;
    let named = arguments.certificate.display();
    let revoked = all_certificates(&read_file(&arguments.certificate)?)?.swap_remove(0);
    let (Some(issuing), true) = (listed.first(), listed.first() != Some(&revoked)) else {
        return Err(Failure::configuration(
            format!("{named} is the CA that signs now; nothing was written"),
            "Make another one in its place: `edgectl ca rotate --revoke-former`.",
        ));
    };
    root.revoke(&mut crl, &revoked, now)?;
    let kept: String =
        listed.iter().filter(|certificate| **certificate != revoked).map(CaCertificate::to_pem).collect();
    authority::check_secrets(&kept, &root_pem)?;
    let crl = root.sign_crl(&crl, now)?;

    let out = &arguments.out;
    new_directory(out)?;
    write_public(out, ROOT, &root_pem)?;
    write_public(out, ROOT_CRL, &crl.pem)?;
    write_public(out, ISSUING, &kept)?;
    let secrets = vec![("CA_CERTIFICATE", Zeroizing::new(kept)), ("CA_ROOT_CRL", Zeroizing::new(crl.pem))];
    write_worker_secrets(out, &secrets)?;
    let made = Made::without_keys(out, &root.certificate, issuing, std::slice::from_ref(&revoked));
    output.data(&made, || describe(&made))?;
    output.note(bulk(out));
    Ok(Outcome::Done)
}

fn all_certificates(pem: &str) -> Result<Vec<CaCertificate>, Failure> {
    CaCertificate::all_from_pem(pem).map_err(|error| Failure::Authority(error.to_string()))
}

fn read(directory: &Path, name: &str) -> Result<Zeroizing<String>, Failure> {
    read_file(&directory.join(name))
}

fn read_file(path: &Path) -> Result<Zeroizing<String>, Failure> {
    fs::read_to_string(path)
        .map(Zeroizing::new)
        .map_err(|error| Failure::Io { what: format!("read {}", path.display()), error })
}

/// The root's own organization: a new issuing CA carries it on.
fn organization(root: &CaCertificate) -> Result<String, Failure> {
    let name = root.certificate().tbs_certificate().subject().organization().ok().flatten();
    name.map(String::from).ok_or_else(|| Failure::Authority("the root names no organization".to_owned()))
}

fn write_worker_secrets(out: &Path, secrets: &Secrets) -> Result<(), Failure> {
    write_private(out, WORKER_VARS, &vars(secrets))?;
    write_private(out, WORKER_SECRETS, &json(secrets)?)?;
    let directory = out.join(SECRETS_DIRECTORY);
    new_directory(&directory)?;
    for (name, value) in secrets {
        write_private(&directory, name, value)?;
    }
    Ok(())
}

/// The form of `.dev.vars`: line ends as `\n` inside double quotes.
fn vars(secrets: &Secrets) -> Zeroizing<String> {
    let line = |(name, value): &(&str, Zeroizing<String>)| format!("{name}=\"{}\"\n", value.replace('\n', "\\n"));
    Zeroizing::new(secrets.iter().map(line).collect())
}

/// The form of `wrangler secret bulk`.
fn json(secrets: &Secrets) -> Result<Zeroizing<String>, Failure> {
    let object: serde_json::Map<String, serde_json::Value> =
        secrets.iter().map(|(name, value)| ((*name).to_owned(), value.as_str().into())).collect();
    serde_json::to_string_pretty(&object)
        .map(Zeroizing::new)
        .map_err(|error| Failure::Io { what: "write the secrets".to_owned(), error: error.into() })
}

fn describe(made: &Made<'_>) -> String {
    let line = |what: &str, certificate: &Certificate| {
        let Certificate { subject, not_after, sha256 } = certificate;
        format!("{what:<12}{subject}\n            until {not_after}, SHA-256 {sha256}\n")
    };
    let mut text = line("Root", &made.root) + &line("Issuing CA", &made.issuing);
    text.extend(made.revoked.iter().map(|certificate| line("Revoked", certificate)));
    text + &format!("Files       {}\n", made.directory.display())
}

/// The worker's new secrets at once.
fn bulk(out: &Path) -> String {
    format!(
        "\nGive the worker its secrets, all at once:\n  npx wrangler secret bulk {}",
        out.join(WORKER_SECRETS).display()
    )
}

fn next_steps(out: &Path) -> String {
    format!(
        "{}\nor one by one:\n  npx wrangler secret put CA_PRIVATE_KEY < {}\nFor local development, {} is a .dev.vars file.",
        bulk(out),
        out.join(SECRETS_DIRECTORY).join("CA_PRIVATE_KEY").display(),
        out.join(WORKER_VARS).display(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Format;

    const NOW: i64 = 1_790_000_000;

    fn init_in(directory: &Path) -> Result<Outcome, Failure> {
        let arguments = CaInit { out: directory.to_owned(), organization: "Example Inc".to_owned() };
        init(&arguments, UnixTime::from_secs(NOW), Output::new(Format::Json))
    }

    fn secret(directory: &Path, name: &str) -> String {
        fs::read_to_string(directory.join(SECRETS_DIRECTORY).join(name)).unwrap()
    }

    #[test]
    fn the_secrets_belong_together_in_every_form() {
        let directory = tempfile::tempdir().unwrap();
        let out = directory.path().join("ca");
        init_in(&out).unwrap();
        let root = one(&out, ROOT);
        let issuing = one(&out, ISSUING);
        assert_eq!(secret(&out, "CA_CERTIFICATE"), issuing.to_pem());
        assert_eq!(secret(&out, "CA_ROOTS"), root.to_pem());
        assert_eq!(organization(&root).unwrap(), "Example Inc");
        CertificateAuthority::load(Zeroizing::new(secret(&out, "CA_PRIVATE_KEY")), &issuing.to_pem()).unwrap();
        for (file, name) in [(ADMIN_TOKEN, "ADMIN_TOKEN_SHA256"), (SERVICE_TOKEN, "SERVICE_TOKEN_SHA256")] {
            let token = fs::read_to_string(out.join(file)).unwrap();
            assert_eq!(hex(&sha256(token.as_bytes())), secret(&out, name));
        }
        let bulk: serde_json::Value =
            serde_json::from_str(&fs::read_to_string(out.join(WORKER_SECRETS)).unwrap()).unwrap();
        let vars = fs::read_to_string(out.join(WORKER_VARS)).unwrap();
        assert_eq!(vars.lines().count(), 6);
        for line in vars.lines() {
            let (name, quoted) = line.split_once('=').unwrap();
            let value: String = serde_json::from_str(quoted).unwrap();
            assert_eq!(value, secret(&out, name));
            assert_eq!(bulk[name], value);
        }
        assert!(vars.len() < 6 * 5000, "environment variables hold 5 KB");
    }

    #[test]
    fn keys_are_never_overwritten() {
        let directory = tempfile::tempdir().unwrap();
        init_in(directory.path()).unwrap();
        let before = fs::read_to_string(directory.path().join(ROOT_KEY)).unwrap();
        let failure = init_in(directory.path()).unwrap_err();
        assert_eq!(failure.exit_status(), crate::failure::CONFIGURATION);
        assert_eq!(fs::read_to_string(directory.path().join(ROOT_KEY)).unwrap(), before);
    }

    #[test]
    fn a_rotation_lists_the_new_issuing_ca_before_the_old_one() {
        let directory = tempfile::tempdir().unwrap();
        let (old, new) = (directory.path().join("old"), directory.path().join("new"));
        init_in(&old).unwrap();
        let arguments = CaRotate { from: old.clone(), out: new.clone(), revoke_former: false };
        rotate(&arguments, UnixTime::from_secs(NOW + 86_400), Output::new(Format::Json)).unwrap();
        let listed = CaCertificate::all_from_pem(&secret(&new, "CA_CERTIFICATE")).unwrap();
        assert_eq!(listed.len(), 2);
        assert_eq!(listed[1], one(&old, ISSUING));
        assert_ne!(listed[0].key(), listed[1].key());
        assert_eq!(organization(&listed[0]).unwrap(), "Example Inc");
        authority::check_secrets(&secret(&new, "CA_CERTIFICATE"), &secret(&new, "CA_ROOTS")).unwrap();
        assert!(!new.join(ROOT_KEY).exists() && !new.join(SECRETS_DIRECTORY).join("ADMIN_TOKEN_SHA256").exists());
    }

    fn one(directory: &Path, name: &str) -> CaCertificate {
        authority::one_certificate(&fs::read_to_string(directory.join(name)).unwrap()).unwrap()
    }
}
