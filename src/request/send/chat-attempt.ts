/** One attempt of a chat route: it sends the request to a target and pumps the answer to the client. */
import {
  type Chat,
  type EncodedRequest,
  type OnDisconnect,
  ownTurn,
  searchBounds,
  type Target,
  type UpstreamFailure,
} from '#contract'
import type { DeadlineClock } from '../../common/clock.ts'
import { type AttemptOptions, type RunningAttempt, startAttempt } from '../../providers/attempt.ts'
import { blameCredential } from '../../providers/credentials.ts'
import { customToolsOf } from '../../providers/dialects/translate/custom-tools.ts'
import type { TrackedAttempt } from '../../providers/health.ts'
import type { UpstreamRequest } from '../../providers/transport.ts'
import type { Client } from '../answer/client.ts'
import type { Meter } from '../answer/meter.ts'
import { type PumpEnding, type PumpParts, type Sink, StreamPump } from '../answer/pump.ts'
import type { StreamAnswer } from '../answer/stream.ts'
import { WholePump } from '../answer/whole.ts'
import type { StepTap } from '../exchange.ts'
import type { SignedHeaders, Upstream } from '../generation.ts'
import { AnswerCapture } from './answer-capture.ts'
import { AttemptRecord } from './attempt-record.ts'
import { streamTo, writerOf } from './client-format.ts'
import type { LiveExchange } from './live-exchange.ts'

/** Maximum number of dropped parameters that are named one by one. */
const MAX_DROPPED = 20

/** The approximate time to decode a piece of an answer and encode it again, in milliseconds. */
const PIECE_MS = 0.01
const BYTE_MS = 4e-5
/** Less work than this is counted together with later work. */
const COUNTED_MS = 0.2

/** The sender that makes the attempts. */
export interface ChatAttemptOwner {
  /** Called when the attempt's answer is over, at the earliest at the end of `start`. Must not throw. */
  over(tried: ChatAttempt, ending: PumpEnding): void
}

/** One attempt: the options of its pump and its connection, and its result. */
export class ChatAttempt implements AttemptOptions, PumpParts, Sink {
  readonly target: Target
  readonly transport: AttemptOptions['transport']
  readonly request: UpstreamRequest
  readonly timeouts: AttemptOptions['timeouts']
  readonly decodeError: AttemptOptions['decodeError']
  readonly startedMs: number
  readonly stream: boolean
  readonly deadlineClock: DeadlineClock
  readonly client: Client
  readonly meter: Meter
  readonly onDisconnect: OnDisconnect
  readonly fillsFinish: boolean
  readonly largestBytes: number
  /** Null for a whole answer. */
  readonly answer: StreamAnswer | null
  readonly pump: StreamPump | WholePump
  /** Whether the provider has refused or limited the credential, and others are usable. */
  hasOtherCredential = false
  tookMs = 0
  /** Work on received pieces that is not counted yet, in milliseconds. */
  #uncountedMs = 0
  #attempt: RunningAttempt | null = null
  /** Set if the answer ended before `#attempt` was set. */
  #ending: PumpEnding | null = null
  /** False while the answer is paused because other owners have their turn. */
  #isInTurn = true
  readonly #owner: ChatAttemptOwner
  readonly #exchange: LiveExchange
  readonly #signed: SignedHeaders
  readonly #trackedAttempt: TrackedAttempt
  readonly #record: AttemptRecord

  constructor(exchange: LiveExchange, target: Target, encoded: EncodedRequest, owner: ChatAttemptOwner) {
    this.#owner = owner
    const { generation, host } = exchange
    const chat = exchange.chat!
    const upstream = generation.upstreams.get(target.provider)!
    const { provider, dialect } = upstream
    this.target = target
    this.transport = upstream.transport
    this.timeouts = provider.timeouts
    this.decodeError = dialect.decodeError
    this.stream = chat.stream
    this.deadlineClock = host.deadlineClock
    this.startedMs = host.deadlineClock.now()
    this.client = exchange.client
    this.meter = exchange.meter
    this.onDisconnect = exchange.onDisconnect
    this.fillsFinish = provider.fillsFinish
    this.largestBytes = generation.configuration.limits.answerBytes
    setDroppedHeader(exchange, droppedOf(chat, encoded))
    this.#exchange = exchange
    const { passes } = searchBounds(chat.body)
    this.meter.begin(chat, chat.choices * passes * (chat.cap + target.reasoningOutsideCap))
    const taps = exchange.trace === null ? exchange.taps : recordedTaps(exchange)
    this.answer = chat.stream ? streamTo(exchange, taps) : null
    this.pump = this.#pumpFor(chat, upstream, taps, passes > 1)
    this.#signed = upstream.sign(encoded)
    const { headers } = this.#signed
    headers['x-request-id'] = exchange.id
    headers['via'] = exchange.via
    this.request = { path: encoded.path, headers, body: encoded.body, owner: exchange.owner ?? undefined }
    this.#trackedAttempt = generation.healthTracker.begin(target, this.startedMs)
    this.#record = new AttemptRecord(exchange, target.id, this.startedMs)
    if (exchange.trace !== null) this.#record.propagate(headers)
  }

  /** Sends the request. */
  start(): void {
    const { pump } = this
    this.#exchange.listen(pump)
    const attempt = startAttempt(this)
    pump.feedFrom(attempt)
    this.#attempt = attempt
    if (this.#ending !== null) this.#owner.over(this, this.#ending)
  }

  over(ending: PumpEnding): void {
    if (this.#attempt === null) this.#ending = ending
    else this.#owner.over(this, ending)
  }

  /** Records the end of the answer. */
  close(ending: PumpEnding): void {
    this.#exchange.unlisten(this.pump)
    // An attempt that was given up before its head arrived is recorded too.
    this.#record.head(null, null)
    if (this.#exchange.trace !== null) this.#record.over()
    const atMs = this.deadlineClock.now()
    this.tookMs = atMs - this.startedMs
    if (this.stream && ending.ending === 'complete') this.#exchange.streamedAtMs = atMs
    this.#judge(ending, atMs)
  }

  get sink(): Sink {
    return this
  }

  /** Receives a piece of the answer. The provider may then wait while other owners have their turn. */
  data(bytes: Buffer): boolean {
    const keepsUp = this.pump.data(bytes)
    this.#uncountedMs += PIECE_MS + bytes.length * BYTE_MS
    const { owner, host } = this.#exchange
    if (this.#uncountedMs < COUNTED_MS || owner === null || host.work === null) return keepsUp
    const { slices } = host.work
    slices.spend(owner, this.#uncountedMs)
    this.#uncountedMs = 0
    // If the client does not keep up, its `onResume` resumes the answer.
    if (!keepsUp || !slices.isBehind(owner)) return keepsUp
    const turn = slices.run(ownTurn(), undefined, { owner, costMs: COUNTED_MS })
    if (!(turn instanceof Promise)) return true
    this.#isInTurn = false
    void turn.then(() => {
      this.#isInTurn = true
      this.#attempt?.resume()
    })
    return false
  }

  end(): void {
    this.pump.end()
  }

  fail(failure: UpstreamFailure): void {
    this.pump.fail(failure)
  }

  /** Reserves memory for kept bytes of the answer. @returns false if there is not enough room */
  holds(bytes: number): boolean {
    return this.#exchange.host.memory.growAnswer(this.#exchange, bytes)
  }

  onHead(status: number | null, failure: UpstreamFailure | null, atMs: number): void {
    if (failure === null) {
      this.#trackedAttempt.begun(this.stream, atMs)
      this.#signed.accepted()
    } else this.hasOtherCredential = blameCredential(this.#signed, failure)
    this.#record.head(status, failure, atMs)
  }

  onBegun(): void {
    this.#trackedAttempt.streams()
  }

  #pumpFor(chat: Chat, { dialect }: Upstream, taps: readonly StepTap[], searches: boolean): StreamPump | WholePump {
    const exchange = this.#exchange
    const view = {
      model: exchange.model!.id,
      includeUsage: chat.includeUsage,
      exchange: exchange.id,
      createdAt: Math.floor(exchange.startedAt / 1000),
      functions: chat.body['functions'] != null && !chat.body.tools?.length,
      customTools: customToolsOf(chat.body),
      searches,
      identity: exchange.answerCapture,
    }
    if (this.answer) return new StreamPump(this, dialect.decodeStream(view), this.answer)
    return new WholePump(this, { dialect, view, taps, write: writerOf(exchange) })
  }

  /** Judges the target by the end of the attempt. */
  #judge(ending: PumpEnding, atMs: number): void {
    if (ending.ending === 'failed') {
      this.#record.failed(null, ending.failure)
      const isPaused = this.#attempt!.isPaused && this.#isInTurn
      // A credential's failure counts against the target only without another credential. A slow client is not the target's fault.
      if (this.hasOtherCredential || isPaused) this.#trackedAttempt.dropped()
      else this.#trackedAttempt.bad(ending.failure)
    } else if (ending.ending === 'complete' || ending.ending === 'tapped') this.#trackedAttempt.good(atMs)
    else this.#trackedAttempt.dropped()
  }
}

/** The taps of a traced exchange. If it is sampled, they record this attempt's answer. */
function recordedTaps(exchange: LiveExchange): readonly StepTap[] {
  if (!exchange.trace!.isSampled) return exchange.taps
  exchange.answerCapture = new AnswerCapture(exchange.live.config.steps.tracesContent)
  return exchange.answerCapture.around(exchange.taps)
}

const droppedOf = (chat: Chat, request: EncodedRequest) =>
  chat.dropped ? [...chat.dropped, ...request.dropped] : request.dropped

/** Names the dropped parameters in a header. Names come from the client, and can be anything if unknown parameters pass. */
function setDroppedHeader({ ctx }: LiveExchange, names: readonly string[]): void {
  if (names.length === 0) {
    ctx.remove('x-tollgate-dropped')
    return
  }
  const printable = names.filter(name => /^[\w.[\]-]{1,64}$/.test(name)).slice(0, MAX_DROPPED)
  const rest = names.length - printable.length
  ctx.set('x-tollgate-dropped', (rest > 0 ? [...printable, `${rest} more`] : printable).join(', '))
}
