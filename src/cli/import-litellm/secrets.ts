/**
 * Where a value comes from the environment. LiteLLM writes `os.environ/NAME`, the gateway `${NAME}`; a key that stands in
 * the file itself is never written out again: it becomes a variable that the operator has to set.
 */
import type { TextValue } from './read.ts'
import type { Remarks } from './remarks.ts'

/** Words that people write where a server wants no key. */
const NO_KEY = /^(none|null|empty|dummy|na|n\/a|-|x|fake|fake-key|no-key|not-needed|anything)$/i
const REFERENCE = /^os\.environ\/([A-Za-z_][A-Za-z0-9_]*)$/

/** The variables that the written configuration needs, each with a value that would pass the checks. */
export class Variables {
  readonly samples = new Map<string, string>()
  readonly #inline = new Map<string, string>()
  readonly #remarks: Remarks

  constructor(remarks: Remarks) {
    this.#remarks = remarks
  }

  /** `${NAME}`, and the variable is known from now on. */
  reference(name: string, sample = 'sample-value'): string {
    if (!this.samples.has(name)) this.samples.set(name, sample)
    return `\${${name}}`
  }

  /** A setting that is no secret: a reference, or the text as it is. */
  plain(value: TextValue, sample?: string): string {
    const name = REFERENCE.exec(value.text)?.[1]
    return name === undefined ? this.#withoutSecrets(value).replaceAll('${', '$${') : this.reference(name, sample)
  }

  /** A secret by reference; null where the word says that there is none. `name` is what an inline one is called from now on. */
  secret(value: TextValue, name: string): string | null {
    const referenced = REFERENCE.exec(value.text)?.[1]
    if (referenced !== undefined) return this.reference(referenced)
    if (NO_KEY.test(value.text)) {
      this.#remarks.add('changed', value, 'it says that no key is needed, so none is sent')
      return null
    }
    const own = this.#nameOf(value.text, name)
    this.#remarks.add(
      'yours',
      value,
      'a secret stands in the file; it is not copied',
      `set ${own} to it in the environment`,
    )
    return this.reference(own)
  }

  /** An address may hold a name and a password, or a key in its query. */
  #withoutSecrets(value: TextValue): string {
    const url = URL.parse(value.text)
    if (url === null || (url.username === '' && url.password === '' && url.search === '' && url.hash === '')) {
      return value.text
    }
    const why = 'the address holds more than a place: credentials or a query, which are not copied'
    this.#remarks.add('lost', value, why, 'give the provider its api_key')
    return `${url.origin}${url.pathname}`
  }

  /** The same secret has one name, another one another. */
  #nameOf(secret: string, name: string): string {
    const known = this.#inline.get(secret)
    if (known !== undefined) return known
    let own = name
    for (let count = 2; this.samples.has(own); count++) own = `${name}_${count}`
    this.#inline.set(secret, own)
    return own
  }
}

/** Whether the value comes from the environment. */
export function isReference({ text }: TextValue): boolean {
  return REFERENCE.test(text)
}
