/** `telemetry` of gateway.yaml: where OpenTelemetry's data goes, and how much of it. */
export interface TelemetryConfig {
  /** Of the collector, without a slash at its end. */
  readonly endpoint: string
  readonly protocol: 'protobuf' | 'json'
  /** The share of traces that are recorded of those that begin here: 0 to 1. */
  readonly ratio: number
  /** Lower-case names; values may be secrets, and are never logged. */
  readonly headers: Readonly<Record<string, string>>
  /** Whether metrics are exported beside traces. */
  readonly metrics: boolean
  /** Of the resource: `service.name` and whatever the operator says. */
  readonly attributes: Readonly<Record<string, string>>
}
