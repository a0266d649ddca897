/** `telemetry`: the collector for traces and metrics. */
import type { TelemetryConfig } from '../common/telemetry-config.ts'
import type { GatewayShape } from './file-shapes.ts'
import { isLoopback } from './listen-address.ts'
import { checkHeaders, SECRET_HEADER } from './providers.ts'
import { flag, map, text } from './schema-parts.ts'
import { pointer, type Source } from './yaml/source.ts'

export const TELEMETRY_SCHEMA = map(
  'OpenTelemetry: the collector that receives traces and GenAI metrics, by OTLP over HTTP. Default: nothing is exported.',
  {
    endpoint: text(
      'The base URL of the collector, such as http://127.0.0.1:4318. /v1/traces and /v1/metrics are appended.',
    ),
    protocol: { enum: ['protobuf', 'json'], description: 'The encoding.', default: 'protobuf' },
    ratio: {
      type: 'number',
      minimum: 0,
      maximum: 1,
      default: 1,
      description:
        'The share of traces beginning at Tollgate that are recorded. For a request with a traceparent header, the client decides.',
    },
    headers: {
      type: 'object',
      description: 'Additional headers for each request to the collector. Secrets as ${NAME} or ${file:PATH}.',
      additionalProperties: { type: 'string', description: 'The value of the header.' },
    },
    allow_insecure: flag('Allows secret headers over http:// to another machine, unencrypted.', false),
    metrics: flag('Whether the GenAI metrics are exported too.', true),
    attributes: {
      type: 'object',
      description: 'Resource attributes: deployment.environment.name and others. Default: service.name is tollgate.',
      propertyNames: {
        pattern: '^[a-z][a-z0-9_.]{0,99}$',
        sentence: 'must be up to 100 lower-case letters, digits, dots and underscores',
      },
      additionalProperties: { type: 'string', minLength: 1, description: 'The value of the attribute.' },
    },
  },
  { required: ['endpoint'] },
)

export const POLICY_TELEMETRY_SCHEMA = map(
  'The content of traces for this policy. It requires telemetry in gateway.yaml.',
  {
    content: flag(
      'Whether recorded traces contain the text of prompts and answers, with secrets replaced and long texts truncated.',
      false,
    ),
  },
  { default: {} },
)

/** Null without telemetry, or if a problem was reported. */
export function buildTelemetry(source: Source, shape: GatewayShape['telemetry']): TelemetryConfig | null {
  const sound = shape === undefined ? null : source.remains('/telemetry', shape)
  if (sound === null) return null
  const { headers = {}, allow_insecure: isInsecureAllowed = true } = sound
  checkHeaders(source, '/telemetry', { headers })
  if (sound.endpoint !== undefined) checkEndpoint(source, sound.endpoint)
  const url = sound.endpoint === undefined ? null : URL.parse(sound.endpoint)
  const secret = Object.keys(headers).find(
    name => SECRET_HEADER.test(name.toLowerCase()) || source.substituted(`/telemetry${pointer('headers', name)}`),
  )
  if (url?.protocol === 'http:' && !isLoopback(url.hostname) && secret !== undefined && !isInsecureAllowed) {
    source.report(`/telemetry${pointer('headers', secret)}`, `the header "${secret}" would be sent unencrypted`, {
      key: true,
      suggestion: 'use https for the endpoint, or write allow_insecure: true if you trust that network',
      concealed: true,
    })
  }
  if (!source.sound('/telemetry') || url === null) return null
  const { protocol, ratio, metrics, attributes = {} } = shape!
  return {
    endpoint: url.origin + url.pathname.replace(/\/+$/, ''),
    protocol,
    ratio,
    headers: Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value])),
    metrics,
    attributes,
  }
}

function checkEndpoint(source: Source, text: string): void {
  const at = '/telemetry/endpoint'
  const url = URL.parse(text)
  if (url === null || !/^https?:$/.test(url.protocol)) {
    const host = /^[\w.-]+:\d+$/.test(text) ? text : '127.0.0.1:4318'
    const suggestion = `write it as http://${host}`
    source.report(at, `endpoint ${source.show(at, text)} is not an http:// or https:// URL`, {
      suggestion,
    })
  } else if (url.username !== '' || url.password !== '') {
    const suggestion = 'put them in a header'
    source.report(at, 'endpoint contains credentials', { rule: 'written-secret', suggestion, concealed: true })
  } else if (url.search !== '' || url.hash !== '' || /[?#]$/.test(text)) {
    const suggestion = 'end it with its path'
    source.report(at, 'endpoint has a query or a fragment', { suggestion, concealed: true })
  } else if (/\/v1\/(traces|metrics|logs)\/?$/.test(url.pathname)) {
    const suggestion = 'end it before /v1'
    source.report(at, 'endpoint is too long: the gateway appends /v1/traces and /v1/metrics', { suggestion })
  } else if (url.port === '4317') {
    const suggestion = 'the usual port for HTTP is 4318'
    source.report(at, 'endpoint has the port of OTLP over gRPC, which is not supported', { suggestion })
  }
}
