import { decodeJwt, errors, jwtVerify } from "jose";
import { sha256Hex } from "./access.js";
import { Refusal } from "./refusal.js";

const LEEWAY = 30;
/** How long after its end a token is remembered. */
const REMEMBERED = 90;
const LABEL = /^(?!-)[a-z0-9-]{1,63}(?<!-)$/;
const SUBDOMAIN = /^(?=.{1,253}$)(?!-)[a-z0-9-]+(?<!-)(\.(?!-)[a-z0-9-]+(?<!-))*$/;
const UID = /^[A-Za-z0-9-]{1,64}$/;
const encoder = new TextEncoder();

const refuse = () => new Refusal(401, "attestation_invalid");

/** Who a projected ServiceAccount token proves, and which use of it this is. */
export async function verifyToken(token, policy, now, trace) {
  const { issuer, payload, header } = await verifySignature(token, policy, now);
  const { iss, sub, aud, exp, iat, nbf, jti } = payload;
  const timely = Number.isInteger(exp) && Number.isInteger(iat) && exp > iat && exp - iat <= issuer.longest;
  if (!timely || Math.max(iat, nbf ?? iat) > now + LEEWAY || typeof jti !== "string" || jti === "") {
    throw refuse();
  }
  const { namespace, serviceAccount, pod } = serviceAccountOf(sub, payload);
  const principal = {
    type: "kubernetes",
    mode: issuer.mode,
    issuer: iss,
    namespace,
    service_account: serviceAccount,
    pod_name: pod.name,
    pod_uid: pod.uid,
  };
  trace?.push(
    ["K1", "token form", "compact JWS of at most 16 KiB", `${token.length} octets`],
    ["K2", "algorithm and header", "RS256 or ES256", header.alg],
    ["K3", "issuer", "an issuer of the policy", iss],
    ["K4", "key and signature", "signed by a key of the issuer", header.kid],
    ["K5", "audience and times", `for ${policy.audience}, valid at ${now}`, `for ${aud}, until ${exp}`],
    ["K6", "service account", "a ServiceAccount's token, bound to a pod", `${sub}, pod ${pod.uid}`],
  );
  return {
    principal,
    identity: `${iss}#${sub}`,
    digest: await sha256Hex(encoder.encode(`${issuer.mode}\0${iss}\0jti\0${jti}`)),
    until: exp + REMEMBERED,
  };
}

async function verifySignature(token, policy, now) {
  try {
    const { iss } = decodeJwt(token);
    const issuer = policy.issuer(iss);
    if (issuer === undefined) {
      throw refuse();
    }
    const { payload, protectedHeader } = await jwtVerify(token, issuer.keys, {
      algorithms: ["RS256", "ES256"],
      audience: policy.audience,
      issuer: iss,
      clockTolerance: LEEWAY,
      currentDate: new Date(now * 1000),
      requiredClaims: ["exp", "iat", "sub", "jti"],
    });
    return { issuer, payload, header: protectedHeader };
  } catch (error) {
    throw error instanceof errors.JOSEError ? refuse() : error;
  }
}

function serviceAccountOf(sub, payload) {
  const [system, kind, namespace, serviceAccount, ...rest] = sub.split(":");
  const kubernetes = payload["kubernetes.io"];
  const pod = kubernetes?.pod;
  const fits =
    system === "system" &&
    kind === "serviceaccount" &&
    rest.length === 0 &&
    LABEL.test(namespace) &&
    SUBDOMAIN.test(serviceAccount) &&
    !Object.keys(payload).some((name) => name.startsWith("kubernetes.io/")) &&
    kubernetes !== undefined &&
    !("secret" in kubernetes) &&
    kubernetes.namespace === namespace &&
    kubernetes.serviceaccount?.name === serviceAccount &&
    SUBDOMAIN.test(pod?.name) &&
    UID.test(pod?.uid);
  if (!fits) {
    throw refuse();
  }
  return { namespace, serviceAccount, pod };
}
