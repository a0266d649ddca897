/** Captures an answer for telemetry, beyond figures: created for each attempt of a sampled exchange. */
import { AnswerCollector, type AnswerIdentity, type Chunk } from '#contract'
import { MAX_ATTRIBUTE } from '../../observe/telemetry/content.ts'
import type { StepTap } from '../exchange.ts'

/** The provider's id and model of an answer and, if the policy traces content, the text that the client gets. */
export class AnswerCapture implements AnswerIdentity {
  id: unknown = null
  model: unknown = null
  /** Null: content is not traced, or cannot be represented. */
  words: AnswerCollector | null

  constructor(tracesContent: boolean) {
    this.words = tracesContent ? new AnswerCollector({ maxCharacters: MAX_ATTRIBUTE, onOverflow: 'truncate' }) : null
  }

  /** The taps with the capture outermost, so that it sees the answer as the client does. */
  around(taps: readonly StepTap[]): readonly StepTap[] {
    return this.words === null ? taps : [{ step: -1, kind: 'watch', fn: chunk => this.#add(chunk) }, ...taps]
  }

  /** A hostile answer that makes it throw ends the capture, not the answer. */
  #add(chunk: Chunk): void {
    try {
      this.words?.add(chunk)
    } catch {
      this.words = null
    }
  }
}
