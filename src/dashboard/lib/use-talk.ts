/** The playground's conversation: sends a question, reads or stops the answer, and loads its receipt. */
import { useEffect, useRef, useState } from 'preact/hooks'
import type { AccountView, ReceiptView } from '../../api/views.ts'
import { ApiError, api } from './api.ts'
import { readStream, Sentences } from './sse.ts'
import { type Answer, isOpen, newAnswer, requestOf, type Settings, type Turn, withEnd, withEvent } from './talk.ts'

/** A conversation and its actions. */
export interface Talk {
  readonly turns: readonly Turn[]
  readonly busy: boolean
  readonly send: (question: string, settings: Settings) => void
  /** Stops the answer in progress; the received part stays. */
  readonly stop: () => void
  /** Sends the last question again and replaces its answer. */
  readonly again: (settings: Settings) => void
  readonly clear: () => void
}

/** @param say passes whole sentences to a screen reader; @param onCharged runs when the balance has changed */
export function useTalk(say: (text: string) => void, onCharged: () => void): Talk {
  const [turns, setTurns] = useState<readonly Turn[]>([])
  const running = useRef<AbortController | null>(null)
  const counter = useRef(0)
  // Leaving the page stops the answer.
  useEffect(() => () => running.current?.abort(), [])

  const change = (id: number, to: (answer: Answer) => Answer): void =>
    setTurns(before => before.map(turn => (turn.id === id ? { ...turn, answer: to(turn.answer) } : turn)))

  const ask = async (history: readonly Turn[], question: string, settings: Settings): Promise<void> => {
    const stop = new AbortController()
    const id = counter.current++
    running.current = stop
    setTurns([...history, { id, question, answer: newAnswer(settings.model) }])
    const { requestId, begun } = await readAnswer({
      body: requestOf(history, question, settings),
      answer: newAnswer(settings.model),
      signal: stop.signal,
      show: answer => change(id, () => answer),
      say,
    })
    if (running.current === stop) running.current = null
    // A request that was refused before its answer began costs nothing.
    if (requestId === null || !begun || settings.free) return
    change(id, answer => ({ ...answer, settling: true }))
    const receipt = await settledReceipt(requestId)
    const account = receipt && (await api.get<AccountView>('account').catch(() => null))
    change(id, answer => ({ ...answer, receipt, account, settling: false }))
    if (receipt !== null) onCharged()
  }

  const last = turns.at(-1)
  const busy = last !== undefined && isOpen(last.answer)
  return {
    turns,
    busy,
    send: (question, settings) => {
      if (!busy) void ask(turns, question, settings)
    },
    stop: () => running.current?.abort(),
    again: settings => {
      if (!busy && last) void ask(turns.slice(0, -1), last.question, settings)
    },
    clear: () => {
      running.current?.abort()
      setTurns([])
    },
  }
}

interface AnswerRequest {
  readonly body: object
  readonly answer: Answer
  readonly signal: AbortSignal
  readonly show: (answer: Answer) => void
  readonly say: (text: string) => void
}

interface AnswerStart {
  readonly requestId: string | null
  /** Whether the gateway accepted the request and began to answer. */
  readonly begun: boolean
}

/** Reads one answer until it ends, fails or is stopped. */
async function readAnswer({ body, answer: empty, signal, show, say }: AnswerRequest): Promise<AnswerStart> {
  const began = performance.now()
  const since = (): number => performance.now() - began
  const sentences = new Sentences()
  let answer = empty
  let begun = false
  // Draws the page a few times a second, however small the pieces are. A longer answer is drawn less often.
  let waiting: ReturnType<typeof setTimeout> | undefined
  const draw = (): void => {
    clearTimeout(waiting)
    waiting = undefined
    show(answer)
  }
  const update = (next: Answer): void => {
    const isFirst = answer.text === '' && answer.thoughts === ''
    answer = next
    if (isFirst || !isOpen(next)) draw()
    else waiting ??= setTimeout(draw, PAUSE_MS + next.text.length / LETTERS_A_MS)
  }
  try {
    const response = await api.stream('playground', body, { signal })
    begun = true
    const cap = Number.parseInt(response.headers.get('x-tollgate-max-output-tokens') ?? '', 10)
    update({ ...answer, requestId: response.headers.get('x-request-id'), cap: cap > 0 ? cap : null })
    for await (const event of readStream(response.body!)) {
      update(withEvent(answer, event, since()))
      if (event.kind === 'text') speak(sentences.add(event.text), say)
    }
    update(withEnd(answer, since()))
  } catch (error) {
    update(caught(answer, error, signal.aborted, since()))
  }
  speak(sentences.end(), say)
  say(endText(answer))
  return { requestId: answer.requestId, begun }
}

/**
 * How long pieces are collected between two draws, in milliseconds: `PAUSE_MS`, and 1 ms more for each `LETTERS_A_MS` characters
 * of the answer.
 */
const PAUSE_MS = 40
const LETTERS_A_MS = 2000

function endText({ error, state, model }: Answer): string {
  if (error !== null) return error.message
  return state === 'stopped' ? 'Stopped.' : `End of the answer of ${model}.`
}

function caught(answer: Answer, error: unknown, aborted: boolean, ms: number): Answer {
  // The connection closes after an error event. Only the first error is shown.
  if (!isOpen(answer)) return answer
  if (aborted) return { ...answer, state: 'stopped', totalMs: ms }
  if (!(error instanceof ApiError)) return withEnd(answer, ms)
  const { code, message, requestId } = error
  return { ...answer, state: 'failed', totalMs: ms, requestId, error: { code, message } }
}

function speak(text: string, say: (text: string) => void): void {
  if (text !== '') say(text)
}

/**
 * The waits between readings of the receipt. A stopped answer settles a moment later; with a reasoning model, after its usage has
 * arrived.
 */
const WAITS_MS = [0, 300, 700, 1500, 3000, 6000, 12_000, 12_000]

async function settledReceipt(id: string): Promise<ReceiptView | null> {
  for (const wait of WAITS_MS) {
    if (wait > 0) await new Promise(resolve => setTimeout(resolve, wait))
    try {
      const receipt = await api.get<ReceiptView>(`receipts/${encodeURIComponent(id)}`)
      if (receipt.settled_at !== null) return receipt
    } catch (error) {
      // Free requests, and those refused before a hold, have no receipt.
      if (error instanceof ApiError && error.code === 'not_found') return null
    }
  }
  return null
}
