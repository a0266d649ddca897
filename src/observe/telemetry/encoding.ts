/**
 * Encodes OTLP with OpenTelemetry's own package, as protobuf or JSON. The package is loaded only if telemetry is configured (90 ms,
 * 28 MiB).
 */
import type { JsonMetricsSerializer, JsonTraceSerializer } from '@opentelemetry/otlp-transformer'

/** A span, in the shape that the encoder takes. */
export type EncodableSpan = Parameters<typeof JsonTraceSerializer.serializeRequest>[0][number]
/** All metrics of a process or thread, in the shape that the encoder takes. */
export type MetricsExport = Parameters<typeof JsonMetricsSerializer.serializeRequest>[0]

/** Seconds and nanoseconds. */
export type HrTime = [number, number]

export interface Encoding {
  readonly contentType: string
  spans(spans: EncodableSpan[]): Uint8Array
  metrics(metrics: MetricsExport): Uint8Array
  /** The number of spans, or data points, that the collector rejected from a request that it answered with 200, and the reason. */
  rejected(signal: Signal, answer: Uint8Array): { readonly count: number; readonly message: string }
}

export type Signal = 'traces' | 'metrics'

export async function loadEncoding(protocol: 'protobuf' | 'json'): Promise<Encoding> {
  const otlp = await import('@opentelemetry/otlp-transformer')
  const [trace, metric] =
    protocol === 'json'
      ? [otlp.JsonTraceSerializer, otlp.JsonMetricsSerializer]
      : [otlp.ProtobufTraceSerializer, otlp.ProtobufMetricsSerializer]
  return {
    contentType: protocol === 'json' ? 'application/json' : 'application/x-protobuf',
    spans: spans => trace.serializeRequest(spans) ?? NOTHING,
    metrics: metrics => metric.serializeRequest(metrics) ?? NOTHING,
    rejected(signal, answer) {
      try {
        if (signal === 'metrics') {
          const { rejectedDataPoints, errorMessage } = metric.deserializeResponse(answer).partialSuccess ?? {}
          return { count: Number(rejectedDataPoints ?? 0), message: errorMessage ?? '' }
        }
        const { rejectedSpans, errorMessage } = trace.deserializeResponse(answer).partialSuccess ?? {}
        return { count: Number(rejectedSpans ?? 0), message: errorMessage ?? '' }
      } catch {
        // The collector accepted the request; its answer is not OTLP.
        return { count: 0, message: '' }
      }
    },
  }
}

const NOTHING = new Uint8Array()

/** @param ms milliseconds since the epoch, with fractions */
export function hrTime(ms: number): HrTime {
  const seconds = Math.floor(ms / 1000)
  return [seconds, Math.min(999_999_999, Math.round((ms - seconds * 1000) * 1e6))]
}
