/**
 * Where a value comes from the environment. LiteLLM writes `os.environ/NAME`, the gateway `${NAME}`; a key that stands in
 * the file itself is never written out again: it becomes a variable that the operator has to set.
 */
import type { TextValue } from './read.ts'
import { literal, REFERENCE } from './references.ts'
import type { Remarks } from './remarks.ts'

/** Words that people write where a server wants no key. */
const NO_KEY =
  /^(none|null|empty|na|n\/a|-|x|anything|unused|placeholder|ollama|vllm|lm[-_]studio|(sk-)?(dummy|fake|no|not)([-_]?(api)?[-_]?(key|needed|used|required|key[-_]required))?)$/i
/** Texts that may be beside the references in a secret's place, and are not secret. */
const BESIDE_SECRET = /^(Bearer |Basic |Token )?$/i

/** For a reference in the middle of an address. */
const PART = 'sample'

/** The variables that the written configuration needs, each with a value that would pass the checks. */
export class Variables {
  readonly samples = new Map<string, string>()
  /** Names that rows refer to, or that LiteLLM reads where a row says nothing. */
  readonly referred = new Set<string>()
  readonly #inline = new Map<string, string>()
  readonly #remarks: Remarks
  readonly #reserved: ReadonlySet<string>

  /** @param reserved names that no secret of the file may get */
  constructor(remarks: Remarks, reserved: ReadonlySet<string>) {
    this.#remarks = remarks
    this.#reserved = reserved
  }

  /** Whether a secret of the file has got the name of a variable that rows refer to. */
  areMixed(): boolean {
    return [...this.#inline.values()].some(name => this.referred.has(name))
  }

  /** Those that a written configuration refers to: a target that was lost needs none. */
  usedIn(written: string): ReadonlyMap<string, string> {
    const names = new Set([...written.matchAll(/(?<!\$)\$\{(\w+)\}/g)].map(match => match[1]!))
    return new Map([...this.samples].filter(([name]) => names.has(name)))
  }

  /** `${NAME}`, and the variable is known from now on. */
  reference(name: string, sample?: string): string {
    this.referred.add(name)
    return this.#use(name, sample)
  }

  #use(name: string, sample = 'sample-value'): string {
    if (!this.samples.has(name)) this.samples.set(name, sample)
    return `\${${name}}`
  }

  /** A setting that is no secret: a reference, or the text as it is. */
  plain(value: TextValue, sample?: string): string {
    return this.written(this.#withoutSecrets(value), sample)
  }

  /** A text whose parts may be references, as gateway.yaml has it. @param sample of a reference that is the whole text */
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

  /** A secret by reference; null where the word says that there is none. `name` is what an inline one is called from now on. */
  secret(value: TextValue, name: string): string | null {
    const beside = value.text.replaceAll(REFERENCE, '')
    if (beside !== value.text && BESIDE_SECRET.test(beside)) return this.written(value.text)
    if (NO_KEY.test(value.text)) {
      this.#remarks.add('changed', value, 'it says that no key is needed, so none is sent')
      return null
    }
    const own = this.nameFor(value.text, name)
    this.#remarks.add('yours', value, 'a secret is in the file; it is not copied', 'set its variable', own)
    return `\${${own}}`
  }

  /** The name of a variable for a secret that stands in the file; nobody else has it. @param sample what passes the checks */
  nameFor(secret: string, name: string, sample?: string): string {
    const own = this.#nameOf(secret, name)
    this.#use(own, sample)
    return own
  }

  /** An address may hold a name and a password, or a key in its query. */
  #withoutSecrets(value: TextValue): string {
    // A reference is not a name of a host to a URL, so the parts are cut from the text.
    const isAddress = /^[a-z][a-z+.-]*:\/\//i.test(value.text)
    const place = isAddress ? value.text.replace(/(?<=:\/\/)[^/?#]*@/, '').replace(/[?#].*$/s, '') : value.text
    const why = 'the address holds credentials or a query, which are not copied'
    if (place !== value.text) this.#remarks.add('changed', value, why, 'give the provider its api_key')
    return place
  }

  /** The same secret has one name, another one another. */
  #nameOf(secret: string, name: string): string {
    const known = this.#inline.get(secret)
    if (known !== undefined) return known
    let own = name
    for (let count = 2; this.samples.has(own) || this.#reserved.has(own); count++) own = `${name}_${count}`
    this.#inline.set(secret, own)
    return own
  }
}
