//! Each fault does what it says, as a client sees it.

use std::time::Instant;

use super::*;

struct Bench {
    sts: StsEmulator,
    credentials: Credentials,
}

impl Bench {
    fn with(fault: Fault) -> Self {
        let sts = start();
        let credentials = sts.add_role_session(ACCOUNT, "runner", "s1");
        sts.set_fault(fault);
        Self { sts, credentials }
    }

    /// The answer's parts, its body possibly cut.
    async fn call(&self, accept: &str) -> reqwest::Result<(reqwest::Response, u16)> {
        let draft = Draft::caller_identity(&self.sts).signed(&self.credentials);
        let request = draft.header("accept", accept).try_build().unwrap();
        let response = request.send().await?;
        let status = response.status().as_u16();
        Ok((response, status))
    }

    async fn text(&self) -> (u16, String) {
        let (response, status) = self.call("application/json").await.unwrap();
        (status, response.text().await.unwrap())
    }
}

#[tokio::test]
async fn statuses_bodies_and_counts() {
    let bench = Bench::with(Fault::status(500));
    assert_eq!(bench.text().await, (500, String::new()));
    let body = r#"{"Error":{"Code":"X"}}"#.to_owned();
    bench.sts.set_faults([
        FaultPlan::from(Fault::Status {
            status: 418,
            body: Some(body.clone()),
            content_type: Some("text/plain".to_owned()),
        })
        .times(2),
        FaultPlan::from(Fault::Html).times(1),
    ]);
    let (response, status) = bench.call("application/json").await.unwrap();
    assert_eq!((status, response.headers()["content-type"].to_str().unwrap()), (418, "text/plain"));
    assert_eq!(bench.text().await, (418, body));
    let (response, status) = bench.call("application/json").await.unwrap();
    assert_eq!(status, 200);
    assert!(response.headers()["content-type"].to_str().unwrap().starts_with("text/html"));
    assert_eq!(bench.text().await.0, 200);
    let kinds: Vec<Option<String>> = bench.sts.requests().into_iter().map(|r| r.fault).collect();
    let expected = ["status", "status", "status", "html"].map(|kind| Some(kind.to_owned()));
    assert_eq!(kinds, [&expected[..], &[None]].concat());
}

#[tokio::test]
async fn redirects_throttles_and_aws_errors() {
    let location = "http://127.0.0.1:1/".to_owned();
    let bench = Bench::with(Fault::Redirect { location: location.clone(), status: 307 });
    let (response, status) = bench.call("application/json").await.unwrap();
    assert_eq!((status, response.headers()["location"].to_str().unwrap()), (307, &*location));
    bench.sts.set_fault(Fault::Throttle);
    let (status, text) = bench.text().await;
    let answer: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(status, 400);
    assert_eq!(answer["Error"], json!({"Code":"Throttling","Message":"Rate exceeded","Type":"Sender"}));
    bench.sts.set_fault(Fault::Error { status: 403, code: "OptInRequired".to_owned(), message: "a < b".to_owned() });
    let (response, status) = bench.call("*/*").await.unwrap();
    assert_eq!((status, response.headers()["content-type"].to_str().unwrap()), (403, "text/xml"));
    let text = response.text().await.unwrap();
    let id = text.split("<RequestId>").nth(1).unwrap().split('<').next().unwrap();
    assert_eq!(
        text,
        format!(
            "<ErrorResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\">\n  <Error>\n    \
             <Type>Sender</Type>\n    <Code>OptInRequired</Code>\n    \
             <Message>a &lt; b</Message>\n  </Error>\n  <RequestId>{id}</RequestId>\n</ErrorResponse>\n"
        )
    );
}

#[tokio::test]
async fn bodies_that_cannot_be_trusted() {
    let bench = Bench::with(Fault::Garbage);
    let (response, status) = bench.call("application/json").await.unwrap();
    assert_eq!((status, response.headers()["content-type"].to_str().unwrap()), (200, "application/json"));
    let garbage = response.bytes().await.unwrap();
    assert!(serde_json::from_slice::<Value>(&garbage).is_err());
    bench.sts.set_fault(Fault::Huge { bytes: 2 * 1024 * 1024 });
    let (status, text) = bench.text().await;
    assert_eq!(status, 200);
    assert!(text.len() > 2 * 1024 * 1024);
    assert!(serde_json::from_str::<Value>(&text).is_ok());
    bench.sts.set_fault(Fault::WrongAccount { account: "999999999999".to_owned() });
    let answer: Value = serde_json::from_str(&bench.text().await.1).unwrap();
    let result = &answer["GetCallerIdentityResponse"]["GetCallerIdentityResult"];
    assert_eq!(result["Arn"], "arn:aws:sts::999999999999:assumed-role/runner/s1");
    assert_eq!(result["Account"], ACCOUNT);
}

#[tokio::test]
async fn connections_that_end_too_soon() {
    let bench = Bench::with(Fault::CloseMidBody);
    let (response, status) = bench.call("application/json").await.unwrap();
    let promised = response.content_length().unwrap();
    assert_eq!(status, 200);
    let mut response = response;
    let first = response.chunk().await.unwrap().unwrap();
    assert_eq!(first.len() as u64, promised / 2);
    assert!(response.chunk().await.is_err());
    for fault in [Fault::Close, Fault::Reset] {
        bench.sts.set_fault(fault.clone());
        let error = bench.call("application/json").await.unwrap_err();
        assert!(!error.is_timeout() && !error.is_connect(), "{fault:?}: {error:?}");
    }
    bench.sts.clear_faults();
    assert_eq!(bench.text().await.0, 200);
}

/// Seen on the socket itself: FIN is an end of the stream, RST an error.
#[test]
fn close_and_reset_differ_on_the_wire() {
    use std::io::{Read as _, Write as _};
    let sts = start();
    let answer = |fault: Fault| {
        sts.set_fault(fault);
        let mut stream = std::net::TcpStream::connect(("127.0.0.1", sts.port())).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).map_err(|error| error.kind())
    };
    assert_eq!(answer(Fault::Close), Ok(0));
    assert_eq!(answer(Fault::Reset), Err(io::ErrorKind::ConnectionReset));
}

#[tokio::test]
async fn silence_and_slowness() {
    let bench = Bench::with(Fault::Delay { ms: 300 });
    let before = Instant::now();
    assert_eq!(bench.text().await.0, 200);
    assert!(before.elapsed() >= Duration::from_millis(300));

    let patience = Duration::from_millis(500);
    bench.sts.set_fault(Fault::Hang);
    assert!(tokio::time::timeout(patience, bench.text()).await.is_err());
    bench.sts.set_fault(Fault::StallMidBody);
    let (mut response, status) = bench.call("application/json").await.unwrap();
    assert_eq!(status, 200);
    assert!(response.chunk().await.unwrap().is_some());
    assert!(tokio::time::timeout(patience, response.chunk()).await.is_err());

    bench.sts.set_fault(Fault::Drip { ms: 1 });
    let (mut response, _) = bench.call("application/json").await.unwrap();
    let mut chunks = 0;
    while response.chunk().await.unwrap().is_some() {
        chunks += 1;
    }
    assert!(chunks > 10, "{chunks}");
}

/// Whoever hangs does not keep others waiting, and an emulator that hangs can be ended.
#[tokio::test]
async fn a_hanging_answer_blocks_nothing() {
    let bench = Bench::with(FaultPlan::from(Fault::Hang).fault);
    let hanging = Draft::caller_identity(&bench.sts).signed(&bench.credentials);
    let request = hanging.try_build().unwrap();
    let waiting = tokio::spawn(request.send());
    while bench.sts.request_count() == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    bench.sts.clear_faults();
    assert_eq!(bench.text().await.0, 200);
    drop(bench);
    assert!(waiting.await.unwrap().is_err());
}
