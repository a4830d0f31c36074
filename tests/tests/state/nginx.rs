//! A relying party that many have: nginx with `ssl_verify_client on` and `ssl_crl` (CHECKS I7).

use std::fs;
use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use edge_tests::process::{ChildProcess, free_port};
use edge_tests::stack::{Host, Options, Stack};
use serde_json::json;

use crate::foreign::openssl;

/// The program, also where it is not on the `PATH` of everyone.
fn program() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places = std::env::split_paths(&path).chain([PathBuf::from("/usr/sbin"), PathBuf::from("/usr/local/sbin")]);
    places.map(|folder| folder.join("nginx")).find(|file| file.is_file())
}

fn configuration(port: u16) -> String {
    let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|name| format!("  {name}_temp_path tmp/{name};\n"))
        .concat();
    format!(
        "daemon off;\nmaster_process off;\npid nginx.pid;\nerror_log stderr info;\nevents {{}}\nhttp {{\n  access_log off;\n{temporary}  \
         server {{\n    listen 127.0.0.1:{port} ssl;\n    ssl_certificate server.pem;\n    ssl_certificate_key server.key.pem;\n    \
         ssl_client_certificate root.pem;\n    ssl_verify_client on;\n    ssl_verify_depth 2;\n    ssl_crl crls.pem;\n    \
         location / {{ return 200 \"$ssl_client_verify $ssl_client_s_dn\\n\"; }}\n  }}\n}}\n"
    )
}

/// nginx with the roots and CRLs as the verifier gives them out now.
fn serve(stack: &Stack, program: &Path, port: u16) -> ChildProcess {
    let folder = stack.folder().join("nginx");
    fs::create_dir_all(folder.join("tmp")).unwrap();
    let at = |name: &str| folder.join(name).display().to_string();
    fs::write(at("root.pem"), stack.client().get("/v1/trust-bundle").expect(200).body).unwrap();
    fs::write(at("crls.pem"), stack.client().get("/v1/crl.pem").expect(200).body).unwrap();
    fs::write(at("nginx.conf"), configuration(port)).unwrap();
    openssl(&[
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-noenc",
        "-days",
        "1",
        "-subj",
        "/CN=localhost",
        "-keyout",
        &at("server.key.pem"),
        "-out",
        &at("server.pem"),
    ]);
    let mut command = Command::new(program);
    command.args(["-e", "stderr", "-p"]).arg(&folder).arg("-c").arg(folder.join("nginx.conf"));
    let mut nginx = ChildProcess::spawn(&mut command).expect("nginx starts");
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    nginx.wait_for_port(address, Duration::from_secs(30)).unwrap_or_else(|error| panic!("{error}"));
    nginx
}

/// What a client with the runner's key and certificate is told. A connection that broke told nothing: it is made again.
fn get(port: u16, host: Option<&Host>) -> String {
    let mut said = String::new();
    for _ in 0..10 {
        let output = ask(port, host);
        if !output.stdout.is_empty() {
            return String::from_utf8_lossy(&output.stdout).into_owned();
        }
        said = String::from_utf8_lossy(&output.stderr).into_owned();
    }
    panic!("nginx says nothing: {said}");
}

fn ask(port: u16, host: Option<&Host>) -> Output {
    let mut command = Command::new("openssl");
    command.args(["s_client", "-quiet", "-ign_eof", "-connect", &format!("127.0.0.1:{port}")]);
    if let Some(host) = host {
        let at = |name: &str| host.state.join(name).display().to_string();
        command.args(["-cert", &at("certificate.pem"), "-cert_chain", &at("certificate.pem"), "-key", &at("key.pem")]);
    }
    let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = piped.expect("openssl is installed");
    let mut stdin = child.stdin.take().unwrap();
    // nginx may have closed the connection already.
    let _ = stdin.write_all(b"GET / HTTP/1.0\r\n\r\n");
    let output = child.wait_with_output().unwrap();
    drop(stdin);
    output
}

/// `cargo xtask test` asks for it where nginx is installed, and says so where it is not.
#[test]
#[ignore = "needs nginx"]
fn nginx_admits_a_good_certificate_and_refuses_a_banned_one() {
    let program = program().expect("nginx is installed");
    let stack = Stack::start(Options::new("state-nginx"));
    let [(good, good_id), (bad, bad_id)] = ["good", "bad"].map(|name| {
        let host = stack.host(name).with_token(&stack.admin().mint("acme").token);
        let id = host.run(&["enroll"]).expect(0).json()["runner_id"].as_str().unwrap().to_owned();
        (host, id)
    });
    let port = free_port().unwrap();
    let mut nginx = serve(&stack, &program, port);
    for (host, id) in [(&good, &good_id), (&bad, &bad_id)] {
        let answer = get(port, Some(host));
        assert!(answer.contains("200 OK") && answer.contains("SUCCESS") && answer.contains(id.as_str()), "{answer}");
    }
    let answer = get(port, None);
    assert!(answer.contains("400 Bad Request"), "{answer}");
    nginx.terminate().unwrap();

    stack.admin().ban("acme", &bad_id, &json!({}));
    stack.admin().assert_on_crl(&[stack.admin().runner("acme", &bad_id).serial]);
    let mut nginx = serve(&stack, &program, port);
    let (admitted, refused) = (get(port, Some(&good)), get(port, Some(&bad)));
    assert!(admitted.contains("200 OK"), "{admitted}\n{}", nginx.stderr());
    assert!(refused.contains("400 Bad Request"), "{refused}");
    nginx.terminate().unwrap();
    assert!(nginx.stderr().contains("certificate revoked"), "{}", nginx.stderr());
}
