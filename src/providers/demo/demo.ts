/**
 * The embedded demo: a model provider without network, for a first try and for tests. It answers POST /chat/completions
 * with the bytes that api.openai.com would send, whole or as a stream.
 *
 * What it says comes from the conversation and is the same each time:
 * - an ordinary message is repeated back in a few sentences, with the number of the turn;
 * - "count to 200" counts (up to 1,000 numbers), for a long stream; "say: this text" says just that;
 * - tools are called when they fit (the rule is in tools.ts), with arguments made from their schema and the message;
 *   a tool's result is answered in text;
 * - `response_format` gives JSON that is valid for the schema; one it cannot follow is refused with 400 (sample.ts);
 * - a model with "reasoning" (or the older "thinking") in its name reasons first
 *   (`reasoning_content`), as long as `reasoning_effort` says;
 * - `max_tokens`, `max_completion_tokens`, `stop`, `n`, `seed`, `logprobs` and `stream_options` do what they should.
 *
 * A token is at most four bytes of a word (tokens.ts), one chunk each, `paceMs` apart. A whole answer takes as long as its
 * stream would, at most two seconds.
 */
import { hash } from 'node:crypto'
import { type Clock, slices, uncut, type WorkOwner } from '#contract'
import type { AnswerHandler } from '../handler.ts'
import { compose } from './answer.ts'
import { letters, seeded } from './chance.ts'
import { type Answer, play, type SetTimer, systemTimer } from './play.ts'
import { DemoRefusal } from './refusal.ts'
import { readRequest } from './request.ts'
import { streamEvents, wholeAnswer } from './wire.ts'

const WHOLE_ANSWER_MAX_MS = 2000
/** Reading a longer request takes milliseconds: it waits for its turn. */
const LONG_BODY_BYTES = 4 * 1024

export interface DemoOptions {
  /** Between two tokens, in milliseconds; 0 is as fast as it is read. */
  readonly paceMs: number
  readonly clock: Clock
  readonly setTimer?: SetTimer
}

export interface DemoCall {
  /** Relative to the provider's base URL: `/chat/completions`. */
  readonly path: string
  readonly body: Buffer
  /** Whose work the reading of the body is. */
  readonly owner?: WorkOwner | undefined
}

export interface Demo {
  /**
   * Answers a request. `onConnect` is called before this returns, everything else after. Never throws: a request that
   * makes no sense is answered with an error status.
   */
  dispatch(call: DemoCall, handler: AnswerHandler): void
}

/** Makes a demo provider. It keeps nothing between requests but a counter for ids. */
export function createDemo({ paceMs, clock, setTimer = systemTimer }: DemoOptions): Demo {
  if (!(paceMs >= 0 && paceMs <= 60_000)) throw new TypeError(`createDemo: paceMs is ${paceMs}, not from 0 to 60000`)
  let answers = 0
  return {
    dispatch(call, handler) {
      // Composed behind onConnect, so that a request given up at once costs nothing.
      const make = () => answer(call, `${clock.now()}/${++answers}`)
      const { body, owner } = call
      const makeInTurn = async () => (await slices.run(uncut(make), undefined, { owner }))!
      play(body.length > LONG_BODY_BYTES ? makeInTurn : make, handler, setTimer)
    },
  }

  function answer({ path, body }: DemoCall, salt: string): Answer {
    try {
      return path.split('?', 1)[0] === '/chat/completions' ? completion(body, salt) : refused(unknownPath(path))
    } catch (error) {
      if (error instanceof DemoRefusal) return refused(error)
      throw error
    }
  }

  function completion(body: Buffer, salt: string): Answer {
    const request = readRequest(body)
    const choices = compose(request)
    const random = seeded(Number.parseInt(hash('sha256', `${request.seed}/${salt}`, 'hex').slice(0, 8), 16))
    const head = {
      id: `chatcmpl-${letters(29, random)}`,
      created: Math.floor(clock.now() / 1000),
      model: request.model,
    }
    if (!request.stream) {
      const longest = Math.max(...choices.map(choice => choice.pieces.length))
      const bytes = wholeAnswer(head, request, choices)
      return json(200, bytes, Math.min(longest * paceMs, WHOLE_ANSWER_MAX_MS))
    }
    return {
      status: 200,
      headers: { 'content-type': 'text/event-stream; charset=utf-8', 'cache-control': 'no-cache' },
      waitMs: 0,
      pieces: streamEvents(head, request, choices, paceMs),
    }
  }
}

function unknownPath(path: string): DemoRefusal {
  return new DemoRefusal(404, 'unknown_url', null, `Unknown request URL: POST ${path}.`)
}

function refused(refusal: DemoRefusal): Answer {
  return json(refusal.status, refusal.body(), 0)
}

function json(status: number, bytes: Buffer, waitMs: number): Answer {
  const headers = { 'content-type': 'application/json', 'content-length': String(bytes.length) }
  return { status, headers, waitMs, pieces: [{ bytes, waitMs: 0 }].values() }
}
