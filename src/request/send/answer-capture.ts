/** Captures an answer for telemetry, beyond figures: created for each attempt of a sampled exchange. */
import { AnswerCollector, type AnswerIdentity, type Chunk } from '#contract'
import { MAX_ATTRIBUTE } from '../../observe/telemetry/content.ts'
import type { StepTap } from '../exchange.ts'

/** The provider's id and model of an answer and, if the policy traces content, the text that the client gets. */
export class AnswerCapture implements AnswerIdentity {
  id: unknown = null
  model: unknown = null
  /** Collects the content; null: it is not traced, or a chunk made the collector throw. */
  collector: AnswerCollector | null

  constructor(tracesContent: boolean) {
    this.collector = tracesContent
      ? new AnswerCollector({ maxCharacters: MAX_ATTRIBUTE, onOverflow: 'truncate' })
      : null
  }

  /** The taps with the capture outermost, so that it sees the answer as the client does. */
  around(taps: readonly StepTap[]): readonly StepTap[] {
    return this.collector === null ? taps : [{ step: -1, kind: 'watch', fn: chunk => this.#add(chunk) }, ...taps]
  }

  /** If a hostile answer makes the collector throw, only the capture ends. */
  #add(chunk: Chunk): void {
    try {
      this.collector?.add(chunk)
    } catch {
      this.collector = null
    }
  }
}
