/**
 * Converts references and secrets. LiteLLM writes `os.environ/NAME`, Tollgate `${NAME}`. A secret in the file is never copied:
 * it becomes a variable that the operator must set.
 */
import type { TextValue } from './read.ts'
import { literal, REFERENCE } from './references.ts'
import type { Remarks } from './remarks.ts'

/** Words that people write as the key of a server without keys. */
const NO_KEY =
  /^(none|null|empty|na|n\/a|-|x|anything|unused|placeholder|ollama|vllm|lm[-_]studio|(sk-)?(dummy|fake|no|not)([-_]?(api)?[-_]?(key|needed|used|required|key[-_]required))?)$/i
/** Texts beside a reference that are not secret. */
const BESIDE_SECRET = /^(Bearer |Basic |Token )?$/i

/** The example for a reference within an address. */
const PART = 'sample'

/** The variables of the new configuration, each with a value that passes the checks. */
export class Variables {
  readonly samples = new Map<string, string>()
  /** Names that rows refer to, or that LiteLLM reads by default. */
  readonly referred = new Set<string>()
  readonly #inline = new Map<string, string>()
  readonly #remarks: Remarks
  readonly #reserved: ReadonlySet<string>

  /** @param reserved names that must not be used for secrets of the file */
  constructor(remarks: Remarks, reserved: ReadonlySet<string>) {
    this.#remarks = remarks
    this.#reserved = reserved
  }

  /** Whether a secret of the file got the name of a variable that rows refer to. */
  areMixed(): boolean {
    return [...this.#inline.values()].some(name => this.referred.has(name))
  }

  /** The variables that the new configuration uses: unconverted targets need none. */
  usedIn(written: string): ReadonlyMap<string, string> {
    const names = new Set([...written.matchAll(/(?<!\$)\$\{(\w+)\}/g)].map(match => match[1]!))
    return new Map([...this.samples].filter(([name]) => names.has(name)))
  }

  /** Adds a variable and returns `${NAME}`. */
  reference(name: string, sample?: string): string {
    this.referred.add(name)
    return this.#use(name, sample)
  }

  #use(name: string, sample = 'sample-value'): string {
    if (!this.samples.has(name)) this.samples.set(name, sample)
    return `\${${name}}`
  }

  /** A setting that is not secret: a reference, or the unchanged text. */
  plain(value: TextValue, sample?: string): string {
    return this.written(this.#withoutSecrets(value), sample)
  }

  /** A text for gateway.yaml with its references converted. @param sample for a reference that is the whole text */
  written(text: string, sample?: string): string {
    let written = ''
    let end = 0
    for (const match of text.matchAll(REFERENCE)) {
      const isWhole = match[0].length === text.length
      written += literal(text.slice(end, match.index)) + this.reference(match[1] ?? match[2]!, isWhole ? sample : PART)
      end = match.index + match[0].length
    }
    return written + literal(text.slice(end))
  }

  /** A secret as a reference; null if the text means "no key". `name` is the variable for a secret in the file. */
  secret(value: TextValue, name: string): string | null {
    const beside = value.text.replaceAll(REFERENCE, '')
    if (beside !== value.text && BESIDE_SECRET.test(beside)) return this.written(value.text)
    if (NO_KEY.test(value.text)) {
      this.#remarks.add('changed', value, 'the value means that no key is needed, so none is sent')
      return null
    }
    const own = this.nameFor(value.text, name)
    this.#remarks.add('yours', value, 'a secret is in the file; it is not copied', 'set its variable', own)
    return `\${${own}}`
  }

  /** A unique variable name for a secret in the file. @param sample a value that passes the checks */
  nameFor(secret: string, name: string, sample?: string): string {
    const own = this.#nameOf(secret, name)
    this.#use(own, sample)
    return own
  }

  /** Removes credentials and the query from an address. */
  #withoutSecrets(value: TextValue): string {
    // URL parsers reject a reference as a host, so the parts are removed from the text.
    const isAddress = /^[a-z][a-z+.-]*:\/\//i.test(value.text)
    const place = isAddress ? value.text.replace(/(?<=:\/\/)[^/?#]*@/, '').replace(/[?#].*$/s, '') : value.text
    const message = 'the address contains credentials or a query, which are not copied'
    if (place !== value.text) this.#remarks.add('changed', value, message, 'give the provider its api_key')
    return place
  }

  /** Each secret has its own name. */
  #nameOf(secret: string, name: string): string {
    const known = this.#inline.get(secret)
    if (known !== undefined) return known
    let own = name
    for (let count = 2; this.samples.has(own) || this.#reserved.has(own); count++) own = `${name}_${count}`
    this.#inline.set(secret, own)
    return own
  }
}
