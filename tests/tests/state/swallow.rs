//! A relay before the verifier that can lose an answer: the request arrives and is carried out, its sender never hears of it.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use edge_tests::stack::Stack;
use parking_lot::Mutex;

/// For an answer of the verifier, on a machine that is busy.
const ANSWER: Duration = Duration::from_secs(30);

/// Relays bytes between its own address and the verifier's until the test process ends.
pub struct Relay {
    url: String,
    /// Told of the answer that was lost; there is one while an answer is to be lost.
    lose: Arc<Mutex<Option<SyncSender<()>>>>,
    lost: Mutex<Option<Receiver<()>>>,
}

impl Relay {
    /// Before `stack`, as it is now.
    pub fn start(stack: &Stack) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a loopback port is free");
        let url = format!("http://{}", listener.local_addr().expect("it is bound"));
        let verifier = stack.url().trim_start_matches("http://").to_owned();
        let lose = Arc::new(Mutex::new(None));
        let shared = Arc::clone(&lose);
        std::thread::spawn(move || {
            for caller in listener.incoming().flatten() {
                let Ok(verifier) = TcpStream::connect(&verifier) else { continue };
                relay(caller, verifier, &shared);
            }
        });
        Self { url, lose, lost: Mutex::new(None) }
    }

    /// Its address.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// From now on the first answer is lost, and its connection stays open without a word.
    pub fn swallow_next_answer(&self) {
        let (sender, receiver) = sync_channel(1);
        *self.lose.lock() = Some(sender);
        *self.lost.lock() = Some(receiver);
    }

    /// Waits until the verifier has given that answer.
    #[track_caller]
    pub fn wait_until_swallowed(&self) {
        let lost = self.lost.lock().take().expect("an answer is to be lost");
        lost.recv_timeout(ANSWER).expect("the verifier answers");
    }
}

fn relay(mut caller: TcpStream, mut verifier: TcpStream, lose: &Arc<Mutex<Option<SyncSender<()>>>>) {
    let (mut from_caller, mut to_verifier) = (caller.try_clone().unwrap(), verifier.try_clone().unwrap());
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut from_caller, &mut to_verifier);
        let _ = to_verifier.shutdown(Shutdown::Write);
    });
    let lose = Arc::clone(lose);
    std::thread::spawn(move || {
        let mut buffer = [0; 16 * 1024];
        let mut is_lost = false;
        while let Ok(read @ 1..) = verifier.read(&mut buffer) {
            // The verifier answers when it has committed: the first octet says that.
            if let Some(lost) = lose.lock().take() {
                is_lost = true;
                let _ = lost.send(());
            }
            if !is_lost && caller.write_all(&buffer[..read]).is_err() {
                return;
            }
        }
        if !is_lost {
            let _ = caller.shutdown(Shutdown::Both);
        }
    });
}
