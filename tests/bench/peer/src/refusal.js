/** An answer other than 200. */
export class Refusal extends Error {
  constructor(status, code) {
    super(code);
    this.status = status;
    this.code = code;
  }

  /** What the client is told of anything thrown. */
  static of(error) {
    if (error instanceof Refusal) {
      return error;
    }
    console.error(error);
    return new Refusal(500, "internal");
  }
}
