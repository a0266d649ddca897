/** policies/COMPANY.md: its files load without a warning, and its policy tests pass. */
import { beforeAll, expect, test } from 'vitest'
import { parse } from 'yaml'
import { runCommand } from './helpers/command.ts'
import { temporaryDirectory } from './helpers/gateway.ts'
import { type Sample, samplesOf } from './helpers/repository.ts'
import { writeSample } from './helpers/walk.ts'

const samples = samplesOf('policies/COMPANY.md')
const names = samples.flatMap(({ text }) => Array.from(text.matchAll(/\$\{(\w+)\}/g), ([, name]) => name!))
const env = Object.fromEntries(
  names.map(name => [name, name.endsWith('_URL') ? 'https://hooks.example.com/a' : `sk-0123456789-${name}`]),
)
const commands = samples.filter(({ language }) => language === 'sh').flatMap(({ text }) => text.trim().split('\n'))
let folder: string

beforeAll(async () => {
  folder = await temporaryDirectory()
  for (const sample of samples.filter(({ language }: Sample) => language === 'yaml')) writeSample(folder, sample)
})

test.each([
  ['check', /^OK: 4 providers, 6 models, /m],
  ['test', /^6 tests passed/m],
])('npx tollgate %s', async (command, output) => {
  expect(commands).toContain(`npx tollgate ${command}`)
  const { code, out, err } = await runCommand(folder, [command], { env })
  expect({ code, err }, out).toEqual({ code: 0, err: '' })
  expect(out).toMatch(output)
  expect(out).not.toMatch(/warning/i)
})

test('the gateway.yaml of the page has three plans', () => {
  const [gateway] = samples
  expect(Object.keys((parse(gateway!.text) as { plans: object }).plans)).toHaveLength(3)
})
