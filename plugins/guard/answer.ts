/**
 * Applies the rules to an answer. Each text of each choice (content, reasoning, a refusal, the arguments of a call) passes the
 * rules piece by piece. Withheld text is sent when the text ends: with the finish, or when the choice continues with another text.
 */
import type { Chunk, Delta, Sliced } from '#contract'
import { costOf, type Findings, MAX_IN_ONE_GO, type Rule } from './rules.ts'
import type { Sieves } from './sieve.ts'
import { isArguments, isEmpty, lengthOf, mapTexts, objectWith, pathText, type Step } from './texts.ts'

type Choice = Chunk['choices'][number]

/** An unfinished text. */
interface OpenText {
  readonly name: string
  readonly path: readonly Step[]
  readonly sieves: Sieves
}

function push({ sieves }: OpenText, text: string): string {
  return sieves.push(text)
}

export class AnswerGuard {
  readonly #rules: readonly Rule[]
  readonly #findings: Findings
  readonly #contentIsJson: boolean
  /** By index of the choice, then by path of the text. */
  readonly #running = new Map<number, Map<string, OpenText>>()

  /** @param contentIsJson whether the client has asked for JSON */
  constructor(rules: readonly Rule[], findings: Findings, contentIsJson = false) {
    this.#rules = rules
    this.#findings = findings
    this.#contentIsJson = contentIsJson
  }

  /** Whether a chunk is too long to be checked without yielding. */
  isLong({ choices }: Chunk): boolean {
    let cost = 0
    for (const { delta } of choices) cost += costOf(lengthOf(delta), this.#rules)
    return cost > MAX_IN_ONE_GO
  }

  /** Returns the chunks that may be sent now. Throws the refusal of a rule that refuses. */
  chunk(chunk: Chunk): readonly Chunk[] {
    const before: Choice[] = []
    const now = chunk.choices.map(choice => this.#choice(choice, before, push))
    return this.#leaving(chunk, before, now)
  }

  /** `chunk` for a long chunk: yields between parts of its texts. */
  *chunkInSlices(chunk: Chunk): Sliced<readonly Chunk[]> {
    const before: Choice[] = []
    const now: Choice[] = []
    for (const choice of chunk.choices) {
      const texts: { readonly text: string; readonly path: readonly Step[] }[] = []
      mapTexts(choice.delta, (text, path) => {
        texts.push({ text, path })
        return text
      })
      const passed: string[] = []
      for (const { text, path } of texts) {
        passed.push(yield* this.#runningAt(choice.index, path).sieves.pushInSlices(text))
      }
      let at = 0
      now.push(this.#choice(choice, before, () => passed[at++]!))
    }
    return this.#leaving(chunk, before, now)
  }

  /** @param before withheld text, sent ahead of the chunk's own choices (`now`) */
  #leaving(chunk: Chunk, before: Choice[], now: readonly Choice[]): readonly Chunk[] {
    const { choices, usage, ...head } = chunk
    // The usage follows the last choice, so it ends every unfinished text.
    if (choices.length === 0)
      for (const index of this.#running.keys()) before.push(...this.#restOfOthers(index, new Set()))
    const rest = before.map(choice => ({ ...head, choices: [choice] }))
    const filled = now.filter(choice => choice.finish_reason || !isEmpty(choice.delta))
    return filled.length > 0 || choices.length === 0 || usage ? [...rest, { ...chunk, choices: filled }] : rest
  }

  #choice(choice: Choice, before: Choice[], pushed: typeof push): Choice {
    const seen = new Set<string>()
    const isOver = Boolean(choice.finish_reason)
    const delta = mapTexts(choice.delta, (text, path) => {
      const running = this.#runningAt(choice.index, path)
      seen.add(running.name)
      const passed = pushed(running, text)
      return isOver ? passed + running.sieves.end() : passed
    }) as Delta
    if (seen.size > 0 || isOver) before.push(...this.#restOfOthers(choice.index, seen))
    // logprobs repeat the text, token by token.
    return choice['logprobs'] ? { ...choice, delta, logprobs: null } : { ...choice, delta }
  }

  #runningAt(index: number, path: readonly Step[]): OpenText {
    const texts = this.#textsOf(index)
    const name = pathText(path)
    let running = texts.get(name)
    if (!running) {
      const isJson = isArguments(path) || (this.#contentIsJson && path[0] === 'content')
      running = { name, path, sieves: this.#findings.sieves(this.#rules, null, isJson) }
      texts.set(name, running)
    }
    return running
  }

  /** Ends the texts that this chunk does not continue, and returns their withheld parts. */
  #restOfOthers(index: number, seen: ReadonlySet<string>): Choice[] {
    const rests: Choice[] = []
    for (const [name, { path, sieves }] of this.#textsOf(index)) {
      if (seen.has(name)) continue
      const rest = sieves.end()
      if (rest !== '') rests.push({ index, delta: objectWith(path, rest), finish_reason: null })
    }
    return rests
  }

  #textsOf(index: number): Map<string, OpenText> {
    let texts = this.#running.get(index)
    if (!texts) this.#running.set(index, (texts = new Map()))
    return texts
  }
}
