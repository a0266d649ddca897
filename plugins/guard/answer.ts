/**
 * The answer as the client may see it. Each text of each choice (content, thinking, a refusal, the arguments of a call) goes
 * through the rules piece by piece; what waits leaves when the text is over, with the finish, or when the choice goes on with
 * another text.
 */
import type { Chunk, Delta } from '#contract'
import type { Findings, Rule } from './rules.ts'
import type { Sieves } from './sieve.ts'
import { isArguments, isSilent, mapTexts, objectWith, type Step, wordsOf } from './texts.ts'

type Choice = Chunk['choices'][number]

/** A text under way. */
interface Running {
  readonly path: readonly Step[]
  readonly sieves: Sieves
}

export class AnswerGuard {
  readonly #rules: readonly Rule[]
  readonly #findings: Findings
  readonly #contentIsJson: boolean
  /** By the choice's index, by the text's place. */
  readonly #running = new Map<number, Map<string, Running>>()

  /** @param contentIsJson whether the client has asked for JSON */
  constructor(rules: readonly Rule[], findings: Findings, contentIsJson = false) {
    this.#rules = rules
    this.#findings = findings
    this.#contentIsJson = contentIsJson
  }

  /** What of a chunk may leave now. Throws the refusal of a rule that refuses. */
  chunk(chunk: Chunk): readonly Chunk[] {
    const { choices, usage: _, ...head } = chunk
    const before: Choice[] = []
    const now: Choice[] = []
    for (const choice of choices) {
      const guarded = this.#choice(choice, before)
      if (guarded.finish_reason || !isSilent(guarded.delta)) now.push(guarded)
    }
    // Behind the last choice comes the usage: a text that is not over by now is over all the same.
    if (choices.length === 0)
      for (const index of this.#running.keys()) before.push(...this.#restOfOthers(index, new Set(), true))
    const rest = before.map(choice => ({ ...head, choices: [choice] }))
    return now.length > 0 || choices.length === 0 || chunk.usage ? [...rest, { ...chunk, choices: now }] : rest
  }

  #choice(choice: Choice, before: Choice[]): Choice {
    const texts = this.#textsOf(choice.index)
    const seen = new Set<string>()
    const isOver = Boolean(choice.finish_reason)
    const delta = mapTexts(choice.delta, (text, path) => {
      const name = wordsOf(path)
      seen.add(name)
      let running = texts.get(name)
      if (!running) texts.set(name, (running = { path, sieves: this.#sieves(path) }))
      const passed = running.sieves.push(text)
      return isOver ? passed + running.sieves.end() : passed
    }) as Delta
    if (seen.size > 0 || isOver) before.push(...this.#restOfOthers(choice.index, seen, isOver))
    // What else a choice says repeats the text, token by token.
    return choice['logprobs'] ? { ...choice, delta, logprobs: null } : { ...choice, delta }
  }

  #sieves(path: readonly Step[]): Sieves {
    const isJson = isArguments(path) || (this.#contentIsJson && path[0] === 'content')
    return this.#findings.sieves(this.#rules, null, isJson)
  }

  /** The rest of the texts that do not go on here: for now, or because the choice is over. */
  #restOfOthers(index: number, seen: ReadonlySet<string>, isOver: boolean): Choice[] {
    const rests: Choice[] = []
    for (const [name, { path, sieves }] of this.#textsOf(index)) {
      if (seen.has(name)) continue
      const rest = isOver ? sieves.end() : sieves.pause()
      if (rest !== '') rests.push({ index, delta: objectWith(path, rest), finish_reason: null })
    }
    return rests
  }

  #textsOf(index: number): Map<string, Running> {
    let texts = this.#running.get(index)
    if (!texts) this.#running.set(index, (texts = new Map()))
    return texts
  }
}
