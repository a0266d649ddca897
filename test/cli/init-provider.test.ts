import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { parse } from 'yaml'
import { sampleAccount } from '../../src/cli/import-litellm/clouds.ts'
import { SERVICE_ACCOUNT } from '../../src/cli/init-provider.ts'
import { VENDORS } from '../../src/providers/dialects/vendors.ts'
import { type Result, runCommand } from '../helpers/command.ts'

let folder: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'tollgate-init-'))
})
afterEach(() => rmSync(folder, { recursive: true, force: true }))

const read = (name: string) => readFileSync(join(folder, name), 'utf8')
const put = (name: string, text: string) => writeFileSync(join(folder, name), text)
const init = (...args: readonly string[]) => runCommand(folder, ['init', ...args])
const files = () =>
  readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter(each => each.isFile())
    .map(each => join(each.parentPath, each.name).slice(folder.length + 1))
    .sort()

/** Sample values that pass the checks. */
const SAMPLES: readonly (readonly [RegExp, string])[] = [
  [/_PRICE$/, '$1.25'],
  [/_BASE_URL$/, 'https://sample.example.com/v1'],
  [/_HOST$/, 'sample.example.com'],
  [/^AWS_REGION$/, 'eu-central-1'],
  [/^AZURE_.*MODEL$/, 'gpt-4o-mini'],
]

/** Writes `.env` with a value for each variable of `.env.example`, as a person does after `init`. */
function fillIn(): void {
  const names = existsSync(join(folder, '.env.example')) ? [...read('.env.example').matchAll(/^(\w+)=$/gm)] : []
  const lines = names.map(([, name]) => `${name}=${SAMPLES.find(([of]) => of.test(name!))?.[1] ?? 'sample'}\n`)
  put('.env', lines.join(''))
  if (read('gateway.yaml').includes(SERVICE_ACCOUNT)) put(SERVICE_ACCOUNT, sampleAccount())
}

describe('the written files pass check when their variables have values', () => {
  test.each(VENDORS.map(({ name }) => name))('%s', async name => {
    expect(await init('--provider', name)).toMatchObject({ code: 0, err: '' })
    fillIn()
    const { code, out, err } = await runCommand(folder, ['check'])
    expect({ code, err }, out).toEqual({ code: 0, err: '' })
    const notes = out
      .split('\n')
      .filter(line => line.includes('note:') && !line.includes('the price list has a new price'))
    expect(notes).toEqual([])
  })

  test('all providers in one gateway', async () => {
    expect(await init('--provider', VENDORS.map(({ name }) => name).join(','))).toMatchObject({ code: 0, err: '' })
    fillIn()
    expect(await runCommand(folder, ['check'])).toMatchObject({ code: 0, err: '' })
  })
})

test.each(['openai', 'openai,ollama'])('for %s, check reports only the missing variables', async names => {
  await init('--provider', names)
  const { code, out } = await runCommand(folder, ['check'])
  expect(code).toBe(1)
  const problems = [...out.matchAll(/^gateway\.yaml:\d+:\d+: (.*)$/gm)].map(([, sentence]) => sentence)
  expect(problems).toEqual(
    names.split(',').map(() => expect.stringMatching(/^the environment variable \w+ is not set$/)),
  )
})

describe('the files', () => {
  test('are few, and each variable of gateway.yaml is in .env.example', async () => {
    await init('--provider', 'openai,azure,bedrock,vertex,deepinfra,ollama')
    expect(files()).toEqual([
      '.env.example',
      '.gitignore',
      '.tollgate/schema.json',
      'gateway.yaml',
      'policies/standard.yaml',
    ])
    const used = [...read('gateway.yaml').matchAll(/\$\{(\w+)\}/g)].map(([, name]) => name)
    const offered = [...read('.env.example').matchAll(/^# \S.*\.\n(\w+)=$/gm)].map(([, name]) => name)
    expect([...new Set(used)].sort()).toEqual(offered.sort())
    expect(read('.gitignore').split('\n')).toEqual(expect.arrayContaining(['.env', '.tollgate/', SERVICE_ACCOUNT]))
  })

  test.each([
    ['openai', ['*']],
    ['gemini', ['gemini-*']],
    ['ollama', ['chat']],
    ['openai,anthropic,vllm', ['openai/*', 'anthropic/*', 'vllm/chat']],
  ])('of %s have the models %j', async (names, ids) => {
    await init('--provider', names)
    expect(Object.keys((parse(read('gateway.yaml')) as { models: object }).models)).toEqual(ids)
  })

  test('do not allow registration', async () => {
    await init('--provider', 'openai')
    expect(parse(read('gateway.yaml'))).not.toHaveProperty('registration')
  })
})

test('values of variables are neither printed nor copied, and a set variable needs no step', async () => {
  put('.env', 'GROQ_API_KEY=gsk-in-the-file\nMISTRAL_API_KEY=\n')
  const args = ['init', '--provider', 'openai,groq,mistral']
  const { out, err } = await runCommand(folder, args, { env: { OPENAI_API_KEY: 'sk-in-the-environment' } })
  expect(out).toContain('Already set in the environment or in .env: OPENAI_API_KEY, GROQ_API_KEY\n')
  expect(out).toContain('Put MISTRAL_API_KEY into .env')
  const texts = [out, err, ...files().flatMap(name => (name === '.env' ? [] : [read(name)]))]
  for (const text of texts) expect(text).not.toMatch(/gsk-in|sk-in/)
})

test.each(['.env.example', 'gateway.yaml'])('nothing is written if %s exists', async name => {
  put(name, 'mine\n')
  expect(await init('--provider', 'openai')).toMatchObject({
    code: 1,
    err: expect.stringContaining(`error: ${name} is already there; nothing was written.`),
  })
  expect(files()).toEqual([name])
})

test.each([
  ['openia', 'The provider "openia" is unknown. Did you mean "openai"? The names are: openai, anthropic, '],
  ['openai,zzz', 'The provider "zzz" is unknown. The names are: openai, anthropic, '],
  ['openai,', 'It must be names separated by commas:'],
])('--provider %s is a mistake in the command line', async (names, message) => {
  expect(await init('--provider', names)).toMatchObject({ code: 2, err: expect.stringContaining(message) })
  expect(files()).toEqual([])
})

describe('at a terminal', () => {
  /** Runs init at a terminal where a person types these lines. */
  async function runInit(lines: readonly string[], env = {}): Promise<Result & { questions: number }> {
    const left = [...lines]
    const ask = async () => left.shift()!
    return { ...(await runCommand(folder, ['init'], { ask, env })), questions: lines.length - left.length }
  }
  const providers = () => Object.keys((parse(read('gateway.yaml')) as { providers: object }).providers)

  test.each([
    ['numbers', '1, 2', ['openai', 'anthropic']],
    ['names', 'groq,cohere', ['groq', 'cohere']],
    ['both', '13,lm-studio', ['ollama', 'lm-studio']],
    ['nothing', '', ['demo']],
  ])('the answer may have %s', async (_, answer, expected) => {
    expect(await runInit([answer])).toMatchObject({ code: 0, questions: 1 })
    expect(providers()).toEqual(expected)
  })

  test('a wrong answer is explained, and the question is repeated', async () => {
    const { out, code, questions } = await runInit(['99', 'openia', '1'])
    expect({ code, questions }).toEqual({ code: 0, questions: 3 })
    expect(out).toContain('The provider "99" is unknown.')
    expect(out).toContain('Did you mean "openai"?')
    expect(providers()).toEqual(['openai'])
  })

  test('the list marks the providers whose key is set', async () => {
    const { out } = await runInit(['1'], { ANTHROPIC_API_KEY: 'sk-ant-secret' })
    expect(out).toContain('  Anthropic (ANTHROPIC_API_KEY is set)\n')
    expect(out.match(/ is set/g)).toHaveLength(1)
    expect(out).not.toContain('sk-ant-secret')
  })

  test('if gateway.yaml exists, no question is asked', async () => {
    put('gateway.yaml', 'mine\n')
    expect(await runInit(['1'])).toMatchObject({ code: 1, questions: 0 })
  })
})

test.each([
  ['check'],
  ['exposure'],
  ['explain', '/v1/chat/completions'],
  ['account', 'list'],
  ['key', 'list'],
  ['person', 'list'],
  ['token', 'list'],
])('%s %s reads .env beside the configuration', async (...args) => {
  await init('--provider', 'ollama', 'inner')
  put('inner/.env', 'OLLAMA_MODEL=llama3.2\n')
  const { code, out, err } = await runCommand(folder, [...args, '-c', 'inner/gateway.yaml'])
  expect({ code, err }, out).toEqual({ code: 0, err: '' })
})
