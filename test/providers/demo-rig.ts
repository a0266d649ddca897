/** Helpers for the tests of the demo provider: a manual clock, a handler that records its calls, and shortcuts for requests. */
import { expect } from 'vitest'
import type { ChatCompletion, Chunk } from '#contract'
import { createDemo } from '../../src/providers/demo/demo.ts'
import type { SetTimer } from '../../src/providers/demo/play.ts'
import type { AnswerHandler } from '../../src/providers/handler.ts'
import { parseSse } from '../helpers/sse.ts'

/** Milliseconds between two tokens. */
export const PACE_MS = 20
/** Milliseconds since the epoch. */
export const NOW = 1_790_000_000_123

export const weather = {
  type: 'function',
  function: {
    name: 'get_weather',
    description: 'The forecast for a place',
    parameters: {
      type: 'object',
      properties: {
        city: { type: 'string' },
        unit: { enum: ['celsius', 'fahrenheit'] },
        days: { type: 'integer', minimum: 2 },
      },
      required: ['city', 'unit', 'days'],
    },
  },
}

export function user(content: unknown) {
  return { role: 'user', content }
}

export function asking(content: string) {
  return { model: 'demo', messages: [user(content)] }
}

export function demoWith(time: Time) {
  return createDemo({ paceMs: PACE_MS, clock: { now: () => NOW }, setTimer: time.setTimer })
}

export function callOf(body: unknown) {
  return { path: '/chat/completions', body: Buffer.from(typeof body === 'string' ? body : JSON.stringify(body)) }
}

export function dispatch(body: unknown, recorder: Recorder, time: Time) {
  demoWith(time).dispatch(callOf(body), recorder)
}

/** Sends a body and returns the complete answer. */
export function ask(body: unknown, time = new Time(), demo = demoWith(time)) {
  const recorder = new Recorder()
  demo.dispatch(callOf(body), recorder)
  time.runAll()
  expect(recorder.calls.at(-1)).toBe('complete')
  return { status: recorder.status, headers: recorder.headers, text: recorder.text() }
}

/** Sends a body and returns the text of the answer. */
export function answerText(body: unknown): string {
  return (JSON.parse(ask(body).text) as ChatCompletion).choices[0]!.message.content!
}

export function chunksOf(text: string): Chunk[] {
  return parseSse(text).events.map(({ data }) => JSON.parse(data) as Chunk)
}

export function contentPieces(text: string): string[] {
  const deltas = chunksOf(text).flatMap(chunk => chunk.choices.map(({ delta }) => delta.content))
  return deltas.filter(content => typeof content === 'string' && content !== '') as string[]
}

/** A handler that records every call. */
export class Recorder implements AnswerHandler {
  readonly calls: string[] = []
  readonly data: Buffer[] = []
  status = 0
  headers: Record<string, string> = {}
  /** Whether `onData` asks the provider to pause. */
  full = false
  onCall: (name: string) => unknown = () => {}
  abort = (): void => {}
  resume = (): void => {}

  get over(): boolean {
    return /^complete|^error/.test(this.calls.at(-1) ?? '')
  }
  text(): string {
    return Buffer.concat(this.data).toString('utf8')
  }
  onConnect(abort: () => void): void {
    const wrapped = this.abort
    this.abort = () => {
      abort()
      wrapped()
    }
    this.called('connect')
  }
  onHeaders(status: number, headers: Record<string, string>, resume: () => void): void {
    Object.assign(this, { status, headers, resume })
    this.called('headers')
  }
  onData(bytes: Buffer): boolean {
    this.data.push(bytes)
    this.called('data')
    return !this.full
  }
  onComplete(): void {
    this.called('complete')
  }
  onError(error: Error): void {
    this.called(`error: ${error.message}`)
  }
  private called(name: string): void {
    this.calls.push(name)
    this.onCall(name)
  }
}

/** A clock with timers. Only `advance` and `runAll` move it. */
export class Time {
  private now = 0
  private timers: { due: number; run: () => void }[] = []

  get pending(): number {
    return this.timers.length
  }
  readonly setTimer: SetTimer = (run, ms) => {
    const timer = { due: this.now + ms, run }
    this.timers.push(timer)
    return () => {
      this.timers = this.timers.filter(other => other !== timer)
    }
  }
  advance(ms: number): void {
    const until = this.now + ms
    for (let next = this.next(until); next; next = this.next(until)) {
      this.now = Math.max(this.now, next.due)
      this.timers = this.timers.filter(timer => timer !== next)
      next.run()
    }
    this.now = until
  }
  /** Runs until no timer is left. */
  runAll(): void {
    this.advance(1e9)
  }
  private next(until: number) {
    return this.timers.filter(({ due }) => due <= until).toSorted((a, b) => a.due - b.due)[0]
  }
}
