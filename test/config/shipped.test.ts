/** The shipped configuration and policies load with the shipped plugins. */
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, expect, test } from 'vitest'
import { loadConfiguration } from '../../src/config/load.ts'
import { POLICY_SCHEMA } from '../../src/config/policy-schema.ts'
import { GATEWAY_SCHEMA } from '../../src/config/schema.ts'
import { formatProblem } from '../../src/config/yaml/problem.ts'
import { createRegistry } from '../../src/loader/registry.ts'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const folder = mkdtempSync(join(tmpdir(), 'tollgate-shipped-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

async function load(file: string) {
  const names = readdirSync(join(ROOT, 'plugins'), { withFileTypes: true }).filter(entry => entry.isDirectory())
  const plugins = await Promise.all(names.map(({ name }) => import(`../../plugins/${name}/index.ts`)))
  const registry = createRegistry(plugins.map(module => module.default))
  const result = await loadConfiguration(file, { env: { OPENAI_API_KEY: 'not-a-real-key' }, registry, warn: {} })
  const problems = 'problems' in result ? result.problems : result.warnings
  expect(problems.map(each => formatProblem(each))).toEqual([])
  if ('problems' in result) throw new Error('unreachable')
  return result.configuration
}

test('the quick start uses only the demo provider', async () => {
  const { models, aliases, routes, providers } = await load(join(ROOT, 'gateway.yaml'))
  expect([...providers.values()].map(provider => provider.dialect)).toEqual(['demo'])
  expect(models.get('demo-small')).toMatchObject({ reasoning: false, price: expect.anything() })
  expect(models.get('demo-reasoning')).toMatchObject({ reasoning: true, price: expect.anything() })
  expect(Object.fromEntries(aliases)).toEqual({ 'demo-thinking': 'demo-reasoning' })
  expect(routes[0]).toMatchObject({ path: '/v1/chat/completions', policy: 'standard', public: false, unmetered: false })
})

test('the commented lines of the quick start are valid', async () => {
  const text = readFileSync(join(ROOT, 'gateway.yaml'), 'utf8')
  const commentedIn = text.replaceAll(
    /^ {2}# ( *(?:openai|chat-small|dialect|base_url|api_key|targets|price|context|max_output):.*| {4}- .*)$/gm,
    '  $1',
  )
  cpSync(join(ROOT, 'policies'), join(folder, 'policies'), { recursive: true })
  writeFileSync(join(folder, 'gateway.yaml'), commentedIn)
  const { models, providers } = await load(join(folder, 'gateway.yaml'))
  expect(providers.get('openai')).toMatchObject({ dialect: 'openai', credentials: ['not-a-real-key'] })
  expect(models.get('chat-small')).toMatchObject({ targets: [{ provider: 'openai' }] })
})

test.each([
  ['standard', ''],
  ['free-tier', ''],
  ['open', 'public: true, unmetered: true'],
])('the policy %s', async (policy, more) => {
  const route = `- { path: /v1/chat/completions, policy: ${policy}, ${more} }`
  const text = readFileSync(join(ROOT, 'gateway.yaml'), 'utf8').replace(/- \{ path.*\}/, route)
  cpSync(join(ROOT, 'policies'), join(folder, 'policies'), { recursive: true })
  writeFileSync(join(folder, 'gateway.yaml'), text)
  const { routes } = await load(join(folder, 'gateway.yaml'))
  expect(routes[0]!.policy).toBe(policy)
})

test('every key has a description for the reference', () => {
  const bare: string[] = []
  const walk = (schema: unknown, path: string) => {
    if (typeof schema !== 'object' || schema === null) return
    const { properties, items, additionalProperties, else: other } = schema as Record<string, object>
    for (const [key, property] of Object.entries(properties ?? {})) {
      const { description } = property as { description?: string }
      if (!description?.endsWith('.')) bare.push(`${path}.${key}`)
      walk(property, `${path}.${key}`)
    }
    for (const inner of [items, additionalProperties, other]) walk(inner, path)
  }
  walk(GATEWAY_SCHEMA, 'gateway')
  walk(POLICY_SCHEMA, 'policy')
  expect(bare).toEqual([])
})
