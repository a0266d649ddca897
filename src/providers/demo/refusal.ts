/** What the demo says no with: the statuses and the envelope of api.openai.com. */

/** A request that the demo does not answer. */
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

  /** The JSON body: all four keys, as clients expect them. */
  body(): Buffer {
    const type = this.status >= 500 ? 'server_error' : 'invalid_request_error'
    return Buffer.from(JSON.stringify({ error: { message: this.message, type, param: this.param, code: this.code } }))
  }
}

/** A parameter of the wrong type. */
export const wrongType = (param: string, expected: string): DemoRefusal =>
  new DemoRefusal(400, 'invalid_type', param, `Invalid type for '${param}': expected ${expected}.`)

/** A parameter whose value cannot be used. */
export const wrongValue = (param: string, why: string): DemoRefusal =>
  new DemoRefusal(400, 'invalid_value', param, `Invalid value for '${param}': ${why}.`)

/** Something of the format that the demo does not do. */
export const unsupported = (param: string, why: string): DemoRefusal =>
  new DemoRefusal(400, 'unsupported_parameter', param, `Unsupported parameter '${param}': ${why}.`)
