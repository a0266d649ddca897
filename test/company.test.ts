/** policies/COMPANY.md: its files load without a warning, and its policy tests pass. */
import { beforeAll, expect, test } from 'vitest'
import { runCommand } from './helpers/command.ts'
import { temporaryDirectory } from './helpers/gateway.ts'
import { type Sample, samplesOf } from './helpers/repository.ts'
import { writeSample } from './helpers/walk.ts'

const samples = samplesOf('policies/COMPANY.md')
const env = Object.fromEntries(
  samples.flatMap(({ text }) => [...text.matchAll(/\$\{(\w+)\}/g)].map(([, name]) => [name!, `sk-0123456789-${name}`])),
)
const commands = samples.filter(({ language }) => language === 'sh').flatMap(({ text }) => text.trim().split('\n'))
let folder: string

beforeAll(async () => {
  folder = await temporaryDirectory()
  for (const sample of samples.filter(({ language }: Sample) => language === 'yaml')) writeSample(folder, sample)
})

test.each(commands)('%s', async command => {
  const { code, out, err } = await runCommand(folder, command.split(' ').slice(2), { env })
  expect({ code, err }, out).toEqual({ code: 0, err: '' })
  expect(out).not.toMatch(/warning/i)
})

test('the page has what it promises', async () => {
  expect(commands).toEqual(['npx tollgate check', 'npx tollgate test'])
  const { out } = await runCommand(folder, ['check'], { env })
  expect(out).toMatch(/^OK: 4 providers, 6 models, /m)
  expect(
    samples.find(({ text }) => text.startsWith('version'))!.text.match(/^ {2}(trial|office|engineering):$/gm),
  ).toHaveLength(3)
})
