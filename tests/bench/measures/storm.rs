//! P8: a fleet of 10,000 runners over 100 tenants starts at once, 64 at a time. Every certificate is parsed and every record counted.

use std::collections::HashSet;

use anyhow::Result;
use edge_tests::figures::rounded;
use protocol::admin::{Page, RunnerItem};
use serde_json::json;

use super::Enrolment;
use crate::interrupt;
use crate::material::{Certificates, Mint};
use crate::report::Row;
use crate::scene::Scene;

const RUNNERS: usize = 10_000;
const TENANTS: usize = 100;
const STORM: Enrolment = Enrolment { connections: 64, keep: true };

/// Measures.
pub fn run(scene: &Scene) -> Result<Vec<Row>> {
    let tenants: Vec<String> = (0..TENANTS).map(|tenant| format!("tenant-{tenant}")).collect();
    let server = scene.start_ours("storm", &scene.policy(tenants.iter().map(String::as_str)))?;
    let pods = Mint::rs256(&scene.issuer).pods(&tenants, 0..RUNNERS);
    let fired = STORM.try_fire(&server, &pods.shots)?;
    let errors = RUNNERS - fired.answers.len();
    let certificates = Certificates::read(&pods, &fired.answers)?;
    let mut recorded = HashSet::new();
    for tenant in &tenants {
        interrupt::check()?;
        recorded.extend(runners_of(scene, &server, tenant).into_iter().map(|id| (tenant.clone(), id)));
    }
    let lost = certificates.runners.iter().filter(|runner| !recorded.contains(runner)).count();
    let counts = [errors, certificates.duplicates, lost];
    Ok(vec![
        Row {
            id: "P8",
            title: "storm of 10,000 runners over 100 tenants: errors, duplicates, lost records",
            value: json!(counts),
            ours: json!(counts),
            goal: Some("0, 0, 0"),
            met: Some(counts == [0, 0, 0] && recorded.len() == RUNNERS),
            samples: json!({
                "errors": errors, "first_error": fired.first_error, "duplicates": certificates.duplicates, "lost": lost,
                "certificates": certificates.runners.len(), "records": recorded.len(),
                "seconds": rounded(fired.elapsed.as_secs_f64(), 2), "latency_ms": fired.latency.json(),
            }),
            ..Row::default()
        },
        Row {
            id: "storm_rate",
            title: "the same storm, over 100 objects of one process",
            unit: "enrolments/s",
            value: json!(rounded(fired.per_second(), 0)),
            ours: json!(rounded(fired.per_second(), 0)),
            samples: json!({"latency_ms": fired.latency.json()}),
            ..Row::default()
        },
    ])
}

/// Every runner of a tenant, by the admin route, page after page.
fn runners_of(scene: &Scene, server: &edge_tests::workerd::Server, tenant: &str) -> Vec<String> {
    let admin = scene.admin(server);
    let mut found = Vec::new();
    let mut cursor = String::new();
    loop {
        let path = format!("/v1/admin/tenants/{tenant}/runners?limit=200{cursor}");
        let page: Page<RunnerItem> = admin.0.get(&path).expect(200).read();
        found.extend(page.items.into_iter().map(|runner| runner.runner_id));
        match page.next {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return found,
        }
    }
}
