import "@abraham/reflection";
import * as x509 from "@peculiar/x509";
import { sha256Hex } from "./access.js";
import { Refusal } from "./refusal.js";

const SIGNING = { name: "ECDSA", namedCurve: "P-256", hash: "SHA-256" };
/** Extensions that are the same in every certificate. */
const FIXED = [
  new x509.BasicConstraintsExtension(false, undefined, true),
  new x509.KeyUsagesExtension(x509.KeyUsageFlags.digitalSignature, true),
  new x509.ExtendedKeyUsageExtension([x509.ExtendedKeyUsage.clientAuth]),
];
const CURVES = new Set(["P-256", "P-384"]);
const BLOCK = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----\n?/g;

/** A CSR whose sender holds the key. */
export async function readCsr(text) {
  try {
    const request = new x509.Pkcs10CertificateRequest(text);
    const { name, namedCurve } = request.publicKey.algorithm;
    const accepted = (name === "ECDSA" && CURVES.has(namedCurve)) || name === "RSASSA-PKCS1-v1_5" || name === "Ed25519";
    if (accepted && (await request.verify())) {
      return { publicKey: request.publicKey, spkiSha256: await sha256Hex(request.publicKey.rawData) };
    }
  } catch {
    // Not the DER of a request.
  }
  throw new Refusal(400, "csr_invalid");
}

const rfc3339 = (time) => new Date(time * 1000).toISOString().replace(".000Z", "Z");

/** The issuing CA: its key imported once, its certificate parsed once. */
export class Authority {
  static async load(env) {
    const authority = new Authority();
    const der = Uint8Array.from(atob(env.CA_PRIVATE_KEY.replaceAll(/-----[^-]+-----|\s/g, "")), (c) => c.charCodeAt(0));
    authority.key = await crypto.subtle.importKey("pkcs8", der, SIGNING, false, ["sign"]);
    authority.chain = env.CA_CERTIFICATE;
    authority.roots = env.CA_ROOTS;
    const [certificate] = env.CA_CERTIFICATE.match(BLOCK).map((pem) => new x509.X509Certificate(pem));
    authority.issuer = certificate.subjectName;
    authority.notAfter = Math.floor(certificate.notAfter.getTime() / 1000);
    const identifier = certificate.getExtension(x509.SubjectKeyIdentifierExtension).keyId;
    authority.keyIdentifier = new x509.AuthorityKeyIdentifierExtension(identifier);
    return authority;
  }

  /** Signs what was allotted. */
  async answer(allotment, csr, policy, now) {
    const { tenant, runner_id, serial, not_before, not_after, reattest_before } = allotment;
    const spiffeId = `spiffe://${policy.trustDomain}/tenant/${tenant}/runner/${runner_id}`;
    const certificate = await x509.X509CertificateGenerator.create({
      serialNumber: serial,
      issuer: this.issuer,
      subject: new x509.Name([{ O: [tenant] }, { CN: [runner_id] }]),
      notBefore: new Date(not_before * 1000),
      notAfter: new Date(not_after * 1000),
      publicKey: csr.publicKey,
      signingKey: this.key,
      signingAlgorithm: SIGNING,
      extensions: [
        ...FIXED,
        await x509.SubjectKeyIdentifierExtension.create(csr.publicKey),
        this.keyIdentifier,
        new x509.SubjectAlternativeNameExtension([{ type: "url", value: spiffeId }]),
      ],
    });
    return {
      runner_id,
      tenant,
      spiffe_id: spiffeId,
      certificate: `${certificate.toString("pem")}\n${this.chain}`,
      trust_bundle: this.roots,
      not_before: rfc3339(not_before),
      not_after: rfc3339(not_after),
      renew_after: rfc3339(now + Math.floor((not_after - now) / 2)),
      reattest_before: rfc3339(reattest_before),
      server_time: rfc3339(now),
    };
  }
}
