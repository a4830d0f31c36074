import { createRemoteJWKSet } from "jose";

const UNITS = { s: 1, m: 60, h: 3600, d: 86400 };

function seconds(text) {
  const [, number, unit] = /^(\d+)([smhd])$/.exec(text);
  return Number(number) * UNITS[unit];
}

/** The policy document as the isolate looks things up in it. */
export function compile(document) {
  const issuers = new Map();
  for (const { mode, issuer, jwks_uri, max_token_lifetime } of document.oidc_issuers ?? []) {
    const keys = createRemoteJWKSet(new URL(jwks_uri));
    issuers.set(issuer, { mode, keys, longest: seconds(max_token_lifetime ?? "1h") });
  }
  const tenants = new Map();
  for (const tenant of document.tenants) {
    for (const rule of (tenant.rules ?? []).filter(({ mode }) => mode === "gke-oidc")) {
      const { project, location, cluster, namespace, service_account } = rule;
      const issuer = `https://container.googleapis.com/v1/projects/${project}/locations/${location}/clusters/${cluster}`;
      tenants.set(key({ issuer, namespace, service_account }), tenant.id);
    }
  }
  return {
    audience: document.audience,
    trustDomain: document.trust_domain,
    issuer: (issuer) => issuers.get(issuer),
    tenantOf: (principal) => tenants.get(key(principal)),
    terms: {
      ttl: seconds(document.certificates.ttl),
      reattest_after: seconds(document.certificates.reattest_after),
      one_key_per_instance: document.one_key_per_instance ?? false,
    },
  };
}

const key = ({ issuer, namespace, service_account }) => `${issuer}#${namespace}:${service_account}`;
