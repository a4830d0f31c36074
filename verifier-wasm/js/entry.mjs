// The entry of the bundle: what workerd calls, over the raw exports of the wasm module (src/border.rs).
//
// One wasm instance serves all requests and objects of an isolate. A trap in it (a panic, a stack overflow) leaves its memory in no known
// state, so the instance is given up: whoever waited for it is answered by the next one, objects roll back, and nobody hangs.
//
// Over bindings only this can be called: `fetch`, and `decide` of the objects. Whatever else a class needs is private to it or to this file.
import { DurableObject } from "cloudflare:workers";
import * as wasm from "./glue.js";
import module from "./index_bg.wasm";
import { within } from "./platform.mjs";

wasm.initSync({ module });

/** Whether the present instance trapped and must not be called again. */
let trapped = false;
/** How many instances were given up. */
let givenUp = 0;
/** The requests of the present instance that have no answer yet: functions that end them, told why and whether an object is to blame. */
const unanswered = new Set();

/** Puts a new instance in the place of one that trapped. */
function renew() {
  if (trapped) {
    wasm.__wbg_reset_state();
    trapped = false;
  }
}

/** Gives the instance up. Its futures are lost, so every request that it had begun is ended. */
function giveUp(error, inObject) {
  trapped = true;
  givenUp += 1;
  const cause = String(error?.stack ?? error);
  report("trap", cause);
  for (const end of unanswered) {
    end({ inObject, cause });
  }
  unanswered.clear();
  renew();
}

function report(event, cause) {
  console.error(JSON.stringify({ event, cause }));
}

const settled = Promise.resolve();

// A later step of a request runs in a microtask of its own, where a trap in it surfaces and nowhere else. A step of an instance that was
// given up meanwhile is lost with it. Not workerd's own queueMicrotask, which costs twenty times what this does (docs/performance.md).
globalThis.queueMicrotask = (step) => {
  const instance = givenUp;
  settled.then(() => {
    if (instance !== givenUp) {
      return;
    }
    try {
      step();
    } catch (error) {
      giveUp(error, false);
    }
  });
};

export default {
  async fetch(request, env, context) {
    renew();
    const { promise, resolve } = Promise.withResolvers();
    unanswered.add(resolve);
    try {
      wasm.handle(request, env, context).then(resolve);
    } catch (error) {
      giveUp(error, false);
    }
    // The instance may be gone by now: what other requests have in store for this one is data, never a response of theirs.
    const outcome = await promise;
    unanswered.delete(resolve);
    const [status, headers, body] = Array.isArray(outcome) ? outcome : wasm.refuse(outcome.inObject, outcome.cause);
    return new Response(body, { status, headers: JSON.parse(headers) });
  },
};

/**
 * Runs one synchronous step of an object in one transaction. A text that is thrown is a fault that the step found, anything else a trap;
 * either is rolled back, and the caller learns of it at once.
 */
function transact(storage, step, ...rest) {
  renew();
  return storage.transactionSync(() => {
    try {
      return step(storage.sql, ...rest);
    } catch (error) {
      if (typeof error === "string") {
        report("object_fault", error);
      } else {
        giveUp(error, true);
      }
      throw new Error("the object failed; its log says why");
    }
  });
}

/** A call of another version of the worker may be something else: a fault, and no trap. */
function octets(call) {
  if (!(call instanceof Uint8Array)) {
    throw "a call that is no octets";
  }
  return call;
}

/** The policy in force. */
export class Policy extends DurableObject {
  decide(call) {
    return transact(this.ctx.storage, (sql) => wasm.policy_decide(sql, octets(call)));
  }
}

/** What is on the CRL. */
export class Revocation extends DurableObject {
  decide(call) {
    return transact(this.ctx.storage, (sql) => wasm.revocation_decide(sql, octets(call)));
  }
}

/** Time to the next attempt, milliseconds, when the outbox was not taken, so that a ban is on the CRL within 10 s (CHECKS I7). */
const RETRY = 2_000;
/** How long the `Revocation` object may take, milliseconds. */
const LIMIT = 10_000;

/** A tenant. The invariants stand in src/objects/tenant.rs. */
export class Tenant extends DurableObject {
  /** The schema is in place, and what an earlier instance left in the outbox has been looked after. */
  #ready = false;
  /** Whether an alarm is set; `undefined` before the storage was asked. */
  #armed;

  async decide(call) {
    this.#armed ??= (await this.ctx.storage.getAlarm()) !== null;
    const step = (sql) => wasm.tenant_decide(sql, octets(call), this.#ready, this.#armed);
    const [answer, ready, alarm] = transact(this.ctx.storage, step);
    this.#ready = ready;
    // Issued before any await, so that the storage takes it together with the rows.
    await this.#arm(alarm);
    return answer;
  }

  /** Delivers the outbox, then forgets what has ended. */
  async alarm() {
    // An alarm that goes off is no longer set.
    this.#armed = false;
    const { storage } = this.ctx;
    let next;
    try {
      const revocation = this.env.REVOCATION.getByName("v1");
      for (let batch; (batch = transact(storage, wasm.tenant_undelivered)); ) {
        const [last, call] = batch;
        const answer = await within(LIMIT, revocation.decide(call));
        if (answer === undefined) {
          throw new Error("the Revocation object did not answer in time");
        }
        transact(storage, wasm.tenant_delivered, last, answer);
      }
      next = transact(storage, wasm.tenant_forget_ended);
    } catch (error) {
      report("alarm_failed", String(error));
      next = RETRY;
    }
    // A failure here makes the platform repeat the whole alarm.
    await this.#arm(next);
  }

  async #arm(after) {
    if (after !== undefined) {
      this.#armed = true;
      await this.ctx.storage.setAlarm(Date.now() + after);
    }
  }
}
