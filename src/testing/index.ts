/** What plugin authors test with: `tollgate/testing`. */
export type { Fault, ScriptedAnswer, ScriptedUsage } from './answers.ts'
export {
  type Bench,
  type BenchLedger,
  type BenchOptions,
  type ChatOptions,
  openBench,
  STANDARD_STEPS,
} from './bench.ts'
export { ConformError, type ConformFailure, type ConformOptions, type ConformReport, conform } from './conform.ts'
export type { BenchRecord, LogEntry, Recovered } from './gateway.ts'
export type { Script, ScriptedUpstream, UpstreamCall } from './upstream.ts'
export type { BenchAnswer, BenchRequest } from './visit.ts'
