/** `telemetry` of gateway.yaml: the collector of OpenTelemetry data, and what is sent. */
export interface TelemetryConfig {
  /** The URL of the collector, without a slash at its end. */
  readonly endpoint: string
  readonly protocol: 'protobuf' | 'json'
  /** The recorded share of the traces that begin here: 0 to 1. */
  readonly ratio: number
  /** Lower-case names. Values may be secrets and are never logged. */
  readonly headers: Readonly<Record<string, string>>
  /** Whether metrics are exported beside traces. */
  readonly metrics: boolean
  /** Attributes of the resource: `service.name` and those of the operator. */
  readonly attributes: Readonly<Record<string, string>>
}
