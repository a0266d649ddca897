/** A digest of the configuration that answers depend on: replicas with equal digests may serve each other's answers. */
import { hash } from 'node:crypto'
import type { Configuration } from './configuration.ts'

export function answerDigest(
  configuration: Pick<Configuration, 'models' | 'aliases' | 'providers' | 'routes'>,
): string {
  const { models, aliases, providers, routes } = configuration
  const upstreams = [...providers.values()].map(({ name, dialect, baseUrl, azure }) => [name, dialect, baseUrl, azure])
  const policies = new Map(
    routes.map(({ steps }) => [
      steps.name,
      steps.steps.map(({ id, plugin, settings, mode, when }) => [id, plugin.name, settings, mode, when?.source]),
    ]),
  )
  const text = JSON.stringify([[...models], [...aliases], upstreams, [...policies]], (_name, value: unknown) =>
    typeof value === 'bigint' ? `${value}n` : value,
  )
  return hash('sha256', text, 'base64url').slice(0, 22)
}
