/** Bedrock: Converse, and Anthropic's Messages inside of InvokeModel. Streams are binary frames with check sums. */
import { crc32 } from 'node:zlib'
import { event, exception, frame, u32 } from '../../providers/dialects/bedrock/frames.ts'
import type { ProviderRequest } from '../fake-provider.ts'
import {
  framedTwice,
  type MessageEvent,
  messageEvents,
  messagesCap,
  messagesUsage,
  twoReasons,
  wholeMessage,
} from './messages.ts'
import {
  jsonOf,
  leakyMessage,
  renumber,
  type SaidError,
  type Say,
  type StreamPart,
  TOKENS,
  usageMember,
  type Voice,
} from './voice.ts'

const FRAMES = {
  framing: 'frames',
  types: { whole: 'application/json', stream: 'application/vnd.amazon.eventstream' },
  error: awsError,
  errorEvent: (status: number, message = leakyMessage(status)) => exception(exceptionOf(status), message),
  // An error that is not an exception: headers alone.
  namedErrorEvent: (status: number) =>
    frame({ ':message-type': 'error', ':error-code': 'internalFailure', ':error-message': leakyMessage(status) }),
  endless: frameOf100Mebibytes(),
} as const

export function converseVoice(): Voice {
  const MEMBER = { usageName: 'usage', usage: converseUsage }
  const whole = (say: Say): Buffer => {
    const content = say.calls
      ? say.calls.map((name, index) => ({ toolUse: { toolUseId: `tooluse_${index}`, name, input: {} } }))
      : [{ text: (say.tokens ?? TOKENS).join('') }]
    const stop = say.finish === false ? {} : { stopReason: reasonOf(say) }
    const output = { message: { role: 'assistant', content } }
    return jsonOf({ metrics: { latencyMs: 100 }, output, ...stop, ...usageMember(MEMBER, say) }, say)
  }
  const stream = (say: Say) => converseEvents(say, usageMember(MEMBER, say))
  return {
    ...FRAMES,
    ...MEMBER,
    dialect: 'bedrock',
    early: 'nothing',
    ends: true,
    capOf({ body }) {
      const cap = (body?.['inferenceConfig'] as { maxTokens?: unknown } | undefined)?.maxTokens
      return typeof cap === 'number' ? cap : null
    },
    whole,
    stream,
    usageEvent: (prompt, completion) => event('metadata', { usage: JSON.parse(converseUsage(prompt, completion)) }),
    badEvent: () => frame(headersOf('contentBlockDelta'), '{"contentBlockIndex":0,'),
    twoFinishes: (mode, request) =>
      mode === 'whole'
        ? twoReasons(request, whole)
        : Buffer.concat(stream({}).flatMap(({ bytes, kind }) => (kind === 'finish' ? [bytes, bytes] : [bytes]))),
    reindex: (json, indexes) => renumber(json, /("contentBlockIndex":)(\d)/g, indexes),
  }
}

export function invokeVoice(): Voice {
  const framed = ({ kind, json }: MessageEvent): StreamPart => ({ kind, bytes: chunk(json) })
  return {
    ...FRAMES,
    dialect: 'bedrock-invoke',
    early: 'prompt',
    ends: true,
    usageName: 'usage',
    usage: messagesUsage,
    capOf: messagesCap,
    whole: wholeMessage,
    stream: say => messageEvents(say).map(framed),
    usageEvent: (prompt, completion) =>
      chunk(Buffer.from(`{"type":"message_delta","delta":{},"usage":${messagesUsage(prompt, completion)}}`)),
    badEvent: () => chunk(Buffer.from('{"type":"content_block_delta",')),
    twoFinishes: (mode, request: ProviderRequest) =>
      mode === 'whole' ? twoReasons(request) : framedTwice(messageEvents({}), framed),
    reindex: (json, indexes) => renumber(json, /("index":)(\d)/g, indexes),
  }
}

/** An event of the Messages API in base64, as InvokeModel frames it. */
function chunk(json: Buffer): Buffer {
  return event('chunk', { bytes: json.toString('base64'), p: 'abcdefgh' })
}

function converseEvents(say: Say, used: object): StreamPart[] {
  const said = (kind: StreamPart['kind'], type: string, value: object): StreamPart => ({
    kind,
    bytes: frame(headersOf(type), jsonOf({ ...value, p: 'abcdefghijkl' }, say)),
  })
  const blocks = say.calls
    ? say.calls.flatMap((name, contentBlockIndex) => {
        const toolUse = { toolUseId: `tooluse_${contentBlockIndex}`, name }
        return [
          said('token', 'contentBlockStart', { contentBlockIndex, start: { toolUse } }),
          said('token', 'contentBlockDelta', { contentBlockIndex, delta: { toolUse: { input: '{}' } } }),
          said('finish', 'contentBlockStop', { contentBlockIndex }),
        ]
      })
    : [
        ...(say.tokens ?? TOKENS).map(text =>
          said('token', 'contentBlockDelta', { contentBlockIndex: 0, delta: { text } }),
        ),
        said('finish', 'contentBlockStop', { contentBlockIndex: 0 }),
      ]
  return [
    said('open', 'messageStart', { role: 'assistant' }),
    ...blocks,
    ...(say.finish === false ? [] : [said('finish', 'messageStop', { stopReason: reasonOf(say) })]),
    ...(say.end === false ? [] : [said('end', 'metadata', { metrics: { latencyMs: 100 }, ...used })]),
  ]
}

function headersOf(type: string) {
  return { ':event-type': type, ':content-type': 'application/json', ':message-type': 'event' }
}

function reasonOf({ calls }: Say): string {
  return calls ? 'tool_use' : 'end_turn'
}

function converseUsage(prompt: string, completion: string | null): string {
  return completion === null ? `{"inputTokens":${prompt}}` : `{"inputTokens":${prompt},"outputTokens":${completion}}`
}

const EXCEPTIONS: Readonly<Record<number, string>> = {
  400: 'ValidationException',
  401: 'UnrecognizedClientException',
  402: 'ServiceQuotaExceededException',
  403: 'AccessDeniedException',
  404: 'ResourceNotFoundException',
  422: 'ValidationException',
  429: 'ThrottlingException',
  500: 'InternalServerException',
  502: 'ModelErrorException',
  503: 'ServiceUnavailableException',
  529: 'ModelNotReadyException',
}

/** Frames begin in lower case, headers do not. */
function exceptionOf(status: number): string {
  const type = EXCEPTIONS[status] ?? 'InternalServerException'
  return type[0]!.toLowerCase() + type.slice(1)
}

function awsError(status: number, message = leakyMessage(status)): SaidError {
  const type = EXCEPTIONS[status]
  return {
    body: { message },
    headers: type ? { 'x-amzn-errortype': `${type}:http://internal.amazon.com/coral/com.amazon.bedrock/` } : {},
  }
}

/** The first 12 bytes of a frame that is as long as the protocol does not allow. */
function frameOf100Mebibytes(): Buffer {
  const lengths = Buffer.concat([u32(100 * 1024 * 1024), u32(0)])
  return Buffer.concat([lengths, u32(crc32(lengths))])
}
