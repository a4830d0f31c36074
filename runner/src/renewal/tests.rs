//! Time as the daemon sees it, with clocks that are set by hand.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Mutex;

use jiff::{SignedDuration, Timestamp};
use protocol::{EnrollResponse, Mode};

use super::*;
use crate::cli::Options;
use crate::config::Config;
use crate::control_plane::Answer;
use crate::identity_store::IdentityStore;
use crate::key::Key;

const URL: &str = "http://127.0.0.1:1";
const HOUR: Duration = Duration::from_hours(1);

/// Both clocks, set by hand.
#[derive(Clone)]
struct Hands(Arc<Mutex<Moment>>);

impl Hands {
    fn new() -> Self {
        Self(Arc::new(Mutex::new(Moment { wall: start(), uptime: Duration::from_secs(1000) })))
    }

    fn move_by(&self, wall: SignedDuration, uptime: Duration) {
        let mut now = self.0.lock().unwrap();
        now.wall += wall;
        now.uptime += uptime;
    }
}

impl Clock for Hands {
    fn now(&self) -> Moment {
        *self.0.lock().unwrap()
    }
}

fn start() -> Timestamp {
    "2024-11-06T08:00:00Z".parse().unwrap()
}

/// An identity of an hour for a key, received at the start.
fn identity(key: &Key, reattest_before: Option<&str>) -> Identity {
    let mut csr = rcgen::CertificateSigningRequestParams::from_pem(&key.csr().unwrap().pem).unwrap();
    csr.params.serial_number = Some(7u64.into());
    let ca_key = rcgen::KeyPair::generate().unwrap();
    let mut ca = rcgen::CertificateParams::new(Vec::new()).unwrap();
    ca.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let trust_bundle = ca.self_signed(&ca_key).unwrap().pem();
    let issuer = rcgen::Issuer::new(ca, ca_key);
    let response = EnrollResponse {
        runner_id: "r".to_owned(),
        tenant: "acme".to_owned(),
        spiffe_id: "spiffe://t/tenant/acme/runner/r".to_owned(),
        certificate: csr.signed_by(&issuer).unwrap().pem(),
        trust_bundle,
        not_before: "2024-11-06T08:00:00Z".to_owned(),
        not_after: "2024-11-06T09:00:00Z".to_owned(),
        renew_after: "2024-11-06T08:30:00Z".to_owned(),
        reattest_before: reattest_before.map(str::to_owned),
        server_time: "2024-11-06T08:00:00Z".to_owned(),
    };
    let received = Moment { wall: start(), uptime: Duration::from_secs(1000) };
    Identity::from_answer(&Answer { response, received }, key, URL, Mode::BootstrapToken).unwrap()
}

/// A daemon over a state directory with that identity in it.
fn daemon(hands: &Hands, dir: &std::path::Path, reattest_before: Option<&str>) -> Daemon {
    let key = Key::generate().unwrap();
    let mut store = IdentityStore::open(dir).unwrap();
    store.store_pending(&key).unwrap();
    store.commit(&identity(&key, reattest_before), &key).unwrap();
    drop(store);
    let options = Options {
        control_plane_url: Some(URL.to_owned()),
        state_dir: Some(dir.as_os_str().to_owned()),
        ..Options::default()
    };
    let environment = |name: &str| (name == "RUNNER_BOOTSTRAP_TOKEN").then(|| "rpbt_a_b_c".into());
    let config = Config::resolve(&options, &environment).unwrap();
    let clock: Arc<dyn Clock> = Arc::new(hands.clone());
    // A program that another test of this process starts holds a copy of the lock until it has begun.
    let enroller = (0..100).find_map(|_| {
        let opened = Enroller::open(config.clone(), Arc::clone(&clock)).ok();
        opened.or_else(|| {
            std::thread::sleep(Duration::from_millis(20));
            None
        })
    });
    let enroller = enroller.expect("the state directory is free");
    Daemon::new(enroller, clock, Box::new(|_, _| {}))
}

#[test]
fn renewal_is_at_half_life_give_or_take_a_tenth() {
    let identity = identity(&Key::generate().unwrap(), None);
    let delays: Vec<Duration> = (0..500).map(|_| delay_for(&identity)).collect();
    let (least, most) = (delays.iter().min().unwrap(), delays.iter().max().unwrap());
    assert!(*least >= Duration::from_mins(27) && *most <= Duration::from_mins(33), "{least:?} {most:?}");
    assert!(*most > *least + Duration::from_mins(4), "a fleet is spread: {least:?} {most:?}");
}

#[test]
fn attestation_takes_the_place_of_a_renewal_that_could_not_reach_further() {
    let key = Key::generate().unwrap();
    assert_eq!(next_for(&identity(&key, None)), Next::Renew);
    assert_eq!(next_for(&identity(&key, Some("2024-11-07T08:00:00Z"))), Next::Renew);
    assert_eq!(next_for(&identity(&key, Some("2024-11-06T09:00:00Z"))), Next::Attest);
}

#[test]
fn at_a_start_the_age_of_the_certificate_counts() {
    let dir = tempfile::tempdir().unwrap();
    let hands = Hands::new();
    let mut daemon = daemon(&hands, dir.path(), None);
    hands.move_by(SignedDuration::from_mins(20), Duration::from_mins(20));
    let wait = daemon.first();
    assert_eq!(wait.next, Next::Renew);
    let left = wait.until.left(&hands.now());
    assert!(left >= Duration::from_mins(7) && left <= Duration::from_mins(13), "{left:?}");
    assert!(daemon.is_live());
}

#[test]
fn at_a_start_after_the_end_it_attests() {
    let dir = tempfile::tempdir().unwrap();
    let hands = Hands::new();
    let mut daemon = daemon(&hands, dir.path(), None);
    hands.move_by(SignedDuration::from_hours(2), 2 * HOUR);
    let wait = daemon.first();
    assert_eq!((wait.next, wait.until.left(&hands.now())), (Next::Attest, Duration::ZERO));
    assert!(!daemon.is_live());
}

#[test]
fn at_a_start_with_a_clock_set_back_it_renews_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let hands = Hands::new();
    let mut daemon = daemon(&hands, dir.path(), None);
    hands.move_by(SignedDuration::from_hours(-30), Duration::from_mins(1));
    let wait = daemon.first();
    assert_eq!((wait.next, wait.until.left(&hands.now())), (Next::Renew, Duration::ZERO));
    assert!(daemon.is_live());
}

#[tokio::test(start_paused = true)]
async fn a_suspend_is_noticed_at_the_next_look() {
    let dir = tempfile::tempdir().unwrap();
    let hands = Hands::new();
    let mut daemon = daemon(&hands, dir.path(), None);
    let wait = daemon.first();
    let mut signals = Signals::new().unwrap();
    let asleep = hands.clone();
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_secs(1)).await;
        asleep.move_by(SignedDuration::from_mins(50), Duration::from_mins(50));
    });
    let begin = tokio::time::Instant::now();
    assert_eq!(daemon.wait(&wait, &mut signals).await, None);
    assert!(begin.elapsed() <= LONGEST_SLEEP);
    assert_eq!(daemon.still(wait.next), Next::Renew, "ten minutes are left");
}

#[tokio::test(start_paused = true)]
async fn a_paused_virtual_machine_tries_to_renew_before_it_attests() {
    let dir = tempfile::tempdir().unwrap();
    let hands = Hands::new();
    let mut daemon = daemon(&hands, dir.path(), None);
    let wait = daemon.first();
    // Only the wall clock saw the pause: whether the certificate has ended, the control plane knows.
    hands.move_by(SignedDuration::from_hours(3), Duration::from_secs(5));
    let mut signals = Signals::new().unwrap();
    assert_eq!(daemon.wait(&wait, &mut signals).await, None);
    assert_eq!(daemon.still(wait.next), Next::Renew);
    assert!(daemon.is_live());
    hands.move_by(SignedDuration::ZERO, HOUR);
    assert_eq!(daemon.still(wait.next), Next::Attest);
    assert!(!daemon.is_live());
}

#[tokio::test]
async fn a_refusal_is_looked_at_again_in_five_minutes_or_at_the_end() {
    let dir = tempfile::tempdir().unwrap();
    let hands = Hands::new();
    let mut daemon = daemon(&hands, dir.path(), None);
    daemon.first();
    let banned = || Attempted::from(Failure::new(Class::Refused, Remedy::Person, "banned"));
    let wait = daemon.failed(Next::Renew, banned()).unwrap();
    assert_eq!((wait.next, wait.until.length), (Next::Renew, REFUSED_PAUSE));
    hands.move_by(SignedDuration::from_mins(58), Duration::from_mins(58));
    assert_eq!(daemon.failed(Next::Renew, banned()).unwrap().until.length, Duration::from_mins(2));
    hands.move_by(SignedDuration::from_mins(2), Duration::from_mins(2));
    assert_eq!(daemon.failed(Next::Attest, banned()).unwrap_err().class, Class::Refused);
}

#[tokio::test]
async fn retry_after_is_a_lower_bound_with_jitter_above_it() {
    let dir = tempfile::tempdir().unwrap();
    let hands = Hands::new();
    let mut daemon = daemon(&hands, dir.path(), None);
    daemon.first();
    let after = Some(Duration::from_mins(10));
    let busy = || Attempted::from(Failure { remedy: Remedy::Retry { after }, ..Failure::unreachable("busy") });
    let delays: Vec<Duration> = (0..50).map(|_| daemon.failed(Next::Renew, busy()).unwrap().until.length).collect();
    assert!(delays.iter().all(|delay| *delay >= Duration::from_mins(10)));
    assert!(delays.iter().any(|delay| *delay != delays[0]));
    let down = || Attempted::from(Failure::unreachable("down"));
    let longest = (0..50).map(|_| daemon.failed(Next::Renew, down()).unwrap().until.length).max().unwrap();
    assert!(longest <= Duration::from_mins(2), "{longest:?}");
}

/// PROTOCOL, Rate limits: requests that one address may make in a window, and the window in seconds.
const LIMIT: (usize, u64) = (1_000, 10);

/// The most that fall into one window.
fn busiest(times: impl Iterator<Item = Duration>) -> usize {
    let mut windows = BTreeMap::<u64, usize>::new();
    times.for_each(|time| *windows.entry(time.as_secs() / LIMIT.1).or_default() += 1);
    windows.into_values().max().unwrap_or_default()
}

#[test]
fn a_fleet_of_5000_behind_one_address_gets_in_and_never_comes_all_at_once_again() {
    const FLEET: usize = 5_000;
    // Everyone starts within a second: a node pool, a site after a power cut.
    let mut calls: BinaryHeap<_> =
        (0..FLEET).map(|runner| Reverse((Duration::from_secs(1).mul_f64(fastrand::f64()), runner))).collect();
    let mut backoffs: Vec<ExponentialBackoff> = (0..FLEET).map(|_| backoff()).collect();
    let mut served_in_window = BTreeMap::<u64, usize>::new();
    let (mut admitted, mut made) = (Vec::new(), 0);
    while let Some(Reverse((now, runner))) = calls.pop() {
        made += 1;
        let served = served_in_window.entry(now.as_secs() / LIMIT.1).or_default();
        if *served < LIMIT.0 {
            *served += 1;
            admitted.push(now);
        } else {
            let after = Some(Duration::from_secs(LIMIT.1));
            calls.push(Reverse((now + retry_delay(&mut backoffs[runner], after), runner)));
        }
    }
    let (last, per_runner) = (admitted[FLEET - 1], f64::from(made) / 5_000.0);
    assert!(last < Duration::from_mins(2), "the last one waited for {last:?}");
    assert!(per_runner < 4.0, "{per_runner} calls each");
    // Certificates of an hour are renewed without anyone meeting the limit.
    let renewals = admitted.iter().map(|time| *time + jittered(HOUR / 2));
    let busiest = busiest(renewals);
    assert!(busiest < LIMIT.0 / 4, "{busiest} renewals in one window");
}
