/**
 * The embedded demo: a model provider without a network, for first steps and for tests. It answers POST /chat/completions
 * with the bytes that api.openai.com would send, whole or as a stream.
 *
 * The answer depends on the conversation only:
 * - an ordinary message is repeated in a few sentences, with the number of the turn;
 * - "count to 200" counts (up to 1,000 numbers), for a long stream; "say: this text" returns exactly this text;
 * - tools are called when they match (the rule is in tools.ts), with arguments made from their schema and the message;
 * - a tool's result is answered in text;
 * - `response_format` returns JSON that is valid for the schema; an unsupported schema is refused with 400 (sample.ts);
 * - a model with "reasoning" (or the older "thinking") in its name reasons first (`reasoning_content`), for as long as
 *   `reasoning_effort` asks;
 * - `max_tokens`, `max_completion_tokens`, `stop`, `n`, `seed`, `logprobs` and `stream_options` work as at OpenAI.
 *
 * A token is at most four bytes of a word (tokens.ts). A stream sends one token per chunk, every `paceMs`. A whole answer
 * takes as long as its stream would, at most two seconds.
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
/** Parsing a longer body takes milliseconds, so it waits for a turn. */
const LONG_BODY_BYTES = 4 * 1024

export interface DemoOptions {
  /** Time between two tokens, in milliseconds; 0 sends them as fast as the client reads. */
  readonly paceMs: number
  readonly clock: Clock
  readonly setTimer?: SetTimer
}

export interface DemoCall {
  /** Relative to the provider's base URL: `/chat/completions`. */
  readonly path: string
  readonly body: Buffer
  /** The client that the parsing of the body is counted for. */
  readonly owner?: WorkOwner | undefined
}

export interface Demo {
  /**
   * Answers a request. Calls `onConnect` before it returns and everything else afterwards. Never throws: an invalid request gets an
   * error status.
   */
  dispatch(call: DemoCall, handler: AnswerHandler): void
}

/** Creates a demo provider. Its only state is a counter for ids. */
export function createDemo({ paceMs, clock, setTimer = systemTimer }: DemoOptions): Demo {
  if (!(paceMs >= 0 && paceMs <= 60_000)) throw new TypeError(`createDemo: paceMs is ${paceMs}, not from 0 to 60000`)
  let answers = 0
  return {
    dispatch(call, handler) {
      // Composed after onConnect, so that a request aborted at once costs nothing.
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
