/** Both pumps with a client on a real connection, a counting source, and time that the test advances. */
import { expect, onTestFinished } from 'vitest'
import type { Chat, Chunk, Dialect, OnDisconnect } from '#contract'
import { openAiDialect } from '../../../src/providers/dialects/openai/index.ts'
import { Meter } from '../../../src/request/answer/meter.ts'
import { type PumpEnding, StreamPump } from '../../../src/request/answer/pump.ts'
import { StreamAnswer } from '../../../src/request/answer/stream.ts'
import type { Tap } from '../../../src/request/answer/taps.ts'
import { WholePump } from '../../../src/request/answer/whole.ts'
import { chunk, usage } from './chunks.ts'
import { clientOn, openWire, until } from './wire.ts'

/** The options of a test. */
export interface PumpOptions {
  readonly onDisconnect?: OnDisconnect
  readonly taps?: readonly Tap[]
  readonly dialect?: Dialect
  readonly includeUsage?: boolean
  readonly largestBytes?: number
  readonly fillsFinish?: boolean
  holds?(bytes: number): boolean
}

export const openai = openAiDialect(() => 0)
/** A request of one message. */
export const chatOf = (content: string) =>
  ({ choices: 1, body: { messages: [{ role: 'user', content }] } }) as unknown as Chat

/** The setup of both kinds of pump: a client on a real connection, and a counting source. */
export async function parts(options: PumpOptions) {
  const { onDisconnect = 'cancel', largestBytes = 32 * 1024 * 1024 } = options
  const wire = await openWire()
  onTestFinished(() => wire[Symbol.asyncDispose]())
  const { client, deadlineClock } = clientOn(wire.response)
  const meter = new Meter()
  const source = {
    aborts: 0,
    resumes: 0,
    isSent: true,
    isBillable: true,
    expectedBytes: Number.NaN,
    abort: () => void source.aborts++,
    resume: () => void source.resumes++,
  }
  const room = { fillsFinish: options.fillsFinish ?? false, largestBytes, holds: options.holds ?? (() => true) }
  const { ending, over } = watched()
  const common = { client, meter, deadlineClock, onDisconnect, ...room, over }
  return { wire, client, deadlineClock, meter, source, ending, common }
}

/** Remembers the ending of a pump, so that a test can check it without waiting. */
function watched() {
  const end = { ending: null as PumpEnding | null }
  const settle = () => new Promise(resolve => setImmediate(resolve))
  return {
    over(ending: PumpEnding) {
      expect(end.ending).toBeNull()
      end.ending = ending
    },
    /** The ending; null before it. */
    async ending() {
      await settle()
      return end.ending
    },
  }
}

export async function streaming(options: PumpOptions = {}) {
  const { wire, client, deadlineClock, meter, source, ending, common } = await parts(options)
  const answer = new StreamAnswer(client, options.taps ?? [])
  const view = {
    model: 'chat-small',
    includeUsage: options.includeUsage ?? false,
    exchange: 'req_1',
    createdAt: 1_700_000_000,
  }
  const decoder = (options.dialect ?? openai).decodeStream(view)
  const pump = new StreamPump(common, decoder, answer)
  pump.feedFrom(source)
  return {
    wire,
    client,
    deadlineClock,
    meter,
    source,
    pump,
    answer,
    ending,
    /** Upstream sends events. */
    put: (...events: (Chunk | object | string)[]) =>
      pump.data(
        Buffer.from(events.map(each => `data: ${typeof each === 'string' ? each : JSON.stringify(each)}\n\n`).join('')),
      ),
    async leaves(how: 'fin' | 'reset' = 'reset') {
      wire.raw[how]()
      await until(() => client.left)
      pump.leave()
    },
    /** The bytes that the client has received, once `marker` has come. */
    async received(marker: string) {
      await wire.raw.readUntil(marker)
      const all = wire.raw.received().toString()
      return all.slice(all.indexOf('\r\n\r\n') + 4)
    },
  }
}

export async function collecting(options: PumpOptions = {}) {
  const { wire, client, deadlineClock, meter, source, ending, common } = await parts(options)
  const view = { model: 'chat-small', includeUsage: false, exchange: 'req_1', createdAt: 1_700_000_000 }
  const pump = new WholePump(common, { dialect: options.dialect ?? openai, view, taps: options.taps ?? [] })
  pump.feedFrom(source)
  return {
    wire,
    client,
    deadlineClock,
    meter,
    source,
    pump,
    ending,
    put: (answer: object | string) =>
      pump.data(Buffer.from(typeof answer === 'string' ? answer : JSON.stringify(answer))),
    async leaves() {
      wire.raw.reset()
      await until(() => client.left)
      pump.leave()
    },
  }
}

export const ROLE = chunk({ role: 'assistant', content: '' })
export const USAGE = usage(7, 2)
export const COMPLETE = { ending: 'complete' }
export const LEFT = { ending: 'client_left' }
export const failed = (code: string) => ({ ending: 'failed', failure: expect.objectContaining({ code }) })
