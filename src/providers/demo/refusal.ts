/** The demo's error answers, with the statuses and the envelope of api.openai.com. */

/** An error status as the demo's answer. */
export class DemoRefusal extends Error {
  override readonly name = 'DemoRefusal'
  readonly status: number
  readonly code: string
  readonly param: string | null

  constructor(status: number, code: string, param: string | null, message: string) {
    super(message)
    this.status = status
    this.code = code
    this.param = param
  }

  /** The JSON body. It has all four keys, because clients expect them. */
  body(): Buffer {
    const type = this.status >= 500 ? 'server_error' : 'invalid_request_error'
    return Buffer.from(JSON.stringify({ error: { message: this.message, type, param: this.param, code: this.code } }))
  }
}

/** The error for a parameter of the wrong type. */
export const wrongType = (param: string, expected: string): DemoRefusal =>
  new DemoRefusal(400, 'invalid_type', param, `Invalid type for '${param}': expected ${expected}.`)

/** The error for a parameter whose value is not valid. */
export const wrongValue = (param: string, why: string): DemoRefusal =>
  new DemoRefusal(400, 'invalid_value', param, `Invalid value for '${param}': ${why}.`)

/** The error for a feature that the demo does not have. */
export const unsupported = (param: string, why: string): DemoRefusal =>
  new DemoRefusal(400, 'unsupported_parameter', param, `Unsupported parameter '${param}': ${why}.`)
