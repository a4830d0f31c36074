//! nginx with `ssl_verify_client on` and `ssl_crl`: a good certificate gets in, a revoked one does not (CHECKS I2, I7). Ignored
//! unless asked for, since not every machine has nginx: `cargo xtask test` asks for it where nginx is, and says so where it is not.

mod support;

use std::io::Write as _;
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use pollster::block_on;
use support::runner_key::RunnerKey;
use support::{Authority, Folder, TRUST_DOMAIN, allotment};
use verifier::UnixTime;
use verifier::issuance::{CrlDraft, CrlEntry, RevocationReason, Serial, issue};

/// Ends with the test.
struct Nginx(Child);

impl Drop for Nginx {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[expect(clippy::disallowed_methods, reason = "nginx reads the clock, so the certificates must be of today")]
fn now() -> UnixTime {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    UnixTime::from_secs(i64::try_from(since.as_secs()).unwrap())
}

#[expect(clippy::disallowed_methods, reason = "a deadline for a process to come up")]
fn start(folder: &Folder, port: u16) -> Nginx {
    folder.write(
        "nginx.conf",
        format!(
            "daemon off; master_process off; pid nginx.pid; error_log stderr;\n\
             events {{}}\n\
             http {{ access_log off;\n\
             client_body_temp_path t1; proxy_temp_path t2; fastcgi_temp_path t3; uwsgi_temp_path t4; scgi_temp_path t5;\n\
             server {{ listen 127.0.0.1:{port} ssl;\n\
             ssl_certificate server.pem; ssl_certificate_key server.key;\n\
             ssl_client_certificate root.pem; ssl_verify_client on; ssl_verify_depth 2; ssl_crl crls.pem;\n\
             location / {{ return 200 \"hello $ssl_client_s_dn\"; }} }} }}\n"
        ),
    );
    let child = Command::new("nginx")
        .arg("-p")
        .arg(folder.path())
        .args(["-e", "stderr", "-c"])
        .arg(folder.path().join("nginx.conf"))
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let nginx = Nginx(child);
    let deadline = Instant::now() + Duration::from_secs(30);
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(Instant::now() < deadline, "nginx does not listen");
        std::thread::sleep(Duration::from_millis(20));
    }
    nginx
}

/// What nginx answers a client with this certificate.
fn get(folder: &Folder, port: u16) -> String {
    let mut client = Command::new("openssl")
        .args(["s_client", "-quiet", "-no_ign_eof", "-cert", "leaf.pem", "-cert_chain", "leaf.pem", "-key", "leaf.key"])
        .args(["-CAfile", "root.pem", "-connect", &format!("127.0.0.1:{port}")])
        .current_dir(folder.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut stdin = client.stdin.take().unwrap();
    stdin.write_all(b"GET / HTTP/1.0\r\n\r\n").unwrap();
    let output = client.wait_with_output().unwrap();
    drop(stdin);
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
#[ignore = "needs nginx"]
fn nginx_admits_a_good_certificate_and_not_a_revoked_one() {
    let now = now();
    let authority = Authority::made_at("nginx", now);
    let folder = Folder::new();
    let runner = RunnerKey::generate("EC:P-256");
    let csr = runner.csr();
    let mut allotment = allotment(&csr);
    (allotment.not_before, allotment.not_after) = (now.plus(-60), now.plus(3600));
    let issued = block_on(issue(&allotment, &csr, &authority.ca, TRUST_DOMAIN, None, &authority.issuing_key)).unwrap();
    folder.write("leaf.pem", &issued.chain_pem);
    folder.write("leaf.key", der::pem::encode_string("PRIVATE KEY", der::pem::LineEnding::LF, &runner.pkcs8).unwrap());
    folder.write("root.pem", authority.root.to_pem());
    folder.openssl_ok(&[
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
        "-subj",
        "/CN=localhost",
        "-keyout",
        "server.key",
        "-out",
        "server.pem",
    ]);

    for (revoked, expected) in
        [(false, "hello CN=mfzwizltmfzwizltmfzwizltab,O=acme"), (true, "The SSL certificate error")]
    {
        let serial = Serial::from_hex(&allotment.serial).unwrap();
        let entry = CrlEntry { serial, revoked_at: now, reason: RevocationReason::PrivilegeWithdrawn };
        let entries = if revoked { vec![entry] } else { Vec::new() };
        let list = block_on(CrlDraft::new(1, now, entries).sign(&authority.issuing, &authority.issuing_key)).unwrap();
        folder.write("crls.pem", [list.pem.as_str(), &authority.root_crl.pem].concat());
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let _nginx = start(&folder, port);
        let answer = get(&folder, port);
        assert!(answer.contains(expected), "revoked {revoked}: {answer}");
    }
}
