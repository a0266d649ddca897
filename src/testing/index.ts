/** The test tools for plugin authors: `tollgate/testing`. */
export type { Fault, ScriptedAnswer, ScriptedUsage } from '../simulate/answers.ts'
export type { Script, ScriptedUpstream, UpstreamCall } from '../simulate/upstream.ts'
export type { BenchAnswer, BenchRequest } from '../simulate/visit.ts'
export type { BenchRecord, LogEntry, RecoveryResult } from '../simulate/whole-gateway.ts'
export {
  type Bench,
  type BenchLedger,
  type BenchOptions,
  type ChatOptions,
  openBench,
  STANDARD_STEPS,
} from './bench.ts'
export { ConformError, type ConformFailure, type ConformOptions, type ConformReport, conform } from './conform.ts'
