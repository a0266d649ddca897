/** What telemetry keeps of an answer beside figures: made for each attempt of a recorded exchange. */
import { AnswerCollector, type AnswerIdentity, type Chunk } from '#contract'
import { MAX_ATTRIBUTE } from '../../observe/telemetry/content.ts'
import type { StepTap } from '../exchange.ts'

/** What the provider calls its answer, and where the policy asks for content, the words that its client gets. */
export class AnswerRecord implements AnswerIdentity {
  id: unknown = null
  model: unknown = null
  /** Null: nobody asks for them, or they are no words that can be told. */
  words: AnswerCollector | null

  constructor(tracesContent: boolean) {
    this.words = tracesContent ? new AnswerCollector({ maxCharacters: MAX_ATTRIBUTE, onOverflow: 'truncate' }) : null
  }

  /** With its own place: outside of all steps, where an answer is as the client will see it. */
  around(taps: readonly StepTap[]): readonly StepTap[] {
    return this.words === null ? taps : [{ step: -1, kind: 'watch', fn: chunk => this.#add(chunk) }, ...taps]
  }

  /** What a hostile answer makes it throw ends the record, not the answer. */
  #add(chunk: Chunk): void {
    try {
      this.words?.add(chunk)
    } catch {
      this.words = null
    }
  }
}
