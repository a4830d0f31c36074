//! Rules: what a tenant's runners may be.

use serde::{Deserialize, Serialize};

/// Placeholder until the appraisal room fills it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rule {}
