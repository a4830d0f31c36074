//! The state directory under damage, strangers and a second instance.

use rustix::process::Signal;

use crate::support::{Fake, Reply, Runner};

/// Folders of things set aside.
fn set_aside(runner: &Runner) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(runner.state()).unwrap().map(|entry| entry.unwrap().path());
    let mut found: Vec<_> =
        entries.filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with("set-aside-")).collect();
    found.sort();
    found
}

#[tokio::test]
async fn a_second_instance_is_kept_out() {
    let fake = Fake::start([]).await;
    let runner = Runner::bootstrap(&fake);
    let daemon = runner.start(&["run"]);
    daemon.wait_log("enrolled").await;
    let output = runner.run(&["enroll"]).await;
    assert_eq!(output.status, 78, "{output:?}");
    assert!(output.stderr.contains("another runner (process "), "{output:?}");
    assert_eq!(fake.calls().len(), 1);
    daemon.signal(Signal::TERM);
    assert_eq!(daemon.end().await.status, 0);
    assert_eq!(runner.run(&["enroll"]).await.status, 0, "the lock ends with its holder");
}

#[tokio::test]
async fn a_damaged_identity_is_set_aside_and_its_key_goes_on() {
    let fake = Fake::start([]).await;
    let runner = Runner::bootstrap(&fake);
    assert_eq!(runner.run(&["enroll"]).await.status, 0);
    std::fs::write(runner.state().join("identity.json"), "{\"version\":1,").unwrap();
    let output = runner.run(&["enroll"]).await;
    assert_eq!(output.status, 0, "{output:?}");
    assert!(output.stderr.contains("identity.json is damaged"), "{output:?}");
    let kept = set_aside(&runner);
    assert_eq!(std::fs::read_to_string(kept[0].join("identity.json")).unwrap(), "{\"version\":1,");
    assert!(kept[0].join("certificate.pem").exists());
    let calls = fake.calls();
    assert_eq!(calls[0].key, calls[1].key);
}

#[tokio::test]
async fn a_damaged_key_is_set_aside_and_a_new_one_made() {
    let fake = Fake::start([]).await;
    let runner = Runner::bootstrap(&fake);
    assert_eq!(runner.run(&["enroll"]).await.status, 0);
    std::fs::write(runner.state().join("key.pem"), "not a key").unwrap();
    let output = runner.run(&["enroll"]).await;
    assert_eq!(output.status, 0, "{output:?}");
    assert!(output.stderr.contains("key.pem is not a P-256 private key"), "{output:?}");
    let kept = set_aside(&runner);
    assert!(
        kept.iter().any(|folder| std::fs::read_to_string(folder.join("key.pem")).is_ok_and(|text| text == "not a key"))
    );
    let calls = fake.calls();
    assert_ne!(calls[0].key, calls[1].key);
    assert_eq!(runner.run(&["status"]).await.status, 0);
}

#[tokio::test]
async fn state_of_another_control_plane_or_mode_is_set_aside_whole() {
    let (one, two) = (Fake::start([]).await, Fake::start([]).await);
    let mut runner = Runner::bootstrap(&one);
    assert_eq!(runner.run(&["enroll"]).await.status, 0);
    runner.set("RUNNER_CONTROL_PLANE_URL", &two.url);
    let belongs = format!("it belongs to the control plane {}", one.url);
    let attested = runner.run(&["attest"]).await;
    assert!(attested.stderr.contains(&belongs), "{attested:?}");
    assert_ne!(attested.json()["csr"], one.calls()[0].csr(), "not the key that will be set aside");
    assert!(runner.run(&["doctor"]).await.stdout.contains(&belongs));
    let output = runner.run(&["enroll"]).await;
    assert_eq!(output.status, 0, "{output:?}");
    assert!(
        output.stderr.contains(&format!("it belongs to the control plane {}, not to {}", one.url, two.url)),
        "{output:?}"
    );
    assert_ne!(one.calls()[0].key, two.calls()[0].key);
    assert!(set_aside(&runner)[0].join("key.pem").exists());

    runner.set("RUNNER_ATTESTATION_MODE", "aws-sts");
    for (name, value) in [("AWS_REGION", "eu-west-1"), ("AWS_ACCESS_KEY_ID", "AKIA"), ("AWS_SECRET_ACCESS_KEY", "s")] {
        runner.set(name, value);
    }
    let output = runner.run(&["enroll"]).await;
    assert!(
        output.stderr.contains("it was attested by bootstrap-token, and RUNNER_ATTESTATION_MODE is now aws-sts"),
        "{output:?}"
    );
    assert_eq!(two.calls()[1].mode(), "aws-sts");
}

#[tokio::test]
async fn exports_are_repaired_from_the_identity() {
    let fake = Fake::start([]).await;
    let runner = Runner::bootstrap(&fake);
    assert_eq!(runner.run(&["enroll"]).await.status, 0);
    let file = runner.state().join("certificate.pem");
    let good = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, "torn").unwrap();
    let daemon = runner.start(&["run"]);
    daemon.wait_log("is live for").await;
    assert_eq!(std::fs::read_to_string(&file).unwrap(), good);
    daemon.signal(Signal::TERM);
    assert_eq!(daemon.end().await.status, 0);
    assert_eq!(fake.calls().len(), 1);
}

#[tokio::test]
async fn a_crash_between_certificate_and_key_is_finished() {
    let fake = Fake::start([]).await;
    let runner = Runner::bootstrap(&fake);
    assert_eq!(runner.run(&["enroll"]).await.status, 0);
    // As it is when the process dies after the identity was replaced and before the key took its place.
    std::fs::rename(runner.state().join("key.pem"), runner.state().join("pending-key.pem")).unwrap();
    assert_eq!(runner.run(&["status"]).await.status, 0, "readers see through it");
    let output = runner.run(&["enroll", "--output", "json"]).await;
    assert_eq!(output.json()["how"], "reattested", "{output:?}");
    assert!(set_aside(&runner).is_empty());
    let calls = fake.calls();
    assert_eq!(calls[0].key, calls[1].key);
}

#[tokio::test]
async fn a_directory_that_cannot_be_written_is_configuration() {
    let fake = Fake::start([]).await;
    let runner = Runner::bootstrap(&fake).env("RUNNER_STATE_DIR", "/proc/rootpilot");
    let output = runner.run(&["enroll"]).await;
    assert_eq!(output.status, 78, "{output:?}");
    assert!(output.stderr.contains("/proc/rootpilot") && fake.calls().is_empty(), "{output:?}");
}

#[tokio::test]
async fn a_failed_renewal_leaves_everything_as_it_was() {
    let fake = Fake::start([Reply::issue(60_000)]).await.then(Reply::problem(403, "runner_banned", None));
    let runner = Runner::bootstrap(&fake);
    assert_eq!(runner.run(&["enroll"]).await.status, 0);
    let read = |name: &str| std::fs::read(runner.state().join(name)).unwrap();
    let before = (read("key.pem"), read("certificate.pem"), read("identity.json"));
    let daemon = runner.start(&["run"]);
    daemon.wait_log("is live for").await;
    daemon.signal(Signal::HUP);
    daemon.wait_log("keeping the certificate").await;
    daemon.signal(Signal::TERM);
    daemon.end().await;
    assert_eq!(before, (read("key.pem"), read("certificate.pem"), read("identity.json")));
}

/// Pipes would hang every reader of the directory, the probe of `status` among them.
#[tokio::test]
async fn what_is_no_file_is_set_aside() {
    let fake = Fake::start([]).await;
    for name in
        ["identity.json", "key.pem", "pending-key.pem", "certificate.pem", "trust-bundle.pem", "last-failure.json"]
    {
        for pipe in [true, false] {
            let runner = Runner::bootstrap(&fake);
            std::fs::create_dir(runner.state()).unwrap();
            let place = runner.state().join(name);
            if pipe {
                assert!(std::process::Command::new("mkfifo").arg(&place).status().unwrap().success());
            } else {
                std::fs::create_dir(&place).unwrap();
            }
            assert_eq!(runner.run(&["status"]).await.status, 69);
            assert!(runner.run(&["doctor"]).await.stdout.contains(&format!("{name} is not a file")), "{name}");
            let output = runner.run(&["enroll"]).await;
            assert_eq!(output.status, 0, "{name}: {output:?}");
            assert!(output.stderr.contains(&format!("{name} is not a file; moved to")), "{output:?}");
            assert!(set_aside(&runner)[0].join(name).symlink_metadata().is_ok());
            assert_eq!(runner.run(&["status"]).await.status, 0);
        }
    }
}

/// In a directory that others may write to, it could lead to any file of root's.
#[tokio::test]
async fn a_link_in_the_place_of_the_lock_is_not_followed() {
    let fake = Fake::start([]).await;
    let runner = Runner::bootstrap(&fake);
    let precious = runner.file("precious", "precious");
    std::fs::create_dir(runner.state()).unwrap();
    std::os::unix::fs::symlink(&precious, runner.state().join("lock")).unwrap();
    let output = runner.run(&["enroll"]).await;
    assert_eq!((output.status, fake.calls().len()), (78, 0), "{output:?}");
    assert!(output.stderr.contains("state/lock"), "{output:?}");
    assert_eq!(std::fs::read_to_string(precious).unwrap(), "precious");
}

#[tokio::test]
async fn a_state_directory_that_is_none_is_said_to_be_none() {
    let fake = Fake::start([]).await;
    let runner = Runner::bootstrap(&fake);
    runner.file("state", "x");
    let output = runner.run(&["enroll"]).await;
    assert_eq!(output.status, 78, "{output:?}");
    assert!(output.stderr.contains("state is not a directory"), "{output:?}");
    std::fs::remove_file(runner.state()).unwrap();
    std::os::unix::fs::symlink("nowhere", runner.state()).unwrap();
    for args in [&["enroll"][..], &["doctor"]] {
        let output = runner.run(args).await;
        assert_eq!(output.status, 78, "{output:?}");
        assert!((output.stdout + &output.stderr).contains("state is a link that leads nowhere"));
    }
    assert!(fake.calls().is_empty());
}
