/** Broken `telemetry` of gateway.yaml, in the form of gateway-rows.ts. */
import type { Row } from './gateway-rows.ts'
import type { Gateway } from './workshop.ts'

const telemetry = (text: string): Gateway => ({ more: `telemetry:\n${text}` })
const COLLECTOR = '  endpoint: https://collector.example.com'

export const TELEMETRY: Row[] = [
  ['telemetry as a word', { more: 'telemetry: ▸on' }, 'telemetry must be a map, not "on"; its keys are '],
  ['telemetry without an endpoint', { more: 'telemetry: ▸{ ratio: 0.5 }' }, 'telemetry has no "endpoint"'],
  [
    'a collector without a scheme',
    telemetry('  endpoint: ▸collector:4318'),
    'is not an http:// or https:// URL; write it as http://collector:4318',
  ],
  [
    'a collector of another scheme',
    telemetry('  endpoint: ▸grpc://collector:4318'),
    'is not an http:// or https:// URL',
  ],
  ['a collector by gRPC', telemetry('  endpoint: ▸http://collector:4317'), 'the port of OTLP over gRPC'],
  [
    'a collector with the path of a signal',
    telemetry('  endpoint: ▸http://c.example/v1/traces/'),
    'endpoint is too long: the gateway appends /v1/traces and /v1/metrics',
  ],
  ['credentials of a collector', telemetry('  endpoint: ▸https://u:p@c.example'), 'endpoint contains credentials'],
  ['a collector with a query', telemetry('  endpoint: ▸https://c.example/?a=b'), 'has a query or a fragment'],
  [
    'an unknown protocol',
    telemetry(`${COLLECTOR}\n  protocol: ▸grpc`),
    'protocol: "grpc" is not one of protobuf or json',
  ],
  ['a ratio in percent', telemetry(`${COLLECTOR}\n  ratio: ▸5`), 'ratio must be at most 1, not 5'],
  ['a ratio as a word', telemetry(`${COLLECTOR}\n  ratio: ▸all`), 'ratio must be a number, not "all"'],
  ['a negative ratio', telemetry(`${COLLECTOR}\n  ratio: ▸-0.1`), 'ratio must be at least 0'],
  [
    'a token of a collector written out',
    telemetry(`${COLLECTOR}\n  headers: { authorization: ▸Bearer 0123456789 }`),
    'the header "authorization" is written in clear here',
  ],
  [
    'a token that would be sent unencrypted',
    telemetry('  endpoint: http://collector:4318\n  headers:\n    ▸authorization: Bearer ${FAR_KEY}'),
    'the header "authorization" would be sent unencrypted; use https for the endpoint',
  ],
  [
    'any secret that would be sent unencrypted',
    telemetry('  endpoint: http://collector:4318\n  headers:\n    ▸x-team: ${FAR_KEY}'),
    'the header "x-team" would be sent unencrypted',
  ],
  [
    'a header that the gateway sets',
    telemetry(`${COLLECTOR}\n  headers: { ▸content-type: a }`),
    'builds the header "content-type"',
  ],
  [
    'an attribute in capitals',
    telemetry(`${COLLECTOR}\n  attributes: { ▸Team: a }`),
    'must be up to 100 lower-case letters, digits, dots and underscores',
  ],
  ['an attribute that is a list', telemetry(`${COLLECTOR}\n  attributes: { team: ▸[ a ] }`), 'must be text'],
]
