/**
 * Receives OTLP over HTTP, as a collector does, and keeps it in a plain shape. It decodes Protobuf by the field numbers of the published
 * definitions (opentelemetry-proto: trace.proto, metrics.proto, common.proto), not with the library that encodes it.
 */
import { once } from 'node:events'
import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

export type Values = Readonly<Record<string, unknown>>

export interface ReceivedSpan {
  readonly traceId: string
  readonly spanId: string
  /** Empty: no parent. */
  readonly parentId: string
  readonly state: string
  readonly name: string
  /** 2: server, 3: client. */
  readonly kind: number
  readonly start: bigint
  readonly end: bigint
  /** 0: unset, 2: error. */
  readonly status: number
  readonly attributes: Values
  readonly resource: Values
}

export interface ReceivedPoint {
  readonly metric: string
  readonly unit: string
  /** 2: cumulative. */
  readonly temporality: number
  readonly count: number
  readonly sum: number
  readonly counts: readonly number[]
  readonly bounds: readonly number[]
  readonly attributes: Values
  readonly resource: Values
}

export interface ReceivedRequest {
  readonly path: string
  readonly headers: IncomingHttpHeaders
  readonly body: Buffer
}

export interface OtlpReceiver extends AsyncDisposable {
  readonly url: string
  readonly requests: ReceivedRequest[]
  /** The spans of all accepted requests. */
  readonly spans: ReceivedSpan[]
  /** The metrics of the last request that had any, because sums are cumulative. */
  readonly points: ReceivedPoint[]
  /** Sets how it answers from now on; true: correctly. */
  answer(how: true | ((response: ServerResponse, request: ReceivedRequest) => void)): void
  /** Resolves when the condition is true. */
  until(isSo: () => boolean): Promise<void>
}

export async function startOtlpReceiver(port = 0): Promise<OtlpReceiver> {
  const requests: ReceivedRequest[] = []
  const spans: ReceivedSpan[] = []
  const points: ReceivedPoint[] = []
  const waiting = new Set<() => void>()
  let how: true | ((response: ServerResponse, request: ReceivedRequest) => void) = true
  const server = createServer(async (incoming, response) => {
    const pieces: Buffer[] = []
    for await (const piece of incoming) pieces.push(piece as Buffer)
    const request = { path: incoming.url!, headers: incoming.headers, body: Buffer.concat(pieces) }
    requests.push(request)
    if (how === true) {
      const isJson = incoming.headers['content-type'] === 'application/json'
      if (request.path === '/v1/traces') spans.push(...(isJson ? jsonSpans : protoSpans)(request.body))
      else if (request.path === '/v1/metrics')
        points.splice(0, points.length, ...(isJson ? jsonPoints : protoPoints)(request.body))
      response.writeHead(200, { 'content-type': incoming.headers['content-type'] ?? '' }).end(isJson ? '{}' : undefined)
    } else how(response, request)
    for (const look of waiting) look()
  })
  server.listen(port, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requests,
    spans,
    points,
    answer(next) {
      how = next
    },
    until: isSo =>
      new Promise(resolve => {
        const look = () => {
          if (!isSo()) return
          waiting.delete(look)
          resolve()
        }
        waiting.add(look)
        look()
      }),
    async [Symbol.asyncDispose]() {
      server.close()
      server.closeAllConnections()
    },
  }
}

interface JsonValue {
  readonly stringValue?: string
  readonly boolValue?: boolean
  readonly intValue?: string | number
  readonly doubleValue?: number
  readonly arrayValue?: { readonly values?: readonly JsonValue[] }
}
type JsonAttributes = readonly { readonly key: string; readonly value: JsonValue }[]
// biome-ignore lint/suspicious/noExplicitAny: the tests say what they expect of it
type Json = any

const plain = ({ stringValue, boolValue, intValue, doubleValue, arrayValue }: JsonValue): unknown =>
  arrayValue?.values?.map(plain) ??
  (intValue === undefined ? (stringValue ?? boolValue ?? doubleValue) : Number(intValue))
const jsonAttributes = (attributes: JsonAttributes = []) =>
  Object.fromEntries(attributes.map(({ key, value }) => [key, plain(value)]))

function jsonSpans(body: Buffer): ReceivedSpan[] {
  const { resourceSpans } = JSON.parse(body.toString('utf8')) as Json
  return resourceSpans.flatMap(({ resource, scopeSpans }: Json) =>
    scopeSpans.flatMap(({ spans }: Json) =>
      spans.map((span: Json) => ({
        traceId: span.traceId,
        spanId: span.spanId,
        parentId: span.parentSpanId ?? '',
        state: span.traceState ?? '',
        name: span.name,
        kind: span.kind,
        start: BigInt(span.startTimeUnixNano),
        end: BigInt(span.endTimeUnixNano),
        status: span.status?.code ?? 0,
        attributes: jsonAttributes(span.attributes),
        resource: jsonAttributes(resource.attributes),
      })),
    ),
  )
}

function jsonPoints(body: Buffer): ReceivedPoint[] {
  const { resourceMetrics } = JSON.parse(body.toString('utf8')) as Json
  return resourceMetrics.flatMap(({ resource, scopeMetrics }: Json) =>
    scopeMetrics.flatMap(({ metrics }: Json) =>
      metrics.flatMap(({ name, unit, histogram }: Json) =>
        histogram.dataPoints.map((point: Json) => ({
          metric: name,
          unit,
          temporality: histogram.aggregationTemporality,
          count: Number(point.count),
          sum: point.sum,
          counts: point.bucketCounts.map(Number),
          bounds: point.explicitBounds,
          attributes: jsonAttributes(point.attributes),
          resource: jsonAttributes(resource.attributes),
        })),
      ),
    ),
  )
}

/** The fields of one message by number. Varints and fixed numbers are bigints, all others bytes. */
type Fields = ReadonlyMap<number, readonly (bigint | Buffer)[]>

function fieldsOf(bytes: Buffer): Fields {
  const fields = new Map<number, (bigint | Buffer)[]>()
  let at = 0
  const varint = () => {
    let value = 0n
    for (let shift = 0n; ; shift += 7n) {
      const byte = bytes.readUInt8(at++)
      value |= BigInt(byte & 127) << shift
      if (byte < 128) return value
    }
  }
  const take = (length: number) => {
    at += length
    if (at > bytes.length) throw new RangeError('a field goes beyond its message')
    return bytes.subarray(at - length, at)
  }
  while (at < bytes.length) {
    const tag = Number(varint())
    const [number, type] = [tag >> 3, tag & 7]
    let value: bigint | Buffer
    if (type === 0) value = varint()
    else if (type === 1) value = take(8).readBigUInt64LE()
    else if (type === 2) value = take(Number(varint()))
    else if (type === 5) value = BigInt(take(4).readUInt32LE())
    else throw new TypeError(`wire type ${type}`)
    fields.set(number, [...(fields.get(number) ?? []), value])
  }
  return fields
}

const messages = (fields: Fields, number: number) => (fields.get(number) ?? []).map(each => fieldsOf(each as Buffer))
const bytesIn = (fields: Fields, number: number) => (fields.get(number)?.[0] ?? Buffer.alloc(0)) as Buffer
const textIn = (fields: Fields, number: number) => bytesIn(fields, number).toString('utf8')
const numberIn = (fields: Fields, number: number) => (fields.get(number)?.[0] ?? 0n) as bigint
const doubleOf = (bits: bigint) => new Float64Array(BigUint64Array.of(bits).buffer)[0]!
const words = (bytes: Buffer) => Array.from({ length: bytes.length / 8 }, (_, at) => bytes.readBigUInt64LE(8 * at))

function anyValue(fields: Fields): unknown {
  if (fields.has(1)) return textIn(fields, 1)
  if (fields.has(2)) return numberIn(fields, 2) === 1n
  if (fields.has(3)) return Number(BigInt.asIntN(64, numberIn(fields, 3)))
  if (fields.has(4)) return doubleOf(numberIn(fields, 4))
  return messages(fieldsOf(bytesIn(fields, 5)), 1).map(anyValue)
}

const protoAttributes = (fields: Fields, number: number) =>
  Object.fromEntries(messages(fields, number).map(pair => [textIn(pair, 1), anyValue(fieldsOf(bytesIn(pair, 2)))]))

function protoSpans(body: Buffer): ReceivedSpan[] {
  return messages(fieldsOf(body), 1).flatMap(resourceSpans =>
    messages(resourceSpans, 2).flatMap(scopeSpans =>
      messages(scopeSpans, 2).map(span => ({
        traceId: bytesIn(span, 1).toString('hex'),
        spanId: bytesIn(span, 2).toString('hex'),
        parentId: bytesIn(span, 4).toString('hex'),
        state: textIn(span, 3),
        name: textIn(span, 5),
        kind: Number(numberIn(span, 6)),
        start: numberIn(span, 7),
        end: numberIn(span, 8),
        status: Number(numberIn(fieldsOf(bytesIn(span, 15)), 3)),
        attributes: protoAttributes(span, 9),
        resource: protoAttributes(fieldsOf(bytesIn(resourceSpans, 1)), 1),
      })),
    ),
  )
}

function protoPoints(body: Buffer): ReceivedPoint[] {
  return messages(fieldsOf(body), 1).flatMap(resourceMetrics =>
    messages(resourceMetrics, 2).flatMap(scopeMetrics =>
      messages(scopeMetrics, 2).flatMap(metric => {
        const histogram = fieldsOf(bytesIn(metric, 9))
        return messages(histogram, 1).map(point => ({
          metric: textIn(metric, 1),
          unit: textIn(metric, 3),
          temporality: Number(numberIn(histogram, 2)),
          count: Number(numberIn(point, 4)),
          sum: doubleOf(numberIn(point, 5)),
          counts: words(bytesIn(point, 6)).map(Number),
          bounds: words(bytesIn(point, 7)).map(doubleOf),
          attributes: protoAttributes(point, 9),
          resource: protoAttributes(fieldsOf(bytesIn(resourceMetrics, 1)), 1),
        }))
      }),
    ),
  )
}
