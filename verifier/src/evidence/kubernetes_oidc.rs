//! `gke-oidc` and `eks-oidc`: projected ServiceAccount tokens of managed Kubernetes clusters.

pub mod issuer;

pub use issuer::{EksIssuer, GkeIssuer, parse_eks_issuer, parse_gke_issuer};
