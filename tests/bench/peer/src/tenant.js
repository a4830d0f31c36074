import { DurableObject } from "cloudflare:workers";
// The very tables and indexes of ours.
import first from "../../../../verifier-wasm/src/objects/schema/tenant_1.sql";
import second from "../../../../verifier-wasm/src/objects/schema/tenant_2.sql";

const PURGE_EVERY = 3_600_000;
const BACKDATE = 60;
const KEY_KEPT = 86_400;
const SERIALS_PER_RUNNER = 1_000;

// The statements of ours: three that read and four that write for a new runner.
const RUNNER_COLUMNS =
  "r.id, r.principal, r.attested_at, r.last_seen, r.current_serial, r.current_spki, r.next_serial, r.next_spki, " +
  "r.not_after, r.live_until, r.ends_at, r.suspect, r.evicted";
const RUNNER_BY_KEY =
  `SELECT ${RUNNER_COLUMNS} FROM runners r WHERE r.id = ?2 AND r.mode = ?3 UNION ALL SELECT ${RUNNER_COLUMNS} ` +
  "FROM keys k JOIN runners r ON r.id = k.runner_id WHERE k.spki_sha256 = ?1 AND k.runner_id <> ?2 AND r.mode = ?3";
const EVIDENCE = "SELECT digest, spki_sha256, runner_id, serial, kept_until, void FROM evidence WHERE digest = ?";
const STANDING =
  "SELECT EXISTS (SELECT 1 FROM bans WHERE scope = 'runner' AND mode = ?1 AND subject = ?2) " +
  "OR EXISTS (SELECT 1 FROM bans WHERE scope = 'instance' AND mode = ?1 AND subject = ?3) AS banned, " +
  "EXISTS (SELECT 1 FROM runners WHERE instance = ?3 AND live_until > ?4 AND mode = ?1 AND id <> ?2 AND suspect = 0 " +
  "AND evicted = 0) AS other_active";
const COUNT_SERIALS = "SELECT COUNT(*) AS held FROM serials WHERE runner_id = ? AND not_after > ?";
const ADD_SERIAL =
  "INSERT INTO serials (runner_id, serial, spki_sha256, parent, allotted_at, not_before, not_after, reattest_before, revoked) " +
  "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)";
const PUT_RUNNER =
  "INSERT INTO runners (id, mode, instance, principal, attested_at, last_seen, current_serial, current_spki, next_serial, " +
  "next_spki, not_after, live_until, ends_at, suspect, evicted) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) " +
  "ON CONFLICT (id) DO UPDATE SET instance = excluded.instance, principal = excluded.principal, " +
  "attested_at = excluded.attested_at, last_seen = excluded.last_seen, next_serial = excluded.next_serial, " +
  "next_spki = excluded.next_spki, not_after = excluded.not_after, live_until = excluded.live_until, ends_at = excluded.ends_at, " +
  "suspect = excluded.suspect, evicted = excluded.evicted";
const PUT_KEY =
  "INSERT INTO keys (spki_sha256, runner_id, kept_until) VALUES (?, ?, ?) " +
  "ON CONFLICT (spki_sha256, runner_id) DO UPDATE SET kept_until = MAX(kept_until, excluded.kept_until)";
const PUT_EVIDENCE =
  "INSERT INTO evidence (digest, spki_sha256, runner_id, serial, kept_until, void) VALUES (?, ?, ?, ?, ?, ?) " +
  "ON CONFLICT (digest) DO UPDATE SET runner_id = excluded.runner_id, serial = excluded.serial, kept_until = excluded.kept_until";
const APPEND_AUDIT = "INSERT INTO audit (time, event) VALUES (?, ?)";

/** A tenant's record: one object, one transaction per decision. */
export class Tenant extends DurableObject {
  #sql;

  constructor(ctx, env) {
    super(ctx, env);
    this.#sql = ctx.storage.sql;
    ctx.blockConcurrencyWhile(async () => {
      if (this.#sql.exec("SELECT 1 FROM sqlite_schema WHERE name = 'runners'").toArray().length === 0) {
        ctx.storage.transactionSync(() => this.#sql.exec(first + second));
      }
      if ((await ctx.storage.getAlarm()) === null) {
        await ctx.storage.setAlarm(Date.now() + PURGE_EVERY);
      }
    });
  }

  alarm() {
    const now = Math.floor(Date.now() / 1000);
    this.#sql.exec("DELETE FROM serials WHERE not_after < ?", now);
    this.#sql.exec("DELETE FROM evidence WHERE kept_until < ?", now);
    this.#sql.exec("DELETE FROM keys WHERE kept_until < ? AND runner_id NOT IN (SELECT id FROM runners)", now);
    return this.ctx.storage.setAlarm(Date.now() + PURGE_EVERY);
  }

  /** What an enrolment would answer; writes nothing. */
  verify(command) {
    return this.ctx.storage.transactionSync(() => {
      const now = Math.floor(Date.now() / 1000);
      return { refusal: this.#assess(command, now).refusal };
    });
  }

  /** Settles the evidence, allots a serial and records it. */
  enroll(command) {
    return this.ctx.storage.transactionSync(() => {
      const now = Math.floor(Date.now() / 1000);
      const { refusal, runner, secondKey } = this.#assess(command, now);
      if (refusal) {
        this.#audit(command, now, { outcome: "deny", code: refusal.code });
        return { refusal };
      }
      const allotment = this.#allot(command, runner, now);
      if (secondKey) {
        this.#audit(command, now, { type: "second_key_for_instance", runner_id: allotment.runner_id });
      }
      const { runner_id, serial } = allotment;
      this.#sql.exec(PUT_EVIDENCE, command.digest, command.spki_sha256, runner_id, serial, command.until, 0);
      this.#audit(command, now, { runner_id: allotment.runner_id });
      return { allotment };
    });
  }

  #one(statement, ...bindings) {
    const { done, value } = this.#sql.exec(statement, ...bindings).next();
    return done ? undefined : value;
  }

  #runnerByKey({ id, principal, identity, spki_sha256 }) {
    for (const row of this.#sql.exec(RUNNER_BY_KEY, spki_sha256, id, principal.mode)) {
      const { issuer, namespace, service_account } = JSON.parse(row.principal);
      if (`${issuer}#system:serviceaccount:${namespace}:${service_account}` === identity) {
        return row;
      }
    }
    return undefined;
  }

  /** Replay, ban, state: reads only. */
  #assess(command, now) {
    const { principal, spki_sha256, digest, terms } = command;
    const runner = this.#runnerByKey(command);
    const used = this.#one(EVIDENCE, digest);
    const reused = { refusal: { status: 401, code: "attestation_invalid" } };
    if (used && (used.spki_sha256 !== spki_sha256 || used.void)) {
      return reused;
    }
    const standing = this.#one(STANDING, principal.mode, runner?.id ?? command.id, principal.pod_uid, now);
    if (standing.banned) {
      return { refusal: { status: 403, code: "runner_banned" } };
    }
    if (used && (!runner || runner.evicted || runner.suspect || now >= runner.attested_at + terms.reattest_after)) {
      return reused;
    }
    const secondKey = standing.other_active && !(runner?.live_until > now);
    if (secondKey && terms.one_key_per_instance) {
      return { refusal: { status: 403, code: "identity_in_use" } };
    }
    return { runner, secondKey };
  }

  #allot(command, runner, now) {
    const { tenant, principal, spki_sha256, terms } = command;
    const id = runner?.id ?? command.id;
    // A new runner holds none.
    if (runner && this.#one(COUNT_SERIALS, id, now).held >= SERIALS_PER_RUNNER) {
      throw new Error("too many certificates");
    }
    const serial = randomSerial();
    const reattest_before = now + terms.reattest_after;
    const not_after = Math.min(now + terms.ttl, terms.issuer_not_after, reattest_before);
    const not_before = now - BACKDATE;
    this.#sql.exec(ADD_SERIAL, id, serial, spki_sha256, null, now, not_before, not_after, reattest_before, 0);
    const current = runner ? [runner.current_serial, runner.current_spki] : [serial, spki_sha256];
    const next = runner ? [serial, spki_sha256] : [null, null];
    this.#sql.exec(
      PUT_RUNNER, id, principal.mode, principal.pod_uid, JSON.stringify(principal), now, now, ...current, ...next,
      not_after, Math.max(runner?.live_until ?? 0, not_after), Math.max(runner?.ends_at ?? 0, not_after), 0, 0,
    );
    // The id of a new runner is made from its key.
    if (runner) {
      this.#sql.exec(PUT_KEY, spki_sha256, id, not_after + KEY_KEPT);
    }
    return { tenant, runner_id: id, serial, not_before, not_after, reattest_before };
  }

  #audit({ principal, identity, request_id }, now, about) {
    const event = {
      time: new Date(now * 1000).toISOString(),
      type: "enroll",
      outcome: "allow",
      code: null,
      reason: null,
      cause: null,
      mode: principal.mode,
      identity,
      runner_id: null,
      actor: null,
      request_id,
      ...about,
    };
    this.#sql.exec(APPEND_AUDIT, now, JSON.stringify(event));
  }
}

/** 16 octets, positive, in lower-case hex. */
function randomSerial() {
  const octets = crypto.getRandomValues(new Uint8Array(16));
  octets[0] = (octets[0] & 0x3f) | 0x40;
  let hex = "";
  for (const octet of octets) {
    hex += octet.toString(16).padStart(2, "0");
  }
  return hex;
}
