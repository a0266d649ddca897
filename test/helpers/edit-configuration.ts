/** Changes the files of a gateway that runs in the test's process, as an operator does with an editor. */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { parse, stringify } from 'yaml'
import type { InProcess } from './in-process.ts'

/** The parts of gateway.yaml that tests change. */
export interface Yaml {
  [key: string]: unknown
  models: Record<string, { price: Record<string, string>; [key: string]: unknown }>
  providers: Record<string, Record<string, unknown>>
  routes: Record<string, unknown>[]
}

/** Changes gateway.yaml as data and writes it back. */
export function edit(gateway: InProcess, change: (yaml: Yaml) => void): void {
  const { file } = gateway.running.configuration
  const yaml = parse(readFileSync(file, 'utf8')) as Yaml
  change(yaml)
  writeFileSync(file, stringify(yaml))
}

/** A path beside gateway.yaml. */
export function beside(gateway: InProcess, path: string): string {
  return join(gateway.running.configuration.file, '..', path)
}

/** Writes the steps of the policy `test`. */
export function writeSteps(gateway: InProcess, steps: readonly object[]): void {
  writeFileSync(beside(gateway, 'policies/test.yaml'), stringify({ steps }))
}
